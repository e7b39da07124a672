"""PBPRegressor(noise_tail="heavy"): outliers, and everything a regressor does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from finite_differences import assert_gradient, differences
from model_files import read_model, refused, write_model
from probprop import PBPRegressor, load
from probprop._types import FloatArray
from probprop.metrics import summary
from probprop.reference.likelihoods import LARGEST_TAIL
from probprop.report import model_facts

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")


def made(n: int, seed: int = 0, wild: float = 0.0) -> tuple[FloatArray, FloatArray]:
    """A smooth function with noise of 0.3; a share of the targets is off by 100 deviations."""
    random = np.random.RandomState(seed)
    X = random.uniform(-2.0, 2.0, (n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.3 * random.standard_normal(n)
    off = random.choice(n, round(wild * n), replace=False)
    y[off] += 100.0 * y.std() * random.choice([-1.0, 1.0], len(off))
    return X, y


def heavy(**parameters: object) -> PBPRegressor:
    settings = {"hidden_layer_sizes": (10,), "n_epochs": 8, "random_state": 0, **parameters}
    return PBPRegressor(noise_tail="heavy", **settings)  # type: ignore[arg-type]


def test_outliers_do_not_ruin_the_fit() -> None:
    X, y = made(600, wild=0.02)
    X_clean, y_clean = made(400, seed=1)
    rmse = {
        tail: np.sqrt(np.mean((model.predict(X_clean) - y_clean) ** 2))
        for tail in ("gaussian", "heavy")
        for model in [PBPRegressor((20,), noise_tail=tail, random_state=0).fit(X, y)]
    }
    assert rmse["heavy"] < 0.5 * rmse["gaussian"]
    assert rmse["heavy"] < 0.7 * y_clean.std()


def test_gaussian_noise_is_left_nearly_gaussian() -> None:
    X, y = made(600)
    X_new, y_new = made(400, seed=1)
    gaussian = PBPRegressor((20,), random_state=0).fit(X, y)
    model = PBPRegressor((20,), noise_tail="heavy", random_state=0).fit(X, y)
    assert model.posterior_.tail[0] < 0.3
    log_p = [m.predict_distribution(X_new).logpdf(y_new).mean() for m in (model, gaussian)]
    assert log_p[0] > log_p[1] - 0.03


def test_heavy_tails_are_learned_and_described() -> None:
    X, y = made(400)
    y += 0.3 * np.random.RandomState(5).standard_t(1.5, 400)
    model = heavy(n_epochs=30).fit(X, y)
    (tail,) = model.posterior_.tail
    assert 0.3 < tail <= LARGEST_TAIL
    assert f"tail {tail:.3g}" in repr(model.posterior_)
    p = model.predict_distribution(X[:5])
    assert p.tail is not None
    assert_allclose(p.tail, tail)
    # The mean of a log-normal is exp(tail/2) times its median, the level.
    level = model.posterior_.noise_variance * model.standardizer_.y_scale**2
    assert_allclose(p.aleatoric_std**2, np.full(5, level * np.exp(0.5 * tail)))
    assert model.noise_variance_ == pytest.approx(p.aleatoric_std[0] ** 2, rel=1e-12)
    assert np.isfinite(list(summary(y, model.predict_distribution(X)).values())).all()
    assert "tail" not in repr(PBPRegressor((5,), n_epochs=2).fit(X, y).posterior_)


def test_student_t_is_for_gaussian_noise() -> None:
    model = heavy().fit(*made(50))
    with pytest.raises(ValueError, match=r"constant, Gaussian noise.*give False"):
        model.predict_distribution(made(5)[0], student_t=True)


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match=r"noise_tail.*gaussian.*heavy.*Got 'cauchy'"):
        PBPRegressor(noise_tail="cauchy").fit(*made(20))  # type: ignore[arg-type]


def test_both_engines_several_targets_and_single_precision() -> None:
    X, y = made(40, wild=0.1)
    Y = np.stack([y, 3.0 * X[:, 0] + y**3], axis=1)
    native, reference = (heavy(engine=engine).fit(X, Y) for engine in ("native", "reference"))
    assert native.posterior_.tail.shape == (2,)
    assert_allclose(native.posterior_.tail, reference.posterior_.tail, rtol=1e-10, atol=1e-12)
    p, q = (model.predict_distribution(X) for model in (native, reference))
    for name in ("mean", "epistemic_std", "aleatoric_std"):
        assert_allclose(getattr(p, name), getattr(q, name), rtol=1e-9)
    assert p.logpdf(Y).shape == (40, 2)
    single = heavy(dtype="float32").fit(X, Y)
    assert_allclose(single.predict(X), native.predict(X), atol=0.05 * Y.std())
    assert_allclose(single.posterior_.tail, native.posterior_.tail, atol=0.1)


@settings(max_examples=10, deadline=None)
@given(scale=st.floats(1e-3, 1e3), shift=st.floats(-100.0, 100.0))
def test_units_of_the_target_do_not_matter(scale: float, shift: float) -> None:
    X, y = made(40, wild=0.1)
    p = heavy().fit(X, y).predict_distribution(X)
    q = heavy().fit(X, scale * y + shift).predict_distribution(X)
    assert p.tail is not None
    assert q.tail is not None
    unit = scale * y.std() + 1e-3 * abs(shift)
    assert_allclose(q.mean, scale * p.mean + shift, atol=1e-6 * unit)
    assert_allclose(q.std, scale * p.std, rtol=1e-6)
    assert_allclose(q.tail, p.tail, atol=1e-6)
    assert_allclose(q.logpdf(scale * y + shift), p.logpdf(y) - np.log(scale), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n_targets", [1, 2])
def test_save_and_load(tmp_path: Path, n_targets: int) -> None:
    X, y = made(60, wild=0.1)
    model = heavy().fit(X, y if n_targets == 1 else np.stack([y, X[:, 0]], axis=1))
    assert model.posterior_.tail.any()
    model.save(tmp_path / "model.pbp")
    again = load(tmp_path / "model.pbp")
    assert again.posterior_.tail.tolist() == model.posterior_.tail.tolist()
    p, q = (m.predict_distribution(X) for m in (model, again))
    assert q.tail is not None
    assert_allclose(q.ppf(0.3), p.ppf(0.3), rtol=0)
    for m in (model, again):
        m.partial_fit(X[:9], m.predict(X[:9]))
    assert again.posterior_.tail.tolist() == model.posterior_.tail.tolist()


def test_a_stream_learns_the_tail() -> None:
    X, y = made(900, wild=0.03)
    model = heavy()
    model.partial_fit(X[:300], y[:300])
    assert not model.posterior_.tail.any()  # the first rows are predicted without data
    for start in range(300, 900, 100):
        model.partial_fit(X[start : start + 100], y[start : start + 100])
    assert model.posterior_.tail[0] > 0.5
    after_fit = heavy(n_epochs=4).fit(X[:300], y[:300])
    before = after_fit.posterior_.tail[0]
    after_fit.partial_fit(X[300:301], y[300:301])
    assert after_fit.posterior_.tail[0] == pytest.approx(before, abs=0.2)  # one row of 301


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_short_fits_learn_a_tail_too(n_epochs: int) -> None:
    X, y = made(200, wild=0.03)
    assert heavy(n_epochs=n_epochs).fit(X, y).posterior_.tail[0] > 0.0


def test_the_gradient_of_the_std_includes_the_noise() -> None:
    X, y = made(60, wild=0.1)
    model = heavy().fit(X, y)
    assert model.posterior_.tail[0] > 0.0
    at = model.predict_gradient(X[:5])
    assert_allclose(at.std, model.predict(X[:5], return_std=True)[1], rtol=1e-9)
    expected = differences(lambda Z: model.predict(Z, return_std=True)[1], X[:5], np.full(2, 1e-3))
    assert_gradient(at.dstd_dX, expected, 1e-5)


@pytest.mark.parametrize("tail", [[-0.1], [LARGEST_TAIL + 0.1], [np.nan], [0.1, 0.2], [[0.1]]])
def test_a_file_with_another_tail_is_refused(tail: list[Any], tmp_path: Path) -> None:
    heavy().fit(*made(30)).save(tmp_path / "m")
    tree, arrays = read_model(tmp_path / "m")
    write_model(tmp_path / "m", tree, arrays | {"posterior_/tail": np.array(tail)})
    refused(tmp_path / "m", "tail")


def test_gaussian_noise_has_no_tail(tmp_path: Path) -> None:
    PBPRegressor((3,), n_epochs=2).fit(*made(30)).save(tmp_path / "m")
    assert load(tmp_path / "m").posterior_.tail.tolist() == [0.0]
    tree, arrays = read_model(tmp_path / "m")
    write_model(tmp_path / "m", tree, arrays | {"posterior_/tail": np.array([0.1])})
    refused(tmp_path / "m", "tail is invalid for Gaussian noise")


def test_weights_and_known_errors_with_heavy_tails() -> None:
    X, y = made(60, wild=0.05)
    weights = np.random.RandomState(1).uniform(0.5, 2.0, 60)
    fits = [
        heavy(engine=engine).fit(X, y, weights, y_std=0.1) for engine in ("native", "reference")
    ]
    assert_allclose(fits[0].posterior_.tail, fits[1].posterior_.tail, rtol=1e-9)
    assert_allclose(fits[0].predict(X), fits[1].predict(X), rtol=1e-8, atol=1e-8)
    plain = heavy().fit(X, y)
    same = heavy().fit(X, y, np.full(60, 4.0))  # weights are relative
    assert_allclose(same.posterior_.tail, plain.posterior_.tail, rtol=1e-12)
    assert_allclose(same.predict(X), plain.predict(X), rtol=1e-12)


def test_reports_name_the_tails() -> None:
    facts = dict(model_facts(heavy().fit(*made(60, wild=0.1)), ["a", "b"], "y"))
    assert "log variance" in facts["Tails of the noise"]
    facts = dict(model_facts(PBPRegressor((3,), n_epochs=2).fit(*made(30)), ["a", "b"], "y"))
    assert "Tails of the noise" not in facts
