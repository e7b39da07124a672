"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Data = Annotated[
    str, typer.Argument(metavar="DATA", help="CSV, TSV or Parquet file; - for standard input.")
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model file that `probprop fit` wrote.")
]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="HTML report to write.")]


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside [low, high], in the words of a usage error."""
    if not low <= value <= high:
        limits = f"from {low:g} to {high:g}" if high < float("inf") else f"at least {low:g}"
        raise typer.BadParameter(f"{value:g} is not {limits}", param_hint=option)
