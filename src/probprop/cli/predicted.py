"""Predictions as columns of a table: their names, their values and their digits."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import typer

from probprop.cli.arguments import column_names

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop._types import FloatArray
    from probprop.table import TableModel


def added_columns(model: TableModel) -> list[str]:
    """Return the names of the columns that predictions add."""
    if model.classes is None:
        from probprop.distributions.base import frame_columns

        return frame_columns(model.targets)
    return ["predicted_class", *(f"p_{name}" for name in model.classes)]


def check_not_there(data: str, added: Sequence[str], there: Collection[Any]) -> None:
    """Refuse a table that has a column which the predictions would overwrite."""
    if taken := [name for name in added if name in there]:
        raise ValueError(
            f"{data} already has a column {taken[0]!r}, which the predictions would overwrite: "
            "rename or remove it"
        )


def chosen_columns(asked: list[str] | None, there: Sequence[str]) -> list[str]:
    """Return the columns to write: those asked for, in that order, or all."""
    if asked is None:
        return list(there)
    names = list(dict.fromkeys(column_names(asked, there)))
    if absent := [name for name in names if name not in there]:
        raise typer.BadParameter(
            f"there is no column {absent[0]!r} in the table or among the predictions: they have "
            f"{listed_names(list(there), 20)}",
            param_hint="--columns",
        )
    return names


def predictions(frame: DataFrame, model: TableModel, level: float) -> DataFrame:
    """Return the predictions of rows, in the columns of `added_columns`."""
    import pandas as pd

    from probprop.table import UnknownCategoryWarning

    with warnings.catch_warnings():  # the rows are counted over all chunks
        warnings.simplefilter("ignore", UnknownCategoryWarning)
        predicted: Any = model.predict_distribution(frame)
    if model.classes is None:
        added = predicted.to_frame(model.targets, coverage=level)
    else:
        values = [predicted.most_probable(model.classes), *predicted.proba.T]
        added = pd.DataFrame(dict(zip(added_columns(model), values, strict=True)))
    return added.set_axis(frame.index)


def rounded(predicted: DataFrame, model: TableModel) -> DataFrame:
    """Return predictions with the digits that mean something.

    A standard deviation and a probability have four significant digits. Means and ends of
    intervals have as many decimals as their standard deviation, and at least four significant
    digits of their own.
    """
    import pandas as pd

    if model.classes is not None:
        places = {k: predicted[k].to_numpy() for k in predicted if predicted[k].dtype.kind == "f"}
    else:
        n = len(predicted.columns) // len(model.targets)
        of = {k: predicted.columns[n * (i // n) + 1] for i, k in enumerate(predicted)}  # its std
        own = ("std", "epistemic_std", "aleatoric_std")
        places = {
            k: predicted[k if k.endswith(own) else of[k]].to_numpy() for k in predicted.columns
        }
    columns = {
        k: _to_place(predicted[k].to_numpy(), places[k]) if k in places else predicted[k].to_numpy()
        for k in predicted
    }
    return pd.DataFrame(columns, index=predicted.index)


def _to_place(values: FloatArray, scale: FloatArray) -> FloatArray:
    """Round to the place of the fourth digit of `scale` or of the value, the finer one; (n,).

    >>> import numpy as np
    >>> _to_place(np.array([12345.67891, 12345.0, 1.5]), np.array([0.98765, 45000, 0.0])).tolist()
    [12345.6789, 12340.0, 1.5]
    >>> _to_place(np.array([7.654321, 0.0]), np.array([1.337e22, 1.337e22])).tolist()
    [7.654, 0.0]
    """
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        decimals = 3.0 - np.floor(np.log10(np.minimum(np.abs(values), scale)))
        power = 10.0 ** np.abs(decimals)
        up = np.round(values * power) / power
        down = np.round(values / power) * power
        result = np.where(decimals >= 0.0, up, down)
    return np.where(np.isfinite(result) & np.isfinite(decimals), result, values)


def listed_names(names: list[str], most: int = 6) -> str:
    """Return the first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
