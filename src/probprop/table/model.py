"""`TableModel`: a fitted estimator with the encoder of its table; `fit_table_model`."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from numpy.random import RandomState
from sklearn.base import clone, is_classifier
from sklearn.utils import get_tags

from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.folds import time_folds
from probprop.estimators.cv.policy import N_FOLDS
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.kind import classes_of
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.inputs import Coded
from probprop.inference.standardize import marginal, measure
from probprop.table.cells import missing_texts, with_gaps
from probprop.table.columns import FILL_OR_MARGINALIZE, Kind, check_no_missing
from probprop.table.encoding import TableEncoder, TableNote, times_of
from probprop.table.names import (
    DEFAULT_SEED,
    TableError,
    choose_features,
    listed,
    pandas_of,
    select,
    target_names,
)
from probprop.table.target import (
    NOTHING,
    Counting,
    check_known,
    check_one_target,
    decide_task,
    labels_of,
    targets_of,
)

if TYPE_CHECKING:
    from probprop.estimators.base import Callback

Estimator = PBPRegressor | PBPClassifier | PBPRegressorCV | PBPClassifierCV


_SHOWN, _MOST_ROWS = 4, 40  # names, and columns, in the repr


@dataclass(frozen=True, eq=False, repr=False)
class TableModel:
    """A fitted estimator with the names of the columns of a table, and their encoder.

    A missing value is an error, unless the estimator has ``missing="marginalize"``. An unknown
    category is encoded as the pool of rare levels; if there is none, it gives a warning and is
    missing, or has 0 in all inputs of the column if missing values are an error.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier, PBPRegressorCV or PBPClassifierCV
        Fitted on the encoded columns.
    encoder : TableEncoder
        Fitted on all columns that were chosen; some may be dropped.
    target : str or list of str
        Column that it predicts; or several columns of numbers, each with its own noise.
    counting : Counting, default=NOTHING
        Columns with the weights of the rows and the errors of the targets, which `update` needs
        too. Predictions are for rows of mean weight without known errors.
    na : tuple of str, default=None
        Texts that mean a missing value, as for `read_table`, unless they are known categories.
    baseline : tuple of (float, float), default=()
        Mean and standard deviation of each target over the training rows, in target units. It is
        empty for classes, and if it is not known. `update` leaves it as it is.
    scores : dict, default=None
        Scores of the model when it was fitted, or None if they are not known: ``measured_on``,
        "out-of-fold" or "held-out", ``n_samples`` of them, ``positive_class`` of two classes, and
        ``targets``, which has for each target a dict of scores, None where a score is not defined.
        `update` leaves it as it is.
    """

    estimator: Estimator
    encoder: TableEncoder
    target: str | list[str]
    counting: Counting = NOTHING
    na: tuple[str, ...] | None = None
    baseline: tuple[tuple[float, float], ...] = ()
    scores: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"{self._in_words}\n{self.columns_.to_string(index=False, max_rows=_MOST_ROWS)}"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self._in_words)}</p>{self.columns_.to_html(index=False)}"

    @property
    def _in_words(self) -> str:
        known = f"{listed(self.targets, _SHOWN)} from {listed(self.features, _SHOWN)}"
        return f"TableModel({type(self.estimator).__name__}: {known})"

    @property
    def columns_(self) -> pd.DataFrame:
        """Kind, encoding, and numbers of levels and missing values of each column."""
        return self.encoder.columns_

    @property
    def features(self) -> list[str]:
        """Columns of the table that the model uses, in the order of the table."""
        return list(self.encoder.kinds)

    @property
    def targets(self) -> list[str]:
        """The columns that it predicts, as a list."""
        return target_names(self.target)

    @property
    def classes(self) -> Array | None:
        """The classes that it predicts, sorted; None where it predicts a number."""
        return classes_of(self.estimator)

    @property
    def target_kind(self) -> Kind:
        """Kind of each target: ``"number"``, ``"boolean"`` or ``"text"``."""
        if self.classes is None or self.classes.dtype.kind in "iu":
            return "number"
        return "boolean" if self.classes.dtype.kind == "b" else "text"

    @property
    def kinds(self) -> dict[str, Kind]:
        """Kind of each feature: ``"number"``, ``"boolean"``, ``"date"`` or ``"text"``."""
        return self.encoder.kinds

    @property
    def all_kinds(self) -> dict[str, Kind]:
        """Kind of each feature and each target, as `read_table` takes it."""
        return self.kinds | dict.fromkeys(self.targets, self.target_kind)

    @property
    def weight_to_judge(self) -> str | None:
        """The column of weights, which divide the noise of rows whose target is known, if any.

        It is None for classes, whose probabilities do not depend on weights.
        """
        return self.counting.weight if self.classes is None else None

    @property
    def categories(self) -> dict[str, list[str]]:
        """The levels of each feature of text: categories, "(other)" and "(missing)"."""
        return {e.name: list(e.levels) for e in self.encoder.used if e.kind == "text"}

    @property
    def encoded_names(self) -> list[str]:
        """Names of the columns of X: ``column``, ``column.year`` or ``column=category``."""
        return self.encoder.names

    def cells(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Return the features of a table; texts of `na` that are not categories are missing."""

        def gaps(name: str) -> tuple[Sequence[str], Sequence[str]]:
            texts = missing_texts(self.na, among_numbers=self.encoder.kinds[name] == "number")
            return texts, self.encoder[name].levels

        return with_gaps(select(pandas_of(frame), self.features), gaps)

    def encode(self, frame: pd.DataFrame, y: Array | None = None) -> FloatArray:
        """Return the features of a table as the estimator takes them, (n, len(encoded_names)).

        Columns are matched by name; others are ignored. Numbers may be given as text. A missing
        cell is NaN, if the estimator accepts that. Unknown categories are named in one
        `UnknownCategoryWarning`; absent columns and cells of another kind raise a `TableError`.
        """
        return np.asarray(self._coded(frame, y))

    def _coded(self, frame: pd.DataFrame, y: Array | None = None) -> FloatArray | Coded:
        """Return the same, with codes for text of many levels if the estimator takes gaps."""
        given = self.cells(frame)
        X: FloatArray | Coded = self.encoder.coded(given, y)
        if not takes_gaps(self.estimator):
            check_no_missing(given, FILL_OR_MARGINALIZE)
            X = np.nan_to_num(np.asarray(X), nan=0.0)  # of unknown categories
        return X

    def split(self, frame: pd.DataFrame, *, training: bool = False) -> tuple[FloatArray, Array]:
        """Return X, (n, len(encoded_names)), and y of a table that has the targets.

        y has shape (n,), or (n, K) for several targets. An unknown class is an error.
        """
        frame = pandas_of(frame)
        select(frame, [*self.features, *self.targets])
        y = self.observed(frame)
        return self.encode(frame, y if training else None), y

    def observed(self, frame: pd.DataFrame) -> Array:
        """Return y of a table that has the targets: (n,), or (n, K) for several targets."""
        given = select(frame, self.targets)
        if self.classes is None:
            return targets_of(given, self.targets)
        [target] = self.targets
        labels = labels_of(given, target, self.target_kind)
        check_known(labels, self.classes, target)
        return labels

    def weights_to_judge(self, frame: pd.DataFrame) -> FloatArray | None:
        """Return the weights of rows whose target is known, (n,); None: they have none."""
        name = self.weight_to_judge
        return None if name is None or name not in frame else self.counting.weights(frame)

    def predict_distribution(
        self, frame: pd.DataFrame, **options: Any
    ) -> TargetDistribution | ClassMixture:
        """Return the predictive distribution of the target for every row of a table.

        `options` are arguments of the estimator's `predict_distribution`, such as `sample_weight`.
        The column of weights is not used.
        """
        return self.estimator.predict_distribution(self._coded(frame), **options)

    def predict(self, frame: pd.DataFrame, **options: Any) -> Any:
        """Predict the mean of the target, or its most probable class, for every row of a table.

        The result has shape (n,), or (n, K) for several targets, in target units. `options` are
        arguments of `predict` of the estimator, for example ``return_std=True`` of regressors.
        """
        return self.estimator.predict(self._coded(frame), **options)

    def update(self, frame: pd.DataFrame) -> TableModel:
        """Return a model after one more pass, over the rows of this table; self stays as it is."""
        frame = pandas_of(frame)
        self.counting.check(frame, self.targets)
        frame = self.counting.rows(frame)
        select(frame, [*self.features, *self.targets])
        estimator: Any = copy.deepcopy(self.estimator)
        given = self._coded(frame), self.observed(frame)
        updated = estimator.partial_fit(*given, **self.counting.options(frame))
        return replace(self, estimator=updated)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, atomically and without pickle; `probprop.load` reads it."""
        from probprop.files import save  # the one import upwards: files know all models

        save(self, path)


def takes_gaps(estimator: Estimator) -> bool:
    """Whether features may be missing because the networks marginalize them."""
    return bool(get_tags(estimator).input_tags.allow_nan)


# ---- From a table to a fitted model of its columns


def fit_table_model(
    frame: pd.DataFrame,
    target: str | Sequence[str],
    *,
    features: Sequence[str] | None = None,
    drop: Collection[str] = (),
    estimator: Estimator | None = None,
    random_state: int | RandomState | None = DEFAULT_SEED,
    callback: Callback | Callable[[float], object] | None = None,
    weight: str | None = None,
    error: str | Sequence[str] = (),
    group: str | None = None,
    time: str | None = None,
    na: Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    encoder: TableEncoder | None = None,
) -> TableModel:
    """Fit a regressor or a classifier on the columns of a table, as ``probprop fit`` does.

    With ``PBPRegressorCV(n_jobs=-1)`` it is the model that ``probprop fit``
    writes for the same rows, bit for bit; with the default `estimator`, the model of ``probprop fit
    --fast --test-fraction 0``. Columns that are absent, or have missing values that `estimator`
    does not take, are a `TableError`. `TableEncoder` says which columns are dropped.

    Parameters
    ----------
    frame : table of shape (n, n_columns)
        A frame of pandas, polars, pyarrow or another library that narwhals reads.
    target : str or sequence of str
        Column to predict: numbers, or for a classifier whole numbers, true and false, or text.
        Several columns of numbers are predicted by one network, each with its own noise.
    features, drop, weight, error, checkpoint
        As for `probprop.fit`. Columns of weights and of errors are excluded from the features.
    estimator : estimator of probprop, default=None
        A clone of it is fitted. With ``missing="marginalize"`` features may have missing values.
        None is ``PBPClassifier(missing="marginalize")`` if the target has text, true and false,
        or two different whole numbers, and ``PBPRegressor(missing="marginalize")`` otherwise.
    random_state : int, RandomState instance or None, default=0
        The seed, if `estimator` has none of its own.
    callback : callable, default=None
        As for `fit` of the estimator.
    group : str, default=None
        Column whose equal values mark samples of one group, for example repeated measurements.
        The folds of a cross-validated `estimator` keep them together: `groups` of its `fit`. The
        column is excluded from the features.
    time : str, default=None
        Column of numbers or dates. The folds of a cross-validated `estimator` then predict the
        future from the past: the later half of the samples is predicted in `cv` consecutive blocks,
        each predicted by a network trained on all samples before it. The column stays a feature.
    na : sequence of str, default=None
        Texts that mean a missing cell in the tables to predict, as for `read_table`.
    encoder : TableEncoder, default=None
        Fitted on the features of this table; replaces `features` and `drop`.

    Examples
    --------
    >>> import pandas as pd
    >>> from probprop.table import fit_table_model
    >>> fruit = pd.DataFrame({
    ...     "kind": ["apple", "pear", "apple", "pear"],
    ...     "length": [7.0, 9.5, 6.0, 8.0],
    ...     "weight": [150.0, 180.0, 120.0, 160.0],
    ... })
    >>> model = fit_table_model(fruit, "weight")
    >>> model
    TableModel(PBPRegressor: 'weight' from 'kind', 'length')
    column   kind encoding  levels  missing
      kind   text  one-hot       2        0
    length number    as is       0        0
    >>> mean, std = model.predict(fruit, return_std=True)
    """
    frame = pandas_of(frame)
    targets, counting = target_names(target), Counting(weight, tuple(target_names(error)))
    counting.check(frame, targets, [*(features or ()), *drop])
    frame = counting.rows(frame)
    if encoder is None:
        without = [*drop, *counting.names, *([] if group is None or group in drop else [group])]
        chosen = choose_features(frame, targets, features, without)
    else:
        chosen = [each.name for each in encoder.encoders_]
    given = select(frame, [*chosen, *targets])
    if estimator is None:
        check_no_missing(given[targets])
        task, _ = decide_task(given, targets)
        usual = PBPClassifier if task == "classification" else PBPRegressor
        estimator = usual(missing="marginalize")
    if is_classifier(estimator):
        check_one_target(targets)
        if counting.error:
            raise TableError(
                f"The target {targets[0]!r} is a class, which has no measurement error: leave out "
                f"the column of errors {counting.error[0]!r} (--error), or predict a number "
                "(--task regression)."
            )
        y: Array = labels_of(given, targets[0])
    else:
        y = targets_of(given, targets)
    if not takes_gaps(estimator):
        check_no_missing(given[chosen], FILL_OR_MARGINALIZE)
    if encoder is None:
        encoder = TableEncoder(drop_identifiers=features is None).fit(given[chosen], y)
        if encoder.notes:
            warnings.warn("; ".join(encoder.notes), TableNote, stacklevel=2)
    X = encoder.coded(given, y)
    new: Any = _seeded(estimator, random_state)
    options: dict[str, Any] = {**counting.options(frame)}
    if group is not None or time is not None:
        _check_folds(new, group, time)
    if group is not None:
        check_no_missing(select(frame, [group]))
        options["groups"] = pd.factorize(frame[group])[0]
    if time is not None:
        cv = new.cv
        n_folds = N_FOLDS if isinstance(cv, str) else cv
        new.set_params(cv=time_folds(times_of(frame, time), n_folds))
    fitted = new.fit(X, y, callback=callback, checkpoint=checkpoint, **options)
    if time is not None:  # a file has the number of folds, not their rows
        fitted.set_params(cv=cv)
    predicted = targets[0] if len(targets) == 1 else targets
    texts = None if na is None else tuple(na)
    baseline = () if is_classifier(new) else marginal(measure(y.reshape(len(y), -1)))
    return TableModel(fitted, encoder, predicted, counting, texts, baseline)


def _check_folds(estimator: Any, group: str | None, time: str | None) -> None:
    """Refuse groups and times together, or without folds."""
    if group is not None and time is not None:
        raise TableError(
            f"Folds are made by group ({group!r}) or by time ({time!r}), not by both: give one."
        )
    if not isinstance(estimator, PBPRegressorCV | PBPClassifierCV):
        raise TableError(
            "group and time are about the folds of a cross-validation, and "
            f"{type(estimator).__name__} has none: give PBPRegressorCV or PBPClassifierCV, or "
            "leave them out."
        )
    if time is not None and not isinstance(estimator.cv, int | str):
        raise TableError(
            f"With time, cv must be 'auto' or an int, the number of folds. "
            f"Got {type(estimator.cv).__name__}."
        )


def _seeded(estimator: Estimator, random_state: int | RandomState | None) -> Estimator:
    """Return a clone, with this seed if neither it nor its members have a seed."""
    new = cast(Estimator, clone(estimator))
    parameters = new.get_params(deep=True)
    own = [v for k, v in parameters.items() if k.rpartition("__")[2] == "random_state"]
    if all(seed is None for seed in own):
        new.set_params(random_state=random_state)
    return new
