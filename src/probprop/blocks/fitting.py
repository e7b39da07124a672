"""`probprop.blocks.fit`: a training on rows that do not fit into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from probprop.blocks.arrays import ArrayBlocks
from probprop.blocks.dealing import Deal, Dealt, DealtShard, Held, dealt
from probprop.blocks.limits import bytes_of
from probprop.blocks.source import Source
from probprop.estimators.base import Callback, fit_network, plan_of
from probprop.estimators.checkpoints import settings_of
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.data import Given
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.members import check_ensemble, member_kind, new_members, read_data
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.stepwise import train_on_shards
from probprop.estimators.validation import check_parameters
from probprop.inference.checkpoint import CheckpointFile, Origin
from probprop.inference.history import warn_of_counts
from probprop.inference.plan import Plan
from probprop.inference.shards import MapShards, in_threads

if TYPE_CHECKING:
    from probprop.table.encoding import Columns
    from probprop.table.model import TableModel

Network = PBPRegressor | PBPClassifier
Progress = Callable[[float], object]
"""Is told the share of the epochs that is made, from 0 to 1."""
_Path = str | os.PathLike[str]


def fit(
    estimator: Network | PBPEnsemble,
    blocks: Any,
    *,
    target: str | Sequence[str] | None = None,
    memory_limit: int | float | str | None = None,
    checkpoint: _Path | None = None,
    callback: Callback | None = None,
) -> Network | PBPEnsemble | TableModel:
    """Fit an estimator on rows that come block by block and may be larger than memory.

    The rows are read twice: first to look at them, then they are put on disk in random order, as
    8 bytes for each number, and all epochs read them there. Rows that fit are kept in memory; then
    the result is that of the estimator's own `fit` on all of them, bit for bit.

    Parameters
    ----------
    estimator : PBPRegressor, PBPClassifier or PBPEnsemble
        A clone of it is fitted. Its `n_shards` is ignored here, and the members of an ensemble
        are trained one after the other.
    blocks : iterable of (X, y), callable, str or path-like
        Blocks are pairs of arrays, or of frames of numbers, as `fit` of the estimator takes them.
        They must be the same each time they are gone through: a list, an object whose `__iter__`
        starts anew, or a function without arguments that returns an iterator, such as a generator
        function. A generator itself is refused, since it ends after the first time. A string is
        the path, the folder or the pattern of Parquet or text files.
    target : str or sequence of str, default=None
        The column, or the columns, of files to predict; all others are features. Rows without a
        target are left out.
    memory_limit : int, float or str, default=None
        What the process may take, in bytes or as ``"2GB"``, at least 700 MB. None is half of the
        memory of the machine. It decides whether rows are kept in memory, and nothing else about
        the result.
    checkpoint : str or path-like, default=None
        A file for the state of the training, written after every part of an epoch, at most once a
        second, and on Ctrl-C. The same call goes on from it to the same bits; other data, settings
        or versions are refused. That of each member of an ensemble has its number appended.
    callback : callable, default=None
        Called with the `Epoch` after each pass; returning True stops the fit there.

    Returns
    -------
    PBPRegressor, PBPClassifier or PBPEnsemble
        As its own `fit` gives it.
    TableModel
        Where features of files hold text, dates, or true and false.

    Examples
    --------
    >>> import numpy as np
    >>> from probprop import PBPRegressor, blocks
    >>> def halves():
    ...     for seed in (0, 1):
    ...         X = np.random.RandomState(seed).uniform(-1.0, 1.0, (200, 2))
    ...         yield X, X[:, 0] - X[:, 1]
    >>> model = blocks.fit(PBPRegressor(n_epochs=10, random_state=0), halves)
    >>> model.n_samples_seen_
    400
    """
    check_estimator(estimator)
    limit = bytes_of(memory_limit)
    network = clone(network_of(estimator))
    source: Source
    if isinstance(blocks, str | os.PathLike):
        if target is None:
            raise TypeError("target is missing: name the column, or the columns, to predict.")
        from probprop.blocks.files import FileBlocks  # it needs pandas, which arrays do not
        from probprop.table.names import target_names

        source = FileBlocks(network, blocks, target_names(target))
    elif target is not None:
        raise TypeError("target is for files: a block of arrays is a pair (X, y).")
    else:
        source = ArrayBlocks(network, blocks)
    with dealt(source, limit, seed_of(estimator)) as deal:
        model: Any = train(deal, estimator, checkpoint, callback)
        baseline = deal.baseline
    columns = source.columns
    if columns is not None and {*columns.encoder.kinds.values()} != {"number"}:
        return table_model(model, columns, baseline)
    names = np.array(columns.encoder.names, object) if columns is not None else None
    names = getattr(network, "feature_names_in_", names)
    if names is not None:
        model.feature_names_in_ = names
    return model  # type: ignore[no-any-return]


def check_estimator(estimator: Any) -> None:
    """Refuse what cannot be trained block by block, and parameters out of range."""
    if isinstance(estimator, PBPEnsemble):
        check_ensemble(estimator)
    elif isinstance(estimator, Network):
        check_parameters(estimator)
    else:
        raise TypeError(
            "estimator must be a PBPRegressor, a PBPClassifier or a PBPEnsemble, not "
            f"{type(estimator).__name__}."
        )


def network_of(estimator: Network | PBPEnsemble) -> Network:
    """Return the network itself, or that of whose kind the members are."""
    return member_kind(estimator) if isinstance(estimator, PBPEnsemble) else estimator


def seed_of(estimator: Network | PBPEnsemble) -> int:
    """Return the seed that deals the rows: that of the estimator if it is a number."""
    seed = estimator.random_state
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else 0


def table_model(
    model: Network | PBPEnsemble,
    columns: Columns,
    baseline: tuple[tuple[float, float], ...],
    na: Sequence[str] | None = None,
) -> TableModel:
    """Return a fitted estimator with the columns of its table."""
    from probprop.table.model import TableModel

    targets = list(columns.wanted.targets)
    predicted = targets[0] if len(targets) == 1 else targets
    texts = None if na is None else tuple(na)
    return TableModel(
        model, columns.encoder, columns.features, predicted, na=texts, baseline=baseline
    )


# ---- Training


def train(
    deal: Deal,
    estimator: Network | PBPEnsemble,
    checkpoint: _Path | None = None,
    callback: Callback | None = None,
    progress: Progress | None = None,
) -> Any:
    """Return a fitted clone of the estimator."""
    model: Any = clone(estimator)
    if isinstance(deal.rows, Held):
        return _fit_held(model, deal.rows, checkpoint, callback)
    rows = deal.rows
    model.n_features_in_ = rows.n_columns
    if not isinstance(model, PBPEnsemble):
        _train_network(model, rows, checkpoint, callback, progress)
        warn_of_counts(model.history_, model.posterior_)
        return model
    members = new_members(model)
    for i, member in enumerate(members):
        share = _share_of(progress, i, len(members))
        _train_network(member, rows, _numbered(checkpoint, i), callback, share)
    model.estimators_, model.likelihood_ = members, deal.likelihood
    all_epochs = [epoch for member in members for epoch in member.history_]
    warn_of_counts(all_epochs, members[0].posterior_)
    return model


def _fit_held(model: Any, rows: Held, checkpoint: _Path | None, callback: Callback | None) -> Any:
    """Fit on rows that are in memory."""
    if not isinstance(model, PBPEnsemble):
        return model.fit(rows.X, rows.y, callback=callback, checkpoint=checkpoint)
    if checkpoint is None:
        return model.fit(rows.X, rows.y, callback=callback)
    data = read_data(model, Given(rows.X, rows.y), stream=False)
    model.estimators_, model.likelihood_ = new_members(model), data.likelihood
    for i, member in enumerate(model.estimators_):
        fit_network(member, data, callback, _numbered(checkpoint, i))
    return model


def _numbered(checkpoint: _Path | None, i: int) -> str | None:
    return None if checkpoint is None else f"{os.fspath(checkpoint)}.{i}"


def _share_of(progress: Progress | None, i: int, n: int) -> Progress | None:
    return None if progress is None else lambda share: progress((i + share) / n)


def _train_network(
    model: Network,
    rows: Dealt,
    checkpoint: _Path | None,
    callback: Callback | None,
    progress: Progress | None,
) -> None:
    """Make the epochs of one network over rows on disk."""
    standardizer = rows.standardizer(plan_of(model, rows.likelihood))
    n_parts = rows.scratch.shape.n_parts
    file = None
    if checkpoint is not None:
        settings = settings_of(model) | {"training in parts (out of core)": str(n_parts)}
        file = CheckpointFile(checkpoint, Origin(rows.digest, settings))

    def mapped(plan: Plan, seed: int) -> MapShards:
        return in_threads([DealtShard(rows, plan, standardizer)], 1)

    train_on_shards(
        model,
        rows.likelihood,
        standardizer,
        (rows.n,),
        n_parts,
        mapped,
        file=file,
        callback=callback,
        progress=progress,
    )
