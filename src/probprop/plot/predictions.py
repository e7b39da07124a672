"""Predictions of numbers and of classes, and how far to trust them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn import metrics as sklearn_metrics

from probprop._types import FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.metrics import check_columns, predictive_coverage
from probprop.metrics.classes import (
    calibration_error,
    check_classes_and_proba,
    reliability_curve,
)
from probprop.metrics.verdict import coverage_std, largest_by_chance
from probprop.plot.parts import (
    BLUE,
    MAX_POINTS,
    NARROW,
    VERMILLION,
    WIDE,
    axes,
    bands,
    finish,
    in_percent,
    label_of,
    one_feature,
    some_rows,
)


def predictive_band(
    x: ArrayLike,
    predictive: TargetDistribution,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    truth: ArrayLike | Callable[[FloatArray], ArrayLike] | None = None,
    deviations: Sequence[float] = (1, 2, 3),
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted mean over one feature with bands of standard deviations.

    Parameters
    ----------
    x : array-like of shape (n,) or (n, 1)
        The feature, in any order.
    predictive : TargetDistribution, such as Mixture
        The predictions at x, in target units.
    data : (array-like, array-like), default=None
        Observed x and y, drawn as black dots.
    truth : array-like of shape (n,) or callable, default=None
        The true function at x, or the function itself, drawn as a black line.
    deviations : sequence of float, default=(1, 2, 3)
        Half widths of the bands, in standard deviations of the target, noise included.
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
    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 1.0, 4.0], [1.0, 0.5, 1.0], 0.5)
    >>> ax = predictive_band([0, 1, 2], p, data=([0.5, 1.5], [0.2, 2.0]), target="height [m]")
    >>> ax.get_ylabel()
    'height [m]'
    >>> plt.close(ax.figure)
    """
    x, mean = check_columns(x=one_feature(x), predictive=predictive.mean)
    order = np.argsort(x, kind="stable")
    x, mean, std = x[order], mean[order], predictive.std[order]
    ax = axes(ax)
    bands(ax, x, mean, std, deviations)
    ax.plot(x, mean, color=BLUE, lw=2.5, label="mean")
    if truth is not None:
        values = truth(x) if callable(truth) else check_columns(x=x, truth=truth)[1][order]
        # Outside the data the truth may go far beyond the band; add_artist keeps the limits.
        ax.add_artist(Line2D(x, np.asarray(values), color="black", lw=1, label="truth"))
    if data is not None:
        ax.plot(*check_columns(x=one_feature(data[0]), y=data[1]), "ko", ms=4, label="data")
    ax.margins(x=0)
    return finish(ax, "x", target)


