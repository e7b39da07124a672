"""Which samples to label next: strategies of `ActiveLearner` against random ones, 20 to 60 rows.

A repetition splits a set at random into 20 rows to train on, a third to test on (1,000 at most)
and the pool (2,000 at most). Ten times the learner queries four samples and gets their targets;
every fit is from scratch. The RMSEs of the eleven fits are averaged: the area under the curve. All
strategies of a repetition have the same rows at first, the same test rows and initial weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.random import RandomState
from sklearn.base import BaseEstimator, RegressorMixin

from probprop import metrics
from probprop._types import Array
from probprop.active.learner import ActiveLearner
from probprop.distributions.mixture import Mixture
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.judged import show
from probprop_lab.clock import processor_seconds
from probprop_lab.experiments.beyond import acquisition_figure, acquisition_sets
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    number,
    signed,
    text,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

N_REPETITIONS = 40
N_ASKS, BATCH = 10, 4
HIDDEN, N_EPOCHS, EVIDENCE_CAP = (50,), 100, 10.0
N_MEMBERS = 5
SEEN = 6
"""Repetitions 0 to 5 of the sets of the paper and of scikit-learn were looked at when the strategy
was chosen."""

STRATEGIES = ("random", "variance", "variance_reduction")
CV = " CV"
"""What the names of methods end with where the model is `PBPRegressorCV`, with its fast budget."""

METHODS = [*STRATEGIES, *(f"{name}{CV}" for name in ("random", "variance_reduction"))]


def jobs(selection: Selection) -> list[Job]:
    """Return one job per set, repetition and strategy; jobs of PBPRegressorCV only if named.

    Raises
    ------
    ValueError
        The selection has a set or a method that the experiment has not.
    """
    names = selection.methods or STRATEGIES
    if others := [name for name in names if name not in METHODS]:
        raise ValueError(
            f"the experiment acquisition has the methods {', '.join(METHODS)} only, not "
            f"{', '.join(others)}"
        )
    sets = selection.datasets or acquisition_sets.NAMES
    acquisition_sets.check(sets)
    return [
        Job(
            "acquisition",
            dataset,
            repetition,
            name,
            seed=1000 * selection.seed + repetition,
            hidden=HIDDEN,
            n_epochs=N_EPOCHS,
            evidence_cap=EVIDENCE_CAP,
        )
        for dataset in sets
        for repetition in range(N_REPETITIONS)[: selection.n_splits]
        for name in names
    ]


def load_sets(jobs: Iterable[Job]) -> None:
    """Load each set once, so that what is missing is reported before any job is run."""
    for name in dict.fromkeys(job.dataset for job in jobs):
        acquisition_sets.load(name)


def measure(job: Job) -> Row:
    """Collect forty rows as a job says, and evaluate the fits before, between and after."""
    X, y = acquisition_sets.load(job.dataset)
    return learn(job, X, y, acquisition_sets.split(len(y), job.split))


def learn(job: Job, X: Array, y: Array, rows: acquisition_sets.Rows, n_asks: int = N_ASKS) -> Row:
    """Return the scores of all fits, and what was picked.

    Parameters
    ----------
    job : Job
    X, y : ndarray of shape (n, n_features) and (n,)
        The whole data set.
    rows : Rows
    n_asks : int, default=10

    Returns
    -------
    dict
        ``rmse`` and ``log_likelihood``, means over the fits; ``rmses`` and ``log_likelihoods``
        of each; the row numbers ``picked``; seconds of processor time of everything.
    """
    start = processor_seconds()
    learner = ActiveLearner(
        model(job), _strategy(job.method), batch_size=BATCH, random_state=job.seed
    )
    found = curve(learner, X, y, rows, n_asks)
    return {
        "rmse": float(np.mean(found["rmses"])),
        "log_likelihood": float(np.mean(found["log_likelihoods"])),
        **found,
        "n_train": len(rows.train) + len(found["picked"]),
        "n_test": len(rows.test),
        "n_pool": len(rows.pool),
        "n_features": X.shape[1],
        "seconds": processor_seconds() - start,
    }


def curve(
    learner: ActiveLearner, X: Array, y: Array, rows: acquisition_sets.Rows, n_asks: int
) -> Row:
    """Start with the first samples, query `n_asks` batches, and evaluate every fit on the test set.

    Returns
    -------
    dict
        ``rmses`` and ``log_likelihoods``, one more than queries; the row numbers ``picked``.
    """
    batch, picked, rmses, log_likelihoods = rows.train, list[int](), list[float](), list[float]()
    with warnings.catch_warnings():
        # Few rows make updates by quadrature; that is counted elsewhere.
        warnings.filterwarnings("ignore", "In .* updates", RuntimeWarning)
        for i in range(n_asks + 1):
            predicted = learner.tell(X[batch], y[batch]).estimator_.predict_distribution(
                X[rows.test]
            )
            rmses.append(metrics.rmse(y[rows.test], predicted.mean))
            log_likelihoods.append(float(np.mean(predicted.logpdf(y[rows.test]))))
            if i < n_asks:
                batch = rows.pool[learner.ask(X[rows.pool])]
                picked += batch.tolist()
    return {"rmses": rmses, "log_likelihoods": log_likelihoods, "picked": picked}


def _strategy(method: str) -> Any:
    return method.removesuffix(CV)


class Averaged(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Networks of different seeds, of which the first is `random_state`."""

    def __init__(
        self, random_state: int = 0, n_members: int = N_MEMBERS, n_epochs: int = N_EPOCHS
    ) -> None:
        self.random_state = random_state
        self.n_members = n_members
        self.n_epochs = n_epochs

    def fit(self, X: Array, y: Array) -> Averaged:
        """Fit the networks."""
        n_others = self.n_members - 1
        others = RandomState(self.random_state).randint(2**31 - 1, size=n_others).tolist()
        given: Any = {"n_epochs": self.n_epochs, "evidence_cap": EVIDENCE_CAP}
        seeds = [self.random_state, *others]
        self.networks_ = [PBPRegressor(HIDDEN, random_state=s, **given).fit(X, y) for s in seeds]
        return self

    def predict(self, X: Array) -> Array:
        """Return the mean of their means."""
        return self.predict_distribution(X).mean

    def predict_distribution(self, X: Array) -> Mixture:
        """Return the mixture of their distributions."""
        each = [network.predict_distribution(X) for network in self.networks_]
        names = ("mean", "epistemic_std", "aleatoric_std")
        return Mixture(*(np.stack([getattr(p, name) for p in each]) for name in names))


