"""What the pictures have in common: colours, bands, the legend and the room for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import PercentFormatter, ScalarFormatter
from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.facts import cut

# Okabe and Ito's palette, which the common colour blindnesses can tell apart.
BLUE, VERMILLION, GREEN, PURPLE, ORANGE = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00"
SKY = "#56B4E9"
LAYERS = list(zip((BLUE, VERMILLION, GREEN, PURPLE, ORANGE), "os^Dv", strict=True))
NARROW, WIDE = (0.53, 0.71, 0.85), (0.90, 0.94, 0.98)  # shades of the first and last band

MAX_POINTS = 1000  # drawn at most: more hide each other and swell a report


_WORDS = {-9: "billionths", -6: "millionths", 6: "millions", 9: "billions", 12: "trillions"}


class PlainNumbers(ScalarFormatter):
    """Ticks as people write numbers: 300,000, and never 3 with a "1e5" in the corner.

    From a million on, and below a thousandth, the corner has a word such as "millions".

    >>> formatter = PlainNumbers()
    >>> formatter.format_ticks([0.0, 150_000.0, 300_000.0])
    ['0', '150,000', '300,000']
    >>> formatter.format_ticks([-2.5e7, 0.0]), formatter.get_offset()
    (['−25', '0'], 'millions')
    """

    def __init__(self) -> None:
        super().__init__(useOffset=False)
        self._power = 0

    def format_ticks(self, values: Sequence[float]) -> list[str]:
        """Write all ticks of an axis, with as many decimals as tell them apart."""
        ticks = np.asarray(values, float)
        largest = float(np.abs(ticks).max(initial=0.0))
        power = 0 if largest == 0.0 else 3 * math.floor(math.log10(largest) / 3.0 + 1e-9)
        self._power = power if largest >= 1e6 or 0.0 < largest < 1e-3 else 0
        scaled = ticks / 10.0**self._power
        step = float(np.diff(np.unique(scaled)).min(initial=np.inf))
        decimals = next(
            (n for n in range(9) if np.allclose(scaled, scaled.round(n), atol=1e-3 * step)), 9
        )
        return [f"{v:,.{decimals}f}".replace("-", "\N{MINUS SIGN}") for v in scaled + 0.0]

    def get_offset(self) -> str:
        """Return what the ticks are counted in; empty for ones."""
        if not self._power:
            return ""
        return _WORDS.get(self._power, f"\N{MULTIPLICATION SIGN} 10^{self._power}")


def plain_numbers(*drawn: Axes) -> None:
    """Write the numbers of linear axes in full; log scales and per cent stay as they are."""
    for ax in drawn:
        for axis in (ax.xaxis, ax.yaxis):
            if type(axis.get_major_formatter()) is ScalarFormatter:
                axis.set_major_formatter(PlainNumbers())


def counted_in(axis: Axis) -> str:
    """Return the word that the corner of an axis will have, such as "millions"; empty for none."""
    formatter = axis.get_major_formatter()
    if not isinstance(formatter, PlainNumbers):
        return ""
    low, high = sorted(axis.get_view_interval())
    ticks = np.asarray(axis.get_majorticklocs(), float)
    formatter.format_ticks(ticks[(low <= ticks) & (ticks <= high)].tolist())
    return formatter.get_offset()


def axes(ax: Axes | None) -> Axes:
    """Return the Axes, or those of a new figure."""
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
    legend_above([ax], ax.get_legend_handles_labels()[0])
    return ax


def legend_above(twins: Sequence[Axes], handles: Sequence[Any]) -> None:
    """Extend the data limits upwards, and put a legend into the new room.

    A legend inside the axes leaves the title and the neighbours alone; there it covers
    nothing. Each of the twins gets the room; the last, drawn on top, gets the legend.
    """
    ax = twins[-1]
    frame = ax.get_window_extent()
    width, height = frame.width / ax.figure.dpi, frame.height / ax.figure.dpi
    # Inches of 9-point text: a letter takes 0.066, the handle 0.6, a line 0.21.
    n_columns = int(width / (0.6 + 0.066 * max(len(str(h.get_label())) for h in handles)))
    n_columns = min(max(1, n_columns), 3, len(handles))
    share = min(0.5, (0.1 + 0.21 * -(-len(handles) // n_columns)) / height)
    for twin in twins:
        scale = twin.yaxis.get_transform()
        low, high = scale.transform(twin.dataLim.intervaly)
        top = scale.inverted().transform([high + (high - low) * share / (1.0 - share)])
        twin.update_datalim([(0.0, top[0])], updatex=False)
        twin.autoscale_view()
    style: dict[str, Any] = {"loc": "upper left", "fontsize": 9, "frameon": False}
    legend = ax.legend(handles=handles, ncols=n_columns, **style)
    legend.set_in_layout(False)  # a legend too wide for its axes must not squeeze them


def some_rows(n: int, at_most: int) -> Array:
    """Return the row numbers to draw or average over: all, or a random choice in order."""
    if n <= at_most:
        return np.arange(n)
    return np.sort(np.random.RandomState(0).choice(n, at_most, replace=False))


def rows_to_average(X: Array, at_most: int) -> Array:
    """Return a random choice of rows of X, (n, n_features), fewer of them for wide tables."""
    return X[some_rows(len(X), max(20, at_most * 100 // max(100, X.shape[1])))]


def label_of(name: str, most: int) -> str:
    """Shorten a name for an axis, to one line, and escape dollars, which begin a formula."""
    return cut(" ".join(name.split()), most).replace("$", r"\$")


def one_feature(x: ArrayLike) -> Array:
    """Return a feature of shape (n,) or (n, 1) as (n,)."""
    x = np.asarray(x)
    return x[:, 0] if x.ndim == 2 and x.shape[1] == 1 else x
