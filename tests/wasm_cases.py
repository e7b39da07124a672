"""Inputs of the WebAssembly kernel, as JSON, and outputs of the native one.

A case is what run_cases.js is given, with its `kind`; the answer has arrays by name.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import RandomState
from scipy import sparse
from scipy.special import log_ndtr, ndtr, ndtri

import oracle
from hats import continuous
from probprop import BoxCox, Mixture, PBPClassifier, PBPRegressor
from probprop._types import Array
from probprop.distributions.base import Moments
from probprop.distributions.functions import SampledNetwork
from probprop.distributions.power import moments
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import ColumnBasis, Encoded, basis_of
from probprop.inference.likelihoods import Gaussian, Heavy, Multinomial, Probit
from probprop.inference.native import class_log_probabilities, scale_mixture
from probprop.inference.noise import FIRST_TAIL, start_noise_network
from probprop.inference.posterior import Memory, Posterior, flat, initial_posterior
from probprop.inference.standardize import identity_standardizer
from probprop.inference.task import NoiseSchedule, Task

NATIVE = ENGINES["native"]
Case = dict[str, Any]
Answer = dict[str, Any]


def as_json(a: Array | None) -> list[float] | None:
    return None if a is None else np.asarray(a, float).ravel().tolist()


def rows(X: Any) -> Any:
    """Rows as the page has them: an array, compressed rows, or the columns of a basis."""
    if isinstance(X, np.ndarray):
        return as_json(X)
    if isinstance(X, Encoded):
        names = ("first_knot", "knots", "origin", "first_term", "input", "at_origin", "slope")
        basis = {name: as_json(getattr(X.basis, name)) for name in names}
        return {"X": as_json(X.X), "basis": basis}
    parts = {"indptr": X.indptr, "indices": X.indices, "values": X.data}
    return {name: as_json(part) for name, part in parts.items()}


def network(posterior: Posterior) -> Case:
    arrays = {name: as_json(flat(getattr(posterior, name))) for name in ("m_w", "v_w")}
    return {"sizes": list(posterior.layer_sizes), **arrays}


def whole(posterior: Posterior) -> Case:
    factors = ("v_hat_nat", "a_hat_nat", "b_hat_nat")
    noise = posterior.noise_network
    return {
        **network(posterior),
        **{name: as_json(flat(getattr(posterior, name))) for name in factors},
        "alpha_noise": as_json(posterior.alpha_noise),
        "beta_noise": as_json(posterior.beta_noise),
        "alpha_prior": posterior.alpha_prior,
        "beta_prior": posterior.beta_prior,
        "tail": as_json(posterior.tail),
        "noise_network": None if noise is None else whole(noise),
    }


# ---- One case of each kind: inputs and outputs


def forward(posterior: Posterior, X: Any, X_var: Array | None = None) -> tuple[Case, Answer]:
    mean, variance = NATIVE.predict_moments(posterior, X, X_var)
    case = {"network": network(posterior), "X": rows(X), "X_var": as_json(X_var)}
    return {"kind": "forward", **case}, {"mean": mean, "variance": variance}


def gradient(posterior: Posterior, X: Any) -> tuple[Case, Answer]:
    mean, variance, dm_dx, dv_dx = NATIVE.predict_gradient(posterior, X)
    answer = {"mean": mean, "variance": variance, "dm_dx": dm_dx, "dv_dx": dv_dx}
    return {"kind": "gradient", "network": network(posterior), "X": rows(X)}, answer


def sampled(posterior: Posterior, X: Any) -> tuple[Case, Answer]:
    standardizer = identity_standardizer(X.shape[1])
    f = SampledNetwork(posterior.m_w, standardizer)(X)
    case = {"sizes": list(posterior.layer_sizes), "w": as_json(flat(posterior.m_w))}
    return {"kind": "sampled", **case, "X": rows(X)}, {"f": f}


def random_numbers(seed: int, n: int) -> tuple[Case, Answer]:
    random = RandomState(seed)
    bits = random.randint(2**32, size=2, dtype=np.uint32)
    answer = {"bits": bits, "normals": random.standard_normal(n)}
    return {"kind": "random", "seed": seed, "n": n}, answer


def training(task: Task, seed: int | None) -> tuple[Case, Answer]:
    """Train in the native kernel; the task's rows are standardized already."""
    memory, watch = task.memory, task.noise_schedule
    case = {
        "kind": "train",
        "seed": seed,
        "posterior": whole(task.posterior),
        "likelihood": task.likelihood.name,
        "X": rows(task.X),
        "X_var": as_json(task.X_var),
        "y": as_json(task.y),
        "refine": task.refine.tolist(),
        "memory": None if memory is None else vars(memory),
        "tail_rate": as_json(task.tail_rate),
        "watch": watch
        and {
            "power": as_json(watch.power),
            "capacity": None if watch.memory is None else watch.memory.capacity,
        },
    }
    ((after, records),), interrupt = NATIVE.train([task])
    assert interrupt is None
    got = whole(after)
    noise = got.pop("noise_network") or {"m_w": [], "v_w": [], "tail": []}
    got |= {f"noise_{name}": noise[name] for name in ("m_w", "v_w", "tail")}
    drawn = 0 if task.random_state is None else task.random_state.randint(2**32, dtype=np.uint32)
    return case, got | {
        "log_Z_sum": records.log_Z_sums,
        "counts": records.counts,
        "after": drawn,
    }


