"""The members of an ensemble: their seeds, their beginning, and threads that stop together."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral
from threading import Event, Lock
from typing import Any, cast

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils import check_random_state

from probprop._types import Array, FloatArray
from probprop.estimators.alone import alone
from probprop.estimators.base import Callback, fit_network, fit_networks
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.data import Given, TrainingData, read_labels, read_values
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_parameters
from probprop.inference.posterior import Epoch
from probprop.inference.shards import map_in_threads

Member = PBPRegressor | PBPClassifier


class FromMembers:
    """The attributes of an ensemble that follow from its members."""

    estimators_: list[Member]

    @property
    def n_outputs_(self) -> int:
        """Number of targets; ensembles of classifiers have no such attribute."""
        return cast(PBPRegressor, self.estimators_[0]).n_outputs_

    @property
    def noise_variance_(self) -> float | FloatArray:
        """Mean over the members of the variance of the noise, in target units squared.

        Ensembles of classifiers have no such attribute.
        """
        members = cast(list[PBPRegressor], self.estimators_)
        mean: FloatArray = np.array([member.noise_variance_ for member in members]).mean(axis=0)
        return mean if mean.ndim else float(mean)

    @property
    def classes_(self) -> Array:
        """The classes, sorted; ensembles of regressors have no such attribute."""
        return cast(PBPClassifier, self.estimators_[0]).classes_

    @property
    def multilabel_(self) -> bool:
        """Whether y was a matrix of labels; ensembles of regressors have no such attribute."""
        return cast(PBPClassifier, self.estimators_[0]).multilabel_

    @property
    def n_samples_seen_(self) -> int:
        """Rows given to `fit` and `partial_fit`, each counted once."""
        return self.estimators_[0].n_samples_seen_

    @property
    def mean_sample_weight_(self) -> float:
        """Mean of the sample weights in the first call of `fit` or `partial_fit`."""
        return self.estimators_[0].mean_sample_weight_


def member_kind(ensemble: Any) -> Member:
    """Return the estimator whose clones are the members."""
    return PBPRegressor() if ensemble.estimator is None else ensemble.estimator


def check_ensemble(ensemble: Any) -> None:
    """Refuse values that the parameters of an ensemble, or of its members, cannot have."""
    if not isinstance(ensemble.estimator, Member | None):
        raise TypeError(
            "estimator must be an instance of PBPRegressor or PBPClassifier, or None, not "
            f"{type(ensemble.estimator).__name__}."
        )
    check_parameters(member_kind(ensemble))
    check_parameters(ensemble)


def read_data(
    ensemble: Any,
    given: Given,
    *,
    stream: bool,
    classes: ArrayLike | None = None,
) -> TrainingData:
    """Check rows and targets; the ensemble keeps the names of features, members take arrays."""
    known: Any = getattr(ensemble, "likelihood_", None) if stream else None
    estimator: Any = member_kind(ensemble)
    if is_classifier(estimator):
        return read_labels(ensemble, given, known, stream=stream, classes=classes)
    noise_prior = estimator.noise_shape, estimator.noise_rate
    return read_values(ensemble, given, known, noise_prior, estimator.noise_tail)


def seed_of(ensemble: Any) -> int | RandomState | None:
    """Return what gives the seeds of the members: its `random_state`, or that of `estimator`."""
    own: int | RandomState | None = ensemble.random_state
    return member_kind(ensemble).random_state if own is None else own


def new_members(ensemble: Any) -> list[Member]:
    """Return the members of an ensemble that knows its features, not yet fitted."""
    estimator, seeds = member_kind(ensemble), member_seeds(seed_of(ensemble), ensemble.n_members)
    members = [clone(estimator).set_params(random_state=seed, verbose=0) for seed in seeds]
    for member in members:
        member.n_features_in_ = ensemble.n_features_in_
    return members


@contextmanager
def as_it_was_on_failure(ensemble: Any) -> Iterator[Event]:
    """On an error, and on Ctrl-C, put the ensemble back; the event tells the threads."""
    failed = Event()
    with alone(ensemble):
        before = vars(ensemble).copy()
        try:
            yield failed
        except BaseException:
            failed.set()
            ensemble.__dict__ = before
            raise


def member_seeds(seed: int | RandomState | None, n_members: int) -> list[int]:
    """Return one seed per member; those of a smaller ensemble are the first of a larger one's."""
    own: list[int] = [int(seed)] if isinstance(seed, Integral) else []
    drawn: list[int] = check_random_state(seed).randint(2**31 - 1, size=n_members).tolist()
    return (own + drawn)[:n_members]


def fit_members(
    members: list[Member],
    data: TrainingData,
    callback: Callback | None,
    stop: Event,
    n_threads: int,
    checkpoint: str | os.PathLike[str] | None = None,
) -> None:
    """Fit all members in threads: those of the kernel, or our own where somebody looks on.

    Members whose shards are trained in threads are fitted one after the other. Each has a
    checkpoint of its own: its number is appended.
    """
    in_shards = (members[0].n_shards or 1) > 1
    if not in_shards and callback is None and checkpoint is None:
        fit_networks(members, data, n_threads)
        return
    report = one_at_a_time(callback or (lambda epoch: None), stop)

    def fitted(i: int) -> None:
        path = None if checkpoint is None else f"{os.fspath(checkpoint)}.{i}"
        fit_network(members[i], data, report, path)

    map_in_threads(fitted, range(len(members)), 1 if in_shards else n_threads)


def one_at_a_time(callback: Callback, stop: Event) -> Callback:
    """Return a callback for members in threads, which ends all of them once `stop` is set."""
    lock = Lock()

    def report(epoch: Epoch) -> bool:
        with lock:
            if not stop.is_set() and callback(epoch):
                stop.set()
        return stop.is_set()

    return report


def branch(member: Member) -> Member:
    """Copy a member so far that `partial_fit` leaves the original as it is."""
    branch = copy(member)
    branch.history_ = [*member.history_]  # all else it replaces
    return branch
