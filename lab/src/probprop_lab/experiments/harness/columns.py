"""The lines and columns of the tables that people read, and how numbers are shown in them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from probprop.cli import comparing

Record = dict[str, Any]
"""One line of an experiment's table: numbers in full, None where there is none."""

Table = tuple[list[str], list[list[str]]]
"""A header, and rows with one cell per column."""


@dataclass(frozen=True)
class Column:
    """A column of the table people read.

    Parameters
    ----------
    title : str
    show : callable
        From a `Record` to the text of the cell.
    group : str, default=""
        Where the page is narrow, the columns of a group are a table of their own; those
        without a group are in all of them.
    """

    title: str
    show: Callable[[Record], str]
    group: str = ""


def cells(columns: Sequence[Column], records: Sequence[Record]) -> Table:
    """Return the table of these columns, a row for each record."""
    return [c.title for c in columns], [[c.show(record) for c in columns] for record in records]


def number(key: str, digits: int = 4) -> Callable[[Record], str]:
    """Show a value with this number of significant digits.

    Examples
    --------
    >>> number("rmse")({"rmse": 3.01423}), number("rmse")({"rmse": None})
    ('3.014', '')
    """

    def show(record: Record) -> str:
        value = record[key]
        return "" if value is None else f"{value:.{digits}g}"

    return show


def with_error(key: str) -> Callable[[Record], str]:
    """Show a mean with its standard error, two digits of the latter.

    Examples
    --------
    >>> with_error("rmse")({"rmse": 3.01423, "rmse_se": 0.18})
    '3.01 ± 0.18'
    >>> with_error("rmse")({"rmse": 3.01423, "rmse_se": None})
    '3.014'
    """

    def show(record: Record) -> str:
        mean = record[key]
        return "" if mean is None else comparing.with_error(mean, record[f"{key}_se"])

    return show


def text(key: str) -> Callable[[Record], str]:
    """Show a value as it is; nothing for None."""
    return lambda record: "" if record[key] is None else str(record[key])


def signed(key: str) -> Callable[[Record], str]:
    """Show a difference in standard errors.

    Examples
    --------
    >>> signed("d")({"d": -0.042}), signed("d")({"d": None})
    ('-0.0', '')
    """
    return lambda record: "" if record[key] is None else f"{record[key]:+.1f}"


def ratio(value: float) -> str:
    """Return a ratio as text: without decimals, a small one with two digits.

    Examples
    --------
    >>> ratio(1234.5), ratio(0.123)
    ('1,234', '0.12')
    """
    return f"{value:,.0f}" if value >= 9.5 else f"{value:.2g}"


def times(key: str) -> Callable[[Record], str]:
    """Show a ratio; nothing for None."""
    return lambda record: "" if record[key] is None else ratio(record[key])


def share(key: str) -> Callable[[Record], str]:
    """Show a share in percent.

    Examples
    --------
    >>> share("coverage_95")({"coverage_95": 0.9512}), share("accuracy")({"accuracy": None})
    ('95.1 %', '')
    """
    return lambda record: "" if record[key] is None else f"{100.0 * record[key]:.1f} %"
