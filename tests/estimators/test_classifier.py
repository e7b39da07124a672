"""PBPClassifier: what fit, partial_fit and the predictions promise."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import log_loss
from sklearn.utils.estimator_checks import parametrize_with_checks

from labeled import Split, small
from probprop import Epoch, PBPClassifier
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import initial_posterior
from probprop.reference.likelihoods import MULTINOMIAL, PROBIT
from sklearn_checks import expected_failures


@pytest.mark.filterwarnings("ignore:In [0-9]+ updates:RuntimeWarning")  # some leave the seed open
@parametrize_with_checks(
    [PBPClassifier(), PBPClassifier((10, 10), dtype="float32", n_epochs=20)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# ---- Probabilities


def test_probabilities_match_draws(split):
    X, X_test, y, _ = split
    predicted = small().fit(X, y).predict_distribution(X_test[:20])
    n = 100_000
    random = RandomState(1)
    for i, p in enumerate(predicted.proba):
        mean, std = np.atleast_1d(predicted.mean[i]), np.atleast_1d(predicted.std[i])
        f = mean + std * random.standard_normal((n, len(mean)))
        f += random.standard_normal(f.shape)
        if predicted.multilabel:
            drawn = (f > 0.0).mean(axis=0)
        elif len(mean) == 1:
            drawn = np.array([(f < 0.0).mean(), (f > 0.0).mean()])
        else:
            drawn = np.bincount(f.argmax(axis=1), minlength=len(mean)) / n
        assert (np.abs(drawn - p) < 5.0 * np.sqrt(p * (1.0 - p) / n) + 1e-4).all()


def test_predictions_agree_with_each_other(split):
    X, X_test, y, _ = split
    model = small().fit(X, y)
    p = model.predict_proba(X_test)
    assert_allclose(np.exp(model.predict_log_proba(X_test)), p)
    assert_array_equal(model.predict_distribution(X_test).proba, p)
    if model.multilabel_:
        assert p.shape == y[: len(X_test)].shape
        assert_array_equal(model.predict(X_test), p > 0.5)
        assert model.predict(X_test).dtype.kind == "i"
    else:
        assert_allclose(p.sum(axis=1), 1.0, atol=1e-10)
        assert_array_equal(model.predict(X_test), model.classes_[p.argmax(axis=1)])


def test_log_probabilities_where_probabilities_vanish():
    X = np.linspace(-1.0, 1.0, 200).reshape(-1, 1)
    model = PBPClassifier((), n_epochs=200, evidence_cap=None, random_state=0).fit(X, X[:, 0] > 0.0)
    log_p = model.predict_log_proba([[1e6]])
    assert np.isfinite(log_p).all()
    assert log_p[0, 0] < log_p[0, 1] <= 0.0


def test_the_names_of_classes_do_not_matter(wine):
    X, X_test, y, _ = wine
    expected = small().fit(X, y).predict_proba(X_test)
    for names in (["a", "b", "c"], [-7, 0, 300], [1.0, 2.0, 4.0], ["rosé", "röd", "白"]):
        names = np.array(sorted(names))
        model = small().fit(X, names[y])
        assert_array_equal(model.classes_, names)
        assert_array_equal(model.predict_proba(X_test), expected)
        assert_array_equal(model.predict(X_test), names[expected.argmax(axis=1)])
    as_objects = small().fit(X, np.array(["a", "b", "c"], object)[y])
    assert as_objects.predict(X_test).dtype == object
    assert_array_equal(as_objects.predict_proba(X_test), expected)


def test_bools_are_classes(cancer):
    X, X_test, y, _ = cancer
    model = small().fit(X, y == 1)
    assert model.predict(X_test).dtype == bool
    assert_array_equal(model.predict_proba(X_test), small().fit(X, y).predict_proba(X_test))


@pytest.mark.parametrize("engine", ["native", "reference"])
@pytest.mark.parametrize(
    ("likelihood", "K"), [(PROBIT, 1), (PROBIT, 3), (MULTINOMIAL, 2), (MULTINOMIAL, 5)]
)
def test_relabelling_the_outputs_relabels_the_posterior(engine, likelihood, K):
    random = RandomState(K)
    X, order = random.standard_normal((30, 3)), random.permutation(K)
    before = initial_posterior(
        [3, 6, K],
        noise_shape=2.0,
        noise_rate=1.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype("float64"),
    )
    if likelihood is PROBIT:
        sign = random.choice([-1.0, 1.0], K)  # of every label
        y = random.choice([-1.0, 1.0], (30, K))
        y_other, sign_rows = (y * sign)[:, order], sign[:, np.newaxis]
    else:
        y, sign_rows = random.randint(K, size=30).astype(float), np.ones((K, 1))
        y_other = np.argsort(order)[y.astype(int)].astype(float)
    other = replace(before, m_w=(before.m_w[0], (before.m_w[1] * sign_rows)[order]))
    run = ENGINES[engine].adf_pass
    one, info = run(before, X, y, np.arange(30), likelihood=likelihood)
    two, info_other = run(other, X, y_other, np.arange(30), likelihood=likelihood)
    assert info.log_Z_sum == pytest.approx(info_other.log_Z_sum, rel=1e-10)
    assert_allclose(two.m_w[0], one.m_w[0], rtol=1e-7, atol=1e-9)
    assert_allclose(two.m_w[1], (one.m_w[1] * sign_rows)[order], rtol=1e-7, atol=1e-9)
    assert_allclose(two.v_w[1], one.v_w[1][order], rtol=1e-7)


# ---- Learning


@pytest.mark.parametrize("hidden", [(), (20,)])
@pytest.mark.parametrize("n_classes", [2, 4])
def test_separable_classes(hidden, n_classes):
    random = RandomState(0)
    angle = 2.0 * np.pi * np.arange(n_classes) / n_classes
    centers = 6.0 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    y = np.arange(400) % n_classes
    X = centers[y] + random.standard_normal((400, 2))
    model = PBPClassifier(hidden, random_state=0).fit(X[:200], y[:200])
    assert model.score(X[200:], y[200:]) >= 0.99
    assert log_loss(y[200:], model.predict_proba(X[200:])) < 0.1


def test_the_probability_of_a_known_probit_is_found():
    random = RandomState(0)
    X = random.standard_normal((4000, 1))
    y = (1.5 * X[:, 0] - 0.5 + random.standard_normal(4000) > 0.0).astype(int)
    p = PBPClassifier((), random_state=0).fit(X, y).predict_proba([[-1.0], [1.0 / 3.0], [1.0]])
    # Phi(1.5 x - 0.5)
    assert_allclose(p[:, 1], [0.0228, 0.5, 0.8413], atol=0.03)


def loss(split: Split, **parameters: Any) -> float:
    X, X_test, y, y_test = split
    model = PBPClassifier(random_state=0, **parameters).fit(X, y)
    return log_loss(y_test, model.predict_proba(X_test))


def test_tempering_keeps_probabilities_from_growing_over_confident(cancer, wine):
    bounded = loss(cancer, n_epochs=100)
    assert bounded < 0.15
    assert bounded < 0.5 * loss(cancer, n_epochs=100, evidence_cap=None)
    assert loss(wine, n_epochs=100) < 0.15


def test_confidence_on_digits_is_a_little_below_accuracy(digits):
    X, X_test, y, y_test = digits
    model = PBPClassifier(random_state=0).fit(X, y)
    p = model.predict_proba(X_test)
    accuracy = model.score(X_test, y_test)
    assert accuracy > 0.95
    assert accuracy - 0.05 < p.max(axis=1).mean() < accuracy + 0.01
    assert log_loss(y_test, p) < 0.15


def test_labels_are_learned_as_well_together_as_alone(labels):
    X, X_test, y, y_test = labels
    p = PBPClassifier(evidence_cap=3.0, random_state=0).fit(X, y).predict_proba(X_test)
    together = np.mean([log_loss(y_test[:, k], p[:, k]) for k in range(4)])
    alone = np.mean([loss((X, X_test, y[:, k], y_test[:, k]), evidence_cap=3.0) for k in range(4)])
    constant = np.mean([log_loss(t, np.full(len(t), t.mean())) for t in y_test.T])
    assert together < 0.75 * constant
    assert together < 1.05 * alone


def test_epistemic_uncertainty_grows_away_from_the_data(wine):
    X, X_test, y, _ = wine
    model = PBPClassifier(random_state=0).fit(X, y)
    near = model.predict_distribution(X_test)
    noise = X.mean(axis=0) + 5.0 * X.std(axis=0) * RandomState(0).standard_normal((100, X.shape[1]))
    far = model.predict_distribution(noise)
    assert far.entropy_model.mean() > 3.0 * near.entropy_model.mean()


# ---- fit


def test_engines_follow_the_same_path(split):
    X, X_test, y, _ = split
    native, reference = (
        small(engine=e, n_epochs=2).fit(X[:60], y[:60]) for e in ("native", "reference")
    )
    assert_allclose(
        native.predict_log_proba(X_test[:30]), reference.predict_log_proba(X_test[:30]), rtol=1e-8
    )
    assert native.log_evidence_ == pytest.approx(reference.log_evidence_, rel=1e-9)


def test_float32_predicts_the_same(split):
    X, X_test, y, _ = split
    p = [small(dtype=d).fit(X, y).predict_proba(X_test) for d in ("float64", "float32")]
    assert_allclose(p[1], p[0], atol=0.02)


def test_fit_starts_afresh_even_with_other_classes(cancer, wine, labels):
    model = small().fit(cancer[0], cancer[2])
    for X, _, y, _ in (wine, labels, cancer):
        assert_array_equal(model.fit(X, y).predict_proba(X), small().fit(X, y).predict_proba(X))


def test_the_defaults():
    model = PBPClassifier()
    assert (model.evidence_cap, model.n_epochs, model.hidden_layer_sizes) == (10.0, 40, (50,))


def test_history_and_evidence(split):
    X, _, y, _ = split
    seen: list[Epoch] = []
    model = small().fit(X, y, callback=seen.append)
    assert seen == model.history_
    assert model.log_evidence_ == pytest.approx(len(y) * seen[0].mean_log_Z)
    assert seen[-1].mean_log_Z > seen[0].mean_log_Z
    assert {epoch.noise_variance for epoch in seen} == {1.0}
    assert {epoch.n_guarded for epoch in seen} == {0}
    assert not hasattr(model, "noise_variance_")


def test_a_callback_that_returns_true_stops(wine):
    X, _, y, _ = wine
    model = small().fit(X, y, callback=lambda epoch: epoch.n_iter == 3)
    assert model.n_iter_ == 3
    assert_array_equal(model.predict_proba(X), small(n_epochs=3).fit(X, y).predict_proba(X))


def test_ctrl_c_keeps_the_last_whole_epoch(wine):
    X, _, y, _ = wine

    def interrupt(epoch: Epoch) -> None:
        if epoch.n_iter == 3:
            raise KeyboardInterrupt

    model = small()
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y, callback=interrupt)
    assert model.n_iter_ == 3
    assert_array_equal(model.predict_proba(X), small(n_epochs=3).fit(X, y).predict_proba(X))


def test_ctrl_c_in_the_first_epoch_leaves_the_estimator_as_it_was(cancer, wine, monkeypatch):
    model = small().fit(cancer[0], cancer[2])
    before = vars(model).copy()

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    broken = replace(ENGINES["native"], train=interrupted)
    with monkeypatch.context() as patch:
        patch.setitem(ENGINES, "native", broken)
        with pytest.raises(KeyboardInterrupt):
            model.fit(wine[0], wine[2])
    assert vars(model) == before


def test_progress_bar_without_noise(wine, capsys):
    small(verbose=1).fit(wine[0], wine[2])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert "mean log Z" in lines[0]
    assert "noise" not in lines[0]
