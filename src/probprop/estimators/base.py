"""What `PBPRegressor` and `PBPClassifier` share: training, moments of the outputs, checks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import deepcopy
from itertools import islice
from numbers import Integral
from typing import Any, Literal

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_scalar

from probprop._types import Array, FloatArray
from probprop.estimators.choice import Choice, choose
from probprop.estimators.progress import progress_bar
from probprop.estimators.validation import (
    check_above,
    check_flag,
    check_layer_sizes,
    check_magnitude,
    check_memory,
    check_n_epochs,
    check_option,
    check_refine_every,
)
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import N_NODES, Inputs, normal_nodes
from probprop.inference.posterior import Epoch, Likelihood, Posterior
from probprop.inference.standardize import Standardizer

Callback = Callable[[Epoch], bool | None]

_PREDICT_BLOCK = 1 << 16  # rows standardised at a time


class PBPEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """A network trained by probabilistic backpropagation, whatever its targets are.

    A subclass says what its targets are by the attributes and methods under "What a subclass
    says"; its public methods check, then call those here.
    """

    hidden_layer_sizes: int | Sequence[int]
    n_epochs: int | Literal["auto"]
    memory: float | Literal["auto"] | None
    prior_shape: float
    prior_rate: float
    refine_every: float
    standardize: bool
    missing: Literal["error", "marginalize"]
    dtype: Literal["float64", "float32"]
    engine: Literal["native", "reference"]
    random_state: int | RandomState | None
    verbose: int

    # ---- What a subclass says

    _usual_memory: float | None  # the one that "auto" leaves only for a clearly better one

    @property
    @abstractmethod
    def _likelihood(self) -> Likelihood:
        """What the targets are to the outputs."""

    @abstractmethod
    def _n_outputs(self, y: Array) -> int:
        """Return the units of the last layer for these targets."""

    @property
    @abstractmethod
    def _noise_prior(self) -> tuple[float, float]:
        """Shape and rate of the Gamma of the noise precision."""

    @abstractmethod
    def _check_data(
        self, X: ArrayLike, y: ArrayLike, X_std: ArrayLike | None, *, reset: bool
    ) -> tuple[Inputs, FloatArray]:
        """Return the inputs, (n, n_features), and the targets, (n,) or (n, K), as finite floats.

        With `reset` the features, and the classes, are those of these rows.
        """

    @abstractmethod
    def _working_targets(self, standardizer: Standardizer, y: Array) -> FloatArray:
        """Return the targets as the engine takes them."""

    @abstractmethod
    def _held_out_log_p(
        self, posterior: Posterior, standardizer: Standardizer, X: Inputs, y: Array
    ) -> FloatArray:
        """Return log p(y_n | x_n) of rows that the posterior has not seen, (n,)."""

    # ---- Training

    def _start_afresh(
        self, X: ArrayLike, y: ArrayLike, X_std: ArrayLike | None, callback: Callback | None
    ) -> None:
        """Do what `fit` does; on failure before a whole epoch, put the estimator back."""
        before = vars(self).copy()
        try:
            rows, targets = self._check_data(X, y, X_std, reset=True)
            self._fit(rows, targets, self._choose(rows, targets), callback)
        except BaseException:  # Ctrl-C too
            if vars(self).get("history_") is before.get("history_"):  # not one whole epoch
                self.__dict__ = before
            raise

    def _choose(self, X: Inputs, y: Array) -> Choice:
        """Return the epochs and the memory to train with, found on held-out rows if "auto"."""
        if isinstance(self.n_epochs, str) or isinstance(self.memory, str):
            # A copy draws the seed: with the usual choice the fit is the one without "auto".
            random_state = deepcopy(check_random_state(self.random_state))
            return choose(self, X, y, random_state.randint(2**31))
        return Choice(self.n_epochs, self.memory)

    def _fit(self, X: Inputs, y: Array, choice: Choice, callback: Callback | None) -> None:
        """Train and publish what the last whole epoch left; also on Ctrl-C."""
        random_state = check_random_state(self.random_state)
        standardizer, epochs = training.epochs(self, X, y, choice.memory, random_state)
        callbacks = [] if callback is None else [callback]
        if self.verbose:
            has_noise = self._likelihood == "gaussian"
            callbacks.append(progress_bar(choice.n_epochs, show_noise=has_noise))
        done: tuple[Posterior, list[Epoch]] | None = None  # one name, so Ctrl-C can't part them
        try:
            for posterior, epoch in islice(epochs, choice.n_epochs):
                done = posterior, [*([] if done is None else done[1]), epoch]
                if any([c(epoch) for c in callbacks]):  # every one of them is called
                    break
        finally:
            if done is not None:
                posterior, history = done
                self._publish(posterior, standardizer, history, history[0].sum_log_Z, len(y))
                self.choice_ = choice

    def _go_on(self, X: Inputs, y: Array) -> None:
        """Make the pass of `partial_fit`."""
        first = not hasattr(self, "posterior_")
        history: list[Epoch] = []
        log_evidence, n_seen = 0.0, 0
        memory = self._usual_memory if isinstance(self.memory, str) else self.memory
        if first:
            random_state = check_random_state(self.random_state)
            posterior, standardizer = training.start(self, X, y, random_state)
        else:
            posterior, standardizer = self.posterior_, self.standardizer_
            history, log_evidence, n_seen = self.history_, self.log_evidence_, self.n_samples_seen_
            if self.memory == "auto":
                memory = self.choice_.memory
        Xs, X_var = self._working_copy(standardizer, X)
        ys = self._working_targets(standardizer, y)
        posterior, passes, sweeps = training.train_epoch(
            ENGINES[self.engine],
            posterior,
            Xs,
            ys,
            [np.arange(len(ys))],
            X_var=X_var,
            likelihood=self._likelihood,
            refine=True,
            memory=training.bound(self, memory, n_seen + len(ys)),
        )
        epoch = training.summarize(len(history) + 1, posterior, standardizer, passes, sweeps)
        history.append(epoch)  # in place: a stream may make millions of calls
        log_evidence += epoch.sum_log_Z
        self._publish(posterior, standardizer, history, log_evidence, n_seen + len(ys))
        if first:
            self.choice_ = Choice(1, memory)

    def _publish(
        self,
        posterior: Posterior,
        standardizer: Standardizer,
        history: list[Epoch],
        log_evidence: float,
        n_samples_seen: int,
    ) -> None:
        self.posterior_ = posterior
        self.standardizer_ = standardizer
        self.history_ = history
        self.log_evidence_ = log_evidence
        self.n_samples_seen_ = n_samples_seen
        self.n_iter_ = len(history)
        self.prior_variance_ = posterior.prior_variance

    # ---- Prediction

    def _moments(
        self, posterior: Posterior, standardizer: Standardizer, X: Inputs
    ) -> tuple[FloatArray, FloatArray]:
        """Return mean and variance of the outputs, standardised: (n,), or (n, K) for several."""
        if X.std is None:
            moments, step = self._propagated, _PREDICT_BLOCK
        else:
            check_magnitude("X_std", standardizer.largest_std(X.std), np.dtype(self.dtype))
            moments, step = self._integrated, max(1, _PREDICT_BLOCK // N_NODES)
        blocks = [
            moments(posterior, standardizer, X[start : start + step])
            for start in range(0, len(X), step)
        ]
        return np.concatenate([m for m, _ in blocks]), np.concatenate([v for _, v in blocks])

    def _propagated(
        self, posterior: Posterior, standardizer: Standardizer, X: Inputs
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moments by [PBP15] Eqs. (13) to (17)."""
        copy = self._working_copy(standardizer, X)
        return ENGINES[self.engine].predict_moments(posterior, *copy)

    def _integrated(
        self, posterior: Posterior, standardizer: Standardizer, X: Inputs
    ) -> tuple[FloatArray, FloatArray]:
        """Return the moments over uncertain inputs, at points that stand for their Gaussians.

        Eq. (14) would not do: it takes the units of a layer for independent, but all of them see
        the same input, and what it does to them adds up.
        """
        everywhere = X.at(normal_nodes(X.shape[1]))
        means, variances = (
            a.reshape(N_NODES, len(X), *a.shape[1:])
            for a in self._propagated(posterior, standardizer, everywhere)
        )
        return means.mean(axis=0), variances.mean(axis=0) + means.var(axis=0)

    # ---- Validation, once, here

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a posterior: checks of data that failed leave other traces."""
        return hasattr(self, "posterior_")

    def _check_parameters(self) -> None:
        check_layer_sizes(self.hidden_layer_sizes)
        check_n_epochs(self.n_epochs)
        check_memory(self.memory)
        check_above("prior_shape", self.prior_shape, 1.0)
        check_above("prior_rate", self.prior_rate, 0.0)
        check_refine_every(self.refine_every)
        check_flag("standardize", self.standardize)
        check_option("missing", self.missing, ["error", "marginalize"])
        check_option("dtype", self.dtype, ["float64", "float32"])
        check_option("engine", self.engine, list(ENGINES))
        check_scalar(self.verbose, "verbose", Integral, min_val=0)

    def _working_copy(self, standardizer: Standardizer, X: Inputs) -> tuple[Array, Array | None]:
        """Return means and variances, None if all are 0, of the standardised features, (n, D).

        A missing entry has the mean and the variance of its feature in the training data.
        """
        dtype = np.dtype(self.dtype)
        Xs, largest = standardizer.transform_X(X.X, dtype)
        check_magnitude("X", largest, dtype)
        X_var = None
        if X.std is not None:
            check_magnitude("X_std", standardizer.largest_std(X.std), dtype)
            X_var = ((X.std / standardizer.x_scale) ** 2).astype(dtype)
        if self.missing == "marginalize" and (missing := X.missing()) is not None:
            variance = (
                1.0 if standardizer.missing_variance is None else standardizer.missing_variance
            )
            Xs[missing] = 0.0
            X_var = np.where(missing, variance, 0.0 if X_var is None else X_var).astype(dtype)
        return Xs, X_var

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "marginalize"
        return tags
