"""Samples for a training: in memory, on disk in one shard, or on a cluster in several.

Samples in memory are for the estimator's own `fit`. On disk or a cluster, shards (on disk: piles)
are measured one by one, and a training uses them in parts of an epoch.
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
from probprop.encoding.piecewise import PiecewiseLinear
from probprop.estimators.cv.folds import MOST_RAMPS
from probprop.estimators.cv.missing import Completed, Joint, complete
from probprop.estimators.validation import mean_weight_of, relative_weights
from probprop.inference import training
from probprop.inference.checkpoint import Checkpoint, CheckpointFile, checked, digest
from probprop.inference.inputs import Encoded, Inputs
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import features
from probprop.inference.standardize import (
    Moments,
    Standardizer,
    check_target_scale,
    identity_standardizer,
    measure,
    merged,
    standardizer_of,
)
from probprop.inference.training import (
    Fitted,
    MapShards,
    Part,
    Rows,
    Schedule,
    Setting,
    Shard,
    State,
    check_learned,
    in_threads,
    rounds,
    shard_order,
    target_variance,
)

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
    """Summary of the rows of a shard, or of a pile."""

    shard: int  # its number
    n: int  # rows
    x: Moments
    y: Moments
    target: Moments  # of the targets, or of the frequencies of the classes
    mean_weight: float  # 1 if there are no weights


def summarize(loaded: Loaded, k: int, likelihood: Likelihood) -> Summary:
    """Measure the rows of shard k, whose targets are encoded."""
    n, y = len(loaded.y), loaded.y
    y_moments = measure(y.reshape(n, -1))
    target = y_moments
    if likelihood.task == "classification" and y.ndim == 1 and likelihood.n_outputs > 1:
        share = np.bincount(y.astype(np.int64), minlength=likelihood.n_outputs) / n
        zero, one = np.zeros_like(share), np.ones_like(share)
        target = Moments(np.full_like(share, n), zero, one, share, share * (1.0 - share))
    weight = 1.0 if loaded.weights is None else mean_weight_of(loaded.weights)
    return Summary(k, n, measure(loaded.X), y_moments, target, weight)


def warn_of_order(summaries: Sequence[Summary]) -> None:
    """Warn of shards whose targets differ, as if the files were sorted by the target."""
    parts = [summary.target for summary in summaries]
    whole = merged(parts)
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
    """How the rows of all shards, or piles, are assigned to folds.

    The rows of a shard are shuffled once, by the seed, and the one at place p is of fold p mod
    `n_folds`. So every fold, and every beginning of that order, is a random sample of the shard.
    """

    seed: int
    n_folds: int

    def order(self, shard: int, n: int) -> Array:
        """Return the n rows of a shard in random order."""
        return shard_order(self.seed, shard, n)

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

    def rows(self, loaded: Loaded, standardizer: Standardizer, completed: Completed) -> Rows:
        """Return rows for a training."""
        inputs = completed.inputs(self.encoding, self.plan.dtype)
        entries, X_var = features(self.plan, standardizer, inputs)
        weights, y_std = loaded.weights, loaded.y_std
        if weights is not None:  # also if all are 1: other shards may have other weights
            relative = relative_weights(weights, self.mean_weight)
            weights = np.ones(len(weights)) if relative is None else relative
        y_var = None if y_std is None else target_variance(self.plan, standardizer, y_std)
        return Rows(entries, X_var, self.y(loaded.y), weights, y_var)


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
            return shard_order(self.seed, shard, n)
        return self.folds.learned(shard, n, self.fold)

    def shard(self, loaded: Loaded, k: int) -> Shard:
        """Return its training rows of shard k; they are encoded when needed."""
        order = self.learned(k, len(loaded.y))
        return partial(self._part, loaded, self.view.completed(loaded.X), order)

    def _part(self, loaded: Loaded, completed: Completed, order: Array, part: Part) -> Rows:
        rows = order[part.places(len(order))]
        return self.view.rows(loaded[rows], self.standardizer, completed[rows])


@dataclass(frozen=True, eq=False)
class Training:
    """The training of one network, and its state."""

    learner: Learner
    setting: Setting
    state: State
    history: Sequence[Epoch] = ()
    log_evidence: float = 0.0

    @property
    def fitted(self) -> Fitted:
        """Its current result."""
        reached = (self.state.posterior, self.learner.standardizer, self.history[-1])
        return Fitted(*reached, self.log_evidence, self.setting.schedule.n)


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
    schedule = Schedule(rows.sizes(learner), n_rounds, learner.seed)
    columns = none.X if view.encoding is None else Encoded(none.X, view.encoding.basis)
    setting = Setting(view.plan, standardizer, schedule, n_epochs, view.plan.groups(columns))
    return Training(learner, setting, State(begun.posterior))


def make_epochs(
    now: Training,
    rows: Any,
    n_epochs: int,
    file: CheckpointFile | None,
    callback: Callable[[Epoch], object],
) -> Training:
    """Make the rounds up to so many epochs; the callback returns True to stop after one of them.

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
        for state, made in rounds(now.setting, now.state, rows.mapped(now.learner)):
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
    check_learned(list(now.history))
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
    """Return a digest of all rows, and of how they are assigned to shards or piles."""
    return digest([np.frombuffer(each.encode(), np.uint8) for each in rows.map(shard_digest)])


