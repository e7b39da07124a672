"""`TableEncoder`: what it makes of the columns of a table, of any library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from probprop import Candidate, PBPRegressor, PBPRegressorCV
from probprop.table import TableEncoder, TableError, UnknownCategoryWarning

N = 300


def table(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Return a table of every kind of column, with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "length": rng.normal(size=n).round(3),
            "rooms": rng.integers(1, 6, n),
            "city": rng.choice(["Bern", "Rom", "Ulm"], n),
            "new": rng.random(n) < 0.5,
            "sold": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1500, n), "D"),
            "weight": [f"{v:.1f} kg" for v in rng.uniform(50.0, 1200.0, n)],
        }
    )
    frame.loc[::7, "length"] = np.nan
    frame.loc[::9, "city"] = None
    return frame


def of_one(values: Any, **options: Any) -> TableEncoder:
    frame = pd.DataFrame({"c": values, "x": np.arange(float(len(values)))})
    return TableEncoder(**options).fit(frame)


@parametrize_with_checks([TableEncoder()])
def test_it_is_a_transformer_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


# ---- Tables of any library


LIBRARIES = [
    pl.from_pandas,
    pa.Table.from_pandas,
    lambda f: f.convert_dtypes(),
    lambda f: pa.Table.from_pandas(f).to_pandas(types_mapper=pd.ArrowDtype),
]


@pytest.mark.parametrize("of", LIBRARIES)
def test_the_library_does_not_matter(of: Any) -> None:
    expected = TableEncoder().fit(table())
    X = expected.transform(table())
    other = of(table())
    encoder = TableEncoder().fit(other)
    assert encoder.encoders_ == expected.encoders_
    assert_array_equal(encoder.transform(other), X, strict=True)
    assert_array_equal(expected.transform(other), X)
    assert encoder.feature_names_in_.tolist() == list(table())


def test_lazy_frames_and_arrays() -> None:
    lazy = pl.from_pandas(table()).lazy()
    assert_array_equal(TableEncoder().fit_transform(lazy), TableEncoder().fit_transform(table()))
    cells = np.array([["a", 1], ["b", 2], ["a", 3]], object)
    assert_array_equal(
        TableEncoder().fit_transform(cells), [[1.0, 0.0, 1.0], [0.0, 1.0, 2.0], [1.0, 0.0, 3.0]]
    )


def test_set_output_names_the_columns() -> None:
    encoder = TableEncoder().set_output(transform="pandas").fit(table())
    frame = encoder.transform(table())
    assert list(frame) == encoder.get_feature_names_out().tolist()
    assert frame.index.equals(table().index)
    assert clone(encoder).get_params() == encoder.get_params()


def test_one_hot_columns_of_many_levels_are_sparse_unless_a_frame_is_asked_for() -> None:
    codes = [None if i % 50 == 7 else f"k{i % 40}" for i in range(N)]
    frame = table().assign(code=codes)
    encoder = TableEncoder().fit(frame)
    X = encoder.transform(frame)
    assert isinstance(X, csr_array)
    assert X.nnz < 0.3 * np.prod(X.shape)
    named = clone(encoder).set_output(transform="pandas").fit_transform(frame)
    assert_array_equal(X.toarray(), named.to_numpy(), strict=True)
    first = "code=k0", "code=k39"
    at = [encoder.names.index(name) for name in first]
    assert_array_equal(X[:, at].toarray()[:, 0], [code == "k0" for code in codes])
    with pytest.warns(UnknownCategoryWarning):
        new = (
            TableEncoder()
            .fit(frame[["code", "rooms"]].dropna())
            .transform(pd.DataFrame({"code": ["k1", "never"], "rooms": [1, 2]}))
        )
    assert np.isnan(new.toarray()[1, :-1]).all()
    for estimator in (
        PBPRegressorCV(2, candidates=[Candidate(4, 5)], random_state=0),
        PBPRegressor(n_epochs=2, missing="marginalize", random_state=0),
    ):
        y = np.arange(float(N))
        piped = make_pipeline(TableEncoder(), clone(estimator)).fit(frame, y)
        dense = clone(estimator).fit(named.to_numpy(), y)
        assert_array_equal(piped.predict(frame), dense.predict(named.to_numpy()))


def test_names_that_differ_are_refused() -> None:
    encoder = TableEncoder().fit(table())
    with pytest.raises(ValueError, match="feature names should match"):
        encoder.transform(table().rename(columns={"city": "town"}))


# ---- Categories


def test_a_missing_category_is_a_level_and_an_unseen_one_the_pool() -> None:
    values = ["a"] * 150 + ["b"] * 140 + ["c", "d", "e"] + [None] * 7
    encoder = of_one(values)
    assert encoder["c"].levels == ("a", "b", "(other)", "(missing)")
    new = pd.DataFrame({"c": ["a", "d", "never", None], "x": 1.0})
    assert_array_equal(encoder.transform(new)[:, :4], np.eye(4)[[0, 2, 2, 3]])


def test_without_a_pool_an_unseen_category_is_missing() -> None:
    encoder = of_one(["a", "b"] * 20)
    with pytest.warns(UnknownCategoryWarning, match=r"'c' \(1 row with 'z'\).*treated as missing"):
        X = encoder.transform(pd.DataFrame({"c": ["b", "z"], "x": 1.0}))
    assert_array_equal(X[:, :2], [[0.0, 1.0], [np.nan, np.nan]])


def test_thousands_of_levels_are_pooled_or_dropped() -> None:
    assert len(of_one([f"v{i % 2661}" for i in range(30_000)])["c"].levels) == 2661
    levels = of_one([f"v{i % 3001}" for i in range(30_000)])["c"].levels
    assert len(levels) == 3001
    assert levels[-1] == "(other)"
    rare = of_one([f"v{i % 2661}" for i in range(6_000)])
    assert rare.dropped == ["dropped 'c': its 2,661 distinct values are all rare"]


@pytest.mark.parametrize("given", [["rooms"], [1], [False, True, False, False, False, False]])
def test_categories_that_are_numbers(given: Any) -> None:
    encoder = TableEncoder(categorical_features=given).fit(table())
    assert encoder["rooms"].levels == ("1", "2", "3", "4", "5")
    frame = table().astype({"rooms": "category"})
    assert TableEncoder().fit(frame)["rooms"].levels == encoder["rooms"].levels


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["room"], "no column 'room'"),
        ([6], r"\[0, n_features - 1\] = \[0, 5\]"),
        ([True, False], r"should have shape \(6,\)"),
    ],
)
def test_categorical_features_that_there_are_not(given: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        TableEncoder(categorical_features=given).fit(table())


def test_ordered_categories_have_their_rank_and_their_levels() -> None:
    dtype = pd.CategoricalDtype(["S", "M", "L", "XL"], ordered=True)
    values = pd.Series(np.resize(["L", "S", "M", None], 60), dtype=dtype)
    encoder = of_one(values)
    assert encoder.names == ["c=S", "c=M", "c=L", "c=(missing)", "c.rank", "x"]
    assert encoder.columns_.set_index("column")["encoding"]["c"] == "rank, one-hot"
    new = pd.DataFrame({"c": pd.Series(["M", None, "L"], dtype=dtype), "x": 1.0})
    expected = [[0, 1, 0, 0, 1], [0, 0, 0, 1, np.nan], [0, 0, 1, 0, 2]]
    assert_array_equal(encoder.transform(new)[:, :5], expected)
    assert_array_equal(encoder.transform(new.astype({"c": object}))[:, :5], expected)
    with pytest.warns(UnknownCategoryWarning, match="'XL'"):
        X = encoder.transform(new.assign(c=pd.Series(["XL"] * 3, dtype=dtype)))
    assert_array_equal(X[0, :5], [np.nan] * 4 + [3.0])
    levels = pl.Enum(["S", "M", "L", "XL"])
    given = pl.DataFrame(
        {
            "c": pl.Series(np.resize(["L", "S", "M", None], 60).tolist(), dtype=levels),
            "x": np.arange(60.0),
        }
    )
    for frame in (given, given.to_arrow()):
        assert TableEncoder().fit(frame).encoders_ == encoder.encoders_
    assert not of_one(values.cat.as_unordered())["c"].ranks


@pytest.mark.parametrize(
    ("n_missing", "said"), [(19, False), (20, True), (280, True), (281, False)]
)
def test_an_input_says_whether_a_number_is_missing_if_it_often_is(
    n_missing: int, said: bool
) -> None:
    x = np.where(np.arange(N) < n_missing, np.nan, np.arange(N) / 7.0)
    encoder = of_one(x)
    assert encoder.names == (["c", "c=(missing)", "x"] if said else ["c", "x"])
    for column in (x, pd.Series(x, dtype="Float64"), [f"{v} m" if v == v else None for v in x]):
        X = encoder.transform(pd.DataFrame({"c": column, "x": 1.0}))
        assert_array_equal(X[:, 0], x)
        if said:
            assert_array_equal(X[:, 1], np.isnan(x))


# ---- Numbers, codes and dates as they come


def test_numbers_with_a_unit() -> None:
    encoder = of_one(["106.4 kg", "7 kg", "1,250 kg", None])
    assert encoder["c"].kind == "number"
    assert_array_equal(
        encoder.transform(pd.DataFrame({"c": ["3 kg", "2.5 kg"], "x": 0.0}))[:, 0], [3.0, 2.5]
    )
    assert of_one(["5 kg", "6 g"] * 3)["c"].kind == "text"


def test_one_zip_code_makes_a_column_text() -> None:
    codes = [str(98_000 + i % 40) for i in range(399)]
    encoder = of_one([*codes, "98115-4820"])
    assert encoder["c"].kind == "text"
    assert of_one(codes)["c"].kind == "number"
    assert of_one(["02134", "02135"] * 30)["c"].kind == "text"
    with pytest.raises(TableError, match=r"'c' must contain finite numbers, but has '12\.x'"):
        of_one([*(f"{i}.5" for i in range(99)), "12.x"])


def test_dates_with_a_clock_of_one_digit() -> None:
    encoder = of_one(["9/30/1990 0:00:00", "12/1/1991 9:05:00"] * 10)
    assert (encoder["c"].kind, encoder["c"].order) == ("date", "month")
    assert encoder.columns_["encoding"][0] == "year, season (cyclic), hour (cyclic), month first"
    X = encoder.transform(pd.DataFrame({"c": ["9/30/1990 0:00:00"], "x": 0.0}))
    assert X[0, 0] == pytest.approx(1990.0 + 272.0 / 365.0)


def test_durations_periods_times_of_the_day_and_sparse_columns() -> None:
    when = pd.date_range("2021-01-01", periods=40, freq="7h")
    frame = pd.DataFrame(
        {
            "late": (when - when[0]).where(np.arange(40) != 3),
            "month": pd.period_range("2021-01", periods=40, freq="M"),
            "clock": when.time,
            "rare": pd.arrays.SparseArray(np.arange(40) % 5 == 0, dtype="Sparse[float64]"),
        }
    )
    usual = pd.DataFrame(
        {
            "late": (when - when[0]) / pd.Timedelta(days=1),
            "month": pd.date_range("2021-01-01", periods=40, freq="MS"),
            "clock": [f"{time:%H:%M}".removeprefix("0") for time in when],
            "rare": 1.0 * (np.arange(40) % 5 == 0),
        }
    )
    usual.loc[3, "late"] = np.nan
    encoder = TableEncoder().fit(frame)
    assert [*encoder.kinds.values()] == ["number", "date", "date", "number"]
    assert "clock.hour_sin" in encoder.names
    assert encoder.encoders_ == TableEncoder().fit(usual).encoders_
    X = encoder.transform(frame)
    assert_array_equal(encoder.transform(usual), X)
    for of in (pl.from_pandas, pa.Table.from_pandas):
        assert_array_equal(encoder.transform(of(frame.assign(**usual[["month", "rare"]]))), X)


def test_time_of_year_weekday_and_hour_are_cyclic() -> None:
    when = pd.date_range("2021-01-01", "2024-12-31 23:00", freq="h").to_series()
    encoder = of_one(when.to_numpy())
    names = [
        f"c.{part}_{wave}" for part in ("season", "weekday", "hour") for wave in ("sin", "cos")
    ]
    assert encoder.names == ["c.year", *names, "x"]
    ends = pd.to_datetime(["2023-12-31 23:59:59.999", "2024-01-01 00:00:00.000"])
    X = encoder.transform(pd.DataFrame({"c": ends, "x": 0.0}))
    apart = ["c.year", "c.season_sin", "c.season_cos", "c.hour_sin", "c.hour_cos"]
    at = [encoder.names.index(name) for name in apart]
    assert_allclose(X[0, at], X[1, at], atol=1e-6)
    assert_allclose(X[:, 1] ** 2 + X[:, 2] ** 2, 1.0)
    one_day = of_one(pd.date_range("2024-01-01", periods=20, freq="h"))
    assert "weekday" not in one_day["c"].parts


def test_numbers_among_other_texts_are_noted() -> None:
    several = of_one(["5 kg", "6 g"] * 30)
    assert several.notes == ["'c': read as text, since its values have units such as 'kg' and 'g'"]
    assert "read as text" in several.columns_.set_index("column")["encoding"]["c"]
    many = of_one([f"{i} g" if i % 9 == 1 else f"{i} kg" for i in range(200)])
    assert many.dropped[0].endswith("(200 distinct values in 200 rows); " + several.notes[0][5:])
    assert not of_one(["a", "b", "3"] * 20).notes
    assert not of_one(["1a", "2b", "3"] * 20).notes


def test_a_date_given_twice_is_used_once() -> None:
    frame = table().assign(again=lambda f: f["sold"].dt.strftime("%Y-%m-%d"))
    encoder = TableEncoder().fit(frame)
    assert encoder.dropped == ["dropped 'again': the same dates as 'sold'"]


# ---- What is dropped, and what is noted


@pytest.mark.parametrize("name", ["rownames", "Order", "PID", "id", "customer_id", "houseId"])
def test_columns_that_count_the_rows(name: str) -> None:
    frame = table().assign(**{name: np.random.default_rng(0).permutation(N) + 1})
    encoder = TableEncoder().fit(frame)
    words = f"dropped {name!r}: looks like an identifier (300 distinct values in 300 rows)"
    assert encoder.dropped == [words]
    assert name not in "".join(encoder.names)
    assert not TableEncoder(drop_identifiers=False).fit(frame).dropped
    assert not TableEncoder().fit(frame.assign(**{name: np.arange(N) // 2})).dropped


def test_names_free_text_and_empty_columns() -> None:
    frame = table().assign(
        name=[f"house {i}" for i in range(N)],
        note=[f"a bright flat of {i} rooms near the park" for i in range(N)],
        empty=None,
    )
    assert TableEncoder().fit(frame).dropped == [
        "dropped 'name': looks like an identifier (300 distinct values in 300 rows)",
        "dropped 'note': free text of 9 words per value",
        "dropped 'empty': it has no value",
    ]
    with pytest.raises(TableError, match="leaves no feature to learn from"):
        TableEncoder().fit(frame[["name", "note"]])


def test_a_column_that_predicts_the_target_alone_is_a_possible_leak() -> None:
    frame = table().assign(price=lambda f: np.exp(f["rooms"] + 0.1 * f["length"].fillna(0.0)))
    y = 3.0 * frame["price"] + 1.0
    encoder = TableEncoder().fit(frame, y)
    assert encoder.notes == ["'price': possible leak, since it predicts the target almost alone"]
    labels = np.where(y > y.median(), "dear", "cheap")
    kind = np.where(labels == "dear", "A", "B")
    assert "'kind'" in TableEncoder().fit(table().assign(kind=kind), labels).notes[0]
    assert not TableEncoder().fit(table(), y).notes


def test_columns_is_a_table_of_the_decisions() -> None:
    columns = TableEncoder().fit(table().assign(id=range(N))).columns_.set_index("column")
    assert columns.loc["city"].tolist() == ["text", "one-hot", 4, 34]
    assert columns.loc["sold", "encoding"] == "year, season (cyclic), weekday (cyclic)"
    assert columns.loc["length"].tolist() == ["number", "as is, 1 if missing", 0, 43]
    assert columns.loc["id", "encoding"].startswith("dropped: looks like an identifier")
