"""The choice of epochs and memory on held-out rows: ``n_epochs="auto"``, ``memory="auto"``.

Every memory is trained on the same parts of the data while the log-likelihood of the rest is
watched. The best pair replaces the usual one, for a regression the protocol of [PBP15], only
where it is clearly better.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from threading import Event

import joblib
import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.estimators.data import TrainingData
from probprop.estimators.progress import ChoiceBar
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.plan import Plan
from probprop.inference.prediction import predictive
from probprop.inference.threads import map_in_threads
from probprop.inference.training import Fitted

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

    stopped = Event()
    bar = ChoiceBar(len(memories) * len(checks)) if show else None

    def watch(memory: float | None) -> Watched:
        at_least = usual if memory == memories[0] else 0
        seen: list[FloatArray] = []
        planned = replace(plan, memory=memory)
        for scores in held_out_scores(planned, data, parts, checks, seed, stopped.is_set):
            seen.append(scores)
            if bar:
                bar.update(1)
            if checks[len(seen) - 1] >= at_least and out_of_patience(seen):
                break
        if bar:
            bar.update(len(checks) - len(seen))
        return Watched(memory, list(checks[: len(seen)]), np.stack(seen))

    try:
        watched = map_in_threads(watch, memories, min(len(memories), joblib.effective_n_jobs(-1)))
    finally:  # on Ctrl-C the threads end after their epoch
        stopped.set()
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


def held_out_scores(
    plan: Plan,
    data: TrainingData,
    parts: Sequence[tuple[Array, Array]],
    checks: Sequence[int],
    seed: int,
    stopped: Callable[[], bool] = lambda: False,
) -> Iterator[FloatArray]:
    """Train on all parts side by side; at each check, score the rows held out.

    Parameters
    ----------
    plan : Plan
    data : TrainingData
    parts : sequence of (rows to train on, rows held out)
    checks : sequence of int
        The numbers of epochs to look at.
    seed : int
    stopped : callable
        Whether to give up.

    Yields
    ------
    ndarray of shape (n_rows,)
        Log-likelihood of every row held out, part after part.
    """
    runs = [_epochs(plan, data.X[rows], data.y[rows], seed) for rows, _ in parts]
    done = 0
    for n_epochs in checks:
        scores = []
        for run, (_, held_out) in zip(runs, parts, strict=True):
            for fitted in islice(run, n_epochs - done):  # noqa: B007
                if stopped():
                    raise KeyboardInterrupt  # nobody waits for the scores
            predicted = predictive(plan, fitted.posterior, fitted.standardizer, data.X[held_out])
            scores.append(plan.likelihood.log_p(predicted, data.y[held_out]))
        done = n_epochs
        yield np.concatenate(scores)


def _epochs(plan: Plan, X: Inputs, y: FloatArray, seed: int) -> Iterator[Fitted]:
    """Train from the beginning, without end."""
    random_state = RandomState(seed)
    before = training.start(plan, X, y, random_state)
    return training.train(plan, before, X, y, training.shuffled(plan, len(y), random_state))


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
