"""How the candidates of a cross-validated estimator were compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator

from probprop.plot.parts import LAYERS, SKY, axes, legend_above

if TYPE_CHECKING:
    from probprop.estimators.cv.policy import Candidate
    from probprop.estimators.cv.search import CandidateCurve, CVChoice

_COLOURS = [*LAYERS, (SKY, "P"), ("#555555", "X"), ("#999933", "<"), ("#882255", ">")]
_STYLES = ("-", "--", ":", "-.")
_NOISE = {"auto": "", "constant": ", constant noise", "input": ", noise network"}
_GREY = "#777777"
_BELOW = 4.0  # times the distance of the median from the best is what the axis shows


def candidate_curves(choice: CVChoice, *, ax: Axes | None = None) -> Axes:
    """Draw the calibrated log-likelihood of rows held out against the epochs, for every candidate.

    Colours and markers tell encodings, layers, powers of the target and kinds of noise that were
    asked for apart, line styles tell memories; "32 ramps, 50 + 50, logarithm" has 32 ramps beside
    each column and two layers of 50 units, and predicts the logarithm of the target. A ring is
    what was chosen. Curves far below the others are cut off by the axis.

    Parameters
    ----------
    choice : CVChoice
        ``choice_`` of a fitted `PBPRegressorCV` or `PBPClassifierCV`.
    ax : matplotlib.axes.Axes, default=None
        Where to draw; None is a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> import numpy as np
    >>> from probprop import PBPRegressorCV
    >>> x = np.linspace(-1.0, 1.0, 40)
    >>> model = PBPRegressorCV(budget="fast", random_state=0).fit(x[:, None], x**3)
    >>> ax = candidate_curves(model.choice_)
    >>> [text.get_text() for text in ax.get_legend().get_texts()]
    ['raw, 50', '32 ramps, 50', 'chosen']
    >>> plt.close(ax.figure)
    """
    curves = [curve for curve in choice.curves if curve.n_epochs]
    forms, memories = _different(curves, "form"), _different(curves, "memory")
    ax = axes(ax)
    for curve in curves:
        candidate = curve.candidate
        colour, marker = _COLOURS[forms.index(candidate.form) % len(_COLOURS)]
        style = _STYLES[memories.index(candidate.memory) % len(_STYLES)]
        (line,) = ax.plot(curve.n_epochs, curve.calibrated, ls=style, color=colour, lw=1.2)
        line.set(marker=marker, markersize=4, label=candidate_in_words(candidate))
    best = curves[[curve is choice.curves[choice.best] for curve in curves].index(True)]
    # On a cluster the networks of all rows may make other epochs than those of the sample.
    highest = best.calibrated.index(max(best.calibrated))
    made = choice.n_epochs if choice.n_epochs in best.n_epochs else best.n_epochs[highest]
    at = best.calibrated[best.n_epochs.index(made)]
    (ring,) = ax.plot(made, at, "ko", label="chosen")
    ring.set(markersize=10, markerfacecolor="none", markeredgewidth=1.5)
    epochs = sorted({n for curve in curves for n in curve.n_epochs})
    ax.set_xscale("log")
    ax.set_xticks(epochs, [f"{n:,}" for n in epochs])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set(xlabel="epochs", ylabel="held-out log-likelihood [nats per row]")
    lowest = _lowest(curves)
    ax.dataLim.intervaly = lowest, ax.dataLim.y1
    legend_above([ax], [*_keys(curves, forms, memories), ring])
    return ax


def candidate_in_words(candidate: Candidate) -> str:
    """Return a candidate in a few words: encoding, units of its layers, power, noise, memory.

    Examples
    --------
    >>> from probprop import Candidate
    >>> candidate_in_words(Candidate(32, (50, 50), 10.0)), candidate_in_words(Candidate())
    ('32 ramps, 50 + 50, memory 10', 'raw, 50, no bound')
    >>> candidate_in_words(Candidate(power=0.5))
    'raw, 50, square root, no bound'
    >>> candidate_in_words(Candidate(noise="constant"))
    'raw, 50, constant noise, no bound'
    """
    return f"{_form_in_words(candidate)}, {_memory_in_words(candidate.memory)}"


def _form_in_words(candidate: Candidate) -> str:
    encoding = "raw" if candidate.n_bins is None else f"{candidate.n_bins} ramps"
    layers = " + ".join(map(str, candidate.layers)) or "linear"
    power = "" if candidate.power is None else f", {_power_in_words(candidate.power)}"
    return f"{encoding}, {layers}{power}{_NOISE[candidate.noise]}"


def _power_in_words(power: float) -> str:
    return {0.0: "logarithm", 0.5: "square root"}.get(power, f"power {power:.3g}")


def _memory_in_words(memory: float | None) -> str:
    return "no bound" if memory is None else f"memory {memory:g}"


def _different(curves: Sequence[CandidateCurve], name: str) -> list[object]:
    """Return the different values of something that candidates have, in their order."""
    return list(dict.fromkeys(getattr(curve.candidate, name) for curve in curves))


def _lowest(curves: Sequence[CandidateCurve]) -> float:
    """Return where the axis ends below: the better half decides, not the worst points."""
    best = [max(curve.calibrated) for curve in curves]
    lowest = min(value for curve in curves for value in curve.calibrated)
    spread = max(best) - float(np.median(best))
    return max(lowest, max(best) - _BELOW * spread) if spread > 0.0 else lowest


def _keys(
    curves: Sequence[CandidateCurve], forms: list[object], memories: list[object]
) -> list[Line2D]:
    """Return the entries of the legend: a colour for each form, a style for each memory."""
    keys = []
    for i, form in enumerate(forms):
        colour, marker = _COLOURS[i % len(_COLOURS)]
        candidate = next(c.candidate for c in curves if c.candidate.form == form)
        label = _form_in_words(candidate)
        keys.append(Line2D([], [], color=colour, marker=marker, markersize=4, label=label))
    if len(memories) > 1:
        for i, style in zip(range(len(memories)), np.resize(_STYLES, len(memories)), strict=True):
            memory = next(c.candidate.memory for c in curves if c.candidate.memory == memories[i])
            keys.append(Line2D([], [], color=_GREY, ls=style, label=_memory_in_words(memory)))
    return keys
