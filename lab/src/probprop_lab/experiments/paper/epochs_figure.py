"""The pictures of `epochs`: scores against the number of epochs, a line per evidence cap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop_lab.experiments.harness.columns import Record
from probprop_lab.experiments.harness.panels import grid

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3  # panels side by side
_FIRST = 10  # epochs: what comes before is steep and would flatten the rest
_USUAL = 40  # epochs of the paper's protocol
_MEASURES = {
    "log_likelihood": "log-likelihood",
    "rmse": "RMSE",
    "coverage_95": "inside the 95 % interval",
}


def figures(
    records: Sequence[Record], lines: Sequence[tuple[str, str]]
) -> list[tuple[Figure, str]]:
    """Draw a figure per measure with a panel per set, from 10 epochs on.

    Parameters
    ----------
    records : sequence of dict
        One per set and number of epochs.
    lines : sequence of (str, str)
        How an evidence cap is called in the keys of a record, and in the legend.
    """
    return [
        (_figure(records, lines, key, words), f"{words} against the number of epochs")
        for key, words in _MEASURES.items()
    ]


def _figure(
    records: Sequence[Record], lines: Sequence[tuple[str, str]], key: str, words: str
) -> Figure:
    names = list(dict.fromkeys(record["dataset"] for record in records))
    figure, panels = grid(len(names), _COLUMNS, (3.3, 2.5), above=0.8)
    for ax, name in zip(panels, names, strict=True):
        _panel(ax, [record for record in records if record["dataset"] == name], lines, key)
        ax.set_title(name, fontsize="medium")
    figure.supxlabel("epochs", fontsize="medium")
    figure.supylabel(words, fontsize="medium")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels))
    return figure


def _panel(ax: Axes, records: Sequence[Record], lines: Sequence[tuple[str, str]], key: str) -> None:
    """Draw a line per evidence cap with the standard errors of its means."""
    from matplotlib.ticker import PercentFormatter

    from probprop.plot.parts import BLUE, GREEN, ORANGE, SKY

    styles = zip(("black", SKY, BLUE, GREEN, ORANGE), "os^Dv", strict=True)
    for (name, title), (color, marker) in zip(lines, styles, strict=True):
        run = [record for record in records if record[f"{key}_{name}"] is not None]
        found = [record for record in run if record["n_epochs"] >= _FIRST]
        ax.errorbar(
            [record["n_epochs"] for record in found],
            [record[f"{key}_{name}"] for record in found],
            [record[f"{key}_{name}_se"] or 0.0 for record in found],
            color=color,
            marker=marker,
            ms=3.5,
            lw=1.2,
            elinewidth=0.8,
            label=title,
        )
    ax.axvline(_USUAL, color="0.6", lw=1, ls=":", zorder=0)
    ax.set_xscale("log")
    ax.set_xticks([10, 40, 100, 400, 1000], ["10", "40", "100", "400", "1000"])
    ax.minorticks_off()
    if key == "coverage_95":
        ax.axhline(0.95, color="0.3", lw=1, ls="--", zorder=0)
        ax.yaxis.set_major_formatter(PercentFormatter(1.0))
