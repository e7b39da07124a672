"""Rows that are used once, in a stream or in a single epoch: no network diverges."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import posteriors
import uci
from probprop import PBPClassifier, PBPRegressor
from probprop._types import Array
from probprop.inference.engine import ENGINES
from probprop.inference.posterior import Posterior, initial_posterior, near_a_draw
from probprop.reference import adf

N_ROWS, N_SEEDS = 300, 60
NATIVE = ENGINES["native"]
Made = tuple[Array, Array]


def sine(seed: int) -> Made:
    random = np.random.RandomState(seed)
    X = random.uniform(-3.0, 3.0, (N_ROWS, 1))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * random.standard_normal(N_ROWS)


def plane(seed: int) -> Made:
    random = np.random.RandomState(seed)
    X = random.standard_normal((N_ROWS, 5))
    return X, X @ [1.0, -2.0, 0.5, 0.0, 3.0] + 0.5 * random.standard_normal(N_ROWS)


def friedman(seed: int) -> Made:
    found: Made = make_friedman1(N_ROWS, noise=1.0, random_state=seed)
    return found


def error(model: PBPRegressor, X: Array, y: Array) -> float:
    """The root mean squared error, in standard deviations of the target."""
    return float(np.sqrt(np.mean((model.predict(X) - y) ** 2)) / y.std())


def stream(model: PBPRegressor, X: Array, y: Array, n_first: int, n_call: int) -> PBPRegressor:
    model.partial_fit(X[:n_first], y[:n_first])
    for start in range(n_first, len(y), n_call):
        model.partial_fit(X[start : start + n_call], y[start : start + n_call])
    return model


# ---- What was wrong


def after_a_pass(X: Array, y: Array, seed: int, n_layers: int) -> tuple[Posterior, Array, Array]:
    """The posterior of [PBP15] after its first epoch, before the first refinement."""
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()
    random = np.random.RandomState(seed)
    before = initial_posterior(
        [X.shape[1], *(50,) * n_layers, 1],
        noise_shape=6.0,
        noise_rate=6.0,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype("float64"),
    )
    return NATIVE.adf_pass(before, X, y, random.permutation(len(y)))[0], X, y


def test_the_refinement_runs_away_where_the_data_say_less_than_the_prior() -> None:
    grown = {8.0: [], 1.0: []}
    worst = {0.0: 0.0, 8.0: 0.0, 1.0: 0.0}
    for seed in range(N_SEEDS):
        passed, X, y = after_a_pass(*sine(seed), seed, 2)
        for ratio in (0.0, 8.0, 1.0):  # with 0 nothing is refined
            refined, _ = NATIVE.refine_prior(passed, ratio)
            mean, _ = NATIVE.predict_moments(refined, X)
            worst[ratio] = max(worst[ratio], float(np.sqrt(np.mean((mean - y) ** 2))))
            if ratio > 0.0:
                grown[ratio].append(refined.prior_variance / passed.prior_variance)
    assert max(grown[8.0]) > 100.0  # 1/lambda: what [PBP15] would do in its first epoch
    assert max(grown[1.0]) < 1.5
    assert worst[8.0] > 3.0
    assert worst[0.0] < 1.2  # the pass itself does no harm
    assert worst[1.0] < 1.2


def test_the_units_of_deep_layers_differ() -> None:
    X = np.random.RandomState(1).standard_normal((200, 3))

    def spread(posterior: Posterior) -> float:
        """Return how the means of the last hidden units differ from row to row and unit to unit."""
        m_z = adf.forward(posterior.m_w, posterior.v_w, X).relu[-1].m_z
        of_rows = m_z - m_z.mean(axis=0)
        return float(np.std(of_rows - of_rows.mean(axis=1, keepdims=True)))

    shallow, deep = posteriors.start([3, 50, 1]), posteriors.start([3, *[50] * 4, 1])
    assert spread(deep) < 0.03 * spread(shallow)  # all the units say the same
    assert spread(near_a_draw(deep)) > 0.1 * spread(shallow)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_middle_layers_keep_the_second_moments_of_the_prior(dtype: str) -> None:
    before = posteriors.start([3, 90, 80, 70, 1], dtype=dtype)
    drawn = near_a_draw(before)
    assert drawn.dtype == before.dtype
    for layer in (0, -1):
        assert drawn.m_w[layer] is before.m_w[layer]
        assert drawn.v_w[layer] is before.v_w[layer]
    for m, v, old in zip(drawn.m_w[1:-1], drawn.v_w[1:-1], before.m_w[1:-1], strict=True):
        assert np.mean(m**2 + v) == pytest.approx(before.prior_variance, rel=0.05)
        np.testing.assert_allclose(v, 0.1 * before.prior_variance, rtol=1e-6)
        np.testing.assert_allclose(m / old, (m / old)[0, 0], rtol=1e-5)  # the same draws
    one = posteriors.start([3, 7, 1])
    assert near_a_draw(one).m_w[0] is one.m_w[0]


# ---- What holds now


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
@pytest.mark.parametrize("made", [sine, plane, friedman])
def test_a_single_epoch_learns_with_every_seed(made: Callable[[int], Made], n_layers: int) -> None:
    found = []
    for seed in range(N_SEEDS):
        X, y = made(seed)
        model = PBPRegressor((50,) * n_layers, n_epochs=1, random_state=seed).fit(X, y)
        found.append(error(model, X, y))
    assert max(found) < 1.05
    assert np.median(found) < {sine: 0.95, plane: 0.3, friedman: 0.85}[made]


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
@pytest.mark.parametrize(("n_first", "n_call"), [(32, 32), (20, 1)])
@pytest.mark.slow
def test_a_stream_learns_with_every_seed(n_layers: int, n_first: int, n_call: int) -> None:
    for seed in range(N_SEEDS):
        X, y = plane(seed)
        model = PBPRegressor((50,) * n_layers, random_state=seed)
        begun = error(stream(model, X[:100], y[:100], n_first, n_call), X, y)
        assert begun < 1.2, seed
        ended = error(stream(model, X[100:], y[100:], 50, 50), X, y)
        assert ended < min(begun, 0.6), seed  # later rows are learned too
        assert all(0.0 < epoch.prior_variance < 10.0 for epoch in model.history_), seed


@pytest.mark.parametrize(("n_layers", "n_seeds"), [(1, 30), (2, 6), (3, 6)])
@pytest.mark.parametrize("name", uci.READERS)
@pytest.mark.slow
def test_the_benchmark_sets_row_by_row(name: str, n_layers: int, n_seeds: int) -> None:
    X, y = uci.load(name)
    for seed in range(n_seeds):
        order = np.random.RandomState(seed).permutation(len(y))[:300]
        model = PBPRegressor((50,) * n_layers, random_state=seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "In .* updates", RuntimeWarning)
            stream(model, X[order], y[order], 20, 1)
        assert error(model, X, y) < 1.1, seed


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_a_classifier_learns_in_one_epoch(n_layers: int) -> None:
    found: list[tuple[float, float]] = []
    for seed in range(10):
        X, f = plane(seed)
        classes = np.digitize(f, [-2.0, 2.0])  # the largest has about 40 % of the rows
        once = PBPClassifier((50,) * n_layers, n_epochs=1, random_state=seed).fit(X, classes)
        streamed = PBPClassifier((50,) * n_layers, random_state=seed)
        for rows in np.array_split(np.arange(N_ROWS), 10):
            streamed.partial_fit(X[rows], classes[rows], classes=[0, 1, 2])
        found.append((once.score(X, classes), streamed.score(X, classes)))
    assert np.median(found, axis=0).min() > (0.5 if n_layers == 4 else 0.75)


# ---- Where it holds


def test_longer_trainings_begin_as_the_paper_says() -> None:
    X, y = plane(0)
    parameters = {"hidden_layer_sizes": (9, 8), "random_state": 0}

    def first_epoch(n_epochs: int) -> PBPRegressor:
        return PBPRegressor(n_epochs=n_epochs, **parameters).fit(X, y, callback=lambda _: True)

    two, forty, one = first_epoch(2), first_epoch(40), first_epoch(1)
    for a, b, c in zip(two.posterior_.m_w, forty.posterior_.m_w, one.posterior_.m_w, strict=True):
        np.testing.assert_array_equal(a, b)
        assert np.abs(a - c).max() > 0.0
    whole = PBPRegressor(n_epochs=5, **parameters)
    assert two.log_evidence_ == whole.fit(X, y).log_evidence_
