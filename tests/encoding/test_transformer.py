"""The transformer: scikit-learn's contract, names, refusals, and its place in a pipeline."""

from __future__ import annotations

import pickle
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from probprop import PBPRegressor, PiecewiseLinearEncoder


@parametrize_with_checks([PiecewiseLinearEncoder(), PiecewiseLinearEncoder(n_bins=3)])
def test_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize(
    ("n_bins", "error", "message"),
    [
        (1, ValueError, "n_bins == 1, must be >= 2."),
        (2.0, TypeError, "n_bins must be an instance of int, not float."),
        ("32", TypeError, "n_bins must be an instance of int, not str."),
        (True, TypeError, "n_bins must be an instance of int, not bool."),
        (None, TypeError, "n_bins must be an instance of int, not NoneType."),
    ],
)
def test_bins_that_are_none(n_bins: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        PiecewiseLinearEncoder(n_bins).fit([[1.0]])


def test_infinity_is_refused() -> None:
    with pytest.raises(ValueError, match="Input X contains infinity"):
        PiecewiseLinearEncoder().fit([[1.0], [np.inf]])
    encoder = PiecewiseLinearEncoder().fit([[1.0], [2.0], [3.0]])
    with pytest.raises(ValueError, match="Input X contains infinity"):
        encoder.transform([[-np.inf]])


def test_names() -> None:
    X = pd.DataFrame({"age": [20.0, 25.0, 61.5], "smokes": [0, 1, 0], "far": 1e6 + np.arange(3)})
    encoder = PiecewiseLinearEncoder().fit(X)
    assert encoder.get_feature_names_out().tolist() == [
        "age",
        "smokes",
        "far",
        "age from 20 to 25",
        "age from 25 to 61.5",
        "far from 1000000 to 1000001",  # enough digits to distinguish the knots
        "far from 1000001 to 1000002",
    ]
    with pytest.raises(ValueError, match="input_features is not equal to feature_names_in_"):
        encoder.get_feature_names_out(["a", "b", "c"])
    with pytest.raises(NotFittedError):
        PiecewiseLinearEncoder().get_feature_names_out()


def test_names_differ_however_near_the_knots_are() -> None:
    x = 1.0 + 3e-12 * np.arange(40)[:, None]
    names = PiecewiseLinearEncoder().fit(x).get_feature_names_out()
    assert len({*names}) == len(names) > 3


def test_what_is_kept() -> None:
    encoder = PiecewiseLinearEncoder(2).fit([[1.0, 0.0], [2.0, 1.0], [4.0, 0.0]])
    assert_array_equal(encoder.knots_[0], [1.0, 2.0, 4.0])
    assert len(encoder.knots_[1]) == 0
    with pytest.raises(NotFittedError):
        _ = PiecewiseLinearEncoder().knots_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_dtype_stays(dtype: Any) -> None:
    X = np.random.default_rng(0).standard_normal((50, 2)).astype(dtype)
    Z = PiecewiseLinearEncoder(4).fit_transform(X)
    assert Z.dtype == dtype
    expected = PiecewiseLinearEncoder(4).fit_transform(X.astype(np.float64))
    assert_allclose(Z, expected, rtol=1e-6, atol=1e-6)


def test_a_frame_in_a_frame_out() -> None:
    X = load_diabetes(as_frame=True).data
    encoder = PiecewiseLinearEncoder().set_output(transform="pandas")
    Z = encoder.fit_transform(X)
    assert Z.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert Z.columns.is_unique
    assert_array_equal(Z.index, X.index)
    assert_allclose(Z.iloc[:, :10].std(ddof=0), 1.0)
    assert [name for name in Z if name.startswith("sex")] == ["sex"]  # binary


def test_pickles_and_clones() -> None:
    X = load_diabetes().data
    encoder = PiecewiseLinearEncoder(7).fit(X)
    again = pickle.loads(pickle.dumps(encoder))
    assert_array_equal(again.transform(X), encoder.transform(X))
    assert clone(encoder).get_params() == {"n_bins": 7, "sparse_output": False}


def test_a_linear_model_follows_a_bend() -> None:
    x = np.linspace(-3.0, 3.0, 200)[:, None]
    y = np.abs(x[:, 0])
    model = make_pipeline(PiecewiseLinearEncoder(), Ridge(1e-3)).fit(x, y)
    assert model.score(x, y) > 0.99
    assert Ridge().fit(x, y).score(x, y) < 0.01


def test_missing_values_go_through_to_the_network() -> None:
    x = np.linspace(-3.0, 3.0, 90)[:, None]
    y = np.abs(x[:, 0])
    x[::9] = np.nan
    network = PBPRegressor(10, n_epochs=5, missing="marginalize", random_state=0)
    model = make_pipeline(PiecewiseLinearEncoder(4), network).fit(x, y)
    std = model.predict(x, return_std=True)[1]
    assert np.isfinite(std).all()
    assert std[::9].min() > np.median(std)


def test_sparse_output() -> None:
    X = load_diabetes().data
    dense, sparse = (PiecewiseLinearEncoder(8, sparse_output=s).fit(X) for s in (False, True))
    found = sparse.transform(X)
    assert isinstance(found, csr_array)
    assert found.nnz < 0.5 * found.shape[0] * found.shape[1]
    assert_allclose(found.toarray(), dense.transform(X), rtol=1e-9, atol=1e-12)
    y = X[:, 0] ** 2
    assert make_pipeline(sparse, Ridge(1e-3)).fit(X, y).score(X, y) > 0.99
    with pytest.raises(ValueError, match="NaN"):
        sparse.transform(np.where(X[0, 0] == X, np.nan, X))
    with pytest.raises(ValueError, match="column 0 that is too large"):
        sparse.transform(np.where(np.arange(10) == 0, 1e308, X))
