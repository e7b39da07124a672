"""How uncertain predictions of completed samples are, measured on masked out-of-fold samples.

Values of out-of-fold samples are masked: of most samples one feature, of the others a random
quarter of the features. The samples are completed and predicted by the networks that had not seen
them. With v the variance that calibration gives a prediction, s^2 its variance between the nodes of
a completed sample and r the residual,

    r ~ N(0, v + b^2 s^2),

and b^2, at least 1, is the largest factor under which the log-likelihood of the targets is within
1/2 of its maximum. That is one standard error above the most likely factor: intervals that are too
narrow do more harm than wide ones. There is one factor for each feature, and one for several that
are missing together. For class labels it is the same with the outputs of the networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.estimators.cv.folds import Fold, HeldOut
from probprop.estimators.cv.joint import Joint, complete
from probprop.estimators.cv.judge import FoldOutputs
from probprop.estimators.cv.race import Race
from probprop.estimators.cv.trainings import Contest, outputs_of

LARGEST_FACTOR = 100.0
"""The largest factor that is tried."""

_N_MASKED = 1_024  # samples, about; if there are fewer they are masked several times
_EVERY = 4  # of these one misses a quarter of the features, the others one each
_SHARE = 0.25
_N_PATTERNS = 16  # different sets of features that are a quarter
_N_FACTORS = 41
_N_BEFORE = 16.0  # samples that the mean over all masked samples counts as, for each feature
_WIDTH = 0.7  # of log b^2 before any sample: where nodes hardly differ, samples say nothing
_BELOW_BEST = 0.5


def calibrated_joint(found: Race, contest: Contest, calibration: Any) -> Joint | None:
    """Return the joint distribution of the features with its factor b^2; None if there is none.

    Parameters
    ----------
    found : Race
        Its networks predict the samples that they had not seen.
    contest : Contest
    calibration : Calibration or ClassCalibration
        Of these networks.
    """
    if (joint := contest.encodings.joint) is None:
        return None
    candidate = found.choice.candidate
    contest, plan = contest.seen_by(candidate), contest.plan(candidate)
    encode = contest.encodings.encode(candidate.n_bins)
    held_out = HeldOut(_about(_N_MASKED, found.partitions[0]))
    outputs, between, noise, group = list[FoldOutputs](), list[Any](), list[Array](), list[Array]()
    for fold, fitted in zip(held_out.folds, found.checks[0].fitted, strict=True):
        X, what = masked(contest.encodings.X[fold.test])
        rows = complete(X, joint)
        of = outputs_of(plan, fitted.posterior, fitted.standardizer)
        parts = rows.parts(encode(X), encode, of)
        outputs.append(FoldOutputs(fitted, parts.mean, parts.within))
        between.append(parts.between)
        group.append(what)
        if (h := calibration.log_scale(rows)) is not None:
            noise.append(np.sqrt(h.factor))
    y, weights = contest.y[held_out.rows], contest.weights_of(held_out.rows)
    a2 = float(calibration.factor)

    def log_p(factor: float) -> FloatArray:
        """Return the log density, or probability, of the target of each sample."""
        wider = [
            own._replace(variance=own.variance + factor / a2 * b)
            for own, b in zip(outputs, between, strict=True)
        ]
        oof = contest.judge.out_of_fold(wider, y, weights, held_out)
        if noise:
            oof = replace(oof, aleatoric_std=oof.aleatoric_std * held_out.in_order(noise))
        found_p: FloatArray = oof.log_p(a2)
        return found_p if weights is None else weights * found_p

    factors = np.geomspace(1.0, LARGEST_FACTOR, _N_FACTORS)
    with np.errstate(all="ignore"):  # a factor whose density is not finite is not taken
        each = np.array([log_p(float(factor)) for factor in factors])
    of_group = held_out.in_order(group) == np.arange(len(joint.factor))[:, np.newaxis]
    prior = -0.5 * (np.log(factors) / _WIDTH) ** 2
    total = each @ of_group.T + _N_BEFORE * each.mean(axis=1, keepdims=True) + prior[:, np.newaxis]
    total = np.where(np.isfinite(total), total, -np.inf)
    good = total >= total.max(axis=0) - _BELOW_BEST
    return replace(joint, factor=np.array([factors[own].max() for own in good.T]))


def _about(n: int, folds: Sequence[Fold]) -> list[Fold]:
    """Return the folds with about n test samples in all: some of them, or all several times.

    Examples
    --------
    >>> folds = [Fold(np.arange(3), np.arange(3, 6), seed=0)]
    >>> [_about(n, folds)[0].test.tolist() for n in (2, 7)]
    [[3, 5], [3, 4, 5, 3, 4, 5]]
    """
    n_held = sum(len(fold.test) for fold in folds)
    step, times = -(-n_held // n), max(1, n // n_held)
    return [replace(fold, test=np.tile(fold.test[::step], times)) for fold in folds]


def masked(X: Array) -> tuple[Array, Array]:
    """Return samples with one feature masked in turn, or a quarter, and which it is.

    The second, (n,), is the number of the feature, or the number of features if several, or one
    more than were missing before, are missing.

    Examples
    --------
    >>> X, which = masked(np.zeros((5, 8)))
    >>> np.isnan(X).sum(axis=1), which
    (array([1, 1, 1, 2, 1]), array([0, 1, 2, 8, 3]))
    """
    n, n_features = X.shape
    missing, rng = np.isnan(X), RandomState(0)
    several = np.arange(n) % _EVERY == _EVERY - 1
    one = np.flatnonzero(~several)
    missing[one, np.arange(len(one)) % n_features] = True
    for k in range(_N_PATTERNS):
        some = rng.permutation(n_features)[: max(1, round(_SHARE * n_features))]
        own = np.flatnonzero(several)[k::_N_PATTERNS]
        missing[np.ix_(own, some)] = True
    which = np.where(missing.sum(axis=1) > 1, n_features, missing.argmax(axis=1))
    return np.where(missing, np.nan, X).astype(X.dtype), which
