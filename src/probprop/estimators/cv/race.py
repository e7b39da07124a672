"""The race: all candidates train side by side on all folds, and those that lose are dropped.

A candidate is judged by the calibrated log-likelihood of rows that its networks had not seen.
Without calibration those that train longest, and fit best, would look worst.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.estimators.cv.candidates import Budget, Candidate
from probprop.estimators.cv.clock import Timer
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut
from probprop.estimators.cv.judge import FoldOutputs, Judge, weighted_mean
from probprop.estimators.cv.runners import (
    FIRST_CUT,
    CandidateCurve,
    Check,
    CVChoice,
    Runner,
    cut,
    end_all,
)
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.prediction import output_moments
from probprop.inference.training import Fitted, Run

Report = Callable[[float], None]


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
    judge : Judge
    weights : ndarray of shape (n,), default=None
        Of the rows, above 0; None: each is 1.
    marginalize : bool, default=False
        Whether NaN is an entry that is missing.
    """

    encodings: Encodings
    y: Array
    folds: Sequence[Fold]
    judge: Judge
    weights: FloatArray | None = None
    marginalize: bool = False

    def plan(self, candidate: Candidate) -> Plan:
        """Return how a candidate trains."""
        return Plan(
            self.judge.likelihood,
            hidden=candidate.layers,
            memory=candidate.memory,
            marginalize=self.marginalize,
            dtype=self.encodings.dtype,
        )

    def on_scale(self, power: float | None) -> Contest:
        """Return the contest with targets as a candidate with that power sees them."""
        if power is None:
            return self
        y, judge = self.judge.on_scale(power, self.y)
        return replace(self, y=y, judge=judge)

    def weights_of(self, rows: Array) -> FloatArray | None:
        """Return how much these rows count."""
        return None if self.weights is None else self.weights[rows]


@dataclass(frozen=True, eq=False)
class Race:
    """How a race ended.

    Parameters
    ----------
    choice : CVChoice
    check : Check
        The best check of the candidate that was chosen.
    interrupted : bool
        Whether Ctrl-C ended it.
    """

    choice: CVChoice
    check: Check
    interrupted: bool


def race(
    candidates: Sequence[Candidate],
    contest: Contest,
    budget: Budget,
    *,
    n_threads: int = 1,
    clock: Callable[[], float] = time.process_time,
    report: Report | None = None,
) -> Race:
    """Train the candidates on all folds, and return the one that predicts held-out rows best.

    Parameters
    ----------
    candidates : sequence of Candidate
    contest : Contest
    budget : Budget
    n_threads : int, default=1
        They do not change the result.
    clock : callable, default=time.process_time
        What `budget.seconds` are measured with.
    report : callable, default=None
        Called with the share done, 0 to 1.
    """
    timer = Timer(budget.seconds, clock)
    runners = _line_up(candidates, contest)
    if budget.seconds is not None:
        runners = _affordable(runners, timer, n_threads)
    interrupted = False
    try:
        for start, end in pairwise((0, *budget.checks)):
            reached = start
            while n_epochs := timer.n_epochs(_work(runners), reached, end):
                with timer.measuring(_work(runners) * n_epochs):
                    runners = _advance(runners, n_epochs, n_threads)
                reached += n_epochs
                if report is not None:
                    report(timer.share_done(_work(runners) * (budget.checks[-1] - reached)))
            if reached > start:
                runners = cut(_look(runners, contest), reached)
            if reached < end:
                runners = end_all(runners, "out of time")
    except KeyboardInterrupt:
        if all(runner.best is None for runner in runners):
            raise
        runners, interrupted = end_all(runners, "interrupted"), True
    runners = end_all(runners, "trained to the end")
    winner = int(np.argmax([runner.score for runner in runners]))
    best = runners[winner].best
    if best is None:
        raise FloatingPointError(
            "No candidate made finite predictions of the rows held out. Look for outliers in X "
            "and y, or give `candidates` that have fewer layers or a smaller memory."
        )
    curves = tuple(runner.curve for runner in runners)
    return Race(CVChoice(curves, winner, best.n_epochs), best, interrupted)


def _line_up(candidates: Sequence[Candidate], contest: Contest) -> list[Runner]:
    """Return the candidates before the first epoch. Those of one encoding share their rows."""
    alike: dict[tuple[int | None, float | None], Sequence[Run | None]] = {}
    runners = []
    for candidate in candidates:
        scales = candidate.n_bins, candidate.power
        siblings = alike.get(scales, [None] * len(contest.folds))
        plan, own = contest.plan(candidate), contest.on_scale(candidate.power)
        runs = [
            _begin(plan, candidate, own, fold, sibling)
            for fold, sibling in zip(contest.folds, siblings, strict=True)
        ]
        alike.setdefault(scales, runs)
        runners.append(Runner(CandidateCurve(candidate), tuple(runs), tuple([] for _ in runs)))
    return runners


