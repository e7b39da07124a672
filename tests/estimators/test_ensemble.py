"""PBPEnsemble: a mixture of members, each of which is a PBPRegressor of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import joblib
import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import probprop.inference.engine
import uci
from model_files import assert_same
from probprop import PBPEnsemble, PBPRegressor
from probprop.estimators.ensemble import member_seeds
from sklearn_checks import expected_failures

SMALL = PBPRegressor((5,), n_epochs=3)


@pytest.fixture(scope="module")
def diabetes() -> tuple[np.ndarray, np.ndarray]:
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(diabetes: tuple[np.ndarray, np.ndarray]) -> PBPEnsemble:
    return PBPEnsemble(SMALL, n_members=3, random_state=0).fit(*diabetes)


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [
        PBPEnsemble(PBPRegressor(n_epochs=20), n_members=2),
        PBPEnsemble(PBPRegressor((10, 10), dtype="float32", n_epochs=20), n_members=2, n_jobs=2),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- Seeds and members


@pytest.mark.parametrize(
    "ensemble",
    [
        PBPEnsemble(PBPRegressor((5,), n_epochs=3, random_state=4), n_members=1),
        PBPEnsemble(SMALL, n_members=1, random_state=4),
        PBPEnsemble(PBPRegressor((5,), n_epochs=3, random_state=9), 1, random_state=np.int64(4)),
    ],
)
def test_one_member_equals_the_single_model(diabetes, ensemble):
    X, y = diabetes
    single = PBPRegressor((5,), n_epochs=3, random_state=4).fit(X, y)
    ensemble.fit(X, y)
    assert_same(ensemble.estimators_[0], single)
    for one, other in zip(ensemble.predict(X, True), single.predict(X, True), strict=True):
        assert_array_equal(one, other)
    mixture, predictive = (m.predict_distribution(X) for m in (ensemble, single))
    assert_allclose(mixture.logpdf(y), predictive.logpdf(y), rtol=1e-12)
    assert_allclose(mixture.ppf([0.01, 0.7]), predictive.ppf([0.01, 0.7]), rtol=1e-9)
    f, g = (m.sample_functions(2, random_state=1)[1] for m in (ensemble, single))
    assert_array_equal(f(X), g(X))
    assert ensemble.noise_variance_ == single.noise_variance_


def test_every_member_is_the_single_model_of_its_seed(diabetes, fitted):
    seeds = [member.random_state for member in fitted.estimators_]
    assert seeds == member_seeds(0, 3)
    assert len({*seeds}) == 3
    for seed, member in zip(seeds, fitted.estimators_, strict=True):
        alone = PBPRegressor((5,), n_epochs=3, random_state=seed).fit(*diabetes)
        assert_array_equal(member.predict(diabetes[0]), alone.predict(diabetes[0]))


@pytest.mark.parametrize("seed", [0, 7, RandomState])
def test_a_larger_ensemble_has_the_members_of_a_smaller_one(seed):
    few, many = (member_seeds(seed(3) if seed is RandomState else seed, n) for n in (3, 8))
    assert many[:3] == few
    assert len({*many}) == 8


def test_a_generator_advances_and_none_uses_the_seed_of_the_estimator(diabetes):
    rng = RandomState(0)
    model = PBPEnsemble(SMALL, n_members=2, random_state=rng)
    first, second = ([m.random_state for m in model.fit(*diabetes).estimators_] for _ in "ab")
    assert not {*first} & {*second}
    own = PBPEnsemble(clone(SMALL).set_params(random_state=5), n_members=2).fit(*diabetes)
    assert [m.random_state for m in own.estimators_] == member_seeds(5, 2)


def test_by_default_it_has_five_default_members(diabetes):
    model = PBPEnsemble(random_state=0).fit(*diabetes)
    assert len(model.estimators_) == 5
    assert {m.hidden_layer_sizes for m in model.estimators_} == {PBPRegressor().hidden_layer_sizes}
    assert model.estimator is None


@pytest.mark.parametrize("n_jobs", [2, -1, 7])
def test_threads_do_not_change_the_results(diabetes, fitted, n_jobs):
    threaded = clone(fitted).set_params(n_jobs=n_jobs).fit(*diabetes)
    for one, other in zip(threaded.estimators_, fitted.estimators_, strict=True):
        assert_same(one, other)
    assert_array_equal(threaded.predict(diabetes[0], True), fitted.predict(diabetes[0], True))


def test_members_run_in_n_threads(diabetes, monkeypatch):
    used, engine = [], probprop.inference.engine.ENGINES["native"]

    def train(tasks, n_threads):
        used.append((len(tasks), n_threads))
        return engine.train(tasks, n_threads)

    monkeypatch.setitem(probprop.inference.engine.ENGINES, "native", replace(engine, train=train))
    model = PBPEnsemble(PBPRegressor((5,), n_epochs=1), 4, random_state=0)
    model.fit(*diabetes)
    with joblib.parallel_config(n_jobs=2):
        model.fit(*diabetes)
    assert used == [(4, 1), (4, 2)]


def test_fit_starts_afresh(diabetes, fitted):
    again = clone(fitted).fit(diabetes[0][:, :3], diabetes[1]).fit(*diabetes)
    assert_array_equal(again.predict(diabetes[0]), fitted.predict(diabetes[0]))


def test_the_estimator_is_left_alone(diabetes):
    estimator = PBPRegressor((5,), n_epochs=3, random_state=1, verbose=1)
    before = vars(estimator).copy()
    PBPEnsemble(estimator, n_members=2).fit(*diabetes)
    assert vars(estimator) == before


def test_members_are_quiet(diabetes, capsys):
    PBPEnsemble(clone(SMALL).set_params(verbose=1), n_members=2).fit(*diabetes)
    assert capsys.readouterr().err == ""


# ---- The mixture


def test_moments_and_density_by_hand(diabetes, fitted):
    X, y = diabetes[0][:20], diabetes[1][:20]
    members = [m.predict_distribution(X) for m in fitted.estimators_]
    means = np.array([p.mean for p in members])
    var = np.array([p.epistemic_std**2 + p.aleatoric_std**2 for p in members])
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, means.sum(axis=0) / 3, rtol=1e-13)
    assert_allclose(std**2, (var + means**2).sum(axis=0) / 3 - mean**2, rtol=1e-9)
    predicted = fitted.predict_distribution(X)
    density = sum(norm.pdf(y, m, np.sqrt(v)) for m, v in zip(means, var, strict=True)) / 3
    assert_allclose(predicted.logpdf(y), np.log(density), rtol=1e-12)
    assert_array_equal(fitted.predict(X), mean)


def test_density_has_the_stated_moments_and_quantiles(diabetes, fitted):
    predicted = fitted.predict_distribution(diabetes[0][:1])
    mean, std = predicted.mean[0], predicted.std[0]

    def integral(f, top=12.0):
        low, high = mean - 12.0 * std, mean + top * std
        return quad(lambda t: f(t) * np.exp(predicted.logpdf(t)[0]), low, high, epsabs=1e-12)[0]

    assert integral(lambda t: 1.0) == pytest.approx(1.0, abs=1e-9)
    assert integral(lambda t: t) == pytest.approx(mean, rel=1e-9)
    assert integral(lambda t: (t - mean) ** 2) == pytest.approx(std**2, rel=1e-8)
    upper = (predicted.ppf(0.9)[0] - mean) / std
    assert integral(lambda t: 1.0, upper) == pytest.approx(0.9, abs=1e-9)


def test_log_density_is_no_lower_than_the_mean_of_the_members(diabetes, fitted):
    X, y = diabetes  # Jensen's inequality
    members = [m.predict_distribution(X).logpdf(y) for m in fitted.estimators_]
    assert (fitted.predict_distribution(X).logpdf(y) >= np.mean(members, axis=0)).all()


def test_disagreement_widens(diabetes, fitted):
    X = 10.0 * diabetes[0]  # outside the data, where the members part
    members = [m.predict_distribution(X).epistemic_std ** 2 for m in fitted.estimators_]
    assert (fitted.predict_distribution(X).epistemic_std ** 2 > np.mean(members, axis=0)).all()


def test_order_of_members_does_not_matter(diabetes, fitted):
    X, y = diabetes
    turned = clone(fitted).fit(X, y)
    turned.estimators_ = turned.estimators_[::-1]
    assert_allclose(turned.predict(X, True), fitted.predict(X, True), rtol=1e-12)
    one, other = (m.predict_distribution(X) for m in (turned, fitted))
    assert_allclose(one.logpdf(y), other.logpdf(y), rtol=1e-12)
    assert_allclose(one.interval(0.9), other.interval(0.9), rtol=1e-9)
    assert turned.noise_variance_ == pytest.approx(fitted.noise_variance_, rel=1e-14)


def test_sampled_functions_have_the_predicted_spread(diabetes):
    X, y = diabetes
    model = PBPEnsemble(PBPRegressor((50,), n_epochs=3), 3, random_state=0).fit(X, y)
    functions = model.sample_functions(4000, random_state=1)
    values = np.array([f(X[:10]) for f in functions])
    predicted = model.predict_distribution(X[:10])
    error = predicted.epistemic_std / np.sqrt(len(functions))
    assert (np.abs(values.mean(axis=0) - predicted.mean) < 5 * error).all()
    assert_allclose(values.std(axis=0), predicted.epistemic_std, rtol=0.15)
    again = model.sample_functions(3, random_state=1)
    assert_array_equal(again[2](X[:10]), model.sample_functions(3, random_state=1)[2](X[:10]))


def test_noise_matches_the_mixture(diabetes, fitted):
    predicted = fitted.predict_distribution(diabetes[0][:2])
    assert fitted.noise_variance_ == pytest.approx(predicted.aleatoric_std**2, rel=1e-12)


# ---- partial_fit


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_partial_fit_matches_the_members(diabetes, n_jobs):
    X, y = diabetes
    model = PBPEnsemble(SMALL, n_members=3, random_state=0, n_jobs=n_jobs)
    alone = [PBPRegressor((5,), n_epochs=3, random_state=s) for s in member_seeds(0, 3)]
    for batch in np.array_split(np.arange(len(y)), 3):
        model.partial_fit(X[batch], y[batch])
        for member in alone:
            member.partial_fit(X[batch], y[batch])
    for one, other in zip(model.estimators_, alone, strict=True):
        assert_same(one, other)
    assert (model.estimators_[0].n_iter_, model.n_samples_seen_) == (3, len(y))


def test_partial_fit_continues_after_fit(diabetes, fitted):
    X, y = diabetes
    model = clone(fitted).fit(X[:200], y[:200])
    alone = [
        clone(m).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:]) for m in model.estimators_
    ]
    model.set_params(n_members=7).partial_fit(X[200:], y[200:])
    assert len(model.estimators_) == 3
    for one, other in zip(model.estimators_, alone, strict=True):
        assert_same(one, other)


# ---- Warnings


def outliers() -> tuple[np.ndarray, np.ndarray]:
    X = RandomState(0).standard_normal((50, 2))
    return X, np.where(np.arange(50) % 10, X[:, 0], 100.0)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_counts_of_the_members_are_summed_up_in_one_warning(method, n_jobs):
    estimator = PBPRegressor((5,), n_epochs=2, standardize=False)
    model = PBPEnsemble(estimator, n_members=3, random_state=0, n_jobs=n_jobs)
    with pytest.warns(RuntimeWarning, match="noise updates made by quadrature") as caught:
        getattr(model, method)(*outliers())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    n_updates, n_guarded = map(int, re.findall(r"(\d+) (?:updates:|noise)", str(caught[0].message)))
    history = [epoch for member in model.estimators_ for epoch in member.history_]
    assert n_updates == sum(epoch.n_points for epoch in history) == 50 * len(history)
    assert n_guarded == sum(epoch.n_guarded for epoch in history) > 0


def test_a_warning_of_the_data_is_given_once(diabetes):
    X, y = diabetes
    with pytest.warns() as caught:
        PBPEnsemble(SMALL, n_members=3, n_jobs=2).fit(X, y.reshape(-1, 1))
    assert [w.category.__name__ for w in caught] == ["DataConversionWarning"]


# ---- In scikit-learn's company


def test_nested_parameters_and_grid_search(diabetes):
    X, y = diabetes
    model = PBPEnsemble(clone(SMALL), n_members=2, random_state=0)
    assert model.get_params()["estimator__n_epochs"] == 3
    copied = clone(model).set_params(estimator__n_epochs=7)
    assert (copied.estimator.n_epochs, model.estimator.n_epochs) == (7, 3)
    assert {m.n_iter_ for m in copied.fit(X, y).estimators_} == {7}

    grid = {"estimator__n_epochs": [1, 10], "n_members": [1, 2]}
    search = GridSearchCV(model, grid, cv=3).fit(X, y)
    assert search.best_params_["estimator__n_epochs"] == 10
    assert_array_equal(search.predict(X), clone(search.best_estimator_).fit(X, y).predict(X))


def test_feature_names(diabetes, fitted):
    X, y = diabetes
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(10)])
    model = clone(fitted).fit(frame, y)
    assert model.feature_names_in_.tolist() == [*frame.columns]
    assert_array_equal(model.predict(frame), fitted.predict(X))
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[frame.columns[::-1]], y)
    with pytest.raises(ValueError, match="X has 3 features, but PBPEnsemble is expecting 10"):
        fitted.predict(X[:, :3])


# ---- Does it help?


@pytest.mark.parametrize("name", ["boston_housing", "concrete", "yacht"])
@pytest.mark.slow
def test_it_improves_on_the_single_model(name):
    X, y = uci.load(name)
    scores = []
    for train, test in uci.splits(len(y), 6):
        model = PBPEnsemble(PBPRegressor((50, 50)), random_state=0, n_jobs=2)
        model.fit(X[train], y[train])
        pair = model.estimators_[0], model  # the first member is the single model of that seed
        scores.append([m.predict_distribution(X[test]).logpdf(y[test]).mean() for m in pair])
    single, ensemble = np.mean(scores, axis=0)
    assert ensemble > single + 0.005
