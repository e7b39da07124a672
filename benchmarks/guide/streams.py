"""Streams of Friedman's function: ``python -m benchmarks.guide.streams`` writes their three tables.

``docs/results/streams_passes.md`` has streams beside fits, ``streams_first.md`` what the first
batch does, and ``streams_order.md`` what the order of the rows does.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
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

N_SEEDS = 5
_N_TRAIN, _N_TEST = 10_000, 2_000

Figures = dict[str, float]


class Rows(NamedTuple):
    """Features and targets."""

    X: FloatArray
    y: FloatArray


def made(seed: int) -> tuple[Rows, Rows]:
    """Return 10,000 rows of Friedman's function with noise 1, and 2,000 to test."""
    X, y = make_friedman1(_N_TRAIN + _N_TEST, n_features=10, noise=1.0, random_state=seed)
    return Rows(X[:_N_TRAIN], y[:_N_TRAIN]), Rows(X[_N_TRAIN:], y[_N_TRAIN:])


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
    """Return a stream: so many rows in the first call, and so many in every other."""

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


def judge(case: Case, seed: int) -> Figures:
    """Learn the rows of a seed as a case says, and judge on new ones."""
    rows, test = made(seed)
    model = PBPRegressor(random_state=seed, **case.params)
    order = case.order(rows)
    case.learn(model, Rows(rows.X[order], rows.y[order]))
    predicted = model.predict_distribution(test.X)
    return {
        "rmse": metrics.rmse(test.y, predicted.mean),
        "log_likelihood": float(np.mean(predicted.logpdf(test.y))),
        "coverage": metrics.interval_coverage(test.y, *predicted.interval(0.95)),
        "std_model": float(predicted.std_model.mean()),
    }


def main() -> None:
    parser = parser_of("streams", __doc__)
    parser.add_argument("--seeds", type=int, default=N_SEEDS)
    arguments = parser.parse_args()
    found: dict[str, dict[str, list[Figures]]] = {}
    known: dict[int, list[Figures]] = {}  # what two tables share is run once
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        for name, cases in TABLES.items():
            found[name] = {}
            for title, case in cases.items():
                say(f"{name}: {title}")
                if id(case) not in known:
                    known[id(case)] = [judge(case, seed) for seed in range(arguments.seeds)]
                found[name][title] = known[id(case)]
    written = {"tables": found}
    write(arguments.results, "streams", written, pages(found))


def pages(found: dict[str, dict[str, list[Figures]]]) -> dict[str, str]:
    """Return the tables by the names of their files."""
    header = ["", "RMSE", "log-likelihood", "in the 95 % interval", "mean `std_model`"]
    return {
        f"streams_{name}": table(header, [_row(*case) for case in cases.items()]) + "\n"
        for name, cases in found.items()
    }


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
