"""Cross-validated estimators on a cluster: the choice on a sample, the networks on all rows.

The rows of every shard are dealt into folds. The race is run on a sample of them, its trainings as
tasks of the cluster. Then the network of each fold learns, by rounds, all rows but those of its
fold; what it predicts of those in the sample judges and calibrates it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.dask.folds import (
    Dealt,
    Drawn,
    View,
    draw,
    fold_shard,
    measure_folds,
    row_numbers,
    sample_sizes,
)
from probprop.dask.preparing import Prepared
from probprop.dask.tasks import Trainings, itself, on_cluster
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.estimators.checkpoints import check_seed, settings_of, text_of
from probprop.estimators.cv.base import PBPEstimatorCV, judge_of, publish_race
from probprop.estimators.cv.calibration import standard_error, weighted_mean
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut
from probprop.estimators.cv.journal import journal_of, written_at_the_end
from probprop.estimators.cv.missing import learn_joint
from probprop.estimators.cv.policy import (
    MANY_CLASSES,
    Budget,
    Candidate,
    for_many_classes,
    n_first_folds,
    read_budget,
    read_candidates,
)
from probprop.estimators.cv.search import (
    TRAINING,
    CandidateCurve,
    Check,
    Contest,
    CVChoice,
    Race,
    Runner,
    Search,
    check_of,
)
from probprop.estimators.progress import Share, progress
from probprop.estimators.validation import check_int, check_parameters
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, Origin, checked
from probprop.inference.history import check_learned, warn_of_counts
from probprop.inference.inputs import Inputs
from probprop.inference.posterior import Epoch
from probprop.inference.shards import MapShards, Rows, Schedule, usual_rounds
from probprop.inference.standardize import (
    check_target_scale,
    merged,
    standardizer_of,
    with_usual_scales,
    with_usual_target_scale,
)
from probprop.inference.training import Fitted, Run, Setting, State, first_state, rounds

SAMPLE = 20_000
"""Rows that the choice is made on, and that calibrate: from as many on, one fold decides it."""
_SHARE_OF_CHOICE = 0.3  # of the progress bar

_Path = str | os.PathLike[str]
Callback = Callable[[float], object]
Report = Callable[[float], None]


def check_cross_validated(estimator: PBPEstimatorCV, checkpoint: _Path | None) -> None:
    """Refuse parameters that a cluster has no use for."""
    check_parameters(estimator)
    read_budget(estimator.budget)
    if not isinstance(estimator.cv, int | np.integer):
        raise TypeError(
            "cv must be an int on a cluster, where rows are dealt into folds wherever they lie, "
            f"not {type(estimator.cv).__name__}."
        )
    check_int("cv", estimator.cv, 2)
    if checkpoint is not None:
        check_seed(estimator.random_state)


def fit_cross_validated(
    prepared: Prepared,
    estimator: PBPEstimatorCV,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callback | None,
) -> PBPEstimatorCV:
    """Return a fitted clone of the estimator."""
    model: Any = clone(estimator)
    model.n_features_in_ = prepared.n_features
    rng = check_random_state(model.random_state)
    n_rows = sum(summary.n for summary in prepared.summaries)
    dealt = Dealt(rng.randint(2**31 - 1), min(model.cv, n_rows))
    sample, ends = _sample(prepared, dealt), _ends(prepared)
    bounds = fit_bounds(sample.X, ends)
    sample = sample._replace(X=bounds.apply(sample.X))
    seeds = rng.randint(2**31 - 1, size=dealt.n_folds).tolist()
    folds = [
        Fold(np.flatnonzero(sample.fold != i), np.flatnonzero(sample.fold == i), seed)
        for i, seed in enumerate(seeds)
    ]
    seed = rng.randint(2**31 - 1)
    weighted = not (sample.weights == 1.0).all()
    joint = learn_joint(sample.X) if model.missing == "marginalize" else None
    contest = Contest(
        Encodings(sample.X, np.dtype(model.dtype), joint),
        sample.y,
        folds,
        judge_of(model, prepared.likelihood),
        sample.weights if weighted else None,
        marginalize=model.missing == "marginalize",
    )
    budget, journal = read_budget(model.budget), None
    budget = for_many_classes(budget, prepared.likelihood.n_classes)
    # Seconds of a budget are those of this process.
    step = None if budget.seconds is not None else Trainings(prepared.client).advance
    if checkpoint is not None:
        path, arrays = f"{os.fspath(checkpoint)}.choice", (sample.X, sample.y, contest.weights)
        journal = journal_of(path, model, arrays, folds, budget, step)
        step = journal.advance
    contest = replace(contest, step=step)
    with progress(model.verbose, callback) as report, written_at_the_end(journal):
        choice = _choice(
            prepared,
            model,
            contest,
            seed,
            lambda share: report(Share(_SHARE_OF_CHOICE * share, share.stage)),
        )
        networks = Networks(prepared, contest, choice.candidate, dealt, n_rounds, bounds)
        files = None if checkpoint is None else _Files(checkpoint, prepared, model, networks)
        rest = 1.0 - _SHARE_OF_CHOICE
        check, why = _train(
            networks,
            budget,
            files,
            lambda share: report(Share(_SHARE_OF_CHOICE + rest * share, TRAINING)),
        )
    ended = f"chosen on {len(sample.y):,} of {n_rows:,} rows, fitted on all, {why}"
    choice = replace(choice, n_epochs=check.n_epochs, ended=ended)
    judge = networks.contest.judge
    threads = (len(folds), seed, effective_n_jobs(model.n_jobs))
    calibrated = judge.calibrate(check.oof, HeldOut(folds), contest.encodings, *threads)
    whole = _of_all(calibrated.calibration, bounds.apply(ends))
    calibrated = calibrated._replace(calibration=whole)
    race = Race(choice, (check,), (folds,), interrupted=False)
    of_data = prepared.likelihood, prepared.mean_weight
    publish_race(model, race, calibrated, contest, *of_data)
    model.bounds_ = bounds
    model.oof_rows_ = sample.row
    model.n_samples_seen_ = n_rows
    epochs = [epoch for member in model.estimators_ for epoch in member.history_]
    warn_of_counts(epochs, model.estimators_[0].posterior_)
    return model  # type: ignore[no-any-return]


def _sample(prepared: Prepared, dealt: Dealt) -> Drawn:
    """Draw rows from all shards, and put them in the order of the files."""
    sizes = [summary.n for summary in prepared.summaries]
    numbers = row_numbers(prepared.summaries)
    futures = [
        prepared.client.submit(draw, rows, dealt, k, n, pure=False)
        for k, (rows, n) in enumerate(
            zip(prepared.loaded, sample_sizes(sizes, SAMPLE), strict=True)
        )
    ]
    drawn: list[Drawn] = prepared.client.gather(futures)
    parts = [own._replace(row=number[own.row]) for own, number in zip(drawn, numbers, strict=True)]
    whole = Drawn(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    order = np.argsort(whole.row)
    return Drawn(*(array[order] for array in whole))


def _choice(
    prepared: Prepared,
    model: Any,
    contest: Contest,
    seed: int,
    report: Callable[[Share], None],
) -> CVChoice:
    """Run the race on the sample."""
    n_classes, n = prepared.likelihood.n_classes, len(contest.y)
    budget, usual = for_many_classes(read_budget(model.budget), n_classes), contest.judge.usual
    candidates = read_candidates(
        model.candidates,
        model.budget,
        n,
        usual,
        contest.encodings.bins_that_fit,
        one_memory=n_classes > MANY_CLASSES,
    )
    positive = bool((merged([s.y for s in prepared.summaries]).low > 0.0).all())
    if not positive and any(candidate.power is not None for candidate in candidates):
        raise ValueError(
            "power of a candidate is for targets that are all above 0, but some are not: leave "
            "such rows out, or give candidates without a power."
        )
    first = replace(contest, folds=contest.folds[: n_first_folds(n, usual)])
    search = Search(
        first,
        budget,
        seed=seed,
        powers=isinstance(model.candidates, str) and usual.powers and positive,
        n_threads=effective_n_jobs(model.n_jobs),
        report=report,
    )
    found = search.best_of(candidates)
    if found.race.interrupted:
        raise KeyboardInterrupt
    return found.race.choice


def _ends(prepared: Prepared) -> FloatArray:
    """Return the smallest and the largest value of each feature, (2, n_features), NaN if none."""
    x = merged([summary.x for summary in prepared.summaries])
    return np.where(x.n == 0, np.nan, [x.low, x.high])


def _of_all(calibration: Any, ends: Array) -> Any:
    """Return a calibration whose range is that of all rows; that of labels has none."""
    if not hasattr(calibration, "range"):
        return calibration
    return replace(calibration, range=calibration.range.grown(ends))


# ---- The networks of the folds


class Networks:
    """The trainings of all folds on all rows.

    Parameters
    ----------
    prepared : Prepared
    contest : Contest
        The sample, and all folds of it.
    candidate : Candidate
    dealt : Dealt
    n_rounds : int or None
    bounds : InputBounds
    """

    def __init__(
        self,
        prepared: Prepared,
        contest: Contest,
        candidate: Candidate,
        dealt: Dealt,
        n_rounds: int | None,
        bounds: InputBounds,
    ) -> None:
        self.candidate, self.sample = candidate, contest
        self.contest = contest.seen_by(candidate)
        self.folds = contest.folds
        n_bins, encodings = candidate.n_bins, contest.encodings
        encoding = None if n_bins is None else encodings.state(n_bins)
        transformation = getattr(self.contest.judge, "transformation", None)
        self.view = View(
            self.contest.plan(candidate), bounds, encoding, transformation, encodings.joint
        )
        if n_rounds is None:
            n_rounds = usual_rounds(len(prepared.loaded), len(candidate.layers))
        self.n_rounds = n_rounds
        self._prepared, self._dealt = prepared, dealt
        all_rows = prepared.standardizer(standardize=True)
        self._usual = all_rows.spreads if encoding is None else encoding.spreads
        client = prepared.client
        view = client.submit(itself, self.view, pure=False)
        measured = client.gather(
            [
                client.submit(measure_folds, rows, dealt, k, view, pure=False)
                for k, rows in enumerate(prepared.loaded)
            ]
        )
        self.trainings = [self._training(i, measured) for i in range(dealt.n_folds)]
        self._view = view

    def _training(self, fold: int, measured: Sequence[Sequence[Any]]) -> _Training:
        """Return the training of a fold before the first round."""
        plan, seed = self.view.plan, self.folds[fold].seed
        others = [own for of in measured for i, own in enumerate(of) if i != fold and own]
        of_y = merged([own.y for own in others]) if plan.likelihood.standardises_target else None
        own = standardizer_of(merged([own.x for own in others]), of_y)
        standardizer = with_usual_scales(own, self._usual)
        if of_y is not None:
            every = merged([own.y for of in measured for own in of if own])
            relative = self.candidate.power is not None
            standardizer = with_usual_target_scale(standardizer, of_y, every, relative=relative)
            check_target_scale(standardizer.y_scale)
        none = Inputs(np.zeros((0, len(standardizer.x_mean))))
        begun = training.start(plan, none, np.zeros(0), RandomState(seed), standardizer)
        dealt = self._dealt
        sizes = tuple(dealt.n_learned(s.n, fold) for s in self._prepared.summaries)
        setting = Setting(plan, standardizer, Schedule(sizes, self.n_rounds, seed), n_epochs=0)
        return _Training(setting, first_state(begun.posterior), [], 0.0)

    def mapped(self, fold: int) -> MapShards:
        """Return the map over the shards of a fold."""
        client, standardizer = self._prepared.client, self.trainings[fold].setting.standardizer
        shards = [
            client.submit(
                fold_shard, rows, self._dealt, k, fold, self._view, standardizer, pure=False
            )
            for k, rows in enumerate(self._prepared.loaded)
        ]
        return on_cluster(client, shards)

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

    setting: Setting
    state: State
    history: list[Epoch]
    log_evidence: float

    @property
    def fitted(self) -> Fitted:
        """What it has reached."""
        setting = self.setting
        reached = (self.state.posterior, setting.standardizer, self.history[-1])
        return Fitted(*reached, self.log_evidence, setting.schedule.n)

    @property
    def checkpoint(self) -> Checkpoint:
        """It in a file."""
        return Checkpoint(self.state, list(self.history), self.log_evidence)

    def resumed(self, found: Checkpoint) -> _Training:
        """Return it as far as a file has it."""
        return replace(
            self, state=found.state, history=found.history, log_evidence=found.log_evidence
        )


class _Files:
    """The checkpoints of the folds: one for each of the epochs at which networks are judged."""

    def __init__(
        self, path: _Path, prepared: Prepared, model: PBPEstimatorCV, networks: Networks
    ) -> None:
        self._path, self._data = os.fspath(path), prepared.digest
        self._settings = settings_of(model) | {
            "n_shards": str(len(prepared.loaded)),
            "rounds": str(networks.n_rounds),
            "chosen candidate": text_of(networks.candidate),
        }

    def file(self, fold: int, n_epochs: int) -> CheckpointFile:
        """Return that of a fold on the way to so many epochs."""
        origin = Origin(self._data, self._settings | {"fold": str(fold)})
        return CheckpointFile(f"{self._path}.{fold}.{n_epochs}", origin)


def _train(
    networks: Networks, budget: Budget, files: _Files | None, report: Report
) -> tuple[Check, str]:
    """Train all folds from check to check; return the best one, and why it ended."""
    best: Check | None = None
    n_folds, last = len(networks.folds), budget.checks[-1]
    for start, end in pairwise((0, *budget.checks)):
        for i in range(n_folds):

            def done(share: float, start: int = start, end: int = end, i: int = i) -> None:
                report((n_folds * start + (i + share) * (end - start)) / (n_folds * last))

            file = None if files is None else files.file(i, end)
            networks.trainings[i] = _to_check(networks, i, end, file, done)
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
        for state, made in rounds(now.setting, now.state, networks.mapped(fold)):
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
