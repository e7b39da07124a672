"""The toy figure (section 5.3): a curve through 20 points, and its epistemic uncertainty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from probprop.metrics.scorers import predictive
from probprop_lab.experiments.harness import methods, scoring
from probprop_lab.experiments.harness.columns import Column, Record, number, share, text
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.panels import grid
from probprop_lab.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DATASET = "toy_cubic"
TRUTH = "HMC"
TRUTHS = {TRUTH: "truth", methods.WEAK_HMC: "weak"}
"""The exact posteriors, of two priors of the noise, and what their columns are called."""
_DATA_SEED = 4  # spreads the 20 points over the whole range
_GRID = np.linspace(-6.0, 6.0, 241)
_COLUMNS = 4  # panels side by side
_N_SAMPLES = 30_000  # of the paper's HMC
_EP_UNITS = 10  # with 50 or more EP may end on these data at its other fixed point, a constant


def _hmc(job: Job) -> Any:
    from probprop_lab.baselines import HMCRegressor

    return HMCRegressor(job.hidden, kernel="hmc", n_samples=_N_SAMPLES, random_state=job.seed)


def _ep(job: Job) -> Any:
    from probprop_lab.baselines import EPRegressor

    return EPRegressor((_EP_UNITS,), random_state=job.seed)


METHODS = methods.with_variants(
    replace(methods.KNOWN["HMC"], make=_hmc),
    replace(methods.KNOWN[methods.WEAK_HMC], make=methods.with_weak_noise(_hmc)),
    replace(methods.KNOWN["EP"], make=_ep),
)
"""The methods in the form that this experiment uses."""


def jobs(selection: Selection) -> list[Job]:
    """Return one job per method: 100 hidden units, 40 epochs, 30,000 samples of HMC.

    Without a selection, all methods whose packages are installed.
    """
    if selection.datasets and set(selection.datasets) != {DATASET}:
        raise ValueError(f"the experiment toy has the data set {DATASET} only")
    installed = [name for name in methods.COMPARED if methods.KNOWN[name].installed]
    chosen = selection.methods or installed
    for name in chosen:
        methods.check_name(name)
    seed = 1000 * selection.seed
    return [Job("toy", DATASET, 0, name, seed, hidden=(100,)) for name in chosen]


def measure(job: Job) -> Row:
    """Fit the 20 points; keep them, and the predictions on a grid, with the scores.

    The scores are taken on 1,000 new points in the range of the data.
    """
    from probprop_lab.datasets import toy_cubic

    X, y = toy_cubic(20, random_state=_DATA_SEED + job.split)
    fitted, scores = scoring.fit_and_score(
        job, X, y, *toy_cubic(1_000, random_state=0), known=METHODS
    )
    predicted = predictive(fitted, _GRID[:, np.newaxis])
    return {
        **scores,
        "x_data": X[:, 0].tolist(),
        "y_data": y.tolist(),
        "x": _GRID.tolist(),
        "mean": predicted.mean.tolist(),
        "std": predicted.std.tolist(),
    }


def records(rows: Sequence[Row]) -> list[Record]:
    """Return, per method, the scores, the width of the band, and how far it is from HMC's.

    ``std_from_truth`` and ``mean_from_truth`` are the distances from HMC, ``std_from_weak`` and
    ``mean_from_weak`` the distances from HMC with the weak prior of the noise.
    """
    truths = {TRUTHS[row["method"]]: row for row in rows if row["method"] in TRUTHS}
    found = []
    for row in sorted(rows, key=lambda row: methods.place(row["method"])):
        std = np.interp([0.0, -6.0, 6.0], row["x"], row["std"])
        widths = {"std_center": std[0], "std_left": std[1], "std_right": std[2]}
        scores = {name: row[name] for name in ("rmse", "log_likelihood", "coverage_95", "seconds")}
        found.append(
            {
                "method": row["method"],
                **scores,
                **{k: float(v) for k, v in widths.items()},
                **{
                    f"{name}_from_{short}": _distance(row, truths.get(short), name)
                    for short in TRUTHS.values()
                    for name in ("std", "mean")
                },
                "r_hat": row.get("r_hat"),
                "n_divergent": row.get("n_divergent"),
            }
        )
    return found


def _distance(row: Row, truth: Row | None, name: str) -> float | None:
    """Return the mean absolute difference from HMC over [-6, 6], in target units."""
    if truth is None or row is truth:
        return None
    return float(np.mean(np.abs(np.subtract(row[name], truth[name]))))


def notes(records: Sequence[Record]) -> list[str]:
    """Compare the methods with HMC, and PBP with VI; say what is missing."""
    found = {record["method"]: record for record in records}
    lines = [
        "scores on 1,000 new points in [-4, 4]; std and mean from HMC's: mean absolute difference "
        "of the predicted standard deviations and means over [-6, 6], in target units"
    ]
    if TRUTH not in found:
        lines.append("HMC, the ground truth, was not run")
    for name, short in TRUTHS.items():
        if name not in found:
            continue
        truth = found[name]
        lines.append(
            f"{name}: R-hat at most {truth['r_hat']:.3f}, {truth['n_divergent']} divergent draws"
        )
        if {"PBP", "VI"} <= set(found):
            lines += [_closer(found, f"{k}_from_{short}", name) for k in ("std", "mean")]
    if methods.WEAK_HMC in found:
        lines.append("HMC weak has a prior of the noise that 20 points can leave, HMC has PBP's")
    if "EP" in found:
        lines.append(
            f"EP has {_EP_UNITS} hidden units, the others 100: with as many it predicts a constant"
        )
    missing = [name for name in methods.COMPARED if not methods.KNOWN[name].installed]
    if missing:
        install = methods.KNOWN[missing[0]].install
        lines.append(f"{', '.join(missing)} cannot be run here: {install}")
    return lines


def _closer(found: dict[str, Record], key: str, truth: str) -> str:
    """Say which of PBP and VI has the band, or the mean, that is nearer to HMC's."""
    words = "standard deviations" if key.startswith("std") else "means"
    pbp, vi = (found[method][key] for method in ("PBP", "VI"))
    nearer = "nearer to" if pbp < vi else "further from"
    return f"PBP's {words} are {nearer} {truth}'s than VI's are: {pbp:.3g} against {vi:.3g}"


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw mean, ±3 standard deviations, data and the true function: one panel per method.

    All panels have the scale of the ground truth if it was run: a band may leave it.
    """
    ordered = sorted(rows, key=lambda row: methods.place(row["method"]))
    if not ordered:
        return []
    figure, panels = grid(
        len(ordered), _COLUMNS, (2.6, 2.3), above=0.5, alone=(5.0, 3.9), sharey=True
    )
    for ax, row in zip(panels, ordered, strict=True):
        _panel(ax, row)
    scale = next((row for row in ordered if row["method"] == TRUTH), ordered[0])
    reach = 1.2 * np.max(np.abs(scale["mean"]) + 3.0 * np.asarray(scale["std"]))
    panels[0].set(xlim=(-6.0, 6.0), ylim=(-reach, reach), xticks=range(-6, 7, 3))
    figure.supxlabel("x", fontsize="medium")
    figure.supylabel("y", fontsize="medium")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=4)
    names = ", ".join(row["method"] for row in ordered)
    return [(figure, f"Mean and three standard deviations through 20 points of a cubic: {names}")]


def _panel(ax: Axes, row: Row) -> None:
    from probprop.plot.parts import BLUE, bands

    x, mean, std = (np.asarray(row[name]) for name in ("x", "mean", "std"))
    bands(ax, x, mean, std, (3,))
    ax.plot(x, mean, color=BLUE, lw=2, label="mean")
    ax.plot(x, x**3, color="black", lw=1, label="truth")
    ax.plot(row["x_data"], row["y_data"], "ko", ms=3, label="data")
    ax.set_title(row["method"], fontsize="medium")


EXPERIMENT = Experiment(
    name="toy",
    title="The toy data: 20 points of y = x³ + noise",
    text="The dots are the training data; the noise has standard deviation 3. The band is three "
    "standard deviations to both sides: it should be narrow at the data and grow outside, like "
    "the band of HMC, the ground truth.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("method", text("method")),
        Column("RMSE", number("rmse")),
        Column("log-likelihood", number("log_likelihood")),
        Column("in 95 %", share("coverage_95")),
        Column("std at 0", number("std_center", 3)),
        Column("std at -6", number("std_left", 3)),
        Column("std at 6", number("std_right", 3)),
        Column("std from HMC's", number("std_from_truth", 3)),
        Column("mean from HMC's", number("mean_from_truth", 3)),
        Column("std from HMC weak's", number("std_from_weak", 3)),
        Column("mean from HMC weak's", number("mean_from_weak", 3)),
        Column("seconds", number("seconds", 2)),
    ],
    notes=notes,
    figures=figures,
    methods=METHODS,
)
