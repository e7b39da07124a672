"""The columns of a table as a reader knows them: kinds, ranges, and their place in X."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from probprop.report.dependence import columns_of_array, columns_of_table, rows_of, unique
from probprop.table.encoding import fit_encoder

DAYS = pd.date_range("2024-01-01", periods=60, freq="D")


def table() -> pd.DataFrame:
    n = len(DAYS)
    return pd.DataFrame(
        {
            "district": ["Mitte", "Pankow", "Mitte"] * 20,
            "area": np.linspace(20.0, 137.0, n),
            "lift": [True, False] * 30,
            "sold": DAYS.strftime("%Y-%m-%d"),
            "rooms": [1, 2, 3] * 20,
        }
    )


def test_each_column_knows_its_kind_range_and_place() -> None:
    encoder, X = fit_encoder(table())
    columns = {column.name: column for column in columns_of_table(encoder, table())}
    assert list(columns) == list(table())
    assert {name: c.kind for name, c in columns.items()} == encoder.kinds
    for name, column in columns.items():
        np.testing.assert_array_equal(X[:, column.place], column.encode(table()[name]))
    assert columns["area"].ends[0] == 20.0
    assert columns["area"].is_curve
    assert not columns["rooms"].is_curve
    assert columns["rooms"].marks() == [1.0, 2.0, 3.0]
    assert columns["district"].values[0] == "Mitte"
    assert columns["lift"].values == [False, True]
    assert columns["sold"].ends == (DAYS[0], DAYS[-1])


def test_a_category_is_one_of_them_and_never_two() -> None:
    encoder, _ = fit_encoder(table())
    district = columns_of_table(encoder, table())[0]
    assert len(district.place) == 2
    np.testing.assert_array_equal(district.encode(district.marks()).sum(axis=1), [1.0, 1.0])


def test_the_parts_of_a_date_move_together() -> None:
    encoder, _ = fit_encoder(table())
    sold = columns_of_table(encoder, table())[3]
    at, values = sold.steps(7)
    assert values.shape == (len(at), 7, len(sold.place))
    days = encoder.parts["sold"].index("day_of_year")
    months = encoder.parts["sold"].index("month")
    for when, of_rows in zip(at, values, strict=True):
        assert abs(of_rows[:, days] - when.day_of_year).max() <= 1.0
        np.testing.assert_array_equal(of_rows[:, months], 1 + (of_rows[:, days] > 31) * 1.0)
    assert values[..., days].min() == 1.0
    assert values[..., days].max() == 59.0


def test_gaps_and_unknown_categories_are_counted() -> None:
    encoder, _ = fit_encoder(table())
    gaps = table().astype(object)
    gaps.loc[:3, "area"] = None
    gaps.loc[0, "district"] = "Spandau"
    columns = {column.name: column for column in columns_of_table(encoder, gaps)}
    assert len(gaps) - len(columns["area"].cells) == 4
    assert len(gaps) - len(columns["district"].cells) == 1
    assert columns["district"].values == ["Mitte", "Pankow"]


def test_many_categories_have_the_most_frequent_marked() -> None:
    names = [f"c{i:02}" for i in range(20) for _ in range(i + 1)]
    frame = pd.DataFrame({"kind": names})
    [column] = columns_of_table(fit_encoder(frame)[0], frame)
    assert column.marks() == [f"c{i:02}" for i in range(19, 7, -1)]


def test_an_array_is_a_table_of_numbers() -> None:
    X = np.column_stack([np.arange(30.0), np.where(np.arange(30) < 3, np.nan, 1.0)])
    first, second = columns_of_array(X, ["a", "b"])
    assert (first.place, second.place) == ((0,), (1,))
    assert len(X) - len(second.cells) == 3
    at, values = first.steps(5)
    assert values.shape == (50, 1, 1)
    assert at[0] == pytest.approx(0.29)


def test_what_does_not_belong_together_is_refused() -> None:
    encoder, X = fit_encoder(table())
    with pytest.raises(ValueError, match="give both, or neither"):
        rows_of(X, encoder.names, table=table())
    with pytest.raises(ValueError, match="Got 59 rows"):
        rows_of(X, encoder.names, table=table()[1:], encoder=encoder)


def test_names_that_occur_twice_are_told_apart() -> None:
    assert unique(["a", "a", "b", "a"]) == ["a", "a (2)", "b", "a (3)"]
