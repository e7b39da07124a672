"""`load`: from the name of a data set to its arrays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from probprop._types import FloatArray
from probprop_lab.datasets import store
from probprop_lab.datasets.parse import round_half_up
from probprop_lab.datasets.registry import Source, find_source


@dataclass(frozen=True, eq=False)
class Dataset:
    """A benchmark set.

    Parameters
    ----------
    name : str
    X : ndarray of shape (n_rows, n_features)
        float64 in C order.
    y : ndarray of shape (n_rows,)
        float64.
    feature_names : tuple of str
    target : str
        What y is, with its unit where it has one.
    citation, license : str
    """

    name: str
    X: FloatArray
    y: FloatArray
    feature_names: tuple[str, ...]
    target: str
    citation: str
    license: str


def load(name: str) -> Dataset:
    """Load a benchmark set of [PBP15].

    The raw file is taken from the folder that ``PROBPROP_DATA`` names, else from the cache,
    else downloaded, and used only when its sha256 is right; its numbers are then kept in the
    cache, whose folder ``PROBPROP_CACHE`` can set. The sha256 of
    year_prediction_msd is not known: there, the number of rows and columns is verified.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        The file is wrong, or missing and out of reach; the message says where to get it and
        which folder to put it in.

    Examples
    --------
    >>> data = load("yacht")  # doctest: +SKIP
    >>> data.X.shape, data.target  # doctest: +SKIP
    ((308, 6), 'residuary resistance')
    """
    source = find_source(name)
    X, y = _arrays(name, source)
    return Dataset(name, X, y, source.feature_names, source.target, source.citation, source.license)


def where(name: str) -> Path | None:
    """Return the file of a data set on this machine, or None; nothing is downloaded.

    Parameters
    ----------
    name : str
        One of `NAMES`.

    Returns
    -------
    Path or None
        The file that `load` would verify and use: the raw file, else its parsed arrays.
    """
    return store.find_any(name, find_source(name))


def _arrays(name: str, source: Source) -> store.Arrays:
    path = store.find_raw(source)
    if path is None:
        # Without its raw file, what was parsed from it is still right.
        cached = store.find_arrays(name, source, source.sha256)
        if cached is not None:
            return cached
        path = store.download(source)
    sha256 = store.verify_raw(path, source)
    cached = store.find_arrays(name, source, sha256)
    if cached is not None:
        return cached
    try:
        X, y = parse(path, source)
        store.check_arrays(X, y, source)
    except ValueError as error:
        raise store.unusable(source, f"{path} is not used, {error}") from error
    store.keep_arrays(name, sha256, X, y)
    return X, y


def parse(path: Path, source: Source) -> store.Arrays:
    """Read a raw file and take its features and its target.

    Returns
    -------
    X : ndarray of shape (n_rows, n_features)
    y : ndarray of shape (n_rows,)
    """
    table = source.read(path)
    if table.shape != source.shape:
        raise ValueError(f"it is a table of shape {table.shape} instead of {source.shape}")
    parts = table[:, source.feature_columns], table[:, source.target_column]
    X, y = (
        np.ascontiguousarray(part if decimals is None else round_half_up(part, decimals))
        for part, decimals in zip(parts, source.decimals, strict=True)
    )
    return X, y
