"""One fit of many rows in threads: the same model whatever their number."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.utils.estimator_checks import parametrize_with_checks

import probprop
from probprop import PBPClassifier, PBPEnsemble, PBPRegressor
from probprop.inference.posterior import flat
from sklearn_checks import expected_failures


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


def test_the_number_of_threads_changes_no_bit_but_none_is_one_piece() -> None:
    X, y = rows()
    fits = {
        n: PBPRegressor((10,), n_epochs=5, memory=3, random_state=0, n_jobs=n).fit(X, y)
        for n in (None, 1, 2, -1)
    }
    assert same(fits[1], fits[2])
    assert same(fits[1], fits[-1])
    assert not same(fits[1], fits[None])
    assert fits[1].n_samples_seen_ == 4000
    assert fits[1].n_iter_ == 5
    new_X, new_y = rows(500)
    for model in fits.values():
        assert model.score(new_X, new_y) > 0.9
    # Another estimate of the same evidence.
    assert fits[1].log_evidence_ == pytest.approx(fits[None].log_evidence_, rel=0.2)


def test_classes_in_threads() -> None:
    X, y = make_classification(4000, n_classes=3, n_informative=5, random_state=0)
    one, two = (
        PBPClassifier((10,), n_epochs=4, random_state=0, n_jobs=n).fit(X[:3500], y[:3500])
        for n in (1, 2)
    )
    assert np.array_equal(one.predict_proba(X[3500:]), two.predict_proba(X[3500:]))
    alone = PBPClassifier((10,), n_epochs=4, random_state=0).fit(X[:3500], y[:3500])
    assert two.score(X[3500:], y[3500:]) > alone.score(X[3500:], y[3500:]) - 0.03


def test_known_errors_weights_and_gaps_in_threads() -> None:
    X, y = rows()
    X[::7, 2] = np.nan
    weights, y_std = np.linspace(0.0, 2.0, len(y)), np.full(len(y), 0.1)
    model = PBPRegressor((10,), n_epochs=3, random_state=0, missing="marginalize", n_jobs=2)
    model.fit(X, y, weights, X_std=0.01, y_std=y_std)
    assert model.n_samples_seen_ == 3999
    assert model.score(X, y) > 0.8


def test_the_features_of_a_stream_go_on_from_a_fit_in_threads() -> None:
    X, y = rows()
    model = PBPRegressor((10,), n_epochs=2, random_state=0, n_jobs=2).fit(X[:3000], y[:3000])
    model.partial_fit(X[3000:], y[3000:])
    assert model.n_samples_seen_ == 4000
    assert model.n_iter_ == 3


def test_an_ensemble_of_members_with_threads_has_the_same_members() -> None:
    X, y = rows(2500)
    member = PBPRegressor((5,), n_epochs=2, n_jobs=2)
    ensemble = PBPEnsemble(member, n_members=2, random_state=3).fit(X, y)
    first = clone(member).set_params(random_state=3, n_jobs=1).fit(X, y)
    assert same(ensemble.estimators_[0], first)
    assert not same(ensemble.estimators_[1], first)


def test_a_callback_stops_after_an_epoch() -> None:
    X, y = rows(2500)
    model = PBPRegressor((5,), n_epochs=9, random_state=0, n_jobs=2)
    model.fit(X, y, callback=lambda epoch: epoch.n_iter == 2)
    assert [epoch.n_iter for epoch in model.history_] == [1, 2]


@pytest.mark.parametrize("n", [1, 3, 1150])
def test_few_rows_in_threads(n: int) -> None:
    X, y = rows(n)
    model = PBPRegressor((5,), n_epochs=3, random_state=0, n_jobs=2).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert (std > 0.0).all()


def test_files_keep_the_number_of_threads(tmp_path) -> None:
    X, y = rows(300)
    model = PBPRegressor((5,), n_epochs=2, random_state=0, n_jobs=2).fit(X, y)
    model.save(tmp_path / "model.probprop")
    loaded = probprop.load(tmp_path / "model.probprop")
    assert loaded.get_params() == model.get_params()
    assert same(loaded, model)


@pytest.mark.parametrize("bad", [0, 1.5, "2"])
def test_bad_numbers_of_threads(bad: object) -> None:
    with pytest.raises((TypeError, ValueError), match="n_jobs"):
        PBPRegressor(n_jobs=bad).fit(*rows(10))


@pytest.mark.slow
# Some checks fit 30 rows: shards of four, whose precisions have to be held up more than once.
@pytest.mark.filterwarnings("ignore::probprop.inference.history.UpdateWarning")
@parametrize_with_checks(
    [PBPRegressor(n_jobs=2, random_state=0), PBPClassifier(n_epochs=20, n_jobs=1, random_state=0)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check) -> None:
    check(estimator)
