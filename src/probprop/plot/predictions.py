"""Predictions of numbers and of classes, how far to trust them, and what they depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn import metrics as sklearn_metrics

from probprop._types import FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.estimators.validation import check_int
from probprop.facts import cell, number
from probprop.metrics import check_columns, predictive_coverage
from probprop.metrics.classes import calibration_error, check_classes_and_proba, reliability_curve
from probprop.metrics.importance import Importance
from probprop.metrics.verdict import largest_by_chance
from probprop.plot import parts

if TYPE_CHECKING:
    import pandas as pd


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
    """
    x, mean = check_columns(x=parts.one_feature(x), predictive=predictive.mean)
    order = np.argsort(x, kind="stable")
    x, mean, std = x[order], mean[order], predictive.std[order]
    ax = parts.axes(ax)
    parts.bands(ax, x, mean, std, deviations)
    ax.plot(x, mean, color=parts.BLUE, lw=2.5, label="mean")
    if truth is not None:
        values = truth(x) if callable(truth) else check_columns(x=x, truth=truth)[1][order]
        # Outside the data the truth may go far beyond the band; add_artist keeps the limits.
        ax.add_artist(Line2D(x, np.asarray(values), color="black", lw=1, label="truth"))
    if data is not None:
        ax.plot(*check_columns(x=parts.one_feature(data[0]), y=data[1]), "ko", ms=4, label="data")
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


_MAX_NUMBERS, _MAX_NAMES = 12, 30  # classes whose cells have room for a number, for a name
_LONGEST = 12  # letters of a class on an axis


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


def confusion_matrix(
    y: ArrayLike, proba: ArrayLike, classes: Sequence[object], *, ax: Axes | None = None
) -> Axes:
    """Draw the confusion matrix: rows by observed and by predicted class.

    The shade is the share of the rows of a class; up to 12 classes show the numbers too.

    Parameters
    ----------
    y, proba, ax
        As for `reliability`.
    classes : sequence of length n_classes
        Their names.
    """
    index, p = check_classes_and_proba(y, proba)
    n = p.shape[1]
    if len(classes) != n:
        raise ValueError(f"classes must have {n} names, one per column of proba.")
    counts = np.zeros((n, n), int)
    np.add.at(counts, (index, p.argmax(axis=1)), 1)
    share = counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    ax = parts.axes(ax)
    ax.pcolormesh(np.arange(n), np.arange(n), share, cmap="Blues", vmin=0.0, vmax=1.0)
    ax.invert_yaxis()
    if n <= _MAX_NUMBERS:
        for (i, j), count in np.ndenumerate(counts):
            color = "white" if share[i, j] > 0.5 else "black"
            ax.text(j, i, f"{count:,}", ha="center", va="center", color=color, fontsize=9)
    if n <= _MAX_NAMES:
        names = [parts.label_of(str(name), _LONGEST) for name in classes]
        ax.set_xticks(range(n), names)
        if max(map(len, names)) * n > 40:  # they would touch
            ax.tick_params(axis="x", labelrotation=90)
        ax.set_yticks(range(n), names)
        ax.tick_params(labelsize=9 if n <= _MAX_NUMBERS else 6, length=0)
    ax.set(xlabel="predicted class", ylabel="observed class")
    return ax


def roc_curve(y: ArrayLike, proba: ArrayLike, *, name: str = "1", ax: Axes | None = None) -> Axes:
    """Draw the ROC curve of a class: true against false positive rate, at every threshold.

    The legend has the area under the curve: 1 is perfect, 0.5 is chance.

    Parameters
    ----------
    y : array-like of shape (n,)
        0 and 1; both must occur.
    proba : array-like of shape (n, 2)
        Predicted probabilities.
    name : str, default="1"
        Name of the second class, for the labels.
    ax
        As for `predictive_band`.
    """
    index, p = check_classes_and_proba(y, proba)
    if p.shape[1] != 2 or len(np.unique(index)) < 2:
        raise ValueError("A ROC curve needs two classes, and rows of both of them.")
    false_alarms, found, _ = sklearn_metrics.roc_curve(index, p[:, 1])
    area = sklearn_metrics.roc_auc_score(index, p[:, 1])
    ax = parts.axes(ax)
    ax.plot(false_alarms, found, color=parts.BLUE, lw=2, label=f"area {area:.3f}")
    ax.plot([0, 1], [0, 1], color="black", lw=1, ls="--", label="chance")
    ax.set(xlim=(-0.01, 1), ylim=(0, 1.02))
    parts.in_percent(ax)
    label = parts.label_of(name, _LONGEST)
    ax.set(xlabel=f"other rows taken for {label}", ylabel=f"rows of {label} found")
    ax.legend(loc="lower right", fontsize=9, handlelength=1.5, frameon=False)
    return ax


