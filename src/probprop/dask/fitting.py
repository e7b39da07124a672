"""`probprop.dask.fit`: one training shared by the workers of a cluster."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from distributed import Client
from numpy.random import RandomState
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from probprop.dask.clients import client_or_local, n_threads, on_cluster
from probprop.dask.shards import Summary, load_blocks, load_table, ready, summarise, warn_of_order
from probprop.dask.sources import Source, source_of
from probprop.dask.survey import survey, survey_block
from probprop.estimators.base import Callback, plan_of, publish
from probprop.estimators.checkpoints import generator_of, settings_of
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.members import check_ensemble, member_kind, new_members
from probprop.estimators.progress import progress_bar
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int, check_parameters
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, Origin, digest
from probprop.inference.history import check_learned, warn_of_counts
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import NOISE_TAILS, Likelihood, of_classes
from probprop.inference.posterior import Epoch
from probprop.inference.rounds.loop import Setting, first_state, rounds
from probprop.inference.rounds.schedule import Schedule, usual_rounds
from probprop.inference.standardize import (
    Standardizer,
    check_target_scale,
    identity_standardizer,
    merged,
    standardizer_of,
)
from probprop.inference.training import Fitted
from probprop.table.model import TableModel, takes_gaps
from probprop.table.survey import Columns, Wanted, agreed
from probprop.table.target import check_one_target

Network = PBPRegressor | PBPClassifier
_Path = str | os.PathLike[str]


def fit(
    estimator: Network | PBPEnsemble,
    X: Any,
    y: Any = None,
    *,
    target: str | Sequence[str] | None = None,
    client: Client | None = None,
    n_shards: int | None = None,
    rounds: int | None = None,
    checkpoint: _Path | None = None,
    callback: Callback | None = None,
) -> Network | PBPEnsemble | TableModel:
    """Fit an estimator on rows that lie on a cluster, or in more files than fit into memory.

    Every worker absorbs rows of its own; after each round what they learned is combined. See
    `docs/guide/cluster.md` for when it pays.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier or PBPEnsemble
        A clone of it is fitted. Its `n_jobs` is of no matter here.
    X : dask DataFrame, dask array of shape (n, n_features), str or path-like
        A string is the path, the folder or the pattern of Parquet files, which all workers can
        read.
    y : dask array, dask Series or DataFrame, default=None
        The targets, of an array or a frame without them.
    target : str or sequence of str, default=None
        The column, or the columns, of X to predict; all others are features.
    client : distributed.Client, default=None
        None takes the current one; without any, a local cluster is started for this call.
    n_shards : int, default=None
        Parts that the rows are in, at most the number of partitions or row groups. None is one
        for each thread of the cluster. They decide the result: give a number if it must not
        depend on the size of the cluster.
    rounds : int, default=None
        Rounds of an epoch; None is the number of shards, and at least 16.
    checkpoint : str or path-like, default=None
        A file for the state of the training, written after a round, at most once a second. The
        same call goes on from it to the same bits; other data or settings are refused. That of
        each member of an ensemble has its number appended.
    callback : callable, default=None
        Called with the `Epoch` after each pass; returning True stops the fit there.

    Returns
    -------
    PBPRegressor, PBPClassifier or PBPEnsemble
        As its own `fit` gives it: nothing of it lies on the cluster.
    TableModel
        Where features hold text, dates, or true and false.

    Notes
    -----
    A worker that dies changes nothing: others load its shards again, and the result is the same,
    bit for bit, on processors of one kind.
    """
    if isinstance(estimator, PBPEnsemble):
        check_ensemble(estimator)
    elif isinstance(estimator, Network):
        check_parameters(estimator)
    else:
        raise TypeError(
            "estimator must be a PBPRegressor, a PBPClassifier or a PBPEnsemble, not "
            f"{type(estimator).__name__}."
        )
    for name, value in (("n_shards", n_shards), ("rounds", rounds)):
        if value is not None:
            check_int(name, value, 1)
    source, targets = source_of(X, y, target)
    with client_or_local(client) as found:
        prepared = prepare(found, estimator, source, targets, n_shards=n_shards)
        model: Any = train(prepared, estimator, rounds, checkpoint, callback)
    columns = prepared.columns
    if columns is not None and {*columns.encoder.kinds.values()} != {"number"}:
        return table_model(model, columns)
    if columns is not None:
        model.feature_names_in_ = np.array(columns.encoder.names, object)
    return model  # type: ignore[no-any-return]


def table_model(model: Network | PBPEnsemble, columns: Columns) -> TableModel:
    """Return a fitted estimator with the columns of its table."""
    targets = list(columns.wanted.targets)
    predicted = targets[0] if len(targets) == 1 else targets
    return TableModel(model, columns.encoder, columns.features, predicted)


@dataclass(frozen=True)
class Prepared:
    """Rows that wait for the rounds.

    Parameters
    ----------
    client : distributed.Client
    loaded : list of Future
        The rows of each shard.
    summaries : list of Summary
    columns : Columns or None
        None: X is an array.
    likelihood : Likelihood
    """

    client: Client
    loaded: list[Any]
    summaries: list[Summary]
    columns: Columns | None
    likelihood: Likelihood

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.summaries[0].x.n)

    def standardizer(self, *, standardize: bool) -> Standardizer:
        """Return the standardiser of all rows: the moments are summed in the order of shards."""
        y = self.likelihood.standardises_target
        if not standardize:
            return identity_standardizer(self.n_features, self.likelihood.n_outputs if y else 1)
        x_moments = merged([summary.x for summary in self.summaries])
        y_moments = merged([summary.y for summary in self.summaries]) if y else None
        return standardizer_of(x_moments, y_moments)


def prepare(
    client: Client,
    estimator: Network | PBPEnsemble,
    source: Source,
    targets: Sequence[str],
    *,
    n_shards: int | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Prepared:
    """Look at the columns of all pieces, then load and measure the shards."""
    n_pieces = len(source.pieces)
    if n_shards is not None and n_shards > n_pieces:
        raise ValueError(
            f"n_shards == {n_shards}, but there are only {n_pieces} partitions or row groups: "
            "give fewer shards, or repartition the data."
        )
    n = min(n_pieces, n_threads(client)) if n_shards is None else n_shards
    network = member_kind(estimator) if isinstance(estimator, PBPEnsemble) else estimator
    classes, gaps = bool(is_classifier(network)), takes_gaps(network)
    columns, found = None, None
    look: Any = partial(survey_block, classes=classes)
    load: Any = partial(load_blocks, gaps=gaps)
    each = [[i] for i in range(n_pieces)]
    if source.has_arrays:
        blocks = client.gather([source.submit(client, look, which) for which in each])
        found = np.array(sorted({label for labels in blocks for label in labels}))
    else:
        if classes:
            check_one_target(targets)
        wanted = Wanted(
            tuple(targets),
            None if features is None else tuple(features),
            tuple(drop),
            classes,
            gaps,
        )
        look = partial(survey, wanted=wanted)
        surveys = client.gather([source.submit(client, look, which) for which in each])
        columns = agreed(surveys, wanted)
        load = partial(load_table, columns=columns)
        found = columns.classes
    likelihood = _likelihood(network, source.n_targets, found)
    loaded = [
        source.submit(client, partial(load, likelihood=likelihood), which)
        for which in source.shares(n)
    ]
    summaries = client.gather(
        [client.submit(summarise, rows, likelihood, pure=False) for rows in loaded]
    )
    warn_of_order(summaries)
    return Prepared(client, loaded, summaries, columns, likelihood)


def _likelihood(network: Network, n_targets: int, classes: Any) -> Likelihood:
    if isinstance(network, PBPRegressor):
        return NOISE_TAILS[network.noise_tail](n_targets, network.noise_shape, network.noise_rate)
    if n_targets > 1:
        return of_classes(np.arange(n_targets), multilabel=True)
    if len(classes) < 2:
        raise ValueError(
            "the target must have rows of at least 2 classes, but has only "
            f"{classes.tolist()}: give rows of another class too."
        )
    return of_classes(classes, multilabel=False)


def train(
    prepared: Prepared,
    estimator: Network | PBPEnsemble,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callback | None,
) -> Any:
    """Return a fitted clone of the estimator."""
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
    likelihood = prepared.likelihood
    plan = plan_of(model, likelihood)
    standardizer = prepared.standardizer(standardize=plan.standardize)
    if likelihood.standardises_target:
        check_target_scale(standardizer.y_scale)
    random_state: RandomState = check_random_state(model.random_state)
    none = Inputs(np.zeros((0, prepared.n_features)))
    once = model.n_epochs == 1
    begun = training.start(plan, none, np.zeros(0), random_state, standardizer, once=once)
    state, history, log_evidence = first_state(begun.posterior), list[Epoch](), 0.0
    sizes = tuple(summary.n for summary in prepared.summaries)
    n_rounds = usual_rounds(len(sizes)) if n_rounds is None else n_rounds
    file = None
    if checkpoint is not None:
        settings = settings_of(model) | {"n_shards": str(len(sizes)), "rounds": str(n_rounds)}
        bytes_of = [np.frombuffer(s.digest.encode(), np.uint8) for s in prepared.summaries]
        file = CheckpointFile(checkpoint, Origin(digest(bytes_of), settings))
        if (found := file.read()) is not None:
            state, history, log_evidence = found.state, found.history, found.log_evidence
            random_state = generator_of(found)
    seed = int(deepcopy(random_state).randint(2**31 - 1))
    setting = Setting(plan, standardizer, Schedule(sizes, n_rounds, seed), model.n_epochs)
    client = prepared.client
    shards = [
        client.submit(ready, rows, plan, standardizer, seed, k, pure=False)
        for k, rows in enumerate(prepared.loaded)
    ]
    callbacks = [] if callback is None else [callback]
    if model.verbose:
        callbacks.append(progress_bar(model.n_epochs, show_noise=likelihood.learns_noise))
    generator: Any = random_state.get_state(legacy=False)
    try:
        for state, made in rounds(setting, state, on_cluster(client, shards)):  # noqa: B020
            if made is not None:
                history.append(made)
                log_evidence += made.sum_log_Z if made.n_iter == 1 else 0.0
            if file is not None:
                file.offer(Checkpoint(state, list(history), log_evidence, generator))
            if made is not None and any([c(made) for c in callbacks]):  # every one is called
                break
    finally:
        if file is not None:
            file.flush()
    check_learned(history)
    model.likelihood_ = likelihood  # type: ignore[assignment]
    n = sum(sizes)
    publish(model, Fitted(state.posterior, standardizer, history[-1], log_evidence, n), history)
