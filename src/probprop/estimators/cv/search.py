"""From candidates to a calibrated winner, within a budget.

First the race. Then, where the errors of positive targets grow with them, the winner once more with
a power of the targets. And where a budget of seconds leaves time, the winner learns further
partitions of the rows: more networks, and more honest predictions of every row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from probprop._types import Array
from probprop.estimators.cv.candidates import Budget, Candidate
from probprop.estimators.cv.clock import Timer
from probprop.estimators.cv.folds import Fold, HeldOut
from probprop.estimators.cv.progress import Share
from probprop.estimators.cv.race import Race, Report, finished, race, train
from probprop.estimators.cv.runners import OUT_OF_TIME, RACE_WAS_OVER, Check
from probprop.estimators.cv.scale import Attempt, power_of_residuals, with_a_power
from probprop.estimators.cv.trainings import Contest, check_of, line_up

MOST_PARTITIONS = 6
"""Of the rows, that the winner learns."""
_SHARE_OF_POWERS = 0.2  # of the seconds, or of the work, for the best candidate once more
CALIBRATING = "calibrating"
"""The last stage of a search."""

_MOST_OVER = 0.1  # of the seconds, by which the last partition may be late

Draw = Callable[[], Sequence[Fold]]


@dataclass(frozen=True, eq=False)
class Search:
    """What a search is given.

    Parameters
    ----------
    contest : Contest
    budget : Budget
    seed : int
        Of the calibration.
    powers : bool, default=False
        Whether powers of the targets, which are then all above 0, are tried.
    another : callable, default=None
        Draws another partition of the rows; None: there is no other.
    n_threads : int, default=1
        They do not change the result.
    clock : callable, default=time.process_time
        What the seconds of the budget are measured with.
    report : callable, default=None
        Called with the share done, 0 to 1: of the work, or of the seconds. It should leave out what
        is below the share before.
    """

    contest: Contest
    budget: Budget
    seed: int
    powers: bool = False
    another: Draw | None = None
    n_threads: int = 1
    clock: Callable[[], float] = time.process_time
    report: Report | None = None

    def best_of(self, candidates: Sequence[Candidate]) -> Attempt:
        """Return the best candidate, calibrated."""
        start = self.clock()
        tried = _SHARE_OF_POWERS
        share = 1.0 - tried if self.powers else 1.0  # before a power is tried
        found, attempt = self._race(candidates, start, (0.0, share), self._reserve), None
        y, oof = self._held_out(found.partitions[0]), found.pooled_by(self.contest.judge)
        power = power_of_residuals(y, oof) if self.powers else None
        if power is not None and not found.interrupted:
            # Where folds are left, most of the work is still to be done.
            shares = (tried, 2.0 * tried) if self.contest.alone else (share, 1.0)

            def once_more(candidate: Candidate) -> Attempt:
                return self._calibrated(self._race([candidate], start, shares), start)

            attempt = with_a_power(self._calibrated(found, start), power, y, once_more)
            found = attempt.race
        if self.contest.alone and not found.interrupted:
            rest = (0.0 if attempt is None else tried, 1.0)
            found, attempt = self._finished(found, start, rest), None
        ended = self._further(found, start)
        if attempt is None or len(ended.partitions) > len(found.partitions):
            return self._calibrated(ended, start)
        return attempt._replace(race=ended)

    def _race(
        self,
        candidates: Sequence[Candidate],
        start: float,
        shares: tuple[float, float],
        reserve: Callable[[Check | None], float] | None = None,
    ) -> Race:
        """Run a race with the time that is left; the shares of all work begin and end it."""
        return race(
            candidates,
            self.contest,
            self.budget.less(self.clock() - start),
            reserve=reserve,
            n_threads=self.n_threads,
            clock=self.clock,
            report=self._between(shares, start),
        )

    def _finished(self, found: Race, start: float, shares: tuple[float, float]) -> Race:
        """Let the winner learn the folds that did not decide."""
        timer = self._timer(self.budget.less(self.clock() - start), found)
        report = self._between(shares, start)
        return finished(found, self.contest, timer, self.n_threads, report)

    def _between(self, shares: tuple[float, float], start: float) -> Report:
        a, b = shares
        return lambda share: self._tell(Share(a + (b - a) * share, share.stage), start)

    def _tell(self, share: Share, start: float) -> None:
        """Report a share of the work; of a budget of seconds, what of these has passed."""
        if self.report is not None:
            seconds = self.budget.seconds
            passed = share if seconds is None else (self.clock() - start) / seconds
            self.report(Share(min(passed, 1.0), share.stage))

    def _reserve(self, leader: Check | None) -> float:
        """Return the seconds to leave for a power, as far as that can be seen."""
        if not self.powers or self.budget.seconds is None:
            return 0.0
        if leader is not None:
            y = self._held_out(self.contest.first)
            if power_of_residuals(y, leader.oof) is None:  # type: ignore[arg-type]
                return 0.0
        return _SHARE_OF_POWERS * self.budget.seconds

    def _held_out(self, folds: Sequence[Fold]) -> Array:
        return self.contest.y[HeldOut(folds).rows]

    def _calibrated(self, found: Race, start: float) -> Attempt:
        contest, candidate = self.contest, found.choice.candidate
        self._tell(Share(0.0, CALIBRATING), start)
        if candidate.noise == "auto" and not self._timer(self.budget, found).has_time_after:
            candidate = replace(candidate, noise="constant")
        judge = contest.seen_by(candidate).judge
        oof, held_out = found.pooled_by(judge), HeldOut(found.partitions[0])
        n_members = sum(map(len, found.partitions))
        options = (n_members, self.seed, self.n_threads)
        return Attempt(found, judge.calibrate(oof, held_out, contest.encodings, *options))

    def _timer(self, budget: Budget, found: Race) -> Timer:
        return self.contest.timer(budget, self.clock, found.rate, found.done)

    def _further(self, found: Race, start: float) -> Race:
        """Let the winner learn further partitions while there is time; say why it ended."""
        left = self.budget.less(self.clock() - start)
        if found.interrupted:
            return _ended(found, "interrupted")
        if left.seconds is None or self.budget.seconds is None:
            return _ended(found, RACE_WAS_OVER)
        if self.another is None:
            out = any(curve.outcome == OUT_OF_TIME for curve in found.choice.curves)
            only = f"{RACE_WAS_OVER}, and cv is a single partition"
            return _ended(found, OUT_OF_TIME if out else only)
        timer, whole = self._timer(left, found), self.budget.seconds
        candidate, n_epochs = found.choice.candidate, found.choice.n_epochs
        report = self._between((0.0, 1.0), start)
        try:
            while len(found.partitions) < MOST_PARTITIONS:
                folds = self.another()
                [runner] = line_up([candidate], self.contest, folds)
                without, over = (timer.over(work) for work in (0.0, runner.work * n_epochs))
                if over > _MOST_OVER * whole or abs(over) > abs(without):
                    return _ended(found, OUT_OF_TIME)
                runner = train(runner, n_epochs, timer, self.n_threads, report)
                check = check_of(runner, self.contest, folds)
                if not np.isfinite(check.log_p).all():
                    return _ended(found, "predictions of a further partition were not finite")
                checks, partitions = (*found.checks, check), (*found.partitions, folds)
                found = replace(found, checks=checks, partitions=partitions)
        except KeyboardInterrupt:
            return _ended(replace(found, interrupted=True), "interrupted")
        return _ended(found, f"the winner has learned {MOST_PARTITIONS} partitions")


def _ended(found: Race, why: str) -> Race:
    return replace(found, choice=replace(found.choice, ended=why))
