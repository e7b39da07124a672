"""What predictions depend on: averages over rows, along the values of one column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.legend import Legend
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.estimators.validation import check_inputs, check_int
from probprop.metrics.importance import Dependence, Importance, average_prediction
from probprop.plot.parts import (
    BLUE,
    LAYERS,
    NARROW,
    WIDE,
    axes,
    finish,
    label_of,
    plain_numbers,
    rows_to_average,
    some_rows,
)

if TYPE_CHECKING:
    from probprop.estimators.cv.regressor import PBPRegressorCV
    from probprop.estimators.ensemble import PBPEnsemble
    from probprop.estimators.regressor import PBPRegressor

_ROWS_TO_DRAW, _ROWS_TO_RANK = 500, 100  # that a partial dependence averages over, at most
_TICKS = 100  # of rows at the bottom
_SHADE = tuple(0.5 * (a + b) for a, b in zip(NARROW, WIDE, strict=True))
_BAND = "±2 std (model)"


def dependence_curve(
    at: ArrayLike,
    found: Dependence,
    *,
    outputs: Mapping[int, str],
    name: str,
    target: str,
    rows: ArrayLike = (),
    marks: bool = False,
    ax: Axes | None = None,
) -> Axes:
    """Draw average predictions along the values of a column of numbers or dates.

    Parameters
    ----------
    at : array-like of shape (n_values,)
        Numbers or dates, in order.
    found : Dependence
        What `probprop.metrics.average_prediction` finds there.
    outputs : mapping of int to str
        Which targets or classes, by their place, with their words in the legend. One alone has
        its band.
    name, target : str
        Labels of the axes.
    rows : array-like of shape (n,), default=()
        Where rows are: ticks at the bottom, a random 100 if there are more.
    marks : bool, default=False
        Whether there is nothing between two values: then they have error bars instead.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> mean = np.array([[0.2], [0.7]])
    >>> found = Dependence(mean, mean - 0.1, mean + 0.1)
    >>> ax = dependence_curve([1, 2], found, outputs={0: "mean"}, name="width", target="cost")
    >>> ax.get_lines()[0].get_ydata()
    array([0.2, 0.7])
    >>> plt.close(ax.figure)
    """
    ax = axes(ax)
    x: Any = np.asarray(at)
    only = len(outputs) == 1 and found.low is not None
    for (k, label), (colour, marker) in zip(outputs.items(), _colours(len(outputs)), strict=True):
        mean = found.mean[:, k]
        if only and marks:
            both = f"{label} {_BAND}"
            bar = ax.errorbar(x, mean, _ends(found, k), color=BLUE, marker="o", ls=":", label=both)
            bar.lines[2][0].set_linewidth(1.5)
            continue
        if only:
            low, high = cast(FloatArray, found.low)[:, k], cast(FloatArray, found.high)[:, k]
            ax.fill_between(x, low, high, color=_SHADE, linewidth=0, label=_BAND)
        style: dict[str, Any] = {"marker": marker, "ls": ":"} if marks else {"lw": 2}
        every = max(1, len(x) // 8)
        (line,) = ax.plot(x, mean, color=colour, label=label, **style)
        if len(outputs) > 1 and not marks:  # told apart without colours too
            line.set(marker=marker, markevery=every, markersize=5)
    if len(where := np.asarray(rows)):
        some = where[some_rows(len(where), _TICKS)]
        three = np.stack([some, some, some], axis=1).ravel()  # up, down, and a gap: one path
        ticks = np.tile([0.0, 0.025, np.nan], len(some))
        ax.plot(three, ticks, "k-", lw=0.8, alpha=0.5, transform=ax.get_xaxis_transform())
    return finish(ax, name, target)


def dependence_marks(
    names: Sequence[str],
    found: Dependence,
    *,
    outputs: Mapping[int, str],
    name: str,
    target: str,
    ax: Axes | None = None,
) -> Axes:
    """Draw average predictions at categories: one mark for each, from the top to the bottom.

    Parameters
    ----------
    names : sequence of str
        Of the categories.
    found : Dependence
        What `probprop.metrics.average_prediction` finds there.
    outputs, name, target, ax
        As for `dependence_curve`; the categories are on the vertical axis.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> mean = np.array([[0.2], [0.7]])
    >>> found = Dependence(mean, mean - 0.1, mean + 0.1)
    >>> names = ["north", "south"]
    >>> ax = dependence_marks(names, found, outputs={0: "mean"}, name="side", target="cost")
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['north', 'south']
    >>> plt.close(ax.figure)
    """
    ax = axes(ax)
    y = np.arange(len(names), dtype=float)
    only = len(outputs) == 1 and found.low is not None
    for i, (k, label) in enumerate(outputs.items()):
        colour, marker = _colours(len(outputs))[i]
        if only:
            bar = ax.errorbar(
                found.mean[:, k],
                y,
                xerr=_ends(found, k),
                color=colour,
                marker=marker,
                ls="none",
                label=f"{label} {_BAND}",
            )
            bar.lines[2][0].set_linewidth(1.5)
        else:
            shift = 0.12 * (i - 0.5 * (len(outputs) - 1))
            ax.plot(found.mean[:, k], y + shift, marker, color=colour, label=label)
    ax.set_yticks(y, [one.replace("$", r"\$") for one in names])
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", lw=0.5, color="#cccccc")
    ax.set_axisbelow(True)
    finish(ax, target, name)
    top = ax.get_ylim()[1]
    ax.set_ylim(top, -0.5)  # the first at the top, and room for the legend below the last
    cast(Legend, ax.get_legend()).set_loc("lower left")
    return ax


def _colours(n: int) -> list[tuple[str, str]]:
    """Return a colour and a marker for each of n lines."""
    return [LAYERS[i % len(LAYERS)] for i in range(n)]


def _ends(found: Dependence, k: int) -> FloatArray:
    """Return how far the band goes below and above, (2, n_values)."""
    low, high = cast(FloatArray, found.low)[:, k], cast(FloatArray, found.high)[:, k]
    return np.maximum(0.0, np.stack([found.mean[:, k] - low, high - found.mean[:, k]]))


def partial_dependence(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble,
    X: ArrayLike,
    feature: int,
    *,
    name: str | None = None,
    output: int = 0,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted mean against one feature, averaged over the rows, with ±2 std.

    The band is what the model does not know: its standard deviation without the noise,
    averaged over the rows as well. A feature with ten values or fewer has error bars.
    Ticks at the bottom are the rows.

    Parameters
    ----------
    model : PBPRegressor, PBPRegressorCV or PBPEnsemble
        Fitted.
    X : array-like of shape (n, n_features)
        Rows to average over: a random 500 of them if there are more, fewer for wide tables.
    feature : int
        Column of X.
    name : str, default=None
        Label of the feature; None is its name in the model, or its number.
    output : int, default=0
        Which of several targets.
    target : str, default="target"
        Name of the target, with its unit where it has one, for the labels.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from probprop import PBPRegressor
    >>> X = [[0.0, 1.0], [1.0, 1.0], [2.0, 3.0]]
    >>> ax = partial_dependence(PBPRegressor().fit(X, [0, 1, 5]), X, 1, name="width [m]")
    >>> ax.get_xlabel()
    'width [m]'
    >>> plt.close(ax.figure)
    """
    rows, some = _rows(model, X, _ROWS_TO_DRAW)
    check_int("feature", feature, 0)
    if feature >= rows.shape[1]:
        raise ValueError(f"feature == {feature}, but X has {rows.shape[1]} columns; count from 0.")
    if name is None:
        name = str(getattr(model, "feature_names_in_", {feature: f"feature {feature}"})[feature])
    known = rows[~np.isnan(rows[:, feature]), feature]
    if not known.size:
        raise ValueError(f"feature == {feature}, but all its entries in X are missing.")
    grid = _grid(known, 50)
    found = _dependence(model, some, feature, grid, output)
    return dependence_curve(
        grid,
        found,
        rows=some[:, feature],
        marks=len(grid) <= 10,  # a category has nothing between its values
        name=name,
        outputs={output: "mean"},
        target=f"predicted {target}",
        ax=ax,
    )


def important_features(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble, X: ArrayLike, *, n: int = 4, output: int = 0
) -> list[int]:
    """Return the columns that move the predicted mean most, the most important first.

    That is the standard deviation over the rows of the partial dependence on the column.

    Parameters
    ----------
    model : PBPRegressor, PBPRegressorCV or PBPEnsemble
        Fitted.
    X : array-like of shape (n_rows, n_features)
    n : int, default=4
        How many columns, at most. A column without any value is not among them.
    output : int, default=0
        Which of several targets.

    Returns
    -------
    list of int

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor
    >>> X = np.random.RandomState(0).standard_normal((100, 3))
    >>> model = PBPRegressor(random_state=0).fit(X, X[:, 0] + 5 * X[:, 2])
    >>> important_features(model, X, n=2)
    [2, 0]
    """
    check_int("n", n, 1)
    rows, some = _rows(model, X, _ROWS_TO_RANK)
    variation = np.full(rows.shape[1], -1.0)  # where all entries are missing
    for feature, column in enumerate(rows.T):
        known = column[~np.isnan(column)]
        if known.size:
            grid = _grid(known, 10)
            mean = _dependence(model, some, feature, grid, output).mean[:, output]
            variation[feature] = np.interp(known, grid, mean).std()
    order = np.argsort(-variation, kind="stable")
    return [int(i) for i in order if variation[i] >= 0.0][:n]


