"""`probprop update`: a model file learns from new rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from probprop.cli.arguments import DataFiles, MemoryLimit, Model
from probprop.cli.console import Terminal, plural, terminal_of
from probprop.cli.destinations import check_destinations
from probprop.cli.in_chunks import known_chunks
from probprop.cli.large import input_paths, limit_of, needed_beyond
from probprop.cli.models import load_table_model, save_model
from probprop.cli.scores import show
from probprop.cli.tables import note_table, with_targets

if TYPE_CHECKING:
    from probprop.table import TableModel

UPDATE_EXAMPLES = """\b
Examples:
  probprop update houses.pbp sold-today.csv
  probprop update houses.pbp 'sold/*.parquet' --memory-limit 2GB
"""


def update(
    context: typer.Context, model: Model, data: DataFiles, memory_limit: MemoryLimit = None
) -> None:
    """Learn from new rows: one more pass, over these rows only.

    Give each row once: rows seen twice count twice. A model that was fitted with --weight or
    --error needs those columns. Networks of a cross-validation learn all new rows but those of
    their fold, on which the error bars are calibrated. The old model file stays until the new one
    is complete.

    A table that would take more than --memory-limit is learned block by block, each as if it were
    the table of an update of its own.
    """
    paths = input_paths(data)
    check_destinations({"MODEL": model}, {"DATA": paths})
    from probprop._atomic import updating
    from probprop.estimators.kind import first_network

    terminal = terminal_of(context)
    in_blocks = needed_beyond(paths, limit_of(memory_limit)) is not None

    def waits() -> None:
        terminal.say(f"waiting for another process that updates {model}")

    with updating(model, waits) as check_unchanged:
        old = load_table_model(model)
        new = _after_blocks(terminal, old, paths) if in_blocks else _after(terminal, old, paths)
        check_unchanged()
        save_model(new, model)
    n_before, n_seen = (m.estimator.n_samples_seen_ for m in (old, new))
    terminal.say(
        f"updated {model} with {plural(n_seen - n_before, 'row')}: {n_seen:,} rows seen in "
        f"{first_network(new.estimator).n_iter_:,} passes{_state(new)}"
    )


def _after(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> TableModel:
    """Learn from all rows in one pass."""
    import pandas as pd

    from probprop.table import read_table

    kinds = old.kinds_to_learn
    read = [read_table(path, columns=list(kinds), kinds=kinds, na=old.na) for path in paths]
    frame = read[0] if len(read) == 1 else pd.concat(read)
    rows = with_targets(frame, old.targets, old)
    note_table(terminal, frame, rows, old.targets)
    return old.update(rows)


def _after_blocks(terminal: Terminal, old: TableModel, paths: Sequence[str]) -> TableModel:
    """Learn from the rows a block at a time."""
    terminal.say("the table would take more than the memory limit: it is learned block by block")
    new = old
    with terminal.rows("learning", None) as advance:
        for rows in known_chunks(terminal, old, paths, old.kinds_to_learn):
            new = new.update(rows)
            advance(len(rows))
    return new


def _state(model: TableModel) -> str:
    """Say how large the noise is now, or how the error bars are calibrated."""
    from probprop.estimators.kind import first_network, is_cross_validated

    if is_cross_validated(model.estimator):
        from probprop.report import calibration_in_words  # slow to import

        return f"; {calibration_in_words(model.estimator)}"
    if model.classes is not None:
        return ""
    network = first_network(model.estimator)
    stds = [show("noise std", std) for std in network.history_[-1].noise_std]
    if len(stds) > 1:
        stds = [f"{std} ({target})" for std, target in zip(stds, model.targets, strict=True)]
    varies = network.posterior_.noise_network is not None
    return f"; {'level of the noise' if varies else 'noise'} std {', '.join(stds)}"
