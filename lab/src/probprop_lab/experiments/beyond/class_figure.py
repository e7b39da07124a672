"""The picture of the experiment on classification: log-loss minus MLPClassifier's, per set."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING

from probprop_lab.experiments.beyond.class_methods import BASE, KNOWN
from probprop_lab.experiments.harness.columns import Record
from probprop_lab.experiments.harness.panels import set_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_LINEAR = 0.02  # differences up to here are drawn on a linear scale, larger ones on a log scale
_TICKS = [-0.3, -0.1, -0.03, -0.01, 0.0, 0.01, 0.03, 0.1, 0.3, 1.0]


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw a line per set with a mark per method; left of zero is better than MLPClassifier.

    Sets on which MLPClassifier was not run are left out; if none is left there is no picture.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    from probprop.plot.parts import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

    compared = [record for record in records if record["gap"] is not None]
    names = list(dict.fromkeys(record["dataset"] for record in compared))
    if not names:
        return []
    others = [name for name in KNOWN if name != BASE]
    colors = cycle((ORANGE, "0.3", "0.6", VERMILLION, BLUE, GREEN, PURPLE, SKY, "black"))
    looks = {name: look for name, *look in zip(others, colors, cycle("P^v*osDX<"), strict=False)}
    figure = Figure(figsize=(7.0, 1.4 + 0.32 * len(names)), layout="constrained")
    ax = figure.subplots()
    for method, (color, marker) in looks.items():
        own = [record for record in compared if record["method"] == method]
        if not own:
            continue
        ax.errorbar(
            [record["gap"] for record in own],
            [names.index(record["dataset"]) for record in own],
            xerr=[record["gap_se"] or 0.0 for record in own],
            ls="none",
            color=color,
            marker=marker,
            ms=11 if marker == "*" else 6,
            zorder=4 if marker == "*" else 2,
            elinewidth=1,
            label=method,
        )
    ax.axvline(0.0, color="0.4", lw=1, zorder=1)
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()  # in the order of the table
    ax.grid(color="0.92")
    ax.set_xscale("symlog", linthresh=_LINEAR, linscale=0.7)
    ax.margins(x=0.08)
    ax.xaxis.set_minor_locator(NullLocator())
    set_ticks(ax.xaxis, _TICKS)
    ax.set_xlabel(f"log-loss minus {BASE}'s (left is better)")
    figure.legend(loc="outside upper center", ncols=4)
    return [(figure, f"Log-loss minus {BASE}'s, per set: {', '.join(names)}")]
