"""The picture of the experiment on noise: what is gained, what is lost, and what is covered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop_lab.experiments.beyond import noise_sets
from probprop_lab.experiments.beyond.auto_figure import scale_gains
from probprop_lab.experiments.harness.columns import Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FIFTHS = (1, 2, 3, 4, 5)
_SPREAD = 1.04  # factor between the marks of one number of rows, which would hide each other


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw the gains, the coverages by quintile, and the gains on synthetic data.

    Parameters
    ----------
    records : sequence of dict
        One per set and network. A panel without anything to show is left out; if none is left
        there is no picture.
    """
    from matplotlib.figure import Figure

    paired = [record for record in records if record["n_paired"]]
    real = [record for record in paired if record["dataset"] not in noise_sets.SIZES]
    made = [record for record in paired if record["dataset"] in noise_sets.SIZES]
    alone = [record for record in real if "-" not in record["hidden"]]
    panels = [
        (draw, group)
        for draw, group in ((_gains, real), (_coverages, alone), (_made, made))
        if group
    ]
    if not panels:
        return []
    figure = Figure(figsize=(4.6 * len(panels), 4.4), layout="constrained")
    for ax, (draw, group) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
    ):
        draw(ax, group)
        ax.legend(fontsize="small", frameon=False, loc="best")
    words = 'What noise="input" gains over constant noise in log-likelihood, and what both cover'
    names = [*dict.fromkeys(record["dataset"] for record in real), *(["synthetic"] if made else [])]
    return [(figure, f"{words}: {', '.join(names)}")]


def _gains(ax: Axes, records: Sequence[Record]) -> None:
    """Draw the gain on each set, with one hidden layer and with two."""
    from probprop.plot.parts import BLUE, VERMILLION

    names = list(dict.fromkeys(record["dataset"] for record in records))
    kinds = ((False, "one hidden layer", BLUE, "o"), (True, "two hidden layers", VERMILLION, "D"))
    for deep, label, color, marker in kinds:
        own = [record for record in records if ("-" in record["hidden"]) == deep]
        if own:
            ax.errorbar(
                [record["gain"] for record in own],
                [names.index(record["dataset"]) + 0.3 * deep for record in own],
                xerr=[record["gain_se"] or 0.0 for record in own],
                color=color,
                marker=marker,
                ms=5,
                ls="",
                capsize=2,
                label=label,
            )
    scale_gains(ax)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)  # the first at the top
    ax.grid(axis="x", color="0.92")
    ax.set_xlabel("gain in log-likelihood [nats per row]")


def _coverages(ax: Axes, records: Sequence[Record]) -> None:
    """Draw the coverage by quintile: thin lines are sets, thick ones their means."""
    from matplotlib.ticker import PercentFormatter

    from probprop.plot.parts import BLUE

    kinds = (("constant_same_rows", "constant", "0.45"), ("input_quintile", 'noise="input"', BLUE))
    for key, label, color in kinds:
        lines = [[record[f"{key}_{i}"] for i in _FIFTHS] for record in records]
        for line in lines:
            ax.plot(_FIFTHS, line, color=color, lw=0.8, alpha=0.4)
        means = [sum(fifth) / len(fifth) for fifth in zip(*lines, strict=True)]
        ax.plot(_FIFTHS, means, color=color, lw=2.5, marker="o", ms=5, label=label)
    ax.axhline(0.95, color="0.3", lw=1, ls="--", zorder=1)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xticks(_FIFTHS)
    ax.grid(color="0.92")
    ax.set_xlabel('quintile of the std of noise="input"')
    ax.set_ylabel("inside the 95 % interval")


def _made(ax: Axes, records: Sequence[Record]) -> None:
    """Draw the gain where the noise is constant against the rows, a line per features."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    from probprop.plot.parts import LAYERS

    sizes = {record["dataset"]: noise_sets.SIZES[record["dataset"]] for record in records}
    for i, d in enumerate(sorted({size.d for size in sizes.values()})):
        own = [record for record in records if sizes[record["dataset"]].d == d]
        color, marker = LAYERS[i % len(LAYERS)]
        ax.errorbar(
            [sizes[record["dataset"]].n * _SPREAD**i for record in own],
            [record["gain"] for record in own],
            yerr=[record["gain_se"] or 0.0 for record in own],
            color=color,
            marker=marker,
            ms=5,
            capsize=2,
            label=f"{d} feature{'s' if d > 1 else ''}",
        )
    ax.axhline(0.0, color="0.3", lw=1, zorder=1)
    ax.set_xscale("log")
    ticks = sorted({size.n for size in sizes.values()})
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticks(ticks)
    ax.xaxis.set_major_formatter(FuncFormatter(lambda n, _: f"{n:,.0f}"))
    ax.grid(color="0.92")
    ax.set_xlabel("samples, with homoscedastic noise")
    ax.set_ylabel("gain in log-likelihood [nats per row]")
