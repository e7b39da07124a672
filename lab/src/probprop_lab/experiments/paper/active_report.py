"""Active learning: the table next to the paper's Table 2, and the curves of its Figure 2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from probprop_lab.experiments.harness import benchmark, comparison, methods
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    number,
    share,
    signed,
    text,
    with_error,
)
from probprop_lab.experiments.harness.protocol import dataset_names
from probprop_lab.experiments.paper import printed
from probprop_lab.results import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

N_REPETITIONS = 40
FIGURE_2 = ("boston_housing", "yacht", "energy")
IMPROVED = ("boston_housing", "energy", "power_plant", "yacht")
"""Where the paper finds PBP-A, and HMC-A, significantly better than random collection."""


# ---- The table


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per set and method: the last RMSE, the paper's, and -A against -R.

    ``rmse_gap`` and ``log_likelihood_gap`` are -A minus -R over the repetitions both have, on
    the lines of -A; ``gap_errors`` is the former in its standard errors.
    """
    found = []
    for record in benchmark.mean_records(rows):
        dataset, method = record["dataset"], record["method"]
        own, other = (
            [row for row in rows if row["dataset"] == dataset and row["method"] == name]
            for name in (method, f"{methods.fitted(method)}-R")
        )
        gaps = benchmark.paired(own if method.endswith("-A") else [], other)
        gap, se = gaps["rmse_gap"], gaps["rmse_gap_se"]
        rmse_first, rmse_first_se = benchmark.mean_and_error([row["rmses"][0] for row in own])
        found.append(
            {
                **record,
                "n_points": own[0]["n_train"],
                "rmse_first": rmse_first,
                "rmse_first_se": rmse_first_se,
                **printed.compare(record, "rmse", printed.active(dataset, _printed_as(method))),
                "log_likelihood_paper": None,
                **gaps,
                "gap_errors": gap / se if se else None,
                "n_fits": sum(len(row["rmses"]) for row in own),
                "n_warned": sum(row["n_warned"] for row in own),
            }
        )
    return found


def _printed_as(method: str) -> str:
    """Return the method of the paper's table: it has one HMC, of a prior that it does not print."""
    return method.replace(methods.WEAK_HMC, "HMC")


COLUMNS = [
    Column("data set", text("dataset")),
    Column("method", text("method")),
    Column("runs", text("n_splits")),
    *printed.columns("rmse", "RMSE", "RMSE"),
    Column("A minus R", with_error("rmse_gap"), "RMSE"),
    Column("in s.e.", signed("gap_errors"), "RMSE"),
    Column("first RMSE", with_error("rmse_first"), "Before and after"),
    Column("worst run", number("rmse_max"), "Before and after"),
    Column("log-likelihood", with_error("log_likelihood"), "Before and after"),
    Column("in 95 %", share("coverage_95"), "Before and after"),
    Column("seconds", number("seconds", 2), "Before and after"),
]


def notes(records: Sequence[Record]) -> list[str]:
    """Compare -A with -R and each with the paper; say which repetitions were run."""
    lines = [
        printed.meaning("repetitions after the last addition"),
        "A minus R: mean difference ± standard error over the same repetitions, and in its "
        "standard errors; first RMSE: with the first 20 points; seconds: of the ten fits of a run "
        "and the choosing between them",
    ]
    own = comparison.by_method(records)
    lines += [_against_random(method, cells) for method, cells in own]
    lines += [line for method, cells in own for line in _against_paper(method, cells)]
    lines += [comparison.warned(method, cells, "n_fits") for method, cells in own]
    lines.append(comparison.fewer_splits(records, N_REPETITIONS, "repetitions"))
    return [line for line in lines if line]


