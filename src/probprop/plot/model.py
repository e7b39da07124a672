"""What a model has learned, and how."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from probprop.inference.posterior import Epoch, Posterior
from probprop.plot.parts import (
    BLUE,
    LAYERS,
    MAX_POINTS,
    VERMILLION,
    axes,
    finish,
    legend_above,
    plain_numbers,
    some_rows,
)
from probprop.table.names import target_names


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
        aleatoric_std = np.array([epoch.noise_std for epoch in history])  # a line per target
        names = target_names(target)
        several = len(names) > 1
        labels = [
            f"noise std of {name} (right)" if several else "noise std (right)" for name in names
        ]
        noise = twins[1].plot(epochs, aleatoric_std, "s--", color=VERMILLION, label=labels[0])
        for line, label, marker in zip(noise[1:], labels[1:], cycle("^vD*"), strict=False):
            line.set(label=label, marker=marker)
        if several and aleatoric_std.max() > 10.0 * aleatoric_std.min():  # they share one axis
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
    plain_numbers(*twins)
    ax.xaxis.set_major_formatter("{x:,.0f}")
    legend_above(twins, lines)
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
