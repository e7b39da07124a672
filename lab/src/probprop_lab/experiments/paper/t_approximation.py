"""Figure 1 of the supplement: the error of replacing the Student-t noise by a Gaussian.

Z of a point is the mean of N(y | z, 1/gamma) over a Gaussian z and a Gamma distributed gamma.
[PBP15] Eq. (12) replaces the Student-t that gamma leaves by a Gaussian of the same variance.
Here it is compared with the exact value, by quadrature, for the first and the last updates of a
training run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from probprop._types import Array
from probprop.distributions.mixture import Mixture
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.inference.posterior import Posterior
from probprop_lab.baselines.base import scalar
from probprop_lab.clock import processor_seconds
from probprop_lab.experiments.harness import benchmark
from probprop_lab.experiments.harness.columns import Column, Record, number, text
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.results import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

N_UPDATES = 100
_WHEN = ("first", "last")
_ENGINE = ENGINES["native"]


class LogZ(NamedTuple):
    """log Z of one point in standardized units: by quadrature, and of the Gaussian."""

    exact: float
    gaussian: float


def jobs(selection: Selection) -> list[Job]:
    """Return the run of the supplement: Boston Housing, 50 units, 40 epochs, the first split."""
    benchmark.only_pbp("t-approximation", selection)
    first = Selection(selection.datasets, selection.n_splits or 1, selection.seed)
    return benchmark.jobs(
        "t-approximation", first, lambda found: [((found.units,), 40)], ("boston_housing",)
    )


def log_Z(posterior: Posterior, x: Array, y: float) -> LogZ:
    """Evaluate log Z of a point with and without the approximation of [PBP15] Eq. (12).

    Parameters
    ----------
    posterior : Posterior
    x : ndarray of shape (d,)
        Standardized.
    y : float
        Standardized.
    """
    mean, variance = _ENGINE.predict_moments(posterior, x[np.newaxis])
    moments = mean, np.sqrt(variance), float(np.sqrt(scalar(posterior.noise_variance)))
    dof = 2.0 * scalar(posterior.alpha_noise)
    exact, gaussian = Mixture.of_one(*moments, dof=dof), Mixture.of_one(*moments)
    return LogZ(float(exact.logpdf(y)[0]), float(gaussian.logpdf(y)[0]))


def observe(
    X: Array, y: Array, hidden: Sequence[int], n_epochs: int, seed: int
) -> tuple[Posterior, list[LogZ], list[LogZ]]:
    """Train as `PBPRegressor.fit` does, stopping at each of the first and last updates.

    Parameters
    ----------
    X, y : ndarray of shape (n, d) and (n,)
        The training part, n at least 100.
    hidden : sequence of int
    n_epochs, seed : int

    Returns
    -------
    posterior : Posterior
        At the end, the same as the regressor's.
    first, last : list of LogZ
        Of 100 updates each, every one seen just before it was made.
    """
    random_state = np.random.RandomState(seed)
    plan, inputs = Plan(Gaussian(), tuple(hidden)), Inputs(X)
    before = training.start(plan, inputs, y, random_state)
    posterior, standardizer = before.posterior, before.standardizer
    Xs = standardizer.checked_X(X, plan.dtype)
    ys = standardizer.transform_y(y)
    seen: dict[str, list[LogZ]] = {when: [] for when in _WHEN}
    for epoch in range(n_epochs):
        order = random_state.permutation(len(ys))
        parts = [("", order)]
        if epoch == 0:
            parts = [("first", order[:N_UPDATES]), ("", order[N_UPDATES:])]
        if epoch == n_epochs - 1:  # also if there is only one
            parts = [*parts[:-1], ("", parts[-1][1][:-N_UPDATES]), ("last", order[-N_UPDATES:])]
        for when, part in parts:
            for block in part[:, np.newaxis] if when else [part]:
                if when:
                    seen[when].append(log_Z(posterior, Xs[block[0]], float(ys[block[0]])))
                posterior, _ = _ENGINE.adf_pass(posterior, Xs, ys, block)
        posterior, _ = _ENGINE.refine_prior(posterior)
    return posterior, seen["first"], seen["last"]


def measure(job: Job) -> Row:
    """Train on a split and keep log Z of the first and the last 100 updates."""
    X, y, X_test, _ = benchmark.load_split(job.dataset, job.split)
    start = processor_seconds()
    posterior, first, last = observe(X, y, job.hidden, job.n_epochs, job.seed)
    row: Row = {
        "seconds": processor_seconds() - start,
        "n_train": len(y),
        "n_test": len(X_test),
        "n_features": X.shape[1],
        "noise_variance_standardized": scalar(posterior.noise_variance),
        "alpha_noise": scalar(posterior.alpha_noise),
    }
    for when, values in zip(_WHEN, (first, last), strict=True):
        row[f"log_Z_exact_{when}"] = [value.exact for value in values]
        row[f"log_Z_gaussian_{when}"] = [value.gaussian for value in values]
    return row


def errors(row: Row, when: str) -> tuple[Array, Array]:
    """Return the relative and the absolute errors of log Z, signed, shape (100,) each.

    The relative ones are divided by |log Z|, which goes through zero: a large one need not mean
    a large error.
    """
    exact = np.asarray(row[f"log_Z_exact_{when}"])
    absolute = np.asarray(row[f"log_Z_gaussian_{when}"]) - exact
    return absolute / np.abs(exact), absolute


def records(rows: Sequence[Row]) -> list[Record]:
    """Return the sizes of the errors over the first and over the last updates of each run."""
    found: list[Record] = []
    for row in rows:
        for when in _WHEN:
            relative, absolute = (np.abs(e) for e in errors(row, when))
            found.append(
                {
                    "dataset": row["dataset"],
                    "split": row["split"],
                    "updates": f"{when} {len(absolute)}",
                    "relative_median": float(np.median(relative)),
                    "relative_max": float(relative.max()),
                    "absolute_median": float(np.median(absolute)),
                    "absolute_max": float(absolute.max()),
                    "alpha_noise": row["alpha_noise"] if when == "last" else None,
                }
            )
    return found


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw the relative errors over the first and over the last updates, two figures a run."""
    from matplotlib.figure import Figure

    from probprop.plot.parts import BLUE

    drawn = []
    for row in rows:
        for when in _WHEN:
            relative = np.abs(errors(row, when)[0])
            figure = Figure(figsize=(5.0, 3.2), layout="constrained")
            ax = figure.subplots()
            ax.plot(np.arange(1, len(relative) + 1), relative, color=BLUE, marker=".", lw=0.7)
            ax.set(yscale="log", xlabel="update", ylabel="relative error of log Z")
            where = f"{row['dataset']}, split {row['split']}"
            drawn.append((figure, f"{where}: the {when} {len(relative)} updates"))
    return drawn


EXPERIMENT = Experiment(
    name="t-approximation",
    title="Supplement, Figure 1: the Student-t replaced by a Gaussian",
    text="The error of log Z that comes from replacing the Student-t noise by a Gaussian of the "
    "same variance, relative to the exact value by quadrature, over the first and the last 100 "
    "updates of a training run. The more certain the noise, the closer they are.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("data set", text("dataset")),
        Column("split", text("split")),
        Column("updates", text("updates")),
        Column("median relative error", number("relative_median", 2)),
        Column("largest", number("relative_max", 2)),
        Column("median error", number("absolute_median", 2)),
        Column("largest", number("absolute_max", 2)),
        Column("shape of the noise's Gamma", number("alpha_noise", 5)),
    ],
    notes=lambda records: [
        "log Z in units of the standardized target; where it goes through zero the relative "
        "error is large whatever the error is"
    ],
    figures=figures,
)