# ---- What predictions depend on


_SHADE = tuple(0.5 * (a + b) for a, b in zip(parts.NARROW, parts.WIDE, strict=True))


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
        Label of the horizontal axis.
    ax
        As for `predictive_band`.
    """
    check_int("n", n, 1)
    ax = parts.axes(ax)
    names = ["\n".join(wrap(parts.label_of(name, 60), 20)) for name in found.names[:n]]
    mean, std = found.loss[:n].mean(axis=1), found.loss[:n].std(axis=1, ddof=1)
    y = np.arange(len(names))
    ax.axvline(0.0, color="black", lw=1)
    ax.hlines(y, np.minimum(mean, 0.0), np.maximum(mean, 0.0), color=_SHADE, lw=6)
    ax.errorbar(mean, y, xerr=std, fmt="o", color=parts.BLUE, markersize=5)
    ax.set_yticks(y, names)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.set(xlabel=label, ylabel="column")
    parts.plain_numbers(ax)
    return ax


def explanation(
    found: pd.DataFrame,
    *,
    output: str | None = None,
    n: int = 10,
    target: str = "target",
    ax: Axes | None = None,
) -> Axes:
    """Draw how each column moves one prediction from the baseline, the largest change first.

    Parameters
    ----------
    found : DataFrame
        What `probprop.metrics.explain` returns, of which the first sample is drawn.
    output : str, default=None
        Which of its columns: "mean", "std" or a class. None is the first for a regressor, and the
        last for a classifier: the positive class of two.
    n : int, default=10
        How many columns, at most; the others are added up.
    target, ax
        As for `predictive_band`.
    """
    check_int("n", n, 1)
    own = found.xs(found.index[0][0], level=0)
    names = list(own.columns[1:])
    kind = "predicted" if "mean" in names[0] else "probability of"
    output = output if output is not None else names[0 if kind == "predicted" else -1]
    added, values = own[output].to_numpy()[1:], own["value"].iloc[1:]
    order = np.argsort(-np.abs(added), kind="stable")
    shown, rest = order[:n], order[n:]
    pairs = zip(values.index[shown], values.iloc[shown], strict=True)
    labels = [f"{parts.label_of(k, 24)} = {parts.label_of(cell(v), 12)}" for k, v in pairs]
    steps = added[shown]
    if len(rest):
        labels.append(f"{len(rest):,} other columns")
        steps = np.append(steps, added[rest].sum())
    ends = own[output].iloc[0] + np.cumsum([0.0, *steps])
    ax, y = parts.axes(ax), np.arange(len(steps))
    colors = [parts.BLUE if step >= 0.0 else parts.VERMILLION for step in steps]
    ax.barh(y, steps, left=ends[:-1], color=colors, height=0.6)
    ax.vlines(ends[1:-1], y[:-1], y[1:], color="black", lw=0.8)
    for at, step, end in zip(y, steps, ends[1:], strict=True):
        text = f"{'+' if step >= 0.0 else ''}{number(float(step))}"
        style: dict[str, Any] = {"ha": "left" if step >= 0.0 else "right", "fontsize": 9}
        place = (4 if step >= 0.0 else -4, 0)
        ax.annotate(text, (end, at), place, textcoords="offset points", va="center", **style)
    ax.axvline(ends[0], color="black", lw=1, ls="--")
    ax.set_yticks(y, labels)
    ax.invert_yaxis()
    room = 0.25 * (np.ptp(ends) or 1.0)
    ax.set_xlim(ends.min() - room, ends.max() + room)
    what = f"{output} of {target}" if kind == "predicted" else output
    ax.set(xlabel=f"{kind} {what}, from {number(ends[0])} to {number(ends[-1])}", ylabel="column")
    parts.plain_numbers(ax)
    return ax