def model(job: Job) -> Any:
    """Return the estimator of a job: networks of several seeds, averaged, or PBPRegressorCV."""
    if job.method.endswith(CV):
        return PBPRegressorCV(budget="fast", random_state=job.seed)
    return Averaged(job.seed)


# ---- The table


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and model: the error at random, and by how much others differ.

    ``variance`` and ``variance_reduction`` are differences from "random" over the repetitions that
    both have, in percent of the error at random, with standard errors; ``unseen`` is the difference
    of "variance_reduction" over repetitions that were not looked at when it was chosen; ``errors``
    is the difference in its standard errors. None where there is none.
    """
    found = []
    for dataset in [name for name in acquisition_sets.NAMES if _of(rows, name)]:
        for suffix in ("", CV):
            runs = [
                {r["split"]: r for r in _of(rows, dataset) if r["method"] == f"{name}{suffix}"}
                for name in STRATEGIES
            ]
            if runs[0]:
                found.append(_record(dataset, suffix, *runs))
    return found


def _of(rows: Sequence[Row], dataset: str) -> list[Row]:
    return [row for row in rows if row["dataset"] == dataset]


def _record(
    dataset: str,
    suffix: str,
    at_random: dict[int, Row],
    by_variance: dict[int, Row],
    by_reduction: dict[int, Row],
) -> Record:
    unseen = {k: row for k, row in by_reduction.items() if k >= _seen(dataset)}
    rmse, rmse_se = benchmark.mean_and_error([row["rmse"] for row in at_random.values()])
    changes = {
        f"{key}{end}": value
        for key, own in (
            ("variance", by_variance),
            ("variance_reduction", by_reduction),
            ("unseen", unseen),
        )
        for end, value in zip(("", "_se"), _change(own, at_random), strict=True)
    }
    change, se = changes["variance_reduction"], changes["variance_reduction_se"]
    both = [k for k in by_reduction if k in at_random]
    gains = [by_reduction[k]["log_likelihood"] - at_random[k]["log_likelihood"] for k in both]
    gain, gain_se = benchmark.mean_and_error(gains) if gains else (None, None)
    return {
        "dataset": dataset,
        "model": "PBPRegressorCV" if suffix else "five seeds",
        "n_runs": len(both) or len(at_random),
        "rmse": rmse,
        "rmse_se": rmse_se,
        **changes,
        "errors": change / se if change is not None and se else None,
        "gain": gain,
        "gain_se": gain_se,
        "needed": rows_needed(
            [by_reduction[k]["rmses"] for k in both], [at_random[k]["rmses"] for k in both]
        ),
    }


def _seen(dataset: str) -> int:
    """Return how many repetitions of a set were looked at when the strategy was chosen."""
    return 0 if dataset in acquisition_sets.TABLES else SEEN


def _change(own: dict[int, Row], at_random: dict[int, Row]) -> tuple[float | None, float | None]:
    """Return the mean difference over common repetitions in percent, with its standard error."""
    both = [k for k in own if k in at_random]
    if not both:
        return None, None
    unit = np.mean([at_random[k]["rmse"] for k in both]) / 100.0
    return benchmark.mean_and_error([(own[k]["rmse"] - at_random[k]["rmse"]) / unit for k in both])


def rows_needed(
    own: Sequence[Sequence[float]],
    at_random: Sequence[Sequence[float]],
    first: int = acquisition_sets.N_TRAIN,
    batch: int = BATCH,
) -> float | None:
    """Return the number of rows at which the mean error first equals random sampling of all rows.

    Straight lines join the fits, of which the first has `first` rows and each other `batch` more;
    None where it does not fall so far.

    Examples
    --------
    >>> rows_needed([[4.0, 2.0, 1.0]], [[4.0, 3.0, 2.5]])
    23.0
    """
    if not own:
        return None
    errors, target = np.mean(own, axis=0), np.mean(at_random, axis=0)[-1]
    reached = np.flatnonzero(errors <= target)
    if not len(reached):
        return None
    i = int(reached[0])
    if i == 0:
        return float(first)
    share = (errors[i - 1] - target) / (errors[i - 1] - errors[i])
    return float(first + batch * (i - 1 + share))


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are, and where each strategy is better or worse than rows at random."""
    lines = [
        "at random: the test RMSE, in target units, averaged over the eleven fits with 20 to 60 "
        "rows; then what the strategies change of it, in percent ± standard error of the paired "
        "difference: below 0 is better",
        f"unseen: without repetitions 0 to {SEEN - 1} of the sets of the paper and of "
        "scikit-learn, which were looked at when the strategy was chosen; log-likelihood: what "
        "variance_reduction gains, averaged over the same fits; rows: number at which its mean "
        "error equals 60 random rows",
    ]
    for model in dict.fromkeys(record["model"] for record in records):
        own = [record for record in records if record["model"] == model]
        for key in ("variance_reduction", "variance", "unseen"):
            if any(record[f"{key}_se"] for record in own):
                lines.append(_verdict(model, key, own))
        lines += _further(model, own)
    return lines


