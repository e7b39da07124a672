"""Streams of Friedman's function and of Boston: ``python -m benchmarks.guide.streams``.

``docs/results/streams_passes.md`` compares streams with fits, ``streams_first.md`` what the first
batch does, ``streams_order.md`` what the order of the rows does, ``streams_drift.md`` what drift
does, ``streams_once.md`` networks of one to three layers that see every row of Boston once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.clock import say
from benchmarks.guide.pages import parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPRegressor, metrics
from probprop._types import Array, FloatArray
from probprop_lab import datasets

N_SEEDS = 5
_N_TRAIN, _N_TEST = 10_000, 2_000

Figures = dict[str, float]


class Rows(NamedTuple):
    """Features and targets."""

    X: FloatArray
    y: FloatArray


def made(seed: int, n_train: int) -> tuple[Rows, Rows]:
    """Return rows of Friedman's function with noise 1, and 2,000 to test."""
    X, y = make_friedman1(n_train + _N_TEST, n_features=10, noise=1.0, random_state=seed)
    return Rows(X[:n_train], y[:n_train]), Rows(X[n_train:], y[n_train:])


# ---- The orders of the rows


def near(values: FloatArray, n: int = 100) -> Array:
    """Return the n rows nearest to the median first, and then the others as they are."""
    first = np.argsort(np.abs(values - np.median(values)), kind="stable")[:n]
    return np.concatenate([first, np.setdiff1d(np.arange(len(values)), first)])


def sorted_after(values: FloatArray, n: int) -> Array:
    """Return n rows as they are, and then the others from the smallest value to the largest."""
    return np.concatenate([np.arange(n), n + np.argsort(values[n:], kind="stable")])


# ---- The ways to learn


def batches(first: int, then: int) -> Callable[[PBPRegressor, Rows], object]:
    """Return a stream: the rows of the first call, then equal batches."""

    def learn(model: PBPRegressor, rows: Rows) -> None:
        for part in parts(len(rows.y), first, then):
            model.partial_fit(rows.X[part], rows.y[part])

    return learn


def parts(n: int, first: int, then: int) -> Iterator[slice]:
    """Cut n rows into a first batch and equal ones.

    Examples
    --------
    >>> list(parts(5, 1, 2))
    [slice(0, 1, None), slice(1, 3, None), slice(3, 5, None)]
    """
    yield slice(0, first)
    for start in range(first, n, then):
        yield slice(start, min(start + then, n))


def fit(model: PBPRegressor, rows: Rows) -> object:
    return model.fit(rows.X, rows.y)


class Case(NamedTuple):
    """How a model learns the rows, and in which order they come."""

    learn: Callable[[PBPRegressor, Rows], object] = batches(100, 100)
    order: Callable[[Rows], Array] = lambda rows: np.arange(len(rows.y))
    params: Mapping[str, Any] = MappingProxyType({})


USUAL = Case()
TABLES: dict[str, dict[str, Case]] = {
    "passes": {
        "`partial_fit`, 100 rows a call": USUAL,
        "the same with two layers, `(50, 50)`": Case(params={"hidden_layer_sizes": (50, 50)}),
        "the same with three layers": Case(params={"hidden_layer_sizes": (50, 50, 50)}),
        "`partial_fit`, 10 rows a call": Case(batches(10, 10)),
        "`partial_fit`, all rows in one call": Case(batches(_N_TRAIN, _N_TRAIN)),
        "`fit`, 1 epoch": Case(fit, params={"n_epochs": 1}),
        "`fit`, 40 epochs": Case(fit),
    },
    "first": {
        "100 typical rows": USUAL,
        "100 rows with nearly the same x₁": Case(order=lambda r: near(r.X[:, 0])),
        "100 rows with nearly the same x₅": Case(order=lambda r: near(r.X[:, 4])),
        "100 rows with nearly the same target": Case(order=lambda r: near(r.y)),
        "10 typical rows": Case(batches(10, 100)),
        "20 typical rows, then one row a call": Case(batches(20, 1)),
        "one row, and one row a call": Case(batches(1, 1)),
    },
    "order": {
        "random": USUAL,
        "sorted by x₄": Case(order=lambda r: sorted_after(r.X[:, 3], 0)),
        "sorted by x₄, after 1000 random rows": Case(
            order=lambda r: sorted_after(r.X[:, 3], 1_000)
        ),
        "sorted by x₁": Case(order=lambda r: sorted_after(r.X[:, 0], 0)),
        "sorted by x₁, after 1000 random rows": Case(
            order=lambda r: sorted_after(r.X[:, 0], 1_000)
        ),
        "sorted by the target": Case(order=lambda r: sorted_after(r.y, 0)),
    },
}


