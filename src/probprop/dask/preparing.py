"""Rows that wait for the rounds: the columns of all pieces agreed upon, the shards loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from distributed import Client
from sklearn.base import is_classifier

from probprop.dask.clients import n_threads
from probprop.dask.shards import (
    Summary,
    load_blocks,
    load_table,
    summarise,
    warn_of_order,
    with_relative_weights,
)
from probprop.dask.sources import Source
from probprop.dask.survey import survey, survey_block
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.members import member_kind
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.checkpoint import digest
from probprop.inference.likelihoods import NOISE_TAILS, Gaussian, Likelihood, of_classes
from probprop.inference.standardize import (
    Standardizer,
    identity_standardizer,
    marginal,
    merged,
    standardizer_of,
)
from probprop.table.encoding import Columns, Wanted, agreed
from probprop.table.model import takes_gaps
from probprop.table.target import NOTHING, Counting, check_one_target

Network = PBPRegressor | PBPClassifier
Estimator = Network | PBPEnsemble | PBPRegressorCV | PBPClassifierCV
"""What can be fitted on a cluster."""


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
    counting : Counting
        The columns of the weights and the known errors.
    """

    client: Client
    loaded: list[Any]
    summaries: list[Summary]
    columns: Columns | None
    likelihood: Likelihood
    counting: Counting

    @property
    def n_features(self) -> int:
        """Columns of X."""
        return len(self.summaries[0].x.n)

    @property
    def digest(self) -> str:
        """Of all rows and how they are dealt to shards."""
        return digest([np.frombuffer(s.digest.encode(), np.uint8) for s in self.summaries])

    @property
    def mean_weight(self) -> float:
        """Mean sample weight of all rows."""
        n = sum(summary.n for summary in self.summaries)
        return sum(summary.n / n * summary.mean_weight for summary in self.summaries)

    def with_relative_weights(self) -> Prepared:
        """Return the rows with their weights in units of `mean_weight`."""
        if self.counting.weight is None:
            return self
        mean = self.mean_weight
        loaded = [
            self.client.submit(with_relative_weights, rows, mean, pure=False)
            for rows in self.loaded
        ]
        return replace(self, loaded=loaded)

    @property
    def baseline(self) -> tuple[tuple[float, float], ...]:
        """Mean and standard deviation of each target; empty for classes."""
        if not self.likelihood.standardises_target:
            return ()
        return marginal(merged([summary.y for summary in self.summaries]))

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
    estimator: Estimator,
    source: Source,
    targets: Sequence[str],
    *,
    n_shards: int | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    counting: Counting = NOTHING,
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
    if counting.error and not isinstance(network, PBPRegressor):
        raise ValueError(
            f"{type(network).__name__} takes no known errors of the target: leave out the column "
            f"{counting.error[0]!r} of errors, or take PBPRegressor."
        )
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
            (*drop, *counting.names),
            classes,
            gaps,
        )
        look = partial(survey, wanted=wanted)
        surveys = client.gather([source.submit(client, look, which) for which in each])
        columns = agreed(surveys, wanted)
        load = partial(load_table, columns=columns, counting=counting)
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
    return Prepared(client, loaded, summaries, columns, likelihood, counting)


def _likelihood(network: Any, n_targets: int, classes: Any) -> Likelihood:
    if isinstance(network, PBPRegressorCV | PBPClassifierCV) and n_targets > 1:
        raise ValueError(
            f"{type(network).__name__} takes one target on a cluster, but there are {n_targets}: "
            f"fit one for each, or give a {type(network).__name__.removesuffix('CV')}."
        )
    if isinstance(network, PBPRegressorCV):
        return Gaussian()
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