def shard_digest(loaded: Loaded, k: int) -> str:
    """Return a digest of the rows of a shard."""
    return digest([loaded.X, loaded.y, loaded.weights, loaded.y_std])


def standardizer_of_all(summaries: Sequence[Summary], plan: Plan) -> Standardizer:
    """Return the standardizer of all rows; refuse data that no network could be trained on."""
    x, y = merged([s.x for s in summaries]), merged([s.y for s in summaries])
    if len(empty := np.flatnonzero(x.n == 0)):
        raise ValueError(
            f"X has no value at all in the column(s) {empty.tolist()}: nothing can be learned "
            "about them. Leave them out."
        )
    likelihood = plan.likelihood
    if plan.standardize:
        found = standardizer_of(x, y if likelihood.standardises_target else None)
    else:
        n_targets = likelihood.n_outputs if likelihood.standardises_target else 1
        found = identity_standardizer(len(x.n), n_targets)
    if likelihood.standardises_target:
        check_target_scale(found.y_scale)
        found.check_y(np.array([y.low, y.high]), plan.dtype)
    return found


# ---- Rows on this machine. `ClusterRows` has the attributes and methods of `DiskRows`.


@dataclass(frozen=True, eq=False)
class MemoryRows:
    """All rows in memory, in the order in which they came, with the targets as given."""

    schema: Schema
    loaded: Loaded
    known: Sequence[Known]
    held_out: Any = None


@dataclass(frozen=True, eq=False)
class DiskRows:
    """All rows on disk: one shard, used in several parts per epoch."""

    schema: Schema
    scratch: Scratch  # the fields of `Loaded`, with y as the likelihood encodes it
    known: Sequence[Known]
    held_out: Any = None

    @cached_property
    def summaries(self) -> list[Summary]:
        """Summary of each pile that has rows."""
        return self.map(summarize, self.schema.likelihood)

    @property
    def settings(self) -> dict[str, str]:
        """What determines the result besides the estimator."""
        return {"training in parts (out of core)": str(self.scratch.shape.n_parts)}

    def map(self, call: Callable[..., Any], *arguments: Any) -> list[Any]:
        """Call a function with each pile that has rows."""
        return [call(_loaded(rows), k, *arguments) for k, rows in self.scratch.piles()]

    def n_rounds(self, n_hidden: int) -> int:
        """Return the parts of an epoch."""
        return self.scratch.shape.n_parts

    def sizes(self, learner: Learner) -> tuple[int, ...]:
        """Return the number of training rows of a network."""
        return (sum(learner.n_learned(summary.n) for summary in self.summaries),)

    def mapped(self, learner: Learner) -> MapShards:
        """Return the map over the one shard."""
        return in_threads([partial(self._part, learner)], 1)

    def _part(self, learner: Learner, part: Part) -> Rows:
        chosen = None if learner.folds is None else learner.learned
        loaded = _loaded(self.scratch.part(part.seed, part.n_iter, part.n_round, chosen))
        view = learner.view
        return view.rows(loaded, learner.standardizer, view.completed(loaded.X))

    def advance(self) -> None:
        """Leave the candidates to threads of this process."""