def _rows(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble, X: ArrayLike, at_most: int
) -> tuple[Array, Array]:
    """Return X as an array with the columns of the model, and the rows to average over."""
    check_is_fitted(model)
    rows = check_inputs(model, X)
    return rows, rows_to_average(rows, at_most)


def _grid(column: FloatArray, n: int) -> FloatArray:
    """Return at most n values of a column, in order: all of them, or a range without tails."""
    values = np.unique(column)
    if len(values) <= n:
        return values
    low, high = np.quantile(column, [0.01, 0.99])
    return np.linspace(*((low, high) if low < high else (values[0], values[-1])), n)


def _dependence(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble,
    rows: Array,
    feature: int,
    grid: FloatArray,
    output: int,
) -> Dependence:
    """Return the average predictions with the feature at each value of the grid."""
    n_outputs = cast("PBPRegressor", model).n_outputs_
    if not 0 <= output < n_outputs:
        raise ValueError(f"output == {output}, but the model has {n_outputs}; count from 0.")
    return average_prediction(model, rows, [feature], grid[:, np.newaxis])


def importance(
    found: Importance,
    *,
    n: int = 15,
    label: str = "log-likelihood falls by [nats per row]",
    ax: Axes | None = None,
) -> Axes:
    """Draw which columns matter most: what is lost where the cells of one are shuffled.

    Dots are means over the repetitions, bars their standard deviations.

    Parameters
    ----------
    found : Importance
        What `probprop.metrics.permutation_importance` returns for a target.
    n : int, default=15
        How many columns, at most.
    label : str, default="log-likelihood falls by [nats per row]"
        Of the horizontal axis.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> loss = np.array([[0.5, 0.6], [0.1, 0.0]])
    >>> ax = importance(Importance(("size", "age"), loss, loss, 50, 2))
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['size', 'age']
    >>> plt.close(ax.figure)
    """
    check_int("n", n, 1)
    ax = axes(ax)
    names = [label_of(name, 20) for name in found.names[:n]]
    mean, std = found.loss[:n].mean(axis=1), found.loss[:n].std(axis=1, ddof=1)
    y = np.arange(len(names))
    ax.axvline(0.0, color="black", lw=1)
    ax.hlines(y, np.minimum(mean, 0.0), np.maximum(mean, 0.0), color=_SHADE, lw=6)
    ax.errorbar(mean, y, xerr=std, fmt="o", color=BLUE, markersize=5)
    ax.set_yticks(y, names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set(xlabel=label, ylabel="column")
    plain_numbers(ax)
    return ax
