"""What `PBPRegressor` and `PBPClassifier` share: training, and predictions of new rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, check_scalar
from sklearn.utils.validation import check_is_fitted

from probprop._types import FloatArray
from probprop.estimators import validation
from probprop.estimators.progress import progress_bar
from probprop.estimators.shapley import explain
from probprop.estimators.validation import Given, TrainingData
from probprop.inference import training
from probprop.inference.checkpoint import (
    CheckpointFile,
    check_seed,
    checkpoint_of,
    digest,
    resumed,
    settings_of,
)
from probprop.inference.likelihoods import Likelihood
from probprop.inference.plan import Plan
from probprop.inference.posterior import Epoch, Posterior
from probprop.inference.prediction import (
    output_layer_after,
    predictive,
    with_noise,
    with_output_layer,
)
from probprop.inference.standardize import Standardizer
from probprop.inference.training import Fitted, Run, check_learned, warn_of_counts

Callback = Callable[[Epoch], bool | None]


class SavedMixin:
    """A model that can be saved to a file, and explained."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle; `probprop.load` reads it.

        The file is written atomically. A RandomState instance comes back as None. For
        cross-validated estimators the file has all but `background_` and `oof_*_`, and a
        `cv` that is not an int must be a splitter of scikit-learn.
        """
        from probprop.files import save  # the one import upwards: files know all models

        check_is_fitted(self)
        save(self, path)

    def explain(self, X: ArrayLike, background: ArrayLike | None = None) -> Any:
        """Return Shapley values of samples as a frame: see `probprop.metrics.explain`.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_features)
        background : table or array-like of shape (m, n_features), default=None
            Samples to compare with, such as the training set. None is for cross-validated
            estimators after `fit`: 100 of the training samples, which model files do not have.
        """
        check_is_fitted(self)
        return explain(self, X, background)


class DistributionMixin:
    """Intervals and quantiles of a regressor that has `predict_distribution`."""

    predict_distribution: Any
    n_outputs_: Any

    def _check_one_target(self, method: str) -> None:
        if self.n_outputs_ > 1:
            raise ValueError(
                f"{method} is for one target, but this model has {self.n_outputs_}: fit a model "
                "for each target."
            )

    def predict_interval(self, X: ArrayLike, coverage: float = 0.95) -> FloatArray:
        """Predict the ends of the central interval that contains the target with a probability.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        coverage : float, default=0.95
            Probability of a target inside the interval, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, 2) or (n_samples, 2, n_outputs), in target units
        """
        check_scalar(coverage, "coverage", Real)
        return np.stack(self.predict_distribution(X).interval(coverage), axis=1)

    def predict_quantiles(self, X: ArrayLike, alpha: ArrayLike) -> FloatArray:
        """Predict quantiles of the target.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        alpha : float or array-like of shape (n_quantiles,)
            Probabilities of a target below the quantiles, between 0 and 1.

        Returns
        -------
        ndarray of shape (n_samples, n_quantiles) or (n_samples, n_quantiles, n_outputs)
        """
        probabilities = np.atleast_1d(alpha)
        if probabilities.ndim > 1:
            raise ValueError(
                "alpha must be a float or an array of shape (n_quantiles,). "
                f"Got the shape {probabilities.shape}."
            )
        quantiles: FloatArray = self.predict_distribution(X).ppf(probabilities)
        return np.moveaxis(quantiles, 0, 1)


class PBPEstimator(SavedMixin, BaseEstimator):  # type: ignore[misc]
    """A network trained by probabilistic backpropagation, of values or of classes."""

    prior: Literal["shared", "per_column"] = "shared"
    output_layer: Literal["mean_field", "full"] = "mean_field"
    noise: Literal["constant", "input"] = "constant"
    noise_layer_sizes: int | Sequence[int] = ()

    likelihood_: Likelihood
    posterior_: Posterior
    standardizer_: Standardizer
    history_: list[Epoch]
    log_evidence_: float
    n_samples_seen_: int
    mean_sample_weight_: float

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        n_epochs: int = 40,
        evidence_cap: float | None = 10.0,
        prior_shape: float = 6.0,
        prior_rate: float = 6.0,
        standardize: bool = True,
        missing: Literal["error", "marginalize"] = "error",
        dtype: Literal["float64", "float32"] = "float64",
        engine: Literal["native", "reference"] = "native",
        random_state: int | RandomState | None = None,
        n_shards: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_epochs = n_epochs
        self.evidence_cap = evidence_cap
        self.prior_shape = prior_shape
        self.prior_rate = prior_rate
        self.standardize = standardize
        self.missing = missing
        self.dtype = dtype
        self.engine = engine
        self.random_state = random_state
        self.n_shards = n_shards
        self.verbose = verbose

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
        """Train a new model for `n_epochs` epochs.

        Ctrl-C leaves the estimator as it was after the last whole epoch, or before the call.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), (n_samples, n_outputs) or (n_samples, n_labels)
            Values: several targets share the hidden layers, and each has its own noise. Or classes,
            as numbers, strings or bools; or a matrix of 0 and 1, with a column per label.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of 0 or more, divided by their mean. A value of twice the weight has half the
            noise variance; the weights of classes are the powers of their likelihoods. A sample of
            weight 0 is left out. Standardization ignores weights.
        callback : callable, default=None
            Called with the `Epoch` after each epoch; returning True stops the fit there.
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, or what broadcasts to that shape; not for
            sparse X.
        y_std : array-like of shape (n_samples,) or (n_samples, n_outputs), default=None
            Known standard deviations of the errors of values y, in target units. Their squares add
            to the noise variance, which is learned without them.
        checkpoint : str or path-like, default=None
            A file for the state of the training, written after an epoch, at most once a second,
            and on Ctrl-C. The same call continues from it to the same bits; other data, other
            parameters or another version of probprop are refused. The `random_state` must be an
            int.

        Returns
        -------
        self
        """
        validation.check_parameters(self)
        given, before = Given(X, y, sample_weight, X_std, y_std), vars(self).copy()
        try:
            data = validation.read(self, given, stream=False)
            fit_network(self, data, callback, checkpoint)
        except BaseException:  # Ctrl-C too
            if vars(self).get("history_") is before.get("history_"):  # not one whole epoch
                self.__dict__ = before
            raise
        warn_of_counts(self.history_, self.posterior_)
        return self

    def _go_on(self, given: Given, classes: ArrayLike | None = None) -> None:
        """Do what `partial_fit` does."""
        validation.check_parameters(self)
        go_on_with_network(self, validation.read(self, given, stream=True, classes=classes))

    # ---- Prediction

    def _predictive(
        self, X: ArrayLike, X_std: ArrayLike | None, sample_weight: ArrayLike | None = None
    ) -> Any:
        """Return the predictive distribution of every row."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)  # raises
        inputs = validation.read_inputs(self, X, X_std)
        plan = plan_of(self, self.likelihood_)
        factor = validation.noise_factor(self, sample_weight, inputs.X)
        return with_noise(predictive(plan, self.posterior_, self.standardizer_, inputs), factor)

    # ---- Fitted attributes that follow from others

    @property
    def n_iter_(self) -> int:
        """Passes made: epochs of `fit` plus calls of `partial_fit`."""
        return len(self.history_)

    @property
    def prior_variance_(self) -> float:
        """Posterior mean of the variance of the weights' prior."""
        return self.posterior_.prior_variance

    # ---- What scikit-learn needs

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a posterior: checks of data that failed leave other traces."""
        return hasattr(self, "posterior_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalize"
        tags.input_tags.sparse = True
        return tags


_OF_PLAN = ("prior", "output_layer", "evidence_cap", "standardize", "engine")


def plan_of(model: PBPEstimator, likelihood: Likelihood) -> Plan:
    """Return the plan that the parameters of a model make, which must be valid."""
    sizes = model.hidden_layer_sizes
    hidden = sizes if type(sizes) is tuple else validation.check_layer_sizes(sizes)
    noise = None if model.noise == "constant" else model.noise_layer_sizes
    return Plan(
        likelihood,
        tuple(map(int, hidden)),
        None if noise is None else tuple(validation.check_layer_sizes(noise)),
        model.prior_shape,
        model.prior_rate,
        marginalize=model.missing == "marginalize",
        dtype=np.dtype(model.dtype),
        **{name: getattr(model, name) for name in _OF_PLAN},
    )


def fit_network(
    model: PBPEstimator,
    data: TrainingData,
    callback: Callback | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> None:
    """Train a model from the beginning and publish the last whole epoch, also on Ctrl-C."""
    callbacks = [] if callback is None else [callback]
    if model.verbose:
        callbacks.append(progress_bar(model.n_epochs, show_noise=data.likelihood.learns_noise))
    run, history, file = _begin(model, data), list[Epoch](), None
    if checkpoint is not None:
        check_seed(model.random_state)
        file = CheckpointFile(checkpoint, digest(run.rows), settings_of(model))
        for found in file.read()[:1]:
            with file.reading():
                shuffled = training.number_of_shards(model.n_shards, len(run.rows.y)) == 1
                run, history = resumed(run, found, shuffled=shuffled)
    try:
        for run in _epochs(model, run, one_by_one=bool(callbacks) or file is not None):  # noqa: B020
            history += run.made
            if file is not None:
                file.offer(checkpoint_of(run, history))
            if any([c(epoch) for epoch in run.made for c in callbacks]):  # every one is called
                break
    finally:
        if run.made:
            if run.fitted.epoch.n_iter > len(history):  # Ctrl-C came between the two
                history += run.made
            _publish_fit(model, data, run, history)
        if file is not None:
            file.flush()


def _epochs(model: PBPEstimator, run: Run, *, one_by_one: bool) -> Iterator[Run]:
    """Make the epochs that are left: in one piece, or by rounds in threads."""
    left = model.n_epochs - run.fitted.epoch.n_iter
    n_shards = training.number_of_shards(model.n_shards, len(run.rows.y))
    if n_shards > 1:
        return training.train_by_rounds(run, n_shards, min(n_shards, int(effective_n_jobs(-1))))
    return training.train(run, repeat(1, left) if one_by_one else [left])


def _begin(model: PBPEstimator, data: TrainingData) -> Run:
    plan = plan_of(model, data.likelihood)
    rng, n = check_random_state(model.random_state), model.n_epochs
    before = training.start(plan, data.X, data.y, rng, near_draw=n == 1)
    return training.begin(
        plan, before, data.X, data.y, rng, n_epochs=n, weights=data.weights, y_std=data.y_std
    )


def _publish_fit(model: PBPEstimator, data: TrainingData, run: Run, history: list[Epoch]) -> None:
    check_learned(history)
    model.likelihood_ = data.likelihood
    fitted = run.fitted
    posterior = with_output_layer(
        run.plan, fitted.posterior, fitted.standardizer, data.X, data.y, data.weights
    )
    publish(model, replace(fitted, posterior=posterior), history, data.mean_weight)


def go_on_with_network(model: PBPEstimator, data: TrainingData) -> None:
    """Make one pass over these rows, in the order given, from where the model is."""
    first = not hasattr(model, "posterior_")
    plan = plan_of(model, data.likelihood)
    if plan.output_layer == "full" and first:
        raise ValueError(
            'partial_fit of output_layer="full" needs a model that was fitted: its features must '
            'not change. Use fit first, or output_layer="mean_field".'
        )
    if first:
        random_state = check_random_state(model.random_state)
        before = training.start(plan, data.X, data.y, random_state, near_draw=True)
    else:
        before = state_of(model)
    if plan.output_layer == "full":  # exact, given the features, which stay
        given = (data.X, data.y, data.weights)
        q = output_layer_after(plan, before.posterior, before.standardizer, *given)
        n_iter, n = before.epoch.n_iter + 1, len(data.y)
        model.history_.append(before.epoch._replace(n_iter=n_iter, n_points=n))
        after = replace(before, posterior=q, n_samples_seen=before.n_samples_seen + n)
        publish(model, after, model.history_, data.mean_weight)
        return
    begun = training.begin(plan, before, data.X, data.y, weights=data.weights, y_std=data.y_std)
    (run,) = training.train(begun, [1])
    history = [] if first else model.history_
    history += run.made  # in place: a stream may make millions of calls
    model.likelihood_ = data.likelihood
    publish(model, run.fitted, history, data.mean_weight)


def publish(
    model: PBPEstimator, fitted: Fitted, history: list[Epoch], mean_weight: float = 1.0
) -> None:
    """Give a model the attributes of what training has reached."""
    model.posterior_ = fitted.posterior
    model.standardizer_ = fitted.standardizer
    model.log_evidence_ = fitted.log_evidence
    model.n_samples_seen_ = fitted.n_samples_seen
    model.mean_sample_weight_ = mean_weight
    model.history_ = history


def state_of(model: PBPEstimator) -> Fitted:
    """Return what the training of a fitted model has reached: what `publish` was given."""
    return Fitted(
        posterior=model.posterior_,
        standardizer=model.standardizer_,
        epoch=model.history_[-1],
        log_evidence=model.log_evidence_,
        n_samples_seen=model.n_samples_seen_,
    )
