"""PBPEnsemble: several networks from different seeds, whose predictive is their mixture."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral
from threading import Event
from typing import Any, Literal, Self, TypeVar, cast, overload

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, check_scalar

from probprop._types import Array, FloatArray
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import (
    check_input_std,
    check_inputs,
    check_int,
    check_labelled_data,
    check_labels,
    check_n_targets,
    check_regression_data,
    check_same_classes,
    first_classes,
)
from probprop.files import format as persistence
from probprop.inference.inputs import Inputs
from probprop.inference.posterior import PerTarget
from probprop.inference.threads import map_in_threads
from probprop.inference.training import warn_of_counts
from probprop.predictive.classes import ClassMixture, ClassPredictive
from probprop.predictive.gaussian import Predictive
from probprop.predictive.mixture import Mixture
from probprop.predictive.sampled import SampledNetwork

T = TypeVar("T")
Member = PBPRegressor | PBPClassifier


def _of_classifiers(ensemble: PBPEnsemble) -> bool:
    return isinstance(ensemble.estimator, PBPClassifier)


def _of_regressors(ensemble: PBPEnsemble) -> bool:
    return not _of_classifiers(ensemble)


class PBPEnsemble(BaseEstimator):  # type: ignore[misc]
    """An ensemble of PBP regressors, or classifiers, that differ only in their seeds.

    Another seed starts from other weights and takes the points in another order, and ends in
    another, equally good network. The predictive of the ensemble is the equal mixture of those
    of its members: where they disagree it is wider. It takes `n_members` times the work of
    one fit, which threads share. To scikit-learn it is what `estimator` is.

    Parameters
    ----------
    estimator : PBPRegressor or PBPClassifier, default=None
        The model whose clones are the members; None is ``PBPRegressor()``. Their progress bars
        are off.
    n_members : int, default=5
    n_jobs : int, default=None
        Threads to fit and predict with; None is 1 outside of a ``joblib.parallel_config``, -1
        all processors. It does not change the results.
    random_state : int, RandomState instance or None, default=None
        Gives the seeds of the members; None takes the `random_state` of `estimator`. Of an int
        the first member has that seed, so that an ensemble of one is the single model, and the
        seeds of the others are drawn from ``RandomState(seed)``. Otherwise all are drawn.

    Attributes
    ----------
    estimators_ : list of PBPRegressor or PBPClassifier
        The members. The seed of each is its `random_state`.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names. The members take arrays.
    n_samples_seen_ : int
        Rows given to `fit` and `partial_fit`, each counted once.
    n_outputs_ : int
        Number of targets; of regressors only.
    noise_variance_ : float, or ndarray of shape (n_outputs,)
        Mean over the members of the variance of the noise, in target units squared; of
        regressors only.
    classes_ : ndarray of shape (n_classes,)
        As of `PBPClassifier`; of classifiers only.
    multilabel_ : bool
        Whether y was a matrix of labels; of classifiers only.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop import PBPEnsemble, PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPEnsemble(PBPRegressor((20,)), n_members=3, random_state=0)
    >>> mean, std = model.fit(X[:400], y[:400]).predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    >>> [member.random_state for member in model.estimators_]
    [0, 209652396, 398764591]

    >>> from sklearn.datasets import load_wine
    >>> from probprop import PBPClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = PBPEnsemble(PBPClassifier((10,), n_epochs=10), n_members=3, random_state=0)
    >>> model.fit(X, y).predict_proba(X[:5]).shape
    (5, 3)
    """

    def __init__(
        self,
        estimator: Member | None = None,
        n_members: int = 5,
        *,
        n_jobs: int | None = None,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_members = n_members
        self.n_jobs = n_jobs
        self.random_state = random_state

    # ---- Training

    def fit(self, X: ArrayLike, y: ArrayLike, *, X_std: ArrayLike | None = None) -> Self:
        """Start afresh and fit every member.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for several targets or
            labels
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C, or an error in a member, leaves the ensemble as it was before the call.
        """
        self._check_parameters()
        with self._as_it_was_on_failure() as failed:
            rows, targets = self._check_data(X, y, X_std, y, reset=True)
            members = self._new_members()
            choice = members[0]._choose(rows, targets)

            def fit(member: Member) -> None:
                member._fit(rows, targets, choice, lambda epoch: failed.is_set())

            self._each(fit, members)
            self.estimators_ = members
        warn_of_counts([epoch for member in self.estimators_ for epoch in member.history_])
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        *,
        X_std: ArrayLike | None = None,
    ) -> Self:
        """Go on with one pass over these rows in every member, in the order given.

        As `partial_fit` of the members; after a `fit` it goes on with the members there are.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_outputs) for several targets or
            labels
        classes : array-like of shape (n_classes,), default=None
            All classes there will be, for classifiers: see `PBPClassifier.partial_fit`.
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        self

        Notes
        -----
        Ctrl-C, or an error in a member, leaves the ensemble as it was before the call.
        """
        self._check_parameters()
        first = not hasattr(self, "estimators_")
        with self._as_it_was_on_failure():
            rows, targets = self._check_data(X, y, X_std, classes, reset=first)
            members = self._new_members() if first else [_branch(m) for m in self.estimators_]
            self._each(lambda member: member._go_on(rows, targets), members)
            self.estimators_ = members
        warn_of_counts([member.history_[-1] for member in self.estimators_])
        return self

    def _check_data(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_std: ArrayLike | None,
        classes: ArrayLike | None,
        *,
        reset: bool,
    ) -> tuple[Inputs, FloatArray]:
        """Return rows and targets as the members' `_fit` takes them; the names stay here."""
        if _of_regressors(self):
            rows, targets = check_regression_data(self, X, y, reset=reset)
            if not reset:
                check_n_targets(targets, self.n_outputs_)
            return Inputs(rows, check_input_std(X_std, rows)), targets
        rows, labels = check_labelled_data(self, X, y, reset=reset)
        if reset:
            self.classes_, self.multilabel_ = first_classes(labels, classes)
        else:
            check_same_classes(classes, self.classes_)
        inputs = Inputs(rows, check_input_std(X_std, rows))
        return inputs, check_labels(labels, self.classes_, self.multilabel_)

    def _new_members(self) -> list[Member]:
        estimator = PBPRegressor() if self.estimator is None else self.estimator
        seed = estimator.random_state if self.random_state is None else self.random_state
        seeds = member_seeds(seed, self.n_members)
        members = [clone(estimator).set_params(random_state=s, verbose=0) for s in seeds]
        shared = {"n_features_in_", "classes_", "multilabel_"} & vars(self).keys()
        for member in members:
            vars(member).update({name: getattr(self, name) for name in shared})
        return members

    @contextmanager
    def _as_it_was_on_failure(self) -> Iterator[Event]:
        """On an error, and on Ctrl-C, put the ensemble back; the event tells the threads."""
        before, failed = vars(self).copy(), Event()
        try:
            yield failed
        except BaseException:
            failed.set()
            self.__dict__ = before
            raise

    # ---- Prediction

    @overload
    def predict(
        self,
        X: ArrayLike,
        return_std: Literal[False] = ...,
        *,
        X_std: ArrayLike | None = ...,
    ) -> Array: ...
    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[True], *, X_std: ArrayLike | None = ...
    ) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False, *, X_std: ArrayLike | None = None
    ) -> Array | tuple[FloatArray, FloatArray]:
        """Predict the mean of the target, or the most probable class or labels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        return_std : bool, default=False
            Of regressors only.
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        mean : ndarray of shape (n_samples,)
            In target units. Of classifiers what `PBPClassifier.predict` returns.
        std : ndarray of shape (n_samples,)
            Standard deviation of the target, in target units, with the noise and with the
            spread of the members; only with ``return_std=True``.
        """
        mixture = self.predict_distribution(X, X_std=X_std)
        if isinstance(mixture, Mixture):
            return (mixture.mean, mixture.std) if return_std else mixture.mean
        if return_std:
            raise ValueError("return_std=True is for regressors: give False for classes.")
        return mixture.most_probable(self.classes_)

    @available_if(_of_classifiers)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the probability of every class, or of each label to be there.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            Mean over the members, in the order of `classes_`.
        """
        return cast(ClassMixture, self.predict_distribution(X, X_std=X_std)).proba

    @available_if(_of_classifiers)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the logarithms of the probabilities, exact where those are too small.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        ndarray of shape (n_samples, n_classes) or (n_samples, n_labels)
            In the order of `classes_`.
        """
        return cast(ClassMixture, self.predict_distribution(X, X_std=X_std)).log_proba

    def predict_distribution(
        self, X: ArrayLike, *, X_std: ArrayLike | None = None
    ) -> Mixture | ClassMixture:
        """Return the predictive distribution of the target, or label, for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        Mixture
            With one component per member, the Gaussian of [PBP15] Eq. (12).
        ClassMixture
            The same of classifiers, with the entropy and its two parts.
        """
        check_is_fitted(self)
        rows = check_inputs(self, X)
        std = check_input_std(X_std, rows)
        predicted = self._each(lambda m: m.predict_distribution(rows, X_std=std), self.estimators_)
        if _of_classifiers(self):
            return ClassMixture(tuple(cast(list[ClassPredictive], predicted)))
        return Mixture.of(cast(list[Predictive], predicted))

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R squared of the means, or the accuracy of the classes, as scikit-learn does.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), or (n_samples, n_labels) for labels
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        float
        """
        mixin = ClassifierMixin if _of_classifiers(self) else RegressorMixin
        return float(mixin.score(self, X, y, sample_weight))

    @available_if(_of_regressors)  # type: ignore[untyped-decorator]
    def sample_functions(
        self, n: int = 1, random_state: int | RandomState | None = None
    ) -> list[SampledNetwork]:
        """Draw networks from the ensemble: a member at random, then a network from its posterior.

        Parameters
        ----------
        n : int, default=1
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        list of SampledNetwork
            Each is a deterministic function: ``f(X)`` has shape (n_samples,), in target units.
        """
        check_is_fitted(self)
        check_int("n", n, 1)
        rng = check_random_state(random_state)
        drawn = rng.randint(len(self.estimators_), size=n)
        members = cast(list[PBPRegressor], self.estimators_)
        return [members[i].sample_functions(1, rng)[0] for i in drawn]

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return cast(list[PBPRegressor], self.estimators_)[0].n_outputs_

    @property
    def noise_variance_(self) -> PerTarget:
        """Mean over the members of the variance of the noise, in target units squared."""
        members = cast(list[PBPRegressor], self.estimators_)  # of others there is no such attribute
        mean: FloatArray = np.array([member.noise_variance_ for member in members]).mean(axis=0)
        return mean if mean.ndim else float(mean)

    @property
    def n_samples_seen_(self) -> int:
        """Rows given to `fit` and `partial_fit`, each counted once."""
        return self.estimators_[0].n_samples_seen_

    # ---- Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted ensemble to one file, without pickle; `probprop.load` reads it.

        The file is written beside `path` and renamed, so that a crash never leaves half a
        model. A `random_state` that is a RandomState instance comes back as None.
        """
        check_is_fitted(self)
        persistence.save(self, path)

    # ---- Validation and threads

    def _check_parameters(self) -> None:
        if not isinstance(self.estimator, Member | None):
            raise TypeError(
                "estimator must be an instance of PBPRegressor or PBPClassifier, or None, not "
                f"{type(self.estimator).__name__}."
            )
        if self.estimator is not None:
            self.estimator._check_parameters()
        check_int("n_members", self.n_members, 1)
        if self.n_jobs is not None:
            check_scalar(self.n_jobs, "n_jobs", Integral)
            if self.n_jobs == 0:
                raise ValueError("n_jobs == 0, must be None or another int.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_member = get_tags(
            self.estimator if isinstance(self.estimator, Member) else PBPRegressor()
        )
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(of_member, name))
        tags.input_tags.allow_nan = of_member.input_tags.allow_nan
        return tags

    def _each(self, call: Callable[[Member], T], members: list[Member]) -> list[T]:
        """Call it with every member, in threads: the engine releases the GIL."""
        return map_in_threads(call, members, min(effective_n_jobs(self.n_jobs), len(members)))


def member_seeds(seed: int | RandomState | None, n_members: int) -> list[int]:
    """Return one seed per member; those of a smaller ensemble are the first of a larger one's.

    Examples
    --------
    >>> from probprop.estimators.ensemble import member_seeds
    >>> member_seeds(7, 1), member_seeds(7, 3)
    ([7], [7, 327741615, 976413892])
    """
    own: list[int] = [int(seed)] if isinstance(seed, Integral) else []
    drawn: list[int] = check_random_state(seed).randint(2**31 - 1, size=n_members).tolist()
    return (own + drawn)[:n_members]


def first_network(model: Member | PBPEnsemble) -> Member:
    """Return the first member of a fitted ensemble; of a single model, itself."""
    return model.estimators_[0] if isinstance(model, PBPEnsemble) else model


def _branch(member: Member) -> Member:
    """Copy a member so far that `partial_fit` leaves the original as it is."""
    branch = copy(member)
    branch.history_ = [*member.history_]  # all else it replaces
    return branch
