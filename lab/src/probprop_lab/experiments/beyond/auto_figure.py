"""The picture of `auto`: what a choice gains on each set, and how well its intervals cover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop_lab.experiments.harness.columns import Record
from probprop_lab.experiments.harness.panels import set_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COVERAGES = (0.90, 0.98)
"""Range in which the share in the 95 % interval is as it should be."""

_TICKS = [-10, -3, -1, -0.3, -0.1, -0.03, 0, 0.03, 0.1, 0.3, 1, 3, 10]
_PROTOCOL = "the paper's protocol"
_SPREAD = 0.6  # of the marks of a set, which are 1 apart


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw the gains in log-likelihood over PBP and the coverages, a line per set.

    Parameters
    ----------
    records : sequence of dict
        One per set, method and network. If nothing was compared there is no picture.
    """
    from matplotlib.figure import Figure

    found = [r for r in records if r["n_paired"] and r["n_layers"] == 1]
    names = list(dict.fromkeys(record["dataset"] for record in found))
    kinds = list(dict.fromkeys(record["method"] for record in found))
    if not found:
        return []
    figure = Figure(figsize=(8.6, 1.6 + 0.55 * len(names)), layout="constrained")
    gain, coverage = figure.subplots(1, 2, sharey=True)
    for ax in (gain, coverage):
        ax.set_yticks(range(len(names)), names)
        ax.grid(axis="x", color="0.92")
        for i in range(1, len(names)):
            ax.axhline(i - 0.5, color="0.85", lw=0.8)
    gain.set_ylim(len(names) - 0.5, -0.5)  # the first at the top
    _gains(gain, found, names, kinds)
    _coverages(coverage, records, found, names, kinds)
    handles, labels = coverage.get_legend_handles_labels()
    shown = dict(zip(labels, handles, strict=True))
    shown[_PROTOCOL] = shown.pop(_PROTOCOL)  # the last
    figure.legend(list(shown.values()), list(shown), loc="outside upper center", ncols=3)
    words = "What is gained in log-likelihood over the paper's protocol, and what is covered"
    return [(figure, f"{words}: {', '.join(names)}")]


Kinds = Sequence[str]


def _gains(ax: Axes, records: Sequence[Record], names: Sequence[str], kinds: Kinds) -> None:
    """Draw each method minus the paper's protocol, with its standard error."""
    for record in records:
        color, marker, _ = _style(record, kinds)
        ax.errorbar(
            record["log_likelihood_gain"],
            _place(record, names, kinds),
            xerr=record["log_likelihood_gain_se"],
            color=color,
            marker=marker,
            ms=5,
            capsize=2,
        )
    scale_gains(ax)
    ax.set_xlabel("log-likelihood above the paper's protocol")


def scale_gains(ax: Axes) -> None:
    """Give gains that are drawn already a line at 0 and a scale for small and large ones."""
    from matplotlib.ticker import NullLocator

    ax.axvline(0.0, color="0.3", lw=1, zorder=2)
    # Differences of 0.03 and of 2 should both be visible.
    ax.set_xscale("symlog", linthresh=0.1, linscale=0.7)
    ax.xaxis.set_minor_locator(NullLocator())
    set_ticks(ax.xaxis, _TICKS, fontsize="small")


def _coverages(
    ax: Axes,
    records: Sequence[Record],
    found: Sequence[Record],
    names: Sequence[str],
    kinds: Kinds,
) -> None:
    """Draw the coverages, and faintly the coverage of the method they are compared with."""
    from matplotlib.ticker import PercentFormatter

    for record in found:
        y = _place(record, names, kinds)
        same = [
            r["coverage_95"]
            for r in records
            if (r["dataset"], r["hidden"], r["method"])
            == (record["dataset"], record["hidden"], record["base"])
        ]
        color, marker, label = _style(record, kinds)
        ax.plot(record["coverage_95"], y, color=color, marker=marker, ms=5, ls="", label=label)
        ax.plot(same, [y] * len(same), color="0.6", marker="|", ms=8, mew=2, ls="", label=_PROTOCOL)
    ax.axvspan(*COVERAGES, color="0.95", zorder=0)
    ax.axvline(0.95, color="0.3", lw=1, ls="--", zorder=2)
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("inside the 95 % interval")


def _style(record: Record, kinds: Kinds) -> tuple[str, str, str]:
    """Return color, marker and name of a method."""
    from probprop.plot.parts import LAYERS

    color, marker = LAYERS[kinds.index(record["method"]) % len(LAYERS)]
    return color, marker, record["method"]


def _place(record: Record, names: Sequence[str], kinds: Kinds) -> float:
    """Return the position of a mark among the marks of its set."""
    i = kinds.index(record["method"])
    offset = _SPREAD * (i / (len(kinds) - 1) - 0.5) if len(kinds) > 1 else 0.0
    return names.index(record["dataset"]) + offset
