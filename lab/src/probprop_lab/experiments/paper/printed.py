"""The numbers the paper prints, and how far ours are from them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from probprop_lab.experiments.harness.columns import Column, Record, signed, text, with_error


@dataclass(frozen=True)
class Printed:
    """A number as the paper prints it: text, so that its rounding is known.

    Parameters
    ----------
    text : str
        The mean.
    se_text : str or None, default=None
        Its standard error; None where the paper has none.

    Examples
    --------
    >>> print(Printed("3.014", "0.1800"), Printed("8.879"), sep="; ")
    3.014 ± 0.1800; 8.879
    """

    text: str
    se_text: str | None = None

    def __str__(self) -> str:
        return self.text if self.se_text is None else f"{self.text} ± {self.se_text}"

    @property
    def value(self) -> float:
        """The mean as a number."""
        return float(self.text)

    @property
    def se(self) -> float:
        """The standard error as a number; 0 where there is none."""
        return 0.0 if self.se_text is None else float(self.se_text)

    @property
    def half_unit(self) -> float:
        """Half a unit of the last digit: how far the mean may be from what was rounded."""
        return 0.5 * 10.0 ** -len(self.text.partition(".")[2])

    def difference(self, mean: float, se: float | None) -> float | None:
        """Return (mean - printed) in combined standard errors.

        The printed mean is rounded, so the distance is taken to the nearest number which would
        have been printed so; for one of few digits (naval's 0.006 ± 0.0000) all else would
        compare the rounding. None where one side has no standard error.

        Examples
        --------
        >>> Printed("3.014", "0.1800").difference(3.2, 0.18)
        0.728...
        >>> Printed("0.006", "0.0000").difference(0.00566, 3e-5)
        0.0
        """
        if se is None or self.se_text is None or not math.hypot(se, self.se) > 0.0:
            return None
        combined = math.hypot(se, self.se)
        distance = mean - self.value
        return math.copysign(max(0.0, abs(distance) - self.half_unit), distance) / combined + 0.0


@cache
def _numbers() -> dict[str, Any]:
    source = resources.files("probprop_lab.experiments.paper").joinpath("printed.json")
    numbers: dict[str, Any] = json.loads(source.read_text(encoding="utf-8"))
    return numbers


def table1(dataset: str, measure: str, method: str = "PBP") -> Printed | None:
    """Return a cell of Table 1 of the main text; None where it has none.

    Parameters
    ----------
    dataset : str
    measure : {"rmse", "log_likelihood", "seconds"}
        Seconds are the average running time of one fit.
    method : str, default="PBP"
        The table has PBP, VI and BP, the latter without log-likelihood.

    Examples
    --------
    >>> print(table1("protein", "rmse"), table1("protein", "seconds", "VI"), sep="; ")
    4.732 ± 0.0130; 7691
    >>> table1("protein", "log_likelihood", "BP")
    """
    cell = _numbers()["table1"].get(method, {}).get(dataset, {}).get(measure)
    return None if cell is None else Printed(cell) if isinstance(cell, str) else Printed(*cell)


def deep(dataset: str, n_layers: int, method: str = "PBP") -> Printed | None:
    """Return a cell of Table 1 of the supplement: the RMSE with 1 to 4 hidden layers.

    None where it has none; it has PBP and BP.

    Examples
    --------
    >>> print(deep("protein", 1), deep("protein", 4, "BP"), sep="; ")
    4.688 ± 0.0115; 3.960 ± 0.0110
    """
    cells = _numbers()["deep"].get(method, {}).get(dataset)
    return None if cells is None else Printed(*cells[n_layers - 1])


def active(dataset: str, method: str) -> Printed | None:
    """Return a cell of Table 2 of the main text: the RMSE at the end of active learning.

    None where it has none; it has PBP, HMC, EP and LA, each with -A or -R after it, and all
    sets but Year.

    Examples
    --------
    >>> print(active("yacht", "PBP-A"), active("yacht", "HMC-R"), sep="; ")
    4.058 ± 0.158; 4.644 ± 0.237
    """
    cell = _numbers()["active"].get(method, {}).get(dataset)
    return None if cell is None else Printed(*cell)


def compare(record: Record, name: str, printed: Printed | None) -> Record:
    """Return the printed value next to ours and the difference in combined standard errors."""
    if printed is None:
        return {f"{name}_paper": None, f"{name}_difference": None}
    return {
        f"{name}_paper": str(printed),
        f"{name}_difference": printed.difference(record[name], record[f"{name}_se"]),
    }


def columns(measure: str, title: str, group: str) -> list[Column]:
    """Return the columns of a measure: ours, the paper's, and how far apart they are.

    Parameters
    ----------
    measure : str
        Its key in a record that `compare` completed.
    title : str
        Title of our column.
    group : str
        See `Column`.
    """
    return [
        Column(title, with_error(measure), group),
        Column("paper", text(f"{measure}_paper"), group),
        Column("Δ", signed(f"{measure}_difference"), group),
    ]


def meaning(over: str) -> str:
    """Describe these columns, of means over splits or repetitions."""
    return (
        f"mean ± standard error over the {over}, in target units; Δ: ours minus the paper's, in "
        "combined standard errors, from the nearest number that rounds to what is printed"
    )
