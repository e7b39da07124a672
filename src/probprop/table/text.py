"""CSV and TSV: the delimiter, the decimal sign, the header, and what pandas makes of the rows."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
from pandas.api import types

from probprop.table.amounts import amounts
from probprop.table.cells import all_floats, is_text, missing_texts, without_numbers, without_texts
from probprop.table.errors import FORMATS, TableError, check_names
from probprop.table.opening import START

_LOOK = 20  # records compared to find the delimiter
_DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}  # the rarer in prose first
# Later versions of pandas read every number exactly, and warn about the option.
_EXACT = {"float_precision": "round_trip"} if int(pd.__version__.split(".")[0]) < 3 else {}


@dataclass(frozen=True)
class Layout:
    """What the start of a text file shows: delimiter, column names and the decimal sign."""

    delimiter: str
    names: list[str]
    decimal: str = "."
    n_blank: int = 0  # columns after the last that has a name

    @property
    def words(self) -> list[str]:
        """What was detected."""
        found = f"delimiter: {_DELIMITERS[self.delimiter]}"
        decimal = ["decimal comma"] if self.decimal == "," else []
        return [found if len(self.names) > 1 else "no comma, semicolon or tab found", *decimal]


def find_layout(source: Callable[[Layout], str], start: bytes) -> Layout:
    """Find the delimiter: the first to cut all first records into as many cells, or the most.

    Parameters
    ----------
    source : callable
        Names the file in messages, given its layout.
    start : bytes
        The first bytes of the file as UTF-8, at most `START` and perhaps a few more.
    """
    text = start.decode(errors="ignore")  # the last letter may be cut
    cut = len(start) >= START
    records = {d: r for d in _DELIMITERS if (r := _first_records(text, d, cut))}
    if not records:
        raise TableError(
            f"{source(Layout(',', []))} has a header line of more than {START} bytes: {FORMATS}."
        )
    alike = [d for d, r in records.items() if len(r[0]) > 1 and len({len(x) for x in r}) == 1]
    most = max(reversed(records), key=lambda d: len(records[d][0]))  # comma where there is none
    delimiter = alike[0] if alike else most
    names = [name.strip() for name in records[delimiter][0]]
    n_all = len(names)
    while len(names) > 1 and not names[-1]:  # every line ends with a delimiter, or with several
        names.pop()
    n_blank = n_all - len(names)
    names = [name or f"Unnamed: {i}" for i, name in enumerate(names)]
    layout = Layout(delimiter, names, _decimal(text, delimiter), n_blank)
    check_names(source(layout), names)
    return layout


def _decimal(text: str, delimiter: str) -> str:
    """Return the sign that more cells have between digits; a point where commas delimit."""
    if delimiter == ",":
        return "."
    edge = re.escape(delimiter) + r'"\s'
    cell = rf"(?:^|(?<=[{edge}]))[+-]?\d*{{}}\d+(?:[eE][+-]?\d+)?(?=$|[{edge}])"
    n = {sign: len(re.findall(cell.format(re.escape(sign)), text, re.M)) for sign in ",."}
    return "," if n[","] > n["."] else "."


def _first_records(text: str, delimiter: str, cut: bool) -> list[list[str]]:
    """Split the first lines, without the last one if the text is cut off in it."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    records: list[list[str]] = []
    limit = csv.field_size_limit(START)  # else a name or a cell of 128 KiB would be too long
    try:
        with suppress(csv.Error):
            records.extend(islice(filter(None, reader), _LOOK + 1))
    finally:
        csv.field_size_limit(limit)
    return records[:-1] if cut and len(records) <= _LOOK else records[:_LOOK]


def text_frames(
    source: str,
    file: Any,
    layout: Layout,
    chunk_rows: int | None,
    kinds: Mapping[str, str] | None,
    na: Sequence[str] | None,
) -> Iterator[pd.DataFrame]:
    """Yield the rows in chunks, or all at once, of the types that `kinds` asks for."""
    blank = [f"\0{i}" for i in range(layout.n_blank)] if layout.n_blank > 1 else []
    options: dict[str, Any] = {
        "sep": layout.delimiter,
        "names": [*layout.names, *blank],
        "header": 0,
        "index_col": False,  # else a row longer than the header would shift the columns
        "dtype": None if kinds is None else str,
        "decimal": layout.decimal,
        "skipinitialspace": True,
        "keep_default_na": False,
        "na_values": [""],
        "low_memory": False,  # else the type of a cell could depend on its place
        "encoding": "utf-8",
        **_EXACT,
    }

    def without_blank(frame: pd.DataFrame) -> pd.DataFrame:
        """Leave out columns without a name and without cells; pandas knows of one at most."""
        if blank and frame[blank].notna().to_numpy().any():
            raise _ragged(source, "a row", "more", len(layout.names))
        return frame.drop(columns=blank)

    try:
        if chunk_rows is None:
            frame = without_blank(_strictly(lambda: pd.read_csv(file, **options)))
            yield _settled(frame, layout, na)
            return
        with pd.read_csv(file, chunksize=chunk_rows, **options) as reader:
            while (frame := _strictly(lambda: next(reader, None))) is not None:
                yield with_numbers(without_blank(frame), kinds or {}, layout.decimal, na)
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


