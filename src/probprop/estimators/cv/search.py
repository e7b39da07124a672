"""From candidates to a calibrated winner, within a budget: successive halving with early stopping.

Candidates train side by side on the folds, and those that fall behind are dropped. A candidate is
judged by the calibrated log-likelihood of out-of-fold samples: without calibration the candidates
that train longest, and fit best, would look worst. The winner then learns the other folds, is tried
with a power of the targets and, if a budget of seconds leaves time, learns further partitions.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import BACKENDS, get_active_backend
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.distributions.power import box_cox_of
from probprop.estimators.checkpoints import check_seed, checkpoint_of, resumed, settings_of
from probprop.estimators.cv import policy
from probprop.estimators.cv.calibration import (
    Calibrated,
    FoldOutputs,
    Judge,
    OutOfFold,
    standard_error,
    weighted_mean,
)
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut, side_by_side
from probprop.estimators.cv.missing import LARGEST_FACTOR, Joint, complete, masked
from probprop.estimators.cv.policy import Budget, Candidate
from probprop.estimators.progress import Share
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, digest
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import output_moments
from probprop.inference.shards import Rows
from probprop.inference.standardize import measure, with_usual_target_scale
from probprop.inference.training import Fitted, Run

OUT_OF_TIME = "out of time"
RACE_WAS_OVER = "the race was over"  # why training ends without a budget of seconds
# The stages of a search.
ENCODING, COMPARING, TRAINING = "encoding", "comparing candidates", "training the best"
CALIBRATING = "calibrating"

_POWERS = np.arange(21) / 20.0  # linspace would have 0.6000000000000001
_NOT_FINITE = (
    "No candidate made finite predictions of the rows held out. Look for outliers in X and y, or "
    "give `candidates` that have fewer layers or a smaller evidence cap."
)

# Masked samples.
_N_MASKED = 1_024  # about; if there are fewer samples they are masked several times
_N_FACTORS = 41
_N_BEFORE = 16.0  # samples that the mean over all masked samples counts as, for each feature
_WIDTH = 0.7  # of log b^2 before any sample: where nodes hardly differ, samples say nothing
_BELOW_BEST = 0.5

Report = Callable[[Share], object]
Advanced = tuple[list[Run], BaseException | None]
# Makes epochs of every training, with a number of threads, and says what ended them early.
Step = Callable[[Sequence[Run], int, int], Advanced]


# ---- Trainings side by side: in threads of this process, or as tasks of a joblib backend


def is_elsewhere() -> bool:
    """Whether a `joblib.parallel_config` names a backend with workers of its own, such as Dask.

    The backends of this machine are left to the threads of the kernel, which copy no rows.
    """
    backend, _ = get_active_backend()
    own = ("loky", "multiprocessing", "sequential", "threading")
    return type(backend) not in [BACKENDS.get(name) for name in own]


def advance(runs: Sequence[Run], n_epochs: int, n_threads: int) -> Advanced:
    """Make more epochs of every training, to the same bits wherever.

    A backend with workers of its own uses all of these, whatever `n_threads` of this process are.
    """
    if not is_elsewhere():
        return training.advance(runs, n_epochs, n_threads)
    # Arrays that are arguments of their own go to the workers once, however many runs share them.
    tasks = (delayed(advanced)(without_rows(run), n_epochs, *run.rows) for run in runs)
    made = Parallel(n_jobs=-1, batch_size=1)(tasks)
    return [with_rows_of(*pair) for pair in zip(made, runs, strict=True)], None


def advanced(run: Run, n_epochs: int, *rows: Any) -> Run:
    """Make the epochs of one training, on a worker; its rows do not come back."""
    (run,), interrupt = training.advance([run._replace(rows=Rows(*rows))], n_epochs)
    if interrupt is not None:
        raise interrupt
    return without_rows(run)


def without_rows(run: Run) -> Run:
    """Return a training as it goes over a network: its rows go on their own."""
    return run._replace(rows=Rows(run.rows.X[:0], None, run.rows.y[:0]))


def with_rows_of(run: Run, before: Run) -> Run:
    """Return a training that came back, with the rows that it had."""
    return run._replace(rows=before.rows)


@dataclass(eq=False)
class Timer:
    """How much work there is time for, by the last work that was measured."""

    budget: Budget
    clock: Callable[[], float]
    after: float = 0.0  # work that follows, within the seconds of the budget, if there is time
    rate: float = 0.0  # seconds per unit of work, as far as it is known
    done: float = 0.0  # work that was done
    held: float = 0.0  # seconds to leave
    start: float = field(init=False)

    def __post_init__(self) -> None:
        self.start = self.clock()

    @property
    def has_time_after(self) -> bool:
        """Whether there is time for what follows."""
        return self.rate * self.after <= self.budget.most_after

    @property
    def _seconds_after(self) -> float:
        return self.rate * self.after if self.has_time_after else 0.0

    def over(self, work: float) -> float:
        """Return the seconds above those given, or below, after so much work and what follows."""
        if (seconds := self.budget.seconds) is None:
            return -np.inf
        return self.clock() + self.rate * work + self._seconds_after - self.start - seconds

    @contextmanager
    def measuring(self, work: float) -> Iterator[None]:
        """Measure what the work inside takes."""
        before = self.clock()
        yield
        self.rate = (self.clock() - before) / work
        self.done += work

    def affords(self, work: float) -> bool:
        """Return whether there is time for so much work."""
        if (seconds := self.budget.seconds) is None:
            return True
        after = max(policy.SHARE_AFTER * seconds, self._seconds_after)
        return self.clock() + self.rate * work <= self.start + seconds - self.held - after

    def n_epochs(self, work: float, reached: int, end: int, later: float = 0.0) -> int:
        """Return how many epochs to make next, 0 if none; the very first has to be made.

        An epoch takes the work, and each that was reached has the work `later` to follow.
        """
        most = min(self.budget.chunk, end - reached) if work else 0
        works = ((n, work * n + later * (reached + n)) for n in range(most, 0, -1))
        affordable = next((n for n, needed in works if self.affords(needed)), 0)
        return affordable or min(most, 1 if reached == 0 else 0)

    def share_done(self, work: float) -> float:
        """Return the share of the work that is done, if so much is left, and what follows."""
        return self.done / (self.done + work + self.after)


# ---- The candidates in a race


@dataclass(frozen=True, eq=False)
class Contest:
    """What the candidates are given, and what judges them."""

    encodings: Encodings  # of the rows; the dtype is that of the weights too
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    folds: Sequence[Fold]  # one partition of the rows
    judge: Judge
    weights: FloatArray | None = None  # of the rows, above 0; None: each is 1
    marginalize: bool = False  # whether NaN is a missing value
    n_first: int | None = None  # how many of the folds the race is run on; None: all
    again: Sequence[Fold] = ()  # another partition of the rows, which only the winner learns too
    alone: bool = False  # whether these first folds decide alone, also about a power of the targets
    step: Step | None = None  # makes epochs of trainings; None is `advance`

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
            evidence_cap=candidate.evidence_cap,
            marginalize=self.marginalize,
            dtype=self.encodings.dtype,
        )

    def seen_by(self, candidate: Candidate) -> Contest:
        """Return the contest with targets as a candidate sees them, and what judges it there."""
        y, judge = self.judge.seen_by(candidate, self.y)
        return replace(self, y=y, judge=judge)

    def timer(self, budget: Budget, clock: Callable[[], float], *known: float) -> Timer:
        """Return what measures a budget, with time for the calibration; known: rate and done."""
        n_held = sum(len(fold.test) for fold in self.folds)
        after = self.judge.work_after(self.encodings, n_held, len(self.folds))
        return Timer(budget, clock, after, *known)

    def weights_of(self, rows: Array | slice) -> FloatArray | None:
        """Return how much these rows count."""
        return None if self.weights is None else self.weights[rows]


@dataclass(frozen=True, eq=False)
class Check:
    """A candidate after some epochs."""

    n_epochs: int
    oof: Any  # OutOfFold or LabelsOutOfFold
    fitted: tuple[Fitted, ...]  # the networks of the folds
    history: tuple[list[Epoch], ...]  # how they got there
    log_p: FloatArray  # (n,): calibrated, of every row held out
    raw_score: float  # mean log density without calibration

    @property
    def score(self) -> float:
        """Mean of the calibrated log density."""
        return weighted_mean(self.log_p, self.oof.weights)


@dataclass(frozen=True, eq=False)
class CandidateCurve:
    """Mean out-of-fold log density, or log probability, that a candidate reached per sample.

    Parameters
    ----------
    candidate : Candidate
    n_epochs : tuple of int
        Epochs after which it was judged.
    calibrated, raw : tuple of float
        With the variance scaling factor that is best there, and without; in target units.
    factor : tuple of float
        That factor; for classification the temperature.
    outcome : str
        Why it was not trained further.
    """

    candidate: Candidate
    n_epochs: tuple[int, ...] = ()
    calibrated: tuple[float, ...] = ()
    raw: tuple[float, ...] = ()
    factor: tuple[float, ...] = ()
    outcome: str = ""


@dataclass(frozen=True, eq=False)
class CVChoice:
    """What was compared, and what was chosen.

    Parameters
    ----------
    curves : tuple of CandidateCurve
        One per candidate, in their order.
    best : int
        Index of the one that was chosen.
    n_epochs : int
        Number of epochs of its networks.
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

    @property
    def in_words(self) -> str:
        """The candidate that was chosen, but for its power, and its epochs."""
        n = self.n_epochs
        return f"{self.candidate.in_words}, {n:,} epoch{'' if n == 1 else 's'}"

    def __repr__(self) -> str:
        return f"CVChoice({self.candidate}, n_epochs={self.n_epochs}, of {len(self.curves)})"


