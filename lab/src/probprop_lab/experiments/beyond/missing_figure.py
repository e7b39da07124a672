"""The picture of the experiment on missing entries: what marginalizing gains on each set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop_lab.experiments.beyond.auto_figure import scale_gains
from probprop_lab.experiments.harness.columns import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_APART = 0.24  # marks of one set, which are 1 apart


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw the gain in log-likelihood and the coverages, a line per set and a mark per share.

    Parameters
    ----------
    records : sequence of dict
        One per set and method. If nothing was compared there is no picture.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    from probprop.plot.parts import BLUE, VERMILLION

    pairs = [record for record in records if record["n_paired"]]
    names = list(dict.fromkeys(record["dataset"] for record in pairs))
    if not names:
        return []
    coverages = {(r["dataset"], r["method"]): r["coverage_95"] for r in records}
    levels = sorted({record["share"] for record in pairs})
    figure = Figure(figsize=(8.6, 1.4 + 0.5 * len(names)), layout="constrained")
    gain, coverage = figure.subplots(1, 2, sharey=True)
    for i, level in enumerate(levels):
        own = [record for record in pairs if record["share"] == level]
        places = [names.index(r["dataset"]) + _APART * (i - 0.5 * (len(levels) - 1)) for r in own]
        color, marker = [(BLUE, "o"), (VERMILLION, "D")][i]
        style = {"color": color, "marker": marker, "ms": 6, "ls": "none"}
        gain.errorbar(
            [record["log_likelihood_gain"] for record in own],
            places,
            xerr=[record["log_likelihood_gain_se"] or 0.0 for record in own],
            capsize=2,
            label=f"{100 * level:.0f} % missing",
            **style,
        )
        coverage.plot([record["coverage_95"] for record in own], places, **style)
        filled = [coverages[record["dataset"], record["base"]] for record in own]
        gray = {**style, "color": "0.6", "marker": "|", "ms": 9, "mew": 2}
        coverage.plot(filled, places, **gray, label="" if i else "mean in their place")
    scale_gains(gain)
    gain.set_yticks(range(len(names)), names)
    gain.set_ylim(len(names) - 0.5, -0.5)  # the first at the top
    gain.set_xlabel("gain in log-likelihood over the mean")
    coverage.axvline(0.95, color="0.3", lw=1, ls="--", zorder=1)
    coverage.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    coverage.set_xlabel("inside the 95 % interval")
    for ax in (gain, coverage):
        ax.grid(color="0.92")
    figure.legend(loc="outside upper center", ncols=3)
    words = "What marginalizing gains in log-likelihood over the mean, and what both cover"
    return [(figure, f"{words}: {', '.join(names)}")]
