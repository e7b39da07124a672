"""One fit of many samples in shards: the result depends on their number, not on the threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import make_classification

import probprop
from probprop import PBPClassifier, PBPRegressor
from probprop.inference.posterior import flat


def rows(n: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.RandomState(0)
    X = rng.standard_normal((n, 5))
    return X, 100.0 + 3.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(n)


def same(a: PBPRegressor, b: PBPRegressor) -> bool:
    pairs = zip(vars(a.posterior_).items(), vars(b.posterior_).items(), strict=True)
    for (name, left), (_, right) in pairs:
        if isinstance(left, tuple):
            left, right = flat(left), flat(right)
        if name != "noise_network" and not np.array_equal(left, right):
            return False
    return a.history_ == b.history_ and a.log_evidence_ == b.log_evidence_


def test_the_number_of_shards_decides_the_result() -> None:
    X, y = rows()
    fits = {
        n: PBPRegressor((10,), n_epochs=5, evidence_cap=3, random_state=0, n_shards=n).fit(X, y)
        for n in (None, 1, 2, 8, 50)
    }
    assert same(fits[1], fits[None])
    assert not same(fits[2], fits[None])
    assert not same(fits[2], fits[8])
    assert same(fits[8], fits[50])  # a shard has at least 500 samples
    new_X, new_y = rows(500)
    for model in fits.values():
        assert model.n_samples_seen_ == 4000
        assert model.n_iter_ == 5
        assert model.score(new_X, new_y) > 0.9
    # Another estimate of the same evidence.
    assert fits[8].log_evidence_ == pytest.approx(fits[None].log_evidence_, rel=0.2)


@pytest.mark.parametrize("kind", [PBPRegressor, PBPClassifier])
def test_the_number_of_threads_changes_no_bit(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(2500)
    if kind is PBPClassifier:
        y = (y > 100.0).astype(int)
    in_threads = kind((10,), n_epochs=3, random_state=0, n_shards=4).fit(X, y)
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    in_one = kind((10,), n_epochs=3, random_state=0, n_shards=4).fit(X, y)
    assert same(in_threads, in_one)


def test_classes_in_shards() -> None:
    X, y = make_classification(4000, n_classes=3, n_informative=5, random_state=0)
    alone, two = (
        PBPClassifier((10,), n_epochs=4, random_state=0, n_shards=n).fit(X[:3500], y[:3500])
        for n in (None, 7)
    )
    assert not np.array_equal(alone.predict_proba(X[3500:]), two.predict_proba(X[3500:]))
    assert two.score(X[3500:], y[3500:]) > alone.score(X[3500:], y[3500:]) - 0.03


def test_known_errors_weights_and_missing_values_in_shards() -> None:
    X, y = rows()
    X[::7, 2] = np.nan
    weights, y_std = np.linspace(0.0, 2.0, len(y)), np.full(len(y), 0.1)
    model = PBPRegressor((10,), n_epochs=3, random_state=0, missing="marginalize", n_shards=2)
    model.fit(X, y, weights, X_std=0.01, y_std=y_std)
    assert model.n_samples_seen_ == 3999
    assert model.score(X, y) > 0.8


def test_partial_fit_continues_after_a_fit_in_shards() -> None:
    X, y = rows()
    model = PBPRegressor((10,), n_epochs=2, random_state=0, n_shards=2).fit(X[:3000], y[:3000])
    model.partial_fit(X[3000:], y[3000:])
    assert model.n_samples_seen_ == 4000
    assert model.n_iter_ == 3


def test_a_callback_stops_after_an_epoch() -> None:
    X, y = rows(2500)
    model = PBPRegressor((5,), n_epochs=9, random_state=0, n_shards=2)
    model.fit(X, y, callback=lambda epoch: epoch.n_iter == 2)
    assert [epoch.n_iter for epoch in model.history_] == [1, 2]


@pytest.mark.parametrize("n", [1, 3, 1150])
def test_few_samples_in_shards(n: int) -> None:
    X, y = rows(n)
    model = PBPRegressor((5,), n_epochs=3, random_state=0, n_shards=2).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()


def test_files_keep_the_number_of_shards(tmp_path) -> None:
    X, y = rows(1100)
    model = PBPRegressor((5,), n_epochs=2, random_state=0, n_shards=2).fit(X, y)
    model.save(tmp_path / "model.probprop")
    loaded = probprop.load(tmp_path / "model.probprop")
    assert loaded.get_params() == model.get_params()
    assert same(loaded, model)


@pytest.mark.parametrize("bad", [0, -1, 1.5, "2"])
def test_bad_numbers_of_shards(bad: object) -> None:
    with pytest.raises((TypeError, ValueError), match="n_shards"):
        PBPRegressor(n_shards=bad).fit(*rows(10))
