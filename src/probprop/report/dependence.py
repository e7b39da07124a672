"""What the predictions depend on: the columns of a table, a ranking of them, a panel for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from textwrap import wrap
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from probprop._types import Array, FloatArray
from probprop.estimators.kind import classes_of
from probprop.facts import OUT_OF_FOLD, HeldOut, cell, cut, number, percent
from probprop.metrics.importance import Importance, permutation_importance
from probprop.plot.parts import BLUE, LAYERS, NARROW, some_rows
from probprop.report.document import Picture, Section, axis_label, picture
from probprop.table.columns import Kind, booleans, numbers
from probprop.table.encoding import ColumnEncoder, TableEncoder
from probprop.table.model import TableModel

# ---- The columns of a table, and where each is among the inputs of a network


_MOST_CATEGORIES = 12  # that have a mark
_FEW_NUMBERS = 10  # different ones that have a mark each, instead of a curve
_STEPS = {"number": 50, "date": 40}  # of a curve


@dataclass(frozen=True, eq=False)
class Column:
    """One column of a table: what it holds, how far it goes, and its place in X."""

    name: str
    place: tuple[int, ...]  # columns of X: one, or one per category or part of a date
    encoder: ColumnEncoder
    cells: pd.Series  # present cells as values of its kind, in the order of X

    @property
    def kind(self) -> Kind:
        """What it holds: ``"number"``, ``"boolean"``, ``"date"`` or ``"text"``."""
        return self.encoder.kind

    @property
    def is_curve(self) -> bool:
        """Whether there is something between two values: not for categories or few numbers."""
        if self.kind == "number":
            return int(self.cells.nunique()) > _FEW_NUMBERS
        return self.kind == "date" and self.cells.nunique() > 1

    @property
    def values(self) -> list[Any]:
        """The different cells: categories by how frequent they are, the others in order."""
        if self.kind == "text":
            return [str(v) for v in self.cells.value_counts(sort=True).index]
        return sorted(self.cells.unique().tolist())

    def encode(self, values: Sequence[Any]) -> FloatArray:
        """Return cells (numbers, true and false, dates or texts) as in X, (n, len(place))."""
        return self.encoder.encode(pd.Series(list(values)))

    def steps(self, n_rows: int) -> tuple[list[Any], FloatArray]:
        """Return values along the column, and what X is set to there, (n_values, n_rows or 1, m).

        For categories, these are the 12 most frequent. Curves of numbers go from the first to the
        last percentile. The year, month, day and hour of a date change together, so each row has
        its own date within half a step.
        """
        if not self.is_curve:
            at = self.values[:_MOST_CATEGORIES] if self.kind == "text" else self.values
            return at, self.encode(at)[:, np.newaxis]
        low, high = self.cells.min(), self.cells.max()
        if self.kind == "number":
            first, last = np.quantile(self.cells, [0.01, 0.99])
            grid = np.linspace(*((first, last) if first < last else (low, high)), _STEPS["number"])
            return grid.tolist(), grid[:, np.newaxis, np.newaxis]
        width = (high - low) / _STEPS["date"]
        starts = [low + i * width for i in range(_STEPS["date"])]
        offsets = pd.TimedeltaIndex([width * ((j + 0.5) / n_rows) for j in range(n_rows)])
        each = [self.encode(list(start + offsets)) for start in starts]
        return [start + 0.5 * width for start in starts], np.stack(each)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a table: their cells, and the inputs of a network."""

    X: Array  # (n, n_features)
    table: pd.DataFrame  # the cells, (n, n_columns)
    columns: list[Column]
    numbers: Array  # names of the rows, (n,)

    @property
    def places(self) -> dict[str, tuple[int, ...]]:
        """The columns of X of each column that has any cell."""
        return {column.name: column.place for column in self.columns if len(column.cells)}


def rows_of(model: TableModel, frame: pd.DataFrame, X: Array) -> Rows:
    """Put together what is known of the rows of a frame, whose index counts them from 0."""
    cells = model.cells(frame)
    return Rows(X, cells, columns_of_table(model.encoder, cells), np.asarray(frame.index) + 1)


