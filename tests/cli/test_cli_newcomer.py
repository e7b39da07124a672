"""Exports of banks, shops and offices: read as intended, or one line that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose

import probprop
from cli_tables import call
from probprop.table import read_table
from probprop.table.cells import amounts, order_of

pytestmark = pytest.mark.usefixtures("in_tmp_path")

Captured = pytest.CaptureFixture[str]

N = 60
RNG = RandomState(0)
SPENT = RNG.uniform(1e3, 9e6, N).round(2)
DAYS = pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.randint(0, 360, N), unit="D")
YES = RNG.choice(["yes", "no"], N)
FIT = "--target spent --fast --n-epochs 1 --hidden-layer-sizes 2 --test-fraction 0 -o m.pbp"


def comma(value: float) -> str:
    """Write a number as in Germany: 1.234,50."""
    return f"{value:,.2f}".translate(str.maketrans(",.", ".,"))


def bank() -> bytes:
    rows = [
        f'{day:%d.%m.%Y};Payment {i};{comma(x / 7)};"€ {comma(x)}";;'
        for i, (day, x) in enumerate(zip(DAYS, SPENT, strict=True))
    ]
    return "\r\n".join(["day;text;balance;spent;;", *rows, ";;;;;"]).encode("cp1252")


def shop() -> bytes:
    rows = [
        f'{day:%m/%d/%Y},"${x:,.2f}",{i % 20} %,{member}'
        for i, (day, x, member) in enumerate(zip(DAYS, SPENT, YES, strict=True))
    ]
    return "\n".join(["day,spent,tax,member", *rows]).encode("utf-8-sig")


def swiss() -> bytes:
    rows = [f"{i};CHF {x:,.2f}".replace(",", "'") for i, x in enumerate(SPENT)]
    return "\n".join(["number;spent", *rows]).encode()


def office() -> bytes:
    rows = [f'{i},"{i}","{x}","{YES[i]}"' for i, x in enumerate(SPENT)]
    rows[3] = '3,"n.a.","1.5","#DIV/0!"'
    return "\n".join([',"Size\n(cm)", spent ,member', *rows, ",,,", ""]).encode()


TABLES: dict[str, tuple[Callable[[], bytes], list[str], dict[str, str]]] = {
    "bank": (
        bank,
        [
            "note: numbers in 'spent', such as '€ ",
            "dropped 'text': looks like an identifier",
            "note: dropped 1 row without 'spent'",
        ],
        {"day": "date", "balance": "number"},
    ),
    "shop": (
        shop,
        ["numbers in 'tax', such as '10 %', are read as 10.0", "the month comes first in 'day'"],
        {"day": "date", "tax": "number", "member": "text"},
    ),
    "swiss": (swiss, ["numbers in 'spent', such as \"CHF "], {"number": "number"}),
    "office": (
        office,
        ["dropped 1 column without a name", "1 of 60 rows have missing numbers"],
        {"Size\n(cm)": "number", "member": "text"},
    ),
}


@pytest.mark.parametrize("kind", TABLES)
def test_it_works_at_the_first_try(kind: str, capfd: Captured) -> None:
    content, notes, kinds = TABLES[kind]
    Path("t.csv").write_bytes(content())
    assert call(f"fit t.csv {FIT} --report r.html") == 0
    said = capfd.readouterr().err
    for note in notes:
        assert note in said
    model = probprop.load("m.pbp")
    assert model.kinds == kinds
    frame = read_table("t.csv").dropna(subset="spent")
    expected = SPENT if kind != "office" else np.where(np.arange(N) == 3, 1.5, SPENT)
    assert_allclose(frame["spent"], expected)
    assert call("predict m.pbp t.csv -o out.pq -q") == 0
    assert call("evaluate m.pbp t.csv -q") == 0
    predicted = pd.read_parquet("out.pq")["mean"][: len(frame)]
    assert_allclose(predicted, model.predict(frame), rtol=1e-9)


def test_the_order_of_dates_matches_the_fit() -> None:
    Path("t.csv").write_bytes(shop())
    assert call(f"fit t.csv {FIT} -q") == 0
    model = probprop.load("m.pbp")
    row = read_table("t.csv")[:1]
    march, april = (model.encode(row.assign(day=day)) for day in ("3/4/2024", "2024-03-04"))
    assert_allclose(march, april)
    names = model.encoded_names
    assert march[0, names.index("day.year")] == pytest.approx(2024.0 + 63.0 / 366.0)


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["03/04/2024", "05/06/2024"], "in an unsupported or ambiguous form: write them as"),
        ([*map(str, range(N - 1)), "<5"], "has '<5' in row 60: write a number there, declare"),
        (["1,234", "5,678"], "has '1,234' in row 1 (and the like in rows 2, 3, 4, 5, 6"),
    ],
)
def test_what_may_mean_two_things_is_one_line(
    cells: list[str], message: str, capfd: Captured
) -> None:
    column = [cells[i % len(cells)] for i in range(N)]
    pd.DataFrame({"x": column, "spent": SPENT}).to_csv("t.csv", index=False)
    assert call(f"fit t.csv {FIT}") == 1
    assert message in capfd.readouterr().err


def test_a_title_above_the_header(capfd: Captured) -> None:
    Path("t.csv").write_text("Sales of 2024\n\na,spent\n" + "1,2\n" * 30)
    assert call(f"fit t.csv {FIT}") == 1
    assert "remove the lines above the header" in capfd.readouterr().err


def test_a_cell_beyond_the_last_name_is_not_lost(capfd: Captured) -> None:
    Path("t.csv").write_text("a,spent,,\n" + "1,2,,\n" * 30 + "1,2,,3\n")
    assert call(f"fit t.csv {FIT}") == 1
    assert "has more fields in a row where its header has 2" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,234.5", "1,234,567"], [1234.5, 1234567.0]),
        (["1.234,5", "1.234.567"], [1234.5, 1234567.0]),
        (["1 234", "12\u00a0345,5"], [1234.0, 12345.5]),
        (["-$5", "$-1,000.00", "7"], [-5.0, -1000.0, 7.0]),
        (["+7 %", "3.5 %"], [7.0, 3.5]),
        (["$5", "7 %"], None),
        (["1,234 USD", "5 USD"], [1234.0, 5.0]),
        (["3.5e3 m", "2 m"], [3500.0, 2.0]),
        (["1.234", "5"], None),  # or 1234
        (["12 34"], None),
        (["5 kg", "1,250.5 kg"], [5.0, 1250.5]),
        (["5 kg", "3 g"], None),
        (["N1A1"], None),
        (["1,23,456"], None),
        (["€"], None),
    ],
)
def test_amounts(texts: list[str], values: list[float] | None) -> None:
    found = amounts(pd.Series(texts))
    assert (None if found is None else found.tolist()) == values


@pytest.mark.parametrize(
    ("texts", "order"),
    [
        (["31.12.2024", "01.02.2024"], "day"),
        (["12/31/2024", "01/02/2024"], "month"),
        (["31/12/2024"], "day"),
        (["31/12/2024", "12/31/2024"], None),
        (["2024/12/31", "2024-01-01T10:00Z"], "day"),
        (["2024", "2024-01-01"], None),
        (["1-2-24"], None),
    ],
)
def test_orders(texts: list[str], order: str | None) -> None:
    assert order_of(pd.Series(texts)) == order
