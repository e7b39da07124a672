"""A whole report on a fitted model: its sections, below the page on which it predicts."""

from __future__ import annotations

import html
import os
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from probprop.estimators.shapley import evenly
from probprop.facts import OUT_OF_FOLD, HeldOut
from probprop.inference.inputs import MEAN
from probprop.inference.standardize import marginal, measure
from probprop.report.document import Section, render, save_html
from probprop.report.live import live_page, refusal
from probprop.report.sections import sections_and_ranking
from probprop.table.encoding import ColumnEncoder, table_encoder
from probprop.table.model import TableModel
from probprop.table.names import as_frame, in_words


@dataclass(frozen=True)
class Report:
    """A report: one HTML document without external parts. Notebooks show it in a frame.

    Parameters
    ----------
    html : str
        The whole document.
    """

    html: str

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all; an existing file is replaced."""
        save_html(path, self.html)

    def __repr__(self) -> str:
        return f"Report({len(self.html) / 1e6:.1f} MB of HTML: save it, or show it in a notebook)"

    def _repr_html_(self) -> str:
        style = "width:100%; height:50rem; border:0"
        return f'<iframe srcdoc="{html.escape(self.html)}" style="{style}"></iframe>'


def model_report(
    model: TableModel,
    frame: pd.DataFrame,
    *,
    held_out: HeldOut,
    live: bool = True,
    no_rows: bool = False,
    train: pd.DataFrame | None = None,
) -> Report:
    """Evaluate a model on the rows of a frame, which have their targets.

    `held_out` is as for `sections_and_ranking`. With `no_rows` there is no cell of a row in it.
    `train` are the rows that the model was fitted on, if they are known.
    """
    (sections, important), page = sections_and_ranking(model, frame, held_out=held_out), None
    if no_rows:
        sections = [section for section in sections if not section.names_rows]
    if live and (words := refusal(model)) is not None:
        sections.append(Section("What if", words))
    elif live:
        estimator: Any = model.estimator
        page = live_page(
            model,
            # A page contains training rows without out-of-fold predictions as summaries only.
            rows=None if no_rows or held_out is False else frame,
            predictive=estimator.oof_predictive_ if held_out == OUT_OF_FOLD else None,
            train=None if no_rows else train,
            important=important,
        )
    return Report(render(f"Predicting {in_words(model.targets)}", sections, live=page))


def report(
    model: Any,
    X: ArrayLike,
    y: ArrayLike | None = None,
    path: str | os.PathLike[str] | None = None,
    *,
    held_out: bool | None = None,
) -> Report:
    """Report on a fitted model in one call: the document that ``probprop report`` writes.

    If X and y are the training samples of a `PBPRegressorCV` or `PBPClassifierCV`, their
    out-of-fold predictions are evaluated.

    Parameters
    ----------
    model : PBPRegressor, PBPClassifier, PBPRegressorCV, PBPClassifierCV or TableModel
        Fitted.
    X : table or array-like of shape (n, n_features)
        Samples to evaluate it on. The document contains up to 300 of them.
    y : array-like of shape (n,), or (n, K) for several targets, default=None
        Their targets, with the name of the series, or "target". A `TableModel` has the target among
        the columns of X.
    path : str or path-like, default=None
        HTML file to write, if any.
    held_out : bool, default=None
        Whether the model was fitted without these samples; None if that is not known.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> import probprop
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = probprop.PBPRegressor(n_epochs=5, random_state=0).fit(X[:350], y[:350])
    >>> made = probprop.report(model, X[350:], y[350:], held_out=True)
    >>> "Predicting target" in made.html
    True
    """
    frame = as_frame(X)
    if isinstance(model, TableModel):
        if frame is None:
            raise TypeError(f"X must be a table for a TableModel. Got {type(X).__name__}.")
        table = model
    else:
        if not hasattr(model, "predict_distribution"):
            raise TypeError(
                "model must be an estimator of probprop or a TableModel. Got "
                f"{type(model).__name__}; for a pipeline, give its last step and the transformed X."
            )
        check_is_fitted(model)
        if y is None:
            raise ValueError("y must be the targets of X. Got None.")
        check_consistent_length(X, y)
        table, frame = _as_table(model, X if frame is None else frame, y)
    rows = frame.reset_index(drop=True)
    known, train, estimator = held_out, None, table.estimator
    if held_out is None and _is_training_set(table, rows):
        known, train = OUT_OF_FOLD, rows  # type: ignore[assignment]
        if table.classes is None:
            y = table.observed(rows).reshape(len(rows), -1)
            table = replace(table, baseline=marginal(measure(y)))
        rows = rows.iloc[estimator.oof_rows_]
    made = model_report(table, rows, held_out=known, train=train)
    if path is not None:
        made.save(path)
    return made


def _as_table(model: Any, X: Any, y: Any) -> tuple[TableModel, pd.DataFrame]:
    """Return an estimator as a model of a table, and the table."""
    encoder = getattr(model, "encoder_", None)
    if isinstance(X, pd.DataFrame):
        frame = X.set_axis([str(name) for name in X.columns], axis=1)
    else:
        frame = pd.DataFrame(np.asarray(X)).add_prefix("x")
    if encoder is None:
        columns = [ColumnEncoder(str(name), "number") for name in frame.columns]
        encoder, model = table_encoder(columns), copy(model)
        model.__dict__.pop("feature_names_in_", None)  # it is given arrays
    else:
        model = model.on_inputs()
    observed = np.asarray(y).reshape(len(frame), -1)
    given = [str(name) for name in getattr(y, "columns", [getattr(y, "name", None) or "target"])]
    if len(given) < observed.shape[1]:
        given = [f"target {k}" for k in range(observed.shape[1])]
    names = [f"{name} (target)" if name in frame else name for name in given]
    targets = pd.DataFrame(observed, columns=names, index=frame.index).infer_objects()
    target: Any = names if len(names) > 1 else names[0]
    return TableModel(model, encoder, target), pd.concat([frame, targets], axis=1)


def _is_training_set(model: TableModel, frame: pd.DataFrame) -> bool:
    """Whether these are the samples of the `fit` of a cross-validated estimator."""
    estimator: Any = model.estimator
    known = getattr(estimator, "background_", None)
    if known is None or estimator.n_samples_seen_ != len(frame):
        return False
    X = model.encode(frame.iloc[evenly(len(frame), len(known))])
    means = np.flatnonzero(model.encoder.sets == MEAN)
    X[:, means] = known[:, means]  # which are over other samples there
    return np.array_equal(X, known, equal_nan=True)
