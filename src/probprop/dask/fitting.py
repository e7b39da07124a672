"""`probprop.dask.fit`: one training shared by the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from distributed import Client
from sklearn.base import clone

from probprop.dask.clients import client_or_local
from probprop.dask.cross_validated import check_cross_validated, fit_cross_validated
from probprop.dask.preparing import Estimator, Network, Prepared, prepare
from probprop.dask.shards import ready
from probprop.dask.sources import source_of
from probprop.dask.tasks import on_cluster
from probprop.estimators.base import Callback, plan_of
from probprop.estimators.checkpoints import settings_of
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.members import check_ensemble, new_members
from probprop.estimators.stepwise import train_on_shards
from probprop.estimators.validation import check_int, check_layer_sizes, check_parameters
from probprop.inference.checkpoint import CheckpointFile, Origin
from probprop.inference.history import warn_of_counts
from probprop.inference.plan import Plan
from probprop.inference.shards import MapShards, usual_rounds
from probprop.inference.standardize import check_target_scale
from probprop.table.model import TableModel
from probprop.table.names import target_names
from probprop.table.target import Counting

_Path = str | os.PathLike[str]


def fit(
    estimator: Estimator,
    X: Any,
    y: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    weight: str | None = None,
    error: str | Sequence[str] = (),
    client: Client | None = None,
    n_shards: int | None = None,
    rounds: int | None = None,
    checkpoint: _Path | None = None,
    callback: Callback | Callable[[float], object] | None = None,
) -> Estimator | TableModel:
    """Fit an estimator on rows that lie on a cluster, or in more files than fit into memory.

    Every worker absorbs rows of its own; after each round what they learned is combined. See
    `docs/guide/cluster.md` for when it pays.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier, PBPEnsemble, PBPRegressorCV or PBPClassifierCV
        A clone of it is fitted; its own `n_shards` is ignored. The last two choose on a sample of
        20,000 rows from all shards, and fit the networks of the folds on all rows: see Notes.
    X : dask DataFrame, dask array of shape (n, n_features), str or path-like
        A string is the path, the folder or the pattern of Parquet files, which all workers can
        read.
    y : dask array, dask Series or DataFrame, default=None
        The targets, of an array or a frame without them.
    target : str or sequence of str, default=None
        The column, or the columns, of X to predict; all others are features.
    weight : str, default=None
        The column of X with the weights of the rows, 0 or more: `sample_weight` of the estimators.
        They are divided by their mean over all rows. Rows of weight 0 are left out.
    error : str or sequence of str, default=()
        The column of X with the known standard deviations of the target, one for each target:
        `y_std` of `PBPRegressor`.
    client : distributed.Client, default=None
        None takes the current one; without any, a local cluster is started for this call.
    n_shards : int, default=None
        Parts that the rows are in, at most the number of partitions or row groups. None is one
        for each thread of the cluster. They decide the result: give a number if it must not
        depend on the size of the cluster.
    rounds : int, default=None
        Rounds of an epoch; None is the number of shards, and at least 16 for each hidden layer.
    checkpoint : str or path-like, default=None
        A file for the state of the training, written after a round, at most once a second. The
        same call goes on from it to the same bits; other data or settings are refused. That of
        each member of an ensemble, or of each fold, has its number appended; that of a choice,
        which takes no `budget` in seconds then, the word choice.
    callback : callable, default=None
        Called with the `Epoch` after each pass; returning True stops the fit there. That of a
        cross-validated estimator is called with the share of the work that is done.

    Returns
    -------
    PBPRegressor, PBPClassifier, PBPEnsemble, PBPRegressorCV or PBPClassifierCV
        As its own `fit` gives it: nothing of it lies on the cluster.
    TableModel
        Where features hold text, dates, or true and false.

    Notes
    -----
    A worker that dies changes nothing: others load its shards again, and the result is the same,
    bit for bit, on processors of one kind.

    Of a cross-validated estimator, the rows of every shard are dealt into `cv` folds, an int. A
    sample of 20,000 rows from all shards, or all rows if these are fewer, with the folds that they
    have, decides on the candidate; a `budget` in seconds is for this choice alone. Then the network
    of each fold learns, by rounds, all rows but those of its fold. After 20, 40, 80 and more epochs
    the rows of the sample are predicted by the networks that have not seen them; the networks end
    where less than a standard error is gained. Factor, noise network and temperature come
    from the same rows, which are held out from the networks that predict them. `oof_rows_` counts
    rows in the order of the files.
    """
    if isinstance(estimator, PBPEnsemble):
        check_ensemble(estimator)
    elif isinstance(estimator, PBPRegressorCV | PBPClassifierCV):
        check_cross_validated(estimator, checkpoint)
    elif isinstance(estimator, Network):
        check_parameters(estimator)
    else:
        raise TypeError(
            "estimator must be a PBPRegressor, a PBPClassifier, a PBPEnsemble, a PBPRegressorCV or "
            f"a PBPClassifierCV, not {type(estimator).__name__}."
        )
    for name, value in (("n_shards", n_shards), ("rounds", rounds)):
        if value is not None:
            check_int(name, value, 1)
    source, targets = source_of(X, y, target)
    counting = Counting(weight, tuple(target_names(error)))
    if counting.names and source.has_arrays:
        raise TypeError("weight and error are columns of a frame or of files, not of an array X.")
    with client_or_local(client) as found:
        prepared = prepare(found, estimator, source, targets, n_shards=n_shards, counting=counting)
        model: Any = train(prepared, estimator, rounds, checkpoint, callback)
    columns = prepared.columns
    if columns is not None and {*columns.encoder.kinds.values()} != {"number"}:
        return table_model(model, prepared)
    if columns is not None:
        model.feature_names_in_ = np.array(columns.encoder.names, object)
    return model  # type: ignore[no-any-return]


def table_model(model: Estimator, prepared: Prepared) -> TableModel:
    """Return a fitted estimator with the columns of its table."""
    columns = prepared.columns
    assert columns is not None  # files have names
    targets = list(columns.wanted.targets)
    predicted = targets[0] if len(targets) == 1 else targets
    return TableModel(
        model,
        columns.encoder,
        columns.features,
        predicted,
        prepared.counting,
        baseline=prepared.baseline,
    )


def train(
    prepared: Prepared,
    estimator: Estimator,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Any,
) -> Any:
    """Return a fitted clone of the estimator."""
    prepared = prepared.with_relative_weights()
    if isinstance(estimator, PBPRegressorCV | PBPClassifierCV):
        return fit_cross_validated(prepared, estimator, n_rounds, checkpoint, callback)
    if not isinstance(estimator, PBPEnsemble):
        model: Any = clone(estimator)
        model.n_features_in_ = prepared.n_features
        _train_network(model, prepared, n_rounds, checkpoint, callback)
        warn_of_counts(model.history_, model.posterior_)
        return model
    ensemble = clone(estimator)
    ensemble.n_features_in_ = prepared.n_features
    ensemble.estimators_ = new_members(ensemble)
    for i, member in enumerate(ensemble.estimators_):
        path = None if checkpoint is None else f"{os.fspath(checkpoint)}.{i}"
        _train_network(member, prepared, n_rounds, path, callback)
    ensemble.likelihood_ = prepared.likelihood
    epochs = [epoch for member in ensemble.estimators_ for epoch in member.history_]
    warn_of_counts(epochs, ensemble.estimators_[0].posterior_)
    return ensemble


def _train_network(
    model: Network,
    prepared: Prepared,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callback | None,
) -> None:
    """Make the rounds of one network and publish what they reached."""
    likelihood, client = prepared.likelihood, prepared.client
    standardizer = prepared.standardizer(standardize=plan_of(model, likelihood).standardize)
    if likelihood.standardises_target:
        check_target_scale(standardizer.y_scale)
    sizes = tuple(summary.n for summary in prepared.summaries)
    if n_rounds is None:
        n_rounds = usual_rounds(len(sizes), len(check_layer_sizes(model.hidden_layer_sizes)))
    file = None
    if checkpoint is not None:
        settings = settings_of(model) | {"n_shards": str(len(sizes)), "rounds": str(n_rounds)}
        file = CheckpointFile(checkpoint, Origin(prepared.digest, settings))

    def mapped(plan: Plan, seed: int) -> MapShards:
        shards = [
            client.submit(ready, rows, plan, standardizer, seed, k, pure=False)
            for k, rows in enumerate(prepared.loaded)
        ]
        return on_cluster(client, shards)

    train_on_shards(
        model,
        likelihood,
        standardizer,
        sizes,
        n_rounds,
        mapped,
        file=file,
        callback=callback,
        mean_weight=prepared.mean_weight,
    )
