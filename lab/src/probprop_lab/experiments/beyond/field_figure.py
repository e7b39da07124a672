"""The picture of a comparison: log-likelihood above PBP's against a fit's processor seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from probprop_lab.experiments.harness import methods
from probprop_lab.experiments.harness.columns import Record
from probprop_lab.experiments.harness.panels import grid, set_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 3  # panels side by side
_OURS = "*Ph"  # markers of PBP's, larger and filled
_MARKS = "o^sDvX<>p"
_TICKS = [-30, -10, -3, -1, -0.3, -0.1, 0, 0.1, 0.3, 1, 3, 10, 30]
_FINE_TICKS = [-0.05, 0.05]  # where all differences are small


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw one panel per set, all with one scale; up and left is better.

    Parameters
    ----------
    records : sequence of dict
        With the gain over PBP and its standard error. Sets on which PBP was not run are left
        out; if none is left there is no picture.
    """
    with_pbp = {record["dataset"] for record in records if record["gain"] is not None}
    names = [k for k in dict.fromkeys(r["dataset"] for r in records) if k in with_pbp]
    if not names:
        return []
    marks = _marks([record["method"] for record in records])
    figure, panels = grid(len(names), _COLUMNS, (3.2, 2.6), above=1.0, sharey=True)
    for ax, name in zip(panels, names, strict=True):
        _panel(ax, [record for record in records if record["dataset"] == name], marks)
        ax.set_title(name, fontsize="medium")
    low, high = panels[0].get_ylim()
    marked = _TICKS + (_FINE_TICKS if low > -1.0 and high < 1.0 else [])
    set_ticks(panels[0].yaxis, sorted(marked))
    figure.supxlabel("processor seconds of a fit", fontsize="medium")
    figure.supylabel("log-likelihood above PBP's", fontsize="medium")
    found = {h.get_label(): h for ax in panels for h in ax.get_legend_handles_labels()[0]}
    shown = [name for name in marks if name in found]
    figure.legend([found[k] for k in shown], shown, loc="outside upper center", ncols=3)
    words = "Log-likelihood above PBP's against a fit's processor seconds; up and left is better"
    return [(figure, f"{words}: {', '.join(names)}")]


def _marks(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return how each method is drawn: PBP's in vermillion, the rest in their own colors."""
    from probprop.plot.parts import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILLION

    ordered = sorted(set(names), key=lambda name: (methods.place(name), name))
    ours = [name for name in ordered if name.startswith("PBP")]
    others = [name for name in ordered if name not in ours]
    colors = [BLUE, GREEN, PURPLE, ORANGE, SKY, "black"]
    found: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(ours):
        found[name] = {"color": VERMILLION, "marker": _OURS[i % len(_OURS)], "ms": 9, "zorder": 4}
    for i, name in enumerate(others):
        marker, color = _MARKS[i % len(_MARKS)], colors[i % len(colors)]
        found[name] = {"color": color, "marker": marker, "ms": 6, "zorder": 3}
    return found


def _panel(ax: Axes, records: Sequence[Record], marks: dict[str, dict[str, Any]]) -> None:
    """Draw a mark per method with the standard error of its gain; PBP is at 0."""
    from matplotlib.ticker import NullLocator

    for record in records:
        gain = 0.0 if record["method"] == "PBP" else record["gain"]
        if gain is None:
            continue
        mark = marks[record["method"]]
        ax.errorbar(
            record["seconds"], gain, record["gain_se"], ls="none", label=record["method"], **mark
        )
    ax.axhline(0.0, color="0.6", lw=1, zorder=1)
    ax.grid(color="0.92")
    # Differences of 0.05 and of 2 should both be visible.
    ax.set_yscale("symlog", linthresh=0.1, linscale=0.7)
    ax.yaxis.set_minor_locator(NullLocator())
    ax.set_xscale("log")