def _begin(
    plan: Plan, candidate: Candidate, contest: Contest, fold: Fold, sibling: Run | None
) -> Run:
    y, weights = contest.y[fold.train], contest.weights_of(fold.train)
    rng = RandomState(fold.seed)
    if sibling is None:
        X = Inputs(contest.encodings.rows(candidate.n_bins)[fold.train])
        before = training.start(plan, X, y, rng)
        return training.begin(plan, before, X, y, rng, weights=weights)
    X = Inputs(sibling.X)  # without gaps: what was missing there is in X_var
    before = training.start(plan, X, y, rng, sibling.fitted.standardizer)
    return training.begin(plan, before, X, y, rng, weights=weights)._replace(X_var=sibling.X_var)


def _advance(runners: Sequence[Runner], n_epochs: int, n_threads: int) -> list[Runner]:
    """Make more epochs of all that are running, in one call."""
    running = [runner for runner in runners if runner.is_running]
    runs = [run for runner in running for run in runner.runs]
    made, interrupt = training.advance(runs, n_epochs, n_threads)
    if interrupt is not None:
        raise interrupt
    following = iter(made)
    return [
        _with_runs(r, [next(following) for _ in r.runs]) if r.is_running else r for r in runners
    ]


def _with_runs(runner: Runner, runs: Sequence[Run]) -> Runner:
    history = tuple([*h, *run.made] for h, run in zip(runner.history, runs, strict=True))
    return replace(runner, runs=tuple(runs), history=history)


# ---- Judging


def _look(runners: Sequence[Runner], contest: Contest) -> list[Runner]:
    """Judge all that are running on the rows held out."""
    return [
        _judged(runner, _check(runner, contest.on_scale(runner.curve.candidate.power)))
        if runner.is_running
        else runner
        for runner in runners
    ]


def _judged(runner: Runner, check: Check) -> Runner:
    if not np.isfinite(check.log_p).all():
        return runner.end("predictions were not finite")
    best = check if check.score > runner.score else runner.best
    return replace(runner, curve=runner.curve.after(check), best=best)


def _check(runner: Runner, contest: Contest) -> Check:
    A = contest.encodings.rows(runner.curve.candidate.n_bins)
    outputs = [
        fold_outputs(run.plan, run.fitted, A[fold.test])
        for run, fold in zip(runner.runs, contest.folds, strict=True)
    ]
    held_out = HeldOut(contest.folds)
    y, weights = contest.y[held_out.rows], contest.weights_of(held_out.rows)
    with np.errstate(all="ignore"):  # what is not finite drops the candidate
        oof = contest.judge.out_of_fold(outputs, y, weights, held_out)
        log_p, raw = oof.log_p(oof.factor), weighted_mean(oof.log_p(), weights)
    fitted = tuple(run.fitted for run in runner.runs)
    return Check(fitted[0].epoch.n_iter, oof, fitted, runner.history, log_p, raw)


def fold_outputs(plan: Plan, fitted: Fitted, A: Array) -> FoldOutputs:
    """Return what a network says about encoded rows."""
    moments = output_moments(plan, fitted.posterior, fitted.standardizer, Inputs(A))
    return FoldOutputs(fitted, *moments)


# ---- Time


def _work(runners: Sequence[Runner]) -> float:
    """Return what the time of an epoch of all that are running is proportional to."""
    return float(sum(runner.work for runner in runners if runner.is_running))


def _affordable(runners: Sequence[Runner], timer: Timer, n_threads: int) -> list[Runner]:
    """End the candidates that cost most until the others can reach the first cut in time.

    Every form comes with one memory before any comes with another. An epoch of the cheapest
    candidate, which is then forgotten, shows what work costs here.
    """
    forms = [runner.curve.candidate.form for runner in runners]
    order = sorted(range(len(runners)), key=lambda i: (forms[:i].count(forms[i]), runners[i].work))
    cheapest = runners[order[0]]
    forgotten = tuple(
        run._replace(random_state=deepcopy(run.random_state)) for run in cheapest.runs
    )
    with timer.measuring(cheapest.work):
        _advance([replace(cheapest, runs=forgotten)], 1, n_threads)
    works = FIRST_CUT * np.cumsum([runners[i].work for i in order])
    kept = order[: max(1, sum(timer.affords(work) for work in works))]
    return [
        runner if i in kept else runner.end("too costly for the budget")
        for i, runner in enumerate(runners)
    ]
