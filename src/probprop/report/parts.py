"""What the sections of all reports have in common: pictures, training, weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import AutoLocator
from numpy.typing import ArrayLike
from sklearn.base import is_classifier

from probprop import plot
from probprop._types import Array
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.kind import (
    first_network,
    is_cross_validated,
    members,
    transformation_of,
)
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.posterior import Epoch
from probprop.plot.parts import counted_in, label_of, plain_numbers
from probprop.report.document import Picture, Section, figure
from probprop.report.facts import number, power_in_words
from probprop.table.names import in_words, target_names

Model = PBPRegressor | PBPClassifier | PBPEnsemble | PBPRegressorCV | PBPClassifierCV

SCORE_HEADER = ["Measure", "Value", "How to read it"]

_SIZE = (4.0, 3.2)  # inches, of every picture: its text is as large as the page's


def check_rows(
    X: ArrayLike, y: ArrayLike, feature_names: Sequence[str], n_targets: int = 1
) -> tuple[Array, list[str]]:
    """Return X, (n, n_features), and the names of its columns.

    y must have shape (n,), or (n, K) for several targets.
    """
    rows, shape, names = np.asarray(X), np.shape(y), [str(k) for k in feature_names]
    expected = rows.shape[:1] + (() if n_targets == 1 else (n_targets,))
    if rows.ndim != 2 or shape != expected or len(names) != rows.shape[1]:
        raise ValueError(
            "X must have one row per target and one column per feature name. Got X of shape "
            f"{rows.shape}, y of shape {shape} and {len(names)} names instead."
        )
    return rows, names


def picture(draw: Callable[[Axes], object], alt: str, description: str = "") -> Picture:
    """Draw on a figure of its own, which pyplot does not keep."""
    whole = Figure(figsize=_SIZE, layout="constrained")
    ax = whole.subplots()
    draw(ax)
    if isinstance(locator := ax.xaxis.get_major_locator(), AutoLocator):
        locator.set_params(nbins=5)  # labels such as 300,000 would touch
    plain_numbers(*whole.axes)
    for axis in (axis for each in whole.axes for axis in (each.xaxis, each.yaxis)):
        if unit := counted_in(axis):  # a word that belongs to what is counted
            axis.set_label_text(f"{axis.get_label_text()} [{unit}]")
            axis.get_offset_text().set_visible(False)
    return figure(ax, alt, description)


def axis_label(name: str) -> str:
    """Shorten a name for an axis."""
    return label_of(name, 40)


def training_section(model: Model, target: str | Sequence[str]) -> Section:
    """How training went, pass by pass."""
    network = first_network(model)
    has_noise = not is_classifier(network)
    text = "Mean log Z is how well each row was predicted just before the network learned from it; "
    text += "it should rise and level off." + _which(model)
    if has_noise:
        text += " The noise is what the network leaves unexplained"
        text += ", before calibration." if is_cross_validated(model) else "."
    targets = target_names(target)
    shown = f"Mean log Z and the noise of {in_words(targets)}" if has_noise else "Mean log Z"
    labels = [axis_label(name) for name in targets] if has_noise else None
    history: list[Epoch] = network.history_
    if (g := transformation_of(model)) is not None:
        at = f"{targets[0]} where it is {number(g.unit)}"
        text += f" Both are those of {power_in_words(g.power)}; the noise is shown as that of {at}."
        unit = g.unit * g.unit  # where y is the unit, dy = unit dz
        history = [e._replace(noise_variance=unit * e.noise_std[0] ** 2) for e in history]
    drawn = picture(
        lambda ax: plot.training_curve(history, target=labels, ax=ax),
        f"{shown} after each pass",
    )
    return Section("Training", text, figures=[drawn])


def weights_section(model: Model) -> Section:
    """What is known about the weights."""
    drawn = picture(
        lambda ax: plot.weight_posterior(first_network(model).posterior_, ax=ax),
        "Means and standard deviations of the weights in each layer",
    )
    return Section(
        "Weights",
        "The mean and the standard deviation of each weight of the network after training, layer "
        "by layer. A weight that the data say nothing about stays near zero, as wide as the "
        "prior; one below the dotted line is more than two standard deviations from zero."
        + _which(model),
        figures=[drawn],
    )


def _which(model: Model) -> str:
    n = len(members(model))
    return f" Shown is the first of the {n:,} networks." if n else ""


def percent(share: float) -> str:
    """Write a share between 0 and 1."""
    return f"{100.0 * share:.1f} %"
