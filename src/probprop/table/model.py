"""A network on the columns of a table: what encodes them, what it was fitted on, and where."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pandas as pd
from sklearn.base import clone, is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.utils import get_tags

from probprop._types import Array, FloatArray
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.regressor import PBPRegressor
from probprop.predictive.classes import ClassMixture, ClassPredictive
from probprop.predictive.gaussian import Predictive
from probprop.predictive.mixture import Mixture
from probprop.predictive.targets import target_names
from probprop.table.columns import FILL_OR_MARGINALIZE, Kind, check_no_missing, texts, with_gaps
from probprop.table.encoding import encode, fit_encoder, typed_columns
from probprop.table.errors import TableError, check_names, columns_absent, listed
from probprop.table.target import check_known, labels_of, targets_of

if TYPE_CHECKING:
    from probprop.estimators.base import Callback

Estimator = PBPRegressor | PBPClassifier | PBPEnsemble


class UnknownCategoryWarning(UserWarning):
    """Rows have categories that the model was not fitted on."""


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted regressor or classifier with the columns it takes and their encoding.

    Numbers pass as they are, true and false become 1 and 0, each category of a text column
    becomes a column that is 1 where the row has it. A category that is not known gives 0 in
    all of them, and a warning.

    A cell that is missing is refused, or, where the estimator has ``missing="marginalize"``,
    NaN: in a text column, in all columns of its categories, of which it may be any.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier or PBPEnsemble
        Fitted on the encoded columns.
    encoder : ColumnTransformer
        As `build_encoder` makes it.
    features : list of str
        Columns of the table that the model uses, in the order of the table.
    target : str or list of str
        Column that it predicts, or columns: of numbers, each with a noise of its own.
    """

    estimator: Estimator
    encoder: ColumnTransformer
    features: list[str]
    target: str | list[str]

    @property
    def targets(self) -> list[str]:
        """The columns that it predicts, also where it is one."""
        return target_names(self.target)

    @property
    def classes(self) -> Array | None:
        """The classes that it predicts, sorted; None where it predicts a number."""
        classes: Array | None = getattr(self.estimator, "classes_", None)
        return classes

    @property
    def target_kind(self) -> Kind:
        """What each target holds: ``"number"``, ``"boolean"`` or ``"text"``."""
        if self.classes is None or self.classes.dtype.kind in "iu":
            return "number"
        return "boolean" if self.classes.dtype.kind == "b" else "text"

    @property
    def kinds(self) -> dict[str, Kind]:
        """What each feature holds: ``"number"``, ``"boolean"`` or ``"text"``."""
        kinds = {name: kind for kind, _, names in self.encoder.transformers_ for name in names}
        return {name: kinds[name] for name in self.features}

    @property
    def all_kinds(self) -> dict[str, Kind]:
        """What each feature and each target holds, as `read_table` takes it."""
        return self.kinds | dict.fromkeys(self.targets, self.target_kind)

    @property
    def categories(self) -> dict[str, list[str]]:
        """The known categories of each text feature, sorted."""
        texts_of = [(t, names) for kind, t, names in self.encoder.transformers_ if kind == "text"]
        return {
            name: [str(c) for c in categories]
            for transformer, names in texts_of
            for name, categories in zip(names, transformer.categories_, strict=True)
        }

    @property
    def encoded_names(self) -> list[str]:
        """Names of the columns of X: ``column``, or ``column=category``."""
        plain = [
            n for kind, _, names in self.encoder.transformers_ if kind != "text" for n in names
        ]
        return plain + [f"{name}={c}" for name, known in self.categories.items() for c in known]

    def extra_columns(self, frame: pd.DataFrame) -> list[str]:
        """Return the columns of a table that the model ignores; a target is none of them."""
        return [name for name in frame if name not in (*self.features, *self.targets)]

    def unknown_categories(self, frame: pd.DataFrame) -> dict[str, int]:
        """Count the rows whose category is not known, for each column that has such rows."""
        counts = {
            name: int((~pd.Series(texts(frame[name].dropna()), dtype=object).isin(known)).sum())
            for name, known in self.categories.items()
        }
        return {name: n for name, n in counts.items() if n}

    def encode(self, frame: pd.DataFrame) -> FloatArray:
        """Return the features of a table as the estimator takes them.

        Parameters
        ----------
        frame : DataFrame of shape (n, n_columns)
            Columns are matched by name; others are ignored. Numbers may be given as text.

        Returns
        -------
        ndarray of shape (n, len(encoded_names))
            NaN where a cell is missing, if the estimator takes that.

        Raises
        ------
        TableError
            Where columns are absent, cells are of another kind, or missing but not expected.

        Warns
        -----
        UnknownCategoryWarning
            Once, with each column and the number of rows.
        """
        given = _select(frame, self.features)
        if takes_gaps(self.estimator):
            given = with_gaps(given, self.kinds)
        else:
            check_no_missing(given, FILL_OR_MARGINALIZE)
        if unknown := self.unknown_categories(given):
            each = ", ".join(f"{k!r} in {n} row{'s' * (n > 1)}" for k, n in unknown.items())
            warnings.warn(
                f"Categories that the model was not fitted on, in column {each}: taken as none of "
                "those it knows.",
                UnknownCategoryWarning,
                stacklevel=2,
            )
        return encode(self.encoder, typed_columns(given, self.kinds))

    def split(self, frame: pd.DataFrame) -> tuple[FloatArray, Array]:
        """Return X, (n, len(encoded_names)), and y of a table that has the targets.

        y has shape (n,), or (n, K) of several targets. A class that the model does not know is
        refused.
        """
        given = _select(frame, [*self.features, *self.targets])
        if self.classes is None:
            return self.encode(frame), targets_of(given, self.targets)
        [target] = self.targets
        labels = labels_of(given, target, self.target_kind)
        check_known(labels, self.classes, target)
        return self.encode(frame), labels

    def predict_distribution(
        self, frame: pd.DataFrame, *, student_t: bool = False
    ) -> Predictive | Mixture | ClassPredictive | ClassMixture:
        """Return the predictive distribution of the target for every row of a table.

        `student_t` is for a single `PBPRegressor`.
        """
        X = self.encode(frame)
        if isinstance(self.estimator, PBPRegressor):
            return self.estimator.predict_distribution(X, student_t=student_t)
        if student_t:
            raise ValueError("student_t=True is for a PBPRegressor: give False.")
        return self.estimator.predict_distribution(X)

    def update(self, frame: pd.DataFrame) -> TableModel:
        """Return a model after one more pass, over the rows of this table; self stays."""
        X, y = self.split(frame)
        return replace(self, estimator=copy.deepcopy(self.estimator).partial_fit(X, y))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, without pickle; `probprop.load` reads it.

        The file is written beside `path` and renamed, so that a crash never leaves half a
        model.
        """
        from probprop.files import save  # the one import upwards: files know all models

        save(self, path)


def fit_table_model(
    frame: pd.DataFrame,
    target: str | Sequence[str],
    *,
    features: Sequence[str] | None = None,
    drop: Collection[str] = (),
    estimator: Estimator,
    callback: Callback | None = None,
) -> TableModel:
    """Fit a regressor or a classifier on the columns of a table.

    Parameters
    ----------
    frame : DataFrame of shape (n, n_columns)
    target : str or sequence of str
        Column to predict: numbers, or for a classifier whole numbers, true and false, or text.
        Several columns of numbers are predicted by one network, each with its own noise.
    features : sequence of str, default=None
        Columns to predict it from; None means all others.
    drop : collection of str, default=()
        Columns to leave out.
    estimator : PBPRegressor, PBPClassifier or PBPEnsemble
        A clone of it is fitted. With ``missing="marginalize"`` features may have gaps.
    callback : callable, default=None
        Called after each epoch, as by `PBPRegressor.fit`; not for an ensemble.

    Returns
    -------
    TableModel

    Raises
    ------
    TableError
        Where columns are absent, have missing values, or hold what no model can use, as dates.

    Examples
    --------
    >>> import pandas as pd
    >>> from probprop import PBPRegressor
    >>> from probprop.table import fit_table_model
    >>> fruit = pd.DataFrame({
    ...     "kind": ["apple", "pear", "apple", "pear"],
    ...     "ripe": [True, True, False, False],
    ...     "length": [7.0, 9.5, 6.0, 8.0],
    ...     "weight": [150.0, 180.0, 120.0, 160.0],
    ... })
    >>> model = fit_table_model(fruit, "weight", estimator=PBPRegressor(random_state=0))
    >>> model.encoded_names
    ['length', 'ripe', 'kind=apple', 'kind=pear']
    >>> model.encode(fruit[:2])
    array([[7. , 1. , 1. , 0. ],
           [9.5, 1. , 0. , 1. ]])
    >>> model.predict_distribution(fruit).mean.shape
    (4,)
    """
    targets = target_names(target)
    chosen = choose_features(frame, targets, features, drop)
    given = _select(frame, [*chosen, *targets])
    if is_classifier(estimator):
        check_one_target(targets)
        y: Array = labels_of(given, targets[0])
    else:
        y = targets_of(given, targets)
    if not takes_gaps(estimator):
        check_no_missing(given[chosen], FILL_OR_MARGINALIZE)
    encoder, X = fit_encoder(given[chosen])
    new = clone(estimator)
    fitted = new.fit(X, y) if isinstance(new, PBPEnsemble) else new.fit(X, y, callback)
    return TableModel(fitted, encoder, chosen, targets[0] if len(targets) == 1 else targets)


def check_one_target(targets: Sequence[str]) -> None:
    """Refuse several targets, for classes."""
    if len(targets) > 1:
        raise TableError(
            f"Several targets, {listed(targets)}, must all hold numbers, not classes: give one "
            "target, or predict numbers (--task regression)."
        )


def takes_gaps(estimator: Estimator) -> bool:
    """Whether features may be missing: it, or each network of it, marginalises them."""
    return bool(get_tags(estimator).input_tags.allow_nan)


def _source(frame: pd.DataFrame) -> str:
    return str(frame.attrs.get("source", "The table"))


def _select(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return these columns of a table that has them, each once, and rows."""
    if absent := [name for name in names if name not in frame]:
        raise columns_absent(_source(frame), absent, list(frame))
    check_names(_source(frame), list(frame))
    if len(frame) == 0:
        raise TableError(f"{_source(frame)} has no rows: give one with data in it.")
    return frame[list(names)]


