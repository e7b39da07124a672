"""The choice of epochs and memory on held-out rows: ``n_epochs="auto"``, ``memory="auto"``.

Every memory is trained on the same parts of the data while the log-likelihood of the rest is
watched. The best pair replaces the usual one, for a regression the protocol of [PBP15], only
where it is clearly better.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import joblib
import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.estimators.data import TrainingData, begin_from
from probprop.estimators.progress import ChoiceBar
from probprop.inference import training
from probprop.inference.plan import Plan
from probprop.inference.prediction import predictive, weighted_log_p
from probprop.inference.training import Run

MEMORIES = (None, 3.0, 10.0, 30.0, 100.0)
"""What ``memory="auto"`` chooses from."""
USUAL_EPOCHS = 40
"""The protocol of [PBP15]: the choice unless another is clearly better."""

_LONGEST = 1000  # epochs
_MOST_UPDATES = 4_000_000  # of one memory; with many rows fewer epochs are tried
_PATIENCE = 4  # checks without a new best: a factor of 2.5 in epochs
_FEW_ROWS = 5000  # below which a tenth of them says too little
_FOLDS = 5
_VALIDATION_SHARE, _MOST_VALIDATION_ROWS = 0.1, 10_000
_FEWEST_ROWS = 20  # below which nothing can be said


@dataclass(frozen=True)
class Curve:
    """The mean log-likelihood of the held-out rows as one memory is trained.

    Parameters
    ----------
    memory : float or None
    n_epochs : tuple of int
        Where it was looked at.
    log_likelihood : tuple of float
        Mean over the rows, of a density in target units or of labels; as many.
    """

    memory: float | None
    n_epochs: tuple[int, ...]
    log_likelihood: tuple[float, ...]


@dataclass(frozen=True)
class Choice:
    """The epochs and the memory of a fit, and how they were chosen if they were.

    Parameters
    ----------
    n_epochs : int
    memory : float or None
    gain : float
        Mean difference of the held-out log-likelihood between the best pair and the usual one,
        per row. The best is chosen if that is above `gain_error`.
    gain_error : float
        Its standard error over the rows.
    n_rows : int
        Rows held out, each once; 0 where nothing was chosen.
    curves : tuple of Curve
        One per memory tried.
    """

    n_epochs: int
    memory: float | None
    gain: float = 0.0
    gain_error: float = 0.0
    n_rows: int = 0
    curves: tuple[Curve, ...] = ()


@dataclass(frozen=True)
class Watched:
    """One memory as it was trained on all parts: log-likelihoods of shape (n_checks, n_rows)."""

    memory: float | None
    n_epochs: list[int]
    log_likelihood: FloatArray


def choose(
    plan: Plan,
    data: TrainingData,
    n_epochs: int | None,
    seed: int,
    *,
    any_memory: bool,
    show: bool = False,
) -> Choice:
    """Choose the number of epochs, the memory, or both.

    Parameters
    ----------
    plan : Plan
        Its memory is the usual one, which another replaces only if it is clearly better.
    data : TrainingData
    n_epochs : int or None
        None: it is to be chosen.
    seed : int
        Of the parts and of all fits.
    any_memory : bool
        Whether the memory is to be chosen.
    show : bool, default=False
        Whether to draw a progress bar.
    """
    candidates = MEMORIES if any_memory else [plan.memory]
    memories = sorted(candidates, key=lambda m: m != plan.memory)  # that one first
    usual = USUAL_EPOCHS if n_epochs is None else n_epochs
    if len(data.y) < _FEWEST_ROWS:
        return Choice(usual, memories[0])
    parts = validation_parts(len(data.y), seed)
    n_trained = sum(len(train) for train, _ in parts)
    checks = checked_epochs(n_trained) if n_epochs is None else [usual]

    plans = [replace(plan, memory=memory) for memory in memories]
    bar = ChoiceBar(len(memories) * len(checks)) if show else None
    try:
        watched = watch(plans, data, parts, checks, seed, at_least=usual, bar=bar)
    finally:
        if bar:
            bar.close()
    return best_choice(watched, usual)


def checked_epochs(n: int) -> list[int]:
    """Return the numbers of epochs to look at, ten per decade, with n updates in each.

    Examples
    --------
    >>> checked_epochs(500)[:8], checked_epochs(500)[-2:], checked_epochs(10**6)
    ([10, 13, 16, 20, 25, 32, 40, 50], [794, 1000], [10, 13, 16, 20, 25, 32, 40])
    """
    most = min(_LONGEST, max(USUAL_EPOCHS, _MOST_UPDATES // n))
    return [e for i in range(10, 31) if (e := round(10.0 ** (i / 10))) <= most]


def validation_parts(n: int, seed: int) -> list[tuple[Array, Array]]:
    """Return pairs of rows to train on and rows held out: folds, or one part of many rows."""
    from sklearn.model_selection import KFold, ShuffleSplit  # slow to import

    if n < _FEW_ROWS:
        return list(KFold(_FOLDS, shuffle=True, random_state=seed).split(np.zeros(n)))
    held_out = min(int(_VALIDATION_SHARE * n), _MOST_VALIDATION_ROWS)
    return list(ShuffleSplit(1, test_size=held_out, random_state=seed).split(np.zeros(n)))


def watch(
    plans: Sequence[Plan],
    data: TrainingData,
    parts: Sequence[tuple[Array, Array]],
    checks: Sequence[int],
    seed: int,
    *,
    at_least: int = 0,
    bar: ChoiceBar | None = None,
) -> list[Watched]:
    """Train all plans on all parts side by side; at each check, score the rows held out.

    Parameters
    ----------
    plans : sequence of Plan
        They differ in the memory.
    data : TrainingData
    parts : sequence of (rows to train on, rows held out)
    checks : sequence of int
        The numbers of epochs to look at. A plan that gets no better is not looked at any more.
    seed : int
    at_least : int, default=0
        Epochs that the first plan makes in any case.
    bar : ChoiceBar, default=None
    """
    runs = _begin(plans, data, parts, seed)
    seen: list[list[FloatArray]] = [[] for _ in plans]
    going = list(range(len(plans)))
    for n_before, n_epochs in pairwise([0, *checks]):
        if not going:
            break
        moved = _advance([runs[i] for i in going], n_epochs - n_before)
        for i, of_parts in zip(going, moved, strict=True):
            runs[i] = of_parts
            seen[i].append(_held_out_scores(of_parts, data, parts))
        left = [
            i for i in going if n_epochs >= (at_least if i == 0 else 0) and out_of_patience(seen[i])
        ]
        going = [i for i in going if i not in left]
        if bar:
            bar.update(len(moved) + len(left) * (len(checks) - checks.index(n_epochs) - 1))
    return [
        Watched(plan.memory, list(checks[: len(scores)]), np.stack(scores))
        for plan, scores in zip(plans, seen, strict=True)
    ]


def _begin(
    plans: Sequence[Plan], data: TrainingData, parts: Sequence[tuple[Array, Array]], seed: int
) -> list[list[Run]]:
    """Return the trainings of every plan on every part; those on a part begin alike."""
    runs: list[list[Run]] = [[] for _ in plans]
    for rows, _ in parts:
        part, random_state = data[rows], RandomState(seed)
        before = training.start(plans[0], part.X, part.y, random_state)
        for plan, of_parts in zip(plans, runs, strict=True):
            of_parts.append(begin_from(plan, before, part, deepcopy(random_state)))
    return runs


def _advance(runs: Sequence[Sequence[Run]], n_epochs: int) -> list[list[Run]]:
    """Make more epochs of all trainings, in all processors."""
    together = [run for of_parts in runs for run in of_parts]
    moved, interrupt = training.advance(together, n_epochs, joblib.effective_n_jobs(-1))
    if interrupt is not None:
        raise interrupt
    found = iter(moved)
    return [list(islice(found, len(of_parts))) for of_parts in runs]


def _held_out_scores(
    runs: Sequence[Run], data: TrainingData, parts: Sequence[tuple[Array, Array]]
) -> FloatArray:
    """Return the log-likelihood of every row held out, part after part, (n_rows,)."""
    scores = []
    for run, (_, held_out) in zip(runs, parts, strict=True):
        fitted, rest = run.fitted, data[held_out]
        predicted = predictive(run.plan, fitted.posterior, fitted.standardizer, rest.X)
        scores.append(
            weighted_log_p(run.plan.likelihood, predicted, rest.y, rest.weights, rest.y_std)
        )
    return np.concatenate(scores)


def out_of_patience(seen: Sequence[FloatArray]) -> bool:
    """Return whether the best mean was seen more than a few checks ago."""
    best = int(np.argmax([float(scores.mean()) for scores in seen]))
    return len(seen) - best > _PATIENCE


def best_choice(watched: Sequence[Watched], usual: int) -> Choice:
    """Choose the best pair if it is better than the usual one by more than a standard error.

    The mean over few rows is ruled by outliers, so the difference is judged row by row.

    Parameters
    ----------
    watched : sequence of Watched
        The first has the usual memory.
    usual : int
        The usual number of epochs, one of those the first was looked at.
    """
    at_usual = watched[0].log_likelihood[watched[0].n_epochs.index(usual)]
    pairs = [
        (w.memory, n_epochs, scores - at_usual)
        for w in watched
        for n_epochs, scores in zip(w.n_epochs, w.log_likelihood, strict=True)
    ]
    memory, n_epochs, difference = max(pairs, key=lambda pair: float(pair[2].mean()))
    gain = float(difference.mean())
    gain_error = float(difference.std(ddof=1) / np.sqrt(difference.size))
    if not gain > gain_error:
        memory, n_epochs = watched[0].memory, usual
    curves = tuple(
        Curve(w.memory, tuple(w.n_epochs), tuple(w.log_likelihood.mean(axis=1).tolist()))
        for w in watched
    )
    return Choice(n_epochs, memory, gain, gain_error, difference.size, curves)