# ---- All of them


def of_oracles() -> Iterator[tuple[Case, Answer]]:
    """The states of the authors' code: an epoch, several, and predictions after each."""
    for name in oracle.NAMES:
        authors = oracle.load(name)
        beginning = authors.posterior(authors.initial)
        yield forward(beginning, authors.X_test)
        yield gradient(beginning, authors.X_test)
        for refine in ([False], [True] * len(authors.epochs)):
            task = Task(
                posterior=beginning,
                X=authors.X_train,
                X_var=None,
                y=authors.y_train,
                standardizer=identity_standardizer(authors.X_train.shape[1]),
                likelihood=Gaussian(),
                memory=None,
                refine=np.array(refine),
            )
            yield training(task, None)
        for state in authors.epochs:
            yield forward(authors.posterior(state), authors.X_test)


LIKELIHOODS = ("gaussian", "heavy", "probit", "multinomial", "input noise", "heavy input noise")


def made_task(kind: str, seed: int) -> tuple[Task, int | None]:
    """A training of this kind with all else at random."""
    random = RandomState(seed)
    n, n_features, n_epochs = random.randint(1, 30), random.randint(1, 8), random.randint(1, 5)
    K = random.randint(1, 4)
    hidden = random.randint(1, 25, size=random.randint(0, 4)).tolist()
    X = random.standard_normal((n, n_features))
    y: Array = np.sin(X.sum(axis=1, keepdims=True)) + 0.3 * random.standard_normal((n, K))
    likelihood: Any = Gaussian(n_targets=K)
    if "heavy" in kind:
        likelihood = Heavy(n_targets=K)
    elif kind == "probit":
        likelihood, y = Probit(np.arange(K), multilabel=True), np.where(y > 0, 1.0, -1.0)
    elif kind == "multinomial":
        K += 1
        likelihood, y = Multinomial(np.arange(K)), random.randint(K, size=(n, 1)).astype(float)
    n_noise = K if likelihood.learns_noise else 1
    shape, rate = (np.full(n_noise, a) for a in likelihood.noise_prior)
    posterior = initial_posterior(
        [n_features, *hidden, K],
        noise_shape=shape,
        noise_rate=rate,
        prior_shape=6.0,
        prior_rate=6.0,
        random_state=random,
        dtype=np.dtype(float),
    )
    memory = Memory(2.5 * n + 1.0, *likelihood.noise_prior) if random.rand() < 0.5 else None
    fields = dict(vars(posterior))
    watch = None
    if "input noise" in kind:
        fields["noise_network"] = start_noise_network((n_features, 7, K), random, posterior.dtype)
        power = np.where(np.arange(n_epochs) > 0, 0.4, 0.0)
        watch = NoiseSchedule(power, memory and Memory(4.0 * n + 1.0, 2.0, 1.0))
    if "heavy" in kind:
        fields["tail"] = np.full(K, FIRST_TAIL)
        if watch:
            fields["noise_network"] = Posterior(
                **(vars(fields["noise_network"]) | {"tail": np.full(K, FIRST_TAIL)})
            )
    given = int(random.randint(2**31)) if random.rand() < 0.8 else None
    task = Task(
        posterior=Posterior(**fields),
        X=X,
        X_var=random.chisquare(1, X.shape) if random.rand() < 0.3 else None,
        y=y,
        standardizer=identity_standardizer(n_features, K),
        likelihood=likelihood,
        memory=memory,
        refine=random.rand(n_epochs) < 0.7,
        random_state=None if given is None else RandomState(given),
        noise_schedule=watch,
        tail_rate=np.linspace(0.2, 1.0, n_epochs) if "heavy" in kind else None,
    )
    return task, given