def columns_of_table(encoder: TableEncoder, table: pd.DataFrame) -> list[Column]:
    """Return the columns of a table, (n, n_columns), that an encoder turns into X, in their order.

    Missing cells are NA. A category that the encoder does not know counts as a missing cell.
    """
    places = encoder.places
    return [
        Column(each.name, tuple(places[each.name]), each, _values(each, table[each.name]))
        for each in encoder.used
    ]


def _values(encoder: ColumnEncoder, column: pd.Series) -> pd.Series:
    """Return cells that are there as values of their kind."""
    there = column.dropna()
    match encoder.kind:
        case "number":
            return pd.Series(numbers(encoder.name, there))
        case "boolean":
            return pd.Series(booleans(encoder.name, there)).astype(bool)
        case "date":
            return pd.Series(encoder.dates(there))
        case _:
            level = encoder.level_of(column)
            return pd.Series(np.array(encoder.levels, object)[level[level >= 0]])


# ---- One panel for each column


MOST_PANELS = 12
_MOST_CLASSES = 5  # with a line each
_AVERAGED = 200  # rows, at most; fewer for wide tables
_LONGEST = 18  # letters of a category
_SLANTED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}


class Panel(NamedTuple):
    """What is predicted on average along one column."""

    column: Column
    at: list[Any]  # its values: numbers, dates, true and false, or categories
    mean: FloatArray  # of each target, or the probability of each class, (n_values, K)
    std: FloatArray | None  # epistemic, of each target, (n_values, K); None for classes