@dataclass(frozen=True, eq=False)
class Runner:
    """A candidate in the race."""

    curve: CandidateCurve
    runs: tuple[Run, ...]  # the trainings of its folds
    history: tuple[list[Epoch], ...]  # of each, so far
    best: Check | None = None  # the best check so far

    @property
    def score(self) -> float:
        """Score of the best check; minus infinity before any."""
        return -np.inf if self.best is None else self.best.score

    @property
    def is_running(self) -> bool:
        """Whether it is still in the race."""
        return not self.curve.outcome

    @property
    def work(self) -> float:
        """What the time of an epoch is proportional to."""
        sizes = [(len(run.rows.y), run.fitted.posterior.layer_sizes) for run in self.runs]
        return sum(n * policy.work_of_a_row(own) for n, own in sizes)

    def end(self, outcome: str) -> Runner:
        """Return it with the reason for which it goes no further."""
        return replace(self, curve=replace(self.curve, outcome=outcome))


def _leader(runners: Sequence[Runner]) -> Runner:
    return max(runners, key=lambda runner: runner.score)


def _behind(runner: Runner, leader: Runner) -> tuple[float, float]:
    """Return by how much the log density is behind, per row, and the standard error of that."""
    if runner.best is None or leader.best is None:
        return np.nan, np.nan
    difference, weights = leader.best.log_p - runner.best.log_p, leader.best.oof.weights
    return weighted_mean(difference, weights), standard_error(difference, weights)


