"""Plots of predictions of numbers and of classes, and of their calibration."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from scipy.stats import binom

from probprop.distributions.base import TargetDistribution
from probprop.metrics import check_columns, predictive_coverage
from probprop.metrics.classes import calibration_error, reliability_curve
from probprop.metrics.verdict import largest_by_chance
from probprop.plot import parts


def predictive_band(
    x: ArrayLike,
    predictive: TargetDistribution,
    *,
    data: tuple[ArrayLike, ArrayLike] | None = None,
    truth: ArrayLike | None = None,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw the predicted mean over one feature, and bands of 1, 2 and 3 standard deviations.

    Parameters
    ----------
    x : array-like of shape (n,) or (n, 1)
        The feature, in any order.
    predictive : TargetDistribution, such as Mixture
        The predictions at x, in target units.
    data : (array-like, array-like), default=None
        Observed x and y, drawn as black dots.
    truth : array-like of shape (n,), default=None
        The true function at x, drawn as a black line.
    target : str, default="target"
        Name of the target, with its unit where it has one, for the labels.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.
    """
    x, mean = check_columns(x=x, predictive=predictive.mean)
    order = np.argsort(x, kind="stable")
    x, mean, std = x[order], mean[order], predictive.std[order]
    ax = parts.axes(ax)
    parts.bands(ax, x, mean, std, (1, 2, 3))
    ax.plot(x, mean, color=parts.BLUE, lw=2.5, label="mean")
    if truth is not None:
        values = check_columns(x=x, truth=truth)[1][order]
        # Outside the data the truth may go far beyond the band; add_artist keeps the limits.
        ax.add_artist(Line2D(x, values, color="black", lw=1, label="truth"))
    if data is not None:
        ax.plot(*check_columns(x=data[0], y=data[1]), "ko", ms=4, label="data")
    ax.margins(x=0)
    return parts.finish(ax, "x", target)


def predicted_against_observed(
    y: ArrayLike, predictive: TargetDistribution, *, target: str = "target", ax: Axes | None = None
) -> Axes:
    """Draw predicted means with their 95 % intervals against the observed targets.

    Rows whose interval misses the target are drawn as crosses: one in twenty for a
    calibrated model. If there are more than 1,000 rows, a random 1,000 are drawn. Both axes are
    alike, logarithmic if targets are so skewed; a few rows far beyond are drawn at their edge.

    Parameters
    ----------
    y : array-like of shape (n,)
        Observed targets, in target units.
    predictive : TargetDistribution, such as Mixture
        Predictions for the same rows.
    target, ax
        As for `predictive_band`.
    """
    y, mean = check_columns(y=y, predictive=predictive.mean)
    lower, upper = predictive.interval(0.95)
    inside = (lower <= y) & (y <= upper)
    low, high, log = parts.axis_of(np.concatenate([y, mean, lower, upper]))
    ax = parts.axes(ax)
    if log:
        ax.set(xscale="log", yscale="log")
    ax.plot([low, high], [low, high], color="black", lw=1, ls="--", label="predicted = observed")
    beyond = int(((y < low) | (y > high) | (mean < low) | (mean > high)).sum())
    y, mean, lower, upper = (np.clip(each, low, high) for each in (y, mean, lower, upper))
    styles = [("observed in 95 % interval", inside, "o", 5, parts.BLUE)]
    styles += [("observed outside it", ~inside, "X", 8, parts.VERMILLION)]
    rows = parts.some_rows(len(y), parts.MAX_POINTS)
    for words, chosen, marker, size, color in styles:
        i = rows[chosen[rows]]
        # The mean of a skewed distribution may lie outside the interval.
        ax.vlines(y[i], lower[i], upper[i], colors=[(color, 0.25)], linewidth=1)
        (marks,) = ax.plot(y[i], mean[i], marker, color=color, markersize=size)
        label = f"{words}: {100 * chosen.mean():.1f} %"
        marks.set(markeredgecolor="white", markeredgewidth=0.5, label=label)
    if beyond:
        ax.plot([], [], " ", label=f"beyond the axes, at their edge: {beyond:,}")
    return parts.finish(ax, f"observed {target}", f"predicted {target}")