def averaged(X: Array) -> Array:
    """Return a random choice of rows of X, (n, n_features), fewer of them for wide tables."""
    return X[some_rows(len(X), max(20, _AVERAGED * 100 // max(100, X.shape[1])))]


def panel_of(model: Any, X: Array, column: Column) -> Panel:
    """Set one column of the rows X, (n, n_features), to its values, and average the predictions."""
    at, values = column.steps(len(X))
    moved = np.tile(X, (len(at), 1, 1))
    moved[:, :, column.place] = values
    predicted = model.predict_distribution(moved.reshape(-1, X.shape[1]))

    def mean(per_row: FloatArray) -> FloatArray:
        return np.asarray(per_row.reshape(len(at), len(X), -1).mean(axis=1))

    if classes_of(model) is not None:
        return Panel(column, at, mean(predicted.proba), None)
    return Panel(column, at, mean(predicted.mean), mean(predicted.epistemic_std))


def panels_section(
    panels: Sequence[Panel], rows: Rows, outputs: Mapping[int, str], target: str, of_classes: bool
) -> Section:
    """Draw one panel for each column, the most important first, all on one scale.

    `outputs` are the targets or classes that are drawn, by their place, with their words; `target`
    labels the vertical axis.
    """
    k = list(outputs)
    half = [0.0 if panel.std is None else 2.0 * panel.std[:, k] for panel in panels]
    low = min(float((p.mean[:, k] - h).min()) for p, h in zip(panels, half, strict=True))
    high = max(float((p.mean[:, k] + h).max()) for p, h in zip(panels, half, strict=True))
    margin = 0.05 * (high - low) or 1.0
    limits = (low - margin, high + margin)
    figures = [_drawn(panel, outputs, target, limits) for panel in panels]
    text = _words(panels, rows, outputs, of_classes)
    return Section("Partial dependence", text, figures=figures)


def classes_to_draw(classes: Sequence[object], y: Array) -> dict[int, str]:
    """Return the classes to draw, by their place: the second of two, or the most frequent."""
    if len(classes) == 2:
        return {1: str(classes[1])}
    order = np.argsort(-np.bincount(y, minlength=len(classes)), kind="stable")[:_MOST_CLASSES]
    return {int(k): str(classes[k]) for k in sorted(order)}


def _drawn(
    panel: Panel, outputs: Mapping[int, str], target: str, limits: tuple[float, float]
) -> Picture:
    column, of_classes, is_curve = panel.column, panel.std is None, panel.column.is_curve

    def draw(ax: Axes) -> None:
        x: Any = panel.at
        if column.kind in ("text", "boolean"):
            names, x = [_category(column, value) for value in x], np.arange(len(x))
            ax.set_xticks(x, names, **({} if len("".join(names)) <= 30 else _SLANTED))
        style: dict[str, Any] = {"lw": 2, "markevery": max(1, len(x) // 8)}
        style = style if is_curve else {"ls": ":", "lw": 1.5}
        for (k, words), (color, marker) in zip(outputs.items(), cycle(LAYERS), strict=False):
            shape = "" if is_curve and len(outputs) == 1 else marker
            mean = panel.mean[:, k]
            ax.plot(x, mean, color=color, marker=shape, label=axis_label(words), **style)
            if panel.std is not None and is_curve:
                ends = mean + np.array([[-2.0], [2.0]]) * panel.std[:, k]
                ax.fill_between(x, *ends, color=NARROW, alpha=0.5, lw=0)
            elif panel.std is not None:
                ax.errorbar(x, mean, 2.0 * panel.std[:, k], fmt="none", ecolor=BLUE, lw=1.5)
        if len(outputs) > 1:  # the text says what one line and its band are
            legend: dict[str, Any] = {"ncols": 3, "fontsize": 9, "frameon": False}
            cast(Figure, ax.figure).legend(loc="outside upper center", **legend)
        ax.set(xlabel=axis_label(column.name), ylabel=target, ylim=limits)
        if of_classes:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0))
        ax.margins(x=0.0 if is_curve else 0.08)
        if column.kind == "number":
            ax.locator_params("x", integer=all(float(value).is_integer() for value in panel.at))

    first, of = next(iter(outputs.items()))
    mean, write = panel.mean[:, first], percent if of_classes else number
    extremes = " and ".join(
        f"{word} {write(float(mean[i]))} at {cell(panel.at[i])}"
        for word, i in (("lowest", mean.argmin()), ("highest", mean.argmax()))
    )
    what = f"Probability of {', '.join(outputs.values())}" if of_classes else f"Predicted {of}"
    subject = f"The probability of {of}" if of_classes else f"On average {of}"
    alt = f"{what} for different values of {column.name}"
    return picture(draw, alt, f"{subject} is {extremes}.")


def _category(column: Column, value: object) -> str:
    """Name a category, with the number of its rows."""
    n = int((column.cells == value).sum())
    return f"{cut(' '.join(cell(value).split()), _LONGEST)} ({n:,})"


def _words(
    panels: Sequence[Panel], rows: Rows, outputs: Mapping[int, str], of_classes: bool
) -> str:
    """Say what the panels show, and what is not shown."""
    n_averaged, n_columns = len(averaged(rows.X)), len(rows.columns)
    what = "probability" if of_classes else "prediction"
    text = (
        "Each panel shows the partial dependence on a column, the most important first: line and "
        f"marks are the average {what} over {n_averaged:,} samples, with this column set to the "
        "value shown and all other columns unchanged. "
    )
    if not of_classes:
        text += "Band and bars are ±2 epistemic standard deviations, without the noise. "
    elif len(outputs) > 1:
        text += f"The lines are the classes {', '.join(outputs.values())}. "
    kinds = {panel.column.kind for panel in panels}
    if "date" in kinds:
        text += "All parts of a date (year, season, weekday, hour) change together. "
    if "text" in kinds:
        text += f"The {_MOST_CATEGORIES} most frequent categories are shown, with their counts. "
    if n_columns > len(panels):
        text += f"The {len(panels)} most important of {n_columns:,} columns are shown. "
    return text + "Partial dependence is not a causal effect."


# ---- Of a model


class Depends(NamedTuple):
    """Which columns the predictions of a target depend on."""

    names: tuple[str, ...]  # columns, the most important first
    sections: list[Section]  # the ranking, and the panels


def depending(
    model: Any, rows: Rows, y: Array, targets: Sequence[str], held_out: HeldOut
) -> list[Depends]:
    """Rank the columns on the rows of a report, and draw how predictions depend on each.

    `y` has shape (n,), or (n, K) for several targets; classes have one target. Out-of-fold rows are
    ranked by networks that were not trained on them; the panels show the whole model.
    """
    if not rows.places:  # all values are missing
        return [Depends((), []) for _ in targets]
    classes = classes_of(model)
    oof = held_out == OUT_OF_FOLD
    ranked = permutation_importance(model, rows.X, y, rows.places, out_of_fold=oof)
    drawn = {name for found in ranked for name in found.names[:MOST_PANELS]}
    some = averaged(rows.X)
    panels = {c.name: panel_of(model, some, c) for c in rows.columns if c.name in drawn}
    made = []
    for k, (target, found) in enumerate(zip(targets, ranked, strict=True)):
        outputs, label = {k: target}, f"predicted {axis_label(target)}"
        if classes is not None:
            outputs = classes_to_draw(classes.tolist(), np.searchsorted(classes, y))
            label = "probability"
            if len(classes) == 2:
                label = f"probability of {axis_label(outputs[1])}"
        own = [panels[name] for name in found.names[:MOST_PANELS]]
        ranking = importance_section(found, held_out, classes is not None)
        drawn_panels = panels_section(own, rows, outputs, label, classes is not None)
        made.append(Depends(found.names, [ranking, drawn_panels]))
    return made


# ---- Which columns matter most: what is lost where the cells of one are shuffled


_MOST = 15  # columns shown


def importance_section(found: Importance, held_out: HeldOut, of_classes: bool) -> Section:
    """Show which columns matter most on the rows of the report, as a chart and a table."""
    n_repeats = found.loss.shape[1]
    kinds = {
        OUT_OF_FOLD: "out-of-fold samples",
        True: "test samples",
        False: "training samples",
        None: "samples",
    }
    of = "log-loss rises" if of_classes else "log-likelihood falls"
    text = (
        f"Permutation importance on {found.n_rows:,} {kinds[held_out]}: by how much the mean {of} "
        "if the values of one column are shuffled, in nats per sample. Each column was shuffled "
        f"{n_repeats} times; ± is the standard deviation over the repetitions. Correlated "
        "columns are ranked low, because each can replace the other."
    )
    if found.n_columns > len(found.names):
        text += (
            f" Only these of {found.n_columns:,} columns were ranked: groups of columns were "
            "shuffled first, and the least important groups were not examined further."
        )
    shown = len(found.names[:_MOST])
    if shown < len(found.names):
        text += f" The first {shown} are shown."
    other = "Accuracy falls by" if of_classes else "RMSE rises by"
    header = ["Column", f"{of.capitalize()} by", other]
    share = 100.0 if of_classes else 1.0
    table = [
        [name, _spread(loss), _spread(share * error) + (" %" if of_classes else "")]
        for name, loss, error in zip(found.names, found.loss, found.error, strict=True)
    ][:shown]

    def draw(ax: Axes) -> None:
        names = ["\n".join(wrap(axis_label(name), 20)) for name in found.names[:shown]]
        at, mean, std = np.arange(shown), found.loss.mean(axis=1), found.loss.std(axis=1, ddof=1)
        ax.errorbar(mean[:shown], at, xerr=std[:shown], fmt="o", color=BLUE, markersize=5)
        ax.axvline(0.0, color="black", lw=1)
        ax.set_yticks(at, names)
        ax.invert_yaxis()
        ax.set(xlabel=f"{of} by [nats per sample]", ylabel="column")

    drawn = picture(
        draw,
        f"By how much the {of} if a column is shuffled",
        f"Most important is {found.names[0]}: {table[0][1]}.",
    )
    return Section("Feature importance", text, (header, table), [drawn])


def _spread(values: FloatArray) -> str:
    """Write the mean of repetitions and their standard deviation."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    largest = max(abs(mean), spread)
    decimals = 0 if largest == 0.0 else max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{mean:,.{decimals}f} ± {spread:,.{decimals}f}".replace("-", "−")
