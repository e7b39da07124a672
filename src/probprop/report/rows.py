"""The rows a reader should look at: those furthest off, and those least certain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import norm

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.report.columns import Rows
from probprop.report.document import Section
from probprop.report.facts import cell, number
from probprop.report.parts import percent

_SHOWN = 10  # rows
_CELLS = 6  # columns of the table beside them


def worst_section(
    y: FloatArray, predictive: TargetDistribution, rows: Rows, important: Sequence[str]
) -> Section:
    """Show the rows whose y, (n,), is most standard deviations from what was predicted."""
    mean, std = predictive.mean, predictive.std
    with np.errstate(divide="ignore", invalid="ignore"):  # a std of 0: the target is surely 0
        off = np.where(y == mean, 0.0, (y - mean) / std)
    worst = np.argsort(-np.abs(off), kind="stable")[:_SHOWN]
    names = list(important[:_CELLS])
    table = [
        [
            str(rows.numbers[i]),
            number(float(y[i]), float(std[i])),
            number(float(mean[i]), float(std[i])),
            number(float(std[i])),
            f"{off[i]:+,.1f}".replace("-", "−"),
            *_cells(rows, i, names),
        ]
        for i in worst
    ]
    n = len(y)
    by_chance = norm.ppf(0.5 * (1.0 + 0.5 ** (1.0 / n)))  # median of the largest of n
    text = (
        "Rows whose observed value is furthest from the prediction, counted in the standard "
        f"deviations (std) of its error bar. Among {n:,} rows with honest Gaussian error bars the "
        f"largest is about {by_chance:.1f}. Larger ones are worth a look: wrong cells, or rows "
        f"unlike those the model learned from.{_which(rows, names)}"
    )
    header = ["Row", "Observed", "Predicted", "Std", "Off by [std]", *names]
    return Section("The rows furthest off", text, (header, table), names_rows=True)


def uncertain_section(
    index: Array,
    predictive: ClassMixture,
    classes: Array,
    rows: Rows,
    important: Sequence[str],
) -> Section:
    """Show the rows with the least certain class, and how much of that more data could settle.

    `index`, (n,), is the place of each row's class in `classes`.
    """
    least = np.argsort(-predictive.entropy, kind="stable")[:_SHOWN]
    shown = predictive[least]
    guessed, proba = shown.proba.argmax(axis=1), shown.proba.max(axis=1)
    unknown = shown.entropy_model / np.maximum(shown.entropy, 1e-300)
    names = list(important[:_CELLS])
    table = [
        [
            str(rows.numbers[i]),
            str(classes[index[i]]),
            f"{classes[guessed[j]]}, {percent(float(proba[j]))}",
            number(float(shown.entropy[j])),
            percent(float(unknown[j])),
            *_cells(rows, i, names),
        ]
        for j, i in enumerate(least)
    ]
    text = (
        f"Rows of the largest entropy, in nats: 0 is certain, {number(math.log(len(classes)))} all "
        "classes alike. Not known is the part of it that more data could remove; the rest is "
        f"classes that overlap.{_which(rows, names)}"
    )
    header = ["Row", "Observed", "Predicted", "Entropy", "Not known", *names]
    return Section("The least certain rows", text, (header, table), names_rows=True)


def _cells(rows: Rows, i: int, names: Sequence[str]) -> list[str]:
    return [cell(rows.table[name].iloc[i]) for name in names]


def _which(rows: Rows, names: Sequence[str]) -> str:
    """Say which cells are shown, where these are not all."""
    n = len(rows.columns)
    return f" Of their {n:,} cells the {len(names)} most important are shown." * (n > len(names))
