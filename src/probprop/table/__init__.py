"""Tables in files, and models on their columns: numbers, true and false, dates and text.

These names need pandas and are imported when they are first used (PEP 562), so that
`probprop.table.names` can be used without it.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from probprop.table.columns import Kind
    from probprop.table.encoding import TableEncoder, TableNote, UnknownCategoryWarning
    from probprop.table.model import TableModel, fit_table_model
    from probprop.table.names import TableError
    from probprop.table.read import iter_table, read_table

_HOME = {
    "Kind": "columns",
    "TableError": "names",
    **dict.fromkeys(("TableEncoder", "TableNote", "UnknownCategoryWarning"), "encoding"),
    **dict.fromkeys(("TableModel", "fit_table_model"), "model"),
    **dict.fromkeys(("iter_table", "read_table"), "read"),
}

__all__ = [
    "Kind",
    "TableEncoder",
    "TableError",
    "TableModel",
    "TableNote",
    "UnknownCategoryWarning",
    "fit_table_model",
    "iter_table",
    "read_table",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        module = _import_module(f"{__name__}.{_HOME[name]}")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ImportError("Tables need pandas: pip install 'probprop[cli]'") from error
    globals()[name] = value = getattr(module, name)
    return value


def __dir__() -> list[str]:
    """List the public names, imported or not."""
    return sorted({*globals(), *__all__})
