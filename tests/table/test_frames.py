"""Tables go straight into `PBPRegressorCV` and `PBPClassifierCV`."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.inspection import permutation_importance
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import probprop
from cli_tables import call
from probprop import Candidate, PBPClassifierCV, PBPRegressorCV, metrics
from probprop.table import TableEncoder, TableNote, fit_table_model, read_table

N = 120


def homes(n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "area": rng.uniform(20.0, 150.0, n).round(1),
            "city": rng.choice(["Bern", "Rom", "Ulm"], n),
            "sold": pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "lift": rng.random(n) < 0.5,
            "weight": [f"{v:.0f} kg" for v in rng.uniform(50.0, 900.0, n)],
        }
    )
    frame.loc[::6, "area"] = np.nan
    frame.loc[::10, "city"] = None
    return frame


FRAME = homes()
PRICE = (
    FRAME["area"].fillna(85.0) + 40.0 * (FRAME["city"] == "Rom") + 10.0 * FRAME["lift"]
).to_numpy()
LABEL = np.where(np.median(PRICE) < PRICE, "dear", "cheap")


def small(kind: Any = PBPRegressorCV, **options: Any) -> Any:
    return kind(2, candidates=[Candidate(4, 5)], budget="fast", random_state=0, **options)


@pytest.fixture(scope="module")
def model() -> PBPRegressorCV:
    return small().fit(FRAME, PRICE)


def test_the_library_does_not_change_a_bit(model: PBPRegressorCV) -> None:
    expected = model.predict(FRAME)
    arrow = pa.Table.from_pandas(FRAME).to_pandas(types_mapper=pd.ArrowDtype)
    for of in (pl.from_pandas, pa.Table.from_pandas, lambda f: f.convert_dtypes(), lambda _: arrow):
        other = of(FRAME)
        assert_array_equal(small().fit(other, PRICE).predict(other), expected)
        assert_array_equal(model.predict(other), expected)


def test_the_command_fits_the_same_networks(model: PBPRegressorCV) -> None:
    frame = FRAME.assign(y=PRICE)
    for of in (lambda f: f, pl.from_pandas, pa.Table.from_pandas):
        whole = fit_table_model(of(frame), "y", estimator=small())
        assert_array_equal(whole.predict(of(FRAME)), model.predict(FRAME))
        assert whole.update(of(frame)).estimator.n_samples_seen_ == 2 * N
    with pytest.raises(TypeError, match=r"Expected a table .* Got ndarray"):
        whole.predict(FRAME.to_numpy())


def test_a_model_knows_its_columns(model: PBPRegressorCV) -> None:
    assert model.score(FRAME, PRICE) > 0.8
    assert model.feature_names_in_.tolist() == list(FRAME)
    assert model.n_features_in_ == 5
    assert model.columns_["missing"].tolist() == [20, 12, 0, 0, 0]
    shown = model._repr_mimebundle_()
    assert all("season (cyclic)" in shown[kind] for kind in ("text/plain", "text/html"))
    assert repr(model) == shown["text/plain"]
    assert "season" not in repr(clone(model))
    with pytest.raises(AttributeError, match="fitted to a table"):
        small().fit(FRAME[["area"]].to_numpy(), PRICE).columns_  # noqa: B018


def test_updates_distributions_and_functions_take_tables(model: PBPRegressorCV) -> None:
    predicted = model.predict_distribution(FRAME[:3])
    assert predicted.mean.shape == (3,)
    whole = FRAME.dropna()[:3]
    [function] = model.sample_functions(1, random_state=0)
    assert function(whole).shape == (3,)
    assert model.predict_gradient(whole).dmean_dX.shape == (3, len(model.encoder_.names))
    again = pickle.loads(pickle.dumps(model)).partial_fit(FRAME[:20], PRICE[:20])
    assert again.n_samples_seen_ == N + 20
    assert (again.predict(FRAME) != model.predict(FRAME)).any()


def test_files_and_copies(model: PBPRegressorCV, tmp_path: Path) -> None:
    model.save(tmp_path / "m.pbp")
    loaded = probprop.load(tmp_path / "m.pbp")
    assert_array_equal(loaded.predict(FRAME), model.predict(FRAME))
    assert loaded.columns_.equals(model.columns_)
    assert_array_equal(pickle.loads(pickle.dumps(model)).predict(FRAME), model.predict(FRAME))
    assert_array_equal(clone(model).fit(FRAME, PRICE).predict(FRAME), model.predict(FRAME))


def test_arrays_have_the_columns_in_order(model: PBPRegressorCV) -> None:
    with pytest.warns(UserWarning, match="PBPRegressorCV was fitted with feature names"):
        found = model.predict(FRAME.to_numpy())
    assert_array_equal(found, model.predict(FRAME))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(FRAME.rename(columns={"area": "size"}))


def test_scikit_learn_handles_frames(model: PBPRegressorCV) -> None:
    assert cross_val_score(small(), FRAME, PRICE, cv=2).min() > 0.0
    pipeline = make_pipeline(TableEncoder(), small()).fit(FRAME, PRICE)
    assert_array_equal(pipeline.predict(FRAME), model.predict(FRAME))
    named = make_pipeline(TableEncoder(), small()).set_output(transform="pandas")
    assert_array_equal(named.fit(FRAME, PRICE).predict(FRAME), model.predict(FRAME))
    found = permutation_importance(model, FRAME, PRICE, n_repeats=1, random_state=0)
    assert found.importances_mean.argmax() == 0
    [ours] = metrics.permutation_importance(model, FRAME, PRICE, n_repeats=1)
    assert ours.names[0] == "area"
    assert {*ours.names} == {*FRAME}
    whole = fit_table_model(FRAME.assign(y=PRICE), "y", estimator=small())
    for other in (whole, pipeline):
        [shuffled] = metrics.permutation_importance(other, FRAME, PRICE, n_repeats=1)
        assert shuffled.names == ours.names
        assert_array_equal(shuffled.loss, ours.loss)


def test_classes() -> None:
    model = small(PBPClassifierCV).fit(FRAME, LABEL)
    assert model.score(FRAME, LABEL) > 0.8
    assert model.classes_.tolist() == ["cheap", "dear"]
    assert_array_equal(
        small(PBPClassifierCV).fit(pl.from_pandas(FRAME), LABEL).predict_proba(FRAME),
        model.predict_proba(FRAME),
    )


def test_columns_that_identify_rows_are_dropped_with_a_warning(model: PBPRegressorCV) -> None:
    with pytest.warns(TableNote, match="dropped 'rownames': looks like an identifier"):
        other = small().fit(FRAME.assign(rownames=range(N)), PRICE)
    assert_array_equal(other.predict(FRAME.assign(rownames=0)), model.predict(FRAME))


def test_categorical_features_of_arrays() -> None:
    X = np.column_stack([np.arange(N) % 3, FRAME["area"]])
    codes = small(categorical_features=[0]).fit(X, PRICE)
    assert codes.encoder_.names == ["x0=0", "x0=1", "x0=2", "x1", "x1=(missing)"]
    frame = pd.DataFrame(X, columns=["x0", "x1"]).astype({"x0": "category"})
    assert_array_equal(codes.predict(X), small().fit(frame, PRICE).predict(frame))
    assert small().fit(X, PRICE).encoder_ is None


def test_missing_numbers_need_no_option() -> None:
    X = FRAME[["area"]].to_numpy()
    found = small().fit(X, PRICE)
    assert np.isfinite(found.predict(X)).all()
    full = small().fit(np.nan_to_num(X, nan=85.0), PRICE)
    at_mean, missing = full.predict_distribution([[85.0], [np.nan]]).std
    assert missing > 1.5 * at_mean
    with pytest.raises(ValueError, match="Input X contains NaN"):
        small(missing="error").fit(FRAME, PRICE)


# ---- Both doors


NOTED = FRAME.assign(
    rownames=range(1, N + 1),
    PID=np.random.default_rng(0).permutation(N) + 526_301_100,
    again=FRAME["sold"].dt.strftime("%-m/%-d/%Y 0:00:00"),
    zip=[*[str(98_000 + i % 7) for i in range(N - 1)], "98115-4820"],
    size=[f"{i % 9} {'g' if i % 5 else 'kg'}" for i in range(N)],
    total=np.exp(PRICE / 50.0),
)
NOTES = [
    "dropped 'rownames': looks like an identifier (120 distinct values in 120 rows)",
    "dropped 'PID': looks like an identifier (120 distinct values in 120 rows)",
    "dropped 'again': the same dates as 'sold'",
    "'zip': read as text, since '98115-4820' is not a number",
    "'size': read as text, since its values have units such as 'kg' and 'g'",
    "'total': possible leak, since it predicts the target almost alone",
]


def test_the_same_notes_and_the_same_model_from_both_doors(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path, file = tmp_path / "t.csv", tmp_path / "m.pbp"
    NOTED.assign(price=PRICE).to_csv(path, index=False)
    assert call(f"fit {path} --target price -o {file} --budget fast") == 0
    said = capfd.readouterr().err
    with pytest.warns(TableNote) as caught:
        model = PBPRegressorCV(budget="fast", n_jobs=-1, random_state=0).fit(NOTED, PRICE)
    assert [str(each.message) for each in caught] == ["; ".join(NOTES)]
    assert model.encoder_.notes == NOTES
    for note in NOTES:
        assert f"note: {note}" in said
    by_command = probprop.load(file)
    assert_array_equal(by_command.predict(read_table(path)), model.predict(NOTED))
    assert call(f"info {file}") == 0
    shown = " ".join(capfd.readouterr().out.split())
    for note in NOTES:
        assert note in shown
