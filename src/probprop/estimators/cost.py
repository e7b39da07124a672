"""Processor time of the fit of a classifier with many classes, announced before it starts.

The likelihood of a label is an integral over all classes, so the time of an epoch grows with their
number: with 1,000 classes, an epoch takes fifty times as long as with three.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from probprop.estimators.cv import policy
from probprop.estimators.validation import check_layer_sizes
from probprop.inference.engine import ENGINES

WORTH_TELLING = 10.0  # seconds from which on a fit is announced
_SECONDS_OF_WORK = 3e-10  # per unit of `work_of_a_row` with many outputs, as measured on one core
_WITH_GRADIENT = 1.2  # times the integral alone, as measured
_PROBED = 20  # integrals


def cost_in_words(
    model: Any, n_samples: int, n_features: int, n_classes: int, n_folds: int | None = None
) -> str:
    """Return a sentence about the processor time of a fit; empty if it is short or not known.

    The model is a classifier with valid parameters, or an ensemble of classifiers. `n_folds` is the
    number of folds of a cross-validation; None takes `cv`, an int.
    """
    if n_classes <= policy.MANY_CLASSES:
        return ""
    evidence = _seconds_of_evidence(n_classes)
    if hasattr(model, "candidates"):
        n_folds = model.cv if n_folds is None else n_folds
        word, seconds = "up to", _of_cv(model, n_samples, n_features, n_classes, n_folds, evidence)
    else:
        member, n_members = getattr(model, "estimator", model), getattr(model, "n_members", 1)
        sizes = (n_features, *check_layer_sizes(member.hidden_layer_sizes), n_classes)
        n_updates = n_members * n_samples * member.n_epochs
        word, seconds = "about", n_updates * _seconds_of_update(sizes, evidence)
    if seconds < WORTH_TELLING:
        return ""
    return (
        f"{n_classes:,} classes and {n_samples:,} samples: the fit takes {word} "
        f"{_duration(seconds)} of processor time"
    )


def _of_cv(
    model: Any, n_samples: int, n_features: int, n_classes: int, n_folds: Any, evidence: float
) -> float:
    """Return the seconds of a cross-validation in which no candidate is dropped before the end."""
    labels, large = policy.OF_LABELS, policy.is_large(n_samples)
    budget = policy.read_budget(model.budget)
    if budget.seconds is not None:
        return budget.seconds
    n_train = n_samples * (n_folds - 1) / n_folds
    if large:
        budget = policy.shown_as_often(budget, int(n_train))
    n_epochs = policy.for_many_classes(budget, n_classes).checks[-1]
    given = model.candidates, model.budget
    candidates = policy.read_candidates(*given, n_samples, labels, one_evidence_cap=True)
    each = [
        _seconds_of_update((n_features * (1 + (c.n_bins or 0)), *c.layers, n_classes), evidence)
        for c in candidates
    ]
    n_first = 1 if large else policy.n_first_folds(n_samples, labels)
    n_later = n_folds - n_first if n_first is not None else n_folds  # or another partition
    return float(n_train * n_epochs * ((n_first or n_folds) * sum(each) + n_later * max(each)))


def _seconds_of_update(sizes: tuple[int, ...], evidence: float) -> float:
    """Return the seconds in which a network learns one sample."""
    return _WITH_GRADIENT * evidence + _SECONDS_OF_WORK * policy.work_of_a_row(sizes)


def _seconds_of_evidence(n_classes: int) -> float:
    """Measure the seconds of the integral of one label."""
    zero = np.zeros((_PROBED, n_classes))
    start = time.process_time()
    ENGINES["native"].class_log_probability(zero, zero, np.zeros(_PROBED, np.int64))
    return (time.process_time() - start) / _PROBED


def _duration(seconds: float) -> str:
    """Return seconds in words, for example 41 s, 3 min or 2.5 h."""
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
