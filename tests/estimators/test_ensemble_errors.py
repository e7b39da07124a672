"""PBPEnsemble when it fails: the ensemble stays as it was, and the error says why."""

from __future__ import annotations

import pickle
import signal
import subprocess
import sys
import time
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
    """Return an engine that fails when it is called to train for the n-th time."""
    engine, calls = probprop.inference.engine.ENGINES["native"], []

    def train(tasks, n_threads):
        calls.append(1)
        if len(calls) == n:
            raise error
        return engine.train(tasks, n_threads)

    return replace(engine, train=train)


@pytest.mark.parametrize(
    ("n_jobs", "error"),
    [(None, KeyboardInterrupt), (None, MemoryError), (2, MemoryError)],  # threads get no Ctrl-C
)
@pytest.mark.parametrize(
    ("method", "n", "options"),
    [
        ("fit", 1, {}),
        ("fit", 5, {"callback": lambda epoch: False}),  # then every epoch is a call
        ("partial_fit", 2, {}),
    ],
)
def test_a_failure_leaves_the_ensemble_as_it_was(
    diabetes, monkeypatch, method, n, options, n_jobs, error
):
    X, y = diabetes
    model = PBPEnsemble(SMALL, n_members=3, random_state=0, n_jobs=n_jobs).fit(X, y)
    before = pickle.loads(pickle.dumps(model))
    rows = X[:, :4] if method == "fit" else X
    with monkeypatch.context() as patch:
        patch.setitem(probprop.inference.engine.ENGINES, "native", failing_in_call(n, error))
        with pytest.raises(error):
            getattr(model, method)(rows, y, **options)
        with pytest.raises(NotFittedError):
            clone(model).predict(X)
    assert model.n_features_in_ == 10
    for one, other in zip(model.estimators_, before.estimators_, strict=True):
        assert_same(one, other)


@pytest.mark.process
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_in_the_kernel_leaves_the_ensemble_as_it_was(tmp_path, n_jobs):
    script = f"""
from dataclasses import replace
import numpy as np
from probprop import PBPEnsemble, PBPRegressor
from probprop.inference.engine import ENGINES
random = np.random.RandomState(0)
X, y = random.standard_normal((5000, 20)), random.standard_normal(5000)
estimator = PBPRegressor((50,), n_epochs=1)
model = PBPEnsemble(estimator, n_members=3, random_state=0, n_jobs={n_jobs}).fit(X, y)
before = model.predict(X[:100])
train = ENGINES["native"].train
def announced(tasks, n_threads):
    print("ready", flush=True)
    return train(tasks, n_threads)
ENGINES["native"] = replace(ENGINES["native"], train=announced)
estimator.n_epochs = 100_000
try:
    model.fit(X, y)
except KeyboardInterrupt:
    print(np.array_equal(model.predict(X[:100]), before), flush=True)
"""
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)  # in the kernel by now
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "True\n"
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
