"""Shared parts of the plots: colors, bands, the legend and the room for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter, ScalarFormatter
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.facts import cut

# Okabe and Ito's palette, which the common color blindnesses can tell apart.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY = "#56B4E9"
LAYERS = list(zip((BLUE, VERMILLION, GREEN, PURPLE, ORANGE), "os^Dv", strict=True))
NARROW, WIDE = (0.53, 0.71, 0.85), (0.90, 0.94, 0.98)  # shades of the first and last band

MAX_POINTS = 1000  # drawn at most: more hide each other and swell a report


def plain_numbers(*drawn: Axes) -> None:
    """Write the numbers of linear axes as 300,000; log scales and percent stay as they are."""
    for ax in drawn:
        for axis in (ax.xaxis, ax.yaxis):
            if type(axis.get_major_formatter()) is ScalarFormatter:
                axis.set_major_formatter(lambda v, _: plain_number(v))


def plain_number(value: float) -> str:
    """Write a number in full below a million, as 1.5M or 2.5B above it.

    >>> [plain_number(v) for v in (0.0, 0.1 + 0.2, 2024.0, 300000.0, -1500000.0, 2.5e9, 1e13)]
    ['0', '0.3', '2024', '300,000', '−1.5M', '2.5B', '1e+13']
    """
    grouped = "," if abs(value) >= 1e4 else ""  # years have no separator
    power, sign = (9, "B") if abs(value) >= 1e9 else (6, "M")
    text = f"{value:{grouped}.10g}" if abs(value) < 1e6 else f"{value:g}"
    if 1e6 <= abs(value) < 1e12:
        text = f"{value / 10**power:.6g}{sign}"
    return text.replace("-", "\N{MINUS SIGN}")


class TargetAxis(NamedTuple):
    """Where an axis of targets begins and ends, and whether it is logarithmic."""

    low: float
    high: float
    log: bool


def axis_of(y: ArrayLike, *, linear: bool = False) -> TargetAxis:
    """Return the axis of some targets, on which a few far ones do not squash all others.

    It goes at most half the distance of the 1 % and the 99 % quantile beyond these, and is
    logarithmic, unless it has to be linear, if all targets are positive and the 95 % quantile is 30
    times the 5 % quantile.

    >>> axis_of([1.0, 2.0, 4.0]), axis_of(np.append(np.linspace(0.0, 1.0, 200), 500.0)).high < 2.0
    (TargetAxis(low=1.0, high=4.0, log=False), True)
    """
    y = np.asarray(y, np.float64)
    log = (
        not linear and bool(y.min() > 0.0) and bool(np.divide(*np.quantile(y, [0.95, 0.05])) > 30.0)
    )
    z = np.log(y) if log else y
    first, last = np.quantile(z, [0.01, 0.99])
    margin = 0.5 * (last - first) or np.inf
    ends = np.array([max(z.min(), first - margin), min(z.max(), last + margin)])
    low, high = (np.exp(ends) if log else ends).tolist()
    return TargetAxis(low, high, log)


def axes(ax: Axes | None) -> Axes:
    """Return the Axes, or new ones in a new figure."""
    return plt.subplots(layout="constrained")[1] if ax is None else ax


def bands(
    ax: Axes, x: FloatArray, mean: FloatArray, std: FloatArray, deviations: Sequence[float]
) -> None:
    """Shade mean ± k std for every k, the narrower the darker and the further in front."""
    for i, k in enumerate(sorted(deviations)):
        share = i / (len(deviations) - 1) if len(deviations) > 1 else 0.5
        shade = (1 - share) * np.array(NARROW) + share * np.array(WIDE)
        band = ax.fill_between(x, mean - k * std, mean + k * std, color=shade, linewidth=0)
        band.set(zorder=1 - 0.1 * share, label=f"±{k:g} std")


def in_percent(ax: Axes) -> None:
    """Write the shares on both axes as percentages."""
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))


def finish(ax: Axes, x_label: str, y_label: str) -> Axes:
    """Label the axes and put a legend above what is drawn."""
    ax.set(xlabel=x_label, ylabel=y_label)
    plain_numbers(ax)
    legend_above(ax, ax.get_legend_handles_labels()[0])
    return ax


def legend_above(ax: Axes, handles: Sequence[Any]) -> None:
    """Extend the data limits upwards, and put a legend into the new room.

    A legend inside the axes leaves the title and the neighbors alone; there it covers nothing.
    """
    frame = ax.get_window_extent()
    width, height = frame.width / ax.figure.dpi, frame.height / ax.figure.dpi
    # Inches of 9-point text: a letter takes 0.066, the handle 0.6, a line 0.21.
    n_columns = int(width / (0.6 + 0.066 * max(len(str(h.get_label())) for h in handles)))
    n_columns = min(max(1, n_columns), 3, len(handles))
    share = min(0.5, (0.1 + 0.21 * -(-len(handles) // n_columns)) / height)
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(ax.dataLim.intervaly)
    top = scale.inverted().transform([high + (high - low) * share / (1.0 - share)])
    ax.update_datalim([(0.0, top[0])], updatex=False)
    ax.autoscale_view()
    style: dict[str, Any] = {"loc": "upper left", "fontsize": 9, "frameon": False}
    legend = ax.legend(handles=handles, ncols=n_columns, **style)
    legend.set_in_layout(False)  # a legend too wide for its axes must not squeeze them


def some_rows(n: int, at_most: int) -> Array:
    """Return the row numbers to draw or average over: all, or a random choice in order."""
    if n <= at_most:
        return np.arange(n)
    return np.sort(np.random.RandomState(0).choice(n, at_most, replace=False))


def label_of(name: str, most: int) -> str:
    """Shorten a name for an axis, to one line, and escape dollars, which begin a formula."""
    return cut(" ".join(name.split()), most).replace("$", r"\$")
