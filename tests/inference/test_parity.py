"""The native engine against the reference: random networks, data and seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from posteriors import sine, start
from probprop import PBPRegressor, _kernel
from probprop.inference import native
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Memory, Posterior
from probprop.reference.gamma import gamma_increments, gamma_moments_by_quadrature
from probprop.reference.likelihoods import MULTINOMIAL, PROBIT, PointLikelihood

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]
# Largest difference after one epoch, relative to the largest entry of the layer (means cross
# zero, so an entry is not a scale of its own).
RTOL = {"float64": 1e-10, "float32": 2e-3}


def data(n: int, n_features: int, seed: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    X, y = sine(n, n_features, seed)
    return X.astype(dtype), y


def assert_close(got: Posterior, expected: Posterior, rtol: float) -> None:
    for name in ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat"):
        for a, b in zip(getattr(got, name), getattr(expected, name), strict=True):
            scale = max(np.abs(b).max(), 1e-3)
            np.testing.assert_allclose(a, b, rtol=0, atol=rtol * scale, err_msg=name)
            if name == "v_w":
                np.testing.assert_allclose(a, b, rtol=rtol, err_msg="v_w, entry by entry")
    for name in ("alpha_noise", "beta_noise", "alpha_prior", "beta_prior"):
        assert getattr(got, name) == pytest.approx(getattr(expected, name), rel=rtol), name


def is_close(got: Posterior, expected: Posterior, rtol: float) -> bool:
    try:
        assert_close(got, expected, rtol)
    except AssertionError:
        return False
    return True


@settings(max_examples=40, deadline=None)
@given(
    n_features=st.integers(1, 20),
    hidden=st.lists(st.integers(1, 40), min_size=0, max_size=4),
    n=st.integers(1, 30),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_one_epoch(n_features: int, hidden: list[int], n: int, seed: int, dtype: str) -> None:
    before = start([n_features, *hidden, 1], seed, dtype)
    X, y = data(n, n_features, seed, dtype)
    order = np.random.RandomState(seed).permutation(n)
    after = {}
    for name, engine in ENGINES.items():
        posterior, passed = engine.adf_pass(before, X, y, order)
        posterior, swept = engine.refine_prior(posterior)
        after[name] = posterior, passed, swept
        assert all((v > 0).all() for v in posterior.v_w)
        assert posterior.dtype == np.dtype(dtype)
    native, reference = after["native"], after["reference"]
    nudged = replace(before, m_w=tuple(np.nextafter(m, np.inf, dtype=dtype) for m in before.m_w))
    nudged = REFERENCE.refine_prior(REFERENCE.adf_pass(nudged, X, y, order)[0])[0]
    # Ill-conditioned examples, in which last digits of the start move the result, say nothing.
    assume(dtype == "float32" or is_close(nudged, reference[0], 0.1 * RTOL[dtype]))
    assert native[1].log_Z_sum == pytest.approx(reference[1].log_Z_sum, rel=RTOL[dtype])
    assert native[1].n_points == reference[1].n_points == n
    assert (native[1].n_guarded, native[1].n_skipped) == (
        reference[1].n_guarded,
        reference[1].n_skipped,
    )
    if dtype == "float64":
        assert native[1].n_undone == reference[1].n_undone
        assert native[2] == reference[2]
        assert_close(native[0], reference[0], RTOL[dtype])
    else:  # the refinement's guards may fall on either side of a rounding
        for a, b in zip(native[0].v_w, reference[0].v_w, strict=True):
            np.testing.assert_allclose(a, b, rtol=0.02)
    moments = [e.predict_moments(reference[0], X) for e in (NATIVE, REFERENCE)]
    for a, b in zip(*moments, strict=True):
        np.testing.assert_allclose(a, b, rtol=RTOL[dtype], atol=1e-5 if dtype == "float32" else 0)


@settings(max_examples=40, deadline=None)
@given(
    likelihood=st.sampled_from([PROBIT, MULTINOMIAL]),
    K=st.integers(1, 12),
    hidden=st.lists(st.integers(1, 20), min_size=0, max_size=3),
    n=st.integers(1, 20),
    capacity=st.none() | st.floats(1.0, 100.0),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_one_epoch_of_labels(
    likelihood: PointLikelihood,
    K: int,
    hidden: list[int],
    n: int,
    capacity: float | None,
    seed: int,
    dtype: str,
) -> None:
    random = np.random.RandomState(seed)
    X, _ = data(n, 3, seed, dtype)
    if likelihood is PROBIT:
        y = random.choice([-1.0, 1.0], (n, K))
    else:
        K += 1
        y = random.randint(K, size=n).astype(float)
    before = start([3, *hidden, K], seed, dtype)
    memory = None if capacity is None else Memory(capacity, 6.0, 6.0)
    native, reference = (
        engine.adf_pass(before, X, y, np.arange(n), likelihood=likelihood, memory=memory)
        for engine in (NATIVE, REFERENCE)
    )
    assert_close(native[0], reference[0], RTOL[dtype])
    assert native[1].log_Z_sum == pytest.approx(reference[1].log_Z_sum, rel=RTOL[dtype])
    assert (native[1].n_guarded, native[1].n_skipped) == (0, 0)
    assert reference[1].n_skipped == 0
    moments = [e.predict_moments(reference[0], X) for e in (NATIVE, REFERENCE)]
    for a, b in zip(*moments, strict=True):
        assert a.shape == b.shape == ((n,) if K == 1 else (n, K))
        np.testing.assert_allclose(a, b, rtol=RTOL[dtype], atol=1e-5 if dtype == "float32" else 0)
    if likelihood is MULTINOMIAL:
        m, v = (a.astype(float) for a in moments[1])
        log_p = [e.class_log_probabilities(m, v) for e in (NATIVE, REFERENCE)]
        np.testing.assert_allclose(*log_p, rtol=1e-9, atol=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    K=st.integers(1, 9),
    hidden=st.lists(st.integers(1, 20), min_size=0, max_size=3),
    n=st.integers(1, 20),
    uncertain=st.booleans(),
    capacity=st.none() | st.floats(1.0, 100.0),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_one_epoch_of_several_targets_and_uncertain_inputs(
    K: int,
    hidden: list[int],
    n: int,
    uncertain: bool,
    capacity: float | None,
    seed: int,
    dtype: str,
) -> None:
    random = np.random.RandomState(seed)
    X, _ = data(n, 3, seed, dtype)
    y = np.sin(X @ random.standard_normal((3, K))) + 0.1 * random.standard_normal((n, K))
    X_var = random.chisquare(1, X.shape).astype(dtype) if uncertain else None
    y = y[:, 0] if K == 1 else y
    before = start([3, *hidden, K], seed, dtype)
    if K > 1:
        noise = random.uniform(2.0, 9.0, (2, K))
        before = replace(before, alpha_noise=noise[0], beta_noise=noise[1])
    memory = None if capacity is None else Memory(capacity, 6.0, 6.0)
    options = {"memory": memory, "X_var": X_var}
    native, reference = (
        engine.adf_pass(before, X, y, np.arange(n), **options) for engine in (NATIVE, REFERENCE)
    )
    assert_close(native[0], reference[0], RTOL[dtype])
    assert native[1].log_Z_sum == pytest.approx(reference[1].log_Z_sum, rel=RTOL[dtype])
    assert native[1].n_guarded == reference[1].n_guarded
    moments = [e.predict_moments(reference[0], X, X_var) for e in (NATIVE, REFERENCE)]
    for a, b in zip(*moments, strict=True):
        assert a.shape == b.shape == ((n,) if K == 1 else (n, K))
        np.testing.assert_allclose(a, b, rtol=RTOL[dtype], atol=1e-5 if dtype == "float32" else 0)


@pytest.mark.parametrize("width", [1, 3, 8, 9, 17, 33, 65, 130])
def test_every_width_with_uncertain_inputs(width: int) -> None:
    before = start([width, width, 1], width)
    X, y = data(8, width, width, "float64")
    X_var = np.random.RandomState(width).chisquare(1, X.shape)
    native, reference = (
        engine.adf_pass(before, X, y, np.arange(8), X_var=X_var)[0]
        for engine in (NATIVE, REFERENCE)
    )
    assert_close(native, reference, RTOL["float64"])


@pytest.mark.parametrize("hidden", [[], [7], [7, 5]])
def test_inputs_without_variance_are_certain(hidden: list[int]) -> None:
    before = start([3, *hidden, 1], 0)
    X, y = data(20, 3, 0, "float64")
    certain, zero = (
        NATIVE.adf_pass(before, X, y, np.arange(20), X_var=X_var)[0]
        for X_var in (None, np.zeros_like(X))
    )
    assert_close(zero, certain, 1e-12)
    moments = [NATIVE.predict_moments(certain, X, X_var) for X_var in (None, np.zeros_like(X))]
    np.testing.assert_allclose(*moments, rtol=1e-12)


# Every width around the vector lengths 2, 4, 8, 16 and the block lengths: padding and remainders.
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("width", [1, 2, 3, 4, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130])
def test_every_width(width: int, dtype: str) -> None:
    before = start([3, width, width, 1], width, dtype)
    X, y = data(8, 3, width, dtype)
    native, reference = (
        engine.adf_pass(before, X, y, np.arange(8))[0] for engine in (NATIVE, REFERENCE)
    )
    assert_close(native, reference, RTOL[dtype])


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_outliers_are_guarded_and_undone_alike(dtype: str) -> None:
    before = start([2, 5, 1], 0, dtype)
    X, y = data(30, 2, 0, dtype)
    y[0], y[29] = 12.0, 1000.0
    native, native_info = NATIVE.adf_pass(before, X, y, np.arange(30))
    reference, reference_info = REFERENCE.adf_pass(before, X, y, np.arange(30))
    assert native_info.n_guarded == reference_info.n_guarded > 0
    if dtype == "float64":
        assert native_info.n_undone == reference_info.n_undone
        assert_close(native, reference, RTOL[dtype])
    else:  # the outlier multiplies roundings by a thousand
        assert_close(native, reference, 0.05)


@pytest.mark.parametrize("hidden", [[6], [6, 5], [20, 17, 9]])
def test_undone_updates_keep_mean_and_variance(hidden: list[int]) -> None:
    # A target at 1,000 makes Eq. (7) negative for some weights of every layer.
    before = start([2, *hidden, 1], 3)
    X, _ = data(1, 2, 3, "float64")
    native, native_info = NATIVE.adf_pass(before, X, np.array([1e3]), np.arange(1))
    reference, reference_info = REFERENCE.adf_pass(before, X, np.array([1e3]), np.arange(1))
    assert 0 < native_info.n_undone == reference_info.n_undone
    assert_close(native, reference, 1e-10)
    kept = sum(int((a == b).sum()) for a, b in zip(native.v_w, before.v_w, strict=True))
    assert kept == native_info.n_undone


def test_the_floor_of_the_variances_is_exact() -> None:
    # Variances so small stay as they are: those not above 1e-100 count as undone, others do not.
    before, (X, y) = start([2, 9, 8, 1], 3), data(1, 2, 3, "float64")
    levels = np.array([1e-101, 1e-100 * (1 - 2**-52), 1e-100, 1e-100 * (1 + 2**-51), 1.03e-100, 1])
    v_w = [np.resize(levels, v.shape) for v in before.v_w]
    for engine in ENGINES.values():
        _, info = engine.adf_pass(replace(before, v_w=tuple(v_w)), X, y, np.arange(1))
        assert info.n_undone == sum(int((v <= 1e-100).sum()) for v in v_w)


def test_a_point_that_overflows_is_skipped_whole() -> None:
    before = start([1, 4, 1], 0)
    X, y = np.array([[0.5], [1e200], [-0.5]]), np.zeros(3)
    for engine in ENGINES.values():
        after, info = engine.adf_pass(before, X, y, np.array([1]))
        assert info.n_skipped == 1
        for name in ("m_w", "v_w"):
            for a, b in zip(getattr(after, name), getattr(before, name), strict=True):
                np.testing.assert_array_equal(a, b)
        assert after.alpha_noise == before.alpha_noise


@settings(max_examples=200, deadline=None)
@given(
    log_alpha=st.floats(0.05, 20.0),
    log_beta=st.floats(-20.0, 20.0),
    log_d2=st.floats(-20.0, 25.0),
    log_v=st.floats(-20.0, 14.0),
)
def test_gamma_updates(log_alpha: float, log_beta: float, log_d2: float, log_v: float) -> None:
    alpha, beta = float(np.exp(log_alpha)), float(np.exp(log_beta))
    d2, v = float(np.exp(log_d2)) * beta / alpha, float(np.exp(log_v)) * beta / alpha
    native = _kernel.gamma_moments_by_quadrature(alpha, beta, d2, v)
    assert native == pytest.approx(gamma_moments_by_quadrature(alpha, beta, d2, v), rel=1e-9)
    increments = _kernel.gamma_increments(alpha, beta, d2, v)
    expected = gamma_increments(alpha, beta, d2, v)
    # The unit of rounding is what one observation adds: 1 to alpha, beta/alpha to beta.
    for got, wanted, unit in zip(increments, expected, (1.0, beta / alpha), strict=True):
        assert got == pytest.approx(wanted, rel=1e-10, abs=1e-12 * unit, nan_ok=True)


def test_inputs_are_not_changed() -> None:
    before = start([3, 5, 4, 1], 0)
    X, y = data(10, 3, 0, "float64")
    copies = [a.copy() for a in (*before.m_w, *before.v_w, *before.v_hat_nat, X, y)]
    NATIVE.refine_prior(NATIVE.adf_pass(before, X, y, np.arange(10))[0])
    for a, b in zip((*before.m_w, *before.v_w, *before.v_hat_nat, X, y), copies, strict=True):
        np.testing.assert_array_equal(a, b)


THREE_CLASSES = {
    "sizes": [3, 5, 3],
    "m_w": np.zeros(38),
    "v_w": np.ones(38),
    "likelihood": "multinomial",
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sizes": [3, 5, 2], "m_w": np.zeros(32), "v_w": np.ones(32)}, "column per output"),
        ({"sizes": [3]}, "input and an output"),
        ({"sizes": [3, 0, 1]}, "needs a unit"),
        ({"m_w": np.zeros(7)}, "weights do not fit"),
        ({"X": np.zeros((4, 2))}, "columns"),
        ({"y": np.zeros((3, 1))}, "length"),
        ({"y": np.zeros((4, 2))}, "column per output"),
        ({"alpha": np.ones(2)}, "noise does not fit"),
        ({"X_var": np.ones((4, 2))}, "differ in shape"),
        ({"likelihood": "poisson"}, "multinomial, scale or heavy"),
        ({"likelihood": "probit"}, "1 or -1"),
        ({"likelihood": "probit", "y": np.ones((4, 2))}, "a column per output"),
        ({"likelihood": "multinomial"}, "two outputs or more"),
        (THREE_CLASSES | {"y": np.full((4, 1), 3.0)}, "index of a class"),
        (THREE_CLASSES | {"y": np.full((4, 1), 0.5)}, "index of a class"),
        (THREE_CLASSES | {"y": np.full((4, 1), np.nan)}, "index of a class"),
        ({"order": np.array([4])}, "outside"),
        ({"order": np.array([-1])}, "outside"),
    ],
)
def test_the_kernel_refuses_arrays_that_do_not_fit(change: dict[str, object], message: str) -> None:
    arguments = {
        "sizes": [3, 5, 1],
        "m_w": np.zeros(26),
        "v_w": np.ones(26),
        "X": np.zeros((4, 3)),
        "y": np.zeros((4, 1)),
        "order": np.arange(4),
        "likelihood": "gaussian",
        "alpha": np.array([6.0]),
        "beta": np.array([6.0]),
    }
    with pytest.raises(ValueError, match=message):
        _kernel.adf_pass(**{**arguments, **change})


# ---- The networks of an ensemble in one call


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_ensemble_predicts_as_its_networks(dtype: str, n_outputs: int, n_threads: int) -> None:
    rng = np.random.RandomState(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal((40, n_outputs))
    models = [
        PBPRegressor(hidden, n_epochs=2, dtype=dtype, random_state=i).fit(
            X[i:], y[i:, 0] if n_outputs == 1 else y[i:]
        )
        for i, hidden in enumerate([(7,), (20, 3), (50,)])
    ]
    networks = [(model.posterior_, model.standardizer_) for model in models]
    for _ in range(2):  # the second call takes what the first one prepared
        mean, variance = native.predict_members(networks, X, n_threads)
        for i, (posterior, scales) in enumerate(networks):
            expected = native.predict_moments(posterior, X, None, scales)
            np.testing.assert_array_equal((mean[i], variance[i]), expected)
    models[1].partial_fit(X[:1], y[:1, 0] if n_outputs == 1 else y[:1])
    networks = [(model.posterior_, model.standardizer_) for model in models]
    mean, _ = native.predict_members(networks, X, n_threads)
    expected, _ = native.predict_moments(*networks[1][:1], X, None, networks[1][1])
    np.testing.assert_array_equal(mean[1], expected)


def test_an_ensemble_refuses_a_value_that_is_too_large() -> None:
    X = np.arange(6.0)[:, np.newaxis]
    model = PBPRegressor((3,), n_epochs=1, random_state=0).fit(X, X[:, 0])
    with pytest.raises(ValueError, match="X contains a value too large"):
        native.predict_members([(model.posterior_, model.standardizer_)] * 2, 1e40 * X)
