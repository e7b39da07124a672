"""The members of an ensemble: their seeds, their beginning, and threads that stop together."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral
from threading import Event, Lock
from typing import Any

from numpy.random import RandomState
from sklearn.base import clone
from sklearn.utils import check_random_state

from probprop.estimators.base import Callback
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.posterior import Epoch

Member = PBPRegressor | PBPClassifier


def member_kind(ensemble: Any) -> Member:
    """Return the estimator whose clones are the members."""
    return PBPRegressor() if ensemble.estimator is None else ensemble.estimator


def new_members(ensemble: Any) -> list[Member]:
    """Return the members of an ensemble that knows its features, not yet fitted."""
    estimator = member_kind(ensemble)
    given = ensemble.random_state
    seeds = member_seeds(estimator.random_state if given is None else given, ensemble.n_members)
    members = [clone(estimator).set_params(random_state=seed, verbose=0) for seed in seeds]
    for member in members:
        member.n_features_in_ = ensemble.n_features_in_
    return members


@contextmanager
def as_it_was_on_failure(ensemble: Any) -> Iterator[Event]:
    """On an error, and on Ctrl-C, put the ensemble back; the event tells the threads."""
    before, failed = vars(ensemble).copy(), Event()
    try:
        yield failed
    except BaseException:
        failed.set()
        ensemble.__dict__ = before
        raise


def member_seeds(seed: int | RandomState | None, n_members: int) -> list[int]:
    """Return one seed per member; those of a smaller ensemble are the first of a larger one's.

    Examples
    --------
    >>> member_seeds(7, 1), member_seeds(7, 3)
    ([7], [7, 327741615, 976413892])
    """
    own: list[int] = [int(seed)] if isinstance(seed, Integral) else []
    drawn: list[int] = check_random_state(seed).randint(2**31 - 1, size=n_members).tolist()
    return (own + drawn)[:n_members]


def one_at_a_time(callback: Callback | None, stop: Event) -> Callback:
    """Return a callback for members in threads, which ends all of them once `stop` is set."""
    lock = Lock()

    def report(epoch: Epoch) -> bool:
        with lock:
            if callback is not None and not stop.is_set() and callback(epoch):
                stop.set()
        return stop.is_set()

    return report


def branch(member: Member) -> Member:
    """Copy a member so far that `partial_fit` leaves the original as it is."""
    branch = copy(member)
    branch.history_ = [*member.history_]  # all else it replaces
    return branch
