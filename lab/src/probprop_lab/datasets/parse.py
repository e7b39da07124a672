"""Readers of the raw files: each turns one file into one table of float64, column by column.

They keep every column and every row; `registry` says which of them are features.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import numpy as np

from probprop._types import FloatArray
from probprop_lab.datasets.errors import missing_extra


def read_text(path: Path, *, delimiter: str | None = None, header: int = 0) -> FloatArray:
    """Read lines of numbers.

    Parameters
    ----------
    path : Path
    delimiter : str, optional
        Separator of two numbers; any white space by default.
    header : int, default=0
        Lines to skip.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
    """
    return np.loadtxt(path, dtype=np.float64, delimiter=delimiter, skiprows=header, ndmin=2)


def read_arff(path: Path) -> FloatArray:
    """Read an ARFF file all of whose attributes are numeric.

    Returns
    -------
    ndarray of shape (n_rows, n_attributes)
    """
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.strip().lower() == "@data":
                return np.loadtxt(file, dtype=np.float64, delimiter=",", comments="%", ndmin=2)
    raise ValueError("it has no line @data")


def read_sheet(path: Path, *, sheet: int | str = 0) -> FloatArray:
    """Read a sheet of a workbook, xls or xlsx, below its line of column names.

    Parameters
    ----------
    path : Path
    sheet : int or str, default=0
        Its position or its name.

    Returns
    -------
    ndarray of shape (n_rows, n_columns)
        Without the empty rows and columns that spreadsheets leave at the end.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook
    except ModuleNotFoundError as error:
        raise missing_extra("python-calamine") from error
    try:
        book = CalamineWorkbook.from_path(path)
        if isinstance(sheet, str):
            page = book.get_sheet_by_name(sheet)
        else:
            page = book.get_sheet_by_index(sheet)
        names, *rows = page.to_python()
    except CalamineError as error:
        raise ValueError(str(error)) from error
    width = sum(name != "" for name in names)
    filled = [row[:width] for row in rows if any(cell != "" for cell in row)]
    return np.array(filled, np.float64)


def round_half_up(values: FloatArray, decimals: int) -> FloatArray:
    """Round half away from zero, in decimal.

    `numpy.round` would take a half to the even digit, and 2.675, which is a little less in
    binary, down.

    Parameters
    ----------
    values : ndarray
    decimals : int

    Returns
    -------
    ndarray of the same shape

    Examples
    --------
    >>> import numpy as np
    >>> values = np.array([0.25, 2.675, -0.5])
    >>> round_half_up(values, 1), round_half_up(values, 2)
    (array([ 0.3,  2.7, -0.5]), array([ 0.25,  2.68, -0.5 ]))
    """
    unit = Decimal(1).scaleb(-decimals)
    rounded = [float(Decimal(repr(float(v))).quantize(unit, ROUND_HALF_UP)) for v in values.flat]
    return np.array(rounded).reshape(values.shape)
