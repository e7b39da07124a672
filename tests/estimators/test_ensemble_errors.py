"""PBPEnsemble when it fails: the ensemble stays as it was, and the error says why."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError

import probprop.inference.engine
from model_files import assert_same
from probprop import PBPEnsemble, PBPRegressor

SMALL = PBPRegressor((5,), n_epochs=3)


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    return load_diabetes(return_X_y=True)


def failing_in_call(n: int, error: type[BaseException]):
    """Return an engine whose n-th pass fails."""
    engine, calls = probprop.inference.engine.ENGINES["native"], []

    def adf_pass(*args, **options):
        calls.append(1)
        if len(calls) == n:
            raise error
        return engine.adf_pass(*args, **options)

    return replace(engine, adf_pass=adf_pass)


@pytest.mark.parametrize(
    ("n_jobs", "error"),
    [(None, KeyboardInterrupt), (None, MemoryError), (2, MemoryError)],  # threads get no Ctrl-C
)
@pytest.mark.parametrize(("method", "n"), [("fit", 1), ("fit", 5), ("partial_fit", 2)])
def test_a_failure_leaves_the_ensemble_as_it_was(diabetes, monkeypatch, method, n, n_jobs, error):
    X, y = diabetes
    model = PBPEnsemble(SMALL, n_members=3, random_state=0, n_jobs=n_jobs).fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    rows = X[:, :4] if method == "fit" else X
    with monkeypatch.context() as patch:
        patch.setitem(probprop.inference.engine.ENGINES, "native", failing_in_call(n, error))
        with pytest.raises(error):
            getattr(model, method)(rows, y)
        with pytest.raises(NotFittedError):
            clone(model).predict(X)
    assert model.n_features_in_ == 10
    for one, other in zip(model.estimators_, before.estimators_, strict=True):
        assert_same(one, other)


@pytest.mark.process
def test_ctrl_c_during_threads_leaves_the_ensemble_as_it_was(tmp_path):
    script = """
import threading
from dataclasses import replace
import numpy as np
from probprop import PBPEnsemble, PBPRegressor
from probprop.inference.engine import ENGINES
random = np.random.RandomState(0)
X, y = random.standard_normal((5000, 20)), random.standard_normal(5000)
estimator = PBPRegressor((50,), n_epochs=1)
model = PBPEnsemble(estimator, n_members=2, random_state=0, n_jobs=2).fit(X, y)
before = model.predict(X[:100])
passes, adf_pass = [], ENGINES["native"].adf_pass
def counted(*args, **options):
    passes.append(1)
    if len(passes) == 10:
        print("ready", flush=True)
    return adf_pass(*args, **options)
ENGINES["native"] = replace(ENGINES["native"], adf_pass=counted)
estimator.n_epochs = 2000
try:
    model.fit(X, y)
except KeyboardInterrupt:
    same = np.array_equal(model.predict(X[:100]), before)
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()  # they end with their epoch
    print(same, len(passes) < 2 * 2000, flush=True)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "True True\n"
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"estimator": "PBP"}, TypeError, "estimator must be an instance of PBPRegressor or PBP"),
        ({"estimator": PBPRegressor}, TypeError, "estimator must be an instance of PBPRegressor"),
        ({"n_members": 0}, ValueError, "n_members == 0, must be >= 1"),
        ({"n_members": 2.0}, TypeError, "n_members must be an instance of int"),
        ({"n_jobs": 0}, ValueError, "n_jobs == 0, must be None or another int"),
        ({"n_jobs": "all"}, TypeError, "n_jobs must be an instance of int"),
        ({"random_state": "a"}, ValueError, "cannot be used to seed"),
        ({"estimator": PBPRegressor(n_epochs=0)}, ValueError, "n_epochs == 0, must be >= 1"),
    ],
)
def test_impossible_parameters(diabetes, parameters, error, message):
    for method in ("fit", "partial_fit"):
        model = PBPEnsemble(**parameters)
        with pytest.raises(error, match=message):
            getattr(model, method)(*diabetes)
        assert not hasattr(model, "n_features_in_")
        assert not hasattr(model, "noise_variance_")


@pytest.mark.parametrize("method", ["predict", "predict_distribution", "sample_functions", "save"])
def test_not_fitted(method):
    with pytest.raises(NotFittedError):
        getattr(PBPEnsemble(), method)("never-read-or-written")
