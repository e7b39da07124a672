"""What the paper's competitors depend on: ``python -m benchmarks.guide.competitors``.

The test error on 29 random points, as at the end of the experiment ``active``:
``docs/results/competitors_ep.md`` has EP with several priors of the noise,
``competitors_la.md`` LA from several starts, ``competitors_hmc.md`` longer chains of HMC. Rows that
``competitors.jsonl`` has are not made again. The files of the benchmark sets are needed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.dummy import DummyRegressor

from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import difference
from probprop import metrics
from probprop_lab import datasets
from probprop_lab.baselines import EPRegressor, HMCRegressor, LaplaceRegressor, laplace
from probprop_lab.baselines.hmc import WEAK_NOISE
from probprop_lab.experiments.harness.benchmark import mean_and_error
from probprop_lab.experiments.paper import printed
from probprop_lab.experiments.paper.active import HIDDEN, N_PICKS, split

PRIORS = {
    "Gamma(6, 6)": (6.0, 6.0),
    "Gamma(2, 0.1)": (2.0, 0.1),
    "Gamma(2, 0.02)": (2.0, 0.02),
    "Gamma(6, 0.06)": (6.0, 0.06),
}
"""Of EP's noise precision: shape and rate."""
STARTS = {"0.1 and 10": (0.1, 10.0), "1 and 1": (1.0, 1.0), "10 and 1": (10.0, 1.0)}
"""Of LA: precisions of the weights and of the noise."""
LENGTHS = {"500 draws": 500, "2,000 draws": 2000}
"""Of HMC: draws of all four chains, and steps of adaptation of each."""
CONSTANT = "a constant"


class Comparison(NamedTuple):
    """A method in several forms, on several sets."""

    method: str
    sets: tuple[str, ...]
    variants: tuple[str, ...]
    n_repetitions: int


COMPARISONS = (
    Comparison("EP", ("energy",), tuple(PRIORS), 20),
    Comparison("LA", ("energy", "boston_housing", "yacht"), (*STARTS, CONSTANT), 20),
    Comparison("HMC", ("boston_housing", "energy", "concrete", "kin8nm"), tuple(LENGTHS), 10),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("competitors", __doc__)
    parser.add_argument("--repetitions", type=int, help="of every case, instead of the usual")
    arguments = parser.parse_args(argv)
    cases = [
        {"method": method, "dataset": name, "variant": variant, "repetition": repetition}
        for method, sets, variants, usual in COMPARISONS
        for name in sets
        for repetition in range(arguments.repetitions or usual)
        for variant in variants
    ]
    rows = rows_of(arguments.results / "competitors.jsonl", cases, measure)
    write_pages(arguments.results, pages(rows))


def measure(
    method: str,
    dataset: str,
    variant: str,
    repetition: int,
    load: Callable[[str], Any] = datasets.load,
) -> Figures:
    """Fit on the first 20 points and nine random ones; return the error on 100 others."""
    data = load(dataset)
    rows = split(len(data.y), repetition)
    train = np.concatenate([rows.train, rows.pool[:N_PICKS]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it did not converge: the rows of `active` count
        model = MAKERS[method](variant, repetition, data.X[train], data.y[train])
        predicted = model.predict(data.X[rows.test])
    return {"rmse": metrics.rmse(data.y[rows.test], predicted)}


def _ep(variant: str, seed: int, X: Any, y: Any) -> RegressorMixin:
    shape, rate = PRIORS[variant]
    return EPRegressor(HIDDEN, noise_shape=shape, noise_rate=rate, random_state=seed).fit(X, y)


def _la(variant: str, seed: int, X: Any, y: Any) -> RegressorMixin:
    if variant == CONSTANT:
        return DummyRegressor().fit(X, y)
    with started(*STARTS[variant]):
        return LaplaceRegressor(HIDDEN, random_state=seed).fit(X, y)


@contextmanager
def started(alpha: float, beta: float) -> Iterator[None]:
    """Let LA start from these precisions of the weights and of the noise."""
    kept, laplace.START = laplace.START, laplace.Precisions(alpha, beta)
    try:
        yield
    finally:
        laplace.START = kept


def _hmc(variant: str, seed: int, X: Any, y: Any) -> RegressorMixin:
    n = LENGTHS[variant]
    return HMCRegressor(
        HIDDEN, kernel="hmc", n_samples=n, n_warmup=n, random_state=seed, **WEAK_NOISE
    ).fit(X, y)


MAKERS: dict[str, Callable[[str, int, Any, Any], RegressorMixin]] = {
    "EP": _ep,
    "LA": _la,
    "HMC": _hmc,
}


# ---- The pages


def pages(rows: list[Figures]) -> dict[str, str]:
    """Return a table for each method: a line per variant, a column per set, the paper's last."""
    ep, la, hmc = (_columns(rows, *comparison) for comparison in COMPARISONS)
    first, last = LENGTHS
    longer = [
        [name, *(_told(of[n]) for n in LENGTHS), difference(of[last], of[first], 3)]
        for name, of in hmc.items()
    ]
    header = ["data set", *LENGTHS, "long minus short"]
    return {
        "competitors_ep": _by_variant("prior of the noise precision", ep, "EP-R"),
        "competitors_la": _by_variant("precisions of weights and noise at the start", la, "LA-R"),
        "competitors_hmc": table(header, longer) + "\n",
    }


def _columns(
    rows: list[Figures], method: str, sets: tuple[str, ...], variants: tuple[str, ...], _: int
) -> dict[str, dict[str, list[float]]]:
    """Return the errors of a method by set and variant, in the order of the repetitions."""
    return {
        name: {
            variant: [
                row["rmse"]
                for row in rows
                if (row["method"], row["dataset"], row["variant"]) == (method, name, variant)
            ]
            for variant in variants
        }
        for name in sets
    }


def _by_variant(title: str, columns: dict[str, dict[str, list[float]]], paper: str) -> str:
    variants = list(next(iter(columns.values())))
    lines = [[name, *(_told(of[name]) for of in columns.values())] for name in variants]
    cells = [str(printed.active(name, paper)) for name in columns]
    return table([title, *columns], [*lines, ["the paper's", *cells]]) + "\n"


def _told(values: list[float]) -> str:
    mean, error = mean_and_error(values)
    decimals = 2 if mean > 1.0 else 3
    return f"{mean:.{decimals}f} ± {error:.{decimals}f}"


if __name__ == "__main__":
    main()
