"""Arguments and options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import typer

Data = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, JSON lines or Excel file, .gz too; - for standard input.",
    ),
]
DataFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, JSON lines or Excel file, .gz too; several, a folder, or a "
        "pattern such as 'data/*.parquet', are one table; - for standard input.",
    ),
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="Model file that `probprop fit` wrote.")
]
Report = Annotated[str | None, typer.Option(metavar="FILE", help="HTML report to write as well.")]
Static = Annotated[
    bool, typer.Option("--static", help="Write the report without the what-if page.")
]
NoRows = Annotated[
    bool,
    typer.Option(
        "--no-rows", help="Write the report without rows of the table or counts of values."
    ),
]

_FROM = "Columns to predict from."
Features = Annotated[
    list[str] | None, typer.Option(metavar="A,B,...", help=f"{_FROM}  [default: all others]")
]
Drop = Annotated[list[str] | None, typer.Option(metavar="A,B,...", help="Columns to leave out.")]
HiddenLayerSizes = Annotated[
    str | None,
    typer.Option(metavar="N,N,...", help="One network: units of each hidden layer.  [default: 50]"),
]
NEpochs = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        help="One network: number of epochs; with many more, error bars are too small.  "
        "[default: 40]",
    ),
]
EvidenceCap = Annotated[
    str | None,
    typer.Option(
        metavar="M|none",
        help="One network: effective sample size at most M times the rows.  "
        "[default: none; 10 for classes]",
    ),
]
Fast = Annotated[
    bool,
    typer.Option("--fast", help="Fit one network as in the paper: milliseconds, not seconds."),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="fast|good|best|SECONDS",
        help="How many candidates and epochs to compare, or seconds of processor time.  "
        "[default: good]",
    ),
]

Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Run on a Dask cluster: the address of its scheduler, or local. All workers must be "
        "able to read the files.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    typer.Option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory to use, such as 2GB; larger tables are read block by block.  "
        "[default: half of the machine's]",
    ),
]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Save the state of the training here; after an interruption the same command resumes.",
    ),
]


def check_range(option: str, value: float, low: float, high: float) -> None:
    """Refuse a number outside [low, high], in the words of a usage error."""
    if not low <= value <= high:
        limits = f"from {low:g} to {high:g}" if high < float("inf") else f"at least {low:g}"
        raise typer.BadParameter(f"{value:g} is not {limits}", param_hint=option)


def evidence_cap_of(text: str) -> float | None:
    """Parse an evidence cap, "30", or "none" as None.

    >>> evidence_cap_of("30"), evidence_cap_of("none")
    (30.0, None)
    """
    if text == "none":
        return None
    try:
        evidence_cap = float(text)
    except ValueError:
        evidence_cap = math.nan
    if not math.isfinite(evidence_cap):
        raise typer.BadParameter(
            f"{text!r} is neither a number nor none", param_hint="--evidence-cap"
        )
    check_range("--evidence-cap", evidence_cap, 1, math.inf)
    return evidence_cap


def layers(text: str) -> tuple[int, ...]:
    """Parse the hidden layers "50,50".

    >>> layers("50, 20")
    (50, 20)
    """
    try:
        sizes = tuple(int(part) for part in text.split(","))
    except ValueError:
        sizes = ()
    if not sizes or min(sizes) < 1:
        raise typer.BadParameter(
            f"{text!r} is not a list of whole numbers above 0, such as 50 or 50,50",
            param_hint="--hidden-layer-sizes",
        )
    return sizes


def given(texts: list[str] | None) -> list[str] | None:
    """Return the names of an option given several times, with commas, or both; None if not given.

    >>> given(["PBP, GP", "PBP"]), given(None)
    (['PBP', 'GP'], None)
    """
    names = [name.strip() for text in texts or [] for name in text.split(",")]
    return list(dict.fromkeys(names)) or None


def column_names(given: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Split lists at commas, except for commas within the name of a column.

    >>> column_names(["a,b", "size, m2,a"], ["a", "b", "size, m2"])
    ['a', 'b', 'size, m2', 'a']
    """
    known = {*columns}
    return [name for text in given for name in _split(text, known)]


def _split(text: str, known: set[str]) -> list[str]:
    """Take the longest name of a column at every place; else what is before the next comma."""
    names: list[str] = []
    parts = text.split(",")
    while parts:
        ends = range(len(parts), 0, -1)
        tries = [(n, ",".join(parts[:n])) for n in ends]
        found = [
            (n, name) for n, whole in tries for name in (whole, whole.strip()) if name in known
        ]
        n, name = found[0] if found else (1, parts[0].strip())
        names.append(name)
        parts = parts[n:]
    return names


# ---- The files of a table, and the memory that it takes


def input_paths(data: Sequence[str]) -> list[str]:
    """Return the files of what was given: paths, folders and patterns."""
    if [*data] == ["-"]:
        return ["-"]
    from probprop.table.read import paths_of

    paths = paths_of(data)
    if "-" in paths:
        raise typer.BadParameter("- stands alone: standard input is one table", param_hint="DATA")
    return paths


def limit_of(text: str | None) -> int:
    """Return the limit in bytes, in the words of a usage error where it is none."""
    from probprop.data.scratch import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--memory-limit") from error


def needed_beyond(paths: Sequence[str], limit: int) -> int | None:
    """Return what a fit in memory would take where that is more than the limit, else None."""
    from probprop.data.scratch import RESERVED
    from probprop.table.read import memory_needed

    needed = RESERVED + memory_needed(paths)
    return needed if needed > limit else None