def at_random(seeds: range) -> Iterator[tuple[Case, Answer]]:
    """Trainings of every kind, and predictions of what they trained."""
    for seed in seeds:
        for kind in LIKELIHOODS:
            task, given = made_task(kind, seed)
            yield training(task, given)
            random = RandomState(seed)
            X = 3.0 * random.standard_normal((9, task.X.shape[1]))
            for X_var in (None, random.chisquare(1, X.shape)):
                yield forward(task.posterior, X, X_var)
            if task.posterior.layer_sizes[-1] == 1:
                yield gradient(task.posterior, X)
                yield sampled(task.posterior, X)
    for seed in (0, 1, 2**32 - 1):
        yield random_numbers(seed, 1001)
    random = RandomState(0)
    z = 8.0 * random.standard_normal(100)
    p = np.array([1e-300, 1e-12, 5e-5, 0.025, 0.3, 0.5])
    answer = {"p": ndtr(z), "log_p": log_ndtr(z), "quantile": ndtri(p)}
    yield {"kind": "normal", "z": as_json(z), "p": as_json(p)}, answer
    for K in (3, 8):
        mean, variance = 3.0 * random.standard_normal((20, K)), random.chisquare(2, (20, K))
        case = {"mean": as_json(mean), "variance": as_json(variance), "n_classes": K}
        yield {"kind": "classes", **case}, {"log_p": class_log_probabilities(mean, variance)}
    d, mu = 2.0 * random.standard_normal((2, 50))
    v, variance = random.chisquare(1, (2, 50))
    columns = {"d": d, "v": v, "mu": mu, "variance": variance}
    given_columns = {name: as_json(column) for name, column in columns.items()}
    rows = scale_mixture(d, v, mu, variance)
    names = ("log_Z", "d_mu", "d_var", "d_m", "d_v")
    yield {"kind": "scale", **given_columns}, dict(zip(names, rows, strict=True))


def of_listed_rows(seeds: range) -> Iterator[tuple[Case, Answer]]:
    """Sparse and encoded rows: trainings of every kind, and predictions."""
    for seed in seeds:
        for kind in LIKELIHOODS:
            task, given = made_task(kind, seed)
            random = RandomState(seed)
            n, n_inputs = task.X.shape
            X: Any = sparse.csr_array(task.X * (random.rand(n, n_inputs) < 0.4))
            if seed % 2:  # two columns whose functions are the inputs
                knots = np.linspace(-1.0, 1.0, n_inputs + 1)
                hats = continuous(knots, np.eye(n_inputs + 1)[:, 1:], np.zeros((2, n_inputs)))
                constant = ColumnBasis(np.zeros(0), np.zeros((1, 0)), np.zeros((1, 0)))
                X = Encoded(random.standard_normal((n, 2)), basis_of([hats, constant]))
            yield training(replace(task, X=X, X_var=None), given)
            yield forward(task.posterior, X)
            if task.posterior.layer_sizes[-1] == 1:
                yield gradient(task.posterior, X)
                yield sampled(task.posterior, X)


