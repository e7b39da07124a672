"""PBPClassifier: streams, what is refused, and scikit-learn's company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.random import RandomState
from numpy.testing import assert_array_equal
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeled import small
from probprop import PBPClassifier

# ---- partial_fit


@pytest.mark.parametrize("n_classes", [2, 3])
def test_partial_fit_equals_one_epoch_in_the_same_order(n_classes):
    random = RandomState(5)
    X, y = random.standard_normal((100, 3)), random.randint(n_classes, size=100)
    parameters = {"standardize": False, "evidence_cap": None, "random_state": 3}
    whole = PBPClassifier((7,), n_epochs=1, **parameters).fit(X, y)
    drawn = RandomState(3)
    drawn.standard_normal(7 * 4 + 8 * whole.posterior_.layer_sizes[-1])  # the initial means
    stream = PBPClassifier((7,), **parameters)
    order = drawn.permutation(100)
    stream.partial_fit(X[order], y[order], classes=np.arange(n_classes))
    assert_array_equal(stream.predict_proba(X), whole.predict_proba(X))
    assert stream.log_evidence_ == pytest.approx(whole.log_evidence_, rel=1e-12)
    assert (stream.n_iter_, stream.n_samples_seen_) == (1, 100)


def test_partial_fit_of_classes_that_come_later(wine):
    X, _, y, _ = wine
    order = np.argsort(y, kind="stable")  # the first batch has one class only
    model = PBPClassifier((8,), random_state=0)
    for batch in np.array_split(order, 6):
        model.partial_fit(X[batch], y[batch], classes=[0, 1, 2])
    assert_array_equal(model.classes_, [0, 1, 2])
    assert model.predict_proba(X).shape == (len(X), 3)


def test_partial_fit_continues_after_fit_without_classes(split):
    X, _, y, _ = split
    model = small().fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    assert (model.n_iter_, model.n_samples_seen_) == (6, len(X))


def test_partial_fit_of_labels_needs_no_classes(labels):
    X, _, y, _ = labels
    model = small().partial_fit(X[:1], y[:1]).partial_fit(X, y)
    assert model.multilabel_
    assert_array_equal(model.classes_, np.arange(4))


# ---- What is refused


X, Y = RandomState(0).standard_normal((30, 2)), np.arange(30) % 3


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.zeros(30), r"at least 2 classes, but the data contains only one class: 0\.0"),
        (np.full(30, "a"), "only one class: 'a'"),
        (RandomState(0).standard_normal(30), "Unknown label type"),
        (np.where(Y == 1, np.nan, Y), "Input y contains NaN"),
        (np.where(Y == 1, np.inf, Y), "Input y contains infinity"),
        (Y[:29], "inconsistent numbers of samples"),
        (np.stack([Y, Y], axis=1), "Multioutput|1d array"),
        (None, "requires y to be passed"),
    ],
)
def test_labels_that_are_refused(y: Any, message: str) -> None:
    model = small()
    before = vars(model).copy()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)
    assert vars(model) == before


def test_inputs_that_are_refused() -> None:
    bad = X.copy()
    bad[3, 1] = np.nan
    with pytest.raises(ValueError, match="Input X contains NaN"):
        small().fit(bad, Y)
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        model.predict_proba(bad)
    with pytest.raises(ValueError, match="X has 3 features, but PBPClassifier is expecting 2"):
        model.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="too large for dtype"):
        model.predict(np.full((2, 2), 1e200))


def test_classes_that_are_refused() -> None:
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        small().partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"label\(s\) \[2\] in y do not exist in the initial"):
        small().partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(ValueError, match="only one class: 1"):
        small().partial_fit(X, np.ones(30), classes=[1])
    model = small().fit(X, Y)
    with pytest.raises(ValueError, match="is not the same as on last call"):
        model.partial_fit(X, Y, classes=[0, 1, 2, 3])
    with pytest.raises(ValueError, match="Mix of label input types"):
        model.partial_fit(X, Y.astype(str))
    with pytest.raises(ValueError, match=r"must be \(n_samples,\), classes as on the first call"):
        model.partial_fit(X, np.eye(3, dtype=int)[Y])
    labeled = small().fit(X, np.eye(3, dtype=int)[Y])
    with pytest.raises(ValueError, match=r"must be \(n_samples, 3\), a matrix of labels"):
        labeled.partial_fit(X, Y)
    with pytest.raises(ValueError, match=r"must be \(n_samples, 3\), a matrix of labels"):
        labeled.partial_fit(X, np.eye(3, dtype=int)[Y][:, :2])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"evidence_cap": 0.5}, "evidence_cap == 0.5, must be >= 1"),
        ({"n_epochs": "auto"}, "n_epochs must be a number"),
        ({"prior_shape": 1.0}, "prior_shape == 1.0, must be > 1"),
        ({"engine": "gpu"}, "engine must be one of"),
    ],
)
def test_parameters_that_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    "method", ["predict", "predict_proba", "predict_log_proba", "predict_distribution"]
)
def test_not_fitted(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(PBPClassifier(), method)(X)
    model = PBPClassifier()
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        model.partial_fit(X, Y, classes=[0, 1])
    with pytest.raises(NotFittedError):
        getattr(model, method)(X)


# ---- In scikit-learn's company


def test_a_column_of_classes_is_taken_with_a_warning() -> None:
    with pytest.warns(DataConversionWarning, match="A column-vector y"):
        model = small().fit(X, Y.reshape(-1, 1))
    assert_array_equal(model.predict_proba(X), small().fit(X, Y).predict_proba(X))


def test_a_sparse_matrix_of_labels(labels) -> None:
    X, _, y, _ = labels
    assert_array_equal(
        small().fit(X, csr_matrix(y)).predict_proba(X), small().fit(X, y).predict_proba(X)
    )


def test_frames_and_search(wine) -> None:
    X, _, y, _ = wine
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(X.shape[1])])
    names = pd.Series(y).map({0: "a", 1: "b", 2: "c"})
    pipeline = make_pipeline(StandardScaler(), small())
    search = GridSearchCV(
        pipeline, {"pbpclassifier__evidence_cap": [3.0, 10.0]}, scoring="neg_log_loss", cv=2
    )
    search.fit(frame, names)
    assert set(search.predict(frame)) == {"a", "b", "c"}
    assert clone(small()).fit(frame, names.astype("category")).score(frame, names) > 0.9
