"""Tables as sources: frames, and Parquet and text files, whose columns have names and kinds."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from probprop._types import Array
from probprop.data import sources
from probprop.data.sources import Columnwise, Loaded, Piece, Schema, Source, labeled
from probprop.inference.likelihoods import of_labels
from probprop.table.cells import without_marks
from probprop.table.columns import FILL_OR_MARGINALIZE, Kind, check_no_missing, kind_of
from probprop.table.encoding import (
    Look,
    TableEncoder,
    column_encoder,
    look_at,
    one_kind,
    table_encoder,
)
from probprop.table.model import takes_gaps
from probprop.table.names import (
    TableError,
    check_present,
    choose_features,
    is_reserved,
    reading_parquet,
    select,
)
from probprop.table.read import frames_of, parquet_metadata, plan_chunks, read_table
from probprop.table.target import Counting, check_one_target, labels_of, targets_of


class TableSurvey(NamedTuple):
    """What was found in one piece of a table."""

    label: str
    n: int  # rows with a target, of a weight above 0; without any, nothing else is known
    n_without_target: int
    names: tuple[str, ...] = ()  # all columns
    looks: Mapping[str, Look] = {}  # at each feature
    target_kind: Kind | None = None  # of classes
    labels: Sequence[Any] = ()  # the different classes


@dataclass(frozen=True)
class Columns:
    """What the columns of all pieces are."""

    encoder: TableEncoder
    targets: tuple[str, ...]
    target_kind: Kind
    classes: Array | None  # sorted; None if the targets are numbers


@dataclass(frozen=True, eq=False)
class TableReader:
    """Reads frames, and pieces of files."""

    network: Any  # not fitted; says whether the target is a class, and features may be missing
    asked: Columnwise
    counting: Counting

    def rows(self, piece: Any, label: str) -> pd.DataFrame:
        """Return the rows with a target and of a weight above 0."""
        known = _with_targets(_frame_of(piece, label, self.asked.na), self.asked.targets)
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
            features, targets = list(columns.encoder.kinds), columns.targets
            given = select(frame, [*features, *targets])
            if not takes_gaps(self.network):
                check_no_missing(given[features], FILL_OR_MARGINALIZE)
            X = columns.encoder.coded(given)
            if columns.classes is None:
                y = targets_of(given, targets)
            else:
                y = labels_of(given, targets[0], columns.target_kind)
            options = counting.options(frame)
        return Loaded(X, y, options.get("sample_weight"), options.get("y_std"))

    def survey(self, piece: Any, label: str) -> TableSurvey:
        """Survey one piece."""
        frame, asked = _frame_of(piece, label, self.asked.na), self.asked
        if len(frame) == 0:
            raise no_rows(label)
        known = _with_targets(frame, asked.targets)
        n_without = len(frame) - len(known)
        if len(known):
            with labeled(label):
                self.counting.check(known, asked.targets, asked.features or ())
            known = self.rows(known, label)
        found = TableSurvey(label, len(known), n_without)
        if not len(known):
            return found
        with labeled(label):
            without = [*asked.drop, *self.counting.names]
            chosen = choose_features(known, asked.targets, asked.features, without)
            looks = {name: look_at(name, known[name]) for name in chosen}
            found = found._replace(names=tuple(map(str, known)), looks=looks)
            if not is_classifier(self.network):
                return found
            [target] = asked.targets
            check_no_missing(known[[target]])
            kind = kind_of(target, known[target])
            labels = np.unique(labels_of(known, target, kind)).tolist()
            return found._replace(target_kind=kind, labels=labels)

    def agree(self, surveys: Sequence[TableSurvey]) -> Schema:
        """Return the schema of all pieces; refuse pieces that differ, by name."""
        found = [each for each in surveys if each.n > 0]
        if not found:
            above = "" if self.counting.weight is None else " and a weight above 0"
            raise TableError(f"{surveys[0].label} has no row with a value of the target{above}.")
        columns = self._columns(found)
        likelihood = (
            sources.values_likelihood(self.network, len(columns.targets))
            if columns.classes is None
            else of_labels(columns.classes, columns.classes)
        )
        encoder, names = columns.encoder, columns.encoder.names
        plain = {*encoder.kinds.values()} == {"number"} and not encoder.dropped
        n_numbers = 1 + len(names) + len(columns.targets) + len(self.counting.names)
        feature_names = np.array(names, object) if plain else None
        n_without = sum(each.n_without_target for each in surveys)
        return Schema(self, likelihood, len(names), n_numbers, feature_names, columns, n_without)

    def _columns(self, found: Sequence[TableSurvey]) -> Columns:
        asked, by_name = self.asked, self.asked.features is None  # columns that were named are kept
        used: Any = [*(asked.features or ()), *asked.targets]
        if by_name:
            used = dict.fromkeys(name for each in found for name in each.names)
        without = {*asked.drop, *self.counting.names}
        used = [name for name in used if name not in without and not is_reserved(name)]
        for each in found:
            check_present(each.label, used, each.names)
        by_column = {k: {each.label: each.looks[k] for each in found} for k in found[0].looks}
        encoder = table_encoder(
            [column_encoder(k, looks, drop_identifiers=by_name) for k, looks in by_column.items()]
        )
        held = {each.label: each.target_kind for each in found if each.target_kind is not None}
        if not held:
            return Columns(encoder, asked.targets, "number", None)
        kind = one_kind(asked.targets[0], held)
        classes = sorted({label for each in found for label in each.labels})
        dtype = object if kind == "text" else None
        return Columns(encoder, asked.targets, kind, np.array(classes, dtype))


def table_reader(network: Any, asked: Columnwise) -> TableReader:
    """Return the reader of the columns that a user names."""
    if not asked.targets:
        raise TypeError("target is missing: name the column, or the columns, to predict.")
    counting = Counting(asked.weight, asked.error)
    if is_classifier(network):
        check_one_target(asked.targets)
    if counting.error:
        sources.check_takes_errors(network, f"the column {counting.error[0]!r} of errors")
    return TableReader(network, asked, counting)


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
    """Return the error of an empty piece."""
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
    na = reader.asked.na

    def pieces(schema: Schema | None) -> Iterator[Piece]:
        """Yield chunks of rows; without a schema all columns, with inferred types."""
        kinds: dict[str, str] | None = None
        if schema is not None:
            columns = schema.columns
            kinds = columns.encoder.kinds | dict.fromkeys(columns.targets, columns.target_kind)
            kinds |= dict.fromkeys(reader.counting.names, "number")
        names = None if kinds is None else list(kinds)
        for path in paths:
            _, chunk_rows = plan_chunks(path)
            for frame in frames_of(path, chunk_rows, names, kinds, na):
                if kinds is not None:
                    frame = without_marks(frame, na)
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
