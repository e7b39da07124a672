"""PBPEnsemble: several networks from different seeds, whose predictive is their mixture."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar, cast, overload

from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    RegressorMixin,
    is_classifier,
    is_regressor,
)
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.distributions.functions import SampledNetwork
from probprop.distributions.mixture import Mixture
from probprop.estimators.base import Callback, DistributionMixin, go_on_with_network, plan_of
from probprop.estimators.checkpoints import check_seed
from probprop.estimators.data import Given, noise_factor, read_inputs
from probprop.estimators.members import (
    FromMembers,
    Member,
    as_it_was_on_failure,
    branch,
    check_ensemble,
    fit_members,
    new_members,
    read_data,
    seed_of,
)
from probprop.estimators.regressor import PBPRegressor
from probprop.estimators.validation import check_int
from probprop.inference.history import warn_of_counts
from probprop.inference.likelihoods import Likelihood
from probprop.inference.prediction import predictive, with_noise
from probprop.inference.shards import map_in_threads

T = TypeVar("T")


class PBPEnsemble(FromMembers, BaseEstimator):  # type: ignore[misc]
    """An ensemble of PBP regressors, or classifiers, that differ only in their seeds.

    The seed determines the initial weights and the order of the samples. The predictive is the
    equal mixture of the predictives of the members: it is wider where they disagree. To
    scikit-learn the ensemble is what `estimator` is.

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
        """Start afresh and fit every member.

        Ctrl-C, or an error in a member, leaves the ensemble as it was before the call.

        Parameters
        ----------
        X, y, sample_weight, X_std, y_std : array-like
            As in `fit` of the members; `y_std` is for regressors.
        callback : callable, default=None
            Called with the `Epoch` after each pass of each member, one call at a time;
            returning True stops every member after its current pass.
        checkpoint : str or path-like, default=None
            As in `fit` of the members, with a file for each: its number is appended. The seed of
            the ensemble has to be an int.

        Returns
        -------
        self
        """
        check_ensemble(self)
        if checkpoint is not None:
            check_seed(seed_of(self))
        with as_it_was_on_failure(self) as failed:
            data = read_data(self, Given(X, y, sample_weight, X_std, y_std), stream=False)
            members = new_members(self)
            n_threads = self._n_threads(members)
            fit_members(members, data, callback, failed, n_threads, checkpoint)
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
            given = Given(X, y, sample_weight, X_std, y_std)
            data = read_data(self, given, stream=True, classes=classes)
            first = not hasattr(self, "estimators_")
            members = new_members(self) if first else [branch(m) for m in self.estimators_]
            self._each(lambda member: go_on_with_network(member, data), members)
            self.estimators_, self.likelihood_ = members, data.likelihood
        epochs = [member.history_[-1] for member in self.estimators_]
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

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
        X, X_std : array-like of shape (n_samples, n_features)
            Samples, and standard deviations of their entries or None.
        return_std : bool, default=False
            For regressors only: also return the standard deviation of the target, with the noise
            and with the spread of the members.

        Returns
        -------
        mean, or classes : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        std : ndarray of the shape of the mean, only with ``return_std=True``
        """
        mixture = self.predict_distribution(X, X_std=X_std)
        if not return_std:
            return self.likelihood_.point(mixture)
        if is_classifier(self):
            raise ValueError("return_std=True is for regressors: give False for classes.")
        return mixture.mean, mixture.std

    @available_if(is_classifier)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the probability of every class, or label: the mean over the members."""
        return cast(ClassMixture, self.predict_distribution(X, X_std=X_std)).proba

    @available_if(is_classifier)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Return the logarithms of `predict_proba`, also of probabilities that underflow."""
        return cast(ClassMixture, self.predict_distribution(X, X_std=X_std)).log_proba

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
        inputs = read_inputs(self, X, X_std)
        factor = noise_factor(self, sample_weight, inputs.X)

        def predicted_by(member: Member) -> Any:
            plan = plan_of(member, self.likelihood_)
            own = predictive(plan, member.posterior_, member.standardizer_, inputs)
            return with_noise(own, factor)

        predicted = self._each(predicted_by, self.estimators_)
        mixture: Mixture | ClassMixture = self.likelihood_.mixture(predicted)
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
    ) -> list[SampledNetwork]:
        """Draw `n` networks: each from the posterior of a randomly chosen member.

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

    # ---- Saving

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted ensemble to one file; see `PBPRegressor.save`."""
        from probprop.files import save  # the one import upwards: files know all models

        check_is_fitted(self)
        save(self, path)

    # ---- Validation and threads

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        of_member = get_tags(
            self.estimator if isinstance(self.estimator, Member) else PBPRegressor()
        )
        for name in ("estimator_type", "classifier_tags", "regressor_tags", "target_tags"):
            setattr(tags, name, getattr(of_member, name))
        tags.input_tags.allow_nan = of_member.input_tags.allow_nan
        return tags

    def _n_threads(self, members: list[Member]) -> int:
        return min(int(effective_n_jobs(self.n_jobs)), len(members))

    def _each(self, call: Callable[[Member], T], members: list[Member]) -> list[T]:
        """Call it with every member, in threads: the engine releases the GIL."""
        return map_in_threads(call, members, self._n_threads(members))
