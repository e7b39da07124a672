"""Cross-validated estimators on rows in shards: the choice on a sample, the networks on all rows.

The rows of every shard are assigned to folds. The candidates are compared on a sample of the rows.
Then the network of each fold learns all rows outside its fold; its predictions of the rows of
the sample that are in its fold judge and calibrate it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.data.shards import (
    DiskRows,
    Folds,
    Learner,
    View,
    digest_of,
    mean_weight,
    n_rows,
    sample_sizes,
    standardizer_of_all,
)
from probprop.data.sources import Loaded
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.estimators.checkpoints import check_seed, settings_of, text_of
from probprop.estimators.cv.base import PBPEstimatorCV, contest_of, publish_race, search_of
from probprop.estimators.cv.calibration import standard_error, weighted_mean
from probprop.estimators.cv.folds import Fold, HeldOut
from probprop.estimators.cv.policy import (
    Budget,
    Candidate,
    for_many_classes,
    is_large,
    n_first_folds,
    read_budget,
    shown_as_often,
)
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
from probprop.estimators.progress import Share, progress
from probprop.estimators.validation import check_int
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, Origin, checked
from probprop.inference.history import check_learned, warn_of_counts
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.shards import Rows, Schedule
from probprop.inference.standardize import (
    Moments,
    check_target_scale,
    leaving_features,
    measure,
    merged,
    standardizer_of,
    with_usual_scales,
    with_usual_target_scale,
)
from probprop.inference.training import Fitted, Run, Setting, State, first_state, rounds

if TYPE_CHECKING:
    from probprop.data.cluster import ClusterRows  # it needs Dask

    ShardedRows: TypeAlias = DiskRows | ClusterRows

SAMPLE = 20_000
"""Rows that the choice is made on, and that calibrate: from as many on, one fold decides it."""
_SHARE_OF_CHOICE = 0.3  # of the progress bar
_BLOCK = 1 << 14  # rows that are encoded at a time

_Path = str | os.PathLike[str]
Report = Callable[[float], None]


def check_cross_validated(estimator: PBPEstimatorCV, checkpoint: _Path | None) -> None:
    """Refuse parameters that rows in shards have no use for."""
    if not isinstance(estimator.cv, int | np.integer):
        raise TypeError(
            "cv must be an int for rows that are not all in memory, which are assigned to folds "
            f"wherever they are, not {type(estimator.cv).__name__}."
        )
    check_int("cv", estimator.cv, 2)
    if checkpoint is not None:
        check_seed(estimator.random_state)


def fit_cross_validated(
    rows: ShardedRows,
    estimator: PBPEstimatorCV,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callable[[Share], object] | None,
) -> PBPEstimatorCV:
    """Return a fitted clone of the estimator."""
    check_cross_validated(estimator, checkpoint)
    model: Any = clone(estimator)
    model.n_features_in_ = rows.schema.n_features
    likelihood, n = rows.schema.likelihood, n_rows(rows.summaries)
    spreads = standardizer_of_all(rows.summaries, Plan(likelihood)).spreads
    rng = check_random_state(model.random_state)
    split = Folds(rng.randint(2**31 - 1), min(model.cv, n))
    sample, ends = _sample(rows, split), _ends(rows)
    bounds = fit_bounds(sample.X, ends)
    sample = sample._replace(X=bounds.apply(sample.X))
    seeds = rng.randint(2**31 - 1, size=split.n_folds).tolist()
    folds = [
        Fold(np.flatnonzero(sample.fold != i), np.flatnonzero(sample.fold == i), seed)
        for i, seed in enumerate(seeds)
    ]
    seed = rng.randint(2**31 - 1)
    weighted = not (sample.weights == 1.0).all()
    weights = sample.weights if weighted else None
    contest = contest_of(model, likelihood, sample.X, sample.y, weights, folds)
    budget = for_many_classes(read_budget(model.budget), likelihood.n_classes)
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
        networks = Networks(rows, contest, choice.candidate, split, n_rounds, bounds, spreads)
        files = _files(checkpoint, model, networks)
        rest = 1.0 - _SHARE_OF_CHOICE
        check, why = _train(
            networks,
            shown_as_often(budget, n) if is_large(n) else budget,
            files,
            lambda share: report(Share(_SHARE_OF_CHOICE + rest * share, TRAINING)),
        )
    ended = f"chosen on {len(sample.y):,} of {n:,} rows, fitted on all, {why}"
    choice = replace(choice, n_epochs=check.n_epochs, ended=ended)
    judge = networks.contest.judge
    threads = (len(folds), seed, effective_n_jobs(model.n_jobs))
    calibrated = judge.calibrate(check.oof, HeldOut(folds), contest.encodings, *threads)
    whole = _of_all(calibrated.calibration, bounds.apply(ends))
    calibrated = calibrated._replace(calibration=whole)
    race = Race(choice, (check,), (folds,), interrupted=False)
    publish_race(model, Attempt(race, calibrated), contest, mean_weight(rows.summaries))
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
    row: Array  # places in the shard, or numbers among all rows
    weights: Array  # (n,)


def draw(loaded: Loaded, shard: int, split: Folds, n_of: Mapping[int, int]) -> Drawn:
    """Draw rows of a shard, or of a pile: as many as `n_of` has for its number."""
    n = n_of[shard]
    rows = split.order(shard, len(loaded.y))[:n]
    weights = np.ones(n) if loaded.weights is None else loaded.weights[rows]
    return Drawn(loaded.X[rows], loaded.y[rows], np.arange(n) % split.n_folds, rows, weights)


def _sample(rows: ShardedRows, split: Folds) -> Drawn:
    """Draw rows from all shards, and put them in the order of the files."""
    sizes = {summary.shard: summary.n for summary in rows.summaries}
    n_of = dict(zip(sizes, sample_sizes([*sizes.values()], SAMPLE), strict=True))
    drawn: list[Drawn] = rows.map(draw, split, n_of)
    numbers = rows.numbers([own.row for own in drawn])
    parts = [own._replace(row=number) for own, number in zip(drawn, numbers, strict=True)]
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
    n_first = n_first_folds(len(contest.y), contest.judge.usual)
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


def _ends(rows: ShardedRows) -> FloatArray:
    """Return the smallest and the largest value of each feature, (2, n_features), NaN if none."""
    x = merged([summary.x for summary in rows.summaries])
    return np.where(x.n == 0, np.nan, [x.low, x.high])


def _of_all(calibration: Any, ends: Array) -> Any:
    """Return a calibration whose range is that of all rows; that of labels has none."""
    if not hasattr(calibration, "range"):
        return calibration
    return replace(calibration, range=calibration.range.grown(ends))


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


class Networks:
    """The trainings of all folds on all rows."""

    def __init__(
        self,
        rows: ShardedRows,
        contest: Contest,  # the sample, and all folds of it
        candidate: Candidate,
        split: Folds,
        n_rounds: int | None,
        bounds: InputBounds,
        spreads: FloatArray,  # standard deviations of the features over all rows
    ) -> None:
        self.candidate, self.sample = candidate, contest
        self.contest = contest.seen_by(candidate)
        self.folds = contest.folds
        n_bins, encodings = candidate.n_bins, contest.encodings
        encoding = None if n_bins is None else encodings.state(n_bins)
        transformation = getattr(self.contest.judge, "transformation", None)
        plan = self.contest.plan(candidate)
        self.view = View(plan, bounds, encoding, transformation, encodings.joint)
        self.n_rounds = rows.n_rounds(len(candidate.layers)) if n_rounds is None else n_rounds
        self.rows, self._split = rows, split
        self._spreads = spreads
        measured = rows.map(measure_folds, split, self.view)
        self.trainings = [self._training(i, measured) for i in range(split.n_folds)]

    def _training(self, fold: int, measured: Sequence[Sequence[Any]]) -> _Training:
        """Return the training of a fold before the first round."""
        plan, seed = self.view.plan, self.folds[fold].seed
        others = [own for of in measured for i, own in enumerate(of) if i != fold and own]
        of_y = merged([own.y for own in others]) if plan.likelihood.standardises_target else None
        own = standardizer_of(merged([own.x for own in others]), of_y)
        standardizer = leaving_features(own)
        if self.view.encoding is None:
            standardizer = with_usual_scales(own, self._spreads)
        if of_y is not None:
            every = merged([own.y for of in measured for own in of if own])
            relative = self.candidate.power is not None
            standardizer = with_usual_target_scale(standardizer, of_y, every, relative=relative)
            check_target_scale(standardizer.y_scale)
            standardizer.check_y(np.array([every.low, every.high]), plan.dtype)
        none = Inputs(np.zeros((0, len(standardizer.x_mean))))
        begun = training.start(
            plan, none, np.zeros(0), RandomState(seed), standardizer, near_draw=True
        )
        learner = Learner(self.view, standardizer, seed, self._split, fold)
        schedule = Schedule(self.rows.sizes(learner), self.n_rounds, seed)
        setting = Setting(plan, standardizer, schedule, n_epochs=0)
        return _Training(learner, setting, first_state(begun.posterior), [], 0.0)

    def check(self) -> Check:
        """Judge the networks on the rows of the sample that each has not seen."""
        none = Rows(self.contest.y[:0], None, self.contest.y[:0])
        runs = [Run(self.view.plan, own.fitted, none, None) for own in self.trainings]
        history = tuple(own.history for own in self.trainings)
        runner = Runner(CandidateCurve(self.candidate), tuple(runs), history)
        return check_of(runner, self.sample, self.folds)


@dataclass(frozen=True, eq=False)
class _Training:
    """The training of a fold, as far as it has come."""

    learner: Learner
    setting: Setting
    state: State
    history: list[Epoch]
    log_evidence: float

    @property
    def fitted(self) -> Fitted:
        """What it has reached."""
        reached = (self.state.posterior, self.learner.standardizer, self.history[-1])
        return Fitted(*reached, self.log_evidence, self.setting.schedule.n)

    @property
    def checkpoint(self) -> Checkpoint:
        """It in a file."""
        return Checkpoint(self.state, list(self.history), self.log_evidence)

    def resumed(self, found: Checkpoint) -> _Training:
        """Return it as far as a file has it."""
        return replace(
            self, state=found.state, history=found.history, log_evidence=found.log_evidence
        )


Files = Callable[[int, int], CheckpointFile | None]
"""Returns the checkpoint of a fold on the way to so many epochs: there is one for each check."""


def _files(path: _Path | None, model: PBPEstimatorCV, networks: Networks) -> Files:
    if path is None:
        return lambda fold, n_epochs: None
    data, settings = digest_of(networks.rows), settings_of(model) | networks.rows.settings
    settings["rounds"] = str(networks.n_rounds)
    settings["chosen candidate"] = text_of(networks.candidate)

    def file(fold: int, n_epochs: int) -> CheckpointFile:
        origin = Origin(data, settings | {"fold": str(fold)})
        return CheckpointFile(f"{os.fspath(path)}.{fold}.{n_epochs}", origin)

    return file


def _train(networks: Networks, budget: Budget, files: Files, report: Report) -> tuple[Check, str]:
    """Train all folds from check to check; return the best one, and why it ended."""
    best: Check | None = None
    n_folds, last = len(networks.folds), budget.checks[-1]
    for start, end in pairwise((0, *budget.checks)):
        for i in range(n_folds):

            def done(share: float, start: int = start, end: int = end, i: int = i) -> None:
                report((n_folds * start + (i + share) * (end - start)) / (n_folds * last))

            networks.trainings[i] = _to_check(networks, i, end, files(i, end), done)
        check = networks.check()
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
        if gain is not None and not _is_worth_it(gain, networks.sample.weights):
            return best, f"without a clear gain after {start} epochs"
    assert best is not None
    return best, "to the end"


def _is_worth_it(gain: FloatArray, weights: FloatArray | None) -> bool:
    """Return whether the next epochs, twice as many, should be made: above one standard error."""
    return weighted_mean(gain, weights) > standard_error(gain, weights)


def _to_check(
    networks: Networks, fold: int, n_epochs: int, file: CheckpointFile | None, report: Report
) -> _Training:
    """Make the rounds of a fold up to so many epochs."""
    now = networks.trainings[fold]
    if file is not None and (found := file.read()) is not None:
        with file.reading():
            n_rounds = len(now.setting.schedule.ends(found.state.n_iter + 1))
            now = now.resumed(checked(found, now.state.posterior, n_rounds=n_rounds))
    before = now.setting.n_epochs
    now = replace(now, setting=replace(now.setting, n_epochs=n_epochs))
    try:
        for state, made in rounds(now.setting, now.state, networks.rows.mapped(now.learner)):
            history, evidence = now.history, now.log_evidence
            if made is not None:
                history = [*history, made]
                evidence += made.sum_log_Z if made.n_iter == 1 else 0.0
                report((made.n_iter - before) / (n_epochs - before))
            now = replace(now, state=state, history=history, log_evidence=evidence)
            if file is not None:
                file.offer(now.checkpoint)
    finally:
        if file is not None:
            file.flush()
    check_learned(now.history)
    return now
