"""Cross-validated estimators on rows in shards: the choice on a sample, the networks on all rows.

The rows of every shard are assigned to folds. The candidates are compared on a sample of the rows.
Then the network of each fold learns all rows outside its fold; its predictions of the rows of
the sample that are in its fold judge and calibrate it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.data import shards
from probprop.data.shards import DiskRows, Folds, Training, View
from probprop.data.sources import Loaded
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.estimators.checkpoints import settings_of, text_of
from probprop.estimators.cv import policy
from probprop.estimators.cv.base import PBPEstimatorCV, contest_of, publish_race, search_of
from probprop.estimators.cv.calibration import standard_error, weighted_mean
from probprop.estimators.cv.folds import Fold, HeldOut
from probprop.estimators.cv.policy import Budget, Candidate
from probprop.estimators.cv.search import (
    TRAINING,
    Attempt,
    CandidateCurve,
    Check,
    Contest,
    CVChoice,
    Race,
    Runner,
    check_of,
    in_a_file,
)
from probprop.estimators.data import relative_weights
from probprop.estimators.progress import Share, progress
from probprop.estimators.validation import check_int
from probprop.inference.checkpoint import CheckpointFile
from probprop.inference.history import warn_of_counts
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.shards import Rows
from probprop.inference.standardize import (
    Moments,
    Standardizer,
    check_target_scale,
    leaving_features,
    measure,
    merged,
    standardizer_of,
    with_usual_scales,
    with_usual_target_scale,
)
from probprop.inference.training import Run

if TYPE_CHECKING:
    from probprop.data.cluster import ClusterRows  # it needs Dask

    ShardedRows: TypeAlias = DiskRows | ClusterRows

SAMPLE = 20_000
"""Rows that the choice is made on, and that calibrate: from as many on, one fold decides it."""
_SHARE_OF_CHOICE = 0.3  # of the progress bar
_BLOCK = 1 << 14  # rows that are encoded at a time

_Path = str | os.PathLike[str]
Report = Callable[[float], None]


def fit_cross_validated(
    rows: ShardedRows,
    estimator: PBPEstimatorCV,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callable[[Share], object] | None,
) -> PBPEstimatorCV:
    """Return a fitted clone of the estimator."""
    if not isinstance(estimator.cv, int | np.integer):
        raise TypeError(
            "cv must be an int for rows that are not all in memory, which are assigned to folds "
            f"wherever they are, not {type(estimator.cv).__name__}."
        )
    check_int("cv", estimator.cv, 2)
    model: Any = clone(estimator)
    model.n_features_in_ = rows.schema.n_features
    likelihood, n = rows.schema.likelihood, shards.n_rows(rows.summaries)
    mean_weight = shards.mean_weight(rows.summaries)
    spreads = shards.standardizer_of_all(rows.summaries, Plan(likelihood)).spreads
    rng = check_random_state(model.random_state)
    split = Folds(rng.randint(2**31 - 1), min(model.cv, n))
    sample = _sample(rows, split)
    x = merged([summary.x for summary in rows.summaries])
    ends = np.where(x.n == 0, np.nan, [x.low, x.high])  # (2, n_features)
    bounds = fit_bounds(sample.X, ends)
    sample = sample._replace(X=bounds.apply(sample.X))
    seeds = rng.randint(2**31 - 1, size=split.n_folds).tolist()
    folds = [
        Fold(np.flatnonzero(sample.fold != i), np.flatnonzero(sample.fold == i), seed)
        for i, seed in enumerate(seeds)
    ]
    seed = rng.randint(2**31 - 1)
    weights = relative_weights(sample.weights, mean_weight)
    contest = contest_of(model, likelihood, sample.X, sample.y, weights, folds)
    budget = policy.for_many_classes(policy.read_budget(model.budget), likelihood.n_classes)
    # Seconds of a budget are those of this process.
    contest = replace(contest, step=None if budget.seconds is not None else rows.advance())
    path = None if checkpoint is None else f"{os.fspath(checkpoint)}.choice"
    with (
        in_a_file(contest, path, model, budget) as contest,
        progress(model.verbose, callback) as report,
    ):
        choice = _choice(
            rows,
            model,
            contest,
            budget,
            seed,
            lambda share: report(Share(_SHARE_OF_CHOICE * share, share.stage)),
        )
        view = _view(contest, choice.candidate, bounds, mean_weight)
        networks = Networks(rows, contest, choice.candidate, split, view, n_rounds, spreads)
        files = _files(checkpoint, model, networks)
        rest = 1.0 - _SHARE_OF_CHOICE
        check, why = networks.train(
            policy.shown_as_often(budget, n) if policy.is_large(n) else budget,
            files,
            lambda share: report(Share(_SHARE_OF_CHOICE + rest * share, TRAINING)),
        )
    ended = f"chosen on {len(sample.y):,} of {n:,} rows, fitted on all, {why}"
    choice = replace(choice, n_epochs=check.n_epochs, ended=ended)
    judge = contest.seen_by(choice.candidate).judge
    threads = (len(folds), seed, effective_n_jobs(model.n_jobs))
    calibrated = judge.calibrate(check.oof, HeldOut(folds), contest.encodings, *threads)
    calibration: Any = calibrated.calibration
    if hasattr(calibration, "range"):  # the range of all rows; for classification there is none
        whole = calibration.range.grown(bounds.apply(ends))
        calibrated = calibrated._replace(calibration=replace(calibration, range=whole))
    race = Race(choice, (check,), (folds,), interrupted=False)
    publish_race(model, Attempt(race, calibrated), contest, mean_weight)
    model.bounds_ = bounds
    model.oof_rows_ = sample.row
    model.n_samples_seen_ = n
    epochs = [epoch for member in model.estimators_ for epoch in member.history_]
    warn_of_counts(epochs, model.estimators_[0].posterior_)
    return model  # type: ignore[no-any-return]


# ---- The sample, and the choice


class Drawn(NamedTuple):
    """A sample of rows."""

    X: Array
    y: Array
    fold: Array  # of each row
    row: Array  # numbers among all rows
    weights: Array  # (n,)


def draw(loaded: Loaded, shard: int, split: Folds, n_of: Mapping[int, int]) -> Drawn:
    """Draw rows of a shard, or of a pile: as many as `n_of` has for its number."""
    n = n_of[shard]
    own = loaded[split.order(shard, len(loaded.y))[:n]]
    weights = np.ones(n) if own.weights is None else own.weights
    assert own.number is not None
    return Drawn(own.X, own.y, np.arange(n) % split.n_folds, own.number, weights)


def _sample(rows: ShardedRows, split: Folds) -> Drawn:
    """Draw rows from all shards, and put them in the order of the files."""
    sizes = {summary.shard: summary.n for summary in rows.summaries}
    n_of = dict(zip(sizes, shards.sample_sizes([*sizes.values()], SAMPLE), strict=True))
    parts: list[Drawn] = rows.map(draw, split, n_of)
    whole = Drawn(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(whole.row)
    return Drawn(*(array[order] for array in whole))


def _choice(
    rows: ShardedRows,
    model: Any,
    contest: Contest,
    budget: Budget,
    seed: int,
    report: Callable[[Share], None],
) -> CVChoice:
    """Run the race on the sample."""
    n_first = policy.n_first_folds(len(contest.y), contest.judge.usual)
    first = replace(contest, folds=contest.folds[:n_first])
    positive = bool((merged([s.y for s in rows.summaries]).low > 0.0).all())
    search, candidates = search_of(model, first, budget, seed, report, positive)
    if not positive and any(candidate.power is not None for candidate in candidates):
        raise ValueError(
            "power of a candidate is for targets that are all above 0, but some are not: leave "
            "such rows out, or give candidates without a power."
        )
    found = search.best_of(candidates)
    if found.race.interrupted:
        raise KeyboardInterrupt
    return found.race.choice


# ---- The networks of the folds


class FoldMoments(NamedTuple):
    """What the rows of a fold in a shard are like, as a candidate sees them."""

    x: Moments
    y: Moments


def measure_folds(loaded: Loaded, shard: int, split: Folds, view: View) -> list[FoldMoments | None]:
    """Measure the rows of every fold of a shard, some at a time; None: there are none."""
    order, found = split.order(shard, len(loaded.y)), list[FoldMoments | None]()
    for fold in range(split.n_folds):
        rows = order[fold :: split.n_folds]
        blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
        x = [measure(view.X(loaded.X[block])) for block in blocks]
        y = [measure(view.y(loaded.y[block]).reshape(len(block), -1)) for block in blocks]
        found.append(FoldMoments(merged(x), merged(y)) if blocks else None)
    return found


def _view(contest: Contest, candidate: Candidate, bounds: InputBounds, mean_weight: float) -> View:
    """Return how the networks of a candidate see rows."""
    seen, encodings = contest.seen_by(candidate), contest.encodings
    encoding = None if candidate.n_bins is None else encodings.state(candidate.n_bins)
    transformation = getattr(seen.judge, "transformation", None)
    plan = seen.plan(candidate)
    return View(plan, bounds, encoding, transformation, encodings.joint, mean_weight)


Files = Callable[[int, int], CheckpointFile | None]
"""Returns the checkpoint of a fold on the way to so many epochs: there is one for each check."""


class Networks:
    """The trainings of all folds on all rows."""

    def __init__(
        self,
        rows: ShardedRows,
        contest: Contest,  # the sample, and all folds of it
        candidate: Candidate,
        split: Folds,
        view: View,
        n_rounds: int | None,
        spreads: FloatArray,  # standard deviations of the features over all rows
    ) -> None:
        self.rows, self.sample, self.candidate, self.view = rows, contest, candidate, view
        self.n_rounds = rows.n_rounds(len(candidate.layers)) if n_rounds is None else n_rounds
        measured = rows.map(measure_folds, split, view)
        self.trainings: list[Training] = []
        for i, fold in enumerate(contest.folds):
            others = [own for of in measured for j, own in enumerate(of) if j != i and own]
            every = [own for of in measured for own in of if own]
            standardizer = self._standardizer(others, every, spreads)
            shared = (view, standardizer, RandomState(fold.seed), self.n_rounds)
            begun = shards.start_training(rows, *shared, n_epochs=0, folds=split, fold=i)
            self.trainings.append(begun)

    def _standardizer(
        self, others: Sequence[FoldMoments], every: Sequence[FoldMoments], spreads: FloatArray
    ) -> Standardizer:
        """Return the standardizer of a network that learns the other folds."""
        plan = self.view.plan
        y = merged([own.y for own in others]) if plan.likelihood.standardises_target else None
        own = standardizer_of(merged([own.x for own in others]), y)
        standardizer = leaving_features(own)
        if self.view.encoding is None:
            standardizer = with_usual_scales(own, spreads)
        if y is not None:
            all_y = merged([own.y for own in every])
            relative = self.candidate.power is not None
            standardizer = with_usual_target_scale(standardizer, y, all_y, relative=relative)
            check_target_scale(standardizer.y_scale)
            standardizer.check_y(np.array([all_y.low, all_y.high]), plan.dtype)
        return standardizer

    def check(self) -> Check:
        """Judge the networks on the rows of the sample that each has not seen."""
        none = Rows(self.sample.y[:0], None, self.sample.y[:0])
        runs = [Run(self.view.plan, own.fitted, none, None) for own in self.trainings]
        history = tuple(list(own.history) for own in self.trainings)
        runner = Runner(CandidateCurve(self.candidate), tuple(runs), history)
        return check_of(runner, self.sample, self.sample.folds)

    def train(self, budget: Budget, files: Files, report: Report) -> tuple[Check, str]:
        """Train all folds from check to check; return the best one, and why it ended."""
        best: Check | None = None
        n_folds, last = len(self.trainings), budget.checks[-1]
        for start, end in pairwise((0, *budget.checks)):
            for i in range(n_folds):

                def told(epoch: Epoch, start: int = start, end: int = end, i: int = i) -> None:
                    made = n_folds * start + i * (end - start) + epoch.n_iter - start
                    report(made / (n_folds * last))

                now = self.trainings[i]
                self.trainings[i] = shards.make_epochs(now, self.rows, end, files(i, end), told)
            check = self.check()
            if not np.isfinite(check.log_p).all():
                if best is None:
                    raise FloatingPointError(
                        "The networks made no finite predictions of the rows held out. Look for "
                        "outliers in X and y, or give `candidates` that have fewer layers."
                    )
                return best, f"until predictions were not finite at {end} epochs"
            gain = None if best is None else check.log_p - best.log_p
            if best is None or check.score > best.score:
                best = check
            if gain is not None:
                # The next epochs, twice as many, are made for a gain above one standard error.
                weights = self.sample.weights
                if weighted_mean(gain, weights) <= standard_error(gain, weights):
                    return best, f"without a clear gain after {start} epochs"
        assert best is not None
        return best, "to the end"


def _files(path: _Path | None, model: PBPEstimatorCV, networks: Networks) -> Files:
    if path is None:
        return lambda fold, n_epochs: None
    data, settings = shards.digest_of(networks.rows), settings_of(model) | networks.rows.settings
    settings["rounds"] = str(networks.n_rounds)
    settings["chosen candidate"] = text_of(networks.candidate)

    def file(fold: int, n_epochs: int) -> CheckpointFile:
        own = f"{os.fspath(path)}.{fold}.{n_epochs}"
        return CheckpointFile(own, data, settings | {"fold": str(fold)})

    return file
