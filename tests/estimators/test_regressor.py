"""PBPRegressor: what fit, partial_fit and predict promise."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.estimator_checks import parametrize_with_checks

from probprop import Epoch, PBPRegressor
from probprop.estimators.progress import progress_bar
from sklearn_checks import expected_failures


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(diabetes: tuple[np.ndarray, np.ndarray]) -> PBPRegressor:
    return PBPRegressor(random_state=0).fit(*diabetes)


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [PBPRegressor(), PBPRegressor((10, 10), dtype="float32", n_epochs=20)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- fit


def test_fit_starts_afresh(diabetes, fitted):
    again = clone(fitted).fit(*diabetes)
    first = again.predict(diabetes[0])
    assert_array_equal(again.fit(*diabetes).predict(diabetes[0]), first)
    assert again.n_iter_ == len(again.history_) == 40


def test_seeds_differ_and_repeat(diabetes):
    a, b, c = (PBPRegressor(random_state=s, n_epochs=3).fit(*diabetes) for s in (1, 1, 2))
    assert_array_equal(a.predict(diabetes[0]), b.predict(diabetes[0]))
    assert not np.allclose(a.predict(diabetes[0]), c.predict(diabetes[0]))


def test_engines_follow_the_same_path(diabetes):
    X, y = diabetes[0][:60], diabetes[1][:60]
    native, reference = (
        PBPRegressor((6, 5), engine=e, n_epochs=2, random_state=0).fit(X, y)
        for e in ("native", "reference")
    )
    for a, b in zip(native.predict(X, True), reference.predict(X, True), strict=True):
        assert_allclose(a, b, rtol=1e-9)
    assert_allclose(native.log_evidence_, reference.log_evidence_, rtol=1e-10)


def test_float32_predicts_the_same(diabetes, fitted):
    X, y = diabetes
    single = PBPRegressor(random_state=0, dtype="float32").fit(X, y)
    assert single.posterior_.dtype == np.float32
    rmse = [np.sqrt(np.mean((m.predict(X) - y) ** 2)) for m in (single, fitted)]
    assert rmse[0] == pytest.approx(rmse[1], rel=1e-3)


def test_it_learns_and_its_intervals_cover(diabetes):
    X, y = diabetes
    model = PBPRegressor(random_state=0).fit(X[:340], y[:340])
    lower, upper = model.predict_distribution(X[340:]).interval(0.95)
    assert 0.88 < np.mean((lower < y[340:]) & (y[340:] < upper)) <= 1.0
    assert model.score(X[340:], y[340:]) > 0.4


def test_noise_is_learned_in_target_units():
    random = np.random.RandomState(0)
    X = random.uniform(-1, 1, (3000, 1))
    y = 1000.0 + 500.0 * X[:, 0] + 20.0 * random.standard_normal(3000)
    model = PBPRegressor(random_state=0).fit(X, y)
    assert np.sqrt(model.noise_variance_) == pytest.approx(20.0, rel=0.2)
    assert model.predict_distribution(X[:5]).aleatoric_std ** 2 == pytest.approx(
        model.noise_variance_
    )


def test_uncertainty_grows_away_from_the_data():
    X = np.random.RandomState(0).uniform(-1, 1, (200, 1))
    model = PBPRegressor(random_state=0).fit(X, X[:, 0] ** 3)
    std = model.predict_distribution(np.array([[0.0], [2.0], [5.0], [20.0]])).epistemic_std
    assert (np.diff(std) > 0).all()


def test_history_and_evidence(diabetes):
    X, y = diabetes
    seen: list[Epoch] = []
    model = PBPRegressor(random_state=0, n_epochs=5).fit(X, y, callback=seen.append)
    assert seen == model.history_
    assert [e.n_iter for e in seen] == [1, 2, 3, 4, 5]
    assert model.log_evidence_ == pytest.approx(len(y) * seen[0].mean_log_Z)
    assert seen[-1].mean_log_Z > seen[0].mean_log_Z
    assert model.noise_variance_ == seen[-1].noise_variance
    assert pd.DataFrame(seen).columns.tolist() == list(Epoch._fields)
    # In target units: a scaled target shifts every log density by the log of the scale.
    scaled = PBPRegressor(random_state=0, n_epochs=5).fit(X, 1000.0 * y)
    shift = len(y) * np.log(1000.0)
    assert scaled.log_evidence_ == pytest.approx(model.log_evidence_ - shift, rel=1e-9)


def test_a_callback_that_returns_true_stops(diabetes):
    model = PBPRegressor(random_state=0).fit(*diabetes, callback=lambda epoch: epoch.n_iter == 3)
    assert model.n_iter_ == 3
    short = PBPRegressor(random_state=0, n_epochs=3).fit(*diabetes)
    assert_array_equal(model.predict(diabetes[0]), short.predict(diabetes[0]))


def test_the_prior_is_refined_once_per_epoch(diabetes, monkeypatch):
    import probprop.inference.engine

    engine, tasks = probprop.inference.engine.ENGINES["native"], []
    keeping = replace(engine, train=lambda *a: tasks.extend(a[0]) or engine.train(*a))
    monkeypatch.setitem(probprop.inference.engine.ENGINES, "native", keeping)
    PBPRegressor((3,), n_epochs=4).fit(*diabetes)
    (task,) = tasks
    assert task.refine.tolist() == [True] * 4


def test_progress_bar(diabetes, capsys):
    PBPRegressor(random_state=0, n_epochs=10, verbose=1).fit(*diabetes)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 10
    assert lines[-1].startswith("epoch 10/10 [########################] mean log Z -5.")
    assert "noise std" in lines[0]
    assert "s left" in lines[0]


def test_progress_bar_on_a_terminal_redraws_one_line(fitted, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    draw = progress_bar(40)
    for epoch in fitted.history_:
        draw(epoch)
    assert terminal.getvalue().count("\n") == 1
    assert terminal.getvalue().endswith("\n")


# ---- partial_fit


@pytest.mark.parametrize(("layers", "n_weights"), [((7,), 7 * 4 + 8), ((7, 5), 7 * 4 + 5 * 8 + 6)])
def test_partial_fit_equals_one_epoch_in_the_same_order(layers, n_weights):
    random = np.random.RandomState(5)
    X, y = random.standard_normal((100, 3)), random.standard_normal(100)
    parameters = {"hidden_layer_sizes": layers, "standardize": False, "random_state": 3}
    whole = PBPRegressor(n_epochs=1, **parameters).fit(X, y)

    drawn = np.random.RandomState(3)
    drawn.standard_normal(n_weights)  # the initial means come first
    order = drawn.permutation(100)
    stream = PBPRegressor(**parameters)
    stream.partial_fit(X[order], y[order])

    assert_array_equal(stream.predict(X), whole.predict(X))
    assert stream.posterior_.alpha_prior == whole.posterior_.alpha_prior
    assert stream.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-12)
    assert (stream.n_iter_, stream.n_samples_seen_) == (1, 100)


def test_partial_fit_continues_after_fit_with_its_standardization(diabetes):
    X, y = diabetes
    model = PBPRegressor(random_state=0, n_epochs=5).fit(X[:200], y[:200])
    mean, evidence = model.standardizer_.x_mean, model.log_evidence_
    error = np.mean((model.predict(X[200:]) - y[200:]) ** 2)
    model.partial_fit(X[200:], y[200:])
    assert_array_equal(model.standardizer_.x_mean, mean)
    assert model.n_iter_ == 6
    assert model.n_samples_seen_ == len(y)
    assert model.log_evidence_ < evidence
    assert np.mean((model.predict(X[200:]) - y[200:]) ** 2) < error


def test_partial_fit_row_by_row_stays_finite(diabetes):
    model = PBPRegressor((5,), random_state=0).fit(diabetes[0][:50], diabetes[1][:50])
    for x, t in zip(*diabetes, strict=True):
        model.partial_fit([x], [t])
    mean, std = model.predict(diabetes[0], return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0).all()


# ---- predict


def test_predict_shapes_and_agreement(diabetes, fitted):
    X, _ = diabetes
    mean, std = fitted.predict(X, return_std=True)
    distribution = fitted.predict_distribution(X)
    assert mean.shape == std.shape == (len(X),)
    assert_array_equal(fitted.predict(X), mean)
    assert_array_equal(distribution.mean, mean)
    parts = distribution.epistemic_std, distribution.aleatoric_std
    assert_allclose(distribution.var, parts[0] ** 2 + parts[1] ** 2)
    assert_allclose(std, np.sqrt(distribution.var))
    heavy = fitted.predict_distribution(X, student_t=True)
    far = mean + 8 * std
    assert (heavy.logpdf(far) > distribution.logpdf(far)).all()


def test_prediction_blocks_do_not_show(diabetes, fitted):
    X, _ = diabetes
    n = 1 + (1 << 16) // len(X)  # more rows than a block has
    few, many = (fitted.predict(rows, return_std=True) for rows in (X, np.tile(X, (n, 1))))
    assert_array_equal(many, np.tile(few, n))


def test_sampled_functions_have_the_predicted_spread(diabetes):
    X, y = diabetes
    model = PBPRegressor((100,), random_state=0, n_epochs=5).fit(X, y)
    functions = model.sample_functions(4000, random_state=1)
    values = np.array([f(X[:10]) for f in functions])
    assert_array_equal(functions[0](X[:10]), values[0])
    predicted = model.predict_distribution(X[:10])
    error = predicted.epistemic_std / np.sqrt(len(functions))
    assert (np.abs(values.mean(axis=0) - predicted.mean) < 5 * error).all()
    assert_allclose(values.std(axis=0), predicted.epistemic_std, rtol=0.15)


def test_sampled_functions_repeat_with_the_seed(diabetes, fitted):
    a, b = (fitted.sample_functions(2, random_state=7) for _ in range(2))
    assert_array_equal(a[1](diabetes[0]), b[1](diabetes[0]))
    assert not np.allclose(a[0](diabetes[0]), a[1](diabetes[0]))
    with pytest.raises(ValueError, match="X has 3 features, but SampledNetwork is expecting 10"):
        a[0](np.zeros((2, 3)))


@pytest.mark.parametrize("method", ["predict", "predict_distribution"])
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(PBPRegressor(), method)(np.zeros((2, 2)))
    with pytest.raises(NotFittedError):
        PBPRegressor().sample_functions()
    with pytest.raises(NotFittedError):
        PBPRegressor().save("never-written")


# ---- In scikit-learn's company


def test_pipeline_grid_search_and_cross_validation(diabetes):
    X, y = diabetes
    pipeline = make_pipeline(PolynomialFeatures(1), PBPRegressor(random_state=0, n_epochs=5))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.3
    search = GridSearchCV(pipeline, {"pbpregressor__hidden_layer_sizes": [(5,), (20,)]}, cv=2)
    search.fit(X, y)
    assert search.predict(X).shape == y.shape


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames(diabetes, library):
    X, y = diabetes
    names = [f"f{i}" for i in range(X.shape[1])]
    if library == "pandas":
        frame, target = pd.DataFrame(X, columns=names), pd.Series(y)
        reordered = frame[names[::-1]]
    else:
        frame, target = pl.DataFrame(X, schema=names), pl.Series(y)
        reordered = frame.select(names[::-1])
    model = PBPRegressor(random_state=0, n_epochs=3).fit(frame, target)
    assert model.feature_names_in_.tolist() == names
    plain = PBPRegressor(random_state=0, n_epochs=3).fit(X, y)
    assert_array_equal(model.predict(frame), plain.predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(reordered)


# ---- Ctrl-C and threads


@pytest.mark.process
def test_ctrl_c_stops_soon_and_keeps_the_last_whole_epoch(tmp_path):
    # An epoch of many seconds, interrupted from outside as a terminal does.
    script = """
