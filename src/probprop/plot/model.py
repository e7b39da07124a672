"""How candidates were compared, and what each column adds to a prediction."""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from probprop.facts import power_name
from probprop.plot import parts

if TYPE_CHECKING:
    import pandas as pd

    from probprop.estimators.cv.policy import Candidate
    from probprop.estimators.cv.search import Trial


_COLORS = [*parts.LAYERS, (parts.SKY, "P"), ("#555555", "X"), ("#999933", "<"), ("#882255", ">")]
_STYLES = ("-", "--", ":", "-.")
_NOISE = {"auto": "", "constant": ", constant noise", "input": ", noise network"}
_GRAY = "#777777"
_MOST_COLUMNS = 10  # in a picture of Shapley values
_BELOW = 4.0  # times the distance of the median from the best is what the axis shows


def candidate_curves(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the calibrated out-of-fold log-likelihood against the epochs, for every candidate.

    Colors and markers tell encodings, layers, powers of the target and kinds of noise apart, line
    styles tell evidence caps; "32 bins, 50 + 50, logarithm" has piecewise-linear encoding with 32
    bins and two layers of 50 units, and predicts the logarithm of the target. Rings mark the
    stacked candidates. Curves far below the others are cut off by the axis.

    Parameters
    ----------
    model : PBPRegressorCV or PBPClassifierCV
        A fitted estimator.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.
    """
    curves: list[Trial] = [trial for trial in model.trials_ if trial.n_epochs]
    forms = {_form_in_words(trial.candidate): trial.candidate for trial in curves}  # in their order
    evidence_caps = list(dict.fromkeys(trial.candidate.evidence_cap for trial in curves))
    ax = parts.axes(ax)
    for trial in curves:
        candidate = trial.candidate
        color, marker = _COLORS[list(forms).index(_form_in_words(candidate)) % len(_COLORS)]
        style = _STYLES[evidence_caps.index(candidate.evidence_cap) % len(_STYLES)]
        (line,) = ax.plot(trial.n_epochs, trial.means, ls=style, color=color, lw=1.2)
        line.set(marker=marker, markersize=4, label=candidate_in_words(candidate))
    rings = [trial.best for trial in curves if trial.weight]
    (ring,) = ax.plot(*zip(*rings, strict=True), "ko", label="stacked")
    ring.set(markersize=10, markerfacecolor="none", markeredgewidth=1.5)
    epochs = sorted({n for trial in curves for n in trial.n_epochs})
    ax.set_xscale("log")
    ax.set_xticks(epochs, [f"{n:,}" for n in epochs])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="epochs", ylabel="out-of-fold log-likelihood [nats per sample]")
    # The better half decides where the axis ends below, not the worst points.
    best = [max(trial.means) for trial in curves]
    lowest = min(value for trial in curves for value in trial.means)
    if (spread := max(best) - float(np.median(best))) > 0.0:
        lowest = max(lowest, max(best) - _BELOW * spread)
    ax.dataLim.intervaly = lowest, ax.dataLim.y1
    keys = []
    for (color, marker), candidate in zip(cycle(_COLORS), forms.values(), strict=False):
        label = _form_in_words(candidate)
        keys.append(Line2D([], [], color=color, marker=marker, markersize=4, label=label))
    if len(evidence_caps) > 1:
        for style, evidence_cap in zip(cycle(_STYLES), evidence_caps, strict=False):
            keys.append(
                Line2D([], [], color=_GRAY, ls=style, label=_evidence_cap_in_words(evidence_cap))
            )
    parts.legend_above(ax, [*keys, ring])
    return ax


def shapley_values(
    explained: pd.DataFrame, *, output: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw what each column adds to a prediction, the largest first, and the sum of the smallest.

    Parameters
    ----------
    explained : DataFrame
        What `explain` of an estimator returns; the first sample is drawn.
    output : str, default=None
        Column of `explained`. None is "mean", or the last class.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.
    """
    names = list(explained.columns[1:])
    output = output or ("mean" if "mean" in names else names[-1])
    own = explained.loc[explained.index[0][0]]
    added, cells = own[output].iloc[1:], own["value"].iloc[1:]
    order = added.abs().argsort(kind="stable")[::-1]
    first, rest = order[:_MOST_COLUMNS], order[_MOST_COLUMNS:]
    bars = [(f"{added.index[i]} = {cells.iloc[i]}", added.iloc[i]) for i in first]
    if len(rest):
        bars.append((f"{len(rest)} other columns", added.iloc[rest].sum()))
    labels, sizes = zip(*bars, strict=True)
    ax = parts.axes(ax)
    colors = [parts.BLUE if size >= 0.0 else parts.VERMILLION for size in sizes]
    ax.barh(range(len(bars)), sizes, color=colors)
    ax.set_yticks(range(len(bars)), [parts.label_of(label, 30) for label in labels])
    ax.invert_yaxis()
    ax.axvline(0.0, color="black", lw=1)
    ax.margins(x=0.1)
    ends = [parts.plain_number(float(f"{x:.4g}")) for x in (own[output].iloc[0], own[output].sum())]
    ax.set(xlabel=f"added to the {output}, from {ends[0]} to {ends[1]}", ylabel="column")
    parts.plain_numbers(ax)
    return ax


def candidate_in_words(candidate: Candidate) -> str:
    """Return a candidate in a few words: encoding, units of its layers, power, noise, evidence cap.

    >>> from probprop import Candidate
    >>> candidate_in_words(Candidate(32, (50, 50), 10.0)), candidate_in_words(Candidate(power=0.5))
    ('32 bins, 50 + 50, evidence cap 10', 'raw, 50, square root, no cap')
    """
    return f"{_form_in_words(candidate)}, {_evidence_cap_in_words(candidate.evidence_cap)}"


def _form_in_words(candidate: Candidate) -> str:
    encoding = "raw" if candidate.n_bins is None else f"{candidate.n_bins} bins"
    encoding += " and codes" if candidate.codes else ""
    layers = " + ".join(map(str, candidate.layers)) or "linear"
    power = "" if candidate.power is None else f", {power_name(candidate.power)}"
    prior = "" if candidate.prior == "shared" else ", per column"
    exact = "" if candidate.output_layer == "mean_field" else ", exact"
    return f"{encoding}, {layers}{prior}{exact}{power}{_NOISE[candidate.noise]}"


def _evidence_cap_in_words(evidence_cap: float | None) -> str:
    return "no cap" if evidence_cap is None else f"evidence cap {evidence_cap:g}"
