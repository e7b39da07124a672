"""PBPClassifierCV: the best probabilities without tuning, by cross-validation."""

from __future__ import annotations

from typing import Self

from numpy.typing import ArrayLike

from probprop._types import Array, FloatArray
from probprop.distributions.classes import ClassMixture
from probprop.estimators.classifier import LabelsMixin, PBPClassifier
from probprop.estimators.cv.base import PBPEstimatorCV
from probprop.estimators.cv.calibration import ClassCalibration, ClassificationScorer
from probprop.estimators.validation import Given, TrainingData, read_labels
from probprop.inference.training import warn_of_counts


class PBPClassifierCV(LabelsMixin, PBPEstimatorCV):  # type: ignore[misc]
    """Classification by PBP networks selected, calibrated and averaged by cross-validation.

    As `PBPRegressorCV`, but candidates are compared and stacked by the log-loss of out-of-fold
    samples. One temperature, estimated on them, calibrates the probabilities of the networks.

    Parameters
    ----------
    cv : "auto", int, splitter or iterable of (train, test), default="auto"
        As in `PBPRegressorCV`; folds of "auto" and of an int are stratified by class. Every network
        has all classes.
    candidates : "auto" or sequence of Candidate or dict, default="auto"
        Candidates to compare. "auto" with fewer than 1,000 samples: columns alone, with no hidden
        layer, one of 10 or 48, or two of 48; or piecewise-linear encoding with 16 bins and a layer
        of 48. With more samples: columns alone, with no hidden layer, one of 96, or two of 48; or
        32 bins and a layer of 96. The evidence cap is 10 or 30.
    budget : {"fast", "good", "best"}, default="good"
        "fast": up to 80 epochs, one layer of 48 (96), evidence cap 10; "good": up to 320 epochs;
        "best": up to 1,280 epochs, also with 64 bins and with two layers of 96. With more than 32
        classes, see the notes.
    categorical_features : "from_dtype", sequence of str or int, or mask, default="from_dtype"
        Columns of X whose values are categories, as in `TableEncoder`.
    missing : {"auto", "error", "marginalize"}, default="auto"
        How NaN in X is treated: as an error, or as a missing value, as in `PBPRegressorCV`.
    dtype : {"float64", "float32"}, default="float32"
        Precision of the weights.
    n_jobs : int, default=None
        Number of threads, as in `PBPRegressorCV`. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the samples into folds, and draws the seeds of the networks.
    verbose : int, default=0
        1 shows a progress bar on the standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; for a matrix of labels, the indices of its columns.
    multilabel_ : bool
        Whether y was a matrix of labels.
    estimators_ : list of PBPClassifier
        The network of every fold of each of `groups_`, not calibrated.
    calibration_ : ClassCalibration
        The temperature, and the log-loss with it and without.
    oof_predictive_ : ClassMixture
        Calibrated out-of-fold predictive distribution of the samples of `fit`, `oof_rows_`.
    weights_, groups_, trials_, best_params_, best_score_, cv_results_
        As in `PBPRegressorCV`; scores are minus the log-loss.
    encoder_, columns_, bounds_, joint_, oof_rows_, oof_members_, background_
        As in `PBPRegressorCV`, as are `n_iter_`, `n_samples_seen_`, `mean_sample_weight_`,
        `n_features_in_` and `feature_names_in_`.

    Notes
    -----
    The time of an epoch grows with the number of classes. With K > 32 classes, the numbers of
    epochs of a `budget` are therefore multiplied by 32/K, at least by 0.1, the last comparison is
    skipped, and "auto" has the evidence cap 10 only: "good" trains up to 52 epochs with 100
    classes. From 100,000 samples on, see the notes of `PBPRegressorCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from probprop import PBPClassifierCV
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PBPClassifierCV(budget="fast", random_state=0).fit(X[:500], y[:500])
    >>> model.predict_proba(X[500:]).shape
    (69, 2)
    >>> bool(model.score(X[500:], y[500:]) > 0.95)
    True
    """

    _member = PBPClassifier
    _scorer = ClassificationScorer

    estimators_: list[PBPClassifier]
    calibration_: ClassCalibration
    oof_predictive_: ClassMixture

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Update the model with new samples. The first call is equivalent to `fit`.

        Each sample is assigned to one fold, in turn. The network of that fold predicts it, which
        updates the temperature, before the other networks are updated on it, in the order given.
        Ctrl-C, or an error, leaves the estimator as it was before the call.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,) or (n_samples, n_labels)
        classes : array-like of shape (n_classes,), default=None
            All classes that may occur, for the first call. None means the classes of its samples.
        sample_weight : array-like of shape (n_samples,), default=None
            In the units of `fit`, and divided by its mean weight; None is that mean weight.

        Returns
        -------
        self
        """
        epochs = self._go_on(Given(X, y, sample_weight), classes)
        warn_of_counts(epochs, self.estimators_[0].posterior_)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """Predict the most probable class, or the labels more probable than not, as 0 and 1.

        X has the shape (n_samples, n_features), the result (n_samples,) or (n_samples, n_labels).
        """
        predicted = self.predict_distribution(X)
        return predicted.most_probable(self.classes_)

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the probability of every class of `classes_`, or that each label is present.

        X has the shape (n_samples, n_features), the result (n_samples, n_classes or n_labels).
        """
        return self.predict_distribution(X).proba

    def predict_log_proba(self, X: ArrayLike) -> FloatArray:
        """Predict the logarithms of the probabilities, also where these would underflow."""
        return self.predict_distribution(X).log_proba

    def predict_distribution(self, X: ArrayLike) -> ClassMixture:
        """Return the predictive distribution of the label for every sample.

        It is the mixture of the members, each at the temperature of `calibration_`.
        """
        mean, variance, *_ = self._outputs(X)
        return self.calibration_.mixture(mean, variance, self.likelihood_, self.weights_)

    def predict_out_of_fold(self, X: ArrayLike, at: Array | slice = slice(None)) -> ClassMixture:
        """Predict out-of-fold samples, or changed ones, by networks not trained on them."""
        (mean, variance, *_), _ = self._oof_outputs(X, at)
        return self.calibration_.mixture(mean, variance, self.likelihood_, self._group_weights)

    def _read(
        self, given: Given, *, stream: bool, classes: ArrayLike | None = None
    ) -> TrainingData:
        known = getattr(self, "likelihood_", None) if stream else None
        stream = stream or classes is not None
        return read_labels(self, given, known, stream=stream, classes=classes)
