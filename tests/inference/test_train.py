"""Whole trainings in one call against the plain loop of epochs and refinements."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from probprop import PBPRegressor
from probprop._types import Array
from probprop.inference import training
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.inference.posterior import Memory, Posterior, Records, initial_posterior
from probprop.inference.standardize import Standardizer, fit_standardizer
from probprop.inference.task import Task

NATIVE, REFERENCE = ENGINES["native"], ENGINES["reference"]
ARRAYS = ("m_w", "v_w", "v_hat_nat", "a_hat_nat", "b_hat_nat")
GAMMAS = ("alpha_noise", "beta_noise", "alpha_prior", "beta_prior")


def made_task(n: int = 20, n_features: int = 3, dtype: str = "float64", **changes: object) -> Task:
    random = np.random.RandomState(n)
    X = 5.0 + 3.0 * random.standard_normal((n, n_features))
    y = -2.0 + 7.0 * np.sin(X.sum(axis=1)) + random.standard_normal(n)
    posterior = initial_posterior(
        [n_features, 6, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype(dtype),
    )
    task = Task(
        posterior=posterior,
        X=X,
        X_var=None,
        y=y,
        standardizer=fit_standardizer(X, y),
        likelihood=Gaussian(),
        memory=None,
        refine=np.ones(3, bool),
        random_state=np.random.RandomState(1),
    )
    return replace(task, **changes)


def by_hand(task: Task) -> tuple[Posterior, Records]:
    """The same epochs, by the passes and sweeps of the kernel, on standardized copies."""
    X = task.standardizer.checked_X(task.X, task.posterior.dtype)
    y = task.standardizer.transform_y(task.y)
    posterior, records = task.posterior, []
    for refine in task.refine:
        posterior, passed = NATIVE.adf_pass(
            posterior, X, y, task.order(), memory=task.memory, X_var=task.X_var
        )
        swept = None
        if refine:
            posterior, swept = NATIVE.refine_prior(posterior, task.informative_ratio)
        records.append(Records.of_epoch(posterior, passed, swept))
    return posterior, Records.joined(records)


def assert_equal(a: tuple[Posterior, Records], b: tuple[Posterior, Records]) -> None:
    for name in ARRAYS:
        for one, other in zip(getattr(a[0], name), getattr(b[0], name), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)
    for name in GAMMAS:
        assert np.all(getattr(a[0], name) == getattr(b[0], name)), name
    for name, one, other in zip(Records._fields, a[1], b[1], strict=True):
        np.testing.assert_array_equal(one, other, err_msg=name)


# ---- The epochs


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(1, 40),
    refine=st.lists(st.booleans(), min_size=1, max_size=5),
    capacity=st.none() | st.floats(1.0, 100.0),
    uncertain=st.booleans(),
    shuffled=st.booleans(),
    dtype=st.sampled_from(["float64", "float32"]),
    ratio=st.sampled_from([1.0, 8.0]),
)
def test_one_call_is_the_loop_of_epochs_to_the_bit(
    n: int,
    refine: list[bool],
    capacity: float | None,
    uncertain: bool,
    shuffled: bool,
    dtype: str,
    ratio: float,
) -> None:
    task = made_task(
        n,
        dtype=dtype,
        informative_ratio=ratio,
        refine=np.array(refine),
        memory=None if capacity is None else Memory(capacity, 6.0, 6.0),
        X_var=np.random.RandomState(n).chisquare(1, (n, 3)).astype(dtype) if uncertain else None,
    )
    if not shuffled:
        task = replace(task, random_state=None)
    ((found, records),), interrupt = NATIVE.train([task])
    assert interrupt is None
    state = np.random.RandomState(1) if shuffled else None
    assert_equal((found, records), by_hand(replace(task, random_state=state)))
    if shuffled:  # the generator advances as it would
        assert task.random_state.randint(2**31) == state.randint(2**31)


@pytest.mark.parametrize("ratio", [1.0, 8.0])
def test_the_native_epochs_match_the_reference(ratio: float) -> None:
    (native,), _ = NATIVE.train([made_task(informative_ratio=ratio)])
    (reference,), _ = REFERENCE.train([made_task(informative_ratio=ratio)])
    for name in ARRAYS:
        for a, b in zip(
            getattr(native.posterior, name), getattr(reference.posterior, name), strict=True
        ):
            np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10, err_msg=name)
    for a, b in zip(native.records, reference.records, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)


@pytest.mark.parametrize("n", [1, 2, 3, 255, 256, 257, 1000, 70_000])
def test_the_kernel_shuffles_as_numpy_does(n: int) -> None:
    """What an order is made of is seen in what it leaves of the generator."""
    here, there = (np.random.RandomState(n) for _ in range(2))
    here.standard_normal()  # a half of a pair is kept, and must stay
    there.standard_normal()
    task = made_task(n, 1, refine=np.ones(2, bool), random_state=here)
    NATIVE.train([task])
    for _ in range(2):
        there.permutation(n)
    np.testing.assert_array_equal(here.standard_normal(3), there.standard_normal(3))


def test_another_generator_gives_its_own_orders() -> None:
    states = [np.random.RandomState(np.random.PCG64(5)) for _ in range(2)]
    (found,), _ = NATIVE.train([made_task(random_state=states[0])])
    assert_equal(found, by_hand(made_task(random_state=states[1])))


@pytest.mark.parametrize("n_threads", [1, 2, 3, 16])
def test_threads_do_not_change_the_results(n_threads: int) -> None:
    def tasks() -> list[Task]:
        return [made_task(20 + i, random_state=np.random.RandomState(i)) for i in range(7)]

    many, interrupt = NATIVE.train(tasks(), n_threads)
    assert interrupt is None
    for found, task in zip(many, tasks(), strict=True):
        assert_equal(found, by_hand(task))


@pytest.mark.parametrize("engine", ENGINES)
def test_what_goes_in_is_not_changed(engine: str) -> None:
    task = made_task()
    copies = [a.copy() for name in ARRAYS for a in getattr(task.posterior, name)]
    ENGINES[engine].train([task])
    for a, b in zip(
        (a for name in ARRAYS for a in getattr(task.posterior, name)), copies, strict=True
    ):
        np.testing.assert_array_equal(a, b)


# ---- Rows where they lie


def fortran(a: Array) -> Array:
    return np.asfortranarray(a)


def every_second(a: Array) -> Array:
    wide = np.zeros((2 * a.shape[0], 3 * a.shape[1]), a.dtype)
    wide[::2, 1::3] = a
    return wide[::2, 1::3]


def backwards(a: Array) -> Array:
    return np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1]


def field(a: Array) -> Array:
    """Numbers that are no multiple of their size apart."""
    records = np.zeros(a.shape, [("flag", "i1"), ("value", a.dtype)])
    records["value"] = a
    return records["value"]


def swapped(a: Array) -> Array:
    return a.astype(a.dtype.newbyteorder())


@pytest.mark.parametrize("layout", [fortran, every_second, backwards, field, swapped])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weights", ["float64", "float32"])
def test_every_layout_gives_the_same_bits(layout, dtype: str, weights: str) -> None:
    plain = made_task(30, 11, weights)
    X, y = plain.X.astype(dtype), plain.y.astype(dtype)
    plain = replace(plain, X=X, y=y)
    expected = by_hand(plain)
    targets = layout(y[:, np.newaxis])[:, 0]
    other = replace(plain, X=layout(X), y=targets, random_state=np.random.RandomState(1))
    np.testing.assert_array_equal(other.X, X)
    (found,), _ = NATIVE.train([other])
    assert_equal(found, expected)
    posterior, standardizer = found.posterior, plain.standardizer
    Xs = standardizer.checked_X(X, posterior.dtype)
    moments = NATIVE.predict_moments(posterior, layout(X), standardizer=standardizer)
    np.testing.assert_array_equal(moments, NATIVE.predict_moments(posterior, Xs))
    gradients = NATIVE.predict_gradient(posterior, layout(X), standardizer)
    for a, b in zip(gradients, NATIVE.predict_gradient(posterior, Xs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_features_of_tiny_units_are_standardized_as_others() -> None:
    """The kernel flushes what is below the normal numbers; such features are copied first."""
    task = made_task(refine=np.ones(2, bool))
    tiny = 1e-310
    scaled = Standardizer(
        task.standardizer.x_mean * tiny,
        task.standardizer.x_scale * tiny,
        task.standardizer.y_mean,
        task.standardizer.y_scale,
    )
    again = replace(
        task, X=task.X * tiny, standardizer=scaled, random_state=np.random.RandomState(1)
    )
    expected = by_hand(replace(again, random_state=np.random.RandomState(1)))
    (found,), _ = NATIVE.train([again])
    assert_equal(found, expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("dtype", "size"), [("float64", 1e31), ("float32", 1e7)])
def test_a_value_too_large_is_refused_before_an_epoch(engine: str, dtype: str, size: float) -> None:
    task = made_task(dtype=dtype)
    X = task.X.copy()
    X[17, 1] = size * task.standardizer.x_scale[1]
    message = rf"X contains a value too large for dtype {dtype}: {size:.3g} standard deviations"
    with pytest.raises(ValueError, match=message.replace("+", r"\+")):
        ENGINES[engine].train([made_task(dtype=dtype), replace(task, X=X)], 2)
    for predict in (ENGINES[engine].predict_moments, ENGINES[engine].predict_gradient):
        with pytest.raises(ValueError, match=message.replace("+", r"\+")):
            predict(task.posterior, X, standardizer=task.standardizer)


def test_the_kernel_refuses_arrays_that_do_not_fit() -> None:
    task = made_task()
    short = fit_standardizer(task.X[:, :2], task.y)
    for change, message in (
        ({"X": task.X[:, :2]}, "columns"),
        ({"y": task.y[:5]}, "length"),
        ({"standardizer": short}, "an entry per column"),
        ({"X_var": np.ones((2, 3))}, "differ in shape"),
    ):
        with pytest.raises(ValueError, match=message):
            NATIVE.train([replace(task, **change)])
    with pytest.raises(ValueError, match="a thread or more"):
        NATIVE.train([task], 0)


# ---- Ctrl-C


@pytest.fixture
def interrupted_soon() -> Iterator[None]:
    """Interrupt this process, as Ctrl-C does, once it has worked for a quarter of a second."""
    before = signal.signal(signal.SIGPROF, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_PROF, 0.25)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0.0)
    signal.signal(signal.SIGPROF, before)


@pytest.mark.usefixtures("interrupted_soon")
def test_ctrl_c_in_one_call_keeps_the_last_whole_epoch() -> None:
    random = np.random.RandomState(0)
    X, y = random.standard_normal((2000, 20)), random.standard_normal(2000)
    model = PBPRegressor(20, n_epochs=10_000, random_state=0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert 0 < model.n_iter_ == model.history_[-1].n_iter < 10_000
    short = clone(model).set_params(n_epochs=model.n_iter_).fit(X, y)
    assert short.history_ == model.history_
    np.testing.assert_array_equal(short.predict(X[:100]), model.predict(X[:100]))


def test_an_interrupt_in_the_reference_keeps_the_last_whole_epoch(monkeypatch) -> None:
    from probprop.inference import engine

    calls, sweep = [], engine.reference.refine_prior

    def interrupted(*args: object) -> object:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return sweep(*args)

    random = np.random.RandomState(0)
    X, y = random.standard_normal((10, 2)), random.standard_normal(10)
    model = PBPRegressor(2, n_epochs=5, engine="reference", random_state=0)
    with monkeypatch.context() as patch:
        patch.setattr(engine.reference, "refine_prior", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    assert model.n_iter_ == 2
    assert model.history_ == model.set_params(n_epochs=2).fit(X, y).history_


# ---- Steps


def test_steps_are_one_training(monkeypatch) -> None:
    random = np.random.RandomState(0)
    X, y = random.standard_normal((25, 2)), random.standard_normal(25)
    plan = Plan(Gaussian(), (4,), evidence_cap=3.0)
    found = []
    for steps in ([7], [1, 2, 4], [1] * 7):
        state = np.random.RandomState(3)
        before = training.start(plan, Inputs(X), y, state)
        runs = list(training.train(training.begin(plan, before, Inputs(X), y, state), steps))
        fitted = runs[-1].fitted
        epochs = [epoch for run in runs for epoch in run.made]
        found.append((epochs, fitted.log_evidence, fitted.n_samples_seen, fitted.epoch))
        assert [len(run.made) for run in runs] == steps
    assert found[0] == found[1] == found[2]


def test_steps_of_a_training_match_one_fit() -> None:
    random = np.random.RandomState(0)
    X, y = random.standard_normal((60, 3)), random.standard_normal(60)
    plan, random_state = Plan(Gaussian(), hidden=(2,)), np.random.RandomState(0)
    before = training.start(plan, Inputs(X), y, random_state)
    run = training.begin(plan, before, Inputs(X), y, random_state)
    made = [epoch for state in training.train(run, [1] * 50) for epoch in state.made]
    assert [epoch.n_iter for epoch in made] == list(range(1, 51))
    assert made == PBPRegressor(2, n_epochs=50, random_state=0).fit(X, y).history_
