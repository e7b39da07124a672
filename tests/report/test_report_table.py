"""Reports of tables: a panel for each column, categories as a whole, rows with their cells."""

from __future__ import annotations

import re
import warnings
from functools import cache
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="the report needs the extra cli")
pytest.importorskip("matplotlib", reason="the report needs the extra cli")

from probprop import PBPClassifier, PBPRegressor
from probprop.facts import cell
from probprop.plot.parts import some_rows
from probprop.report import Section, render
from probprop.report.dependence import averaged, columns_of_table, panel_of
from probprop.report.sections import sections_and_ranking
from probprop.table import TableModel, fit_table_model
from probprop.table.encoding import TableNote

LEVELS = {"Mitte": 3.0, "Pankow": 1.0, "Spandau <b>": 0.0}


@cache
def flats() -> pd.DataFrame:
    rng = np.random.RandomState(0)
    n = 300
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20.0, 150.0, n),
            "district": rng.choice(list(LEVELS), n),
            "lift": rng.choice([True, False], n),
            "sold": pd.date_range("2022-01-01", periods=n, freq="2D").strftime("%Y-%m-%d"),
            "rooms": rng.randint(1, 6, n),
        }
    )
    level = frame["district"].map(LEVELS)
    frame["price"] = 1e6 * (0.02 * frame["area"] + level + 0.2 * rng.standard_normal(n))
    frame["cost"] = frame["area"] + rng.standard_normal(n)
    frame["dear"] = np.where(frame["price"] > 3.2e6, "yes", "no")
    frame["size"] = np.select(
        [frame["area"] < 50, frame["area"] < 90], ["small", "middle"], "large"
    )
    frame.loc[3, "price"] = 1.1e7  # a wrong cell
    frame.loc[5, "district"] = None
    return frame


@cache
def fitted(target: str) -> tuple[TableModel, pd.DataFrame]:
    features = ["area", "district", "lift", "sold", "rooms"]
    frame = flats()[[*features, *target.split(",")]]
    of_classes = target in ("dear", "size")
    estimator: Any = PBPClassifier if of_classes else PBPRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TableNote)  # the area decides about the classes
        model = fit_table_model(
            frame[10:],
            target.split(",") if "," in target else target,
            estimator=estimator(n_epochs=10, missing="marginalize", random_state=0),
        )
    return model, frame


@cache
def sections(target: str) -> dict[str, Section]:
    model, frame = fitted(target)
    made = sections_and_ranking(model, frame, held_out=None)[0]
    return {section.title: section for section in made}


def texts(section: Section, i: int) -> list[str]:
    return ["".join(e.itertext()) for e in ElementTree.fromstring(section.figures[i][0]).iter()]


def test_there_is_one_panel_for_each_column_of_the_table() -> None:
    panels = sections("price")["Partial dependence"]
    assert [re.findall(r"values of (\w+)\.", alt)[0] for _, alt in panels.figures][:2] == [
        "district",
        "area",
    ]
    assert len(panels.figures) == 5
    assert "all other columns unchanged" in panels.text
    assert "over 200 samples" in panels.text
    assert "All parts of a date (year, season, weekday, hour) change together" in panels.text
    assert "not a causal effect" in panels.text


def test_a_category_is_a_mark_with_its_name_and_its_rows() -> None:
    frame = flats()
    shown = texts(sections("price")["Partial dependence"], 0)
    for name in LEVELS:
        assert f"{name} ({(frame['district'] == name).sum()})" in shown


def test_axes_have_no_powers_of_ten() -> None:
    for section in sections("price").values():
        for i in range(len(section.figures)):
            assert not [text for text in texts(section, i) if re.fullmatch(r"1e\d+", text.strip())]


