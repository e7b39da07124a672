"""From candidates to stacked networks: successive halving with early stopping, then stacking.

A trial is a candidate in training: one network per fold. All trials train side by side. At each
rung they are evaluated by the calibrated log-likelihood of out-of-fold samples: without
calibration, trials that train longest, and fit best, would look worst. Trials that fall behind are
stopped. The model is a mixture of the best trials, whose weights w maximize the out-of-fold log
score

    sum_i log sum_k w_k p_k(y_i | x_i)

(Yao and others 2018), found by expectation maximization. Only these trials train on the remaining
folds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.distributions.mixture import SeveralTargets
from probprop.distributions.power import box_cox_of
from probprop.encoding.missing import LARGEST_FACTOR, Joint, complete, masked
from probprop.estimators.cv import policy
from probprop.estimators.cv.calibration import (
    Calibrated,
    FoldOutputs,
    OutOfFold,
    Scorer,
    by_target,
    factor_of,
    standard_error,
    weighted_mean,
)
from probprop.estimators.cv.folds import Encodings, Fold, HeldOut, side_by_side
from probprop.estimators.cv.policy import Bins, Candidate
from probprop.estimators.progress import Share
from probprop.inference import checkpoint as checkpoints
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile
from probprop.inference.inputs import Inputs, Samples, stored
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import output_moments, with_output_layer
from probprop.inference.standardize import measure, with_usual_target_scale
from probprop.inference.training import Fitted, Run, advance

# The stages of a search.
COMPARING, TRAINING, CALIBRATING = "comparing candidates", "training the best", "calibrating"

_POWERS = np.arange(21) / 20.0  # linspace would have 0.6000000000000001
_NOT_FINITE = (
    "No candidate made finite predictions of out-of-fold samples. Look for outliers in X and y, or "
    "give `candidates` that have fewer layers or a smaller evidence cap."
)
_N_EM = 1_000  # steps of expectation maximization, at most
_SETTLED = 1e-6  # largest change of a weight in its last step

# Masked samples.
_N_MASKED = 1_024  # about; if there are fewer samples they are masked several times
_N_FACTORS = 41
_N_BEFORE = 16.0  # samples that the mean over all masked samples counts as, for each feature
_WIDTH = 0.7  # of log b^2 before any sample: where nodes hardly differ, samples say nothing
_BELOW_BEST = 0.5

Report = Callable[[Share], object]
# Makes epochs of every training, with a number of threads; returns what ended them early.
Step = Callable[[Sequence[Run], int, int], tuple[list[Run], BaseException | None]]


# ---- Trials


@dataclass(frozen=True, eq=False)
class Problem:
    """The samples, the folds and the scorer that all trials share."""

    encodings: Encodings  # of the samples; the weights have the same dtype
    y: Array  # (n,) or (n, K), as the likelihood encodes them
    folds: Sequence[Fold]  # each has a network of every stacked trial
    scorer: Scorer
    weights: FloatArray | None = None  # of the samples, above 0; None: each is 1
    y_std: FloatArray | None = None  # known errors of the targets, (n,); None: there are none
    marginalize: bool = False  # whether NaN is a missing value
    n_search: int | None = None  # how many of the folds trials are compared on; None: all
    step: Step | None = None  # makes epochs of trainings; None is `advance`
    saved: SavedStages | None = None  # the file that keeps the trainings

    @property
    def search_folds(self) -> Sequence[Fold]:
        """The folds that trials are compared on."""
        return self.folds[: self.n_search]

    def plan(self, candidate: Candidate) -> Plan:
        """Return how a candidate trains."""
        return Plan(
            self.scorer.likelihood,
            hidden=candidate.layers,
            evidence_cap=candidate.evidence_cap,
            prior=candidate.prior,
            output_layer=candidate.output_layer,
            marginalize=self.marginalize,
            dtype=self.encodings.dtype,
        )

    def seen_by(self, candidate: Candidate) -> Problem:
        """Return the problem with targets as a candidate sees them, and its scorer."""
        y, scorer = self.scorer.seen_by(candidate, self.y)
        return replace(self, y=y, scorer=scorer)

    def counting(self, rows: Array | slice) -> tuple[FloatArray | None, FloatArray | None]:
        """Return the weights and the known errors of these samples."""
        weights, y_std = self.weights, self.y_std
        return None if weights is None else weights[rows], None if y_std is None else y_std[rows]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The networks of a trial at a rung, and their out-of-fold predictions."""

    n_epochs: int
    oof: Any  # OutOfFold or LabelsOutOfFold
    fitted: tuple[Fitted, ...]  # the networks of the folds
    history: tuple[list[Epoch], ...]  # their epochs
    log_p: FloatArray  # (n,): calibrated log-likelihood of every out-of-fold sample
    splits: tuple[float, ...]  # its mean in each fold

    @property
    def score(self) -> float:
        """Mean of the calibrated log-likelihood."""
        return weighted_mean(self.log_p, self.oof.weights)

    @property
    def is_finite(self) -> bool:
        """Whether all predictions are finite."""
        return bool(np.isfinite(self.log_p).all())