def _against_random(method: str, records: Sequence[Record]) -> str:
    """Say where active collection is better or worse than random collection."""
    known = [record for record in records if record["gap_errors"] is not None]
    if not known:
        return ""
    better = [r["dataset"] for r in known if r["gap_errors"] < -comparison.TOLERANCE]
    worse = [r["dataset"] for r in known if r["gap_errors"] > comparison.TOLERANCE]
    line = (
        f"{method} against {methods.fitted(method)}-R, RMSE, by more than two standard errors of "
        f"the paired difference: lower in {', '.join(better) or 'none'}; higher in "
        f"{', '.join(worse) or 'none'}"
    )
    looked_at = [r["dataset"] for r in known if r["dataset"] in IMPROVED]
    if _printed_as(method) not in ("PBP-A", "HMC-A") or not looked_at:
        return line
    missing = [name for name in looked_at if name not in better]
    also = f"not here: {', '.join(missing)}" if missing else "and so they are here"
    return f"{line}; the paper has improvements in {', '.join(looked_at)}, {also}"


def _against_paper(method: str, records: Sequence[Record]) -> list[str]:
    """Say how many cells agree with the paper's, and which do not."""
    known = [r for r in records if r["rmse_difference"] is not None]
    if not known:
        return []
    agree = [r for r in known if abs(r["rmse_difference"]) <= comparison.TOLERANCE]
    line = f"{method}: {len(agree)} of {len(known)} cells within two standard errors of the paper's"
    return [line] if agree == known else [line, *comparison.against_paper(method, known)]


# ---- The curves


def figures(rows: Sequence[Row]) -> list[tuple[Figure, str]]:
    """Draw RMSE against the number of points: the paper's three sets, then each of the others."""
    names = list(dict.fromkeys(row["dataset"] for row in rows))
    three = [name for name in FIGURE_2 if name in names]
    others = [[name] for name in dataset_names() if name in names and name not in three]
    return [
        (_curves(rows, group), f"{', '.join(group)}: test RMSE against the number of points")
        for group in [three, *others]
        if group
    ]


def _curves(rows: Sequence[Row], names: Sequence[str]) -> Figure:
    from matplotlib.figure import Figure

    shown = {row["method"] for row in rows}  # one color for a method in all figures
    fitted = sorted({methods.fitted(name) for name in shown}, key=lambda n: (methods.place(n), n))
    width = 5.0 if len(names) == 1 else 3.2 * len(names)
    figure = Figure(figsize=(width, 3.9), layout="constrained")
    panels = figure.subplots(1, len(names), squeeze=False).ravel()
    handles: dict[str, Any] = {}
    for ax, name in zip(panels, names, strict=True):
        handles |= _panel(ax, [row for row in rows if row["dataset"] == name], fitted)
        ax.set_title(name, fontsize="medium")
    panels[0].set_ylabel("RMSE")
    figure.legend([*handles.values()], [*handles], loc="outside upper center", ncols=4)
    return figure


def _panel(ax: Axes, rows: Sequence[Row], fitted: Sequence[str]) -> dict[str, Any]:
    """Draw a line per method: a color for what is fitted, solid for -A and dashed for -R.

    Returns what was drawn, by method.
    """
    from matplotlib.ticker import MaxNLocator, NullLocator, ScalarFormatter

    from probprop.plot.parts import LAYERS

    found = [f"{name}-{way}" for name in fitted for way in "AR"]
    drawn = {}
    for name in [name for name in found if name in {row["method"] for row in rows}]:
        same = [row for row in rows if row["method"] == name]
        rmses = np.array([row["rmses"] for row in same])  # (n_repetitions, n_fits)
        n_points = same[0]["n_train"] - np.arange(rmses.shape[1])[::-1]
        errors = rmses.std(axis=0, ddof=1) / np.sqrt(len(rmses)) if len(rmses) > 1 else None
        color, marker = LAYERS[fitted.index(methods.fitted(name)) % len(LAYERS)]
        actively = name.endswith("-A")
        drawn[name] = ax.errorbar(
            n_points,
            rmses.mean(axis=0),
            errors,
            color=color,
            marker=marker,
            ms=4,
            lw=1.2,
            capsize=2,
            ls="-" if actively else "--",
            mfc=color if actively else "white",
            label=name,
        )
    # Logarithmic: errors of 4 and of 16 in one panel leave room for both.
    ax.set(xlabel="training points", yscale="log")
    ax.yaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    ax.yaxis.set_major_formatter(ScalarFormatter())
    ax.yaxis.set_minor_locator(NullLocator())
    return drawn
