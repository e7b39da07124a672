"""Arguments and options that several commands have."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from typing import Annotated, Any, Literal, get_type_hints

from typer import Argument, BadParameter, Context, Option

# ---- Values of options, in the words of a usage error


def evidence_cap_of(text: Any) -> float:
    """Parse an evidence cap; "none" is infinite.

    >>> evidence_cap_of("30"), evidence_cap_of("none")
    (30.0, inf)
    """
    if text == "none":
        return math.inf
    with suppress(ValueError):
        if 1.0 <= float(text) < math.inf:
            return float(text)
    raise BadParameter(f"{text!r} is neither a number of at least 1 nor none")


def layers(text: Any) -> tuple[int, ...]:
    """Parse the hidden layers "50,50".

    >>> layers("50, 20")
    (50, 20)
    """
    with suppress(ValueError):
        sizes = tuple(int(part) for part in text.split(","))
        if min(sizes) >= 1:
            return sizes
    raise BadParameter(f"{text!r} is not a list of whole numbers above 0, such as 50 or 50,50")


def support_of(text: Any) -> tuple[float | None, float | None] | str | None:
    """Parse the limits of the target.

    >>> support_of("auto"), support_of("none"), support_of("0,"), support_of("0,100")
    ('auto', None, (0.0, None), (0.0, 100.0))
    """
    if text in ("auto", "none"):
        return "auto" if text == "auto" else None
    with suppress(ValueError):
        low, high = (float(end) if end.strip() else None for end in str(text).split(","))
        if low is None or high is None or low < high:
            return low, high
    raise BadParameter(f"{text!r} is neither auto, none nor two ends such as 0,100 or 0,")


# ---- Arguments and options


DataFiles = Annotated[
    list[str],
    Argument(
        metavar="DATA",
        help="CSV, TSV, Parquet, JSON lines or Excel file, .gz too; several, a folder, or a "
        "pattern such as 'data/*.parquet', are one table; - for standard input.",
    ),
]
Model = Annotated[str, Argument(metavar="MODEL", help="Model file that `probprop fit` wrote.")]
Report = Annotated[str | None, Option(metavar="FILE", help="HTML report to write as well.")]
Static = Annotated[bool, Option("--static", help="Write the report without the what-if page.")]
NoRows = Annotated[
    bool,
    Option("--no-rows", help="Write the report without rows of the table or counts of values."),
]

Features = Annotated[
    list[str] | None,
    Option(metavar="A,B,...", help="Columns to predict from.  [default: all others]"),
]
Drop = Annotated[
    list[str] | None, Option(metavar="A,B,...", help="Columns to exclude from the features.")
]
Task = Annotated[
    Literal["auto", "regression", "classification"],
    Option(help="Task; auto infers it from the values of the target."),
]
HiddenLayerSizes = Annotated[
    Any,
    Option(
        metavar="N,N,...",
        parser=layers,
        help="One network: units of each hidden layer.  [default: 50]",
    ),
]
NEpochs = Annotated[
    int | None,
    Option(
        metavar="N",
        min=1,
        help="One network: number of epochs; too many make intervals too narrow.  [default: 40]",
    ),
]
EvidenceCap = Annotated[
    Any,
    Option(
        metavar="M|none",
        parser=evidence_cap_of,
        help="One network: effective sample size of at most M times the number of rows.  "
        "[default: none; 10 for classification]",
    ),
]
Fast = Annotated[
    bool, Option("--fast", help="Fit one network as in the paper: milliseconds, not seconds.")
]
Budget = Annotated[
    Literal["fast", "good", "best"] | None,
    Option(help="How many candidates and epochs to compare.  [default: good]"),
]

RandomState = Annotated[int, Option(metavar="N", min=0, max=2**32 - 1, help="Random seed.")]

Dask = Annotated[
    str | None,
    Option(
        "--dask",
        metavar="ADDRESS",
        help="Run on a Dask cluster: the address of its scheduler, or local. All workers must be "
        "able to read the files.",
    ),
]
MemoryLimit = Annotated[
    str | None,
    Option(
        "--memory-limit",
        metavar="SIZE",
        help="Memory to use, such as 2GB; larger tables are read block by block.  "
        "[default: half of the machine's]",
    ),
]
Checkpoint = Annotated[
    str | None,
    Option(
        metavar="FILE",
        help="Save the state of the training here; after an interruption the same command resumes.",
    ),
]


def column_names(given: Sequence[str], columns: Sequence[str]) -> list[str]:
    """Split lists at commas, except where the whole text is the name of a column.

    >>> column_names(["a, b", "size, m2"], ["a", "b", "size, m2"])
    ['a', 'b', 'size, m2']
    """
    known = {*columns}
    parts = [text for whole in given for text in ([whole] if whole in known else whole.split(","))]
    return [text if text in known else text.strip() for text in parts]


# ---- The files of a table, and the memory that it takes


def input_paths(data: Sequence[str]) -> list[str]:
    """Return the files that paths, folders and patterns name."""
    if [*data] == ["-"]:
        return ["-"]
    from probprop.table.read import paths_of

    paths = paths_of(data)
    if "-" in paths:
        raise BadParameter("- must be alone: standard input is one table", param_hint="DATA")
    return paths


def limit_of(text: str | None) -> int:
    """Return the limit in bytes; an invalid limit is a usage error."""
    from probprop.data.scratch import bytes_of

    try:
        return bytes_of(text)
    except ValueError as error:
        raise BadParameter(str(error), param_hint="--memory-limit") from error


def needed_beyond(paths: Sequence[str], limit: int) -> int | None:
    """Return the bytes that a fit in memory takes if these exceed the limit, otherwise None."""
    from probprop.data.scratch import RESERVED
    from probprop.table.read import memory_needed

    needed = RESERVED + memory_needed(paths)
    return needed if needed > limit else None


# ---- A command whose options are the fields of a dataclass


def takes(request: Any) -> Callable[[Callable[[Context, Any], None]], Any]:
    """Declare the options of a command once: as the annotated fields of a frozen dataclass."""
    kind, hints = Parameter.KEYWORD_ONLY, get_type_hints(request, include_extras=True)
    parameters = [Parameter("context", kind, annotation=Context)]
    for field in fields(request):
        default = Parameter.empty if field.default is MISSING else field.default
        annotation = hints[field.name]
        parameters.append(Parameter(field.name, kind, default=default, annotation=annotation))

    def decorate(command: Callable[[Context, Any], None]) -> Any:
        def run(context: Context, **options: Any) -> None:
            command(context, request(**options))

        run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
        run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate
