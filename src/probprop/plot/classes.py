"""Predicted probabilities of classes, and how far to trust them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn import metrics as sklearn_metrics

from probprop.metrics.classes import (
    calibration_error,
    check_classes_and_proba,
    reliability_curve,
)
from probprop.plot.parts import BLUE, NARROW, axes, finish

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
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
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
        names = [_short(str(name)) for name in classes]
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
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0))
    ax.set(xlabel=f"other rows taken for {_short(name)}", ylabel=f"rows of {_short(name)} found")
    ax.legend(loc="lower right", fontsize=9, handlelength=1.5, frameon=False)
    return ax


def _short(name: str) -> str:
    """Shorten a class for an axis, to one line, and escape dollars, which begin a formula."""
    line = " ".join(name.split())
    return (line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…").replace("$", r"\$")
