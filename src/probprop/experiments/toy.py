"""The toy figure (section 5.3): a curve through 20 points, and how sure the network is of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from probprop.experiments import benchmark
from probprop.experiments.experiment import (
    Column,
    Experiment,
    Record,
    Selection,
    number,
    share,
    text,
)
from probprop.experiments.job import Job, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DATASET = "toy_cubic"
_DATA_SEED = 4  # spreads the 20 points over the whole range
_GRID = np.linspace(-6.0, 6.0, 241)


def jobs(selection: Selection) -> list[Job]:
    """Return the one job: 100 hidden units, 40 epochs."""
    if selection.datasets and set(selection.datasets) != {DATASET}:
        raise ValueError(f"the experiment toy has the data set {DATASET} only")
    return [Job("toy", DATASET, 0, seed=1000 * selection.seed, hidden=(100,))]


def measure(job: Job) -> Row:
    """Fit the 20 points; keep them, and the predictions on a grid, with the scores.

    The scores are those on 1,000 new points of the range of the data.
    """
    from probprop.datasets import toy_cubic

    X, y = toy_cubic(20, random_state=_DATA_SEED + job.split)
    fitted, scores = benchmark.fit_and_judge(job, X, y, *toy_cubic(1_000, random_state=0))
    predictive = fitted.predict(_GRID[:, np.newaxis])
    return {
        **scores,
        "x_data": X[:, 0].tolist(),
        "y_data": y.tolist(),
        "x": _GRID.tolist(),
        "mean": predictive.mean.tolist(),
        "std": predictive.std.tolist(),
    }


def records(rows: Sequence[Row]) -> list[Record]:
    """Return the scores, and the width of the band inside and outside the data, per method."""
    found = []
    for row in rows:
        std = np.interp([0.0, -6.0, 6.0], row["x"], row["std"])
        widths = {"std_centre": std[0], "std_left": std[1], "std_right": std[2]}
        scores = {name: row[name] for name in ("rmse", "log_likelihood", "coverage_95", "seconds")}
        found.append(
            {"method": row["method"], **scores, **{k: float(v) for k, v in widths.items()}}
        )
    return found


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw mean, ±3 standard deviations, data and the true function, one figure per row."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    from probprop.plot.parts import BLUE, bands, finish

    drawn = []
    for row in rows:
        figure = Figure(figsize=(5.0, 3.75), layout="constrained")
        ax = figure.subplots()
        x, mean, std = (np.asarray(row[name]) for name in ("x", "mean", "std"))
        bands(ax, x, mean, std, (3,))
        ax.plot(x, mean, color=BLUE, lw=2.5, label="mean")
        # The cubic leaves the band far outside; add_artist keeps the limits of the rest.
        ax.add_artist(Line2D(x, x**3, color="black", lw=1, label="truth"))
        ax.plot(row["x_data"], row["y_data"], "ko", ms=4, label="data")
        ax.margins(x=0)
        finish(ax, "x", "y")
        ax.set_title(row["method"])
        words = f"{row['method']}: mean and three standard deviations through 20 points of a cubic"
        drawn.append((figure, words))
    return drawn


EXPERIMENT = Experiment(
    name="toy",
    title="The toy data: 20 points of y = x³ + noise",
    text="The dots are all the network has seen; the noise has standard deviation 3. The band is "
    "three standard deviations to both sides: narrow at the data, growing outside.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("method", text("method")),
        Column("RMSE", number("rmse")),
        Column("log-likelihood", number("log_likelihood")),
        Column("in 95 %", share("coverage_95")),
        Column("std at 0", number("std_centre", 3)),
        Column("std at -6", number("std_left", 3)),
        Column("std at 6", number("std_right", 3)),
        Column("seconds", number("seconds", 2)),
    ],
    notes=lambda records: ["scores on 1,000 new points in [-4, 4]"],
    figures=figures,
)
