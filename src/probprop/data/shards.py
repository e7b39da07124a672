"""Samples for a training: in memory, on disk in one shard, or on a cluster in several.

Samples in memory are for the estimator's own `fit`. On disk or a cluster, shards (on disk:
partitions) are measured one by one, and a training uses them in parts of an epoch.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState

from probprop._types import Array
from probprop.data.scratch import RESERVED, Scratch, check_parts_fit, in_words, scratch, shape_of
from probprop.data.sources import Loaded, Piece, Schema, Source, joined
from probprop.distributions.power import BoxCox
from probprop.encoding.bounds import InputBounds
from probprop.encoding.missing import Completed, Joint, complete
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.folds import MOST_RAMPS
from probprop.estimators.validation import (
    mean_weight_of,
    refuse_empty_columns,
    relative_weights,
)
from probprop.inference import standardize, training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, checked, digest
from probprop.inference.inputs import Encoded, Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import features
from probprop.inference.standardize import Moments, Standardizer

COPIES = 4
"""Copies of rows that are held in memory, while they are put together and checked."""
_CELL = 8  # bytes of a number
_BINS = (4, 8, 16, 32, 64)  # of a feature, in the encodings that are compared
_COPIES_OF_SAMPLE = 5  # encoded, in the folds, and standardized: measured
_SORTED = 0.05  # share of the target's variance between shards above which there is a warning


class ShardWarning(UserWarning):
    """The shards have different targets, which makes the fit worse."""


# ---- Summaries of shards


@dataclass(frozen=True, eq=False)
class Summary:
    """Summary of the rows of a shard, or of a partition."""

    shard: int  # its number
    n: int  # rows
    x: Moments
    y: Moments
    target: Moments  # of the targets, or of the frequencies of the classes
    mean_weight: float  # 1 if there are no weights


def summarize(loaded: Loaded, k: int, likelihood: Likelihood) -> Summary:
    """Measure the rows of shard k, whose targets are encoded."""
    n, y = len(loaded.y), loaded.y
    y_moments = standardize.measure(y.reshape(n, -1))
    target = y_moments
    if likelihood.task == "classification" and y.ndim == 1 and likelihood.n_outputs > 1:
        share = np.bincount(y.astype(np.int64), minlength=likelihood.n_outputs) / n
        zero, one = np.zeros_like(share), np.ones_like(share)
        target = Moments(np.full_like(share, n), zero, one, share, share * (1.0 - share))
    weight = 1.0 if loaded.weights is None else mean_weight_of(loaded.weights)
    return Summary(k, n, standardize.measure(loaded.X), y_moments, target, weight)


def warn_of_order(summaries: Sequence[Summary]) -> None:
    """Warn of shards whose targets differ, as if the files were sorted by the target."""
    parts = [summary.target for summary in summaries]
    whole = standardize.merged(parts)
    mean, variance = whole.mean * whole.unit, whole.variance * whole.unit**2
    between = np.sum([p.n / whole.n * (p.mean * p.unit - mean) ** 2 for p in parts], axis=0)
    varies = variance > 0.0
    share = float(np.max(between[varies] / variance[varies], initial=0.0))
    if share > _SORTED + 10.0 * len(summaries) / n_rows(summaries):
        warnings.warn(
            f"{100.0 * share:.0f} % of the variance of the target lies between the "
            f"{len(summaries)} shards, as if the rows were sorted by it: the fit will be worse. "
            "Write the rows in random order, or in more and smaller files.",
            ShardWarning,
            stacklevel=4,
        )


# ---- The training rows of a network in a shard


@dataclass(frozen=True)
class Folds:
    """How the rows of all shards, or partitions, are assigned to folds.

    The rows of a shard are shuffled once, by the seed, and the one at place p is of fold p mod
    `n_folds`. So every fold, and every beginning of that order, is a random sample of the shard.
    """

    seed: int
    n_folds: int

    def order(self, shard: int, n: int) -> Array:
        """Return the n rows of a shard in random order."""
        return training.shard_order(self.seed, shard, n)

    def learned(self, shard: int, n: int, fold: int) -> Array:
        """Return the training rows of the network of a fold, in random order."""
        learned: Array = self.order(shard, n)[np.arange(n) % self.n_folds != fold]
        return learned


@dataclass(frozen=True, eq=False)
class View:
    """The inputs and targets of a network: bounded, encoded, transformed; by default unchanged."""

    plan: Plan
    bounds: InputBounds | None = None
    encoding: PiecewiseLinear | None = None
    transformation: BoxCox | None = None  # of the targets
    joint: Joint | None = None  # completes missing values
    mean_weight: float = 1.0  # the unit of the sample weights

    def bounded(self, X: Array) -> Array:
        """Return rows within the bounds."""
        return X if self.bounds is None else self.bounds.apply(X)

    def completed(self, X: Array) -> Completed:
        """Return bounded rows, completed."""
        return complete(self.bounded(X), self.joint)

    def y(self, y: Array) -> Array:
        """Return targets on its scale."""
        return y if self.transformation is None else self.transformation.forward(y)

    def rows(
        self, loaded: Loaded, standardizer: Standardizer, completed: Completed
    ) -> training.Rows:
        """Return rows as a training takes them."""
        inputs = completed.inputs(self.encoding)
        entries, X_var = features(self.plan, standardizer, inputs)
        weights, y_std = loaded.weights, loaded.y_std
        if weights is not None:  # also if all are 1: other shards may have other weights
            relative = relative_weights(weights, self.mean_weight)
            weights = np.ones(len(weights)) if relative is None else relative
        y_var = None if y_std is None else training.target_variance(self.plan, standardizer, y_std)
        return training.Rows(entries, X_var, self.y(loaded.y), weights, y_var)


@dataclass(frozen=True, eq=False)
class Learner:
    """One network of a training: its view of the rows, and its training rows."""

    view: View
    standardizer: Standardizer  # of all its training rows
    seed: int
    folds: Folds | None = None  # None: it is trained on all rows
    fold: int = -1  # the fold it is not trained on

    def n_learned(self, n: int) -> int:
        """Return how many of the n rows of a shard it is trained on."""
        return n if self.folds is None else n - len(range(self.fold, n, self.folds.n_folds))

    def learned(self, shard: int, n: int) -> Array:
        """Return which of the n rows of a shard it is trained on, in random order."""
        if self.folds is None:
            return training.shard_order(self.seed, shard, n)
        return self.folds.learned(shard, n, self.fold)

    def shard(self, loaded: Loaded, k: int) -> training.Shard:
        """Return what it learns of shard k; the rows are encoded when they are asked for."""
        order = self.learned(k, len(loaded.y))
        return partial(self._part, loaded, self.view.completed(loaded.X), order)

    def _part(
        self, loaded: Loaded, completed: Completed, order: Array, part: training.Part
    ) -> training.Rows:
        rows = order[part.places(len(order))]
        return self.view.rows(loaded[rows], self.standardizer, completed[rows])


@dataclass(frozen=True, eq=False)
class Training:
    """The training of one network, and its state."""

    learner: Learner
    setting: training.Setting
    state: training.State
    history: Sequence[Epoch] = ()
    log_evidence: float = 0.0

    @property
    def fitted(self) -> training.Fitted:
        """What it has reached."""
        reached = (self.state.posterior, self.learner.standardizer, self.history[-1])
        return training.Fitted(*reached, self.log_evidence, self.setting.schedule.n)


def start_training(
    rows: Any,
    view: View,
    standardizer: Standardizer,
    random_state: RandomState,
    n_rounds: int,
    n_epochs: int,
    folds: Folds | None = None,
    fold: int = -1,
) -> Training:
    """Return a training before the first round, of a network trained on all folds but one."""
    none = Inputs(np.zeros((0, len(standardizer.x_mean))))
    near = folds is not None or n_epochs == 1
    begun = training.start(view.plan, none, np.zeros(0), random_state, standardizer, near_draw=near)
    learner = Learner(view, standardizer, random_state.randint(2**31 - 1), folds, fold)
    schedule = training.Schedule(rows.sizes(learner), n_rounds, learner.seed)
    columns = none.X if view.encoding is None else Encoded(none.X, view.encoding.basis_of_codes)
    setting = training.Setting(
        view.plan, standardizer, schedule, n_epochs, view.plan.groups(columns)
    )
    return Training(learner, setting, training.State(begun.posterior))


def make_epochs(
    now: Training,
    rows: Any,
    n_epochs: int,
    file: CheckpointFile | None,
    callback: Callable[[Epoch], object],
) -> Training:
    """Train up to this number of epochs; the callback returns True to stop after one of them.

    Rounds in the checkpoint are not repeated. It gets the last whole round, also on Ctrl-C.
    """
    now = replace(now, setting=replace(now.setting, n_epochs=n_epochs))
    if file is not None and (kept := file.read()):
        with file.reading():
            ends = now.setting.schedule.ends(kept[0].state.n_iter + 1)
            found = checked(kept[0], now.state.posterior, n_rounds=len(ends))
        reached = (found.state, found.history, found.log_evidence)
        now = Training(now.learner, now.setting, *reached)
    try:
        for state, made in training.rounds(now.setting, now.state, rows.mapped(now.learner)):
            now = replace(now, state=state)
            if made is not None:
                gained = made.sum_log_Z if made.n_iter == 1 else 0.0
                evidence = now.log_evidence + gained
                now = replace(now, history=[*now.history, made], log_evidence=evidence)
            if file is not None:
                file.offer(Checkpoint(now.state, list(now.history), now.log_evidence))
            if made is not None and callback(made):
                break
    finally:
        if file is not None:
            file.flush()
    training.check_learned(list(now.history))
    return now


# ---- Summary of all shards


def n_rows(summaries: Sequence[Summary]) -> int:
    """Return the number of all rows."""
    return sum(summary.n for summary in summaries)


def mean_weight(summaries: Sequence[Summary]) -> float:
    """Return the mean sample weight of all rows, 1 if there are none."""
    if all(summary.mean_weight == 1.0 for summary in summaries):
        return 1.0
    n = n_rows(summaries)
    return sum(summary.n / n * summary.mean_weight for summary in summaries)


def digest_of(rows: Any) -> str:
    """Return a digest of all rows, and of how they are assigned to shards or partitions."""
    each = rows.map(lambda rows, k: digest([rows.X, rows.y, rows.weights, rows.y_std]))
    return digest([np.frombuffer(own.encode(), np.uint8) for own in each])


def standardizer_of_all(summaries: Sequence[Summary], plan: Plan) -> Standardizer:
    """Return the standardizer of all rows; reject targets that cannot be trained on."""
    x = standardize.merged([s.x for s in summaries])
    y = standardize.merged([s.y for s in summaries])
    refuse_empty_columns(x.n == 0)
    likelihood = plan.likelihood
    if plan.standardize:
        found = standardize.standardizer_of(x, y if likelihood.standardizes_target else None)
    else:
        n_targets = likelihood.n_outputs if likelihood.standardizes_target else 1
        found = standardize.identity_standardizer(len(x.n), n_targets)
    if likelihood.standardizes_target:
        check_targets(found, y, plan)
    return found


def check_targets(standardizer: Standardizer, y: Moments, plan: Plan) -> None:
    """Reject targets, measured over all rows, that cannot be trained on."""
    standardize.check_target_scale(standardizer.y_scale)
    standardizer.check_y(np.array([y.low, y.high]), plan.dtype)


# ---- Rows on this machine. `ClusterRows` has the attributes and methods of `DiskRows`.


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """All rows in memory, in the order in which they came, with the targets as given."""

    schema: Schema
    loaded: Loaded
    known: Sequence[Known]


@dataclass(frozen=True, eq=False)
class DiskRows:
    """All rows on disk: one shard, used in several parts per epoch."""

    schema: Schema
    scratch: Scratch  # the fields of `Loaded`, with y as the likelihood encodes it
    known: Sequence[Known]

    @cached_property
    def summaries(self) -> list[Summary]:
        """Summary of each partition that has rows."""
        return self.map(summarize, self.schema.likelihood)

    @property
    def settings(self) -> dict[str, str]:
        """What determines the result besides the estimator."""
        return {"training in parts (out of core)": str(self.scratch.shape.n_parts)}

    def map(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each partition that has rows."""
        return [call(_loaded(rows), k, *arguments) for k, rows in self.scratch.partitions()]

    def n_rounds(self, n_hidden: int) -> int:
        """Return the parts of an epoch."""
        return self.scratch.shape.n_parts

    def sizes(self, learner: Learner) -> tuple[int, ...]:
        """Return the number of training rows of a network."""
        return (sum(learner.n_learned(summary.n) for summary in self.summaries),)

    def mapped(self, learner: Learner) -> training.MapShards:
        """Return the map over the one shard."""
        return training.in_threads([partial(self._part, learner)], 1)

    def _part(self, learner: Learner, part: training.Part) -> training.Rows:
        chosen = None if learner.folds is None else learner.learned
        loaded = _loaded(self.scratch.part(part.seed, part.n_iter, part.n_round, chosen))
        view = learner.view
        return view.rows(loaded, learner.standardizer, view.completed(loaded.X))

    def advance(self) -> None:
        """Leave the candidates to threads of this process."""