def _verdict(model: str, key: str, records: Sequence[Record]) -> str:
    """Say on how many sets a strategy differs from random by more than two standard errors."""
    known = [r for r in records if r[f"{key}_se"]]
    better = [r["dataset"] for r in known if r[key] < -2.0 * r[f"{key}_se"]]
    worse = [r["dataset"] for r in known if r[key] > 2.0 * r[f"{key}_se"]]
    name = "variance_reduction, unseen repetitions" if key == "unseen" else key
    mean = np.mean([r[key] for r in known])
    return (
        f"{name}, {model}: better than random by more than two standard errors on {len(better)} of "
        f"{len(known)} sets; worse on {', '.join(worse) or 'none'}; {mean:+.1f} % on average"
    )


def _further(model: str, records: Sequence[Record]) -> list[str]:
    """Say how the log-likelihood differs, and how many rows are saved."""
    known = [r for r in records if r["gain_se"]]
    if not known:
        return []
    better = [r["dataset"] for r in known if r["gain"] > 2.0 * r["gain_se"]]
    worse = [r["dataset"] for r in known if r["gain"] < -2.0 * r["gain_se"]]
    needed = [r["needed"] for r in known if r["needed"] is not None]
    rows = f", with {np.median(needed):.0f} rows in the median of these" if needed else ""
    return [
        f"log-likelihood of variance_reduction, {model}: better than random by more than two "
        f"standard errors on {len(better)} of {len(known)} sets; worse on "
        f"{', '.join(worse) or 'none'}; the error of 60 rows at random is reached on {len(needed)} "
        f"of {len(known)}{rows}"
    ]


EXPERIMENT = Experiment(
    name="acquisition",
    title="Active learning strategies",
    text="ActiveLearner starts with 20 rows and queries four more ten times. The model is "
    "the average of five networks of different seeds, with 50 hidden units, evidence cap 10 and "
    '100 epochs, or PBPRegressorCV with budget="fast". All strategies have the same first rows, '
    "test rows and initial weights.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("model", text("model")),
        Column("runs", text("n_runs")),
        Column("at random", lambda record: show("rmse", record["rmse"])),
        Column("variance", with_error("variance")),
        Column("variance_reduction", with_error("variance_reduction")),
        Column("in s.e.", signed("errors")),
        Column("unseen", with_error("unseen")),
        Column("log-likelihood", with_error("gain")),
        Column("rows", number("needed", 2)),
    ],
    notes=notes,
    figures=lambda rows: acquisition_figure.figures(records(rows)),
    check=load_sets,
    cost=lambda job: float(acquisition_sets.size(job.dataset)),
)
