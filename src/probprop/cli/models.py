"""Model files as the commands open and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probprop.cli.output import naming

if TYPE_CHECKING:
    from probprop.table import TableModel


def load_table_model(path: str) -> TableModel:
    """Load a model that knows the columns of its table; another kind is refused."""
    from probprop.files import load
    from probprop.table import TableModel

    model = load(path)
    if not isinstance(model, TableModel):
        raise ValueError(
            f"{path} is a {type(model).__name__} that was saved from Python and does not know the "
            "columns of a table: use it from Python, or make a model with `probprop fit`"
        )
    return model


def save_model(model: TableModel, path: str) -> None:
    """Write a model atomically; an error names `path` and leaves the file that was there."""
    with naming(path):
        model.save(path)
