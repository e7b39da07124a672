"""PBPEnsemble of classifiers: the mean of the members' probabilities, and its entropy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.special import entr
from scipy.stats import norm
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.model_selection import cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeled import Split, small
from model_files import assert_same, header_of, refused
from probprop import PBPClassifier, PBPEnsemble, PBPRegressor, load
from probprop.estimators.ensemble import member_seeds
from sklearn_checks import expected_failures


def three(**parameters) -> PBPEnsemble:
    return PBPEnsemble(small(**parameters), n_members=3)


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [PBPEnsemble(PBPClassifier(n_epochs=10), n_members=2)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- The mixture


def test_one_member_equals_the_single_model(split: Split):
    X, X_test, y, _ = split
    single = small().fit(X, y)
    ensemble = PBPEnsemble(small(), n_members=1).fit(X, y)
    assert_same(ensemble.estimators_[0], single)
    assert_array_equal(ensemble.predict(X_test), single.predict(X_test))
    assert_array_equal(ensemble.predict_log_proba(X_test), single.predict_log_proba(X_test))
    one, other = (m.predict_distribution(X_test) for m in (ensemble, single))
    for name in ("mean", "std", "proba", "entropy", "entropy_noise", "entropy_model"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=1e-14)
    assert one.multilabel == other.multilabel == ensemble.multilabel_
    assert_array_equal(ensemble.classes_, single.classes_)


def test_probabilities_are_the_mean_of_the_members(split: Split):
    X, X_test, y, y_test = split
    model = three().fit(X, y)
    members = [clone(small(random_state=seed)).fit(X, y) for seed in member_seeds(0, 3)]
    expected = sum(m.predict_proba(X_test) for m in members) / 3
    assert_allclose(model.predict_proba(X_test), expected, rtol=1e-12)
    assert_allclose(model.predict_log_proba(X_test), np.log(expected), rtol=1e-9, atol=1e-14)
    if y.ndim == 2:
        assert_array_equal(model.predict(X_test), expected > 0.5)
        score = np.mean((model.predict(X_test) == y_test).all(axis=1))
    else:
        assert_array_equal(model.predict(X_test), model.classes_[expected.argmax(axis=1)])
        score = np.mean(model.predict(X_test) == y_test)
    assert model.score(X_test, y_test) == pytest.approx(score)


def test_entropy_and_its_parts_by_quadrature(cancer: Split):
    X, X_test, y, _ = cancer
    model = three(n_epochs=2).fit(X, y)
    rows = X_test[:5]
    predicted = model.predict_distribution(rows)
    p = model.predict_proba(rows)
    assert_allclose(predicted.entropy, entr(p).sum(axis=1), rtol=1e-9, atol=1e-15)

    def noise(mean: float, std: float) -> float:
        def integrand(f: float) -> float:
            p = norm.cdf(f)
            return norm.pdf(f, mean, std) * (entr(p) + entr(1.0 - p))

        return quad(integrand, mean - 12.0 * std, mean + 12.0 * std, epsabs=1e-13, limit=200)[0]

    members = [m.predict_distribution(rows) for m in model.estimators_]
    expected = [np.mean([noise(q.mean[i], q.std[i]) for q in members]) for i in range(len(rows))]
    assert_allclose(predicted.entropy_noise, expected, rtol=1e-8, atol=1e-11)
    assert_allclose(predicted.entropy_model, predicted.entropy - expected, rtol=1e-6, atol=1e-10)


def test_entropy_of_labels_is_per_label(labels: Split):
    X, X_test, y, _ = labels
    predicted = three().fit(X, y).predict_distribution(X_test)
    p = predicted.proba
    assert_allclose(predicted.entropy, entr(p) + entr(1.0 - p), rtol=1e-9)
    assert predicted.entropy_model.shape == predicted.entropy_noise.shape == p.shape


def test_disagreement_is_epistemic_uncertainty(wine: Split):
    X, X_test, y, _ = wine
    model = three().fit(X, y)
    predicted = model.predict_distribution(X_test)
    members = [m.predict_distribution(X_test) for m in model.estimators_]
    known = np.mean([m.entropy_model for m in members], axis=0)
    assert (predicted.entropy_model > known).all()  # the entropy is concave
    means = np.array([m.mean for m in members])
    var = np.mean([m.std**2 + m.mean**2 for m in members], axis=0) - means.mean(axis=0) ** 2
    assert_allclose(predicted.mean, means.mean(axis=0), rtol=1e-12)
    assert_allclose(predicted.std**2, var, rtol=1e-9)


# ---- What scikit-learn sees


def test_it_is_what_its_estimator_is(wine: Split):
    classifier, regressor = PBPEnsemble(small()), PBPEnsemble(PBPRegressor())
    assert (is_classifier(classifier), is_regressor(classifier)) == (True, False)
    assert (is_classifier(regressor), is_regressor(regressor)) == (False, True)
    assert is_regressor(PBPEnsemble())
    for name, of_classes in (("predict_proba", True), ("predict_log_proba", True)):
        assert hasattr(classifier, name) == of_classes != hasattr(regressor, name)
    assert hasattr(regressor, "sample_functions")
    assert not hasattr(classifier, "sample_functions")
    assert not hasattr(three().fit(wine[0], wine[2]), "noise_variance_")


def test_folds_are_stratified_and_scorers_take_probabilities(wine: Split):
    X, _, y, _ = wine
    order = np.argsort(y, kind="stable")  # without stratification a fold would lack a class
    model = PBPEnsemble(small(), n_members=2)
    scores = cross_val_score(model, X[order], y[order], cv=3, scoring="neg_log_loss")
    assert (scores > -0.5).all()


def test_a_standard_deviation_of_classes_is_refused(wine: Split):
    model = PBPEnsemble(small(), n_members=2).fit(wine[0], wine[2])
    with pytest.raises(ValueError, match="return_std=True is for regressors"):
        model.predict(wine[1], return_std=True)


# ---- partial_fit


def test_partial_fit_matches_the_members(split: Split):
    X, _, y, _ = split
    model = three()
    alone = [small(random_state=seed) for seed in member_seeds(0, 3)]
    classes = None if y.ndim == 2 else np.unique(y)
    for batch in np.array_split(np.arange(len(y)), 3):
        for each in (model, *alone):
            each.partial_fit(X[batch], y[batch], classes=classes)
    for one, other in zip(model.estimators_, alone, strict=True):
        assert_same(one, other)


def test_partial_fit_with_wrong_classes(wine: Split):
    X, _, y, _ = wine
    model = three()
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        model.partial_fit(X, y)
    assert not hasattr(model, "classes_")
    model.partial_fit(X[y < 2], y[y < 2], classes=[0, 1, 2])
    before = model.predict_proba(X)
    with pytest.raises(ValueError, match="not the same as on last call"):
        model.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match=r"\[3\] in y do not exist in the initial classes"):
        model.partial_fit(X[:5], [0, 1, 2, 3, 3])
    assert_array_equal(model.predict_proba(X), before)


# ---- Files


@pytest.mark.parametrize("names", ["cat", None])
def test_a_file_gives_back_every_bit(split: Split, tmp_path: Path, names: str | None):
    X, X_test, y, _ = split
    if names and y.ndim == 1:
        y = np.array(["no", "maybe", "yes"])[y]
    if names:
        X, X_test = (
            pd.DataFrame(a, columns=[f"{names}{i}" for i in range(X.shape[1])]) for a in (X, X_test)
        )
    model = three().fit(X, y)
    model.save(tmp_path / "m.pbp")
    loaded = load(tmp_path / "m.pbp")
    assert is_classifier(loaded)
    assert vars(loaded).keys() == vars(model).keys()
    assert_array_equal(loaded.classes_, model.classes_, strict=True)
    for one, other in zip(loaded.estimators_, model.estimators_, strict=True):
        assert_same(one, other)
    assert_array_equal(loaded.predict_proba(X_test), model.predict_proba(X_test))
    for each in (loaded, model):
        each.partial_fit(X[:10], y[:10])
    assert_array_equal(loaded.predict_proba(X_test), model.predict_proba(X_test))


def test_members_that_do_not_fit_together(wine: Split, tmp_path: Path):
    X, _, y, _ = wine
    path = tmp_path / "m.pbp"
    model = PBPEnsemble(small(), n_members=2).fit(X, y)
    model.save(path)
    with header_of(path) as header:
        header["parameters"]["estimator"] = None  # regressors
    refused(path, "estimators_ is empty, or has members of another class")
    model.estimators_[1] = PBPRegressor((8,), n_epochs=2).fit(X, y)
    with pytest.raises(ValueError, match="cannot be saved: estimators_ is empty, or has"):
        model.save(path)
