"""PBPClassifier: probabilistic backpropagation for labels, behind scikit-learn's interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from numpy.random import RandomState
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.base import PBPEstimator
from probprop.estimators.data import Given, TrainingData, read_labels
from probprop.inference.history import warn_of_counts
from probprop.inference.likelihoods import LabelLikelihood


class PBPClassifier(ClassifierMixin, PBPEstimator):  # type: ignore[misc]
    """Bayesian neural network classification by probabilistic backpropagation.

    The network of `PBPRegressor` with another likelihood: its outputs get unit noise, and the
    label is the sign of the one output (two classes), the index of the largest (three or
    more), or the sign of each (several labels, any number of which may be present). Nothing
    needs tuning.

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    n_epochs : int, default=40
        Passes over the data made by `fit`. A single one is made as `partial_fit` makes it.
    memory : float or None, default=10.0
        The most evidence the posterior holds, in passes over the data, at least 1. With None,
        no bound, probabilities grow over-confident with every epoch. For `partial_fit` a pass is
        the rows seen so far.
    prior_shape, prior_rate : float, default=6.0
        Gamma hyperprior of the precision of the weights. The shape must exceed 1.
    standardize : bool, default=True
        Whether features are brought to zero mean and unit variance. Without it the data should
        be on that scale already.
    missing : {"error", "marginalize"}, default="error"
        How to take NaN in X: as an error, or as a missing entry, which stands for a Gaussian with
        the mean and the variance of its feature in the training data. Without `standardize`
        these are 0 and 1.
    dtype : {"float64", "float32"}, default="float64"
        Precision of the weights. float32 is faster and predicts the same.
    engine : {"native", "reference"}, default="native"
        The compiled kernel, or the same algorithm in NumPy, made to be read.
    random_state : int, RandomState instance or None, default=None
        Draws the initial means of the weights, then the order of the points in each epoch.
    n_shards : int or None, default=None
        Number of data shards that share each epoch of `fit`, trained in parallel threads with
        synchronization rounds. It changes the result a little. None and 1 are sequential training.
        Shards pay from a few hundred thousand samples on. A shard has at least 500 samples; smaller
        data have fewer shards. The result does not depend on the number of threads. `partial_fit`
        and predictions ignore it.
    verbose : int, default=0
        1 shows a progress bar on the standard error. With more than 32 classes, a line before it
        says about how much processor time a long fit takes.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; for a matrix of labels, the indices of its columns.
    multilabel_ : bool
        Whether y was a matrix of labels.
    posterior_ : Posterior
        The approximate posterior. Its noise is the unit noise of the outputs, not learned.
    standardizer_ : Standardizer
        Means and scales of the features of the first data seen.
    n_iter_ : int
        Passes made: epochs of `fit` plus calls of `partial_fit`.
    n_samples_seen_ : int
        Rows given to `fit` and `partial_fit`, each counted once.
    mean_sample_weight_ : float
        Mean of the sample weights above 0 in the first call of `fit` or `partial_fit`, by which all
        weights are divided; 1 if there were none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Names of the features, where X had string column names.
    prior_variance_ : float
        Posterior mean of the variance of the weights' prior.
    log_evidence_ : float
        Sum over the first pass of log p(y_n | x_n, the points before): a prequential estimate
        of the log evidence of the model. `partial_fit` adds the terms of its own rows.
    history_ : list of Epoch
        One entry per pass. `mean_log_Z` is the mean log-probability each point had just before
        it was absorbed; `noise_variance` is always 1 and `n_guarded` always 0.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from probprop import PBPClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PBPClassifier(random_state=0, n_epochs=10).fit(X[:500], y[:500])
    >>> model.predict_proba(X[500:]).shape
    (69, 2)
    >>> bool(model.score(X[500:], y[500:]) > 0.95)
    True
    """

    likelihood_: LabelLikelihood

    def __init__(
        self,
        hidden_layer_sizes: int | Sequence[int] = (50,),
        *,
        n_epochs: int = 40,
        memory: float | None = 10.0,
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
        self.memory = memory
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

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        X_std: ArrayLike | None = None,
    ) -> Self:
        """Go on with one pass over these rows, in the order given, and refine the prior.

        The first call standardises by its own rows and every later call by those same means
        and scales, so the first batch should be typical of the stream: with too few rows,
        `fit` a larger sample first or standardise the stream yourself.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        classes : array-like of shape (n_classes,), default=None
            All classes there will be. The first call needs them, unless y is a matrix of
            labels; later calls may leave them out.
        sample_weight, X_std : array-like, default=None
            As in `fit`. Weights are in the units of the first call, and divided by its mean
            weight; None is that mean weight.

        Returns
        -------
        self
        """
        self._go_on(Given(X, y, sample_weight, X_std), classes)
        warn_of_counts(self.history_[-1:], self.posterior_)
        return self

    # ---- Prediction

    def predict(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> Array:
        """Predict the most probable class, or the labels more probable than not.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_labels)
            Classes of `classes_`; or 0 and 1 for each label.
        """
        predicted = self.predict_distribution(X, X_std=X_std)
        return self.likelihood_.point(predicted)

    def predict_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the probability of every class, or that each label is present.

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
        return self.predict_distribution(X, X_std=X_std).proba

    def predict_log_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the logarithms of the probabilities, also where these would underflow.

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
        return self.predict_distribution(X, X_std=X_std).log_proba

    def predict_distribution(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> ClassMixture:
        """Return the predictive distribution of the label for every row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        X_std : array-like of shape (n_samples, n_features), default=None
            Standard deviations of the entries of X, in the units of each feature.

        Returns
        -------
        ClassMixture
            Moments of the outputs, probabilities, and the entropy with its two parts.
        """
        predicted: ClassMixture = self._predictive(X, X_std)
        return predicted

    # ---- Fitted attributes that follow from others

    @property
    def classes_(self) -> Array:
        """The classes, sorted; for a matrix of labels, the indices of its columns."""
        return self.likelihood_.classes

    @property
    def multilabel_(self) -> bool:
        """Whether y was a matrix of labels."""
        return self.likelihood_.multilabel

    def _read(
        self,
        given: Given,
        *,
        stream: bool,
        classes: ArrayLike | None = None,
    ) -> TrainingData:
        known = getattr(self, "likelihood_", None) if stream else None
        return read_labels(self, given, known, stream=stream, classes=classes)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags
