"""What a model has learned, and how."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.estimators.validation import check_inputs, check_int
from probprop.inference.posterior import Epoch, Posterior
from probprop.plot.parts import (
    BLUE,
    LAYERS,
    MAX_POINTS,
    VERMILLION,
    axes,
    bands,
    finish,
    legend_above,
    some_rows,
)
from probprop.table.names import target_names

if TYPE_CHECKING:
    from probprop.estimators.cv.regressor import PBPRegressorCV
    from probprop.estimators.ensemble import PBPEnsemble
    from probprop.estimators.regressor import PBPRegressor
    from probprop.predictive.protocol import TargetDistribution

_ROWS_TO_DRAW, _ROWS_TO_RANK = 500, 100  # that a partial dependence averages over, at most
_COLUMNS = 100  # above this, fewer rows


def training_curve(
    history: Sequence[Epoch],
    *,
    target: str | Sequence[str] | None = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw the mean log Z and, on an axis to the right, the noise after each epoch.

    Parameters
    ----------
    history : sequence of Epoch
        ``history_`` of a fitted model.
    target : str, sequence of str or None, default="target"
        Name of the target, with its unit where it has one, for the labels; or the name of
        each of several targets. None is for classes, which have no noise to draw.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from probprop import PBPRegressor
    >>> model = PBPRegressor(n_epochs=3).fit([[0.0], [1.0], [2.0]], [0, 1, 5])
    >>> ax = training_curve(model.history_)
    >>> ax.get_lines()[0].get_xdata()
    array([1, 2, 3])
    >>> plt.close(ax.figure)
    """
    if not history:
        raise ValueError("history has no epochs. Give history_ of a fitted model.")
    ax = axes(ax)
    twins = [ax]
    epochs = np.array([epoch.n_iter for epoch in history])
    log_Z = np.array([epoch.mean_log_Z for epoch in history])
    where = "" if target is None else " (left)"
    lines = ax.plot(epochs, log_Z, "o-", color=BLUE, label=f"mean log Z{where}")
    if target is not None:
        twins.append(ax.twinx())
        std_noise = np.array([epoch.noise_std for epoch in history])  # a line per target
        names = target_names(target)
        several = len(names) > 1
        labels = [
            f"noise std of {name} (right)" if several else "noise std (right)" for name in names
        ]
        noise = twins[1].plot(epochs, std_noise, "s--", color=VERMILLION, label=labels[0])
        for line, label, marker in zip(noise[1:], labels[1:], cycle("^vD*"), strict=False):
            line.set(label=label, marker=marker)
        if several and std_noise.max() > 10.0 * std_noise.min():  # they share one axis
            twins[1].set_yscale("log")
            twins[1].yaxis.set_major_formatter("{x:g}")
            twins[1].yaxis.set_minor_formatter(NullFormatter())
        lines += noise
        of = "each target" if several else names[0]
        twins[1].set_ylabel(f"noise std of {of}", color=VERMILLION)
    for line in lines:
        line.set(markersize=4, markerfacecolor="none", markevery=max(1, len(epochs) // 40))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlabel="epoch", ylabel="mean log Z [nats per row]")
    ax.yaxis.label.set_color(BLUE)
    legend_above(twins, lines)
    return ax


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
    mean, std = _dependence(model, some, feature, grid, output)
    ax = axes(ax)
    if len(grid) <= 10:  # a category has nothing between its values
        label = "mean ±2 std (model)"
        ax.errorbar(grid, mean, 2 * std, color=BLUE, marker="o", ls=":", capsize=4, label=label)
    else:
        bands(ax, grid, mean, std, (2,), of=" (model)")
        ax.plot(grid, mean, color=BLUE, lw=2, label="mean")
    at_bottom = ax.get_xaxis_transform()
    ax.plot(some[:, feature], np.zeros(len(some)), "k|", transform=at_bottom, alpha=0.4)
    return finish(ax, name, f"predicted {target}")


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
            mean, _ = _dependence(model, some, feature, grid, output)
            variation[feature] = np.interp(known, grid, mean).std()
    order = np.argsort(-variation, kind="stable")
    return [int(i) for i in order if variation[i] >= 0.0][:n]


def weight_posterior(posterior: Posterior, *, ax: Axes | None = None) -> Axes:
    """Draw the standard deviation of every weight against its mean, layer by layer.

    Weights the data say nothing about are at the standard deviation of the prior; those
    below the V are more than two standard deviations from zero, and the legend has their
    share.

    Parameters
    ----------
    posterior : Posterior
        ``posterior_`` of a fitted model. A layer of more than 1,000 weights is
        drawn by a random 1,000.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> from probprop import PBPRegressor
    >>> model = PBPRegressor(5, random_state=0).fit([[0.0], [1.0], [2.0]], [0, 1, 5])
    >>> ax = weight_posterior(model.posterior_)
    >>> len(ax.get_legend_handles_labels()[1])  # two layers, the prior, the V
    4
    >>> plt.close(ax.figure)
    """
    ax = axes(ax)
    for layer, (m_w, v_w) in enumerate(zip(posterior.m_w, posterior.v_w, strict=True)):
        m, s = m_w.ravel(), np.sqrt(v_w.ravel())
        some = some_rows(m.size, MAX_POINTS)
        colour, marker = LAYERS[layer % len(LAYERS)]
        share = 100 * np.mean(np.abs(m) > 2 * s)
        ax.plot(
            m[some],
            s[some],
            marker,
            color=colour,
            markersize=4.5,
            markeredgecolor="white",
            markeredgewidth=0.4,
            label=f"layer {layer + 1}: {share:.0f} % of {m.size:,} > 2 std",
        )
    ax.set_yscale("log")
    prior = np.sqrt(posterior.prior_variance)
    ax.axhline(prior, color="black", lw=1, ls="--", label="std of the prior")
    edges = ax.get_xlim()
    s = np.append(np.geomspace(*ax.get_ylim(), 50), np.nan)
    v = np.concatenate([-2 * s, 2 * s])
    ax.plot(v, np.abs(v) / 2, color="black", lw=1, ls=":", label="|mean| = 2 std")
    ax.set_xlim(edges)
    ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.yaxis.set_major_formatter("{x:g}")
    ax.yaxis.set_minor_formatter(NullFormatter())
    return finish(ax, "mean of the weight (standardised units)", "std of the weight")


def _rows(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble, X: ArrayLike, at_most: int
) -> tuple[Array, Array]:
    """Return X as an array with the columns of the model, and the rows to average over."""
    check_is_fitted(model)
    rows = check_inputs(model, X)
    fewer = at_most * _COLUMNS // max(_COLUMNS, rows.shape[1])
    return rows, rows[some_rows(len(rows), max(20, fewer))]


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
) -> tuple[FloatArray, FloatArray]:
    """Mean and std_model of an output with the feature at each value of the grid, over rows."""
    n_outputs = cast("PBPRegressor", model).n_outputs_
    if not 0 <= output < n_outputs:
        raise ValueError(f"output == {output}, but the model has {n_outputs}; count from 0.")
    repeated = np.tile(rows, (len(grid), 1))
    repeated[:, feature] = np.repeat(grid, len(rows))
    with warnings.catch_warnings():
        # A model fitted on a frame expects names; `_rows` checked that these are its columns.
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive = cast("TargetDistribution", model.predict_distribution(repeated))
    each = (len(grid), len(rows), n_outputs)
    mean = predictive.mean.reshape(each)[..., output].mean(axis=1)
    std = predictive.std_model.reshape(each)[..., output].mean(axis=1)
    return mean, std