@dataclass(frozen=True, eq=False)
class Trial:
    """Record of a candidate in the search.

    Parameters
    ----------
    candidate : Candidate
    n_epochs : tuple of int
        Epochs of each rung that it was evaluated at.
    scores : tuple of tuple of float
        Mean calibrated out-of-fold log-likelihood per sample, for each rung and fold.
    outcome : str
        Why it was not trained further.
    weight : float, default=0.0
        Stacking weight.
    """

    candidate: Candidate
    n_epochs: tuple[int, ...] = ()
    scores: tuple[tuple[float, ...], ...] = ()
    outcome: str = ""
    weight: float = 0.0

    @property
    def means(self) -> list[float]:
        """Mean score over the folds at each rung."""
        return [float(np.mean(splits)) for splits in self.scores]

    @property
    def best(self) -> tuple[int, float]:
        """Epochs and mean score of its best rung; 0 and minus infinity before any."""
        means = self.means
        at = int(np.argmax(means)) if means else -1
        return (self.n_epochs[at], means[at]) if means else (0, -np.inf)


@dataclass(frozen=True, eq=False)
class Running:
    """A trial with the state of its networks."""

    trial: Trial
    runs: tuple[Run, ...]  # the trainings of its folds
    history: tuple[list[Epoch], ...]  # of each, so far
    best: Evaluation | None = None  # the best evaluation so far

    @property
    def score(self) -> float:
        """Score of the best evaluation; minus infinity before any."""
        return -np.inf if self.best is None else self.best.score

    @property
    def is_running(self) -> bool:
        """Whether it was not stopped."""
        return not self.trial.outcome

    @property
    def work(self) -> float:
        """Number that the time of an epoch is proportional to."""
        sizes = [(len(run.rows.y), run.fitted.posterior.layer_sizes) for run in self.runs]
        return sum(n * policy.work_of_a_row(own) for n, own in sizes)

    def stopped(self, outcome: str) -> Running:
        """Return it stopped for that reason, if it is running."""
        return replace(self, trial=replace(self.trial, outcome=self.trial.outcome or outcome))


def begin_trials(
    candidates: Sequence[Candidate], problem: Problem, folds: Sequence[Fold]
) -> list[Running]:
    """Return trials before the first epoch. Candidates of one encoding share their samples."""
    alike: dict[tuple[Bins, float | None], Sequence[Run]] = {}
    trials = []
    for candidate in candidates:
        scales, own = (candidate.bins, candidate.power), problem.seen_by(candidate)
        siblings = alike.get(scales, [None] * len(folds))
        pairs = zip(folds, siblings, strict=True)
        runs = [_begin(candidate, own, fold, sibling) for fold, sibling in pairs]
        alike.setdefault(scales, runs)
        trials.append(Running(Trial(candidate), tuple(runs), tuple([] for _ in runs)))
    return trials


def _begin(candidate: Candidate, problem: Problem, fold: Fold, sibling: Run | None) -> Run:
    plan, encodings, bins = problem.plan(candidate), problem.encodings, candidate.bins
    train, rng = side_by_side(fold.train), RandomState(fold.seed)
    y, (weights, y_std) = problem.y[train], problem.counting(train)
    if sibling is not None:
        X = Inputs(sibling.rows.X)  # without missing values, whose variance is in X_var
        before = training.start(plan, X, y, rng, sibling.fitted.standardizer, near_draw=True)
        run = training.begin(plan, before, X, y, rng, weights=weights, y_std=y_std)
        return run._replace(rows=run.rows._replace(X_var=sibling.rows.X_var))
    if plan.likelihood.standardizes_target:
        own, every = (measure(a.reshape(len(a), -1)) for a in (y, problem.y))
        scales, relative = encodings.standardizer(train, own, bins), candidate.power is not None
        scales = with_usual_target_scale(scales, own, every, relative=relative)
    else:
        scales = encodings.standardizer(train, None, bins)
    X = encodings.inputs(bins)[train]
    before = training.start(plan, X, y, rng, scales, near_draw=True)
    return training.begin(plan, before, X, y, rng, weights=weights, y_std=y_std)