def cut(
    runners: Sequence[Runner], n_epochs: int, first_cut: int = policy.FIRST_CUT
) -> list[Runner]:
    """End those that have lost: from `first_cut` epochs on the best evidence cap of each form is
    left, and of these the ones that are not behind the leader, and still improve.
    """
    leader = _leader(runners)

    def outcome(runner: Runner) -> str:
        form, scores = runner.curve.candidate.form, runner.curve.calibrated
        if runner.score < max(r.score for r in runners if r.curve.candidate.form == form):
            return "another evidence cap was better"
        behind, error = _behind(runner, leader)
        # Deep networks learn late, and may catch up with the next gain.
        last_gain = scores[-1] - scores[-2] if len(scores) > 1 else np.inf
        if behind > max(policy.CLEAR * error, last_gain):
            return "behind the leader"
        before, last = scores[: -policy.N_STALE], scores[-policy.N_STALE :]
        return "no longer improved" if before and max(last) <= max(before) else ""

    if n_epochs < first_cut:
        return list(runners)
    return [runner.end(outcome(runner)) if runner.is_running else runner for runner in runners]


def chosen(runners: Sequence[Runner], n_errors: float) -> int:
    """Return which candidate wins: the leader, or one that costs less and is behind by at most
    `n_errors` standard errors of the difference.
    """
    leader = _leader(runners)

    def is_near(runner: Runner) -> bool:
        behind, error = _behind(runner, leader)
        return runner is leader or behind < n_errors * error

    near = [i for i, runner in enumerate(runners) if is_near(runner)]
    return min(near, key=lambda i: (runners[i].work, -runners[i].score))


def end_all(runners: Sequence[Runner], outcome: str) -> list[Runner]:
    """End all that are running, for the same reason."""
    return [runner.end(outcome) if runner.is_running else runner for runner in runners]


def line_up(
    candidates: Sequence[Candidate], contest: Contest, folds: Sequence[Fold]
) -> list[Runner]:
    """Return the candidates before the first epoch. Candidates of one encoding share their rows."""
    alike: dict[tuple[int | None, float | None], Sequence[Run]] = {}
    runners = []
    for candidate in candidates:
        scales, own = (candidate.n_bins, candidate.power), contest.seen_by(candidate)
        siblings = alike.get(scales, [None] * len(folds))
        pairs = zip(folds, siblings, strict=True)
        runs = [_begin(candidate, own, fold, sibling) for fold, sibling in pairs]
        alike.setdefault(scales, runs)
        runners.append(Runner(CandidateCurve(candidate), tuple(runs), tuple([] for _ in runs)))
    return runners


def _begin(candidate: Candidate, contest: Contest, fold: Fold, sibling: Run | None) -> Run:
    plan, encodings, n_bins = contest.plan(candidate), contest.encodings, candidate.n_bins
    train, rng = side_by_side(fold.train), RandomState(fold.seed)
    y, weights = contest.y[train], contest.weights_of(train)
    if sibling is not None:
        X = Inputs(sibling.rows.X)  # without gaps: what was missing there is in X_var
        before = training.start(plan, X, y, rng, sibling.fitted.standardizer, near_draw=True)
        run = training.begin(plan, before, X, y, rng, weights=weights)
        return run._replace(rows=run.rows._replace(X_var=sibling.rows.X_var))
    before = training.start(plan, Inputs(encodings.rows(n_bins)[train]), y, rng, near_draw=True)
    scales = encodings.standardizer(before.standardizer, n_bins)
    if plan.likelihood.standardises_target:
        own, every = (measure(a.reshape(len(a), -1)) for a in (y, contest.y))
        relative = candidate.power is not None
        scales = with_usual_target_scale(scales, own, every, relative=relative)
    before = replace(before, standardizer=scales)
    return training.begin(plan, before, encodings.inputs(n_bins)[train], y, rng, weights=weights)


