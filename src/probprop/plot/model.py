"""What a model has learned, and how: its epochs, its weights, and the candidates compared."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from probprop.facts import power_name
from probprop.inference.posterior import Epoch, Posterior
from probprop.plot import parts
from probprop.table.names import target_names

if TYPE_CHECKING:
    from probprop.estimators.cv.policy import Candidate
    from probprop.estimators.cv.search import Trial


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
    """
    if not history:
        raise ValueError("history has no epochs. Give history_ of a fitted model.")
    ax = parts.axes(ax)
    twins = [ax]
    epochs = np.array([epoch.n_iter for epoch in history])
    log_Z = np.array([epoch.mean_log_Z for epoch in history])
    where = "" if target is None else " (left)"
    lines = ax.plot(epochs, log_Z, "o-", color=parts.BLUE, label=f"mean log Z{where}")
    if target is not None:
        twins.append(ax.twinx())
        aleatoric_std = np.array([epoch.noise_std for epoch in history])  # a line per target
        names = target_names(target)
        several = len(names) > 1
        labels = [
            f"noise std of {name} (right)" if several else "noise std (right)" for name in names
        ]
        noise = twins[1].plot(epochs, aleatoric_std, "s--", color=parts.VERMILLION, label=labels[0])
        for line, label, marker in zip(noise[1:], labels[1:], cycle("^vD*"), strict=False):
            line.set(label=label, marker=marker)
        if several and aleatoric_std.max() > 10.0 * aleatoric_std.min():  # they share one axis
            twins[1].set_yscale("log")
            twins[1].yaxis.set_major_formatter("{x:g}")
            twins[1].yaxis.set_minor_formatter(NullFormatter())
        lines += noise
        of = "each target" if several else names[0]
        twins[1].set_ylabel(f"noise std of {of}", color=parts.VERMILLION)
    for line in lines:
        line.set(markersize=4, markerfacecolor="none", markevery=max(1, len(epochs) // 40))
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
    ax.set(xlabel="epoch", ylabel="mean log Z [nats per row]")
    ax.yaxis.label.set_color(parts.BLUE)
    parts.plain_numbers(*twins)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    parts.legend_above(twins, lines)
    return ax


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
    """
    ax = parts.axes(ax)
    for layer, (m_w, v_w) in enumerate(zip(posterior.m_w, posterior.v_w, strict=True)):
        m, s = m_w.ravel(), np.sqrt(v_w.ravel())
        some = parts.some_rows(m.size, parts.MAX_POINTS)
        color, marker = parts.LAYERS[layer % len(parts.LAYERS)]
        share = 100 * np.mean(np.abs(m) > 2 * s)
        label = f"layer {layer + 1}: {share:.0f} % of {m.size:,} > 2 std"
        (marks,) = ax.plot(m[some], s[some], marker, color=color, markersize=4.5, label=label)
        marks.set(markeredgecolor="white", markeredgewidth=0.4)
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
    return parts.finish(ax, "mean of the weight (standardized units)", "std of the weight")


# ---- How the candidates of a cross-validated estimator were compared


_COLORS = [*parts.LAYERS, (parts.SKY, "P"), ("#555555", "X"), ("#999933", "<"), ("#882255", ">")]
_STYLES = ("-", "--", ":", "-.")
_NOISE = {"auto": "", "constant": ", constant noise", "input": ", noise network"}
_GREY = "#777777"
_BELOW = 4.0  # times the distance of the median from the best is what the axis shows


def candidate_curves(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the calibrated out-of-fold log-likelihood against the epochs, for every candidate.

    Colors and markers tell encodings, layers, powers of the target and kinds of noise apart, line
    styles tell evidence caps; "32 ramps, 50 + 50, logarithm" has piecewise-linear encoding with 32
    bins and two layers of 50 units, and predicts the logarithm of the target. Rings mark the
    stacked candidates. Curves far below the others are cut off by the axis.

    Parameters
    ----------
    model : PBPRegressorCV or PBPClassifierCV
        A fitted estimator.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from probprop import PBPRegressorCV
    >>> x = np.linspace(-1.0, 1.0, 40)
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(x[:, None], x**3)
    >>> ax = candidate_curves(model)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['raw, 48', '16 ramps, 48', 'stacked']
    >>> plt.close(ax.figure)
    """
    curves: list[Trial] = [trial for trial in model.trials_ if trial.n_epochs]
    forms = {_form_in_words(trial.candidate): trial.candidate for trial in curves}  # in their order
    evidence_caps = list(dict.fromkeys(trial.candidate.evidence_cap for trial in curves))
    ax = parts.axes(ax)
    for trial in curves:
        candidate = trial.candidate
        at = list(forms).index(_form_in_words(candidate))
        color, marker = _COLORS[at % len(_COLORS)]
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
    ax.set(xlabel="epochs", ylabel="held-out log-likelihood [nats per row]")
    ax.dataLim.intervaly = _lowest(curves), ax.dataLim.y1
    keys = []
    for (color, marker), candidate in zip(cycle(_COLORS), forms.values(), strict=False):
        label = _form_in_words(candidate)
        keys.append(Line2D([], [], color=color, marker=marker, markersize=4, label=label))
    if len(evidence_caps) > 1:
        for style, evidence_cap in zip(cycle(_STYLES), evidence_caps, strict=False):
            keys.append(
                Line2D([], [], color=_GREY, ls=style, label=_evidence_cap_in_words(evidence_cap))
            )
    parts.legend_above([ax], [*keys, ring])
    return ax


def candidate_in_words(candidate: Candidate) -> str:
    """Return a candidate in a few words: encoding, units of its layers, power, noise, evidence cap.

    >>> from probprop import Candidate
    >>> candidate_in_words(Candidate(32, (50, 50), 10.0)), candidate_in_words(Candidate(power=0.5))
    ('32 ramps, 50 + 50, evidence cap 10', 'raw, 50, square root, no cap')
    """
    return f"{_form_in_words(candidate)}, {_evidence_cap_in_words(candidate.evidence_cap)}"


def _form_in_words(candidate: Candidate) -> str:
    encoding = "raw" if candidate.n_bins is None else f"{candidate.n_bins} ramps"
    layers = " + ".join(map(str, candidate.layers)) or "linear"
    power = "" if candidate.power is None else f", {power_name(candidate.power)}"
    prior = "" if candidate.prior == "shared" else ", per column"
    exact = "" if candidate.output_layer == "mean_field" else ", exact"
    return f"{encoding}, {layers}{prior}{exact}{power}{_NOISE[candidate.noise]}"


def _evidence_cap_in_words(evidence_cap: float | None) -> str:
    return "no cap" if evidence_cap is None else f"evidence cap {evidence_cap:g}"


def _lowest(curves: Sequence[Trial]) -> float:
    """Return where the axis ends below: the better half decides, not the worst points."""
    best = [max(trial.means) for trial in curves]
    lowest = min(value for trial in curves for value in trial.means)
    spread = max(best) - float(np.median(best))
    return max(lowest, max(best) - _BELOW * spread) if spread > 0.0 else lowest