def _runs_of(trials: Sequence[Running]) -> list[Run]:
    """Return the trainings of all running trials."""
    return [run for trial in trials if trial.is_running for run in trial.runs]


def _moved(trials: Sequence[Running], runs: Sequence[Run]) -> list[Running]:
    """Return the trials with their trainings after more epochs, in the order of `_runs_of`."""
    following = iter(runs)

    def moved(trial: Running) -> Running:
        own = tuple(next(following) for _ in trial.runs)
        history = tuple([*h, *run.made] for h, run in zip(trial.history, own, strict=True))
        return replace(trial, runs=own, history=history)

    return [moved(trial) if trial.is_running else trial for trial in trials]


def outputs_of(plan: Plan, fitted: Fitted) -> Callable[[Samples], tuple[FloatArray, FloatArray]]:
    """Return the function from encoded samples to the moments of a network's outputs."""
    return lambda A: output_moments(plan, fitted.posterior, fitted.standardizer, Inputs(A))


def evaluate(trial: Running, problem: Problem, folds: Sequence[Fold]) -> Evaluation:
    """Evaluate the networks of a trial on their validation sets."""
    problem, bins = problem.seen_by(trial.trial.candidate), trial.trial.candidate.bins
    encodings, outputs = problem.encodings, []
    for run, fold in zip(trial.runs, folds, strict=True):
        fitted, rows = run.fitted, side_by_side(fold.train)
        if run.plan.output_layer == "full":
            scales, X = fitted.standardizer, encodings.inputs(bins)[rows]
            given = run.plan, fitted.posterior, scales, X, problem.y[rows]
            q = with_output_layer(*given, problem.counting(rows)[0])
            fitted = replace(fitted, posterior=q)
        of = outputs_of(run.plan, fitted)
        outputs.append(FoldOutputs(fitted, *encodings.moments(fold.test, bins, of)))
    held_out = HeldOut(folds)
    y, (weights, y_std) = problem.y[held_out.rows], problem.counting(held_out.rows)
    with np.errstate(all="ignore"):  # predictions that are not finite stop the trial
        oof = problem.scorer.out_of_fold(outputs, y, weights, held_out, y_std)
        log_p = oof.log_p(oof.factor)  # type: ignore[arg-type]
    networks = tuple(output.fitted for output in outputs)
    of_fold = held_out.fold == np.arange(len(folds))[:, np.newaxis]
    splits = tuple(
        weighted_mean(log_p[k], None if weights is None else weights[k]) for k in of_fold
    )
    return Evaluation(networks[0].epoch.n_iter, oof, networks, trial.history, log_p, splits)


# ---- Successive halving


def evaluated(trial: Running, problem: Problem) -> Running:
    """Return a running trial with the evaluation of one more rung."""
    if not trial.is_running:
        return trial
    found = evaluate(trial, problem, problem.search_folds)
    if not found.is_finite:
        return trial.stopped("predictions were not finite")
    n_epochs, scores = (*trial.trial.n_epochs, found.n_epochs), (*trial.trial.scores, found.splits)
    best = found if found.score > trial.score else trial.best
    return replace(trial, trial=replace(trial.trial, n_epochs=n_epochs, scores=scores), best=best)


def pruned(trials: Sequence[Running], n_kept: int) -> list[Running]:
    """Stop trials that trail the leader, or no longer improve, and all but the `n_kept` best."""
    leader = max(trials, key=lambda trial: trial.score)

    def outcome(trial: Running) -> str:
        scores = trial.trial.means
        # Deep networks learn later, and may overtake the leader.
        last = scores[-1] - scores[-2] if len(scores) > 1 else np.inf
        assert leader.best is not None
        assert trial.best is not None
        behind, weights = leader.best.log_p - trial.best.log_p, leader.best.oof.weights
        error = standard_error(behind, weights)
        if weighted_mean(behind, weights) > max(policy.CLEAR * error, last):
            return "behind the leader"
        before, after = scores[: -policy.N_STALE], scores[-policy.N_STALE :]
        return "no longer improved" if before and max(after) <= max(before) else ""

    left = [trial.stopped(outcome(trial)) if trial.is_running else trial for trial in trials]
    ranked = sorted((t for t in left if t.is_running), key=lambda trial: -trial.score)
    return [t if t in ranked[:n_kept] else t.stopped("not among the best") for t in left]