# ---- One pass, and more layers


def first_of_forty(model: PBPRegressor, rows: Rows) -> object:
    """Make the first epoch of a longer fit, as in the paper."""
    return model.fit(rows.X, rows.y, callback=lambda epoch: True)


def few_then_one(model: PBPRegressor, rows: Rows) -> object:
    return batches(20, 1)(model, Rows(rows.X[:_N_FEW], rows.y[:_N_FEW]))


_N_FEW = 300
LAYERS = (1, 2, 3)
ONCE = {
    "the first epoch of `fit`": Case(first_of_forty),
    "`fit` with `n_epochs=1`": Case(fit, params={"n_epochs": 1}),
    f"`partial_fit`: 20 rows, then {_N_FEW - 20} one a call": Case(few_then_one),
}


def error_of_once(case: Case, seed: int, n_layers: int, boston: Rows) -> float:
    """Return the RMSE on all rows of Boston, in standard deviations of the target."""
    X, y = boston
    order = np.random.RandomState(seed).permutation(len(y))
    model = PBPRegressor((50,) * n_layers, random_state=seed, **case.params)
    case.learn(model, Rows(X[order], y[order]))
    return float(metrics.rmse(y, model.predict(X)) / y.std())


def load_boston() -> Rows | None:
    """Return all rows of Boston, or None if its file is not at hand."""
    if datasets.where("boston_housing") is None:
        return None
    found = datasets.load("boston_housing")
    return Rows(found.X, found.y)


# ---- A relation that changes

_N_DRIFT, _BATCH, _WINDOW = 50_000, 500, 5_000


def drifting(seed: int, how: str) -> Rows:
    """Return samples of Friedman's function whose first two features slowly change places.

    They do so gradually over the stream, or at once in its middle.
    """
    rng = np.random.RandomState(seed)
    X = rng.uniform(size=(_N_DRIFT, 10))
    share = np.linspace(0.0, 1.0, _N_DRIFT)
    if how == "sudden":
        share = (share > 0.5).astype(float)
    a = (1.0 - share) * X[:, 0] + share * X[:, 2]
    b = (1.0 - share) * X[:, 1] + share * X[:, 3]
    linear = 20.0 * (X[:, 4] - 0.5) ** 2 + 10.0 * X[:, 5] + 5.0 * X[:, 6]
    return Rows(X, 10.0 * np.sin(np.pi * a * b) + linear + rng.standard_normal(_N_DRIFT))


DRIFT: dict[str, dict[str, Any] | None] = {
    "`partial_fit`": {},
    "`partial_fit`, `evidence_cap=3`": {"evidence_cap": 3},
    "`partial_fit`, `evidence_cap=1`": {"evidence_cap": 1},
    f"`fit` on the last {_WINDOW:,} samples, every {_WINDOW // 2:,}": None,
}


