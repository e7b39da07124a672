"""CSV and TSV: the delimiter, the header, and what pandas makes of the rows."""

from __future__ import annotations

import codecs
import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pandas as pd
from pandas.api import types

from probprop.table.errors import FORMATS, TableError, check_names

START = 1 << 20  # bytes looked at; the header line must be among them
_LOOK = 20  # records compared to find the delimiter
_DELIMITERS = {"\t": "tab", ";": "semicolon", ",": "comma"}  # the rarer in prose first
# Later versions of pandas read every number exactly, and warn about the option.
_EXACT = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}
MISSING = ["NA", "N/A", "n/a", "na", "NaN", "nan", "NULL", "Null", "null", "None", "none"]
MISSING += ["#N/A", "-", "?", "."]


@dataclass(frozen=True)
class Layout:
    """What the start of a text file shows: delimiter and column names."""

    delimiter: str
    names: list[str]

    def source(self, label: str) -> str:
        """Name the file as messages do, with the delimiter that was detected."""
        found = f"delimiter: {_DELIMITERS[self.delimiter]}"
        return f"{label} ({found if len(self.names) > 1 else 'no comma, semicolon or tab found'})"


def find_layout(label: str, start: bytes) -> Layout:
    """Find the delimiter: the first to cut all first records into as many cells, or the most."""
    try:
        text = codecs.getincrementaldecoder("utf-8-sig")().decode(start)
    except UnicodeDecodeError as error:
        raise not_utf8(label, start[: error.start].count(b"\n") + 1) from error
    cut = len(start) == START
    records = {d: r for d in _DELIMITERS if (r := _first_records(text, d, cut))}
    if not records:
        raise TableError(f"{label} has a header line of more than {START} bytes: {FORMATS}.")
    alike = [d for d, r in records.items() if len(r[0]) > 1 and len({len(x) for x in r}) == 1]
    most = max(reversed(records), key=lambda d: len(records[d][0]))  # comma where there is none
    delimiter = alike[0] if alike else most
    names = [name.strip() for name in records[delimiter][0]]
    while len(names) > 1 and not names[-1]:  # every line ends with a delimiter
        names.pop()
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    layout = Layout(delimiter, names)
    check_names(layout.source(label), names)
    return layout


def _first_records(text: str, delimiter: str, cut: bool) -> list[list[str]]:
    """Split the first lines, without the last one if the text is cut off in it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    records: list[list[str]] = []
    with suppress(csv.Error):  # a cell of more than 128 KiB
        records.extend(islice(filter(None, reader), _LOOK + 1))
    return records[:-1] if cut and len(records) <= _LOOK else records[:_LOOK]


def text_frames(
    source: str,
    file: Any,
    layout: Layout,
    chunk_rows: int | None,
    kinds: Mapping[str, str] | None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows in chunks, or all at once, of the types that `kinds` asks for."""
    as_text = [] if kinds is None else [k for k in layout.names if kinds.get(k) != "number"]
    options: dict[str, Any] = {
        "sep": layout.delimiter,
        "names": layout.names,
        "header": 0,
        "index_col": False,  # else a row longer than the header would shift the columns
        "dtype": dict.fromkeys(as_text, str),
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "low_memory": False,  # else the type of a cell could depend on its place
        "encoding": "utf-8",
        **_EXACT,
    }
    try:
        if chunk_rows is None:
            frame = _strictly(lambda: pd.read_csv(file, **options))
            yield frame.assign(**{name: _settled(frame[name]) for name in frame})
            return
        with pd.read_csv(file, chunksize=chunk_rows, **options) as reader:
            while (frame := _strictly(lambda: next(reader, None))) is not None:
                yield _with_floats(frame)
    except pd.errors.ParserWarning as error:  # only ever of the first rows
        raise _ragged(source, "a row", "more", len(layout.names)) from error
    except pd.errors.ParserError as error:
        text = str(error).strip()
        if fields := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", text):
            raise _ragged(source, f"line {fields[2]}", fields[3], int(fields[1])) from error
        if row := re.search(r"EOF inside string starting at row (\d+)", text):
            raise TableError(
                f"{source} has a quote in line {int(row[1]) + 1} that is never closed: close it, "
                "or double each quote that is part of a quoted cell."
            ) from error
        raise TableError(f"{source} cannot be read as a table ({text}): {FORMATS}.") from error


def _strictly(read: Callable[[], Any]) -> Any:
    """Read with pandas' warning of lost cells turned into an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        return read()


def _with_floats(frame: pd.DataFrame) -> pd.DataFrame:
    """Make whole numbers floats, as the next chunk may have them."""
    return frame.astype({k: float for k in frame if types.is_integer_dtype(frame[k])})


def _ragged(source: str, line: str, n_fields: object, n_names: int) -> TableError:
    return TableError(
        f"{source} has {n_fields} fields in {line} where its header has {n_names}: put quotes "
        "around cells that contain the delimiter, or name every column."
    )


def _settled(column: pd.Series) -> pd.Series:
    """Turn text that is numbers and "NA" or the like into numbers with gaps."""
    if types.is_numeric_dtype(column):  # bool is one, too
        return column
    cells = column.dropna()
    missing = cells.isin(MISSING)
    if not missing.any() or missing.all():
        return column
    numbers = pd.to_numeric(cells[~missing], errors="coerce")
    return numbers.reindex(column.index) if numbers.notna().all() else column


def not_utf8(label: str, line: int | None) -> TableError:
    """Say where a file stops being text, and how to convert it."""
    where = "" if line is None else f" (in line {line})"
    return TableError(
        f"{label} is not UTF-8 text{where}: convert it, for example with "
        "`iconv -f WINDOWS-1252 -t UTF-8`."
    )
