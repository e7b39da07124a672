"""Files of a table, Parquet or text, as blocks of rows that a network takes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import is_classifier

from probprop.blocks.source import Block, Looked
from probprop.inference.likelihoods import NOISE_TAILS, of_classes
from probprop.table.cells import is_text, missing_texts, replaced, without_texts
from probprop.table.encoding import Columns, Survey, Wanted, agreed, labelled, survey_frame
from probprop.table.model import takes_gaps
from probprop.table.names import TableError
from probprop.table.read import iter_table, paths_of, plan_chunks, with_numbers
from probprop.table.target import check_one_target

Advance = Callable[[int], None]
"""Is told how many more rows were read."""


class FileBlocks:
    """The rows of files whose targets are known, as a source.

    Parameters
    ----------
    network : PBPRegressor or PBPClassifier
        Says whether the target is a class, and whether cells may be missing.
    data : str, path-like or sequence of str
        Path, folder or pattern.
    targets : sequence of str
    features : sequence of str, default=None
        None: all other columns.
    drop : sequence of str, default=()
    na : sequence of str, default=None
        Texts that mean a missing cell, as for `read_table`.
    advance : callable, default=None
    """

    def __init__(
        self,
        network: Any,
        data: str | os.PathLike[str] | Sequence[str],
        targets: Sequence[str],
        *,
        features: Sequence[str] | None = None,
        drop: Sequence[str] = (),
        na: Sequence[str] | None = None,
        advance: Advance | None = None,
    ) -> None:
        self.network, self.paths, self.na = network, paths_of(data), na
        classes = bool(is_classifier(network))
        if classes:
            check_one_target(targets)
        chosen = None if features is None else tuple(features)
        self.wanted = Wanted(tuple(targets), chosen, tuple(drop), classes, takes_gaps(network))
        self.columns: Columns | None = None
        self.n_without_target = 0
        self._advance = advance or (lambda n: None)

    def look(self, most: int) -> Looked:
        """Find out what the columns of all files hold; nothing is held."""
        surveys: list[Survey] = []
        sizes: list[tuple[str, int]] = []
        self.n_without_target = 0
        for label, frame in self._frames(None):
            known = _with_targets(frame, self.wanted.targets)
            self.n_without_target += len(frame) - len(known)
            sizes.append((label, len(known)))
            if len(known):
                surveys.append(survey_frame(known, label, self.wanted))
        if not surveys:
            raise TableError(f"{self.paths[0]} has no row with a value of the target.")
        self.columns = columns = agreed(surveys, self.wanted)
        network = self.network
        if columns.classes is None:
            prior = network.noise_shape, network.noise_rate
            likelihood: Any = NOISE_TAILS[network.noise_tail](len(self.wanted.targets), *prior)
        elif len(columns.classes) < 2:
            raise TableError(
                f"The target {self.wanted.targets[0]!r} has only one class, "
                f"{columns.classes[0]!r}: give rows of another class too."
            )
        else:
            likelihood = of_classes(columns.classes, multilabel=False)
        return Looked(sizes, len(columns.encoder.names), len(self.wanted.targets), likelihood)

    def read(self) -> Iterator[Block]:
        """Yield the encoded rows of every chunk of every file."""
        columns = self.columns
        assert columns is not None, "look first"
        kinds = dict(columns.encoder.kinds)
        kinds |= dict.fromkeys(self.wanted.targets, columns.target_kind)
        for label, frame in self._frames(kinds):
            known = _with_targets(frame, self.wanted.targets)
            if not len(known):
                yield Block(label, np.zeros((0, len(columns.encoder.names))), np.zeros(0))
                continue
            known.attrs["source"] = label
            with labelled(label):
                X, y = columns.encode(known)
            yield Block(label, X, y)

    def _frames(self, kinds: dict[str, Any] | None) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield chunks with their labels; without kinds, with all columns as what they look like.

        Only the columns of `kinds` are read where these are known.
        """
        for path in self.paths:
            _, chunk_rows = plan_chunks(path)
            names = None if kinds is None else list(kinds)
            frames = iter_table(path, chunk_rows=chunk_rows, columns=names, kinds=kinds, na=self.na)
            with _vanished(path, second=kinds is not None):
                for frame in frames:
                    first, n = int(frame.index[0]) + 1, len(frame)
                    label = f"{path}, rows {first:,} to {first + n - 1:,}"
                    whole = typed(frame, self.na) if kinds is None else _gaps(frame, self.na)
                    yield label, whole
                    self._advance(n)


def typed(frame: pd.DataFrame, na: Sequence[str] | None) -> pd.DataFrame:
    """Return a chunk of text as numbers, true and false, and text, as `read_table` would.

    >>> typed(pd.DataFrame({"a": ["1", "NA"], "b": ["true", "False"], "c": ["x", "?"]}), None)
         a      b    c
    0  1.0   True    x
    1  NaN  False  NaN
    """
    if all(is_text(dtype) for dtype in frame.dtypes):  # as a text file comes; Parquet has types
        decimal = frame.attrs.get("decimal", ".")
        frame = with_numbers(frame, dict.fromkeys(map(str, frame), "number"), decimal, na)
    frame = _gaps(frame, na)
    found = {}
    for name, dtype in frame.dtypes.items():
        if is_text(dtype) and (flags := _flags(frame[name])) is not None:
            found[str(name)] = flags
    return replaced(frame, found)


def _gaps(frame: pd.DataFrame, na: Sequence[str] | None) -> pd.DataFrame:
    """Make gaps of "NA" and the like in columns of text."""
    texts = missing_texts(na, among_numbers=False)
    cells = {str(k): frame[k] for k, dtype in frame.dtypes.items() if is_text(dtype)}
    left = {k: without_texts(column, texts) for k, column in cells.items()}
    return replaced(frame, {k: v for k, v in left.items() if v is not cells[k]})


def _flags(column: pd.Series) -> pd.Series | None:
    """Return text that is true and false as such; None if any is not."""
    there = column.dropna()
    if not len(there) or not isinstance(there.iloc[0], str):
        return None
    if str(there.iloc[0]).lower() not in ("true", "false"):  # most columns end here
        return None
    different = {str(cell) for cell in there.unique()}
    if not {cell.lower() for cell in different} <= {"true", "false"}:
        return None
    flags = column.astype(object).map({cell: cell.lower() == "true" for cell in different})
    return flags.astype(bool) if len(there) == len(column) else flags


def _with_targets(frame: pd.DataFrame, targets: Sequence[str]) -> pd.DataFrame:
    there = [target for target in targets if target in frame]
    keep = frame[there].notna().all(axis=1)
    return frame if keep.all() else frame[keep]


@contextmanager
def _vanished(path: str, *, second: bool) -> Iterator[None]:
    """Say of a file that could be read before that it has changed."""
    try:
        yield
    except TableError as error:
        if not second or os.path.exists(path):
            raise
        raise TableError(
            f"{path} was there in the first pass and is gone in the second: leave the files as "
            "they are while they are read."
        ) from error
