"""The candidates in a race: their curves, their best checks, and who is dropped when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from probprop._types import FloatArray
from probprop.estimators.cv.candidates import FIRST_CUT, Candidate
from probprop.estimators.cv.clock import work_of_a_row
from probprop.estimators.cv.judge import OutOfFoldRows, standard_error, weighted_mean
from probprop.inference.posterior import Epoch
from probprop.inference.training import Fitted, Run

OUT_OF_TIME = "out of time"
RACE_WAS_OVER = "the race was over"
"""Why training ends without a budget of seconds."""
_N_ERRORS = 2.0  # standard errors behind the leader at which a candidate is dropped
_N_STALE = 2  # checks without a gain after which it is dropped


@dataclass(frozen=True, eq=False)
class Check:
    """A candidate after some epochs.

    Parameters
    ----------
    n_epochs : int
    oof : OutOfFoldRows
    fitted : tuple of Fitted
        The networks of the folds.
    history : tuple of list of Epoch
        How they got there.
    log_p : ndarray of shape (n,)
        Calibrated, of every row held out.
    raw_score : float
        The mean log density without calibration.
    """

    n_epochs: int
    oof: OutOfFoldRows
    fitted: tuple[Fitted, ...]
    history: tuple[list[Epoch], ...]
    log_p: FloatArray
    raw_score: float

    @property
    def score(self) -> float:
        """Mean of the calibrated log density."""
        return weighted_mean(self.log_p, self.oof.weights)


@dataclass(frozen=True, eq=False)
class CandidateCurve:
    """What a candidate reached on rows held out, in mean log density per row, target units.

    Of classes, in mean log probability.

    Parameters
    ----------
    candidate : Candidate
    n_epochs : tuple of int
        Where it was looked at.
    calibrated, raw : tuple of float
        With the factor of the variances that is best there, and without.
    factor : tuple of float
        That factor; of classes the temperature.
    outcome : str
        Why it went no further.
    """

    candidate: Candidate
    n_epochs: tuple[int, ...] = ()
    calibrated: tuple[float, ...] = ()
    raw: tuple[float, ...] = ()
    factor: tuple[float, ...] = ()
    outcome: str = ""

    def after(self, check: Check) -> CandidateCurve:
        """Return the curve with one more point."""
        return replace(
            self,
            n_epochs=(*self.n_epochs, check.n_epochs),
            calibrated=(*self.calibrated, check.score),
            raw=(*self.raw, check.raw_score),
            factor=(*self.factor, check.oof.factor),
        )

    @property
    def last_gain(self) -> float:
        """What the last check brought over the one before; infinite where there was none."""
        return self.calibrated[-1] - self.calibrated[-2] if len(self.calibrated) > 1 else np.inf

    @property
    def is_stale(self) -> bool:
        """Whether the last checks brought nothing over those before."""
        before, last = self.calibrated[:-_N_STALE], self.calibrated[-_N_STALE:]
        return bool(before) and max(last) <= max(before)


@dataclass(frozen=True, eq=False)
class CVChoice:
    """What was compared, and what was chosen.

    Parameters
    ----------
    curves : tuple of CandidateCurve
        Of all candidates, in their order.
    best : int
        The one that was chosen.
    n_epochs : int
        The epochs that its networks made.
    ended : str, default=""
        Why nothing more was trained: the race was over, or out of time, for example.
    """

    curves: tuple[CandidateCurve, ...]
    best: int
    n_epochs: int
    ended: str = ""

    @property
    def candidate(self) -> Candidate:
        """The candidate that was chosen."""
        return self.curves[self.best].candidate

    def __repr__(self) -> str:
        return f"CVChoice({self.candidate}, n_epochs={self.n_epochs}, of {len(self.curves)})"


@dataclass(frozen=True, eq=False)
class Runner:
    """A candidate in the race.

    Parameters
    ----------
    curve : CandidateCurve
    runs : tuple of Run
        The trainings of its folds.
    history : tuple of list of Epoch
        Of each, so far.
    best : Check or None
        The best check so far.
    """

    curve: CandidateCurve
    runs: tuple[Run, ...]
    history: tuple[list[Epoch], ...]
    best: Check | None = None

    @property
    def score(self) -> float:
        """That of the best check; minus infinity before any."""
        return -np.inf if self.best is None else self.best.score

    @property
    def is_running(self) -> bool:
        """Whether it is still in the race."""
        return not self.curve.outcome

    @property
    def work(self) -> float:
        """What the time of an epoch is proportional to."""
        sizes = (run.fitted.posterior.layer_sizes for run in self.runs)
        return sum(len(r.rows.y) * work_of_a_row(s) for r, s in zip(self.runs, sizes, strict=True))

    def end(self, outcome: str) -> Runner:
        """Return it with the reason for which it goes no further."""
        return replace(self, curve=replace(self.curve, outcome=outcome))


def cut(runners: Sequence[Runner], n_epochs: int, first_cut: int = FIRST_CUT) -> list[Runner]:
    """End those that have lost.

    From `first_cut` epochs on the best memory of each form is left, and of these the ones that
    are not clearly behind the leader, or catch up, and still improve.
    """
    if n_epochs < first_cut:
        return list(runners)
    leader = max(runners, key=lambda runner: runner.score)
    return [_cut(runner, leader, runners) if runner.is_running else runner for runner in runners]


def _cut(runner: Runner, leader: Runner, runners: Sequence[Runner]) -> Runner:
    form = runner.curve.candidate.form
    rivals = [other.score for other in runners if other.curve.candidate.form == form]
    if runner.score < max(rivals):
        return runner.end("another memory was better")
    if _is_behind(runner, leader):
        return runner.end("behind the leader")
    return runner.end("no longer improved") if runner.curve.is_stale else runner


def _is_behind(runner: Runner, leader: Runner) -> bool:
    """Whether the mean difference, row by row, is above two of its standard errors.

    And above the last gain: deep networks learn late, and may catch up with the next.
    """
    if runner.best is None or leader.best is None:
        return False
    behind, error = _difference(leader.best, runner.best)
    return behind > max(_N_ERRORS * error, runner.curve.last_gain)


def _difference(a: Check, b: Check) -> tuple[float, float]:
    """Return the mean of a's log density above b's, row by row, and its standard error."""
    difference, weights = a.log_p - b.log_p, a.oof.weights
    return weighted_mean(difference, weights), standard_error(difference, weights)


def chosen(runners: Sequence[Runner], n_errors: float) -> int:
    """Return which candidate wins: the leader, or one that costs less and is hardly behind.

    Parameters
    ----------
    runners : sequence of Runner
    n_errors : float
        Standard errors of the difference by which it may be behind; 0: the leader wins.
    """
    leader = max(runners, key=lambda runner: runner.score)

    def is_near(runner: Runner) -> bool:
        if runner is leader or runner.best is None or leader.best is None:
            return runner is leader
        behind, error = _difference(leader.best, runner.best)
        return behind < n_errors * error

    near = [i for i, runner in enumerate(runners) if is_near(runner)]
    return min(near, key=lambda i: (runners[i].work, -runners[i].score))


def end_all(runners: Sequence[Runner], outcome: str) -> list[Runner]:
    """End all that are running, for the same reason."""
    return [runner.end(outcome) if runner.is_running else runner for runner in runners]
