"""PBPRegressor: probabilistic backpropagation behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, Self, overload

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from probprop._types import FloatArray
from probprop.distributions.functions import SampledNetwork, Sensitivity
from probprop.distributions.mixture import Mixture
from probprop.estimators.base import DistributionMixin, PBPEstimator, plan_of
from probprop.estimators.validation import Given, check_int, read_inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.prediction import SampledOutputLayer, sample_function, sensitivity_at
from probprop.inference.training import warn_of_counts
from probprop.reference.prior import relevance


class PBPRegressor(DistributionMixin, RegressorMixin, PBPEstimator):  # type: ignore[misc]
    """Bayesian neural network regression by probabilistic backpropagation [PBP15].

    The weights of a ReLU network have a factorized Gaussian posterior; the precisions of the
    noise and of the weights' prior have Gamma posteriors. All are learned by one update (ADF step)
    per sample, without a learning rate.

    The likelihood of each sample is used again in every epoch, so the posterior narrows with
    the number of epochs. `evidence_cap` bounds the effective sample size. `PBPRegressorCV` selects
    both, and more, by cross-validation.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    n_epochs : int, default=40
        Number of epochs of `fit`; 40 is the protocol of [PBP15]. A single epoch is equivalent to
        `partial_fit`.
    evidence_cap : float or None, default=None
        Tempering: the effective sample size of the posterior is at most `evidence_cap` times the
        number of samples, for `partial_fit` of those seen so far. At least 1; None, [PBP15], has no
        cap.
    prior_shape, prior_rate : float, default=6.0
        Gamma hyperprior of the precision of the weights. The shape must exceed 1.
    prior : {"shared", "per_column"}, default="shared"
        Whether all weights share one prior precision, [PBP15], or the weights of each feature have
        their own, and so have the biases of the first layer and each later layer: automatic
        relevance determination. The hyperprior of each then has half the shape, which must exceed
        1, and half the rate.
    output_layer : {"mean_field", "full"}, default="mean_field"
        Whether predictions use the factorized posterior of the last layer's weights, [PBP15], or a
        Bayesian linear regression with a full covariance, fitted after training. Its features are
        the mean outputs of the last hidden layer and the standardized features, and its two
        variances maximize the evidence. For targets with little noise; on noisy data the error
        bars are too small, since the features were trained on the same targets. After `fit`,
        `partial_fit` updates this regression alone. Not for `y_std`, `noise="input"` and
        ``noise_tail="heavy"``.
    noise_shape, noise_rate : float, default=6.0
        Gamma prior of the precision of the noise, in units of the standardized target. The shape
        must exceed 1.
    noise : {"constant", "input"}, default="constant"
        Whether the noise is homoscedastic, [PBP15], or heteroscedastic. With "input", a second
        network learns the logarithm of its variance from the residuals of the first.
    noise_layer_sizes : int or sequence of int, default=(20,)
        Units in each hidden layer of the noise network.
    noise_tail : {"gaussian", "heavy"}, default="gaussian"
        The noise of [PBP15], or heavy-tailed noise, robust to outliers: its variance is
        log-normal around a common level, with a learned width.
    standardize : bool, default=True
        Whether features and target are standardized to zero mean and unit variance. If not, the
        data should be on that scale already. Features in a sparse matrix are scaled to unit
        variance and not centered.
    missing : {"error", "marginalize"}, default="error"
        Whether NaN in X is an error or a missing value, replaced by a Gaussian with the mean and
        the variance of its feature in the training data (0 and 1 without `standardize`).
    dtype : {"float64", "float32"}, default="float64"
        Precision of the weights. float32 is about twice as fast and predicts the same.
    engine : {"native", "reference"}, default="native"
        The compiled kernel, or the same algorithm in NumPy.
    random_state : int, RandomState instance or None, default=None
        Draws the initial means of the weights, then the order of the samples in each epoch.
    n_shards : int or None, default=None
        Number of data shards of at least 500 samples that share each epoch of `fit`, trained in
        parallel threads with synchronization rounds. None and 1 are sequential training. The
        result depends a little on it, but not on the number of threads.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    posterior_ : Posterior
        The approximate posterior, in standardized units.
    standardizer_ : Standardizer
        Means and scales of the first data seen.
    n_iter_ : int
        Epochs of `fit` plus calls of `partial_fit`.
    n_samples_seen_ : int
        Number of samples passed to `fit` and `partial_fit`.
    mean_sample_weight_ : float
        Mean of the sample weights above 0 in the first call of `fit` or `partial_fit`; or 1.
    n_features_in_, n_outputs_ : int
        Number of features, and of targets.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, if X had string column names.
    noise_variance_ : float, or ndarray of shape (n_outputs,)
        Posterior mean of the noise variance at the mean sample weight, in target units squared.
        Heteroscedastic noise varies around it: see ``predict_distribution(X).aleatoric_std``.
    prior_variance_ : float
        Posterior mean of the variance of the weights' prior. With ``prior="per_column"``, the
        mean under the hyperprior.
    relevance_ : ndarray of shape (n_features,)
        Only with ``prior="per_column"``: standard deviation of the prior of each feature's weights
        in the first layer, for standardized features, divided by the largest. It is the root of
        the posterior mean of the variance.
    log_evidence_ : float
        Sum over the first epoch of log p(y_n | x_n, the samples before), in target units: a
        prequential estimate of the log evidence, which depends on the order of the samples.
        `partial_fit` adds the terms of its own samples.
    history_ : list of Epoch
        One entry per epoch: mean log Z, noise and prior variance, and the counts of undone
        updates, guarded noise updates and skipped refinements.

    References
    ----------
    .. [PBP15] J. M. Hernández-Lobato and R. P. Adams, "Probabilistic Backpropagation for
       Scalable Learning of Bayesian Neural Networks", ICML 2015.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop import PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = PBPRegressor(random_state=0).fit(X[:400], y[:400])
    >>> mean, std = model.predict(X[400:], return_std=True)
    >>> mean.shape, bool((std > 0).all())
    ((42,), True)
    """

    likelihood_: Gaussian

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        n_epochs: int = 40,
        evidence_cap: float | None = None,
        prior_shape: float = 6.0,
        prior_rate: float = 6.0,
        prior: Literal["shared", "per_column"] = "shared",
        output_layer: Literal["mean_field", "full"] = "mean_field",
        noise_shape: float = 6.0,
        noise_rate: float = 6.0,
        noise: Literal["constant", "input"] = "constant",
        noise_layer_sizes: int | Sequence[int] = (20,),
        noise_tail: Literal["gaussian", "heavy"] = "gaussian",
        standardize: bool = True,
        missing: Literal["error", "marginalize"] = "error",
        dtype: Literal["float64", "float32"] = "float64",
        engine: Literal["native", "reference"] = "native",
        random_state: int | RandomState | None = None,
        n_shards: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            hidden_layer_sizes,
            n_epochs=n_epochs,
            evidence_cap=evidence_cap,
            prior_shape=prior_shape,
            prior_rate=prior_rate,
            standardize=standardize,
            missing=missing,
            dtype=dtype,
            engine=engine,
            random_state=random_state,
            n_shards=n_shards,
            verbose=verbose,
        )
        self.prior = prior
        self.output_layer = output_layer
        self.noise_shape = noise_shape
        self.noise_rate = noise_rate
        self.noise = noise
        self.noise_layer_sizes = noise_layer_sizes
        self.noise_tail = noise_tail

    # ---- Training

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        X_std: ArrayLike | None = None,
        y_std: ArrayLike | None = None,
    ) -> Self:
        """Update the model by one pass over these samples, in the order given.

        The first call sets the means and scales that standardize all later calls, so the first
        batch should be typical of the stream.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        sample_weight, X_std, y_std : array-like, default=None
            As in `fit`. Weights are divided by the mean weight in the first call.

        Returns
        -------
        self
        """
        self._go_on(Given(X, y, sample_weight, X_std, y_std))
        warn_of_counts(self.history_[-1:], self.posterior_)
        return self

    # ---- Prediction

    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[False] = ..., *, X_std: ArrayLike | None = ...
    ) -> FloatArray: ...
    @overload
    def predict(
        self, X: ArrayLike, return_std: Literal[True], *, X_std: ArrayLike | None = ...
    ) -> tuple[FloatArray, FloatArray]: ...
    def predict(
        self, X: ArrayLike, return_std: bool = False, *, X_std: ArrayLike | None = None
    ) -> FloatArray | tuple[FloatArray, FloatArray]:
        """Predict the mean of the target and, if asked, its standard deviation, noise included.

        Parameters
        ----------
        X, X_std : array-like of shape (n_samples, n_features)
            Samples, which may be a sparse matrix, and standard deviations of their entries or None.
        return_std : bool, default=False

        Returns
        -------
        mean, std : ndarray of shape (n_samples,) or (n_samples, n_outputs), in target units
        """
        predictive = self.predict_distribution(X, X_std=X_std)
        return (predictive.mean, predictive.std) if return_std else predictive.mean

    def predict_distribution(
        self,
        X: ArrayLike,
        *,
        student_t: bool = False,
        X_std: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Mixture:
        """Return the predictive distribution of the target for every sample, [PBP15] Eq. (12).

        Parameters
        ----------
        X, X_std : array-like of shape (n_samples, n_features)
            Samples, which may be a sparse matrix, and standard deviations of their entries or None.
        student_t : bool, default=False
            Use the exact convolution with the Student-t noise, by quadrature, instead of the
            Gaussian with the same moments; only for noise that is constant and Gaussian.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights above 0, in the units of `fit`, by which the noise variance is divided; None is
            the mean weight in `fit`. The epistemic uncertainty does not depend on them.

        Returns
        -------
        Mixture
            With one member; with a `tail` for ``noise="input"`` or ``noise_tail="heavy"``.
        """
        predicted: Mixture = self._predictive(X, X_std, sample_weight)
        if not student_t:
            return predicted
        if self.posterior_.output_layer is not None:
            raise ValueError(
                'student_t=True is not available for output_layer="full", whose noise variance is '
                "one number."
            )
        if predicted.tail is not None:
            raise ValueError(
                'student_t=True is for constant, Gaussian noise, but this model has noise="input" '
                'or noise_tail="heavy", whose distributions have heavier tails already: give False.'
            )
        alpha = self.posterior_.alpha_noise.reshape(1, *[1] * (predicted.means.ndim - 2), -1)
        return replace(predicted, dof=2.0 * alpha)

    def predict_gradient(self, X: ArrayLike) -> Sensitivity:
        """Return mean and standard deviation for every sample, with gradients in the features.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)

        Returns
        -------
        Sensitivity
            ``mean`` and ``std`` as `predict` gives them; ``dmean_dX`` and ``dstd_dX`` of shape
            (n_samples, n_features), in target units per unit of the feature.
        """
        check_is_fitted(self)
        self._check_one_target("predict_gradient")
        plan, inputs = plan_of(self, self.likelihood_), read_inputs(self, X, None)
        return sensitivity_at(plan, self.posterior_, self.standardizer_, inputs)

    def sample_functions(
        self, n: int = 1, random_state: int | RandomState | None = None
    ) -> list[SampledNetwork | SampledOutputLayer]:
        """Draw `n` networks from the posterior, as Thompson sampling needs them.

        Each is a deterministic function: ``f(X)`` has shape (n_samples,), in target units.
        """
        check_is_fitted(self)
        self._check_one_target("sample_functions")
        check_int("n", n, 1)
        rng = check_random_state(random_state)
        each = (plan_of(self, self.likelihood_), self.posterior_, self.standardizer_, rng)
        return [sample_function(*each) for _ in range(n)]

    # ---- Fitted attributes that follow from others

    @property
    def n_outputs_(self) -> int:
        """Number of targets."""
        return self.likelihood_.n_outputs

    @property
    def noise_variance_(self) -> float | FloatArray:
        """Posterior mean of the variance of the noise, in target units squared."""
        if self.posterior_.output_layer is not None:
            variances = self.posterior_.noise_variance * self.standardizer_.y_scale**2
            return float(variances[0]) if len(variances) == 1 else variances
        last = self.history_[-1].noise_variance
        return last if isinstance(last, float) else np.array(last)

    @property
    def relevance_(self) -> FloatArray:
        """Standard deviation of the prior of each feature's weights, relative to the largest."""
        if self.prior != "per_column":
            raise AttributeError(
                'relevance_ is learned with prior="per_column". This model has '
                f"prior={self.prior!r}."
            )
        return relevance(self.posterior_, np.arange(self.n_features_in_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