import numpy as np
from probprop import PBPRegressor
random = np.random.RandomState(0)
X, y = random.standard_normal((200_000, 20)), random.standard_normal(200_000)
model = PBPRegressor((100,), random_state=0, n_epochs=10_000)
def ready(epoch):
    if epoch.n_iter == 2:
        print("ready", flush=True)
try:
    model.fit(X, y, callback=ready)
except KeyboardInterrupt:
    print(model.n_iter_, len(model.history_), flush=True)
    short = PBPRegressor((100,), random_state=0, n_epochs=model.n_iter_).fit(X, y)
    print(np.array_equal(short.predict(X[:100]), model.predict(X[:100])), flush=True)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        n_iter, n_history = map(int, process.stdout.readline().split())
        assert n_iter == n_history >= 2
        assert process.stdout.readline() == "True\n"
    assert process.returncode == 0


def test_an_error_in_the_first_epoch_leaves_the_estimator_as_it_was(diabetes, monkeypatch):
    import probprop.inference.engine

    model = PBPRegressor(random_state=0, n_epochs=2).fit(*diabetes)
    before = model.predict(diabetes[0])

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    broken = replace(probprop.inference.engine.ENGINES["native"], train=interrupted)
    with monkeypatch.context() as patch:
        patch.setitem(probprop.inference.engine.ENGINES, "native", broken)
        with pytest.raises(KeyboardInterrupt):
            model.fit(diabetes[0][:, :3], diabetes[1])
    assert_array_equal(model.predict(diabetes[0]), before)


def test_an_epoch_releases_the_gil():
    random = np.random.RandomState(0)
    X, y = random.standard_normal((100_000, 20)), random.standard_normal(100_000)
    model = PBPRegressor((100,), random_state=0, n_epochs=1)
    thread = threading.Thread(target=model.fit, args=(X, y))
    thread.start()
    ticks = 0
    while thread.is_alive():
        time.sleep(0.001)
        ticks += 1
    assert ticks > 20  # with the GIL held the main thread would hardly have run
