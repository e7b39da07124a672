"""HMC against the exact posterior of a linear model, and its density against scipy."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from scipy.special import logsumexp, ndtr
from sklearn.exceptions import ConvergenceWarning

jax = pytest.importorskip("jax", reason="needs the extra 'baselines'")
pytest.importorskip("numpyro", reason="needs the extra 'baselines'")

from numpyro.diagnostics import effective_sample_size  # noqa: E402

from probprop.distributions.mixture import Mixture  # noqa: E402
from probprop_lab.baselines import HMCRegressor, hmc_chains, hmc_sampler  # noqa: E402
from probprop_lab.baselines.hmc import WEAK_NOISE  # noqa: E402
from probprop_lab.baselines.hmc_sampler import Draws, Hyperprior, Position  # noqa: E402
from probprop_lab.baselines.jax_setup import double_precision  # noqa: E402

HYPERPRIOR = Hyperprior(3.0, 2.0, 6.0, 1.5)
RNG = np.random.RandomState(0)
X = RNG.standard_normal((15, 2)) * [1.0, 100.0] + [0.0, 30.0]
Y = 40.0 + 5.0 * X[:, 0] - 0.02 * X[:, 1] + 2.0 * RNG.standard_normal(15)
X_NEW = np.array([[0.0, 0.0], [1.0, -50.0], [4.0, 300.0]])


def regressor(**parameters: Any) -> HMCRegressor:
    """Return a linear one with a prior that is not the default."""
    settings = {"kernel": "hmc", "n_samples": 8_000, "n_warmup": 300, "random_state": 0}
    return HMCRegressor(
        **{"hidden_layer_sizes": (), **settings, **HYPERPRIOR._asdict()} | parameters
    )


def network(weights: tuple[np.ndarray, ...], X: np.ndarray, activation: str) -> np.ndarray:
    """Return the output as the model defines it, unit by unit."""
    hidden = {"relu": lambda a: max(a, 0.0), "probit": lambda a: float(ndtr(a))}[activation]
    outputs = []
    for x in X:
        z = x
        for w in weights[:-1]:
            z = np.array([hidden(row @ np.append(z, 1.0) / np.sqrt(len(row))) for row in w])
        outputs.append(weights[-1][0] @ np.append(z, 1.0) / np.sqrt(weights[-1].shape[1]))
    return np.array(outputs)


class TestLogDensity:
    @pytest.mark.parametrize("activation", ["relu", "probit"])
    @pytest.mark.parametrize("hidden", [(), (4,), (3, 2)])
    def test_against_scipy(self, hidden: tuple[int, ...], activation: str) -> None:
        rng = np.random.RandomState(1)
        sizes = (2, *hidden, 1)
        shapes = [(n_out, n_in + 1) for n_in, n_out in pairwise(sizes)]
        w = tuple(rng.standard_normal(shape) for shape in shapes)
        prior_precision, noise_precision = 0.6, 2.5
        X, y = rng.standard_normal((6, 2)), rng.standard_normal(6)

        # p(y | w, gamma) p(w | lambda) p(lambda) p(gamma), and the volume element of
        # w = u / sqrt(lambda), lambda = exp(log lambda), gamma = exp(log gamma).
        n_weights = sum(layer.size for layer in w)
        a, b, c, d = HYPERPRIOR
        expected = stats.norm(network(w, X, activation), noise_precision**-0.5).logpdf(y).sum()
        expected += sum(stats.norm(0.0, prior_precision**-0.5).logpdf(v).sum() for v in w)
        expected += stats.gamma(a, scale=1 / b).logpdf(prior_precision)
        expected += stats.gamma(c, scale=1 / d).logpdf(noise_precision)
        expected += np.log(prior_precision) * (1.0 - 0.5 * n_weights) + np.log(noise_precision)

        with double_precision():
            position = Position(
                tuple(np.sqrt(prior_precision) * v for v in w),
                np.log(prior_precision),
                np.log(noise_precision),
            )
            arguments = (position, X, y, np.ones(6), HYPERPRIOR, activation)
            assert_allclose(hmc_sampler.log_density(*arguments), expected, rtol=1e-13)

            padded = np.vstack([X, 7 * np.ones((3, 2))]), np.append(y, [5.0, -9.0, 0.0])
            mask = np.append(np.ones(6), np.zeros(3))
            found = hmc_sampler.log_density(position, *padded, mask, HYPERPRIOR, activation)
            assert_allclose(found, expected, rtol=1e-13)

            outputs = hmc_chains.network_outputs(tuple(v[np.newaxis] for v in w), X, activation)
            assert_allclose(outputs, [network(w, X, activation)], rtol=1e-12)

    def test_the_starts_are_about_the_prior(self) -> None:
        with double_precision():
            keys = jax.random.split(jax.random.key(0), 4_000)
            starts = jax.device_get(
                jax.vmap(lambda k: hmc_sampler.draw_start(k, (2, 3, 1), HYPERPRIOR))(keys)
            )
        assert [u.shape[1:] for u in starts.u] == [(3, 3), (1, 4)]
        assert stats.kstest(starts.u[0].ravel(), stats.norm.cdf).pvalue > 1e-3
        for found, shape, rate in [
            (starts.log_prior_precision, *HYPERPRIOR[:2]),
            (starts.log_noise_precision, *HYPERPRIOR[2:]),
        ]:
            gamma = stats.gamma(shape, scale=1 / rate)
            assert_allclose(np.quantile(np.exp(found), 0.5), gamma.median(), rtol=0.2)
            assert_allclose(np.std(found), np.log(gamma.rvs(4_000, random_state=0)).std(), rtol=0.2)


class ExactLinear:
    """The posterior of the linear model, by quadrature over log lambda and log gamma.

    Given both precisions the weights are Gaussian, and so are the outputs.
    """

    def __init__(
        self, X: np.ndarray, y: np.ndarray, X_new: np.ndarray, hyperprior: Hyperprior = HYPERPRIOR
    ) -> None:
        def design(Z: np.ndarray) -> np.ndarray:
            scaled = (Z - X.mean(axis=0)) / X.std(axis=0)
            return np.column_stack([scaled, np.ones(len(Z))]) / np.sqrt(Z.shape[1] + 1)

        A, A_new = design(X), design(X_new)
        t = (y - y.mean()) / y.std()
        self.shift, self.scale = y.mean(), y.std()
        a, b, c, d = hyperprior
        log_weight, mean, var, noise = [], [], [], []
        for log_lambda in np.linspace(-7.0, 4.0, 56):
            for log_gamma in np.linspace(-3.0, 6.0, 61):
                lam, gam = np.exp(log_lambda), np.exp(log_gamma)
                evidence = stats.multivariate_normal(
                    np.zeros(len(t)), A @ A.T / lam + np.eye(len(t)) / gam
                ).logpdf(t)
                prior = stats.gamma.logpdf(lam, a, scale=1 / b)
                prior += stats.gamma.logpdf(gam, c, scale=1 / d)
                log_weight.append(evidence + prior + log_lambda + log_gamma)
                cov = np.linalg.inv(lam * np.eye(A.shape[1]) + gam * A.T @ A)
                mean.append(A_new @ cov @ (gam * A.T @ t))
                var.append(np.einsum("ij,jk,ik->i", A_new, cov, A_new))
                noise.append(1.0 / gam)
        self.weight = np.exp(np.array(log_weight) - logsumexp(log_weight))
        self.means, self.vars, self.noises = np.array(mean), np.array(var), np.array(noise)
        self.mean = self.weight @ self.means * self.scale + self.shift
        spread = self.weight @ self.means**2 - (self.weight @ self.means) ** 2
        self.epistemic_std = np.sqrt(self.weight @ self.vars + spread) * self.scale
        self.noise_variance = self.weight @ self.noises * self.scale**2

    def logpdf(self, y: np.ndarray) -> np.ndarray:
        std = np.sqrt(self.vars + self.noises[:, np.newaxis]) * self.scale
        density = stats.norm(self.means * self.scale + self.shift, std).pdf(y)
        return np.log(self.weight @ density)


@pytest.fixture(scope="module")
def exact() -> ExactLinear:
    return ExactLinear(X, Y, X_NEW)


def assert_within_error(draws: np.ndarray, expected: float) -> None:
    """Expect the mean of the draws, (chain, draw), within 4 standard errors."""
    error = draws.std() / np.sqrt(effective_sample_size(draws))
    assert abs(draws.mean() - expected) < 4.0 * error
    assert error < 0.05 * draws.std()  # so that the line above says something


@pytest.mark.parametrize("kernel", [pytest.param("nuts", marks=pytest.mark.slow), "hmc"])
def test_the_exact_posterior_of_a_linear_model(kernel: str, exact: ExactLinear) -> None:
    model = regressor(kernel=kernel).fit(X, Y)
    predictive = model.predict_distribution(X_NEW)
    assert isinstance(predictive, Mixture)

    for row in range(len(X_NEW)):
        f = predictive.means[:, row].reshape(4, -1)
        assert_within_error(f, exact.mean[row])
        assert_within_error((f - exact.mean[row]) ** 2, exact.epistemic_std[row] ** 2)
    noise = predictive.aleatoric_stds.reshape(4, -1) ** 2
    assert_within_error(noise, exact.noise_variance)
    assert model.noise_variance_ == pytest.approx(noise.mean(), rel=1e-12)

    y = exact.mean + np.array([0.0, 6.0, -10.0])
    assert_allclose(predictive.logpdf(y), exact.logpdf(y), atol=0.05)
    mean, std = model.predict(X_NEW, return_std=True)
    assert_array_equal(mean, predictive.mean)
    assert_array_equal(std, predictive.std)
    assert max(model.r_hat_.values()) < 1.01
    assert min(model.n_effective_.values()) > 1_000
    assert model.n_divergent_ == 0


def test_the_noise_under_a_weak_prior_of_shape_below_one() -> None:
    weak = HYPERPRIOR._replace(**WEAK_NOISE)
    exact = ExactLinear(X, Y, X_NEW, weak)
    predictive = regressor(kernel="hmc", **WEAK_NOISE).fit(X, Y).predict_distribution(X_NEW)
    assert_within_error(predictive.aleatoric_stds.reshape(4, -1) ** 2, exact.noise_variance)
    assert exact.noise_variance != pytest.approx(ExactLinear(X, Y, X_NEW).noise_variance, rel=0.2)


@pytest.mark.slow
def test_both_kernels_have_one_posterior_of_a_network() -> None:
    settings = {"hidden_layer_sizes": (4,), "n_samples": 8_000, "n_warmup": 500}
    found = [regressor(kernel=k, **settings, **WEAK_NOISE).fit(X, Y) for k in ("nuts", "hmc")]
    means, errors = [], []
    for model in found:
        f = model.predict_distribution(X_NEW).means.reshape(4, -1, len(X_NEW))
        drawn = np.concatenate([f, f**2, np.log(model.draws_.noise_precision)[..., None]], axis=-1)
        drawn = np.concatenate([drawn, np.log(model.draws_.prior_precision)[..., None]], axis=-1)
        means.append(drawn.mean(axis=(0, 1)))
        errors.append(drawn.std(axis=(0, 1)) / np.sqrt(effective_sample_size(drawn)))
    assert np.all(np.abs(means[0] - means[1]) < 4.0 * np.hypot(*errors))
    assert np.all(np.hypot(*errors) < 0.2 * drawn.std(axis=(0, 1)))


@pytest.mark.slow
class TestCompilation:
    """Of NUTS; plain HMC has nothing to compile."""

    def test_once_per_shape_and_the_same_draws_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        n_traces = 0
        log_density = hmc_sampler.log_density

        def counted(*arguments: Any) -> Any:
            nonlocal n_traces
            n_traces += 1
            return log_density(*arguments)

        monkeypatch.setattr(hmc_sampler, "log_density", counted)
        rows = X[:11], Y[:11]  # a shape no other test has
        few = {"kernel": "nuts", "n_samples": 2_000}
        first = regressor(**few).fit(*rows)
        assert n_traces > 0
        n_traces = 0
        again = regressor(**few).fit(*rows)
        changed = {"random_state": 1, "prior_rate": 2.5, "target_accept": 0.8}
        other = regressor(**few, **changed).fit(X[4:], Y[4:])
        assert n_traces == 0
        jax.tree.map(assert_array_equal, first.draws_, again.draws_)
        assert np.all(first.draws_.weights[0] != other.draws_.weights[0])

    def test_many_data_sets_at_once(self) -> None:
        """Padded to one length and under vmap, each is sampled as on its own."""
        settings = {"hidden_layer_sizes": (3,), "activation": "relu"}
        counts = {"n_warmup": 4, "n_draws": 3, "n_chains": 2}

        def sample(X: Any, y: Any, mask: Any, key: Any) -> Draws:
            return hmc_sampler.sample_posterior(
                X, y, mask, key, HYPERPRIOR, 0.9, **settings, **counts
            )

        rng = np.random.RandomState(0)
        mask = np.array([np.ones(8), np.arange(8) < 5])
        Xs, ys = rng.standard_normal((2, 8, 2)), rng.standard_normal((2, 8))
        with double_precision():
            keys = jax.random.split(jax.random.key(0), 2)
            together = jax.vmap(sample)(Xs, ys, mask, keys)
            alone = sample(Xs[1, :5], ys[1, :5], np.ones(5), keys[1])
        jax.tree.map(lambda a, b: assert_allclose(a[1], b, rtol=1e-6), together, alone)
        assert together.weights[0].shape == (2, 2, 3, 3, 3)


class TestDiagnostics:
    def test_a_warning_says_what_to_do(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.warns(ConvergenceWarning, match=r"R-hat up to .* Increase n_warmup"):
            model = regressor(target_accept=1e-9, verbose=1).fit(X, Y)  # far too large steps
        assert set(model.r_hat_) == set(model.n_effective_)
        assert max(model.r_hat_.values()) > 1.05 or min(model.n_effective_.values()) < 100
        assert capsys.readouterr().err.startswith("hmc: R-hat up to ")

    def test_divergences_are_counted(self) -> None:
        model = regressor().fit(X, Y)
        divergent = model.draws_.divergent.copy()
        divergent[1, :90] = True
        model.draws_ = model.draws_._replace(divergent=divergent)
        with pytest.warns(
            ConvergenceWarning, match=r"90 of 8000 draws divergent\. .*target_accept"
        ):
            model._diagnose(np.zeros((1, 2)))
        assert model.n_divergent_ == 90

    def test_samples_are_rounded_up_to_whole_chains(self) -> None:
        model = regressor(n_samples=2_001, n_warmup=200, n_chains=2).fit(X, Y)
        assert model.draws_.divergent.shape == (2, 1_001)
        assert model.predict_distribution(X_NEW).means.shape == (2_002, 3)


def test_units_do_not_matter() -> None:
    """A power of two changes no digit of the standardized data, so the draws are the same."""
    model = regressor().fit(X, Y)
    scaled = regressor().fit(X * 4.0, Y * 1024.0)
    assert_array_equal(model.draws_.log_density, scaled.draws_.log_density)
    mean, std = model.predict(X_NEW, return_std=True)
    mean_scaled, std_scaled = scaled.predict(X_NEW * 4.0, return_std=True)
    assert_allclose(mean_scaled, 1024.0 * mean, rtol=1e-12)
    assert_allclose(std_scaled, 1024.0 * std, rtol=1e-12)
    assert scaled.noise_variance_ == pytest.approx(2.0**20 * model.noise_variance_)


@pytest.mark.parametrize(
    ("parameter", "match"),
    [
        ({"kernel": "gibbs"}, r"kernel must be one of \['nuts', 'hmc'\]. Got 'gibbs'"),
        ({"activation": "tanh"}, r"activation must be one of \['relu', 'probit'\]"),
        ({"n_samples": 15}, r"n_samples == 15, must be >= 16"),
        ({"n_warmup": 0}, r"n_warmup == 0, must be >= 1"),
        ({"n_chains": 0}, r"n_chains == 0, must be >= 1"),
        ({"prior_shape": 0.0}, r"prior_shape == 0.0, must be > 0"),
        ({"noise_shape": 0.0}, r"noise_shape == 0.0, must be > 0"),
        ({"noise_rate": 0.0}, r"noise_rate == 0.0, must be > 0"),
        ({"target_accept": 1.0}, r"target_accept == 1.0, must be < 1"),
    ],
)
def test_parameters_out_of_range(parameter: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        regressor(**parameter).fit(X, Y)