def log_likelihood_ahead(rows: Rows, params: dict[str, Any] | None, seed: int) -> float:
    """Return the mean log-likelihood of each batch before it is learned, in the second half."""
    model, found = PBPRegressor(random_state=seed, **(params or {})), []
    for start in range(0, _N_DRIFT, _BATCH):
        batch = slice(start, start + _BATCH)
        if start >= _N_DRIFT // 2:
            predicted = model.predict_distribution(rows.X[batch])
            found.append(predicted.logpdf(rows.y[batch]))
        if params is not None:
            model.partial_fit(rows.X[batch], rows.y[batch])
        elif start % (_WINDOW // 2) == 0:
            recent = slice(max(0, start + _BATCH - _WINDOW), start + _BATCH)
            model.fit(rows.X[recent], rows.y[recent])
    return float(np.mean(found))


def drift_page(drift: dict[str, dict[str, list[float]]]) -> dict[str, str]:
    """Return the table of relations that change."""
    rows = [[title, *(mean(runs, 2) for runs in by.values())] for title, by in drift.items()]
    return {"streams_drift": table(["", "gradual drift", "sudden drift"], rows) + "\n"}


def evaluate(case: Case, seed: int, n_train: int) -> Figures:
    """Train on the rows of a seed as a case says, and score on new ones."""
    rows, test = made(seed, n_train)
    model = PBPRegressor(random_state=seed, **case.params)
    order = case.order(rows)
    case.learn(model, Rows(rows.X[order], rows.y[order]))
    predicted = model.predict_distribution(test.X)
    return {
        "rmse": metrics.rmse(test.y, predicted.mean),
        "log_likelihood": float(np.mean(predicted.logpdf(test.y))),
        "coverage": metrics.interval_coverage(test.y, *predicted.interval(0.95)),
        "epistemic_std": float(predicted.epistemic_std.mean()),
    }


def main(argv: Sequence[str] | None = None, load: Callable[[], Rows | None] = load_boston) -> None:
    parser = parser_of("streams", __doc__)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    parser.add_argument("--rows", type=int, default=_N_TRAIN, help="of Friedman's function")
    parser.add_argument("--many", type=int, default=60, help="seeds on Boston")
    arguments = parser.parse_args(argv)
    found: dict[str, dict[str, list[Figures]]] = {}
    known: dict[int, list[Figures]] = {}  # what two tables share is run once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        for name, cases in TABLES.items():
            found[name] = {}
            for title, case in cases.items():
                say(f"{name}: {title}")
                if id(case) not in known:
                    known[id(case)] = [
                        evaluate(case, seed, arguments.rows) for seed in range(arguments.seeds)
                    ]
                found[name][title] = known[id(case)]
        once: dict[str, list[list[float]]] = {}
        if (boston := load()) is not None:
            for title, case in ONCE.items():
                say(f"once: {title}")
                seeds = range(arguments.many)
                once[title] = [[error_of_once(case, k, n, boston) for k in seeds] for n in LAYERS]
        drift: dict[str, dict[str, list[float]]] = {}
        for title, params in DRIFT.items():
            say(f"drift: {title}")
            drift[title] = {
                how: [
                    log_likelihood_ahead(drifting(seed, how), params, seed)
                    for seed in range(arguments.seeds)
                ]
                for how in ("gradual", "sudden")
            }
    written = {"tables": found, "once": once, "drift": drift}
    tables = pages(found) | once_page(once) | drift_page(drift)
    write(arguments.results, "streams", written, tables)


def pages(found: dict[str, dict[str, list[Figures]]]) -> dict[str, str]:
    """Return the tables by the names of their files."""
    header = ["", "RMSE", "log-likelihood", "in the 95 % interval", "mean `epistemic_std`"]
    return {
        f"streams_{name}": table(header, [_row(*case) for case in cases.items()]) + "\n"
        for name, cases in found.items()
    }


def once_page(once: dict[str, list[list[float]]]) -> dict[str, str]:
    """Return the table of Boston: the median and the largest error."""
    if not once:
        return {}
    header = ["", *("1 layer" if n == 1 else f"{n} layers" for n in LAYERS)]
    rows = [
        [title, *(f"{np.median(errors):.2f} ({_brief(max(errors))})" for errors in by_layers)]
        for title, by_layers in once.items()
    ]
    return {"streams_once": table(header, rows) + "\n"}


def _row(title: str, runs: list[Figures]) -> list[str]:
    errors, log_p, coverage, stds = ([run[what] for run in runs] for what in runs[0])
    between = f"{_brief(min(errors))} to {_brief(max(errors))}"
    return [
        title,
        f"{_brief(float(np.mean(errors)))} ({between})",
        mean(log_p, 2) if abs(np.mean(log_p)) < 100.0 else mean(log_p, 0),
        f"{100.0 * np.mean(coverage):.1f} %",
        _brief(float(np.mean(stds))),
    ]


def _brief(value: float) -> str:
    return f"{value:.2f}" if value < 10.0 else f"{float(f'{value:.3g}'):,g}"


if __name__ == "__main__":
    main()