def _ragged(source: str, line: str, n_fields: object, n_names: int) -> TableError:
    title = "remove the lines above the header, " if n_names == 1 else ""
    return TableError(
        f"{source} has {n_fields} fields in {line} where its header has {n_names}: {title}put "
        "quotes around cells that contain the delimiter, or name every column."
    )


def replaced(frame: pd.DataFrame, columns: Mapping[str, pd.Series]) -> pd.DataFrame:
    """Return the frame with these columns in place of its own, in time linear in their number."""
    if not columns:
        return frame
    new = pd.DataFrame({name: columns.get(str(name), frame[name]) for name in frame}, copy=False)
    new.attrs = dict(frame.attrs)
    return new


def with_numbers(
    frame: pd.DataFrame, kinds: Mapping[str, str], decimal: str, na: Sequence[str] | None
) -> pd.DataFrame:
    """Return cells of text with those of the columns of numbers as floats, where all are numbers.

    >>> cells = pd.DataFrame({"age": ["31", "NA"], "room": ["1", "2"]})
    >>> with_numbers(cells, {"age": "number"}, ".", None).to_numpy().tolist()
    [[31.0, '1'], [nan, '2']]
    """
    columns = {}
    dtypes = frame.dtypes.items()
    names = [str(k) for k, dtype in dtypes if kinds.get(k) == "number" and is_text(dtype)]
    if decimal == "." and not na and len(names) > len(frame):
        # All columns at once: each alone would take longer than its few cells.
        values = all_floats(pd.Series(frame[names].to_numpy(object).ravel(), dtype=object))
        if values is not None:
            block = pd.DataFrame(values.reshape(-1, len(names)), frame.index, names)
            new = pd.concat([frame.drop(columns=names), block], axis=1)[list(frame)]
            new.attrs = dict(frame.attrs)
            return new
    for name in names:
        cells = _pointed(frame[name]) if decimal == "," else frame[name]
        values = all_floats(cells)
        if values is None:
            cells = without_texts(cells, missing_texts(na, among_numbers=True))
            values = all_floats(cells)
        if values is None:
            values = amounts(without_texts(frame[name], missing_texts(na, among_numbers=True)))
        if values is None:
            columns[name] = cells
        else:
            columns[name] = pd.Series(without_numbers(values, na or ()), frame.index)
    return replaced(frame, columns)


def _pointed(column: pd.Series) -> pd.Series:
    """Write decimal commas as points."""
    return column.astype(str).str.replace(",", ".", n=1, regex=False).mask(column.isna())


def _settled(frame: pd.DataFrame, layout: Layout, na: Sequence[str] | None) -> pd.DataFrame:
    """Make numbers of text that is numbers and "NA" or the like, and gaps of "NA" in text.

    ``attrs["amounts"]`` has a cell of each column of numbers with separators or currencies, and
    the number that it was read as.
    """
    columns: dict[str, pd.Series] = {}
    unusual: dict[str, tuple[str, float]] = {}
    for name, dtype in frame.dtypes.items():
        column = frame[name]
        if types.is_numeric_dtype(dtype):  # bool is one, too
            if na and not types.is_bool_dtype(dtype):
                columns[name] = _without_marks(column, na)
            continue
        cells = without_texts(column, missing_texts(na, among_numbers=True))
        numbers = _numbers(cells, layout) if cells.notna().any() else None
        if numbers is None and types.infer_dtype(cells, skipna=True) == "string":
            values = amounts(cells)
            if values is not None:
                numbers, place = pd.Series(values, cells.index), _longest(cells)
                unusual[str(name)] = str(cells.iloc[place]), float(values[place])
        if numbers is None:
            cells = without_texts(column, missing_texts(na, among_numbers=False))
            if cells is not column:
                columns[name] = cells
        else:
            columns[name] = numbers
    new = replaced(frame, columns)
    if unusual:
        new.attrs["amounts"] = unusual
    return new


def _longest(cells: pd.Series) -> int:
    """Return the place of the longest text, which shows best how it is written."""
    return int(np.argmax(cells.astype(object).map(lambda cell: len(str(cell))).to_numpy()))


def _without_marks(column: pd.Series, na: Sequence[str]) -> pd.Series:
    """Return numbers without those that mean a missing cell, such as -999."""
    values = column.to_numpy(np.float64)
    left = without_numbers(values, na)
    return (
        pd.Series(left, column.index) if np.isnan(left).sum() > np.isnan(values).sum() else column
    )


def _numbers(cells: pd.Series, layout: Layout) -> pd.Series | None:
    """Return text as numbers, whose sign may differ from that of other columns."""
    values = all_floats(cells) if types.infer_dtype(cells, skipna=True) == "string" else None
    if values is None and layout.decimal == ",":
        values = all_floats(_pointed(cells))
    return None if values is None else pd.Series(values, cells.index)
