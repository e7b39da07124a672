"""PBPClassifier: probabilistic backpropagation for labels, behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any, Self

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.base import PBPEstimator
from probprop.estimators.validation import Given
from probprop.inference.likelihoods import LabelLikelihood
from probprop.inference.training import warn_of_counts


class LabelsMixin(ClassifierMixin):  # type: ignore[misc]
    """Attributes of a classifier that follow from its likelihood."""

    likelihood_: LabelLikelihood

    @property
    def classes_(self) -> Array:
        """The classes, sorted; for a matrix of labels, the indices of its columns."""
        return self.likelihood_.classes

    @property
    def multilabel_(self) -> bool:
        """Whether y was a matrix of labels."""
        return self.likelihood_.multilabel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


class PBPClassifier(LabelsMixin, PBPEstimator):  # type: ignore[misc]
    """Bayesian neural network classification by probabilistic backpropagation.

    The network of `PBPRegressor` with another likelihood: its outputs get unit noise, and the
    label is the sign of the one output (two classes), the index of the largest (three or
    more), or the sign of each (several labels, any number of which may be present).

    Parameters
    ----------
    hidden_layer_sizes : int or sequence of int, default=(50,)
        Units in each hidden layer. An empty sequence is a linear model.
    n_epochs : int, default=40
        Number of epochs of `fit`.
    evidence_cap : float or None, default=10.0
        Tempering: the effective sample size of the posterior is at most `evidence_cap` times the
        number of samples. At least 1; with None, no cap, probabilities become more over-confident
        with every epoch.
    prior_shape, prior_rate, standardize, missing, dtype, engine, random_state, n_shards
        As in `PBPRegressor`.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; for a matrix of labels, the indices of its columns.
    multilabel_ : bool
        Whether y was a matrix of labels.
    posterior_, standardizer_ : Posterior, Standardizer
        The approximate posterior, with unit noise that is not learned; means and scales.
    n_iter_, n_samples_seen_ : int
        Epochs of `fit` plus calls of `partial_fit`; number of samples passed to them.
    mean_sample_weight_, prior_variance_, log_evidence_ : float
        As in `PBPRegressor`.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features,)
        Number of features; their names, if X had string column names.
    history_ : list of Epoch
        One entry per epoch. `noise_variance` is always 1 and `n_guarded` always 0.

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
        """Update the model by one pass over these samples, in the order given.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        classes : array-like of shape (n_classes,), default=None
            All classes that may occur. Required in the first call, unless y is a matrix of labels.
        sample_weight, X_std : array-like, default=None
            As in `PBPRegressor.partial_fit`, which also says how features are standardized.

        Returns
        -------
        self
        """
        self._go_on(Given(X, y, sample_weight, X_std), classes)
        warn_of_counts(self.history_[-1:], self.posterior_)
        return self

    # ---- Prediction

    def predict(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> Array:
        """Predict the most probable class, (n_samples,), or 0 and 1, (n_samples, n_labels).

        `X_std`, (n_samples, n_features) or None, has the standard deviations of the entries of X.
        """
        return self.predict_distribution(X, X_std=X_std).most_probable(self.classes_)

    def predict_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Predict the probability of every class, (n_samples, n_classes), or of each label.

        In the order of `classes_`. `X_std` is the same as in `predict`.
        """
        return self.predict_distribution(X, X_std=X_std).proba

    def predict_log_proba(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> FloatArray:
        """Return the logarithms of `predict_proba`, also of probabilities that underflow."""
        return self.predict_distribution(X, X_std=X_std).log_proba

    def predict_distribution(self, X: ArrayLike, *, X_std: ArrayLike | None = None) -> ClassMixture:
        """Return the predictive distribution of the label for every sample.

        Parameters
        ----------
        X, X_std : array-like of shape (n_samples, n_features)
            Samples, and standard deviations of their entries or None.

        Returns
        -------
        ClassMixture
            Moments of the outputs, probabilities, and the entropy with its two parts.
        """
        predicted: ClassMixture = self._predictive(X, X_std)
        return predicted
