"""Weighted passes and trainings: both engines, every likelihood, and what the kernel refuses."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from posteriors import start
from probprop._types import Array
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian, Likelihood, Multinomial, Probit
from probprop.inference.plan import Plan
from probprop.inference.training import Run
from probprop.reference.likelihoods import GAUSSIAN, MULTINOMIAL, PROBIT, PointLikelihood

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]
RTOL = {"float64": 1e-10, "float32": 2e-3}


def targets(likelihood: PointLikelihood, n: int, K: int, random: np.random.RandomState) -> Array:
    if likelihood is MULTINOMIAL:
        return random.randint(K, size=n).astype(float)
    values = random.standard_normal((n, K))
    return values if likelihood is GAUSSIAN else np.where(values > 0, 1.0, -1.0)


@settings(max_examples=40, deadline=None)
@given(
    likelihood=st.sampled_from([GAUSSIAN, PROBIT, MULTINOMIAL]),
    K=st.integers(2, 5),
    hidden=st.lists(st.integers(1, 20), min_size=0, max_size=2),
    n=st.integers(1, 12),
    power=st.sampled_from([1.0, 0.25]),
    errors=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_the_engines_agree(
    likelihood: PointLikelihood,
    K: int,
    hidden: list[int],
    n: int,
    power: float,
    errors: bool,
    seed: int,
    dtype: str,
) -> None:
    random = np.random.RandomState(seed)
    before = start([3, *hidden, K], seed, dtype, K if likelihood is GAUSSIAN else 1)
    X, y = random.standard_normal((n, 3)).astype(dtype), targets(likelihood, n, K, random)
    options = {
        "weights": np.exp(random.uniform(-2.0, 4.0, n)),
        "y_var": random.chisquare(1, (n, K)) if errors else None,
        "power": 1.0 if likelihood is GAUSSIAN else power,
    }
    order = random.permutation(n)
    (native, info), (reference, expected) = (
        engine.adf_pass(before, X, y, order, likelihood=likelihood, **options)
        for engine in (NATIVE, REFERENCE)
    )
    rtol = RTOL[dtype]
    for name in ("m_w", "v_w"):
        for a, b in zip(getattr(native, name), getattr(reference, name), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=rtol * max(np.abs(b).max(), 1e-3))
    np.testing.assert_allclose(native.alpha_noise, reference.alpha_noise, rtol=rtol)
    np.testing.assert_allclose(native.beta_noise, reference.beta_noise, rtol=rtol)
    assert info.log_Z_sum == pytest.approx(expected.log_Z_sum, rel=rtol, abs=rtol)
    assert (info.n_guarded, info.n_skipped) == (expected.n_guarded, expected.n_skipped)


# ---- Trainings


def run_of(likelihood: Likelihood, y: Array, engine: str = "native", **options: object) -> Run:
    X = Inputs(np.random.RandomState(2).standard_normal((len(y), 2)))
    plan = Plan(likelihood, hidden=(5,), evidence_cap=3.0, engine=engine)
    random_state = np.random.RandomState(1)
    before = training.start(plan, X, y, random_state)
    (run,) = training.train(training.begin(plan, before, X, y, random_state, **options), [4])
    return run


def made_targets(likelihood: Likelihood, n: int = 24) -> Array:
    random = np.random.RandomState(0)
    if isinstance(likelihood, Gaussian):
        return 50.0 + 20.0 * random.standard_normal(n)
    return likelihood.encode(random.randint(len(likelihood.classes), size=n))


LIKELIHOODS = [Gaussian(), Probit(np.arange(2)), Multinomial(np.arange(3))]


def same(a: Run, b: Run) -> bool:
    return a.made == b.made and all(
        np.array_equal(x, y)
        for name in ("m_w", "v_w", "v_hat_nat")
        for x, y in zip(
            getattr(a.fitted.posterior, name), getattr(b.fitted.posterior, name), strict=True
        )
    )


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_weights_of_one_change_no_bit(likelihood: Likelihood, engine: str) -> None:
    y = made_targets(likelihood)
    plain = run_of(likelihood, y, engine)
    y_std = np.zeros(24) if isinstance(likelihood, Gaussian) else None
    assert same(plain, run_of(likelihood, y, engine, weights=np.ones(24), y_std=y_std))
    assert not same(plain, run_of(likelihood, y, engine, weights=np.full(24, 1.1)))


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_trainings_of_both_engines_agree(likelihood: Likelihood) -> None:
    y = made_targets(likelihood)
    options = {"weights": np.random.RandomState(5).uniform(0.2, 2.0, 24)}
    if isinstance(likelihood, Gaussian):
        options["y_std"] = np.random.RandomState(6).uniform(0.0, 30.0, 24)
    native, reference = (run_of(likelihood, y, engine, **options) for engine in ENGINES)
    for a, b in zip(native.fitted.posterior.m_w, reference.fitted.posterior.m_w, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-9 * np.abs(b).max())
    assert native.fitted.log_evidence == pytest.approx(reference.fitted.log_evidence, rel=1e-10)


def test_equal_weights_are_a_noise_prior_in_other_units() -> None:
    # Noise of variance 1/gamma over c has the precision c gamma, whose Gamma has the rate/c.
    y = made_targets(Gaussian())
    weighted = run_of(Gaussian(noise_rate=6.0), y, weights=np.full(24, 4.0))
    scaled = run_of(Gaussian(noise_rate=1.5), y)
    for name in ("m_w", "v_w", "v_hat_nat"):
        for a, b in zip(
            getattr(weighted.fitted.posterior, name),
            getattr(scaled.fitted.posterior, name),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)
    noise = [run.fitted.posterior.noise_variance[0] for run in (weighted, scaled)]
    assert noise[0] == pytest.approx(4.0 * noise[1], rel=1e-10)
    assert weighted.fitted.log_evidence == pytest.approx(scaled.fitted.log_evidence, rel=1e-10)


def test_a_power_is_a_weight_of_all_rows() -> None:
    y = made_targets(LIKELIHOODS[1])
    by_power = run_of(LIKELIHOODS[1], y, power=0.25)
    by_weights = run_of(LIKELIHOODS[1], y, weights=np.full(24, 0.25))
    both = run_of(LIKELIHOODS[1], y, weights=np.full(24, 0.5), power=0.5)
    assert same(by_power, by_weights)
    assert same(by_power, both)


# ---- What is refused


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": np.ones(3)}, "weights differ in length"),
        ({"weights": np.array([1.0, 0.0, 1.0, 1.0])}, "weight is not above 0"),
        ({"weights": np.array([1.0, np.nan, 1.0, 1.0])}, "weight is not above 0"),
        ({"y_var": np.ones((4, 2))}, "not \\(rows, outputs\\)"),
        ({"y_var": np.full((4, 1), -1.0)}, "negative or not finite"),
        ({"y_var": np.full((4, 1), np.inf)}, "negative or not finite"),
        ({"power": 0.5}, "has no power"),
        ({"power": 0.0, "likelihood": PROBIT}, "power is not above 0"),
    ],
)
def test_the_kernel_refuses(options: dict[str, object], message: str) -> None:
    before = start([3, 5, 1], n_noise=1)
    with pytest.raises(ValueError, match=message):
        NATIVE.adf_pass(before, np.zeros((4, 3)), np.ones((4, 1)), np.arange(4), **options)


def test_a_point_that_overflows_by_its_weight_is_skipped_and_counted() -> None:
    before = start([3, 5, 1], n_noise=1)
    X, y, weights = np.ones((2, 3)), np.array([1e120, 0.5]), np.array([1e200, 1.0])
    for engine in (NATIVE, REFERENCE):
        after, info = engine.adf_pass(before, X, y, np.arange(2), weights=weights)
        assert info.n_skipped == 1
        assert all(np.isfinite(m).all() for m in after.m_w)
