"""Models on tables: the encoding, and what is refused in which words."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal

import probprop
from probprop import PBPRegressor
from probprop.table import (
    TableError,
    TableModel,
    TableNote,
    UnknownCategoryWarning,
    fit_table_model,
    iter_table,
    read_table,
)

rng = RandomState(0)
N = 60
FRAME = pd.DataFrame(
    {
        "size": rng.choice(["S", "M", "L"], N),
        "x": rng.standard_normal(N),
        "new": rng.rand(N) > 0.5,
        "year": rng.randint(1990, 2020, N),
        "flat": np.ones(N),
        "only": ["same"] * N,
    }
)
FRAME["y"] = FRAME["x"] + (FRAME["size"] == "L") + 0.1 * rng.standard_normal(N)
FEATURES = ["size", "x", "new", "year", "flat", "only"]


def fit(frame: pd.DataFrame = FRAME, target: str = "y", **options: Any) -> TableModel:
    regressor = PBPRegressor((3,), n_epochs=2, random_state=0)
    return fit_table_model(frame, target, estimator=regressor, **options)


@pytest.fixture(scope="module")
def model() -> TableModel:
    return fit()


def with_column(name: str, values: Any) -> pd.DataFrame:
    return FRAME.assign(**{name: pd.Series(values, index=FRAME.index)})


def with_cell(name: str, row: int, value: Any) -> pd.DataFrame:
    column = FRAME[name].astype(object)
    column.iloc[row - 1] = value
    return FRAME.assign(**{name: column})


# ---- Encoding


def test_encoding_against_one_written_by_hand(model: TableModel) -> None:
    assert model.features == FEATURES
    assert model.encoded_names == [
        *("size=L", "size=M", "size=S", "x", "new", "year", "flat", "only=same")
    ]
    by_hand = np.column_stack(
        [FRAME["size"] == s for s in "LMS"]
        + [FRAME["x"], FRAME["new"], FRAME["year"], FRAME["flat"]]
        + [np.ones(N)]
    ).astype(float)
    assert_array_equal(model.encode(FRAME), by_hand, strict=True)
    X, y = model.split(FRAME)
    assert_array_equal(X, by_hand)
    assert_array_equal(y, FRAME["y"])
    direct = PBPRegressor((3,), n_epochs=2, random_state=0).fit(by_hand, FRAME["y"].to_numpy())
    predicted = model.predict_distribution(FRAME, student_t=True)
    assert predicted.dof is not None
    assert_array_equal(predicted.mean, direct.predict(by_hand))


def test_columns_are_matched_by_name_and_others_ignored(model: TableModel) -> None:
    shuffled = FRAME[["y", *reversed(FEATURES)]].assign(note="z", id=range(N))
    assert_array_equal(model.encode(shuffled), model.encode(FRAME))
    assert_array_equal(model.encode(FRAME.drop(columns="y")), model.encode(FRAME))


def test_text_of_a_file_gives_the_same_as_the_frame(tmp_path: Path, model: TableModel) -> None:
    csv, parquet = tmp_path / "t.csv", tmp_path / "t.parquet"
    FRAME.to_csv(csv, index=False)
    FRAME.to_parquet(parquet)
    expected = model.encode(FRAME)
    for read in (csv, parquet):
        for kinds in (None, model.kinds):
            assert_array_equal(model.encode(read_table(read, kinds=kinds)), expected)
            chunks = iter_table(read, chunk_rows=7, kinds=kinds)
            encoded = np.concatenate([model.encode(c) for c in chunks])
            assert_allclose(encoded, expected, rtol=0.0 if kinds else 1e-14)  # pandas 2 rounds


@pytest.mark.filterwarnings("ignore:'size'. read as text, since '2b' is not a number")
def test_categories_that_look_like_numbers_stay_text(tmp_path: Path) -> None:
    codes = np.resize(["01", "1", "1.0", "2b"], N)
    model = fit(with_column("size", codes))
    assert model.encoder["size"].levels == ("01", "1", "1.0", "2b")
    path = tmp_path / "t.csv"
    with_column("size", codes).iloc[:3].to_csv(path, index=False)
    for frame in (next(iter_table(path)), read_table(path, kinds=model.kinds)):
        assert_array_equal(model.encode(frame)[:, :3], np.eye(3))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pd.Categorical(np.resize([3, 1], N)), "text"),
        (pd.Categorical(np.resize(["b", "a"], N)), "text"),
        (np.array(np.resize([1, "a"], N), object), "text"),
        (pd.array(np.resize([1, 2], N), "Int64"), "number"),
        (np.array([decimal.Decimal(i) / 4 for i in range(N)], object), "number"),
        (pd.array(np.resize([True, False], N), "boolean"), "boolean"),
        (np.array([True, False] * (N // 2), object), "boolean"),
        (np.resize(["12:a", "2024-05"], N), "text"),
        (np.resize(["1-2", "3-4"], N), "text"),
        (np.resize(["May", "June"], N), "text"),
        (np.resize([*map(str, range(20)), "other"], N), "text"),
    ],
)
@pytest.mark.filterwarnings("ignore:'x'. read as text, since 'other' is not a number")
def test_kinds(values: Any, kind: str) -> None:
    frame = with_column("x", values)
    model = fit(frame)
    assert model.kinds["x"] == kind
    again = model.encode(frame)
    assert np.isfinite(again).all()
    if kind == "text":
        which = [name.startswith("x=") for name in model.encoded_names]
        assert_array_equal(again[:, which].sum(axis=1), np.ones(N))
    else:
        column = again[:, model.encoded_names.index("x")]
        assert_array_equal(column, [float(v) for v in frame["x"]])


def test_booleans_as_they_are_written(model: TableModel) -> None:
    for values in (["TRUE", "false"], [1, 0], ["1", "0"], [1.0, 0.0]):
        X = model.encode(FRAME[:2].assign(new=values))
        assert_array_equal(X[:, model.encoded_names.index("new")], [1.0, 0.0])


def test_unknown_categories_give_one_warning_and_zeros(model: TableModel) -> None:
    new = FRAME[:5].assign(size=["S", "XL", "XL", "XXL", "M"], only="other")
    with pytest.warns(UnknownCategoryWarning) as caught:
        X = model.encode(new)
    assert [str(w.message) for w in caught] == [
        "Categories that the model was not fitted on in column 'size' (3 rows with 'XL', 'XXL'), "
        "'only' (5 rows with 'other'): they are treated as missing."
    ]
    assert model.encoder.unknown(new) == {"size": ["XL", "XL", "XXL"], "only": ["other"] * 5}
    assert model.encoder.unknown(FRAME) == {}
    assert_array_equal(X[:, :3], [[0, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 1, 0]])


def test_a_global_option_of_pandas_output_changes_nothing(model: TableModel) -> None:
    import sklearn

    with sklearn.config_context(transform_output="pandas"):
        assert type(fit().encode(FRAME)) is np.ndarray
        assert_array_equal(model.encode(FRAME), fit().encode(FRAME))


# ---- Choosing columns and updating


def test_features_and_drop() -> None:
    assert fit(features=["year", "x"]).features == ["x", "year"]
    assert fit(drop=["year", "only"]).features == ["size", "x", "new", "flat"]
    assert fit(features=["x", "year"], drop=["year"]).features == ["x"]
    assert fit(features=["size"]).encoded_names == ["size=L", "size=M", "size=S"]
    unnamed = FRAME.assign(**{"Unnamed: 0": range(N)})
    with pytest.raises(TableError, match=r"without a name.*--drop 'Unnamed: 0'"):
        fit(unnamed)
    assert fit(unnamed, drop=["Unnamed: 0"]).features == FEATURES


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"target": "z"}, "The table has no column 'z': it has 'size', 'x', 'new'"),
        ({"features": ["x", "a", "b"]}, "The table has no columns 'a', 'b'"),
        ({"drop": ["a"]}, "The table has no column 'a'"),
        ({"features": ["x", "y"]}, "The target 'y' can be neither a feature nor dropped"),
        ({"drop": ["y"]}, "The target 'y' can be neither a feature nor dropped"),
        ({"drop": FEATURES}, "leaves no feature to predict 'y' from"),
        ({"target": "size"}, "The target 'size' must be numeric, but has 'S' and the like"),
        ({"target": "new"}, "The target 'new' must be numeric, but has '"),
    ],
)
def test_impossible_choices(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(TableError) as caught:
        fit(**options)
    assert reason.replace("'S'", repr(FRAME["size"][0])) in str(caught.value)


def test_the_delimiter_is_named_where_the_target_is_not_found(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a:y\n1:2\n")
    with pytest.raises(TableError, match=r"t.csv \(no comma, semicolon or tab found\) has no col"):
        fit(read_table(tmp_path / "t.csv"))


def test_update_leaves_the_old_model_alone(model: TableModel) -> None:
    before = model.predict_distribution(FRAME).mean
    new = model.update(FRAME[:20])
    assert (model.estimator.n_samples_seen_, new.estimator.n_samples_seen_) == (N, N + 20)
    assert_array_equal(model.predict_distribution(FRAME).mean, before)
    expected = fit().estimator.partial_fit(*model.split(FRAME[:20]))
    assert_array_equal(
        new.estimator.predict(model.encode(FRAME)), expected.predict(model.encode(FRAME))
    )
    with pytest.raises(TableError, match="has no column 'y'"):
        model.update(FRAME[FEATURES])


def test_the_regressor_given_is_not_changed_and_the_callback_is_called() -> None:
    regressor, epochs = PBPRegressor((3,), n_epochs=5, random_state=0), []
    model = fit_table_model(
        FRAME, "y", estimator=regressor, callback=lambda e: epochs.append(e) or len(epochs) == 2
    )
    assert not hasattr(regressor, "posterior_")
    assert len(epochs) == model.estimator.n_iter_ == 2


# ---- What is refused


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (["5/4/2024", "2024-06-01T12:00:00Z"] * 30, "'5/4/2024', in an unsupported or"),
        (["5/31/24 1:05 PM"] * N, "has dates or times"),
        (["31 May 2024"] * N, "has dates or times"),
        (["May 31, 2024"] * N, "has dates or times"),
        ([[1, 2]] * N, "has values of the type list"),
        (np.ones(N) * 1j, "has values of the type complex"),
        (
            [*map(str, range(N - 1)), "12.x"],
            "must contain finite numbers, but has '12.x' in row 60:",
        ),
        ([*range(N - 1), np.inf], "must contain finite numbers, but has 'inf' in row 60:"),
    ],
)
def test_columns_that_no_model_can_use(values: Any, reason: str) -> None:
    with pytest.raises(TableError) as caught:
        fit(with_column("x", values))
    message = str(caught.value)
    assert message.startswith("Column 'x' ")
    assert reason in message
    assert "\n" not in message


def test_identifiers_are_dropped_and_rare_categories_pooled() -> None:
    frame = pd.DataFrame({"id": [f"r{i}" for i in range(202)], "x": 1.0, "y": np.arange(202.0)})
    with pytest.warns(TableNote, match=r"dropped 'id': looks like an identifier \(202 distinct"):
        assert fit(frame).features == ["x"]
    assert fit(frame, drop=["id"]).features == ["x"]
    frame["id"] = [f"r{i % 51}" for i in range(202)]  # each at least thrice, a few four times
    assert len(fit(frame).encoder["id"].levels) == 50
    frame["id"] = [f"r{max(i - 100, 0)}" for i in range(202)]  # 102, more than half
    with pytest.warns(TableNote, match="102 distinct values"):
        fit(frame)
    frame["id"] = [f"r{min(i, 99)}" for i in range(202)]
    assert fit(frame).encoder["id"].levels == ("r99", "(other)")
    many = pd.DataFrame({"c": [f"r{i % 1001}" for i in range(5005)], "y": np.arange(5005.0)})
    assert len(fit(many).encoder["c"].levels) == 1001


@pytest.mark.parametrize(
    ("name", "row", "value", "message"),
    [
        (
            "x",
            3,
            "n. a.",
            "Column 'x' must contain finite numbers, but has 'n. a.' in row 3: write a number",
        ),
        ("x", 3, "12,5", "has '12,5' in row 3: write decimal points, as in 12.5, or drop"),
        ("x", 3, True, "Column 'x' must contain finite numbers, but has 'True' in row 3"),
        ("x", 3, "nan", "Missing values in column 'x' (1 row), in 1 of 60 rows, first in row 3"),
        ("x", 3, "1e999", "Column 'x' must contain finite numbers, but has '1e999' in row 3"),
        (
            "year",
            9,
            datetime.date(2024, 1, 1),
            "'year' must contain finite numbers, but has '2024-01-01'",
        ),
        (
            "new",
            4,
            "yes",
            "Column 'new' must contain true or false, but has 'yes' in row 4: correct",
        ),
        (
            "size",
            5,
            None,
            "Missing values in column 'size' (1 row), in 1 of 60 rows, first in row 5",
        ),
    ],
)
def test_cells_of_another_kind(
    model: TableModel, name: str, row: int, value: Any, message: str
) -> None:
    with pytest.raises(TableError) as caught:
        model.encode(with_cell(name, row, value))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_rows_match_the_file(tmp_path: Path, model: TableModel) -> None:
    path = tmp_path / "t.csv"
    frame = FRAME.astype({"x": object})
    frame.loc[[30, 40, 41], "x"] = ["!", "n. a.", "--"]
    frame.to_csv(path, index=False)
    for kinds in (None, model.kinds):
        first, second, _ = iter_table(path, chunk_rows=25, kinds=kinds)
        model.encode(first)
        with pytest.raises(TableError, match=r"has '!' in row 31 \(and the like in rows 41, 42\)"):
            model.encode(second)
        with pytest.raises(TableError, match=r"has 'n\. a\.' in row 41: write a number"):
            model.encode(second.loc[[49, 40, 45]])
    with pytest.raises(
        TableError, match=r"column 'x' \(3 rows\), in 3 of 60 rows, first in row 31"
    ):
        fit(read_table(path, na=["!", "n. a.", "--"]))
    named = frame.set_index(pd.Index([f"r{i}" for i in range(N)]))
    with pytest.raises(TableError, match="in row 31"):
        model.encode(named)


def test_missing_values_and_columns(model: TableModel) -> None:
    holes = FRAME.assign(
        x=FRAME["x"].where(FRAME.index > 2), size=FRAME["size"].where(FRAME.index != 7)
    )
    message = r"columns 'size' \(1 row\), 'x' \(3 rows\), in 4 of 60 rows, first in row 1: fill"
    for use in (fit, model.encode, model.update):
        with pytest.raises(TableError, match=message):
            use(holes)
    with pytest.raises(TableError, match=r"column 'y' \(1 row\), in 1 of 60 rows, first in row 2"):
        fit(FRAME.assign(y=FRAME["y"].where(FRAME.index != 1)))
    with pytest.raises(
        TableError, match="The table has no columns 'x', 'flat': it has 'size', 'new'"
    ):
        model.encode(FRAME.drop(columns=["x", "flat"]))
    with pytest.raises(TableError, match="The table has no rows"):
        model.encode(FRAME[:0])
    with pytest.raises(TableError, match="more than one column named 'x'"):
        model.encode(pd.concat([FRAME, FRAME[["x"]]], axis=1))
    with pytest.raises(TableError, match="a column named 3, which is not text"):
        fit(FRAME.rename(columns={"x": 3}))


def test_a_target_with_a_few_cells_that_are_no_numbers() -> None:
    with pytest.raises(
        TableError, match="Column 'y' must contain finite numbers, but has 'o' in row 2"
    ):
        fit(with_cell("y", 2, "o"))


def test_columns_that_active_wrote_are_not_features() -> None:
    table = pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20.0) ** 2})
    marked = table.assign(probprop_mean=table["y"], probprop_std=1.0)
    with pytest.warns(UserWarning, match="not used as features: 'probprop_mean', 'probprop_std'"):
        model = fit_table_model(marked, "y")
    assert model.features == ["x"]
    assert (model.predict(table) == fit_table_model(table, "y").predict(table)).all()
    with pytest.raises(TableError, match="rename it to use it"):
        fit_table_model(marked, "y", features=["x", "probprop_mean"])
    estimator = PBPRegressor(5, n_epochs=1, random_state=0)
    with pytest.warns(UserWarning, match="not used as features"):
        fitted = probprop.fit(estimator, marked, target="y")
    assert fitted.n_features_in_ == 1
