"""PBPEnsemble: the mixture of several networks from different seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from numbers import Integral
from typing import Any, Self, TypeVar, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    clone,
    is_classifier,
    is_regressor,
)
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from probprop._types import FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.distributions.functions import SampledNetwork
from probprop.distributions.mixture import Mixture
from probprop.estimators import base, validation
from probprop.estimators.base import Callback, DistributionMixin, PredictMixin, SavedMixin
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.checkpoint import check_seed
from probprop.inference.likelihoods import Likelihood
from probprop.inference.posterior import Epoch
from probprop.inference.prediction import SampledOutputLayer, predictive, with_noise
from probprop.inference.training import map_in_threads, warn_of_counts

Member = PBPRegressor | PBPClassifier
T = TypeVar("T")


def _of_first(name: str) -> Any:
    """Return a property of an ensemble: this attribute of its first member, if that has one."""
    return property(lambda ensemble: getattr(ensemble.estimators_[0], name))


class PBPEnsemble(PredictMixin, SavedMixin, BaseEstimator):  # type: ignore[misc]
    """An ensemble of PBP regressors, or classifiers, that differ only in their seeds.

    The seed determines the initial weights and the order of the samples. The predictive
    distribution is the equal mixture over the members: it is wider where they disagree.

    Parameters
    ----------
    estimator : PBPRegressor or PBPClassifier, default=None
        The model whose clones are the members, without progress bars; None is ``PBPRegressor()``.
    n_members : int, default=5
        Number of members, at least 1.
    n_jobs : int, default=None
        Number of threads; None is 1 outside of a ``joblib.parallel_config``, -1 all processors.
        The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Gives the seeds of the members; None takes the `random_state` of `estimator`. An int is
        the seed of the first member, so that an ensemble of one is the single model; the other
        seeds are drawn from ``RandomState(seed)``. Otherwise all seeds are drawn.

    Attributes
    ----------
    estimators_ : list of PBPRegressor or PBPClassifier
        The members. The seed of each is its `random_state`.
    n_features_in_, feature_names_in_, n_samples_seen_, mean_sample_weight_
        As in `PBPRegressor`.
    n_outputs_ : int
        Number of targets; regressors only.
    noise_variance_ : float, or ndarray of shape (n_outputs,)
        Mean over the members of the noise variance, in target units squared; regressors only.
    classes_ : ndarray of shape (n_classes,)
        As in `PBPClassifier`; classifiers only.
    multilabel_ : bool
        Whether y was a matrix of labels; classifiers only.

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
    """

    estimators_: list[Member]
    likelihood_: Likelihood
    n_features_in_: int

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

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        callback: Callback | None = None,
        X_std: ArrayLike | None = None,
        y_std: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Fit every member; a previous fit is discarded.

        Ctrl-C, or an error in a member, leaves the ensemble as it was before the call.

        Parameters
        ----------
        X, y, sample_weight, X_std, y_std : array-like
            As in `fit` of the members; `y_std` is for regressors.
        callback : callable, default=None
            Called with the `Epoch` after each epoch of each member, which are then fitted one after
            the other; returning True stops every member after its current, or first, pass.
        checkpoint : str or path-like, default=None
            As in `fit` of the members, which are then fitted one after the other, with a file for
            each: its number is appended. The seed of the ensemble has to be an int.

        Returns
        -------
        self
        """
        check_ensemble(self)
        if checkpoint is not None:
            check_seed(seed_of(self))
        given = validation.Given(X, y, sample_weight, X_std, y_std)
        with as_it_was_on_failure(self):
            data = validation.read(self, member_kind(self), given, stream=False)
            members = new_members(self)
            _fit(members, data, callback, self._n_threads(members), checkpoint)
            self.estimators_, self.likelihood_ = members, data.likelihood
        epochs = [epoch for member in self.estimators_ for epoch in member.history_]
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_std: ArrayLike | None = None,
        y_std: ArrayLike | None = None,
    ) -> Self:
        """Update every member by one pass over these samples, in the order given.

        Ctrl-C, or an error in a member, leaves the ensemble as it was before the call.

        Parameters
        ----------
        X, y, classes, sample_weight, X_std, y_std : array-like
            As in `partial_fit` of the members; `classes` for classifiers, `y_std` for regressors.

        Returns
        -------
        self
        """
        check_ensemble(self)
        with as_it_was_on_failure(self):
            given = validation.Given(X, y, sample_weight, X_std, y_std)
            data = validation.read(self, member_kind(self), given, stream=True, classes=classes)
            first = not hasattr(self, "estimators_")
            members = new_members(self) if first else [branch(m) for m in self.estimators_]
            self._each(lambda member: base.go_on_with_network(member, data), members)
            self.estimators_, self.likelihood_ = members, data.likelihood
        epochs = [member.history_[-1] for member in self.estimators_]
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

    # ---- Prediction

    predict_proba = available_if(is_classifier)(PBPClassifier.predict_proba)
    predict_log_proba = available_if(is_classifier)(PBPClassifier.predict_log_proba)

    def predict_distribution(
        self,
        X: ArrayLike,
        *,
        X_std: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Mixture | ClassMixture:
        """Return the predictive distribution of the target, or label, for every sample.

        Parameters
        ----------
        X, X_std : array-like of shape (n_samples, n_features)
            Samples, and standard deviations of their entries or None.
        sample_weight : array-like of shape (n_samples,), default=None
            As in `PBPRegressor.predict_distribution`; regressors only.

        Returns
        -------
        Mixture, or ClassMixture for classifiers
            With one component per member.
        """
        check_is_fitted(self)
        if sample_weight is not None and is_classifier(self):
            raise ValueError(
                "sample_weight in predict_distribution is for regressors: the probabilities of a "
                "classifier do not depend on weights. Leave it out."
            )
        inputs = validation.read_inputs(self, X, X_std)
        factor = validation.noise_factor(self, sample_weight, inputs.X)

        def predicted_by(member: Member) -> Any:
            plan = base.plan_of(member, self.likelihood_)
            own = predictive(plan, member.posterior_, member.standardizer_, inputs)
            return with_noise(own, factor)

        predicted = self._each(predicted_by, self.estimators_)
        mixture: Mixture | ClassMixture = type(predicted[0]).of(predicted)
        return mixture

    predict_interval = available_if(is_regressor)(DistributionMixin.predict_interval)
    predict_quantiles = available_if(is_regressor)(DistributionMixin.predict_quantiles)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return R squared of the means, or the accuracy of the classes, as scikit-learn does."""
        mixin = ClassifierMixin if is_classifier(self) else RegressorMixin
        return float(mixin.score(self, X, y, sample_weight))

    @available_if(is_regressor)  # type: ignore[untyped-decorator]
    def sample_functions(
        self, n: int = 1, random_state: int | RandomState | None = None
    ) -> list[SampledNetwork | SampledOutputLayer]:
        """Draw `n` networks, each from the posterior of a randomly chosen member."""
        check_is_fitted(self)
        validation.check_int("n", n, 1)
        rng = check_random_state(random_state)
        drawn = rng.randint(len(self.estimators_), size=n)
        members = cast(list[PBPRegressor], self.estimators_)
        return [members[i].sample_functions(1, rng)[0] for i in drawn]

    # ---- Fitted attributes that follow from the members

    n_outputs_ = _of_first("n_outputs_")
    classes_ = _of_first("classes_")
    multilabel_ = _of_first("multilabel_")
    n_samples_seen_ = _of_first("n_samples_seen_")
    mean_sample_weight_ = _of_first("mean_sample_weight_")

    @property
    def noise_variance_(self) -> float | FloatArray:
        """Mean over the members of the noise variance, in target units squared; regressors only."""
        members = cast(list[PBPRegressor], self.estimators_)
        mean: FloatArray = np.array([member.noise_variance_ for member in members]).mean(axis=0)
        return mean if mean.ndim else float(mean)

    # ---- What scikit-learn asks, and threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        valid = isinstance(self.estimator, Member)
        of_member = get_tags(self.estimator if valid else PBPRegressor())
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(of_member, name))
        tags.input_tags.allow_nan = of_member.input_tags.allow_nan
        tags.input_tags.sparse = of_member.input_tags.sparse
        return tags

    def _n_threads(self, members: list[Member]) -> int:
        return min(int(effective_n_jobs(self.n_jobs)), len(members))

    def _each(self, call: Callable[[Member], T], members: list[Member]) -> list[T]:
        """Call a function with every member, in threads: the engine releases the GIL."""
        return map_in_threads(call, members, self._n_threads(members))


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
    validation.check_parameters(member_kind(ensemble))
    validation.check_parameters(ensemble)


def seed_of(ensemble: Any) -> int | RandomState | None:
    """Return what gives the members' seeds: its `random_state`, or the estimator's."""
    own: int | RandomState | None = ensemble.random_state
    return member_kind(ensemble).random_state if own is None else own


def new_members(ensemble: Any) -> list[Member]:
    """Return the unfitted members of an ensemble whose features are known."""
    estimator, seeds = member_kind(ensemble), member_seeds(seed_of(ensemble), ensemble.n_members)
    members = [clone(estimator).set_params(random_state=seed, verbose=0) for seed in seeds]
    for member in members:
        member.n_features_in_ = ensemble.n_features_in_
    return members


@contextmanager
def as_it_was_on_failure(ensemble: Any) -> Iterator[None]:
    """On an error, and on Ctrl-C, put the ensemble back."""
    before = vars(ensemble).copy()
    try:
        yield
    except BaseException:
        ensemble.__dict__ = before
        raise


def member_seeds(seed: int | RandomState | None, n_members: int) -> list[int]:
    """Return one seed per member; a smaller ensemble has the first seeds of a larger one."""
    own: list[int] = [int(seed)] if isinstance(seed, Integral) else []
    drawn: list[int] = check_random_state(seed).randint(2**31 - 1, size=n_members).tolist()
    return (own + drawn)[:n_members]


def _fit(
    members: list[Member],
    data: validation.TrainingData,
    callback: Callback | None,
    n_threads: int,
    checkpoint: str | os.PathLike[str] | None,
) -> None:
    """Fit all members: in threads of the kernel, or one after the other."""
    if (members[0].n_shards or 1) == 1 and callback is None and checkpoint is None:
        base.fit_networks(members, data, n_threads)
        return
    stop = False

    def report(epoch: Epoch) -> bool:
        nonlocal stop
        stop = stop or bool(callback is not None and callback(epoch))
        return stop

    for i, member in enumerate(members):
        path = None if checkpoint is None else f"{os.fspath(checkpoint)}.{i}"
        base.fit_network(member, data, report, path)


def branch(member: Member) -> Member:
    """Copy a member so far that `partial_fit` leaves the original as it is."""
    branch = copy(member)
    branch.history_ = [*member.history_]  # all else it replaces
    return branch
