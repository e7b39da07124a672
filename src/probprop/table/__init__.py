"""Tables in files, and models on their columns.

`read_table` and `iter_table` read CSV, TSV and Parquet; `fit_table_model` fits a network on a
table whose columns may hold numbers, true and false, or text. This is what the command is made
of; it needs pandas.
"""

try:
    import pandas  # noqa: F401  (tried first, so that its absence is explained)
except ModuleNotFoundError as error:
    if error.name != "pandas":
        raise
    raise ImportError("Tables need pandas: pip install 'probprop[cli]'") from error

from probprop.table.columns import Kind
from probprop.table.errors import TableError
from probprop.table.model import TableModel, UnknownCategoryWarning, fit_table_model
from probprop.table.read import iter_table, read_table

__all__ = [
    "Kind",
    "TableError",
    "TableModel",
    "UnknownCategoryWarning",
    "fit_table_model",
    "iter_table",
    "read_table",
]