# ---- From a source to rows on this machine


def sample_sizes(sizes: Sequence[int], n: int) -> list[int]:
    """Return how many of n rows each shard gives: its share of all rows.

    >>> sample_sizes([10, 30, 60], 10), sample_sizes([2, 3], 10)
    ([1, 3, 6], [2, 3])
    """
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

    def with_out(self, numbers: Array) -> Known:
        """Return the piece with another test set: its rows with these numbers."""
        places = numbers - self.first
        return self._replace(out=places[(places >= 0) & (places < self.n)])


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
        Known(survey.label, survey.n, firsts[i], shard_order(seed, i, survey.n)[: each[i]])
        for i, survey in enumerate(surveys)
    ]


def split_piece(rows: Any, known: Known, schema: Schema) -> tuple[Any, Any]:
    """Return the training rows of a piece, and the frame of its test rows, if any."""
    if not len(known.out):
        return rows, None
    frame = schema.reader.rows(rows, known.label)
    _check_unchanged(known, len(frame))
    out = np.isin(np.arange(len(frame)), known.out)
    return frame[~out], frame[out]


def load_piece(rows: Any, known: Known, schema: Schema) -> Loaded:
    """Load the training rows of a piece; refuse a piece that has changed."""
    loaded = schema.load(rows, known.label)
    numbers = np.delete(np.arange(known.first, known.first + known.n), known.out)
    _check_unchanged(known, len(loaded.X) + len(known.out))
    return replace(loaded, number=numbers)


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

    The seed draws the test rows and the piles of the training rows. With `n_sample` above 0
    hyperparameters are selected on a sample of this size, and rows are encoded in training, which
    takes more memory. A limit of None keeps all rows in memory.
    """
    budget = np.inf if limit is None else limit - RESERVED
    surveys = [source.reader.survey(piece.rows, piece.label) for piece in source.pieces(None)]
    schema = source.reader.agree(surveys)
    n = sum(each.n for each in surveys)
    n_wide = _n_encoded(schema.n_features) if n_sample else 0
    shape = shape_of(n, schema.n_numbers, n_wide)
    most_test = int(min(test.most, budget / 8 / (_CELL * schema.n_features)))
    known = known_pieces(surveys, Kept(test.share, most_test), seed)
    frames = list[Any]()

    def loaded() -> Iterator[Loaded]:
        for before, piece in paired(known, source.pieces(schema)):
            rows, frame = split_piece(piece.rows, before, schema)
            frames.append(frame)
            part = load_piece(rows, before, schema)
            del rows  # before the next piece is read
            yield part

    if COPIES * shape.n_bytes + _CELL * n * n_wide <= budget:
        rows = joined([*loaded()])
        yield MemoryRows(schema, rows, known, together(frames))
        return
    check_parts_fit(shape, int(budget))
    needed = _COPIES_OF_SAMPLE * _CELL * min(n, n_sample) * n_wide
    if needed > budget:
        raise ValueError(
            f"the memory limit is too small for cross-validation with {schema.n_features} "
            f"features: give at least {in_words(RESERVED + needed)}, or fit one network."
        )
    with scratch(shape, seed, int(budget)) as file:
        for part in loaded():
            if len(part.X):
                file.add(_records(replace(part, y=schema.likelihood.encode(part.y))))
        file.write()
        yield DiskRows(schema, file, known, together(frames))


def _n_encoded(n_features: int) -> int:
    """Return the numbers of 8 bytes that an encoded row of single precision takes, at most."""
    bins = [n for n in _BINS if n * n_features <= MOST_RAMPS]
    return (n_features + max(bins, default=0) * n_features + 1) // 2


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


def together(frames: Sequence[Any]) -> Any:
    """Return the test rows, as they are in the table; None if there are none."""
    frames = [frame for frame in frames if frame is not None]
    if not frames:
        return None
    import pandas as pd  # arrays do without it

    return pd.concat(frames, ignore_index=True)
