"""What the predictions depend on: a ranking of the columns, and one panel for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.ticker import MaxNLocator, PercentFormatter

from probprop import plot
from probprop._types import Array, FloatArray
from probprop.estimators.kind import classes_of
from probprop.metrics.importance import (
    Dependence,
    Importance,
    average_prediction,
    permutation_importance,
)
from probprop.plot.parts import cut, rows_to_average
from probprop.report.columns import Column, Rows
from probprop.report.document import Picture, Section
from probprop.report.facts import cell, number
from probprop.report.parts import axis_label, picture

MOST_PANELS = 12
_MOST_CLASSES = 5  # with a line each
_AVERAGED = 200  # rows, at most; fewer for wide tables
_LONGEST = 18  # letters of a category


@dataclass(frozen=True, eq=False)
class Panel:
    """What is predicted along one column."""

    column: Column
    at: list[Any]  # its values: numbers, dates, true and false, or categories
    found: Dependence  # predictions there, of all targets or classes


def panel_of(model: Any, X: Array, column: Column) -> Panel:
    """Set one column of the rows X, (n, n_features), to its values, and average the predictions."""
    if column.is_curve:
        at, values = column.steps(len(X))
    else:
        at = column.marks()
        values = column.encode(at)
    return Panel(column, at, average_prediction(model, X, column.place, values))


def panels_section(
    panels: Sequence[Panel],
    rows: Rows,
    *,
    outputs: Mapping[int, str],
    target: str,
    of_classes: bool,
) -> Section:
    """Draw one panel for each column, the most important first, all on one scale.

    `outputs` are the targets or classes that are drawn, by their place, with their words; `target`
    labels the vertical axis.
    """
    ends = [end for panel in panels for end in _ends(panel.found, list(outputs))]
    margin = 0.05 * (max(ends) - min(ends)) or 1.0
    limits = (min(ends) - margin, max(ends) + margin)
    figures = [_drawn(panel, outputs, target, limits, of_classes) for panel in panels]
    text = _words(panels, rows, outputs, of_classes)
    return Section("What the predictions depend on", text, figures=figures)


def classes_to_draw(classes: Sequence[object], y: Array) -> dict[int, str]:
    """Return the classes that are drawn, by their place: the second of two, or the frequent ones.

    >>> classes_to_draw(["no", "yes"], np.array([0, 1]))
    {1: 'yes'}
    """
    if len(classes) == 2:
        return {1: str(classes[1])}
    order = np.argsort(-np.bincount(y, minlength=len(classes)), kind="stable")[:_MOST_CLASSES]
    return {int(k): str(classes[k]) for k in sorted(order)}


def _ends(found: Dependence, outputs: list[int]) -> list[float]:
    parts = [found.mean] if found.low is None or len(outputs) > 1 else [found.low, found.high]
    return [
        float(f(part[:, outputs])) for part in parts if part is not None for f in (np.min, np.max)
    ]


def _drawn(
    panel: Panel,
    outputs: Mapping[int, str],
    target: str,
    limits: tuple[float, float],
    of_classes: bool,
) -> Picture:
    column = panel.column
    label = axis_label(column.name)
    legend = {k: axis_label(words) for k, words in outputs.items()}
    horizontal = column.kind in ("text", "boolean")

    def draw(ax: Axes) -> None:
        options: dict[str, Any] = {"outputs": legend, "name": label, "target": target, "ax": ax}
        if horizontal:
            names = [_category(column, value) for value in panel.at]
            plot.dependence_marks(names, panel.found, **options)
        else:
            cells = column.cells.to_numpy()
            plot.dependence_curve(
                panel.at, panel.found, rows=cells, marks=not column.is_curve, **options
            )
        cast(Legend, ax.get_legend()).remove()
        if len(outputs) > 1:  # the text says what one line and its band are
            cast(Figure, ax.figure).legend(
                *ax.get_legend_handles_labels(),
                loc="outside upper center",
                ncols=3,
                fontsize=9,
                frameon=False,
            )
        axis = ax.xaxis if horizontal else ax.yaxis
        (ax.set_xlim if horizontal else ax.set_ylim)(*limits)
        if horizontal:
            ax.set_ylim(len(panel.at) - 0.5, -0.5)
        if of_classes:
            axis.set_major_formatter(PercentFormatter(1.0))
        axis.set_major_locator(MaxNLocator(3 if horizontal else 6))
        if column.kind == "number":
            ax.margins(x=0.0 if column.is_curve else 0.08)
            whole = all(float(value).is_integer() for value in panel.at)
            ax.xaxis.set_major_locator(MaxNLocator(5, integer=whole))
        elif column.kind == "date":
            locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_locator(locator)
            formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
            ax.xaxis.set_major_formatter(formatter)

    mean = panel.found.mean[:, list(outputs)]
    low, high = mean[:, 0].argmin(), mean[:, 0].argmax()
    of = next(iter(outputs.values()))
    write = (lambda v: f"{100 * v:.1f} %") if of_classes else number
    extremes = " and ".join(
        f"{word} {write(float(mean[i, 0]))} at {cell(panel.at[i])}"
        for word, i in (("lowest", low), ("highest", high))
    )
    what = f"Probability of {', '.join(outputs.values())}" if of_classes else f"Predicted {of}"
    return picture(
        draw,
        f"{what} for different values of {column.name}",
        f"On average {of} is {extremes}." if not of_classes else f"That of {of} is {extremes}.",
    )


def _category(column: Column, value: object) -> str:
    """Name a category, with the number of its rows."""
    n = int((column.cells == value).sum())
    return f"{cut(' '.join(cell(value).split()), _LONGEST)} ({n:,})"


def _words(
    panels: Sequence[Panel], rows: Rows, outputs: Mapping[int, str], of_classes: bool
) -> str:
    """Say what the panels show, and what was left out."""
    n_averaged, n_columns = len(rows_to_average(rows.X, _AVERAGED)), len(rows.columns)
    what = "probability" if of_classes else "prediction"
    band = "the band, or the bar, is two standard deviations of what the model does not know, "
    band += "without the noise"
    if of_classes:
        band = "the band, or the bar, is where the probability goes if the network's output is two "
        band += "standard deviations of what it does not know lower or higher"
    text = (
        "Each panel is a column of the table, the most important first. Line and marks are the "
        f"average {what} if that column alone is set to the value shown, in each of {n_averaged:,} "
        "rows, and all other columns are left as they are"
    )
    text += f"; {band}. " if len(outputs) == 1 else ". "
    kinds = {panel.column.kind for panel in panels}
    if kinds & {"text", "boolean"}:
        text += "Categories have a mark each, with the number of their rows. "
    if "date" in kinds:
        text += "Of a date, year, month, day and time of day move together; each point averages "
        text += "over the days around it. "
    if kinds & {"number", "date"}:
        text += "Ticks at the bottom are rows. "
    if len(panels) > 1:
        text += "All panels have the same scale. "
    if hidden := [
        p.column for p in panels if len(p.column.values) > len(p.at) and not p.column.is_curve
    ]:
        each = ", ".join(f"{c.name} ({len(c.values):,})" for c in hidden)
        text += f"Of columns with many categories the most frequent are shown: {each}. "
    if of_classes and len(outputs) > 1:
        text += f"The lines are the classes {', '.join(outputs.values())}. "
    if n_columns > len(panels):
        text += f"The {len(panels)} most important of {n_columns:,} columns are shown. "
    return text + "It shows what the network learned, not what causes what."


# ---- Of a model


@dataclass(frozen=True, eq=False)
class Depends:
    """Which columns the predictions of a target depend on."""

    names: tuple[str, ...]  # columns, the most important first
    sections: list[Section]  # the ranking, and the panels


def depending(
    model: Any, rows: Rows, y: Array, targets: Sequence[str], held_out: bool | None
) -> list[Depends]:
    """Rank the columns on the rows of a report, and draw how predictions depend on each.

    `y` has shape (n,), or (n, K) for several targets; classes have one target. `held_out` says
    whether the model had not seen the rows.
    """
    if not rows.places:  # nothing but gaps
        return [Depends((), []) for _ in targets]
    classes = classes_of(model)
    ranked = permutation_importance(model, rows.X, y, rows.places)
    drawn = {name for found in ranked for name in found.names[:MOST_PANELS]}
    some = rows_to_average(rows.X, _AVERAGED)
    panels = {c.name: panel_of(model, some, c) for c in rows.columns if c.name in drawn}
    made = []
    for k, (target, found) in enumerate(zip(targets, ranked, strict=True)):
        outputs, label = {k: target}, f"predicted {axis_label(target)}"
        if classes is not None:
            outputs = classes_to_draw(classes.tolist(), np.searchsorted(classes, y))
            label = (
                f"probability of {axis_label(outputs[1])}" if len(classes) == 2 else "probability"
            )
        own = [panels[name] for name in found.names[:MOST_PANELS]]
        sections = [
            importance_section(found, held_out, of_classes=classes is not None),
            panels_section(
                own, rows, outputs=outputs, target=label, of_classes=classes is not None
            ),
        ]
        made.append(Depends(found.names, sections))
    return made


# ---- Which columns matter most: what is lost where the cells of one are shuffled


_MOST = 15  # columns shown


def importance_section(found: Importance, held_out: bool | None, *, of_classes: bool) -> Section:
    """Show which columns matter most on the rows of the report, as a chart and a table."""
    n_repeats = found.loss.shape[1]
    rows = {True: "rows that the model had not seen", False: "training rows", None: "rows"}[
        held_out
    ]
    of = "log-loss rises" if of_classes else "log-likelihood falls"
    text = (
        f"How much worse the predictions of {found.n_rows:,} {rows} get when the cells of one "
        f"column are shuffled among them: by how much the mean {of}, in nats per row. Each column "
        f"was shuffled {n_repeats} times; ± is the standard deviation over these. A column that "
        "says the same as another is ranked low, since the other is still there."
    )
    if found.n_columns > len(found.names):
        text += (
            f" Of {found.n_columns:,} columns only these were ranked: they were left after groups "
            "of columns had been shuffled, and the groups that mattered least set aside."
        )
    shown = len(found.names[:_MOST])
    if shown < len(found.names):
        text += f" Shown are the first {shown}."
    other = "Accuracy falls by" if of_classes else "RMSE rises by"
    header = ["Column", f"{of.capitalize()} by", other]
    share = 100.0 if of_classes else 1.0
    table = [
        [name, _spread(loss), _spread(share * error) + (" %" if of_classes else "")]
        for name, loss, error in zip(found.names, found.loss, found.error, strict=True)
    ][:shown]
    drawn = picture(
        lambda ax: plot.importance(found, n=shown, label=f"{of} by [nats per row]", ax=ax),
        f"By how much the {of} where a column is shuffled",
        f"Most important is {found.names[0]}: {table[0][1]}.",
    )
    return Section("Which columns matter", text, (header, table), [drawn])


def _spread(values: FloatArray) -> str:
    """Write the mean of repetitions and their standard deviation."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    largest = max(abs(mean), spread)
    decimals = 0 if largest == 0.0 else max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{mean:,.{decimals}f} ± {spread:,.{decimals}f}".replace("-", "−")
