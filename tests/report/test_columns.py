"""The columns of a table: kinds, ranges, and their place in X."""

from __future__ import annotations

import numpy as np
import pandas as pd

from probprop.report.dependence import columns_of_table
from probprop.table.encoding import TableEncoder

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


def test_each_column_has_its_kind_range_and_place() -> None:
    encoder = TableEncoder().fit(table())
    X = encoder.encode(table())
    columns = {column.name: column for column in columns_of_table(encoder, table())}
    assert list(columns) == list(table())
    assert {name: c.kind for name, c in columns.items()} == encoder.kinds
    for name, column in columns.items():
        np.testing.assert_array_equal(X[:, column.place], column.encode(table()[name]))
    assert columns["area"].cells.min() == 20.0
    assert columns["area"].is_curve
    assert not columns["rooms"].is_curve
    assert columns["rooms"].steps(1)[0] == [1.0, 2.0, 3.0]
    assert columns["district"].values[0] == "Mitte"
    assert columns["lift"].values == [False, True]
    assert columns["sold"].cells.max() == DAYS[-1]


def test_a_category_is_one_of_them_and_never_two() -> None:
    encoder = TableEncoder().fit(table())
    district = columns_of_table(encoder, table())[0]
    assert len(district.place) == 2
    np.testing.assert_array_equal(district.steps(1)[1].sum(axis=2), [[1.0], [1.0]])


def test_the_parts_of_a_date_move_together() -> None:
    encoder = TableEncoder().fit(table())
    sold = columns_of_table(encoder, table())[3]
    at, values = sold.steps(7)
    assert values.shape == (len(at), 7, len(sold.place))
    assert encoder["sold"].parts == ("year", "season", "weekday")
    for when, of_rows in zip(at, values, strict=True):
        year = 2024.0 + (when.day_of_year - 1 + when.hour / 24.0) / 366.0
        assert abs(of_rows[:, 0] - year).max() <= 1.0 / 366.0
        np.testing.assert_allclose(of_rows[:, 1], np.sin(2.0 * np.pi * of_rows[:, 0]), atol=1e-9)
        np.testing.assert_allclose(of_rows[:, 2], np.cos(2.0 * np.pi * of_rows[:, 0]), atol=1e-9)


def test_missing_values_and_unknown_categories_are_counted() -> None:
    encoder = TableEncoder().fit(table())
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
    [column] = columns_of_table(TableEncoder().fit(frame), frame)
    assert column.steps(1)[0] == [f"c{i:02}" for i in range(19, 7, -1)]
