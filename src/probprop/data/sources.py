"""Sources of samples: arrays, tables, files, iterables of blocks and Dask collections.

A source can yield its pieces repeatedly. Every piece is surveyed first; the surveys of
all pieces give one schema; with the schema a piece is loaded, that is checked and encoded as
arrays. Surveying and loading are pure functions of one piece: they run in this process or on the
workers of a cluster. Tables are in `probprop.data.tables`, which needs pandas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.utils.multiclass import unique_labels
from sklearn.utils.validation import validate_data

from probprop._types import Array, FloatArray
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import (
    check_labeled_data,
    check_regression_data,
    check_sample_weight,
    check_target_std,
)
from probprop.inference.inputs import concatenated
from probprop.inference.likelihoods import NOISE_TAILS, Gaussian, Likelihood, of_labels

Network = PBPRegressor | PBPClassifier
CrossValidated = PBPRegressorCV | PBPClassifierCV
Estimator = Network | CrossValidated

_SHAPE = (
    "each block must be a tuple of arrays or frames with rows: (X, y), (X, y, sample_weight) or "
    "(X, y, sample_weight, y_std)"
)


@dataclass(frozen=True, eq=False)
class Loaded:
    """Rows in memory. Indexing takes rows, as for an array."""

    X: Any  # (n, n_features), NaN where a value is missing: an array or `Coded`
    y: Array  # (n,) or (n, K): as given, or in a shard as the likelihood encodes them
    weights: FloatArray | None = None  # (n,), above 0; None: each is 1
    y_std: FloatArray | None = None  # known errors, of the shape of y, in target units
    number: Array | None = None  # (n,), of each row among all rows that count

    def __getitem__(self, rows: Array) -> Loaded:
        fields = vars(self).items()
        taken: dict[str, Any] = {name: None if a is None else a[rows] for name, a in fields}
        return Loaded(**taken)


def joined(parts: Sequence[Loaded]) -> Loaded:
    """Return the rows of several pieces, one after the other."""
    parts = [part for part in parts if len(part.X)] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    whole: dict[str, Any] = {}
    for name, first in vars(parts[0]).items():
        each = [vars(part)[name] for part in parts]
        whole[name] = None if first is None else concatenated(each)
    return Loaded(**whole)


# ---- The interface of sources


@dataclass(frozen=True, eq=False)
class Schema:
    """The common schema of all pieces; picklable."""

    reader: Any
    likelihood: Likelihood
    n_features: int  # columns of X
    n_numbers: int  # of a row: its own, features, targets, weights and known errors
    feature_names: Array | None  # of features that are all numbers
    columns: Any = None  # of a table: `probprop.data.tables.Columns`
    n_without_target: int = 0  # rows of a table that are left out


class Piece(NamedTuple):
    """Some rows: a tuple of arrays, a frame, or a part of a file."""

    label: str  # its name in messages
    rows: Any


@dataclass(frozen=True, eq=False)
class Source:
    """Rows in pieces, which can be read more than once."""

    reader: Any  # surveys pieces, agrees on a schema, and loads pieces; picklable
    # Yields the pieces, one after the other; the schema is known the second time.
    pieces: Callable[[Schema | None], Iterator[Piece]]
    tasks: Callable[[int], list[Piece]]  # for a cluster of n threads; rows may be Delayed
    in_memory: bool = False  # whether the rows are in memory already


def cuts(n: int, n_parts: int) -> list[tuple[int, int]]:
    """Return where each of several parts of n rows begins and ends."""
    ends = np.linspace(0, n, max(1, min(n, n_parts)) + 1).astype(int)
    return [*pairwise(ends.tolist())]


# ---- Arrays


class ArraySurvey(NamedTuple):
    """Survey of one block of arrays."""

    label: str
    n: int
    n_features: int
    names: tuple[str, ...] | None  # of the features
    n_targets: tuple[int, ...]  # empty where y has shape (n,)
    labels: Array | None  # the different classes
    counted: tuple[bool, bool]  # whether it has sample weights, and known errors


@dataclass(frozen=True, eq=False)
class ArrayReader:
    """Reads tuples of arrays, or of frames of numbers."""

    network: Any  # not fitted; determines the type of targets, and whether values may be missing

    def load(self, piece: Any, label: str, columns: None = None) -> Loaded:
        """Check the rows of a block; rows of weight 0 are left out."""
        return self._checked(piece, label)[0]

    def survey(self, piece: Any, label: str) -> ArraySurvey:
        """Survey one block."""
        loaded, names = self._checked(piece, label)
        labels = None
        if is_classifier(self.network):
            labels = np.unique(loaded.y) if loaded.y.ndim == 1 else loaded.y[:1]
        n, n_features = loaded.X.shape
        counted = loaded.weights is not None, loaded.y_std is not None
        return ArraySurvey(label, n, n_features, names, loaded.y.shape[1:], labels, counted)

    def _checked(self, piece: Any, label: str) -> tuple[Loaded, tuple[str, ...] | None]:
        if not isinstance(piece, tuple | list) or not 2 <= len(piece) <= 4:
            raise TypeError(f"{label}: {_SHAPE}, not {type(piece).__name__}.")
        X, y, weight, y_std = (*piece, None, None)[:4]
        with labeled(label):
            network = clone(self.network)
            validate_data(network, X, skip_check_array=True, reset=True)
            check = check_labeled_data if is_classifier(network) else check_regression_data
            X, y = check(network, X, y, reset=False)
            if y_std is not None:
                check_takes_errors(network, "y_std")
            loaded = Loaded(X, y, check_sample_weight(weight, X), check_target_std(y_std, y))
        if loaded.weights is not None and not loaded.weights.all():
            loaded = loaded[np.flatnonzero(loaded.weights)]
        names = getattr(network, "feature_names_in_", None)
        return loaded, None if names is None else tuple(names)

    def agree(self, surveys: Sequence[ArraySurvey]) -> Schema:
        """Return the schema of all blocks."""
        if not surveys:
            raise ValueError(f"there are no blocks: {_SHAPE}.")
        first = surveys[0]
        for each in surveys:
            for what, here, there in (
                ("the number of features", each.n_features, first.n_features),
                ("the feature names", each.names, first.names),
                ("the columns of y", each.n_targets, first.n_targets),
                ("sample_weight and y_std, given or not", each.counted, first.counted),
            ):
                if here != there:
                    raise ValueError(
                        f"{each.label}: {what} must be as in {first.label}. Got {here} and {there}."
                    )
        n_targets = first.n_targets[0] if first.n_targets else 1
        names = None if first.names is None else np.array(first.names, object)
        labels = [each.labels for each in surveys if each.labels is not None]
        if not labels:
            likelihood = values_likelihood(self.network, n_targets)
        elif first.n_targets:
            likelihood = of_labels(labels[0], None)
        else:
            unique_labels(*labels)  # refuses numbers in one block and text in another
            likelihood = of_labels(labels[0], np.concatenate(labels))
        n_numbers = 1 + first.n_features + n_targets + first.counted[0]
        n_numbers += n_targets * first.counted[1]
        return Schema(self, likelihood, first.n_features, n_numbers, names)


def values_likelihood(network: Any, n_targets: int) -> Likelihood:
    """Return the likelihood of a regression with this number of targets."""
    if not isinstance(network, PBPRegressorCV):
        return NOISE_TAILS[network.noise_tail](n_targets, network.noise_shape, network.noise_rate)
    return Gaussian(n_targets)


def check_takes_errors(network: Any, what: str) -> None:
    """Refuse known errors of the target where an estimator does not take them."""
    if not isinstance(network, PBPRegressor | PBPRegressorCV):
        raise ValueError(
            f"{type(network).__name__} does not accept known errors of the target: "
            f"leave out {what}, or use a regressor."
        )


@contextmanager
def labeled(label: str) -> Iterator[None]:
    """Put the name of a piece before an error about it."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if label in str(error):
            raise
        raise type(error)(f"{label}: {error}") from error


