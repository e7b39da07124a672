"""What the figures share: a grid of panels, and the ticks of differences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


def grid(
    n: int,
    n_columns: int,
    size: tuple[float, float],
    above: float,
    *,
    alone: tuple[float, float] = (6.4, 4.8),
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """Return a figure with n panels side by side and in lines, all with one x-axis.

    Parameters
    ----------
    n : int
        1 or more.
    n_columns : int
        In a line, at most.
    size : tuple of float
        Width and height of a panel in inches.
    above : float
        Inches for a legend above them.
    alone : tuple of float, default=(6.4, 4.8)
        Size of the figure where there is one panel.
    sharey : bool, default=False
        Whether they have one y-axis too.
    """
    from matplotlib.figure import Figure

    n_columns = min(n_columns, n)
    n_lines = -(-n // n_columns)
    whole = alone if n == 1 else (size[0] * n_columns, above + size[1] * n_lines)
    figure = Figure(figsize=whole, layout="constrained")
    panels = figure.subplots(n_lines, n_columns, sharex=True, sharey=sharey, squeeze=False).ravel()
    for empty, over in zip(panels[n:], panels[n - n_columns :], strict=False):
        empty.set_visible(False)
        over.tick_params(labelbottom=True)
    return figure, list(panels[:n])


def set_ticks(axis: Axis, ticks: Sequence[float], **style: Any) -> None:
    """Draw the ticks that are in view, with a minus sign.

    Parameters
    ----------
    axis : matplotlib.axis.Axis
    ticks : sequence of float
        Ascending.
    **style
        Text properties of the labels.
    """
    low, high = axis.get_view_interval()
    shown = [tick for tick in ticks if low <= tick <= high]
    axis.set_ticks(shown, [f"{tick:g}".replace("-", "−") for tick in shown], **style)
