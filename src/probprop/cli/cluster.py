"""A cluster for the commands, and `probprop predict --dask`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from probprop.cli.console import Terminal, plural
from probprop.cli.output import holds_digits, table_writer
from probprop.cli.tables import (
    added_columns,
    check_not_there,
    chosen_columns,
    predictions,
    rounded,
)

if TYPE_CHECKING:
    from pandas import DataFrame

    from probprop.data.sources import Piece, Source
    from probprop.table import TableModel

LOCAL = "local"
_AHEAD = 2  # pieces that are predicted ahead of the one being written, for each thread


@contextmanager
def connected(terminal: Terminal, address: str) -> Iterator[Any]:
    """Yield a client of the cluster at an address, or of one of this machine."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--dask needs Dask: pip install 'probprop[dask]'") from error

    options: dict[str, Any] = {"dashboard_address": ":0"} if address == LOCAL else {}
    try:
        client = Client(None if address == LOCAL else address, **options)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"there is no Dask scheduler at {address} ({error}): start one with `dask scheduler`, "
            "or give --dask local"
        ) from error
    with client:
        workers = plural(len(client.nthreads()), "worker")
        terminal.say(f"Dask cluster at {client.scheduler.address}: {workers}")
        yield client


def predict_on_cluster(
    terminal: Terminal,
    address: str,
    model: TableModel,
    data: str,
    output: str | None,
    coverage: float,
    quantiles: Sequence[float],
    columns: list[str] | None,
) -> None:
    """Predict the rows of Parquet files and write them in their order."""
    with connected(terminal, address) as client:
        import pandas as pd

        from probprop.data.fitting import columnwise, source_of

        source = source_of(model.estimator, data, columnwise(model.targets))
        added, written, n_done = added_columns(model, quantiles), None, 0
        with terminal.rows("predicting", None) as advance, table_writer(output) as write:
            pieces = _predicted_pieces(client, source, model, coverage, quantiles)
            for frame, predicted in pieces:
                if written is None:
                    check_not_there(data, added, frame.columns)
                    written = chosen_columns(columns, [*map(str, frame.columns), *added])
                shown = predicted if holds_digits(output) else rounded(predicted, model)
                write(pd.concat([frame, shown], axis=1)[written])
                n_done += len(frame)
                advance(len(frame))
    if output is not None:
        terminal.say(f"wrote {output}: {plural(n_done, 'row')}")


def _predicted_pieces(
    client: Any, source: Source, model: TableModel, coverage: float, quantiles: Sequence[float]
) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield the rows of each piece and their predictions, in order, a few pieces ahead."""
    from probprop.data.cluster import itself, n_threads

    ahead = _AHEAD * n_threads(client)
    sent = client.submit(itself, model, pure=False)
    waiting: deque[Any] = deque()
    for piece in source.tasks(n_threads(client)):
        waiting.append(client.submit(_predicted, piece, sent, coverage, quantiles, pure=False))
        if len(waiting) >= ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _predicted(
    piece: Piece, model: TableModel, coverage: float, quantiles: Sequence[float]
) -> tuple[DataFrame, DataFrame]:
    """Predict the rows of one piece of a file, on a worker."""
    frame = piece.rows.read(model.na)
    frame.attrs["source"] = piece.label
    return frame, predictions(frame, model, coverage, quantiles)
