"""From the columns of a table to the numbers that a network takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.preprocessing import OneHotEncoder

from probprop._types import FloatArray
from probprop.table.columns import Kind, booleans, kind_of, numbers, present, texts


def fit_encoder(given: pd.DataFrame) -> tuple[ColumnTransformer, FloatArray]:
    """Return the encoder of all columns of a table, and the encoded rows.

    Parameters
    ----------
    given : DataFrame of shape (n, n_columns)

    Returns
    -------
    encoder : ColumnTransformer
    X : ndarray of shape (n, n_encoded)
        NaN where a cell is missing.

    Examples
    --------
    >>> import pandas as pd
    >>> _, X = fit_encoder(pd.DataFrame({"kind": ["apple", "pear"], "length": [7.0, 9.5]}))
    >>> X
    array([[7. , 1. , 0. ],
           [9.5, 0. , 1. ]])
    """
    kinds = {name: kind_of(name, present(name, given[name])) for name in given}
    typed = typed_columns(given, kinds)
    known = {k: sorted(set(typed[k].dropna())) for k, kind in kinds.items() if kind == "text"}
    encoder = build_encoder(kinds, known)
    return encoder, encode(encoder, typed)


def build_encoder(
    kinds: Mapping[str, Kind], categories: Mapping[str, Sequence[str]]
) -> ColumnTransformer:
    """Return the fitted encoder of columns of these kinds: numbers, booleans, then categories.

    It is a function of its arguments alone, so that a model file needs only these.

    >>> encoder = build_encoder({"a": "number", "b": "text"}, {"b": ["x", "y"]})
    >>> encoder.transform(pd.DataFrame({"a": [0.5], "b": ["y"]}))
    array([[0.5, 0. , 1. ]])
    """

    def of(kind: Kind) -> list[str]:
        return [name for name, other in kinds.items() if other == kind]

    one_hot = OneHotEncoder(
        categories=[np.array(categories[name], object) for name in of("text")],
        handle_unknown="ignore",
        sparse_output=False,
    )
    parts = [
        ("number", "passthrough", of("number")),
        ("boolean", "passthrough", of("boolean")),
        ("text", one_hot, of("text")),
    ]
    encoder = ColumnTransformer(
        [part for part in parts if part[2]],  # one without columns would stay unfitted
        sparse_threshold=0.0,
        verbose_feature_names_out=False,
    ).set_output(transform="default")
    row = {
        k: [0.0] if k not in categories else pd.Series(categories[k][:1], dtype=object)
        for k in kinds
    }
    return encoder.fit(pd.DataFrame(row))


def encode(encoder: ColumnTransformer, typed: pd.DataFrame) -> FloatArray:
    """Return X; where a text is missing, the columns of all its categories are NaN."""
    X = cast(FloatArray, np.asarray(encoder.transform(typed), np.float64))
    for one_hot, names in [(t, k) for kind, t, k in encoder.transformers_ if kind == "text"]:
        sizes = [len(known) for known in one_hot.categories_]
        gaps = np.repeat(typed[names].isna().to_numpy(), sizes, axis=1)
        X[:, -sum(sizes) :][gaps] = np.nan  # categories come last
    return X


def typed_columns(given: pd.DataFrame, kinds: Mapping[str, Kind]) -> pd.DataFrame:
    """Return the columns as floats and str, whatever they came as; NaN where a cell is missing."""
    columns: dict[str, Any] = {}
    for name, kind in kinds.items():
        there = given[name].notna().to_numpy()
        cells = given[name][there]
        values = np.full(len(given), np.nan, object if kind == "text" else np.float64)
        if kind == "text":
            values[there] = texts(cells)
        else:
            values[there] = (numbers if kind == "number" else booleans)(name, cells)
        columns[name] = pd.Series(values, dtype=values.dtype)
    return pd.DataFrame(columns)
