"""Folds, and the encodings of the samples."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length, column_or_1d

from probprop._types import Array, FloatArray
from probprop.encoding import piecewise
from probprop.encoding.missing import Completed, Joint, complete
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv import policy
from probprop.estimators.cv.policy import Bins
from probprop.estimators.validation import check_int
from probprop.inference import standardize
from probprop.inference.inputs import MEAN, Inputs, Samples
from probprop.inference.standardize import Moments, Standardizer

MOST_RAMPS = 1_024  # of all columns of a table together: wide tables have fewer per column
FEWEST_BINS = 4  # with fewer per column, columns are not encoded


@dataclass(frozen=True, eq=False)
class Fold:
    """One split of the rows."""

    train: Array  # rows to learn from
    test: Array  # validation rows
    seed: int  # of the network that is trained on them


def make_folds(
    cv: Any,
    X: Array,
    y: Array,
    groups: ArrayLike | None,
    rng: RandomState,
    *,
    stratified: bool = False,
    counts: Array | None = None,
) -> list[Fold]:
    """Split the rows by the parameter `cv`: an int, a splitter, or pairs (train, test).

    An int is that many folds of shuffled rows, or of groups, and no more than there are of them; if
    y is `stratified`, (n,) with few values, the folds share each value alike. `counts` are the rows
    that are not left out, None for all: the folds number them from 0.
    """
    from sklearn.model_selection import check_cv  # slow to import, and not to predict

    together: Array | None = None if groups is None else column_or_1d(groups)
    if together is not None:
        check_consistent_length(X, together)
    if isinstance(cv, int | np.integer):
        seed = rng.randint(2**31 - 1)
        if counts is not None:
            X, y, together = X[counts], y[counts], None if together is None else together[counts]
        splitter = _shuffled(cv, y, together, seed, stratified=stratified)
        counts = None
    else:
        splitter = check_cv(cv, y)
    parts = [_as_rows(a, b, len(y), counts) for a, b in splitter.split(X, y, together)]
    for side, name in enumerate(("train on", "test on")):
        if not all(len(part[side]) for part in parts):
            raise ValueError(f"cv gives a fold without rows to {name}. Use fewer folds.")
    if not parts:
        raise ValueError("cv gives no folds at all. Give at least one pair (train, test).")
    seeds: list[int] = rng.randint(2**31 - 1, size=len(parts)).tolist()
    return [Fold(*part, seed) for part, seed in zip(parts, seeds, strict=True)]


def _as_rows(train: Any, test: Any, n: int, counts: Array | None) -> tuple[Array, Array]:
    """Return the rows that count by number, as masks may be given too."""
    given = (np.asarray(train), np.asarray(test))
    rows, held_out = (np.flatnonzero(a) if a.dtype == bool else a for a in given)
    if counts is None:
        return rows, held_out
    number = np.full(n, -1)
    number[counts] = np.arange(len(counts))
    numbers = number[rows], number[held_out]
    return numbers[0][numbers[0] >= 0], numbers[1][numbers[1] >= 0]


def _shuffled(cv: Any, y: Array, groups: Array | None, seed: int, *, stratified: bool) -> Any:
    from sklearn.model_selection import GroupKFold, KFold, PredefinedSplit, StratifiedGroupKFold

    check_int("cv", cv, 2)
    if groups is None and stratified:
        return PredefinedSplit(stratified_folds(y, min(cv, len(y)), RandomState(seed)))
    if groups is None:
        return KFold(min(cv, len(y)), shuffle=True, random_state=seed)
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise ValueError(
            f"groups must have at least 2 different values, for training and validation. "
            f"Got {n_groups}."
        )
    n_folds = min(cv, n_groups)
    if stratified and np.unique(y, return_counts=True)[1].min() >= n_folds:
        return StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
    return GroupKFold(n_folds, shuffle=True, random_state=seed)


def stratified_folds(y: Array, n_folds: int, rng: RandomState) -> Array:
    """Return the fold of every row: rows of one value are assigned in turn.

    A value may have fewer rows than there are folds, which scikit-learn's folds do not allow.
    """
    shuffled = rng.permutation(len(y))
    order = shuffled[np.argsort(y[shuffled], kind="stable")]
    fold = np.empty(len(y), int)
    fold[order] = np.arange(len(y)) % n_folds
    return fold


def time_folds(times: Array, n_folds: int) -> list[tuple[Array, Array]]:
    """Return the training and validation rows of folds in time, (n,): past before future.

    The later half of the rows forms `n_folds` consecutive validation sets, each predicted from all
    rows before it; rows of the same time are in one set. The last one comes first: where few
    folds decide, it has the most training rows.
    """
    check_int("cv", n_folds, 2)
    in_order, n = np.sort(times), len(times)
    starts = np.unique(in_order[n // 2 + (n - n // 2) * np.arange(n_folds) // n_folds])
    starts = starts[starts > in_order[0]]
    if not len(starts):  # one time has more than half of the rows, the first
        starts = np.unique(in_order)[1:2]
    if not len(starts):
        raise ValueError(
            "times must have at least 2 different values, for training and validation. Got 1."
        )
    block = np.searchsorted(starts, times, side="right")
    numbers = range(len(starts), 0, -1)
    return [(np.flatnonzero(block < k), np.flatnonzero(block == k)) for k in numbers]


def two_holdout_folds(n_rows: int, rng: RandomState) -> list[Fold]:
    """Return two folds of shuffled rows, whose validation sets are the first and the last rows.

    No network then needs a copy of its rows. Every call draws other seeds.
    """
    n_held, rows = min(policy.HELD_OUT, n_rows // 5), np.arange(n_rows)
    first, last = rng.randint(2**31 - 1, size=2).tolist()
    return [
        Fold(rows[n_held:], rows[:n_held], first),
        Fold(rows[: n_rows - n_held], rows[n_rows - n_held :], last),
    ]


def folds_in_turn(n: int, n_folds: int, start: int) -> list[Fold]:
    """Return the folds of n new rows, of which the first belongs to the fold start mod n_folds.

    The network of a single fold learns all rows, after it has predicted them.
    """
    of = (start + np.arange(n)) % n_folds
    learned = [np.flatnonzero((of != i) | (n_folds == 1)) for i in range(n_folds)]
    return [Fold(rows, np.flatnonzero(of == i), seed=0) for i, rows in enumerate(learned)]


@dataclass(frozen=True, eq=False)
class Encodings:
    """Samples and their encodings, made when needed. Encoded samples are not stored."""

    X: Any  # (n, n_features): an array or `Coded`
    dtype: np.dtype[Any]  # of the weights
    joint: Joint | None = None  # completes missing values; None if there are none
    _states: dict[Bins, PiecewiseLinear | None] = field(default_factory=dict)
    _inputs: dict[Bins, Inputs] = field(default_factory=dict)

    def of(self, bins: Bins) -> PiecewiseLinear | None:
        """Return the encoding of a candidate.

        Without bins, it is None if there are no one-hot sets. Otherwise columns are standardized,
        except for these sets, which are not centered.
        """
        if bins not in self._states:
            n_bins, codes = bins or (1, False)
            coded, plain = piecewise.code_columns(self.X) if codes else None, bins is None
            self._states[bins] = None
            if not plain or self._one_hot is not None:
                self._states[bins] = piecewise.fit_piecewise(
                    self.X, n_bins, centered=plain, one_hot=self._one_hot, coded=coded
                )
        return self._states[bins]

    @cached_property
    def _one_hot(self) -> Array | None:
        return piecewise.one_hot_sets(self.X)

    def bins_that_fit(self, n_bins: int) -> int:
        """Halve the number of bins until all ramps together are few; 1 means no encoding."""
        while n_bins > 1 and not self.fits((n_bins, False)):
            n_bins = n_bins // 2 if n_bins >= 2 * FEWEST_BINS else 1
        return n_bins

    def fits(self, bins: Bins) -> bool:
        """Whether that encoding has few ramps, and codes or mean targets if it should have some."""
        state = self.of(bins)
        if bins is None or state is None:
            return True
        means = state.one_hot is not None and np.isfinite(state.scale[state.one_hot == MEAN]).any()
        special = not bins[1] or bool(means or state.flat.any())
        return len(state.column) <= MOST_RAMPS and special

    def inputs(self, bins: Bins) -> Inputs:
        """Return all rows in that encoding, with Gaussians for missing values."""
        if bins not in self._inputs:
            self._inputs[bins] = self.completed.inputs(self.of(bins))
        return self._inputs[bins]

    def moments(
        self,
        rows: Array,
        bins: Bins,
        of: Callable[[Samples], tuple[FloatArray, FloatArray]],
    ) -> tuple[FloatArray, FloatArray]:
        """Return means and variances of the outputs of some rows; see `Completed`."""
        if not len(self.completed.gaps):
            return of(self.inputs(bins).X[rows])
        return self.completed[rows].moments(self.of(bins), of)

    @cached_property
    def completed(self) -> Completed:
        """All rows, completed."""
        return complete(self.X, self.joint)

    def standardizer(self, rows: Array | slice, y: Moments | None, bins: Bins) -> Standardizer:
        """Return what standardizes the rows of a fold, whose targets are measured."""
        if (state := self.of(bins)) is not None:
            return standardize.leaving_features(state.n_outputs, y)
        own = standardize.standardizer_of(standardize.measure(self.X[rows]), y)
        return standardize.with_usual_scales(own, self._spreads)

    @cached_property
    def _spreads(self) -> FloatArray:
        return standardize.fit_standardizer(self.X, None).spreads


def side_by_side(rows: Array) -> Array | slice:
    """Return rows that lie side by side as a slice, with which they need not be copied."""
    if len(rows) and (np.diff(rows) == 1).all():
        return slice(int(rows[0]), int(rows[-1]) + 1)
    return rows


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The validation rows, in ascending order."""

    folds: Sequence[Fold]

    @property
    def rows(self) -> Array:
        """The rows, ascending; a row that is in the test rows of several folds is repeated."""
        return np.sort(np.concatenate([fold.test for fold in self.folds]))

    @property
    def fold(self) -> Array:
        """The fold whose validation set has each of `rows`."""
        return self.in_order([np.full(len(f.test), i) for i, f in enumerate(self.folds)])

    def in_order(self, per_fold: Sequence[Array]) -> Array:
        """Return values of the test rows of every fold in the order of `rows`."""
        order = np.argsort(np.concatenate([fold.test for fold in self.folds]), kind="stable")
        return np.concatenate(per_fold)[order]
