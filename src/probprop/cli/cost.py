"""Processor time of a fit, announced before it starts.

It is the time of an update, measured on this machine, times the number of updates; for a
cross-validation, which stops trials early, an upper bound. The likelihood of a label is an integral
over all classes: with 1,000, an epoch takes fifty times as long as with three.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from probprop.estimators.cv import policy
from probprop.estimators.cv.folds import MOST_RAMPS
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_layer_sizes
from probprop.inference.engine import ENGINES

WORTH_TELLING = 10.0  # minimum number of seconds of a fit that is announced
_WITH_GRADIENT = 1.2  # times the integral alone, as measured
_PROBED = 20  # integrals


def cost_in_words(
    model: Any, n_samples: int, n_features: int, n_classes: int = 1, n_indicators: int = 0
) -> str:
    """Return a sentence about the processor time of a fit; empty if it is short.

    `n_classes` is 1 for a regressor. Among the `n_features` columns, `n_indicators` are 0 and 1
    alone, which no encoding expands.
    """
    if selects := hasattr(model, "candidates"):
        most = _of_cv(model, n_samples, n_features, n_classes, n_indicators)
    else:
        hidden = check_layer_sizes(model.hidden_layer_sizes)
        most = n_samples * model.n_epochs * _seconds_of_update(n_features, hidden, n_classes)
    if most < WORTH_TELLING:
        return ""
    word = "up to" if selects else "about"
    classes = f"{n_classes:,} classes and " if n_classes > 1 else ""
    return (
        f"{classes}{n_samples:,} samples: the fit takes {word} {duration(most)} of processor time"
    )


def _of_cv(model: Any, n_samples: int, n_features: int, n_classes: int, n_indicators: int) -> float:
    """Return the most seconds of a cross-validation: the costliest trials continue."""
    line = policy.policy_of(n_samples, classification=is_classifier(model))
    n_folds = line.n_folds if isinstance(model.cv, str) else model.cv
    n_train = n_samples * (1.0 - 1.0 / n_folds)
    rungs = policy.rungs_of(model.budget, n_samples, int(n_train), n_classes)
    candidates = policy.read_candidates(model.candidates, model.budget, line, n_classes=n_classes)
    n_ramps = [min((n_features - n_indicators) * (c.n_bins or 0), MOST_RAMPS) for c in candidates]
    each = sorted(
        _seconds_of_update(n_features + n, c.layers, n_classes)
        for n, c in zip(n_ramps, candidates, strict=True)
    )
    n_search = min(line.n_search_folds, n_folds)
    kept, most = len(each), 0.0
    for i, (start, end) in enumerate(pairwise((0, *rungs))):
        most += (end - start) * n_search * sum(each[-kept:])
        kept = min(kept, policy.N_KEPT[min(i, len(policy.N_KEPT) - 1)])
    most += rungs[-1] * (n_folds - n_search) * sum(each[-line.n_stacked :])
    return float(n_train * most)


def _seconds_of_update(n_inputs: int, layers: Iterable[int], n_classes: int) -> float:
    """Return the seconds in which a network learns one sample."""
    sizes = (n_inputs, *layers, n_classes if n_classes > 2 else 1)
    evidence = _seconds_of_evidence(n_classes) if n_classes > 2 else 0.0
    return _WITH_GRADIENT * evidence + _seconds_of_work() * policy.work_of_a_row(sizes)


@cache
def _seconds_of_work() -> float:
    """Measure the seconds per unit of `work_of_a_row`, which depend on the machine."""
    n_samples, n_features, n_units, n_epochs = 2_000, 10, 50, 20
    X = np.random.RandomState(0).standard_normal((n_samples, n_features))
    model = PBPRegressor(n_units, n_epochs=n_epochs, random_state=0)
    start = time.thread_time()
    model.fit(X, np.sin(X[:, 0]))
    work = policy.work_of_a_row((n_features, n_units, 1))
    return (time.thread_time() - start) / (n_samples * n_epochs * work)


@cache
def _seconds_of_evidence(n_classes: int) -> float:
    """Measure the seconds of the integral of one label."""
    zero = np.zeros((_PROBED, n_classes))
    start = time.process_time()
    ENGINES["native"].class_log_probability(zero, zero, np.zeros(_PROBED, np.int64))
    return (time.process_time() - start) / _PROBED


def duration(seconds: float) -> str:
    """Return seconds in words.

    >>> duration(41.2), duration(180.0), duration(9000.0)
    ('41 s', '3 min', '2.5 h')
    """
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"