# ---- From a source to rows on this machine


def sample_sizes(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of n rows each shard gives: its share of all rows."""
    ends = np.cumsum([0, *sizes])
    drawn: list[int] = np.diff(np.rint(ends * min(1.0, n / ends[-1])).astype(int)).tolist()
    return drawn


class Kept(NamedTuple):
    """Which rows are a test set."""

    share: float = 0.0  # of all rows
    most: int = 0  # rows


NONE_KEPT = Kept()


class Known(NamedTuple):
    """A piece after the first pass."""

    label: str
    n: int  # rows that count
    first: int  # the number of the first one among all rows
    out: Array  # the places of the test rows


def known_pieces(surveys: Sequence[Any], test: Kept, seed: int) -> list[Known]:
    """Return the pieces after the first pass, with a test set drawn from all of them."""
    sizes = [survey.n for survey in surveys]
    n = sum(sizes)
    n_out = min(max(1, round(test.share * n)), test.most) if test.share > 0.0 else 0
    if n_out >= n:
        raise ValueError(
            f"there are {n} rows, too few to hold out a share of {test.share:g}: give more rows, "
            "or hold out none."
        )
    firsts, each = np.cumsum([0, *sizes]).tolist(), sample_sizes(sizes, n_out)
    return [
        Known(survey.label, survey.n, firsts[i], training.shard_order(seed, i, survey.n)[: each[i]])
        for i, survey in enumerate(surveys)
    ]


def numbers_out(known: Sequence[Known]) -> Array:
    """Return the numbers, ascending, of the rows of the test set."""
    return np.concatenate([each.first + np.sort(each.out) for each in known])


def load_piece(rows: Any, known: Known, schema: Schema) -> Loaded:
    """Load the rows of a piece that are learned; refuse a piece that has changed."""
    loaded: Loaded = schema.reader.load(rows, known.label, schema.columns)
    _check_unchanged(known, len(loaded.X))
    loaded = replace(loaded, number=known.first + np.arange(known.n))
    return loaded[np.delete(np.arange(known.n), known.out)] if len(known.out) else loaded


def rows_of_piece(rows: Any, known: Known, schema: Schema, numbers: Array) -> Any:
    """Return the rows of a piece of a table that have one of these numbers, as a frame."""
    frame = schema.reader.rows(rows, known.label)
    _check_unchanged(known, len(frame))
    return frame[np.isin(known.first + np.arange(len(frame)), numbers)]


def paired(known: Sequence[Known], pieces: Iterator[Piece]) -> Iterator[tuple[Known, Piece]]:
    """Yield each piece with its first survey; refuse other pieces than in the first pass."""
    for before, piece in zip_longest(known, pieces):
        if before is None or piece is None or before.label != piece.label:
            labels = [each.label if each else "nothing" for each in (before, piece)]
            raise _changed(f"{labels[0]} in the first pass is {labels[1]}")
        yield before, piece


def _check_unchanged(known: Known, n: int) -> None:
    """Refuse a piece whose number of rows has changed."""
    if n != known.n:
        raise _changed(f"{known.label} had {known.n:,} rows in the first pass, and has {n:,}")


def _changed(what: str) -> ValueError:
    return ValueError(f"{what} in a later one: leave the rows as they are until the fit is done.")


@contextmanager
def read_here(
    source: Source, limit: int | None, seed: int, *, test: Kept = NONE_KEPT, n_sample: int = 0
) -> Iterator[MemoryRows | DiskRows]:
    """Read all rows of a source within a limit, in bytes of memory of this process; yield them.

    The seed draws the test rows and the partitions of the training rows. With `n_sample` above 0
    hyperparameters are selected on a sample of this size, and rows are encoded in training, which
    takes more memory. A limit of None keeps all rows in memory.
    """
    budget = np.inf if limit is None else limit - RESERVED
    surveys = [source.reader.survey(piece.rows, piece.label) for piece in source.pieces(None)]
    schema = source.reader.agree(surveys)
    n = sum(each.n for each in surveys)
    # Numbers of 8 bytes that an encoded row of single precision takes, at most.
    bins = max((b for b in _BINS if b * schema.n_features <= MOST_RAMPS), default=0)
    n_wide = (schema.n_features * (1 + bins) + 1) // 2 if n_sample else 0
    shape = shape_of(n, schema.n_numbers, n_wide)
    most_test = int(min(test.most, budget / 8 / (_CELL * schema.n_features)))
    known = known_pieces(surveys, Kept(test.share, most_test), seed)
    pairs = paired(known, source.pieces(schema))
    loaded = (load_piece(piece.rows, before, schema) for before, piece in pairs)
    if COPIES * shape.n_bytes + _CELL * n * n_wide <= budget:
        yield MemoryRows(schema, joined([*loaded]), known)
        return
    check_parts_fit(shape, int(budget))
    needed = _COPIES_OF_SAMPLE * _CELL * min(n, n_sample) * n_wide
    if needed > budget:
        raise ValueError(
            f"the memory limit is too small for cross-validation with {schema.n_features} "
            f"features: give at least {in_words(RESERVED + needed)}, or fit one network."
        )
    with scratch(shape, seed, int(budget)) as file:
        for part in loaded:
            if len(part.X):
                file.add(_records(replace(part, y=schema.likelihood.encode(part.y))))
        file.write()
        yield DiskRows(schema, file, known)


def _records(rows: Loaded) -> Array:
    """Return rows as records, (n,), of 8 bytes for each number."""
    fields = {name: a for name, a in vars(rows).items() if a is not None}
    records = np.empty(len(rows.y), [(k, np.float64, a.shape[1:]) for k, a in fields.items()])
    for name, values in fields.items():
        records[name] = values
    return records


def _loaded(records: Array) -> Loaded:
    found = Loaded(**{name: records[name] for name in records.dtype.names or ()})
    assert found.number is not None
    return replace(found, number=found.number.astype(np.int64))
