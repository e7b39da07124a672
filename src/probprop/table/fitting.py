"""From a table to a fitted model of its columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
from numpy.random import RandomState
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import has_fit_parameter

from probprop._types import Array
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.standardize import marginal, measure
from probprop.table.columns import FILL_OR_MARGINALIZE, check_no_missing
from probprop.table.counting import Counting
from probprop.table.encoding import fit_encoder
from probprop.table.errors import TableError
from probprop.table.model import Estimator, TableModel, takes_gaps
from probprop.table.names import target_names
from probprop.table.seed import DEFAULT_SEED
from probprop.table.select import choose_features, select
from probprop.table.target import check_one_target, decide_task, labels_of, targets_of

if TYPE_CHECKING:
    from probprop.estimators.base import Callback


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
    na: Sequence[str] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> TableModel:
    """Fit a regressor or a classifier on the columns of a table, as ``probprop fit`` does.

    The default `estimator` and `random_state` give the model that ``probprop fit --fast`` makes of
    the same rows, bit for bit.

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
    estimator : estimator of probprop, default=None
        A clone of it is fitted. With ``missing="marginalize"`` features may have gaps. None is
        ``PBPClassifier(missing="marginalize")`` where the target holds text, true and false, or
        two different whole numbers, and ``PBPRegressor(missing="marginalize")`` otherwise.
    random_state : int, RandomState instance or None, default=0
        The seed, where `estimator` has none of its own. The default is that of ``probprop fit
        --seed``: the same table gives the same model. None gives another model in every call.
    callback : callable, default=None
        Called after each epoch, or by a cross-validated estimator with the share of the work that
        is done, by an estimator whose `fit` takes one.
    weight : str, default=None
        Column of the weights of the rows, 0 or more: `sample_weight` of the estimators. It is no
        feature. Rows of weight 0 are left out.
    error : str or sequence of str, default=()
        Column of the known standard deviations of the target, one for each target: `y_std` of
        `PBPRegressor`. It is no feature.
    na : sequence of str, default=None
        Texts that mean a missing cell in the tables that the model is given later, as for
        `read_table`.
    checkpoint : str or path-like, default=None
        A file for the state of the training, as for `PBPRegressor.fit`.

    Returns
    -------
    TableModel

    Raises
    ------
    TableError
        Where columns are absent, have missing values that `estimator` does not take, or hold what
        no model can use, such as a name for every row.

    Examples
    --------
    >>> import pandas as pd
    >>> from probprop.table import fit_table_model
    >>> fruit = pd.DataFrame({
    ...     "kind": ["apple", "pear", "apple", "pear"],
    ...     "ripe": [True, True, False, False],
    ...     "length": [7.0, 9.5, 6.0, 8.0],
    ...     "weight": [150.0, 180.0, 120.0, 160.0],
    ... })
    >>> model = fit_table_model(fruit, "weight")
    >>> model
    TableModel(PBPRegressor: 'weight' from 'kind', 'ripe', 'length')
    >>> model.encoded_names
    ['length', 'ripe', 'kind=apple', 'kind=pear']
    >>> model.encode(fruit[:2])
    array([[7. , 1. , 1. , 0. ],
           [9.5, 1. , 0. , 1. ]])
    >>> mean, std = model.predict(fruit, return_std=True)
    >>> mean.shape, std.shape
    ((4,), (4,))
    """
    targets, counting = target_names(target), Counting(weight, tuple(target_names(error)))
    counting.check(frame, targets, [*(features or ()), *drop])
    frame = counting.rows(frame)
    chosen = choose_features(frame, targets, features, [*drop, *counting.names])
    given = select(frame, [*chosen, *targets])
    if estimator is None:
        estimator = _usual_estimator(given, targets)
    if is_classifier(estimator):
        check_one_target(targets)
        counting.check_no_errors(targets[0])
        y: Array = labels_of(given, targets[0])
    else:
        y = targets_of(given, targets)
    if not takes_gaps(estimator):
        check_no_missing(given[chosen], FILL_OR_MARGINALIZE)
    encoder, X = fit_encoder(given[chosen])
    new = _seeded(estimator, random_state)
    options: Any = {"callback": callback} if has_fit_parameter(new, "callback") else {}
    if counting.error and isinstance(new, PBPRegressorCV):
        raise TableError(
            f"{type(new).__name__} takes no known errors of the target: leave out the column "
            f"{counting.error[0]!r} of errors, or take PBPRegressor."
        )
    if checkpoint is not None:
        if not has_fit_parameter(new, "checkpoint"):
            raise ValueError(
                f"{type(new).__name__} keeps no checkpoint: leave it out, or take an estimator of "
                "probprop."
            )
        options["checkpoint"] = checkpoint
    options |= counting.options(frame)
    fitted = new.fit(X, y, **options)
    predicted = targets[0] if len(targets) == 1 else targets
    texts = None if na is None else tuple(na)
    baseline = () if is_classifier(new) else marginal(measure(y.reshape(len(y), -1)))
    return TableModel(fitted, encoder, chosen, predicted, counting, texts, baseline)


def _usual_estimator(given: pd.DataFrame, targets: Sequence[str]) -> Estimator:
    """Return a classifier or a regressor, depending on what the targets look like."""
    check_no_missing(given[list(targets)])
    task, _ = decide_task(given, targets)
    kind = PBPClassifier if task == "classification" else PBPRegressor
    return kind(missing="marginalize")


def _seeded(estimator: Estimator, random_state: int | RandomState | None) -> Estimator:
    """Return a clone, with this seed if neither it nor its members have a seed."""
    new = cast(Estimator, clone(estimator))
    parameters = new.get_params(deep=True)
    own = [v for k, v in parameters.items() if k.rpartition("__")[2] == "random_state"]
    if all(seed is None for seed in own):
        new.set_params(random_state=random_state)
    return new