def test_a_panel_is_the_average_prediction_of_rows_whose_cell_was_replaced() -> None:
    """The oracle writes the category into the table, and lets the model encode it."""
    model, frame = fitted("price")
    X, _ = model.split(frame)
    column = next(c for c in columns_of_table(model.encoder, frame) if c.name == "district")
    found = panel_of(model.estimator, averaged(X), column)
    places = some_rows(len(X), 200)
    assert sorted(found.at) == sorted(LEVELS)
    for name, mean in zip(found.at, found.mean[:, 0], strict=True):
        moved = frame.iloc[places].assign(district=name)
        assert mean == pytest.approx(model.predict(moved).mean(), rel=1e-9)


@pytest.mark.filterwarnings("ignore:.area.. possible leak")
def test_classes_have_panels_and_a_ranking() -> None:
    two, three = sections("dear"), sections("size")
    assert len(two["Partial dependence"].figures) == 5
    assert "±2 epistemic" not in two["Partial dependence"].text
    assert two["Partial dependence"].figures[0][1].startswith("Probability of yes for")
    assert "The lines are the classes large, middle, small." in three["Partial dependence"].text
    header, rows = three["Feature importance"].table or ([], [])
    assert header == ["Column", "Log-loss rises by", "Accuracy falls by"]
    assert rows[0][0] == "area"
    assert re.fullmatch(r"\d\.\d+ ± \d\.\d+", rows[0][1])
    assert rows[0][2].endswith(" %")


def test_each_of_several_targets_has_its_own_ranking_and_panels() -> None:
    made = sections("price,cost")
    tables = {name: made[f"{name}: feature importance"].table for name in ("price", "cost")}
    first = {name: (table or ([], []))[1][0][0] for name, table in tables.items()}
    assert first == {"price": "district", "cost": "area"}
    for name in first:
        assert len(made[f"{name}: partial dependence"].figures) == 5


def test_the_rows_furthest_off_have_their_cells() -> None:
    model, frame = fitted("price")
    header, rows = sections("price")["Largest errors"].table or ([], [])
    assert header[:5] == ["Row", "Observed", "Predicted", "Std", "Off by [std]"]
    assert set(header[5:]) == {"area", "district", "lift", "sold", "rooms"}
    p: Any = model.predict_distribution(frame)
    off = (frame["price"].to_numpy() - p.mean) / p.std
    order = np.argsort(-np.abs(off))[:10]
    assert [int(row[0]) for row in rows] == (order + 1).tolist()
    assert rows[0][0] == "4"
    assert rows[0][1] == "11,000,000"
    assert float(rows[0][4].replace(",", "")) == pytest.approx(off[3], abs=0.06)
    assert rows[0][header.index("district")] == frame["district"][3]
    assert rows[0][header.index("sold")] == frame["sold"][3]


def test_the_page_is_whole_and_escapes_cells() -> None:
    page = render("Flats", list(sections("price").values()), footer="")
    assert "Spandau <b>" not in page
    assert "Spandau &lt;b&gt;" in page
    assert len(page) < 600_000


def test_cells_are_written_as_people_do() -> None:
    assert cell(np.bool_(True)) == "true"
    assert cell(np.int64(12)) == "12"
    assert cell(float("nan")) == "–"
    assert cell(-0.5) == "−0.5"
    assert cell("x" * 50) == "x" * 39 + "…"


def test_many_columns_show_the_most_important() -> None:
    rng = np.random.RandomState(0)
    frame = pd.DataFrame(rng.standard_normal((120, 20)), columns=[f"c{i:02}" for i in range(20)])
    frame["y"] = 3.0 * frame["c07"] + frame["c11"] + 0.1 * rng.standard_normal(120)
    model = fit_table_model(frame, "y", estimator=PBPRegressor(n_epochs=10, random_state=0))
    made = sections_and_ranking(model, frame, held_out=False)[0]
    by_title = {section.title: section for section in made}
    panels = by_title["Partial dependence"]
    assert len(panels.figures) == 12
    assert "The 12 most important of 20 columns are shown." in panels.text
    assert "c07" in panels.figures[0][1]
    assert "The 6 most important of 20 columns are shown." in by_title["Largest errors"].text
    assert len((by_title["Feature importance"].table or ([], []))[1]) == 15
