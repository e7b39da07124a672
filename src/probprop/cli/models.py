"""Model files as the commands open and write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from probprop.cli.console import Terminal, plural
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


def save_fitted(terminal: Terminal, model: TableModel, path: str) -> None:
    """Write a model that was just fitted, and print what is in it."""
    from probprop.estimators.kind import first_network, members

    save_model(model, path)
    facts = [
        plural(model.estimator.n_samples_seen_, "row"),
        plural(len(model.features), "column"),
        plural(first_network(model.estimator).n_iter_, "epoch"),
    ]
    if model.classes is not None:
        facts.append(f"{len(model.classes):,} classes")
    if len(model.targets) > 1:
        facts.append(f"{len(model.targets):,} targets")
    if networks := members(model.estimator):
        facts.append(f"{len(networks):,} networks")
    terminal.say(f"wrote {path}: {', '.join(facts)}")