def predicted_against_observed(
    y: ArrayLike,
    predictive: TargetDistribution,
    *,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw predicted means with their 95 % intervals against the observed targets.

    Rows whose interval misses the target are drawn as crosses: one in twenty for a
    calibrated model. If there are more than 1,000 rows, a random 1,000 are drawn.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution, such as Mixture
        Predictions for the same rows.
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
    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 1.0, 4.0], [1.0, 0.5, 1.0], 0.5)
    >>> ax = predicted_against_observed([0.1, 0.8, 9.0], p)
    >>> ax.get_legend_handles_labels()[1][-1]
    'observed outside it: 33.3 %'
    >>> plt.close(ax.figure)
    """
    y, mean = check_columns(y=y, predictive=predictive.mean)
    lower, upper = predictive.interval(0.95)
    inside = (lower <= y) & (y <= upper)
    ax = axes(ax)
    ax.axline((y[0], y[0]), slope=1, color="black", lw=1, ls="--", label="predicted = observed")
    styles = [("observed in 95 % interval", inside, "o", 5, BLUE)]
    styles += [("observed outside it", ~inside, "X", 8, VERMILLION)]
    rows = some_rows(len(y), MAX_POINTS)
    for words, chosen, marker, size, colour in styles:
        i = rows[chosen[rows]]
        # The mean of a skewed distribution may lie outside the interval.
        ax.vlines(y[i], lower[i], upper[i], colors=[(colour, 0.25)], linewidth=1)
        (marks,) = ax.plot(y[i], mean[i], marker, color=colour, markersize=size)
        label = f"{words}: {100 * chosen.mean():.1f} %"
        marks.set(markeredgecolor="white", markeredgewidth=0.5, label=label)
    return finish(ax, f"observed {target}", f"predicted {target}")


def calibration(
    y: ArrayLike,
    predictive: TargetDistribution,
    *,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of the targets inside the central intervals against what is expected.

    Below the diagonal the error bars are too small, above it too large. The shade is where
    a calibrated model's curve lies, at each level, in 95 of 100 cases with so few rows. The
    legend has the calibration error.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution, such as Mixture
        Predictions for the same rows.
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
    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 1.0, 4.0], [1.0, 0.5, 1.0], 0.5)
    >>> ax = calibration([0.1, 0.8, 9.0], p)
    >>> ax.get_xlabel()
    'expected coverage'
    >>> plt.close(ax.figure)
    """
    expected, observed = predictive_coverage(y, predictive)
    ends = np.linspace(0.0, 1.0, 101)
    n = len(predictive.mean)
    chance = largest_by_chance(n) * coverage_std(ends, n)
    low, high = np.maximum(ends - chance, 0.0), np.minimum(ends + chance, 1.0)
    ax = axes(ax)
    ax.fill_between(ends, low, high, color=WIDE, lw=0, label="within chance")
    ax.plot(ends, ends, color="black", lw=1, ls="--", label="calibrated")
    error = np.abs(expected - observed).mean()
    ax.plot(expected, observed, "o-", color=BLUE, ms=4, label=f"observed, error {error:.3f}")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    in_percent(ax)
    ax.set(xlabel="expected coverage", ylabel=f"observed coverage of {target}")
    # The larger corner: below the diagonal of a model that is too cautious, above of the others.
    corner: Any = "lower right" if (observed - expected).mean() >= 0.0 else "upper left"
    ax.legend(loc=corner, fontsize=9, handlelength=1.5, frameon=False)
    return ax


def residuals_against_std(
    y: ArrayLike,
    predictive: TargetDistribution,
    *,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw residuals against the predicted standard deviation, on bands of 1, 2 and 3 of it.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution, such as Mixture
        Predictions for the same rows; a random 1,000 are drawn if there are more.
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
    >>> from probprop import Mixture
    >>> p = Mixture.of_one([0.0, 1.0, 4.0], [1.0, 0.5, 1.0], 0.5)
    >>> ax = residuals_against_std([0.1, 0.8, 9.0], p)
    >>> ax.get_ylabel()
    'observed − predicted target'
    >>> plt.close(ax.figure)
    """
    y, mean = check_columns(y=y, predictive=predictive.mean)
    std = predictive.std
    ends = np.array([std.min(), std.max()])
    ends += 0.05 * np.array([-1.0, 1.0]) * (np.ptp(ends) or ends[0])
    ax = axes(ax)
    bands(ax, ends, np.zeros(2), ends, (1, 2, 3))
    ax.axhline(0.0, color=BLUE, lw=1.5, label="predicted mean")
    rows = some_rows(len(y), MAX_POINTS)
    ax.plot(std[rows], (y - mean)[rows], "ko", ms=4, mec="white", mew=0.4, label="observed")
    ax.margins(x=0)
    return finish(ax, f"predicted std of {target}", f"observed − predicted {target}")


# ---- Predicted probabilities of classes, and how far to trust them


_MAX_NUMBERS, _MAX_NAMES = 12, 30  # classes whose cells have room for a number, for a name
_LONGEST = 12  # letters of a class on an axis


def reliability(y: ArrayLike, proba: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw how often the predicted class is right against how probable it was said to be.

    Below the diagonal the model is too sure, above it too cautious. The bars are where a
    calibrated model lies, in each bin of the confidence, in 95 of 100 cases with so few rows;
    a larger dot stands for more rows. The legend has the calibration error.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    proba : array-like of shape (n, n_classes)
        Predicted probabilities.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = reliability([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]])
    >>> ax.get_xlabel()
    'probability of the predicted class'
    >>> plt.close(ax.figure)
    """
    confidence, right, count = reliability_curve(y, proba)
    low, high = (binom.ppf(q, count, np.minimum(confidence, 1.0)) / count for q in (0.025, 0.975))
    ax = axes(ax)
    ax.vlines(confidence, low, high, color=NARROW, lw=7, label="within chance")
    ax.plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="calibrated")
    sizes = 35.0 + 115.0 * count / count.sum()
    label = f"observed, error {calibration_error(y, proba):.3f}"
    ax.scatter(confidence, right, s=sizes, color=BLUE, ec="white", zorder=3, label=label)
    finish(ax, "probability of the predicted class", "share that is right")
    ax.set(xlim=(np.floor(9.99 * confidence.min()) / 10.0, 1.02), yticks=np.linspace(0, 1, 6))
    in_percent(ax)
    return ax


