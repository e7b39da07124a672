"""`probprop.fit` and `probprop.predict`: samples in memory, on disk and on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.random import RandomState
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.data import shards, sources
from probprop.data.scratch import bytes_of
from probprop.data.shards import DiskRows, Folds, Kept, MemoryRows, Training, View
from probprop.data.sources import (
    ArrayReader,
    Columnwise,
    CrossValidated,
    Estimator,
    Loaded,
    Network,
    Source,
)
from probprop.encoding.bounds import fit_bounds
from probprop.estimators import validation
from probprop.estimators.base import Callback, plan_of, publish
from probprop.estimators.cv import base, policy
from probprop.estimators.cv.calibration import standard_error, weighted_mean
from probprop.estimators.cv.folds import Fold
from probprop.estimators.cv.policy import Candidate, read_budget
from probprop.estimators.cv.search import (
    TRAINING,
    Evaluation,
    Problem,
    Running,
    Trial,
    evaluate,
    in_a_file,
    stacked,
)
from probprop.estimators.progress import Share, progress, progress_bar
from probprop.inference.checkpoint import CheckpointFile, check_seed, settings_of, text_of
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.standardize import (
    Moments,
    Standardizer,
    leaving_features,
    marginal,
    measure,
    merged,
    standardizer_of,
    with_usual_scales,
    with_usual_target_scale,
)
from probprop.inference.training import Rows, Run, warn_of_counts

if TYPE_CHECKING:
    import pandas as pd
    from dask import dataframe as dd
    from distributed import Client

    from probprop.data.cluster import ClusterRows  # it needs Dask
    from probprop.table.model import TableModel

    ShardedRows: TypeAlias = DiskRows | ClusterRows

SAMPLE = 20_000
"""Number of rows for model selection and calibration; with more, one fold selects."""
_SHARE_OF_CHOICE = 0.3  # of the progress bar
_BLOCK = 1 << 14  # rows that are measured at a time

_Path = str | os.PathLike[str]


def fit(
    estimator: Estimator,
    source: Any,
    target: str | Sequence[str] | None = None,
    *,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    error: str | Sequence[str] = (),
    na: Sequence[str] | None = None,
    client: Client | None = None,
    memory_limit: int | float | str | None = None,
    n_shards: int | None = None,
    rounds: int | None = None,
    checkpoint: _Path | None = None,
    callback: Callback | Callable[[float], object] | None = None,
) -> Estimator | TableModel:
    """Fit an estimator on rows in memory, in files larger than memory, or on a Dask cluster.

    Data that fit into memory are fitted by the estimator's own `fit`, bit-identically. Larger data
    are read twice, to find the types of the columns and to write the samples to disk in random
    order, 8 bytes per number; all epochs read them there. With a client, or for a dask collection,
    the workers of a cluster share the training: each updates on its own shard, and the results are
    combined after each round. `docs/guide/large.md` has a table of what works where.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier, PBPRegressorCV or PBPClassifierCV
        A clone of it is fitted. Outside memory, the last two select hyperparameters on a sample of
        20,000 rows, and train the networks of the folds on all rows: see Notes.
    source : tuple of arrays, DataFrame, str, path-like, iterable or callable
        Arrays are a tuple (X, y), (X, y, sample_weight) or (X, y, sample_weight, y_std), as the
        `fit` of the estimator takes them, or of dask arrays. A table is a pandas or dask DataFrame,
        or the path, the folder or the pattern of Parquet or text files, or a list of paths. An
        iterable yields blocks of rows, each a tuple of arrays; it must yield the same blocks each
        time: a list, an object whose `__iter__` starts again, or a function without arguments that
        returns an iterator, such as a generator function. A generator itself is refused, since it
        can be iterated over only once.
    target : str or sequence of str, default=None
        Column, or columns, of a table to predict. Rows without a target are dropped.
    features : sequence of str, default=None
        Columns of a table to predict it from; None means all others.
    drop : sequence of str, default=()
        Columns of a table to leave out.
    weight : str, default=None
        Column of a table with the sample weights, 0 or more: `sample_weight` of the estimators.
        Rows of weight 0 are dropped.
    error : str or sequence of str, default=()
        Column of a table with the known standard deviations of the target, one for each target:
        `y_std` of `PBPRegressor`.
    na : sequence of str, default=None
        Texts that mean a missing value in files, as for `probprop.table.read_table`.
    client : distributed.Client, default=None
        Client of a Dask cluster, whose workers can read the files. None fits on this machine; for a
        dask collection it takes the current client, or starts a local cluster for this call.
    memory_limit : int, float or str, default=None
        Memory that this process may take, in bytes or as ``"2GB"``, at least 700 MB. None is half
        of the memory of the machine; arrays and frames that are in memory then stay there. It
        decides whether rows are kept in memory, and nothing else about the result. Workers of a
        cluster have limits of their own.
    n_shards : int, default=None
        Shards of the rows on a cluster, at most the number of partitions, row groups or files. None
        is one for each thread of the cluster. The result depends on it: give a number if it must
        not depend on the size of the cluster.
    rounds : int, default=None
        Synchronization rounds of an epoch on a cluster; None is the number of shards, and at least
        16 for each hidden layer.
    checkpoint : str or path-like, default=None
        File for the state of the training, written after a round, or a part of an epoch, at most
        once a second, and on Ctrl-C. The same call continues from it to the same bits; other data,
        parameters or versions are refused. The `random_state` must be an int. For cross-validated
        estimators the network of each fold has its number appended; the search, the word choice.
    callback : callable, default=None
        Called with the `Epoch` after each epoch; returning True stops the fit there. For a
        cross-validated estimator it is called with the share of the work that is done.

    Returns
    -------
    PBPRegressor, PBPClassifier, PBPRegressorCV or PBPClassifierCV
        As its own `fit` gives it: nothing of it is on disk or on the cluster.
    TableModel
        If features of a table hold text, dates, or true and false.

    Notes
    -----
    If a worker of a cluster dies, other workers load its shards again, and the result is
    bit-identical on processors of one kind.

    Cross-validated estimators on rows that are not in memory run the search on a sample of 20,000
    rows. Then the networks of the stacked candidates learn all rows outside their folds, of which
    there are `cv`, an int, or five; `docs/guide/cluster.md` has the steps. `oof_rows_` counts the
    rows with a target, in the order of the source.

    Examples
    --------
    >>> import numpy as np
    >>> import probprop
    >>> def halves():
    ...     for seed in (0, 1):
    ...         X = np.random.RandomState(seed).uniform(-1.0, 1.0, (200, 2))
    ...         yield X, X[:, 0] - X[:, 1]
    >>> model = probprop.fit(probprop.PBPRegressor(n_epochs=10, random_state=0), halves)
    >>> model.n_samples_seen_
    400
    """
    check_estimator(estimator)
    if checkpoint is not None:
        check_seed(estimator.random_state)
    asked = columnwise(target, features, drop, weight, error, na)
    on_cluster = client is not None or is_of_dask(source)
    for name, value in (("n_shards", n_shards), ("rounds", rounds)):
        if value is not None:
            validation.check_int(name, value, 1)
            if not on_cluster:
                raise ValueError(f"{name} is for a cluster: give a client, or leave it out.")
    if on_cluster and memory_limit is not None:
        raise ValueError(
            "memory_limit is for one machine: leave it out on a cluster, whose workers have limits "
            "of their own."
        )
    found = source_of(estimator, source, asked)
    with ExitStack() as stack:
        if on_cluster:
            from probprop.data.cluster import client_or_local, load_shards  # it needs Dask

            connected = stack.enter_context(client_or_local(client))
            rows: Any = load_shards(connected, found, n_shards)
        else:
            limit = None if memory_limit is None and found.in_memory else bytes_of(memory_limit)
            rows = stack.enter_context(rows_here(found, estimator, limit))
        model = train(rows, estimator, rounds, checkpoint, callback)
        names, columns = rows.schema.feature_names, rows.schema.columns
        if columns is not None and names is None:
            return table_model(model, rows)
        if names is not None:
            model.feature_names_in_ = names
    return model  # type: ignore[no-any-return]


def predict(model: Any, X: Any, *, coverage: float = 0.95) -> dd.DataFrame:
    """Predict every row, partition by partition, lazily.

    Parameters
    ----------
    model : fitted estimator of probprop, or TableModel
    X : dask DataFrame, dask array, str or path-like
        Samples with the features that the model was fitted on; a string is the path or pattern of
        Parquet files. Other columns of a frame are ignored.
    coverage : float, default=0.95
        Probability of a target between `lower` and `upper`; for numbers.

    Returns
    -------
    dask DataFrame
        With the index of X. Targets of numbers have the columns mean, std, epistemic_std,
        aleatoric_std, lower and upper, each of several targets its own: TARGET_mean and so on.
        Classes have predicted_class, p_CLASS for every class, and the entropy and its two parts.
    """
    from probprop.data.cluster import predict_partitions

    return predict_partitions(model, X, coverage)


# ---- Sources from user input


def source_of(estimator: Estimator, given: Any, asked: Columnwise) -> Source:
    """Return the source of user input."""
    network = clone(estimator)
    paths = given if isinstance(given, list | tuple) else [given]
    if paths and all(isinstance(path, str | os.PathLike) for path in paths):
        from probprop.data.tables import file_source, table_reader
        from probprop.table.read import paths_of

        return file_source(table_reader(network, asked), paths_of(given))
    if is_of_dask(given):
        from probprop.data.cluster import collection_of

        return collection_of(network, given, asked)
    if type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns"):
        from probprop.data.tables import frame_source, table_reader

        return frame_source(table_reader(network, asked), given)
    sources.check_no_columns(asked)
    if isinstance(given, tuple) and given and not isinstance(given[0], tuple | list):
        return sources.array_source(ArrayReader(network), given)
    return sources.block_source(ArrayReader(network), given)


def is_of_dask(given: Any) -> bool:
    """Whether a dask collection was given, alone or first in a tuple; Dask is not imported."""
    first = given[0] if isinstance(given, tuple) and given else given
    return any(k.__module__.partition(".")[0] in ("dask", "dask_expr") for k in type(first).mro())


def check_estimator(estimator: Any) -> None:
    """Refuse other objects than estimators of probprop, and parameters out of range."""
    if not isinstance(estimator, Network | CrossValidated):
        raise TypeError(
            "estimator must be a PBPRegressor, a PBPClassifier, a PBPRegressorCV or a "
            f"PBPClassifierCV, not {type(estimator).__name__}."
        )
    validation.check_parameters(estimator)
    if isinstance(estimator, CrossValidated):
        read_budget(estimator.budget)


def columnwise(
    target: str | Sequence[str] | None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    error: str | Sequence[str] = (),
    na: Sequence[str] | None = None,
) -> Columnwise:
    """Return the roles of the columns of a table."""

    def names(given: str | Sequence[str] | None) -> tuple[str, ...]:
        return (given,) if isinstance(given, str) else tuple(given or ())

    chosen, texts = (None if given is None else names(given) for given in (features, na))
    return Columnwise(names(target), chosen, names(drop), weight, names(error), texts)


def rows_here(
    source: Source, estimator: Estimator, limit: int | None, test: Kept = shards.NONE_KEPT
) -> AbstractContextManager[MemoryRows | DiskRows]:
    """Return a context with all rows of a source on this machine; None is no limit of memory."""
    n_sample = SAMPLE if isinstance(estimator, CrossValidated) else 0
    seed = estimator.random_state
    seed = seed if isinstance(seed, int) and not isinstance(seed, bool) else 0
    return shards.read_here(source, limit, seed, test=test, n_sample=n_sample)


def table_model(model: Estimator, rows: MemoryRows | ShardedRows) -> TableModel:
    """Return a fitted estimator with the columns of its table."""
    from probprop.table.model import TableModel

    reader, columns = rows.schema.reader, rows.schema.columns
    assert columns is not None  # tables have them
    targets = list(columns.targets)
    baseline: tuple[tuple[float, float], ...] = ()  # mean and standard deviation of each target
    if rows.schema.likelihood.standardizes_target:
        if isinstance(rows, MemoryRows):
            baseline = marginal(measure(rows.loaded.y.reshape(len(rows.loaded.y), -1)))
        else:
            baseline = marginal(merged([summary.y for summary in rows.summaries]))
    target = targets[0] if len(targets) == 1 else targets
    return TableModel(model, columns.encoder, target, reader.counting, reader.asked.na, baseline)


def rows_numbered(source: Source, rows: MemoryRows | ShardedRows, numbers: Array) -> pd.DataFrame:
    """Return rows of a table that was fitted, such as ``oof_rows_``, as the table has them.

    The files are read once more, by the workers of a cluster if there is one.
    """
    import pandas as pd  # arrays do without it

    if isinstance(rows, MemoryRows | DiskRows):
        pairs = shards.paired(rows.known, source.pieces(rows.schema))
        frames = [shards.rows_of_piece(p.rows, k, rows.schema, numbers) for k, p in pairs]
    else:
        frames = rows.taken(numbers)
    return pd.concat(frames).set_axis(np.unique(numbers)).loc[numbers]


# ---- Training


def train(
    rows: MemoryRows | ShardedRows,
    estimator: Estimator,
    n_rounds: int | None = None,
    checkpoint: _Path | None = None,
    callback: Any = None,
) -> Any:
    """Return a fitted clone of the estimator."""
    model: Any = clone(estimator)
    if isinstance(rows, MemoryRows):
        loaded = rows.loaded
        options = {"sample_weight": loaded.weights, "y_std": loaded.y_std}
        options = {k: v for k, v in options.items() if v is not None}
        return model.fit(loaded.X, loaded.y, callback=callback, checkpoint=checkpoint, **options)
    if isinstance(model, CrossValidated):
        return fit_cross_validated(rows, model, n_rounds, checkpoint, callback)
    model.n_features_in_ = rows.schema.n_features
    _train_network(model, rows, n_rounds, checkpoint, callback)
    warn_of_counts(model.history_, model.posterior_)
    return model


def _train_network(
    model: Network,
    rows: ShardedRows,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callback | None,
) -> None:
    """Make the rounds, or the parts, of one network and publish the result."""
    likelihood: Any = rows.schema.likelihood
    plan, mean_weight = plan_of(model, likelihood), shards.mean_weight(rows.summaries)
    if plan.output_layer == "full":
        raise ValueError("output_layer='full' needs all samples in memory: use fit of the model.")
    n_rounds = rows.n_rounds(len(plan.hidden)) if n_rounds is None else n_rounds
    begun = shards.start_training(
        rows,
        View(plan, mean_weight=mean_weight),
        shards.standardizer_of_all(rows.summaries, plan),
        check_random_state(model.random_state),
        n_rounds,
        model.n_epochs,
    )
    file = None
    if checkpoint is not None:
        settings = settings_of(model) | rows.settings | {"rounds": str(n_rounds)}
        file = CheckpointFile(checkpoint, shards.digest_of(rows), settings)
    callbacks = [] if callback is None else [callback]
    if model.verbose:
        callbacks.append(progress_bar(model.n_epochs, show_noise=likelihood.learns_noise))
    made = shards.make_epochs(
        begun, rows, model.n_epochs, file, lambda epoch: any([each(epoch) for each in callbacks])
    )
    model.likelihood_ = likelihood
    publish(model, made.fitted, list(made.history), mean_weight)


# ---- Cross-validated estimators: model selection on a sample, training on all rows


def fit_cross_validated(
    rows: ShardedRows,
    estimator: base.PBPEstimatorCV,
    n_rounds: int | None,
    checkpoint: _Path | None,
    callback: Callable[[Share], object] | None,
) -> base.PBPEstimatorCV:
    """Return a fitted clone of the estimator."""
    if auto := isinstance(estimator.cv, str):
        validation.check_option("cv", estimator.cv, ["auto"])
    elif isinstance(estimator.cv, int | np.integer):
        validation.check_int("cv", estimator.cv, 2)
    else:
        raise TypeError(
            'cv must be "auto" or an int for rows that are not all in memory, which are assigned '
            f"to folds wherever they are, not {type(estimator.cv).__name__}."
        )
    model: Any = clone(estimator)
    model.n_features_in_ = rows.schema.n_features
    likelihood, n = rows.schema.likelihood, shards.n_rows(rows.summaries)
    mean_weight = shards.mean_weight(rows.summaries)
    spreads = shards.standardizer_of_all(rows.summaries, Plan(likelihood)).spreads
    rng = check_random_state(model.random_state)
    line = base.policy_of(model, n)
    split = Folds(rng.randint(2**31 - 1), min(policy.N_FOLDS if auto else model.cv, n))
    sample, fold_of = _sample(rows, split)
    several = likelihood.standardizes_target and likelihood.n_outputs > 1
    for asked, what in ((sample.y_std is not None, "known errors"), (several, "several targets")):
        if asked:
            raise ValueError(
                f"PBPRegressorCV accepts {what} if all samples are in memory. Use PBPRegressor."
            )
    x = merged([summary.x for summary in rows.summaries])
    ends = np.where(x.n == 0, np.nan, [x.low, x.high])  # (2, n_features)
    bounds = fit_bounds(sample.X, ends)
    sample = replace(sample, X=bounds.apply(sample.X))
    seeds = rng.randint(2**31 - 1, size=split.n_folds).tolist()
    folds = [
        Fold(np.flatnonzero(fold_of != i), np.flatnonzero(fold_of == i), seed)
        for i, seed in enumerate(seeds)
    ][: line.n_folds if auto else None]
    seed = rng.randint(2**31 - 1)
    weights = sample.weights
    weights = None if weights is None else validation.relative_weights(weights, mean_weight)
    problem = base.problem_of(model, likelihood, sample.X, sample.y, weights, folds)
    problem = replace(problem, step=rows.advance())
    n_train, n_classes = len(folds[0].train), likelihood.n_classes
    rungs = policy.rungs_of(model.budget, len(sample.y), n_train, n_classes)
    path = None if checkpoint is None else f"{os.fspath(checkpoint)}.choice"
    digest = "" if checkpoint is None else shards.digest_of(rows)
    settings = settings_of(model) | rows.settings
    with (
        in_a_file(problem, path, model) as problem,
        progress(model.verbose, callback) as report,
    ):
        positive = bool((merged([summary.y for summary in rows.summaries]).low > 0.0).all())
        few = replace(problem, folds=folds[: line.n_search_folds])

        def chosen(share: Share) -> None:
            report(Share(_SHARE_OF_CHOICE * share, share.stage))

        search, candidates = base.search_of(model, few, rungs, seed, chosen, positive)
        if not positive and any(candidate.power is not None for candidate in candidates):
            raise ValueError(
                "power of a candidate is for targets that are all above 0, but some are not: leave "
                "such rows out, or give candidates without a power."
            )
        if any(candidate.output_layer == "full" for candidate in candidates):
            raise ValueError(
                "output_layer='full' needs all samples in memory: use fit of the model."
            )
        found = replace(search, exact=False).run(candidates)
        if found.interrupted:
            raise KeyboardInterrupt
        trained = list[Evaluation]()
        n_train = n * (split.n_folds - 1) // split.n_folds
        rungs = policy.rungs_of(model.budget, n, n_train, n_classes)
        for i, candidate in enumerate(found.candidates):
            seen, encodings = problem.seen_by(candidate), problem.encodings
            encoding = encodings.of(candidate.bins)
            scale = getattr(seen.scorer, "transformation", None)
            plan = seen.plan(candidate)
            view = View(plan, bounds, encoding, scale, encodings.joint, mean_weight)
            n_own = rows.n_rounds(len(candidate.layers)) if n_rounds is None else n_rounds
            begun = start_folds(rows, folds, split, view, n_own, spreads)
            own = {"rounds": str(n_own), "chosen candidate": text_of(candidate)}

            def file(fold: int, end: int, i: int = i, own: Any = own) -> CheckpointFile | None:
                if checkpoint is None:
                    return None
                path = f"{os.fspath(checkpoint)}.{i}.{fold}.{end}"
                return CheckpointFile(path, digest, settings | own | {"fold": str(fold)})

            def told(share: float, i: int = i) -> None:
                done = (i + share) / len(found.candidates)
                report(Share(_SHARE_OF_CHOICE + (1.0 - _SHARE_OF_CHOICE) * done, TRAINING))

            trained.append(train_folds(rows, problem, candidate, begun, rungs, file, told))
    pairs = list(zip(found.numbers, trained, strict=True))
    found = stacked(found.trials, pairs, folds, line.n_stacked)
    calibrated = replace(search, problem=problem).calibrated(found)
    calibration: Any = calibrated.calibration
    if hasattr(calibration, "range"):  # the range of all rows; for classification there is none
        whole = calibration.range.grown(bounds.apply(ends))
        calibrated = calibrated._replace(calibration=replace(calibration, range=whole))
    base.publish_stack(model, found, calibrated, problem, mean_weight)
    model.bounds_ = bounds
    model.oof_rows_ = sample.number
    model.n_samples_seen_ = n
    epochs = [epoch for member in model.estimators_ for epoch in member.history_]
    warn_of_counts(epochs, model.estimators_[0].posterior_)
    return model  # type: ignore[no-any-return]


# ---- The sample, and the model selection


def draw(loaded: Loaded, shard: int, split: Folds, n_of: Mapping[int, int]) -> tuple[Loaded, Array]:
    """Draw `n_of[shard]` rows of a shard, or of a partition, and return them with their folds."""
    own = loaded[split.order(shard, len(loaded.y))[: n_of[shard]]]
    return own, np.arange(len(own.y)) % split.n_folds


def _sample(rows: ShardedRows, split: Folds) -> tuple[Loaded, Array]:
    """Draw rows from all shards, and put them, with their folds, in the order of the files."""
    sizes = {summary.shard: summary.n for summary in rows.summaries}
    n_of = dict(zip(sizes, shards.sample_sizes([*sizes.values()], SAMPLE), strict=True))
    parts, folds = zip(*rows.map(draw, split, n_of), strict=True)
    whole: Any = sources.joined(parts)
    order = np.argsort(whole.number)
    return whole[order], np.concatenate(folds)[order]


# ---- The networks of the folds


def measure_folds(
    loaded: Loaded, shard: int, split: Folds, view: View
) -> list[tuple[Moments, Moments] | None]:
    """Measure the bounded X and y of every fold of a shard; None: no rows."""
    order, found = split.order(shard, len(loaded.y)), list[tuple[Moments, Moments] | None]()
    for fold in range(split.n_folds):
        rows = order[fold :: split.n_folds]
        blocks = [rows[i : i + _BLOCK] for i in range(0, len(rows), _BLOCK)]
        x = [measure(view.bounded(loaded.X[block])) for block in blocks]
        y = [measure(view.y(loaded.y[block]).reshape(len(block), -1)) for block in blocks]
        found.append((merged(x), merged(y)) if blocks else None)
    return found


Measured = Sequence[tuple[Moments, Moments]]  # X and y of folds


def _fold_standardizer(
    view: View, others: Measured, every: Measured, spreads: FloatArray
) -> Standardizer:
    """Return the standardizer of a network that learns the other folds."""
    y = merged([y for _, y in others]) if view.plan.likelihood.standardizes_target else None
    if view.encoding is not None:
        standardizer = leaving_features(view.encoding.n_outputs, y)
    else:
        own = standardizer_of(merged([x for x, _ in others]), y)
        standardizer = with_usual_scales(own, spreads)
    if y is not None:
        all_y, relative = merged([y for _, y in every]), view.transformation is not None
        standardizer = with_usual_target_scale(standardizer, y, all_y, relative=relative)
        shards.check_targets(standardizer, all_y, view.plan)
    return standardizer


def start_folds(
    rows: ShardedRows, folds: Sequence[Fold], split: Folds, view: View, n: int, spreads: FloatArray
) -> list[Training]:
    """Return the trainings, in n rounds an epoch, of the networks of the folds on all rows.

    `spreads` are the standard deviations of the features over all rows.
    """
    measured, begun = rows.map(measure_folds, split, view), list[Training]()
    every = [own for of in measured for own in of if own]
    for i, fold in enumerate(folds):
        others = [own for of in measured for j, own in enumerate(of) if j != i and own]
        given = (view, _fold_standardizer(view, others, every, spreads), RandomState(fold.seed), n)
        begun.append(shards.start_training(rows, *given, n_epochs=0, folds=split, fold=i))
    return begun


def train_folds(
    rows: ShardedRows,
    sample: Problem,  # and its folds
    candidate: Candidate,
    trainings: list[Training],
    rungs: Sequence[int],
    file: Callable[[int, int], CheckpointFile | None],  # by fold and number of epochs
    report: Callable[[float], None],
) -> Evaluation:
    """Train all folds from rung to rung with early stopping; return the best evaluation.

    Each network is evaluated on the rows of the sample in its fold.
    """
    best: Evaluation | None = None
    none, n_folds, last = Rows(sample.y[:0], None, sample.y[:0]), len(trainings), rungs[-1]
    for start, end in pairwise((0, *rungs)):
        for i in range(n_folds):

            def told(epoch: Epoch, start: int = start, end: int = end, i: int = i) -> None:
                made = n_folds * start + i * (end - start) + epoch.n_iter - start
                report(made / (n_folds * last))

            trainings[i] = shards.make_epochs(trainings[i], rows, end, file(i, end), told)
        runs = tuple(Run(own.setting.plan, own.fitted, none, None) for own in trainings)
        history = tuple(list(own.history) for own in trainings)
        found = evaluate(Running(Trial(candidate), runs, history), sample, sample.folds)
        if not found.is_finite:
            break
        before, best = best, found if best is None or found.score > best.score else best
        if before is not None:
            # Training continues if the last epochs gained more than one standard error.
            gain, weights = found.log_p - before.log_p, found.oof.weights
            if weighted_mean(gain, weights) <= standard_error(gain, weights):
                break
    if best is None:
        raise FloatingPointError(
            "The networks made no finite out-of-fold predictions. Look for outliers in X "
            "and y, or give `candidates` that have fewer layers."
        )
    return best