def power_of_residuals(y: Array, oof: OutOfFold) -> float | None:
    """Return the power g under which errors of out-of-fold targets y, (n,), are most homoscedastic.

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


# ---- Exact output layers


def with_exact_layers(trials: Sequence[Running], problem: Problem) -> list[Running]:
    """Return trials whose trained networks have an exact output layer.

    The result is empty unless the layer clearly improves the best trial, as without noise. The
    matrix of the features has to be small.
    """
    found: list[Running] = []
    for trial in sorted(trials, key=lambda trial: -trial.score):
        candidate, best = replace(trial.trial.candidate, output_layer="full"), trial.best
        if best is None or not candidate.layers:
            continue
        n_inputs, *_, n_hidden, _ = best.fitted[0].posterior.layer_sizes
        if n_inputs + n_hidden > policy.MOST_FEATURES:
            continue
        plan = problem.seen_by(candidate).plan(candidate)
        pairs = zip(trial.runs, best.fitted, strict=True)
        runs = tuple(run._replace(plan=plan, fitted=fitted) for run, fitted in pairs)
        exact = evaluated(Running(Trial(candidate), runs, best.history), problem)
        if (own := exact.best) is not None:
            if not found and not is_clear(own.log_p - best.log_p, own.oof.weights):
                break
            found.append(exact.stopped("an exact output layer"))
        elif not found:
            break
    return found


# ---- Stacking


def stacking_weights(log_p: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Return the weights, (K,), under which the mixture of densities has the best log score.

    log_p, (K, n), are log densities of n samples, whose weights may differ.
    """
    p = np.exp(log_p - log_p.max(axis=0))
    share = np.full(p.shape[1], 1.0) if weights is None else weights
    share = share / share.sum()
    w = np.full(len(p), 1.0 / len(p))
    for _ in range(_N_EM):
        responsible = w[:, np.newaxis] * p
        after = (responsible / responsible.sum(axis=0)) @ share
        change, w = np.abs(after - w).max(), after
        if change < _SETTLED:
            break
    normalized: FloatArray = w / w.sum()
    return normalized


@dataclass(frozen=True, eq=False)
class Stack:
    """The result of a search: the trials that predict together, largest weight first."""

    trials: tuple[Trial, ...]  # all that were compared, with their weights
    numbers: tuple[int, ...]  # of the stacked trials, among all
    evaluations: tuple[Evaluation, ...]  # of the stacked trials
    weights: FloatArray  # of the stacked trials, which sum to 1
    folds: Sequence[Fold]  # that have networks: if Ctrl-C ended the search, those of the search
    interrupted: bool = False  # whether Ctrl-C ended the search

    @property
    def candidates(self) -> list[Candidate]:
        """The stacked candidates."""
        return [self.trials[i].candidate for i in self.numbers]


def stacked(
    trials: Sequence[Trial],
    pairs: Sequence[tuple[int, Evaluation]],
    folds: Sequence[Fold],
    n_stacked: int,
    *,
    interrupted: bool = False,
) -> Stack:
    """Stack at most `n_stacked` of the trials, given by number, with their evaluations.

    Together they are at most twice as large as the largest one, which bounds files and predictions.
    """
    if not pairs:
        raise FloatingPointError(_NOT_FINITE)
    while True:
        log_p, oof = np.stack([found.log_p for _, found in pairs]), pairs[0][1].oof
        w, kept, sizes = stacking_weights(log_p, oof.weights), list[int](), list[int]()
        order = np.argsort(-w, kind="stable")
        for k in order:
            each = [*sizes, sum(m.size for m in pairs[k][1].fitted[0].posterior.m_w)]
            small = w[k] < policy.LEAST_WEIGHT or sum(each) > policy.MOST_SIZE * max(each)
            if not kept or (len(kept) < n_stacked and not small):
                kept, sizes = [*kept, k], each
        if len(kept) == len(pairs):
            break
        pairs = [pairs[k] for k in kept]
    numbers, evaluations = zip(*(pairs[k] for k in order), strict=True)
    weight = dict(zip(numbers, w[order].tolist(), strict=True))
    every = tuple(replace(trial, weight=weight.get(i, 0.0)) for i, trial in enumerate(trials))
    return Stack(every, numbers, evaluations, w[order], folds, interrupted)


