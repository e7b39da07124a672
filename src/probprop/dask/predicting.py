"""`probprop.dask.predict`: predictions for every partition, where it lies."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pandas as pd
from dask import array as da
from dask import dataframe as dd
from sklearn.base import is_classifier

from probprop.distributions.base import frame_columns
from probprop.estimators.kind import classes_of
from probprop.table.model import TableModel


def predict(model: Any, X: Any, *, level: float = 0.95) -> dd.DataFrame:
    """Predict every row, partition by partition; nothing is computed until you ask for it.

    Parameters
    ----------
    model : fitted estimator of probprop, or TableModel
    X : dask DataFrame, dask array, str or path-like
        With the features the model was fitted on; a string is the path or pattern of Parquet
        files. Of a frame only the columns of the features are taken.
    level : float, default=0.95
        Probability of a target between `lower` and `upper`; for numbers.

    Returns
    -------
    dask DataFrame
        With the index of X. Targets of numbers have the columns mean, std, epistemic_std,
        aleatoric_std, lower and upper, each of several targets its own: TARGET_mean and so on.
        Classes have predicted_class, p_CLASS for every class, and the entropy and its two parts.
    """
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be in the range (0.0, 1.0). Got {level} instead.")
    if isinstance(X, str | os.PathLike):
        X = dd.read_parquet(os.fspath(X))
    elif isinstance(X, da.Array):
        X = dd.from_dask_array(X)
    elif not isinstance(X, dd.DataFrame):
        raise TypeError(
            "X must be a dask DataFrame, a dask array, or the path or pattern of Parquet files, "
            f"not {type(X).__name__}. The model's own predict takes rows in memory."
        )
    return X.map_partitions(predictions, model, level, meta=_meta(model), align_dataframes=False)


def predictions(frame: pd.DataFrame, model: Any, level: float) -> pd.DataFrame:
    """Return the predictions of the rows of one partition."""
    if len(frame) == 0:
        return _meta(model)
    estimator: Any
    predicted: Any
    if isinstance(model, TableModel):
        estimator, predicted = model.estimator, model.predict_distribution(frame)
    else:
        names = getattr(model, "feature_names_in_", None)
        rows = frame.to_numpy(np.float64) if names is None else frame[list(names)]
        estimator, predicted = model, model.predict_distribution(rows)
    if is_classifier(estimator):
        made = predicted.to_frame(classes_of(estimator))
    else:
        made = predicted.to_frame(_target_names(model), coverage=level)
    return made.set_axis(frame.index)


def _target_names(model: Any) -> list[str]:
    if isinstance(model, TableModel):
        return model.targets
    return [str(k) for k in range(model.n_outputs_)]


def _meta(model: Any) -> pd.DataFrame:
    """Return predictions of no rows: their columns and types."""
    estimator = model.estimator if isinstance(model, TableModel) else model
    classes = classes_of(estimator)
    if classes is None:
        return pd.DataFrame({k: np.zeros(0) for k in frame_columns(_target_names(model))})
    parts = ("entropy", "entropy_model", "entropy_noise")
    several = getattr(estimator, "multilabel_", False)
    columns = {f"p_{name}": np.zeros(0) for name in classes}
    if several:
        of_each = {f"{k}_{name}": np.zeros(0) for k in parts for name in classes}
        return pd.DataFrame(columns | of_each)
    first = {"predicted_class": classes[:0]}
    return pd.DataFrame(first | columns | {k: np.zeros(0) for k in parts})