def advance_all(
    runners: Sequence[Runner], n_epochs: int, n_threads: int, step: Step | None = None
) -> list[Runner]:
    """Make more epochs of all that are running, in one call."""
    runs = [run for runner in runners if runner.is_running for run in runner.runs]
    made, interrupt = (step or advance)(runs, n_epochs, n_threads)
    if interrupt is not None:
        raise interrupt
    following = iter(made)

    def moved(runner: Runner) -> Runner:
        own = tuple(next(following) for _ in runner.runs)
        history = tuple([*h, *run.made] for h, run in zip(runner.history, own, strict=True))
        return replace(runner, runs=own, history=history)

    return [moved(runner) if runner.is_running else runner for runner in runners]


def outputs_of(plan: Plan, fitted: Fitted) -> Callable[[Array], tuple[FloatArray, FloatArray]]:
    """Return the function from encoded rows to the moments of a network's outputs."""
    return lambda A: output_moments(plan, fitted.posterior, fitted.standardizer, Inputs(A))


def check_of(runner: Runner, contest: Contest, folds: Sequence[Fold]) -> Check:
    """Judge the networks of a candidate on the rows that their folds held out."""
    contest, n_bins = contest.seen_by(runner.curve.candidate), runner.curve.candidate.n_bins
    A, encode = contest.encodings.rows(n_bins), contest.encodings.encode(n_bins)
    outputs = []
    for run, fold in zip(runner.runs, folds, strict=True):
        rows, of = contest.encodings.completed[fold.test], outputs_of(run.plan, run.fitted)
        moments = rows.moments(A[side_by_side(fold.test)], encode, of)
        outputs.append(FoldOutputs(run.fitted, *moments))
    held_out = HeldOut(folds)
    y, weights = contest.y[held_out.rows], contest.weights_of(held_out.rows)
    with np.errstate(all="ignore"):  # what is not finite drops the candidate
        oof = contest.judge.out_of_fold(outputs, y, weights, held_out)
        log_p, raw = oof.log_p(oof.factor), weighted_mean(oof.log_p(), weights)
    fitted = tuple(run.fitted for run in runner.runs)
    return Check(fitted[0].epoch.n_iter, oof, fitted, runner.history, log_p, raw)


# ---- The race


@dataclass(frozen=True, eq=False)
class Race:
    """How a race ended."""

    choice: CVChoice
    checks: tuple[Check, ...]  # of the chosen candidate, at its best: one per partition of the rows
    # These partitions: of the first only a part where Ctrl-C left no time for more.
    partitions: tuple[Sequence[Fold], ...]
    interrupted: bool  # whether Ctrl-C ended it
    rate: float = 0.0  # seconds per unit of work, as last measured
    done: float = 0.0  # work that was done

    @property
    def oof(self) -> Any:
        """The rows held out with all predictions that each of them has."""
        first, *others = (check.oof for check in self.checks)
        return first.pooled(others)


def race(
    candidates: Sequence[Candidate],
    contest: Contest,
    budget: Budget,
    *,
    reserve: Callable[[Check | None], float] = lambda best: 0.0,
    n_threads: int = 1,
    clock: Callable[[], float] = time.process_time,
    report: Report = lambda share: None,
) -> Race:
    """Train the candidates, and return the one that predicts held-out rows best, on all folds.

    If the first folds decide alone, the others are left for `finished`. `reserve` takes the best
    check so far, None before any, and returns seconds of the budget to leave.
    """
    timer = contest.timer(budget, clock)
    timer.held = reserve(None)
    report(Share(0.0, ENCODING))
    runners = line_up(candidates, contest, contest.first)
    report(Share(0.0, COMPARING))
    n_later = len(contest.later) / len(contest.first)  # times the work of the race
    if budget.seconds is not None:
        runners = _affordable(runners, timer, n_later, n_threads)
    interrupted = False
    try:
        for start, end in pairwise((0, *budget.checks)):
            reached = start
            # Of an epoch of all that are running, and of the costliest that may win.
            work = float(sum(runner.work for runner in runners if runner.is_running))
            leader = _leader(runners)
            most = max(r.work for r in runners if r.is_running or r is leader)
            while n_epochs := timer.n_epochs(work, reached, end, n_later * most):
                with timer.measuring(work * n_epochs):
                    runners = advance_all(runners, n_epochs, n_threads, contest.step)
                reached += n_epochs
                left = work * (budget.checks[-1] - reached) + n_later * most * reached
                report(Share(timer.share_done(left), COMPARING))
            if reached > start:
                looked = [_judged(r, contest) if r.is_running else r for r in runners]
                runners = cut(looked, reached, budget.first_cut)
                timer.held = reserve(_leader(runners).best)
            if reached < end:
                runners = end_all(runners, OUT_OF_TIME)
    except KeyboardInterrupt:
        if all(runner.best is None for runner in runners):
            raise
        runners, interrupted = end_all(runners, "interrupted"), True
    runners = end_all(runners, "trained to the end")
    winner = chosen(runners, policy.n_errors_behind(len(contest.y), contest.judge.usual))
    best = runners[winner].best
    if best is None:
        raise FloatingPointError(_NOT_FINITE)
    choice = CVChoice(tuple(runner.curve for runner in runners), winner, best.n_epochs)
    so_far = Race(choice, (best,), (contest.first,), interrupted, timer.rate, timer.done)
    if interrupted:
        return so_far
    try:  # all that was left may have been dropped at once
        later = n_later * runners[winner].work * best.n_epochs
        report(Share(timer.share_done(later), COMPARING))
    except KeyboardInterrupt:
        return replace(so_far, interrupted=True)
    return so_far if contest.alone else finished(so_far, contest, timer, n_threads, report)