# ---- The search


@dataclass(eq=False)
class Search:
    """The inputs of a search."""

    problem: Problem
    rungs: Sequence[int]  # epochs after which trials are compared, ascending
    n_stacked: int
    seed: int  # of the calibration
    exact: bool = False  # whether exact output layers are tried
    powers: bool = False  # whether to try powers of the targets, which are then all above 0
    n_threads: int = 1  # the result does not depend on it
    report: Report = lambda share: None  # is called with the share done
    done: float = 0.0  # work that was done
    share: float = 0.0  # of all work, as reported last

    def run(self, candidates: Sequence[Candidate]) -> Stack:
        """Return the stacked trials; Ctrl-C ends the search once trials have been compared."""
        problem, interrupted = self.problem, False
        self.report(Share(0.0, COMPARING))
        trials = begin_trials(candidates, problem, problem.search_folds)
        trials = self._to_rung(trials, self.rungs[0])
        try:
            if self.powers:
                trials = self._on_best_scale(trials)
            for i, n_epochs in enumerate(self.rungs[1:]):
                trials = pruned(trials, policy.N_KEPT[min(i, len(policy.N_KEPT) - 1)])
                if not any(trial.is_running for trial in trials):
                    break
                trials = self._to_rung(trials, n_epochs)
        except KeyboardInterrupt:
            trials, interrupted = [trial.stopped("interrupted") for trial in trials], True
        trials = [trial.stopped("trained to the end") for trial in trials]
        if self.exact and not interrupted:
            trials += with_exact_layers(trials, problem)
        found = [(i, trial.best) for i, trial in enumerate(trials) if trial.best is not None]
        records = [trial.trial for trial in trials]
        best = stacked(
            records, found, problem.search_folds, self.n_stacked, interrupted=interrupted
        )
        return best if interrupted else self.finished(best)

    def finished(self, found: Stack) -> Stack:
        """Train the stacked trials on the remaining folds; on Ctrl-C leave them unchanged."""
        pairs = list(zip(found.numbers, found.evaluations, strict=True))
        try:
            pairs = [(i, self._on_all_folds(found.trials[i].candidate, e)) for i, e in pairs]
        except KeyboardInterrupt:
            return replace(found, interrupted=True)
        finite = [(i, each) for i, each in pairs if each.is_finite]
        return stacked(found.trials, finite, self.problem.folds, self.n_stacked)

    def _on_all_folds(self, candidate: Candidate, before: Evaluation) -> Evaluation:
        """Train a candidate on the remaining folds for the same number of epochs."""
        problem, folds = self.problem, self.problem.folds
        if not (rest := folds[len(before.fitted) :]):
            return before
        trials = begin_trials([candidate], problem, rest)
        [trial] = self._trained(trials, before.n_epochs, before.n_epochs, TRAINING)
        known = [trial.runs[0]._replace(fitted=fitted) for fitted in before.fitted]
        history = (*before.history, *trial.history)
        whole = replace(trial, runs=(*known, *trial.runs), history=history)
        return evaluate(whole, problem, folds)

    def calibrated(self, found: Stack) -> Calibrated:
        """Calibrate the mixture of the stacked trials on their out-of-fold predictions."""
        self.report(Share(1.0, CALIBRATING))
        scorer, oofs = (
            self.problem.seen_by(found.candidates[0]).scorer,
            [e.oof for e in found.evaluations],
        )
        options = (HeldOut(found.folds), self.problem.encodings, self.seed, self.n_threads)
        parts = enumerate(by_target(oofs))
        each = [scorer.calibrate(own, found.weights, *options, k) for k, own in parts]
        if len(each) == 1:
            return each[0]
        first, *further = (own.calibration for own in each)
        predictive = SeveralTargets(tuple(own.predictive for own in each))
        return Calibrated(first, predictive, tuple(further))

    def _to_rung(self, trials: Sequence[Running], n_epochs: int) -> list[Running]:
        """Train all running trials up to that many epochs, and evaluate them."""
        trials = self._trained(trials, n_epochs, self.rungs[-1], COMPARING)
        return [evaluated(trial, self.problem) for trial in trials]

    def _trained(
        self, trials: Sequence[Running], n_epochs: int, last: int, stage: str
    ) -> Sequence[Running]:
        """Train all running trials up to that many epochs, of which a file may have some.

        It reports the share of the work up to the `last` epoch, and stops there on Ctrl-C.
        """
        step, saved = self.problem.step or advance, self.problem.saved
        if saved is not None:
            trials = _moved(trials, saved.begin(_runs_of(trials), n_epochs))
        reached = max(len(trial.history[0]) for trial in trials if trial.is_running)
        chunk = max(1, self.rungs[0] // policy.N_REPORTS)
        while n := min(chunk, n_epochs - reached):
            made, interrupt = step(_runs_of(trials), n, self.n_threads)
            if interrupt is not None:
                raise interrupt
            if saved is not None:
                saved.keep(made)
            trials, reached = _moved(trials, made), reached + n
            work = sum(trial.work for trial in trials if trial.is_running)
            self.done += n * work
            self.share = max(self.share, self.done / (self.done + work * (last - reached)))
            self.report(Share(self.share, stage))
        return trials

    def _on_best_scale(self, trials: list[Running]) -> list[Running]:
        """Return the trials, or the same ones on a power of the targets if that is clearly better.

        The leader decides. Both scales have a noise network in that comparison, which can also
        explain growing errors; without it the gain of the power would look too large.
        """
        problem, leader = self.problem, max(trials, key=lambda trial: trial.score)
        folds = problem.search_folds
        y = problem.y[HeldOut(folds).rows]
        if leader.best is None or (power := power_of_residuals(y, leader.best.oof)) is None:
            return trials

        def begun(old: Sequence[Running]) -> list[Running]:
            candidates = [replace(trial.trial.candidate, power=power) for trial in old]
            new = begin_trials(candidates, problem, folds)
            return self._to_rung(new, self.rungs[0])

        [probe] = begun([leader])
        if probe.best is None:
            return trials
        log_p = []
        for trial in (probe, leader):
            record = [replace(trial.trial, weight=1.0)]
            only = stacked(record, [(0, trial.best)], folds, 1)  # type: ignore[list-item]
            log_p.append(self.calibrated(only).predictive.logpdf(y))
        if not is_clear(log_p[0] - log_p[1], leader.best.oof.weights):
            return trials
        others = iter(begun([trial for trial in trials if trial is not leader]))
        return [probe if trial is leader else next(others) for trial in trials]


# ---- Checkpoints


class SavedStages:
    """The trainings of every stage of a search, in a file.

    A stage is the epochs to a rung, or those on the remaining folds. A search is determined by the
    results of its trainings. To resume it, it is run again, and in each stage the trainings
    continue from their state in the file: the result is bit-identical.
    """

    def __init__(self, file: CheckpointFile) -> None:
        self._file, self._stage = file, -1
        self._stages: dict[int, list[Checkpoint]] = {}
        kept = file.read()
        with file.reading():
            for found in kept:
                self._stages.setdefault(int(found.label), []).append(found)

    def begin(self, runs: Sequence[Run], n_epochs: int) -> list[Run]:
        """Begin a stage up to that many epochs; return its trainings with those in the file."""
        self._stage += 1
        if self._stage not in self._stages:
            return [run._replace(made=[]) for run in runs]
        with self._file.reading():
            pairs = zip(runs, self._stages[self._stage], strict=True)
            found = [checkpoints.resumed(*pair) for pair in pairs]
            reached = {run.fitted.epoch.n_iter for run, _ in found}
            if len(reached) > 1 or max(reached) > n_epochs:
                raise ValueError("a stage does not have the epochs that it made")
        return [run._replace(made=own) for run, own in found]

    def keep(self, runs: Sequence[Run]) -> None:
        """Keep the epochs that the trainings of this stage have just made."""
        label, before = str(self._stage), self._stages.get(self._stage)
        made = [checkpoints.checkpoint_of(run, list(run.made)) for run in runs]
        kept = [replace(each, label=label) for each in made]
        if before is not None:
            pairs = zip(kept, before, strict=True)
            kept = [replace(new, history=[*old.history, *new.history]) for new, old in pairs]
        self._stages[self._stage] = kept
        self._file.offer(*(each for own in self._stages.values() for each in own))


@contextmanager
def in_a_file(
    problem: Problem, path: str | os.PathLike[str] | None, model: Any
) -> Iterator[Problem]:
    """Yield the problem with trainings kept in a file, if there is one, and resumed from it.

    The last epochs are written at the end, also after an error. Random seeds would make it another
    search: they are refused.
    """
    if path is None:
        yield problem
        return
    checkpoints.check_seed(model.random_state)
    folds = [rows for f in problem.folds for rows in (f.train, f.test)]
    arrays = [stored(problem.encodings.X), problem.y, problem.weights, problem.y_std, *folds]
    file = CheckpointFile(path, checkpoints.digest(arrays), checkpoints.settings_of(model))
    try:
        yield replace(problem, saved=SavedStages(file))
    finally:
        file.flush()


def calibrate_joint(found: Stack, problem: Problem, calibrations: Sequence[Any]) -> Joint | None:
    """Return the joint distribution of the features with its factors b^2; None if there is none.

    With v the calibrated variance of the prediction of a masked out-of-fold sample, s^2 its
    variance between the nodes of the completed sample and r the residual, r ~ N(0, v + b^2 s^2).
    b^2, at least 1, is the largest factor under which the log-likelihood of the targets is within
    1/2 of its maximum, one standard error above the most likely factor: intervals that are too
    narrow do more harm than wide ones. There is one factor for each feature, and one for several
    that are missing together. For class labels it is the same with the outputs.
    """
    if (joint := problem.encodings.joint) is None:
        return None
    candidate = found.candidates[0]
    problem, plan = problem.seen_by(candidate), problem.plan(candidate)
    encoding = problem.encodings.of(candidate.bins)
    # Some of the test samples of each fold, or all several times.
    n_held = sum(len(fold.test) for fold in found.folds)
    step, times = -(-n_held // _N_MASKED), max(1, _N_MASKED // n_held)
    folds = [replace(f, test=np.tile(f.test[::step], times)) for f in found.folds]
    held_out = HeldOut(folds)
    outputs, between, noise, group = list[FoldOutputs](), list[Any](), list[Array](), list[Array]()
    for fold, fitted in zip(held_out.folds, found.evaluations[0].fitted, strict=True):
        X, what = masked(np.asarray(problem.encodings.X[fold.test]))
        rows = complete(X, joint)
        mean, within, apart = rows.parts(encoding, outputs_of(plan, fitted))
        outputs.append(FoldOutputs(fitted, mean, within))
        between.append(apart)
        group.append(what)
        h = [own.log_scale(rows) for own in calibrations]
        if any(own is not None for own in h):
            factor = [np.ones(len(X)) if own is None else np.sqrt(own.factor) for own in h]
            noise.append(factor[0] if len(h) == 1 else np.stack(factor, axis=1))
    y, (weights, y_std) = problem.y[held_out.rows], problem.counting(held_out.rows)
    a2 = factor_of(calibrations)

    def log_p(factor: float) -> FloatArray:
        """Return the log density, or probability, of the target of each sample."""
        pairs = zip(outputs, between, strict=True)
        wider = [own._replace(variance=own.variance + factor / a2 * b) for own, b in pairs]
        oof: Any = problem.scorer.out_of_fold(wider, y, weights, held_out, y_std)
        if noise:
            oof = oof.with_noise(held_out.in_order(noise))
        found_p: FloatArray = oof.log_p(a2)
        return found_p if weights is None else weights * found_p

    factors = np.geomspace(1.0, LARGEST_FACTOR, _N_FACTORS)
    with np.errstate(all="ignore"):  # a factor whose density is not finite is ignored
        each = np.array([log_p(float(factor)) for factor in factors])
    of_group = held_out.in_order(group) == np.arange(len(joint.factor))[:, np.newaxis]
    prior = -0.5 * (np.log(factors) / _WIDTH) ** 2
    total = each @ of_group.T + _N_BEFORE * each.mean(axis=1, keepdims=True) + prior[:, np.newaxis]
    total = np.where(np.isfinite(total), total, -np.inf)
    good = total >= total.max(axis=0) - _BELOW_BEST
    return replace(joint, factor=np.array([factors[own].max() for own in good.T]))
