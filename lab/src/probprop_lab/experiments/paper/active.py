"""Active learning, section 5.4 of the main text: which measurement to make next.

A repetition splits a set at random into 20 rows to train on, 100 to test on, and the pool. The
method is fitted and scored, a sample of the pool with its target joins the training rows, and so
on: nine additions, ten fits, each from scratch. PBP-A takes the row with the highest predictive
variance, PBP-R any.

Every fit standardizes the features and the target by its own training rows, as in section 5.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.metrics.scorers import predictive
from probprop_lab.clock import processor_seconds
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.methods import (
    KNOWN,
    WEAK_HMC,
    fitted,
    with_variants,
    with_weak_noise,
)
from probprop_lab.experiments.harness.protocol import without_year
from probprop_lab.experiments.harness.scoring import fit_and_score
from probprop_lab.experiments.paper import active_report
from probprop_lab.experiments.paper.authors_pbp import AUTHORS_PBP
from probprop_lab.results import Row

N_TRAIN, N_TEST, N_PICKS = 20, 100, 9
HIDDEN, N_EPOCHS = (10,), 40

_N_SAMPLES = 500  # of the paper's HMC
_N_WARMUP = 500
_BLOCK_ROWS = 4096  # of the pool at a time: 500 draws of HMC for each make 16 MB


# Ten small fits take about as long as choosing from a pool of this size; only the choosing takes
# longer in a larger set.
_ROWS_OF_FITS = 20_000


def _hmc(job: Job) -> Any:
    from probprop_lab.baselines import HMCRegressor

    return HMCRegressor(
        job.hidden, kernel="hmc", n_samples=_N_SAMPLES, n_warmup=_N_WARMUP, random_state=job.seed
    )


METHODS = with_variants(
    AUTHORS_PBP,
    replace(KNOWN["HMC"], make=_hmc),
    replace(KNOWN[WEAK_HMC], make=with_weak_noise(_hmc)),
)
"""The methods in the form that this experiment uses."""


class Rows(NamedTuple):
    """Row numbers of a data set; no two are alike."""

    train: Array  # (20,)
    test: Array  # (100,)
    pool: Array  # (n - 120,), in random order


def split(n: int, repetition: int) -> Rows:
    """Return the random split of a repetition, the same for every method.

    Parameters
    ----------
    n : int
        Rows of the data set.
    repetition : int
        From 0.

    Examples
    --------
    >>> train, test, pool = split(308, 0)
    >>> train.shape, test.shape, pool.shape
    ((20,), (100,), (188,))
    """
    rows = RandomState(repetition).permutation(n)
    return Rows(*np.split(rows, [N_TRAIN, N_TRAIN + N_TEST]))


def jobs(selection: Selection) -> list[Job]:
    """Return two jobs per set, method and repetition: with active and with random picks."""
    nine = without_year()
    found = benchmark.jobs(
        "active", selection, lambda known: [(HIDDEN, N_EPOCHS)], nine, active_report.N_REPETITIONS
    )
    return [replace(job, method=f"{job.method}-{way}") for job in found for way in "AR"]


@lru_cache(maxsize=1)  # a worker meets the repetitions of one set one after another
def _data(dataset: str) -> tuple[Array, Array]:
    from probprop_lab import datasets

    found = datasets.load(dataset)
    return found.X, found.y


def measure(job: Job) -> Row:
    """Collect nine samples as a job says, and score the fits before, between and after."""
    X, y = _data(job.dataset)
    return learn(job, X, y, split(len(y), job.split))


def learn(job: Job, X: Array, y: Array, rows: Rows) -> Row:
    """Return the scores of the last fit and of all ten.

    Parameters
    ----------
    job : Job
        Its method ends with -A or -R.
    X, y : ndarray of shape (n, n_features) and (n,)
        The whole data set.
    rows : Rows

    Returns
    -------
    dict
        What `fit_and_score` measured of the last fit, and ``rmses`` and
        ``log_likelihoods`` of all fits, the row numbers ``picked``, the number of fits
        ``n_warned`` that warned, and of what. The seconds are processor time of everything:
        the fits and the choosing.
    """
    start = processor_seconds()
    picks: list[int] = []  # places in the pool
    scores: list[Row] = []
    # Every fit has its own initial weights; -A and -R have the same.
    for seed in RandomState(job.seed).randint(2**31, size=N_PICKS + 1).tolist():
        train = np.concatenate([rows.train, rows.pool[picks]])
        fit = replace(job, method=fitted(job.method), seed=seed)
        estimator, scored = fit_and_score(
            fit, X[train], y[train], X[rows.test], y[rows.test], METHODS
        )
        scores.append(scored)
        if len(picks) < N_PICKS:
            picks.append(_next(job, estimator, X[rows.pool], picks))
    told = [message for scored in scores for message in scored["warnings"]]
    return {
        **scores[-1],
        "rmses": [scored["rmse"] for scored in scores],
        "log_likelihoods": [scored["log_likelihood"] for scored in scores],
        "picked": rows.pool[picks].tolist(),
        "n_pool": len(rows.pool),
        "warnings": list(dict.fromkeys(told)),
        "n_warned": sum(bool(scored["warnings"]) for scored in scores),
        "seconds": processor_seconds() - start,
    }


def _next(job: Job, estimator: Any, X_pool: Array, picks: Sequence[int]) -> int:
    """Return the place in the pool of the next pick."""
    if job.method.endswith("-R"):
        return len(picks)  # the pool is in random order
    std = _predicted_std(estimator, X_pool)
    std[list(picks)] = -np.inf
    return int(np.argmax(std))  # the first of equals


def _predicted_std(estimator: Any, X: Array) -> FloatArray:
    """Standard deviations of the target, noise included, (n,)."""
    blocks = [X[i : i + _BLOCK_ROWS] for i in range(0, len(X), _BLOCK_ROWS)]
    return np.concatenate([predictive(estimator, block).std for block in blocks])


EXPERIMENT = Experiment(
    name="active",
    title="Table 2: active learning",
    text="Networks with ten hidden units start with 20 training points and get nine more, one at "
    "a time: those with the highest predictive variance (-A) or random ones (-R). Test RMSE after "
    "the ninth, next to the values that the paper prints. All methods have the same splits and "
    "the same random points.",
    jobs=jobs,
    measure=measure,
    records=active_report.records,
    columns=active_report.COLUMNS,
    notes=active_report.notes,
    figures=active_report.figures,
    methods=METHODS,
    cost=lambda job: benchmark.cost(job, _ROWS_OF_FITS),
)