def calibration(
    y: ArrayLike, predictive: TargetDistribution, *, target: str = "target", ax: Axes | None = None
) -> Axes:
    """Draw the share of the targets inside the central intervals against what is expected.

    Below the diagonal the intervals are too narrow, above it too wide. The shade contains the
    whole curve of a calibrated model with probability 95 % (Kolmogorov-Smirnov). The legend has
    the calibration error.

    Parameters
    ----------
    y, predictive, target, ax
        As for `predicted_against_observed`.
    """
    expected, observed = predictive_coverage(y, predictive)
    ends = np.linspace(0.0, 1.0, 101)
    chance = largest_by_chance(len(predictive.mean))
    low, high = np.maximum(ends - chance, 0.0), np.minimum(ends + chance, 1.0)
    ax = parts.axes(ax)
    ax.fill_between(ends, low, high, color=parts.WIDE, lw=0, label="within chance")
    ax.plot(ends, ends, color="black", lw=1, ls="--", label="calibrated")
    error = np.abs(expected - observed).mean()
    ax.plot(expected, observed, "o-", color=parts.BLUE, ms=4, label=f"observed, error {error:.3f}")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    parts.in_percent(ax)
    ax.set(xlabel="expected coverage", ylabel=f"observed coverage of {target}")
    # The larger corner: below the diagonal of an under-confident model, above otherwise.
    corner: Any = "lower right" if (observed - expected).mean() >= 0.0 else "upper left"
    ax.legend(loc=corner, fontsize=9, handlelength=1.5, frameon=False)
    return ax


def residuals_against_std(
    y: ArrayLike, predictive: TargetDistribution, *, target: str = "target", ax: Axes | None = None
) -> Axes:
    """Draw residuals against the predicted standard deviation, on bands of 1, 2 and 3 of it.

    Parameters
    ----------
    y, predictive, target, ax
        As for `predicted_against_observed`; if there are more than 1,000 rows, a random 1,000
        are drawn.
    """
    y, mean = check_columns(y=y, predictive=predictive.mean)
    ends = np.array(parts.axis_of(predictive.std, linear=True)[:2])
    std = np.clip(predictive.std, *ends)
    ends += 0.05 * np.array([-1.0, 1.0]) * (np.ptp(ends) or ends[0])
    ax = parts.axes(ax)
    parts.bands(ax, ends, np.zeros(2), ends, (1, 2, 3))
    ax.axhline(0.0, color=parts.BLUE, lw=1.5, label="predicted mean")
    rows = parts.some_rows(len(y), parts.MAX_POINTS)
    ax.plot(std[rows], (y - mean)[rows], "ko", ms=4, mec="white", mew=0.4, label="observed")
    ax.margins(x=0)
    return parts.finish(ax, f"predicted std of {target}", f"observed − predicted {target}")


# ---- Predicted probabilities of classes, and how far to trust them


def reliability(y: ArrayLike, proba: ArrayLike, *, ax: Axes | None = None) -> Axes:
    """Draw the reliability diagram: accuracy against confidence.

    Below the diagonal the model is over-confident, above it under-confident. The bars are 95 %
    ranges of a calibrated model in each bin of the confidence, given the number of rows; larger
    dots mean more rows. The legend has the calibration error.

    Parameters
    ----------
    y : array-like of shape (n,)
        Index of the class of each row.
    proba : array-like of shape (n, n_classes)
        Predicted probabilities.
    ax
        As for `predictive_band`.
    """
    confidence, right, count = reliability_curve(y, proba)
    low, high = (binom.ppf(q, count, np.minimum(confidence, 1.0)) / count for q in (0.025, 0.975))
    ax = parts.axes(ax)
    ax.vlines(confidence, low, high, color=parts.NARROW, lw=7, label="within chance")
    ax.plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="calibrated")
    sizes = 35.0 + 115.0 * count / count.sum()
    label = f"observed, error {calibration_error(y, proba):.3f}"
    ax.scatter(confidence, right, s=sizes, color=parts.BLUE, ec="white", zorder=3, label=label)
    parts.finish(ax, "probability of the predicted class", "share that is right")
    ax.set(xlim=(np.floor(9.99 * confidence.min()) / 10.0, 1.02), yticks=np.linspace(0, 1, 6))
    parts.in_percent(ax)
    return ax