def finished(so_far: Race, contest: Contest, timer: Timer, n_threads: int, report: Report) -> Race:
    """Let the winner learn the other folds, for as many epochs; on Ctrl-C leave it as it was."""
    if not contest.later:
        return so_far
    [best], candidate = so_far.checks, so_far.choice.candidate
    partitions, checks = list(filter(None, (contest.folds, contest.again))), list[Check]()
    try:
        [rest] = line_up([candidate], contest, contest.later)
        rest = train(rest, best.n_epochs, contest, timer, n_threads, report)
        first = [rest.runs[0]._replace(fitted=fitted) for fitted in best.fitted]  # only judged
        runs, history = [*first, *rest.runs], [*best.history, *rest.history]
        for folds in partitions:
            own = slice(len(runs) - len(folds), None) if checks else slice(len(folds))
            part = Runner(CandidateCurve(candidate), tuple(runs[own]), tuple(history[own]))
            checks.append(check_of(part, contest, folds))
    except KeyboardInterrupt:
        return replace(so_far, interrupted=True)
    finite = [bool(np.isfinite(check.log_p).all()) for check in checks]
    if not finite[0]:
        raise FloatingPointError(_NOT_FINITE)
    n = 1 + sum(finite[1:])  # there are at most two
    judged = tuple(checks[:n]), tuple(partitions[:n])
    return Race(so_far.choice, *judged, so_far.interrupted, timer.rate, timer.done)


def train(
    runner: Runner, n_epochs: int, contest: Contest, timer: Timer, n_threads: int, report: Report
) -> Runner:
    """Train a candidate alone for so many epochs."""
    while n := min(timer.budget.chunk, n_epochs - len(runner.history[0])):
        with timer.measuring(runner.work * n):
            [runner] = advance_all([runner], n, n_threads, contest.step)
        left = runner.work * (n_epochs - len(runner.history[0]))
        report(Share(timer.share_done(left), TRAINING))
    return runner


def _judged(runner: Runner, contest: Contest) -> Runner:
    """Return a candidate with one more point of its curve."""
    check, curve = check_of(runner, contest, contest.first), runner.curve
    if not np.isfinite(check.log_p).all():
        return runner.end("predictions were not finite")
    now = (check.n_epochs, check.score, check.raw_score, check.oof.factor)
    before = (curve.n_epochs, curve.calibrated, curve.raw, curve.factor)
    points: list[Any] = [(*old, new) for old, new in zip(before, now, strict=True)]
    curve = CandidateCurve(curve.candidate, *points)
    best = check if check.score > runner.score else runner.best
    return replace(runner, curve=curve, best=best)


def _affordable(
    runners: Sequence[Runner], timer: Timer, n_later: float, n_threads: int
) -> list[Runner]:
    """End the candidates that cost most until the others can reach the first cut in time.

    Every form comes with one evidence cap before any comes with another. An epoch of the cheapest
    candidate, or a few if they cost next to nothing, measures the rate, and is then forgotten.
    """
    forms = [runner.curve.candidate.form for runner in runners]
    order = sorted(range(len(runners)), key=lambda i: (forms[:i].count(forms[i]), runners[i].work))
    cheapest = runners[order[0]]
    forgotten = tuple(r._replace(random_state=deepcopy(r.random_state)) for r in cheapest.runs)
    for n in (1, timer.budget.chunk):
        if n == 1 or timer.affords(policy.TIMING_COST * n * cheapest.work):
            with timer.measuring(n * cheapest.work):
                advance_all([replace(cheapest, runs=forgotten)], n, n_threads)
    each = [runners[i].work for i in order]
    works = timer.budget.first_cut * (np.cumsum(each) + n_later * np.maximum.accumulate(each))
    kept = order[: max(1, sum(timer.affords(work) for work in works))]
    why = "too costly for the budget"
    return [runner if i in kept else runner.end(why) for i, runner in enumerate(runners)]


