"""The race: candidates train side by side on the folds, and those that lose are dropped.

A candidate is judged by the calibrated log-likelihood of rows that its networks had not seen.
Without calibration those that train longest, and fit best, would look worst. The winner then
learns the folds that the race was not run on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from probprop.estimators.cv.candidates import Budget, Candidate, n_errors_behind
from probprop.estimators.cv.clock import Timer
from probprop.estimators.cv.folds import Fold
from probprop.estimators.cv.judge import Judge
from probprop.estimators.cv.progress import Share
from probprop.estimators.cv.runners import (
    OUT_OF_TIME,
    CandidateCurve,
    Check,
    CVChoice,
    Runner,
    chosen,
    cut,
    end_all,
)
from probprop.estimators.cv.sharing import Step
from probprop.estimators.cv.trainings import Contest, advance, check_of, line_up

ENCODING, COMPARING, TRAINING = "encoding", "comparing candidates", "training the best"
"""The stages of a race."""
_NOTHING = 50.0  # times what there is time for, so that it may be made once for nothing

Report = Callable[[Share], None]


@dataclass(frozen=True, eq=False)
class Race:
    """How a race ended.

    Parameters
    ----------
    choice : CVChoice
    checks : tuple of Check
        Of the candidate that was chosen, at its best: one per partition of the rows.
    partitions : tuple of sequence of Fold
        These partitions: of the first only a part where Ctrl-C left no time for more.
    interrupted : bool
        Whether Ctrl-C ended it.
    rate : float, default=0.0
        Seconds per unit of work, as last measured.
    done : float, default=0.0
        Work that was done.
    """

    choice: CVChoice
    checks: tuple[Check, ...]
    partitions: tuple[Sequence[Fold], ...]
    interrupted: bool
    rate: float = 0.0
    done: float = 0.0

    def pooled_by(self, judge: Judge) -> Any:
        """Return the rows held out with all predictions that each of them has."""
        return judge.pooled([check.oof for check in self.checks])


def race(
    candidates: Sequence[Candidate],
    contest: Contest,
    budget: Budget,
    *,
    reserve: Callable[[Check | None], float] | None = None,
    n_threads: int = 1,
    clock: Callable[[], float] = time.process_time,
    report: Report | None = None,
) -> Race:
    """Train the candidates, and return the one that predicts held-out rows best, on all folds.

    Or, with few rows, one that costs less and is hardly behind: see `n_errors_behind`. Where the
    first folds decide alone, those that are left are for `finished`.

    Parameters
    ----------
    candidates : sequence of Candidate
    contest : Contest
    budget : Budget
    reserve : callable, default=None
        Given the best check so far, None before any, returns seconds of the budget to leave.
    n_threads : int, default=1
        They do not change the result.
    clock : callable, default=time.process_time
        What `budget.seconds` are measured with.
    report : callable, default=None
        Called with the share done, 0 to 1.
    """
    timer = contest.timer(budget, clock)
    if reserve is not None:
        timer.hold_back(reserve(None))
    if report is not None:
        report(Share(0.0, ENCODING))
    runners = line_up(candidates, contest, contest.first)
    if report is not None:
        report(Share(0.0, COMPARING))
    n_later = len(contest.later) / len(contest.first)  # times the work of the race
    if budget.seconds is not None:
        runners = _affordable(runners, timer, n_later, n_threads, budget)
    interrupted = False
    try:
        for start, end in pairwise((0, *budget.checks)):
            reached = start
            while n_epochs := timer.n_epochs(
                _work(runners), reached, end, n_later * _most(runners)
            ):
                with timer.measuring(_work(runners) * n_epochs):
                    runners = advance(runners, n_epochs, n_threads, contest.step)
                reached += n_epochs
                if report is not None:
                    left = _work(runners) * (budget.checks[-1] - reached)
                    later = n_later * _most(runners) * reached
                    report(Share(timer.share_done(left + later), COMPARING))
            if reached > start:
                runners = cut(_look(runners, contest), reached, budget.first_cut)
                if reserve is not None:
                    timer.hold_back(reserve(max(runners, key=lambda r: r.score).best))
            if reached < end:
                runners = end_all(runners, OUT_OF_TIME)
    except KeyboardInterrupt:
        if all(runner.best is None for runner in runners):
            raise
        runners, interrupted = end_all(runners, "interrupted"), True
    runners = end_all(runners, "trained to the end")
    winner = chosen(runners, n_errors_behind(len(contest.y), contest.judge.usual))
    best = runners[winner].best
    if best is None:
        raise FloatingPointError(_NOT_FINITE)
    choice = CVChoice(tuple(runner.curve for runner in runners), winner, best.n_epochs)
    so_far = Race(choice, (best,), (contest.first,), interrupted, timer.rate, timer.done)
    if interrupted:
        return so_far
    try:
        if report is not None:  # all that was left may have been dropped at once
            later = n_later * runners[winner].work * best.n_epochs
            report(Share(timer.share_done(later), COMPARING))
    except KeyboardInterrupt:
        return replace(so_far, interrupted=True)
    return so_far if contest.alone else finished(so_far, contest, timer, n_threads, report)


_NOT_FINITE = (
    "No candidate made finite predictions of the rows held out. Look for outliers in X and y, or "
    "give `candidates` that have fewer layers or a smaller memory."
)


def finished(
    so_far: Race, contest: Contest, timer: Timer, n_threads: int, report: Report | None
) -> Race:
    """Let the winner learn the other folds, for as many epochs; on Ctrl-C leave it as it was."""
    try:
        return _finish(so_far, contest, timer, n_threads, report) if contest.later else so_far
    except KeyboardInterrupt:
        return replace(so_far, interrupted=True)


def _finish(
    so_far: Race, contest: Contest, timer: Timer, n_threads: int, report: Report | None
) -> Race:
    """Train the networks of the other folds, and judge each partition."""
    [best], candidate = so_far.checks, so_far.choice.candidate
    [rest] = line_up([candidate], contest, contest.later)
    rest = train(rest, best.n_epochs, timer, n_threads, report, contest.step)
    first = [rest.runs[0]._replace(fitted=fitted) for fitted in best.fitted]  # to be judged only
    runs, history = [*first, *rest.runs], [*best.history, *rest.history]
    checks: list[Check] = []
    partitions = list(filter(None, (contest.folds, contest.again)))
    for folds in partitions:
        own = slice(len(runs) - len(folds), None) if checks else slice(len(folds))
        part = Runner(CandidateCurve(candidate), tuple(runs[own]), tuple(history[own]))
        checks.append(check_of(part, contest, folds))
    finite = [bool(np.isfinite(check.log_p).all()) for check in checks]
    if not finite[0]:
        raise FloatingPointError(_NOT_FINITE)
    n = 1 + sum(finite[1:])  # there are at most two
    so_far = replace(so_far, checks=tuple(checks[:n]), partitions=tuple(partitions[:n]))
    return replace(so_far, rate=timer.rate, done=timer.done)


def train(
    runner: Runner,
    n_epochs: int,
    timer: Timer,
    n_threads: int,
    report: Report | None,
    step: Step | None = None,
) -> Runner:
    """Train a candidate alone for so many epochs."""
    while n := min(timer.chunk, n_epochs - len(runner.history[0])):
        with timer.measuring(runner.work * n):
            [runner] = advance([runner], n, n_threads, step)
        if report is not None:
            left = runner.work * (n_epochs - len(runner.history[0]))
            report(Share(timer.share_done(left), TRAINING))
    return runner


# ---- Judging


def _look(runners: Sequence[Runner], contest: Contest) -> list[Runner]:
    """Judge all that are running on the rows held out."""
    return [
        _judged(runner, check_of(runner, contest, contest.first)) if runner.is_running else runner
        for runner in runners
    ]


def _judged(runner: Runner, check: Check) -> Runner:
    if not np.isfinite(check.log_p).all():
        return runner.end("predictions were not finite")
    best = check if check.score > runner.score else runner.best
    return replace(runner, curve=runner.curve.after(check), best=best)


# ---- Time


def _work(runners: Sequence[Runner]) -> float:
    """Return what the time of an epoch of all that are running is proportional to."""
    return float(sum(runner.work for runner in runners if runner.is_running))


def _most(runners: Sequence[Runner]) -> float:
    """Return the work of an epoch of the costliest that may win: those running, and the leader."""
    leader = max(runners, key=lambda runner: runner.score)
    return max(runner.work for runner in runners if runner.is_running or runner is leader)


def _affordable(
    runners: Sequence[Runner], timer: Timer, n_later: float, n_threads: int, budget: Budget
) -> list[Runner]:
    """End the candidates that cost most until the others can reach the first cut in time.

    Every form comes with one memory before any comes with another. An epoch of the cheapest
    candidate shows what work costs here, or some more where that is next to nothing: the first is
    slower than the others. They are then forgotten.
    """
    forms = [runner.curve.candidate.form for runner in runners]
    order = sorted(range(len(runners)), key=lambda i: (forms[:i].count(forms[i]), runners[i].work))
    cheapest = runners[order[0]]
    forgotten = tuple(
        run._replace(random_state=deepcopy(run.random_state)) for run in cheapest.runs
    )
    for n in (1, budget.chunk):
        if n == 1 or timer.affords(_NOTHING * n * cheapest.work):
            with timer.measuring(n * cheapest.work):
                advance([replace(cheapest, runs=forgotten)], n, n_threads)
    each = [runners[i].work for i in order]
    works = budget.first_cut * (np.cumsum(each) + n_later * np.maximum.accumulate(each))
    kept = order[: max(1, sum(timer.affords(work) for work in works))]
    return [
        runner if i in kept else runner.end("too costly for the budget")
        for i, runner in enumerate(runners)
    ]
