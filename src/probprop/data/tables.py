"""Tables as sources: frames, and Parquet and text files, whose columns have names and kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from probprop.data import sources
from probprop.data.sources import Columnwise, Loaded, Piece, Schema, Source
from probprop.inference.likelihoods import of_labels
from probprop.table import encoding
from probprop.table.cells import without_marks
from probprop.table.encoding import Columns, Wanted, agreed, labeled, survey_frame
from probprop.table.model import takes_gaps
from probprop.table.names import TableError, reading_parquet
from probprop.table.read import (
    iter_table,
    iter_typed,
    parquet_metadata,
    plan_chunks,
    read_table,
)
from probprop.table.target import Counting, check_one_target


class TableSurvey(NamedTuple):
    """Survey of one piece of a table."""

    label: str
    n: int  # rows with a target, of a weight above 0
    n_without_target: int
    found: encoding.Survey | None  # None: there is no such row


@dataclass(frozen=True, eq=False)
class TableReader:
    """Reads frames, and pieces of files."""

    network: Any  # not fitted; determines whether the target is a class
    wanted: Wanted
    counting: Counting
    na: tuple[str, ...] | None

    def rows(self, piece: Any, label: str) -> pd.DataFrame:
        """Return the rows with a target and of a weight above 0."""
        known = _with_targets(_frame_of(piece, label, self.na), self.wanted.targets)
        if self.counting.weight is not None and len(known):
            with labeled(label):
                known = known[self.counting.weights(known) > 0.0]
        return known

    def load(self, piece: Any, label: str, columns: Columns) -> Loaded:
        """Check and encode the rows of a piece that count."""
        frame, counting = self.rows(piece, label), self.counting
        if not len(frame):
            return Loaded(np.zeros((0, len(columns.encoder.names))), np.zeros(0))
        with labeled(label):
            X, y = columns.encode(frame)
            options = counting.options(frame)
        return Loaded(X, y, options.get("sample_weight"), options.get("y_std"))

    def survey(self, piece: Any, label: str) -> TableSurvey:
        """Survey one piece."""
        frame = _frame_of(piece, label, self.na)
        if len(frame) == 0:
            raise no_rows(label)
        known = _with_targets(frame, self.wanted.targets)
        n_without = len(frame) - len(known)
        if len(known):
            with labeled(label):
                self.counting.check(known, self.wanted.targets, self.wanted.features or ())
            known = self.rows(known, label)
        found = survey_frame(known, label, self.wanted) if len(known) else None
        return TableSurvey(label, len(known), n_without, found)

    def agree(self, surveys: Sequence[TableSurvey]) -> Schema:
        """Return the schema of all pieces."""
        found = [each.found for each in surveys if each.found is not None]
        if not found:
            above = "" if self.counting.weight is None else " and a weight above 0"
            raise TableError(f"{surveys[0].label} has no row with a value of the target{above}.")
        columns = agreed(found, self.wanted)
        likelihood = (
            sources.values_likelihood(self.network, len(self.wanted.targets))
            if columns.classes is None
            else of_labels(columns.classes, columns.classes)
        )
        encoder, names = columns.encoder, columns.encoder.names
        plain = {*encoder.kinds.values()} == {"number"} and not encoder.dropped
        n_numbers = 1 + len(names) + len(self.wanted.targets) + len(self.counting.names)
        feature_names = np.array(names, object) if plain else None
        n_without = sum(each.n_without_target for each in surveys)
        return Schema(self, likelihood, len(names), n_numbers, feature_names, columns, n_without)

    def kinds(self, columns: Columns) -> dict[str, Any]:
        """Return the types of the columns that are read."""
        kinds = {**columns.encoder.kinds}
        kinds |= dict.fromkeys(self.wanted.targets, columns.target_kind)
        return kinds | dict.fromkeys(self.counting.names, "number")


def table_reader(network: Any, asked: Columnwise) -> TableReader:
    """Return the reader of the columns that a user names."""
    if not asked.targets:
        raise TypeError("target is missing: name the column, or the columns, to predict.")
    classes, counting = bool(is_classifier(network)), Counting(asked.weight, asked.error)
    if classes:
        check_one_target(asked.targets)
    if counting.error:
        sources.check_takes_errors(network, f"the column {counting.error[0]!r} of errors")
    drop = (*asked.drop, *counting.names)
    wanted = Wanted(asked.targets, asked.features, drop, classes, takes_gaps(network))
    return TableReader(network, wanted, counting, asked.na)


def _frame_of(piece: Any, label: str, na: Sequence[str] | None) -> pd.DataFrame:
    """Return the rows of a piece, with its name for messages."""
    frame = piece.read(na) if isinstance(piece, FilePiece) else piece.copy(deep=False)
    frame.attrs["source"] = label
    return frame


def _with_targets(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    there = [target for target in targets if target in frame]
    keep = frame[there].notna().all(axis=1)
    return frame if keep.all() else frame[keep]


def no_rows(label: str) -> TableError:
    """Raise an error: a piece is empty."""
    return TableError(
        f"{label} has no rows: leave it out, or repartition the rows, as "
        "`frame.repartition(...)` does."
    )


def frame_source(reader: TableReader, frame: pd.DataFrame) -> Source:
    """Return a frame in memory as a source: one piece, or one for each thread of a cluster."""

    def tasks(n: int) -> list[Piece]:
        return [
            Piece(f"Rows {start + 1:,} to {stop:,}", frame.iloc[start:stop])
            for start, stop in sources.cuts(len(frame), n)
        ]

    return Source(reader, lambda schema: iter([Piece("The table", frame)]), tasks, in_memory=True)


# ---- Files


@dataclass(frozen=True)
class FilePiece:
    """A text file, or a row group of a Parquet file: enough to read it again anywhere."""

    path: str
    row_group: int | None  # None: all rows of a file that is not Parquet

    def read(self, na: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the rows."""
        if self.row_group is None:
            return read_table(self.path, na=na)
        from pyarrow import parquet

        with reading_parquet(self.path), parquet.ParquetFile(self.path) as file:
            return without_marks(file.read_row_group(self.row_group).to_pandas(), na)


def file_source(reader: TableReader, paths: Sequence[str]) -> Source:
    """Return files with the same columns as a source: chunks, row groups, or whole text files."""
    na = reader.na

    def pieces(schema: Schema | None) -> Iterator[Piece]:
        """Yield chunks of rows; without a schema all columns, with inferred types."""
        columns = None if schema is None else schema.columns
        kinds = None if columns is None else reader.kinds(columns)
        names = None if kinds is None else list(kinds)
        for path in paths:
            _, chunk_rows = plan_chunks(path)
            frames = iter_typed(path, chunk_rows, na)
            if kinds is not None:
                known = iter_table(path, chunk_rows=chunk_rows, columns=names, kinds=kinds, na=na)
                frames = (without_marks(frame, na) for frame in known)
            for frame in frames:
                first, n = int(frame.index[0]) + 1, len(frame)
                yield Piece(f"{path}, rows {first:,} to {first + n - 1:,}", frame)

    def tasks(n: int) -> list[Piece]:
        found = []
        for path in map(os.path.abspath, paths):
            with open(path, "rb") as file:
                is_parquet = file.read(4) == b"PAR1"
            if not is_parquet:
                found.append(Piece(path, FilePiece(path, None)))
                continue
            metadata = parquet_metadata(path)
            if metadata.num_rows == 0:
                raise no_rows(path)
            groups = range(metadata.num_row_groups)
            found += [Piece(path, FilePiece(path, i)) for i in groups]
        return found

    return Source(reader, pieces, tasks)


def first_rows(path: str, na: Sequence[str] | None) -> pd.DataFrame:
    """Return the first chunk of a file, with inferred types."""
    _, chunk_rows = plan_chunks(path)
    return next(iter_typed(path, chunk_rows, na))