def power_of_residuals(y: Array, oof: OutOfFold) -> float | None:
    """Return the power g of out-of-fold targets y, (n,), whose errors are most likely of one size.

    With m the out-of-fold means, at least the smallest of the targets, and s^2 the mean of
    (g(y) - g(m))^2, it has the largest sum of log N(g(y) - g(m) | 0, s^2) + log g'(y). None if
    targets are not all above 0, or all equal, or no power is clearly better than none.
    """
    if len(y) < policy.MIN_ROWS_FOR_POWER or not (y > 0.0).all() or y.min() == y.max():
        return None
    mean, weights = np.maximum(oof.mean, y.min()), oof.weights
    log_p = []
    with np.errstate(divide="ignore", invalid="ignore"):  # without errors there is no scale
        for g in (box_cox_of(y, power) for power in _POWERS):
            square = (g.forward(y) - g.forward(mean)) ** 2
            variance = weighted_mean(square, weights)
            log_p.append(-0.5 * (np.log(variance) + square / variance) + g.log_jacobian(y))
        best = int(np.argmax([weighted_mean(each, weights) for each in log_p]))
        return float(_POWERS[best]) if is_clear(log_p[best] - log_p[-1], weights) else None


def is_clear(gain: FloatArray, weights: FloatArray | None) -> bool:
    """Return whether the mean gain of rows is above two of its standard errors."""
    return weighted_mean(gain, weights) > policy.CLEAR * standard_error(gain, weights)


class Attempt(NamedTuple):
    """A race, and what calibration made of its winner."""

    race: Race
    calibrated: Calibrated


def with_a_power(
    first: Attempt, power: float, y: Array, attempt: Callable[[Candidate], Attempt]
) -> Attempt:
    """Train the winner again to predict a power of the targets; return the better of both.

    y are the out-of-fold targets, (n,), and `attempt` trains a candidate. Both have been tried with
    a noise network: it too learns that errors grow, and without it the gain looks too large.
    """
    before = first.race
    candidate, interrupted = replace(before.choice.candidate, power=power), before.interrupted
    curves, curve = before.choice.curves, CandidateCurve(candidate)
    try:
        second = attempt(candidate)
    except KeyboardInterrupt:
        outcome, interrupted = "interrupted", True
    except FloatingPointError:
        outcome = "predictions were not finite"
    else:
        curve, interrupted = second.race.choice.curves[0], second.race.interrupted
        if len(second.race.partitions[0]) < len(before.partitions[0]):  # some rows are not held out
            outcome = "interrupted"
        else:
            log_p, log_p_first = (each.calibrated.predictive.logpdf(y) for each in (second, first))
            if is_clear(log_p - log_p_first, before.checks[0].oof.weights):
                choice = CVChoice((*curves, curve), len(curves), second.race.choice.n_epochs)
                return second._replace(race=replace(second.race, choice=choice))
            outcome = "no clear gain from the power"
    choice = replace(before.choice, curves=(*curves, replace(curve, outcome=outcome)))
    return first._replace(race=replace(before, choice=choice, interrupted=interrupted))


# ---- The search


