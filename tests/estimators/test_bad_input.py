"""Bad and odd input: a clear error, or finite and sensible results."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

from probprop import PBPClassifier, PBPRegressor

X = np.random.RandomState(0).standard_normal((60, 3))
Y = X[:, 0] + 0.1 * np.random.RandomState(1).standard_normal(60)


def model(**parameters: object) -> PBPRegressor:
    return PBPRegressor(**{"hidden_layer_sizes": (10,), "random_state": 0, **parameters})


def with_entry(a: np.ndarray, index: object, value: float) -> np.ndarray:
    a = a.copy()
    a[index] = value
    return a


def assert_sensible(fitted: PBPRegressor, inputs: np.ndarray, size: float) -> None:
    """Finite means no larger than the data, positive and finite standard deviations."""
    mean, std = fitted.predict(inputs, return_std=True)
    assert np.isfinite(mean).all()
    assert (np.abs(mean) <= size).all()
    assert (std > 0).all()
    assert np.isfinite(std).all()
    assert np.isfinite(fitted.log_evidence_)


# ---- Refused


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (with_entry(X, (3, 1), np.nan), Y, "Input X contains NaN"),
        (with_entry(X, (3, 1), np.inf), Y, "Input X contains infinity"),
        (X, with_entry(Y, 5, np.nan), "Input y contains NaN"),
        (X, with_entry(Y, 5, -np.inf), "Input y contains infinity"),
        (np.empty((0, 3)), np.empty(0), "Found array with 0 sample"),
        (np.empty((5, 0)), np.zeros(5), "Found array with 0 feature"),
        (X, Y[:-1], "inconsistent numbers of samples"),
        (X, np.zeros((len(Y), 2, 2)), "Found array with dim 3"),
        (X, np.zeros((len(Y), 0)), "Found array with 0 feature"),
        (X, None, "requires y to be passed"),
        (X[:, 0], Y, "Expected 2D array, got 1D array"),
        (np.array([["a", "b"]] * 4), np.zeros(4), "could not convert string to float"),
        (X, np.array(["low", "high"] * 30), "could not convert string to float"),
        (X + 1j, Y, "Complex data not supported"),
        (pd.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]}), [0.0, 1.0], "Input X contains NaN"),
    ],
)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_data_that_is_refused(method, X, y, message):
    with pytest.raises(ValueError, match=message):
        getattr(model(), method)(X, y)


@pytest.mark.parametrize("estimator", [PBPRegressor(), PBPClassifier()])
@pytest.mark.parametrize("as_array", [False, True])
def test_text_says_where_it_is_handled(estimator, as_array):
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": ["1", "2"], "city": ["Rome", "Oslo"]})
    rows, column = (frame.to_numpy(), 2) if as_array else (frame, "city")
    with pytest.raises(ValueError, match="could not convert string to float") as caught:
        estimator.fit(rows, [0, 1])
    text = str(caught.value)
    assert f"X contains text in the column(s) [{column!r}]" in text
    for place in ("OneHotEncoder", "PBPRegressorCV", "DataFrame"):
        assert place in text


def test_text_in_the_targets_is_not_said_to_be_in_the_features():
    with pytest.raises(ValueError, match="could not convert string to float") as caught:
        model().fit(X, np.array(["low", "high"] * 30))
    assert "X contains" not in str(caught.value)


@pytest.mark.parametrize(
    ("X", "error", "message"),
    [
        (X[:, :2], ValueError, "X has 2 features, but PBPRegressor is expecting 3"),
        (with_entry(X, (0, 0), np.nan), ValueError, "Input X contains NaN"),
        (np.empty((0, 3)), ValueError, "0 sample"),
        (with_entry(X, (0, 0), 1e60), ValueError, "X contains a value too large for dtype float64"),
    ],
)
def test_inputs_that_are_refused_at_predict(X, error, message):
    fitted = model(n_epochs=1).fit(globals()["X"], Y)
    with pytest.raises(error, match=message):
        fitted.predict(X)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"hidden_layer_sizes": (0,)}, ValueError, "hidden_layer_sizes == 0, must be >= 1"),
        ({"hidden_layer_sizes": (10, -1)}, ValueError, "hidden_layer_sizes == -1, must be >= 1"),
        ({"hidden_layer_sizes": (2.5,)}, TypeError, "hidden_layer_sizes must be an instance of"),
        ({"hidden_layer_sizes": "50"}, TypeError, "hidden_layer_sizes must be an int or"),
        ({"hidden_layer_sizes": None}, TypeError, "hidden_layer_sizes must be an int or"),
        ({"n_epochs": 0}, ValueError, "n_epochs == 0, must be >= 1"),
        ({"n_epochs": "auto"}, ValueError, "n_epochs must be a number.* PBPRegressorCV or PBPCl"),
        ({"n_epochs": "many"}, TypeError, "n_epochs must be an instance of"),
        (
            {"evidence_cap": "auto"},
            ValueError,
            "evidence_cap must be a number. Got 'auto' .*PBPRegressorCV",
        ),
        ({"evidence_cap": "some"}, TypeError, "evidence_cap must be an instance of float"),
        ({"evidence_cap": [3.0]}, TypeError, "evidence_cap must be an instance of float"),
        ({"n_epochs": 2.0}, TypeError, "n_epochs must be an instance of"),
        ({"n_epochs": True}, TypeError, "n_epochs must be an instance of"),
        ({"prior_shape": 1.0}, ValueError, r"prior_shape == 1.0, must be > 1.0"),
        ({"prior_rate": 0.0}, ValueError, r"prior_rate == 0.0, must be > 0.0"),
        ({"noise_shape": 0.5}, ValueError, r"noise_shape == 0.5, must be > 1.0"),
        ({"noise_rate": -1.0}, ValueError, r"noise_rate == -1.0, must be > 0.0"),
        ({"noise_rate": np.inf}, ValueError, "noise_rate == inf, must be finite"),
        ({"noise_rate": np.nan}, ValueError, "noise_rate"),
        ({"noise_rate": 10**400}, ValueError, "must be finite"),
        ({"noise_rate": "6"}, TypeError, "noise_rate must be an instance of"),
        ({"n_shards": 0}, ValueError, "n_shards == 0, must be >= 1"),
        ({"n_shards": -1}, ValueError, "n_shards == -1, must be >= 1"),
        ({"n_shards": 1.5}, TypeError, "n_shards must be an instance of int"),
        ({"standardize": 1}, TypeError, "standardize must be an instance of"),
        ({"dtype": "float16"}, ValueError, "dtype must be one of .*Got 'float16' instead"),
        ({"engine": "gpu"}, ValueError, "engine must be one of .*Got 'gpu' instead"),
        ({"random_state": "x"}, ValueError, "cannot be used to seed"),
        ({"verbose": -1}, ValueError, "verbose == -1, must be >= 0"),
    ],
)
def test_parameters_that_are_refused(parameters, error, message):
    with pytest.raises(error, match=message):
        model(**parameters).fit(X, Y)


@pytest.mark.parametrize(
    ("dtype", "largest"), [("float64", "at most 1e[+]30"), ("float32", "at most 1e[+]06")]
)
def test_values_beyond_the_arithmetic_are_refused(dtype, largest):
    fitted = model(dtype=dtype, n_epochs=2).fit(X, Y)
    before = fitted.predict(X)
    with pytest.raises(ValueError, match=f"y contains a value too large.*{largest}"):
        fitted.partial_fit(X[:2], [0.0, 1e60])
    with pytest.raises(ValueError, match="X contains a value too large"):
        fitted.partial_fit(with_entry(X[:2], (0, 0), 1e60), Y[:2])
    assert_allclose(fitted.predict(X), before, rtol=0, atol=0)
    with pytest.raises(ValueError, match=r"1e[+]40 standard deviations .*standardize=True"):
        model(dtype=dtype, standardize=False).fit(1e40 * np.ones((2, 1)), [0.0, 1.0])


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_targets_whose_variance_no_float_holds_are_refused(scale):
    with pytest.raises(ValueError, match=r"y has a standard deviation of .*Divide y by a constant"):
        model().fit(X, scale * Y)


# ---- Odd, but taken


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_rows(n, dtype):
    assert_sensible(model(dtype=dtype).fit(X[:n], Y[:n]), X, size=20.0)


def test_one_feature_and_one_unit():
    fitted = PBPRegressor((1,), random_state=0).fit(X[:, :1], Y)
    assert_sensible(fitted, X[:, :1], size=10.0)


def test_a_linear_model_without_hidden_layers():
    fitted = model(hidden_layer_sizes=()).fit(X, Y)
    assert fitted.score(X, Y) > 0.98


@pytest.mark.parametrize("sizes", [7, (7,), [7], np.array([7]), np.int64(7)])
def test_hidden_layer_sizes_as_int_or_sequence(sizes):
    fitted = PBPRegressor(sizes, n_epochs=1).fit(X, Y)
    assert fitted.posterior_.layer_sizes == (3, 7, 1)


@pytest.mark.parametrize("constant", [0.0, 5.0, 1e12 + 0.1, 1e150, -1e-150])
def test_constant_columns_change_nothing(constant):
    widened = np.column_stack([X, np.full(60, constant)])
    fitted = model().fit(widened, Y)
    assert_sensible(fitted, widened, size=10.0)
    assert fitted.score(widened, Y) > 0.9


def test_a_column_that_is_constant_but_for_rounding_counts_as_constant():
    rounding = 0.1 + 1e-17 * np.arange(60) + np.where(np.arange(60) % 2, 0.0, 2e-17)
    widened = np.column_stack([X, 1e3 * (rounding + 1.0)])
    fitted = model().fit(widened, Y)
    assert fitted.standardizer_.x_scale[3] == 1.0
    assert_sensible(fitted, widened, size=10.0)


@pytest.mark.parametrize("constant", [0.0, 3.0, -1e9])
def test_a_constant_target(constant):
    fitted = model().fit(X, np.full(60, constant))
    mean, std = fitted.predict(X, return_std=True)
    assert_allclose(mean, constant, atol=0.5)
    assert (std > 0).all()
    assert (std < 1.0).all()


def test_duplicated_rows():
    assert_sensible(model().fit(np.repeat(X[:5], 40, axis=0), np.repeat(Y[:5], 40)), X, size=20.0)


@pytest.mark.parametrize("scale", [1e-150, 1e150])
@pytest.mark.parametrize("what", ["features", "targets"])
def test_extreme_units(scale, what):
    plain = model().fit(X, Y)
    x_scale, y_scale = (scale, 1.0) if what == "features" else (1.0, scale)
    scaled = model().fit(x_scale * X, y_scale * Y)
    mean, std = scaled.predict(x_scale * X, return_std=True)
    plain_mean, plain_std = plain.predict(X, return_std=True)
    assert_allclose(mean / y_scale, plain_mean, rtol=1e-8, atol=1e-8)
    assert_allclose(std / y_scale, plain_std, rtol=1e-8)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("where", ["first", "last"])
def test_an_outlier_of_1000_standard_deviations_in_a_stream(where, dtype):
    """partial_fit updates on an outlier: the noise estimate grows, the mean stays finite."""
    stream = model(dtype=dtype).fit(X, Y)
    outlier = Y.mean() + 1000.0 * Y.std()
    rows, targets = X[:30].copy(), Y[:30].copy()
    targets[0 if where == "first" else -1] = outlier
    with pytest.warns(RuntimeWarning, match=r"In 30 updates: .*noise updates made by quadrature"):
        stream.partial_fit(rows, targets)
    assert_sensible(stream, X, size=1000.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "In .* updates", RuntimeWarning)
        for _ in range(40):  # ordinary rows bring it back
            stream.partial_fit(X, Y)
    assert_sensible(stream, X, size=10.0)
    assert np.corrcoef(stream.predict(X), Y)[0, 1] > 0.9


@pytest.mark.parametrize("where", [0, -1])
def test_an_outlier_of_1000_standard_deviations_without_standardization(where):
    targets = Y.copy()
    targets[where] = 1000.0
    with pytest.warns(RuntimeWarning, match="`history_` has the counts per epoch"):
        fitted = model(standardize=False).fit(X, targets)
    assert_sensible(fitted, X, size=1000.0)
    assert sum(epoch.n_guarded for epoch in fitted.history_) > 0


def test_the_warning_comes_once_and_counts():
    targets = Y.copy()
    targets[0] = 1000.0
    with pytest.warns(RuntimeWarning) as caught:
        fitted = model(standardize=False).fit(X, targets)
    assert len(caught) == 1
    guarded = sum(epoch.n_guarded for epoch in fitted.history_)
    assert f"{guarded} noise updates made by quadrature" in str(caught[0].message)
    assert caught[0].filename == __file__


def test_input_is_neither_changed_nor_kept():
    a, b = X.copy(), Y.copy()
    fitted = model(n_epochs=1).fit(a, b)
    assert_allclose(a, X, rtol=0, atol=0)
    before = fitted.predict(X)
    a[:] = 7.0
    assert_allclose(fitted.predict(X), before, rtol=0, atol=0)