def choose_features(
    frame: pd.DataFrame,
    targets: Sequence[str],
    features: Sequence[str] | None,
    drop: Collection[str],
) -> list[str]:
    """Return the columns to use, in the order of the table."""
    wanted = [*targets, *(features or ()), *drop]
    if absent := [name for name in dict.fromkeys(wanted) if name not in frame]:
        raise columns_absent(_source(frame), absent, list(frame))
    if taken := [name for name in targets if name in drop or name in (features or ())]:
        raise TableError(
            f"The target {taken[0]!r} can be neither a feature nor dropped: choose one."
        )
    if not targets or len({*targets}) < len(targets):
        raise TableError(f"The targets must be different columns. Got {listed(targets) or 'none'}.")
    among = frame.columns if features is None else features
    chosen = [k for k in dict.fromkeys(frame) if k in among and k not in (*targets, *drop)]
    if not chosen:
        raise TableError(
            f"{_source(frame)} leaves no feature to predict {listed(targets)} from: it has "
            f"{listed(list(frame))}; choose at least one other column."
        )
    if other := [k for k in chosen if not isinstance(k, str)]:
        raise TableError(
            f"{_source(frame)} has a column named {other[0]!r}, which is not text: rename it, as "
            "`frame.columns.astype(str)` does."
        )
    if features is None and (unnamed := [k for k in chosen if k.startswith("Unnamed: ")]):
        raise TableError(
            f"{_source(frame)} has a column without a name, often the number of the row: name it, "
            f"or drop it (--drop {unnamed[0]!r})."
        )
    return chosen