@dataclass(frozen=True, eq=False)
class Search:
    """What a search is given; its seconds are counted from here on."""

    contest: Contest
    budget: Budget
    seed: int  # of the calibration
    powers: bool = False  # whether powers of the targets, which are then all above 0, are tried
    another: Callable[[], Sequence[Fold]] | None = None  # draws another partition of the rows
    n_threads: int = 1  # the result does not depend on it
    clock: Callable[[], float] = time.process_time  # measures the seconds of the budget
    report: Report = lambda share: None  # is called with the share done
    start: float = field(init=False)

    def __post_init__(self) -> None:
        vars(self)["start"] = self.clock()

    def best_of(self, candidates: Sequence[Candidate]) -> Attempt:
        """Return the best candidate, calibrated."""
        tried = policy.SHARE_OF_POWERS
        share = 1.0 - tried if self.powers else 1.0
        found, attempt = self._race(candidates, 0.0, share, reserve=self._reserve), None
        y = self.contest.y[HeldOut(found.partitions[0]).rows]
        power = power_of_residuals(y, found.oof) if self.powers else None
        if power is not None and not found.interrupted:
            # Where folds are left, most of the work is still to be done.
            shares = (tried, 2.0 * tried) if self.contest.alone else (share, 1.0)
            first = self._calibrated(found)
            attempt = with_a_power(
                first, power, y, lambda c: self._calibrated(self._race([c], *shares))
            )
            found = attempt.race
        if self.contest.alone and not found.interrupted:
            report = self._between(0.0 if attempt is None else tried, 1.0)
            timer = self._timer(self._left, found)
            found, attempt = finished(found, self.contest, timer, self.n_threads, report), None
        ended = self._further(found)
        if attempt is None or len(ended.partitions) > len(found.partitions):
            return self._calibrated(ended)
        return attempt._replace(race=ended)

    @property
    def _left(self) -> Budget:
        return self.budget.less(self.clock() - self.start)

    def _race(self, candidates: Sequence[Candidate], a: float, b: float, **options: Any) -> Race:
        """Run a race with the time that is left, from the share a of all work to the share b."""
        options |= {"n_threads": self.n_threads, "clock": self.clock, "report": self._between(a, b)}
        return race(candidates, self.contest, self._left, **options)

    def _between(self, a: float, b: float) -> Report:
        return lambda share: self._tell(Share(a + (b - a) * share, share.stage))

    def _tell(self, share: Share) -> None:
        """Report a share of the work; of a budget of seconds, what of these has passed."""
        seconds = self.budget.seconds
        passed = share if seconds is None else (self.clock() - self.start) / seconds
        self.report(Share(min(passed, 1.0), share.stage))

    def _reserve(self, leader: Check | None) -> float:
        """Return the seconds to leave for a power, as far as that can be seen."""
        if not self.powers or self.budget.seconds is None:
            return 0.0
        y = self.contest.y[HeldOut(self.contest.first).rows]
        if leader is not None and power_of_residuals(y, leader.oof) is None:
            return 0.0
        return policy.SHARE_OF_POWERS * self.budget.seconds

    def _calibrated(self, found: Race) -> Attempt:
        contest, candidate = self.contest, found.choice.candidate
        self._tell(Share(0.0, CALIBRATING))
        if candidate.noise == "auto" and not self._timer(self.budget, found).has_time_after:
            candidate = replace(candidate, noise="constant")
        judge, held_out = contest.seen_by(candidate).judge, HeldOut(found.partitions[0])
        options = (sum(map(len, found.partitions)), self.seed, self.n_threads)
        return Attempt(found, judge.calibrate(found.oof, held_out, contest.encodings, *options))

    def _timer(self, budget: Budget, found: Race) -> Timer:
        return self.contest.timer(budget, self.clock, found.rate, found.done)

    def _further(self, found: Race) -> Race:
        """Let the winner learn further partitions while there is time; say why it ended."""
        if found.interrupted:
            return _ended(found, "interrupted")
        if (seconds := self.budget.seconds) is None:
            return _ended(found, RACE_WAS_OVER)
        if self.another is None:
            out = any(curve.outcome == OUT_OF_TIME for curve in found.choice.curves)
            only = f"{RACE_WAS_OVER}, and cv is a single partition"
            return _ended(found, OUT_OF_TIME if out else only)
        timer, report = self._timer(self._left, found), self._between(0.0, 1.0)
        candidate, n_epochs = found.choice.candidate, found.choice.n_epochs
        try:
            while len(found.partitions) < policy.MOST_PARTITIONS:
                folds = self.another()
                [runner] = line_up([candidate], self.contest, folds)
                without, over = (timer.over(work) for work in (0.0, runner.work * n_epochs))
                if over > policy.MOST_OVER * seconds or abs(over) > abs(without):
                    return _ended(found, OUT_OF_TIME)
                runner = train(runner, n_epochs, self.contest, timer, self.n_threads, report)
                check = check_of(runner, self.contest, folds)
                if not np.isfinite(check.log_p).all():
                    return _ended(found, "predictions of a further partition were not finite")
                checks, partitions = (*found.checks, check), (*found.partitions, folds)
                found = replace(found, checks=checks, partitions=partitions)
        except KeyboardInterrupt:
            return _ended(replace(found, interrupted=True), "interrupted")
        return _ended(found, f"the winner has learned {policy.MOST_PARTITIONS} partitions")


def _ended(found: Race, why: str) -> Race:
    return replace(found, choice=replace(found.choice, ended=why))


# ---- Checkpoints