def array_source(reader: ArrayReader, given: tuple[Any, ...]) -> Source:
    """Return arrays in memory as a source: one block, or one for each thread of a cluster."""

    def tasks(n: int) -> list[Piece]:
        reader.survey(given, "block 0")  # different lengths are reported for the whole source
        return [
            Piece(f"block {i}", tuple(None if a is None else _rows(a, *ends) for a in given))
            for i, ends in enumerate(cuts(len(given[0]), n))
        ]

    return Source(reader, lambda schema: iter([Piece("block 0", given)]), tasks, in_memory=True)


def _rows(a: Any, start: int, stop: int) -> Any:
    return a.iloc[start:stop] if hasattr(a, "iloc") else np.asarray(a)[start:stop]


def block_source(reader: ArrayReader, blocks: Any) -> Source:
    """Return blocks of arrays as a source; reject one-time iterators."""
    if not (callable(blocks) or hasattr(blocks, "__iter__")):
        raise TypeError(
            "source must be a tuple of arrays (X, y), a pandas or dask DataFrame, the path or the "
            "pattern of files, an iterable of blocks (X, y), or a function that returns one, not "
            f"{type(blocks).__name__}."
        )
    if not callable(blocks) and iter(blocks) is blocks:
        raise TypeError(
            f"source is a {type(blocks).__name__}, which can be gone through only once, but the "
            "rows are read more than once: pass the function that makes it, without calling it, "
            "or a list, or an object whose __iter__ starts again."
        )

    def pieces(schema: Schema | None) -> Iterator[Piece]:
        started = blocks() if callable(blocks) else blocks
        return (Piece(f"block {i}", block) for i, block in enumerate(started))

    def tasks(n: int) -> list[Piece]:
        raise TypeError(
            "an iterable of blocks is for one machine: leave the client out, or write the "
            "blocks to Parquet files that all workers can read."
        )

    return Source(reader, pieces, tasks)


# ---- Sources from user input


class Columnwise(NamedTuple):
    """The roles of the columns of a table, as named by the user."""

    targets: tuple[str, ...] = ()
    features: tuple[str, ...] | None = None  # None: all other columns
    drop: tuple[str, ...] = ()
    weight: str | None = None
    error: tuple[str, ...] = ()  # columns of known errors of the targets
    na: tuple[str, ...] | None = None  # texts that mean a missing value in files


def check_no_columns(asked: Columnwise) -> None:
    """Refuse names of columns where the rows are arrays."""
    names = ("target", "features", "drop", "weight", "error", "na")
    for name, value in zip(names, asked, strict=True):
        if value:
            raise TypeError(
                f"{name} is for tables, frames or files: arrays are a tuple (X, y), "
                "(X, y, sample_weight) or (X, y, sample_weight, y_std)."
            )
