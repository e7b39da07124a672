"""probprop.metrics.classes: against scikit-learn, and calibration by hand and by simulation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.random import RandomState
from numpy.testing import assert_allclose
from sklearn import metrics as sklearn_metrics

from probprop.distributions.classes import ClassMixture
from probprop.metrics import classes as class_metrics


def drawn(n: int, n_classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Classes drawn from the probabilities that are predicted: calibrated."""
    rng = RandomState(seed)
    proba = rng.dirichlet(np.ones(n_classes), n)
    return (rng.random_sample((n, 1)) > proba.cumsum(axis=1)).sum(axis=1), proba


def scores(y: np.ndarray, proba: np.ndarray) -> dict[str, float]:
    return class_metrics.class_scores(y, np.log(proba))


@pytest.mark.parametrize("n_classes", [2, 5])
def test_against_scikit_learn(n_classes: int) -> None:
    y, proba = drawn(300, n_classes)
    labels = np.arange(n_classes)
    found = scores(y, proba)
    assert found["accuracy"] == sklearn_metrics.accuracy_score(y, proba.argmax(axis=1))
    expected = sklearn_metrics.log_loss(y, proba, labels=labels)
    assert class_metrics.log_loss(y, np.log(proba)) == pytest.approx(expected, rel=1e-12)
    right = np.eye(n_classes)[y]
    by_class = [sklearn_metrics.mean_squared_error(right[:, k], proba[:, k]) for k in labels]
    assert found["brier"] == pytest.approx(sum(by_class), rel=1e-12)


def test_discrimination_of_classes_against_scikit_learn() -> None:
    y, proba = drawn(200, 4)
    found, options = scores(y, proba), {"rel": 1e-12}
    expected = sklearn_metrics.roc_auc_score(y, proba, multi_class="ovr")
    assert found["roc_auc"] == pytest.approx(expected, **options)
    expected = sklearn_metrics.average_precision_score(y, proba)
    assert found["average_precision"] == pytest.approx(expected, **options)
    # The rarer of two classes is the positive one, here the first.
    y, proba = drawn(200, 2)
    keep = (y == 1) | (np.arange(200) < 60)
    y, proba = y[keep], proba[keep]
    found = scores(y, proba)
    expected = sklearn_metrics.roc_auc_score(y == 0, proba[:, 0])
    assert found["roc_auc"] == pytest.approx(expected, **options)
    expected = sklearn_metrics.average_precision_score(y == 0, proba[:, 0])
    assert found["average_precision"] == pytest.approx(expected, **options)


def test_a_class_without_rows_has_no_curve() -> None:
    y, proba = drawn(200, 3)
    two = y < 2
    each = [sklearn_metrics.roc_auc_score(y[two] == k, proba[two, k]) for k in (0, 1)]
    assert scores(y[two], proba[two])["roc_auc"] == pytest.approx(np.mean(each))
    assert np.isnan(scores(y[y == 1], proba[y == 1])["roc_auc"])
    assert np.isnan(scores(y[y == 1], proba[y == 1])["average_precision"])


def test_a_weight_of_two_is_a_row_twice() -> None:
    y, proba = drawn(100, 3)
    weights = RandomState(1).randint(0, 3, len(y))
    again = np.repeat(np.arange(len(y)), weights)
    expected = class_metrics.log_loss(y[again], np.log(proba[again]))
    found = class_metrics.log_loss(y, np.log(proba), weights)
    assert found == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match=r"Negative values .* `sample_weight`"):
        class_metrics.log_loss(y, np.log(proba), -weights)


def test_log_loss_of_probabilities_that_no_float_holds() -> None:
    assert class_metrics.log_loss([1], [[0.0, -1000.0]]) == 1000.0


def test_calibration_error_bin_by_bin() -> None:
    y, proba = drawn(500, 3)
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == y
    error = 0.0
    for low in np.arange(10) / 10:
        inside = (confidence >= low) & (confidence < low + 0.1 - 1e-12)
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    assert class_metrics.calibration_error(y, proba) == pytest.approx(error, rel=1e-12)


def test_calibrated_and_overconfident_probabilities() -> None:
    y, proba = drawn(200_000, 3)
    assert class_metrics.calibration_error(y, proba) < 0.005
    sure = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    assert class_metrics.calibration_error(y, sure) > 0.1
    confidence, right, count = class_metrics.reliability_curve(y, sure)
    assert (right[confidence > 0.4] < confidence[confidence > 0.4]).all()
    assert count.sum() == len(y)


def test_certainty_is_in_the_last_bin() -> None:
    confidence, right, count = class_metrics.reliability_curve([0, 1], [[1.0, 0.0], [1.0, 0.0]])
    assert_allclose([confidence, right, count], [[1.0], [0.5], [2.0]])


def test_summary_of_a_predictive_and_of_a_mixture() -> None:
    y, proba = drawn(50, 2)
    one = ClassMixture.of_one(np.zeros(50), np.ones(50), np.log(proba))
    found = class_metrics.class_summary(y, one)
    assert list(found) == [
        *("accuracy", "log_loss", "brier", "calibration_error", "roc_auc", "average_precision")
    ]
    assert found == pytest.approx(scores(y, proba))
    assert class_metrics.class_summary(y, ClassMixture.of([one, one])) == pytest.approx(found)
    labels = ClassMixture.of_one(
        np.zeros((50, 2)), np.ones((50, 2)), np.log(proba), multilabel=True
    )
    with pytest.raises(ValueError, match="several labels"):
        class_metrics.class_summary(y, labels)


@pytest.mark.parametrize(
    ("y", "proba", "message"),
    [
        ([0, 1], [[0.5, 0.5]], r"shapes \(2,\) and \(1, 2\)"),
        ([], np.empty((0, 2)), "one row or more"),
        ([0, 2], [[0.5, 0.5]] * 2, "indices of the 2 columns"),
        ([0, -1], [[0.5, 0.5]] * 2, "indices of the 2 columns"),
        (["a", "b"], [[0.5, 0.5]] * 2, "np.searchsorted"),
        ([0, 1], [[0.5, 0.6]] * 2, "sum to 1"),
        ([0, 1], [[1.5, -0.5]] * 2, "sum to 1"),
        ([0], [[np.nan, 0.5]], "sum to 1"),
    ],
)
def test_what_is_refused(y: Any, proba: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        class_metrics.reliability_curve(y, proba)