def of_distributions(seeds: range) -> Iterator[tuple[Case, Answer]]:
    """Mixtures with Gaussian and log-normal noise, and moments behind a transformation."""
    for seed in seeds:
        random = RandomState(seed)
        S, n = random.randint(1, 12), random.randint(1, 6)
        mean = 1e3 * (seed % 3) + random.standard_normal((S, n))
        epistemic_std, aleatoric_std = random.chisquare(1, (2, S, n))
        tail = random.chisquare(2, (S, n)) * (random.rand(S, 1) < 0.7) * (seed % 2)
        stacks = {"mean": mean, "epistemic_std": epistemic_std, "aleatoric_std": aleatoric_std}
        given = {name: as_json(a) for name, a in (stacks | {"tail": tail}).items()}
        weights = random.dirichlet(np.ones(S)) if seed % 4 < 2 else np.full(S, 1.0 / S)
        members = {"weights": as_json(weights), **given}
        p = Mixture(mean, epistemic_std, aleatoric_std, weights, tail if tail.any() else None)
        y = p.mean + p.std * random.standard_normal((4, 1)) * [[1.0], [1.0], [3.0], [30.0]]
        coverage = [0.5, 0.95, 0.9999][seed % 3]
        lower, upper = p.interval(coverage)
        answer = {"logpdf": p.logpdf(y), "cdf": p.cdf(y), "lower": lower, "upper": upper}
        case = {"members": members, "y": as_json(y), "coverage": coverage}
        yield {"kind": "mixture", **case}, answer
        power = [0.0, 0.3, 1.0][seed % 3]
        behind = moments(Moments(mean % 7.0, epistemic_std, aleatoric_std), BoxCox(power))
        case = {"members": members | {"mean": as_json(mean % 7.0)}, "power": power}
        yield {"kind": "power", **case}, behind._asdict()


SETTINGS: list[dict[str, Any]] = [
    {},
    {"hidden": [20, 10], "n_epochs": 7, "seed": 3},
    {"hidden": [10], "evidence_cap": 5.0, "n_epochs": 60},
    {"noise": "input"},
    {"noise": "input", "evidence_cap": 3.0, "n_epochs": 9, "n_features": 2},
    {"noise_tail": "heavy", "n_epochs": 50},
    {"noise_tail": "heavy", "noise": "input", "evidence_cap": 10.0, "seed": 2**31},
    {"classes": True, "n_features": 2},
    {"classes": True, "n_features": 2, "evidence_cap": 2.0, "hidden": [5, 5], "seed": 1},
]
"""Parameters of learning.js, with nearly the same names as the estimators'."""


def of_estimators() -> Iterator[tuple[Case, Answer]]:
    """Fits from a seed to predictions, compared with the estimators."""
    sizes = [30, 1, 2, 40, 25, 30, 35, 40, 30]
    for n, settings in zip(sizes, SETTINGS, strict=True):
        parameters = dict(settings)
        n_features = parameters.pop("n_features", 1)
        random = RandomState(n)
        X = 3.0 + 2.0 * random.standard_normal((n, n_features))
        X_new = 3.0 + 4.0 * random.standard_normal((15, n_features))
        y = 10.0 * np.sin(X.sum(axis=1)) + X[:, 0] * random.standard_normal(n)
        classes = parameters.pop("classes", False)
        seed, layers = parameters.pop("seed", 0), parameters.pop("hidden", [50])
        kind: Any = PBPClassifier if classes else PBPRegressor
        y = np.where(y > 0, 1.0, -1.0) if classes else y
        model = kind(layers, random_state=seed, **parameters).fit(X, y)
        predicted = model.predict_distribution(X_new)
        answer: Answer = {"m_w": flat(model.posterior_.m_w)}
        if classes:
            answer["probability"] = predicted.proba[:, 1]
        else:
            lower, upper = predicted.interval(0.95)
            noise = np.broadcast_to(predicted.aleatoric_std, len(X_new))
            answer |= {"mean": predicted.mean, "epistemic_std": predicted.epistemic_std}
            answer |= {"aleatoric_std": noise, "lower": lower, "upper": upper}
            answer["drawn"] = [f(X_new) for f in model.sample_functions(2, random_state=5)]
        case = {"X": as_json(X), "y": as_json(y), "X_new": as_json(X_new), "settings": settings}
        yield {"kind": "fit", **case}, answer
