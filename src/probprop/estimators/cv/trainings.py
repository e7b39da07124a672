"""The trainings of candidates on folds: how they begin, go on, and are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.estimators.cv import sharing
from probprop.estimators.cv.candidates import Budget, Candidate
from probprop.estimators.cv.clock import Timer
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut, side_by_side
from probprop.estimators.cv.joint import Completed, Encode
from probprop.estimators.cv.judge import FoldOutputs, Judge, weighted_mean
from probprop.estimators.cv.runners import CandidateCurve, Check, Runner
from probprop.estimators.cv.sharing import Step
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop.inference.prediction import output_moments
from probprop.inference.standardize import (
    Standardizer,
    measure,
    with_usual_scales,
    with_usual_target_scale,
)
from probprop.inference.training import Fitted, Run


@dataclass(frozen=True, eq=False)
class Contest:
    """What the candidates are given, and what judges them.

    Parameters
    ----------
    encodings : Encodings
        Of the rows; the dtype is that of the weights too.
    y : ndarray of shape (n,) or (n, K)
        As the likelihood encodes them.
    folds : sequence of Fold
        One partition of the rows.
    judge : Judge
    weights : ndarray of shape (n,), default=None
        Of the rows, above 0; None: each is 1.
    marginalize : bool, default=False
        Whether NaN is an entry that is missing.
    n_first : int, default=None
        How many of the folds the race is run on; only the winner learns the others. None: all.
    again : sequence of Fold, default=()
        Another partition of the rows, which only the winner learns too.
    alone : bool, default=False
        Whether these first folds decide alone, also about a power of the targets, before the
        winner learns any other.
    step : callable, default=None
        Makes epochs of trainings, as `sharing.advance` does, which it is by default.
    """

    encodings: Encodings
    y: Array
    folds: Sequence[Fold]
    judge: Judge
    weights: FloatArray | None = None
    marginalize: bool = False
    n_first: int | None = None
    again: Sequence[Fold] = ()
    alone: bool = False
    step: Step | None = None

    @property
    def first(self) -> Sequence[Fold]:
        """The folds that the race is run on."""
        return self.folds[: self.n_first]

    @property
    def later(self) -> Sequence[Fold]:
        """The folds that only the winner learns."""
        return [*self.folds[len(self.first) :], *self.again]

    def plan(self, candidate: Candidate) -> Plan:
        """Return how a candidate trains."""
        return Plan(
            self.judge.likelihood,
            hidden=candidate.layers,
            memory=candidate.memory,
            marginalize=self.marginalize,
            dtype=self.encodings.dtype,
        )

    def seen_by(self, candidate: Candidate) -> Contest:
        """Return the contest with targets as a candidate sees them, and what judges it there."""
        y, judge = self.judge.seen_by(candidate, self.y)
        return replace(self, y=y, judge=judge)

    def timer(
        self, budget: Budget, clock: Callable[[], float], rate: float = 0.0, done: float = 0.0
    ) -> Timer:
        """Return what measures the seconds of a budget, and leaves those of the calibration."""
        n_held = sum(len(fold.test) for fold in self.folds)
        return Timer(
            budget.seconds,
            clock,
            after=self.judge.work_after(self.encodings, n_held, len(self.folds)),
            most_after=budget.most_after,
            rate=rate,
            done=done,
            chunk=budget.chunk,
        )

    def weights_of(self, rows: Array | slice) -> FloatArray | None:
        """Return how much these rows count."""
        return None if self.weights is None else self.weights[rows]


def line_up(
    candidates: Sequence[Candidate], contest: Contest, folds: Sequence[Fold]
) -> list[Runner]:
    """Return the candidates before the first epoch. Those of one encoding share their rows."""
    alike: dict[tuple[int | None, float | None], Sequence[Run | None]] = {}
    runners = []
    for candidate in candidates:
        scales = candidate.n_bins, candidate.power
        siblings = alike.get(scales, [None] * len(folds))
        plan, own = contest.plan(candidate), contest.seen_by(candidate)
        runs = [
            _begin(plan, candidate, own, fold, sibling)
            for fold, sibling in zip(folds, siblings, strict=True)
        ]
        alike.setdefault(scales, runs)
        runners.append(Runner(CandidateCurve(candidate), tuple(runs), tuple([] for _ in runs)))
    return runners


def _begin(
    plan: Plan, candidate: Candidate, contest: Contest, fold: Fold, sibling: Run | None
) -> Run:
    train = side_by_side(fold.train)
    y, weights = contest.y[train], contest.weights_of(train)
    rng = RandomState(fold.seed)
    if sibling is None:
        rows = Inputs(contest.encodings.rows(candidate.n_bins)[train])
        before = training.start(plan, rows, y, rng)
        usual = contest.encodings.spreads(candidate.n_bins)
        scales = with_usual_scales(before.standardizer, usual)
        if plan.likelihood.standardises_target:
            own, every = (measure(a.reshape(len(a), -1)) for a in (y, contest.y))
            relative = candidate.power is not None
            scales = with_usual_target_scale(scales, own, every, relative=relative)
        before = replace(before, standardizer=scales)
        X = contest.encodings.inputs(candidate.n_bins)[train]
        return training.begin(plan, before, X, y, rng, weights=weights)
    X = Inputs(sibling.rows.X)  # without gaps: what was missing there is in X_var
    before = training.start(plan, X, y, rng, sibling.fitted.standardizer)
    run = training.begin(plan, before, X, y, rng, weights=weights)
    return run._replace(rows=run.rows._replace(X_var=sibling.rows.X_var))


def advance(
    runners: Sequence[Runner], n_epochs: int, n_threads: int, step: Step | None = None
) -> list[Runner]:
    """Make more epochs of all that are running, in one call."""
    running = [runner for runner in runners if runner.is_running]
    runs = [run for runner in running for run in runner.runs]
    made, interrupt = (step or sharing.advance)(runs, n_epochs, n_threads)
    if interrupt is not None:
        raise interrupt
    following = iter(made)
    return [
        _with_runs(r, [next(following) for _ in r.runs]) if r.is_running else r for r in runners
    ]


def _with_runs(runner: Runner, runs: Sequence[Run]) -> Runner:
    history = tuple([*h, *run.made] for h, run in zip(runner.history, runs, strict=True))
    return replace(runner, runs=tuple(runs), history=history)


def check_of(runner: Runner, contest: Contest, folds: Sequence[Fold]) -> Check:
    """Judge the networks of a candidate on the rows that their folds held out."""
    contest, n_bins = contest.seen_by(runner.curve.candidate), runner.curve.candidate.n_bins
    A, encode = contest.encodings.rows(n_bins), contest.encodings.encode(n_bins)
    outputs = [
        fold_outputs(
            run.plan,
            run.fitted,
            A[side_by_side(fold.test)],
            contest.encodings.completed[fold.test],
            encode,
        )
        for run, fold in zip(runner.runs, folds, strict=True)
    ]
    held_out = HeldOut(folds)
    y, weights = contest.y[held_out.rows], contest.weights_of(held_out.rows)
    with np.errstate(all="ignore"):  # what is not finite drops the candidate
        oof = contest.judge.out_of_fold(outputs, y, weights, held_out)
        log_p, raw = oof.log_p(oof.factor), weighted_mean(oof.log_p(), weights)
    fitted = tuple(run.fitted for run in runner.runs)
    return Check(fitted[0].epoch.n_iter, oof, fitted, runner.history, log_p, raw)


def fold_outputs(
    plan: Plan, fitted: Fitted, A: Array, rows: Completed, encode: Encode, a2: float | None = None
) -> FoldOutputs:
    """Return the outputs of a network for encoded rows, A; see `Completed.moments`."""
    of = outputs_of(plan, fitted.posterior, fitted.standardizer)
    return FoldOutputs(fitted, *rows.moments(A, encode, of, a2))


def outputs_of(
    plan: Plan, posterior: Posterior, standardizer: Standardizer
) -> Callable[[Array], tuple[FloatArray, FloatArray]]:
    """Return the function from encoded rows to the moments of a network's outputs."""
    return lambda A: output_moments(plan, posterior, standardizer, Inputs(A))