class Journal:
    """The steps of the trainings of a race, numbered, in a file.

    Without a budget of seconds all that a race does follows from what its trainings reach. So the
    same race is run again, and steps that are in the file are not trained again, to the same bits.
    A step between two comparisons, the checks of the budget, is dropped once the next one is there,
    which then has the epochs of both. `step` makes the epochs that are not in the file.
    """

    def __init__(self, file: CheckpointFile, budget: Budget, step: Step | None) -> None:
        self._file, self._checks, self._step = file, {*budget.checks}, step
        self._steps: dict[int, list[Checkpoint]] = {}
        kept = file.read_all()
        with file.reading():
            for found in kept:
                self._steps.setdefault(int(found.label), []).append(found)
        self._last = max(self._steps, default=-1)
        self._n_steps = 0
        self._n_skipped = 0  # epochs of steps that a later one in the file has too

    def advance(self, runs: Sequence[Run], n_epochs: int, n_threads: int) -> Advanced:
        """Make more epochs of every training, or find them."""
        step, self._n_steps = self._n_steps, self._n_steps + 1
        if step in self._steps:
            with self._file.reading():
                found = [resumed(*pair) for pair in zip(runs, self._steps[step], strict=True)]
                made = [run._replace(made=own) for run, own in found]
                if {len(run.made) for run in made} != {self._n_skipped + n_epochs}:
                    raise ValueError("a step does not have the epochs that it made")
            self._n_skipped = 0
            return made, None
        if step <= self._last:  # a later one has these epochs too
            self._n_skipped += n_epochs
            with self._file.reading():
                reached = {run.fitted.epoch.n_iter + self._n_skipped for run in runs}
                if reached & self._checks:
                    raise ValueError("a step before a comparison is missing")
            return [run._replace(made=[]) for run in runs], None
        made, interrupt = (self._step or advance)(runs, n_epochs, n_threads)
        if interrupt is None:
            self._keep(step, made)
        return made, interrupt

    def _keep(self, step: int, made: Sequence[Run]) -> None:
        before = self._steps.get(step - 1, [])
        reached = [run.fitted.epoch.n_iter - len(run.made) for run in made]
        parts = [replace(checkpoint_of(run, list(run.made)), label=str(step)) for run in made]
        goes_on = [old.state.n_iter for old in before] == reached
        if goes_on and not self._checks.intersection(reached):
            pairs = zip(parts, before, strict=True)
            parts = [replace(new, history=[*old.history, *new.history]) for new, old in pairs]
            del self._steps[step - 1]
        self._steps[step] = parts
        self._last = step
        self._file.offer_all([each for own in self._steps.values() for each in own])


@contextmanager
def in_a_file(
    contest: Contest, path: str | os.PathLike[str] | None, model: Any, budget: Budget
) -> Iterator[Contest]:
    """Give the contest whose trainings are kept in a file, if there is one, and found there.

    What is left is written at the end, whatever ends it. Seeds that are drawn anew, and seconds,
    would make it another race: they are refused.
    """
    if path is None:
        yield contest
        return
    check_seed(model.random_state)
    if budget.seconds is not None:
        raise ValueError(
            f"with checkpoint, budget must be a name: what {model.budget!r} seconds are enough for "
            'depends on the machine. Give "fast", "good" or "best".'
        )
    folds = [rows for f in (*contest.folds, *contest.again) for rows in (f.train, f.test)]
    arrays = [contest.encodings.X, contest.y, contest.weights, *folds]
    file = CheckpointFile(path, digest(arrays), settings_of(model))
    try:
        yield replace(contest, step=Journal(file, budget, contest.step).advance)
    finally:
        file.flush()


def calibrated_joint(found: Race, contest: Contest, calibration: Any) -> Joint | None:
    """Return the joint distribution of the features with its factors b^2; None if there is none.

    With v the calibrated variance of the prediction of a masked out-of-fold sample, s^2 its
    variance between the nodes of the completed sample and r the residual, r ~ N(0, v + b^2 s^2).
    b^2, at least 1, is the largest factor under which the log-likelihood of the targets is within
    1/2 of its maximum, one standard error above the most likely factor: intervals that are too
    narrow do more harm than wide ones. There is one factor for each feature, and one for several
    that are missing together. For class labels it is the same with the outputs.
    """
    if (joint := contest.encodings.joint) is None:
        return None
    candidate = found.choice.candidate
    contest, plan = contest.seen_by(candidate), contest.plan(candidate)
    encode = contest.encodings.encode(candidate.n_bins)
    # Some of the test samples of each fold, or all several times.
    n_held = sum(len(fold.test) for fold in found.partitions[0])
    step, times = -(-n_held // _N_MASKED), max(1, _N_MASKED // n_held)
    folds = [replace(f, test=np.tile(f.test[::step], times)) for f in found.partitions[0]]
    held_out = HeldOut(folds)
    outputs, between, noise, group = list[FoldOutputs](), list[Any](), list[Array](), list[Array]()
    for fold, fitted in zip(held_out.folds, found.checks[0].fitted, strict=True):
        X, what = masked(contest.encodings.X[fold.test])
        rows = complete(X, joint)
        mean, within, apart = rows.parts(encode(X), encode, outputs_of(plan, fitted))
        outputs.append(FoldOutputs(fitted, mean, within))
        between.append(apart)
        group.append(what)
        if (h := calibration.log_scale(rows)) is not None:
            noise.append(np.sqrt(h.factor))
    y, weights = contest.y[held_out.rows], contest.weights_of(held_out.rows)
    a2 = float(calibration.factor)

    def log_p(factor: float) -> FloatArray:
        """Return the log density, or probability, of the target of each sample."""
        pairs = zip(outputs, between, strict=True)
        wider = [own._replace(variance=own.variance + factor / a2 * b) for own, b in pairs]
        oof: Any = contest.judge.out_of_fold(wider, y, weights, held_out)
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