def confusion_matrix(
    y: ArrayLike, proba: ArrayLike, classes: Sequence[object], *, ax: Axes | None = None
) -> Axes:
    """Draw the confusion matrix: rows by observed and by predicted class.

    The shade is the share of the rows of a class; up to 12 classes show the numbers too.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    proba : array-like of shape (n, n_classes)
        Predicted probabilities.
    classes : sequence of length n_classes
        Their names.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = confusion_matrix([0, 1, 1], [[0.9, 0.1], [0.9, 0.1], [0.3, 0.7]], ["no", "yes"])
    >>> [text.get_text() for text in ax.texts]
    ['1', '0', '1', '1']
    >>> plt.close(ax.figure)
    """
    index, p = check_classes_and_proba(y, proba)
    n = p.shape[1]
    if len(classes) != n:
        raise ValueError(f"classes must have {n} names, one per column of proba.")
    counts = np.zeros((n, n), int)
    np.add.at(counts, (index, p.argmax(axis=1)), 1)
    share = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    ax = axes(ax)
    ax.pcolormesh(np.arange(n), np.arange(n), share, cmap="Blues", vmin=0.0, vmax=1.0)
    ax.invert_yaxis()
    if n <= _MAX_NUMBERS:
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if share[i, j] > 0.5 else "black"
            ax.text(j, i, f"{count:,}", ha="center", va="center", color=colour, fontsize=9)
    if n <= _MAX_NAMES:
        names = [label_of(str(name), _LONGEST) for name in classes]
        ax.set_xticks(range(n), names)
        if max(map(len, names)) * n > 40:  # they would touch
            ax.tick_params(axis="x", labelrotation=90)
        ax.set_yticks(range(n), names)
        ax.tick_params(labelsize=9 if n <= _MAX_NUMBERS else 6, length=0)
    ax.set(xlabel="predicted class", ylabel="observed class")
    return ax


def roc_curve(y: ArrayLike, proba: ArrayLike, *, name: str = "1", ax: Axes | None = None) -> Axes:
    """Draw the ROC curve of a class: true against false positive rate, at every threshold.

    Parameters
    ----------
    y : array-like of shape (n,)
        0 and 1; both must occur.
    proba : array-like of shape (n, 2)
        Predicted probabilities.
    name : str, default="1"
        Name of the second class, for the labels.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes
        The legend has the area under the curve: 1 is perfect, 0.5 is chance.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ax = roc_curve([0, 1, 1], [[0.9, 0.1], [0.8, 0.2], [0.3, 0.7]])
    >>> ax.get_legend_handles_labels()[1]
    ['area 1.000', 'chance']
    >>> plt.close(ax.figure)
    """
    index, p = check_classes_and_proba(y, proba)
    if p.shape[1] != 2 or len(np.unique(index)) < 2:
        raise ValueError("A ROC curve needs two classes, and rows of both of them.")
    false_alarms, found, _ = sklearn_metrics.roc_curve(index, p[:, 1])
    area = sklearn_metrics.roc_auc_score(index, p[:, 1])
    ax = axes(ax)
    ax.plot(false_alarms, found, color=BLUE, lw=2, label=f"area {area:.3f}")
    ax.plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="chance")
    ax.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    in_percent(ax)
    label = label_of(name, _LONGEST)
    ax.set(xlabel=f"other rows taken for {label}", ylabel=f"rows of {label} found")
    ax.legend(loc="lower right", fontsize=9, handlelength=1.5, frameon=False)
    return ax
