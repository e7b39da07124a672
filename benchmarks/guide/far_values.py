"""Values far outside the training range: ``python -m benchmarks.guide.far_values``.

It fits `PBPRegressorCV` to synthetic data with and without the bounds of the features, in four
groups: single far values in training samples, in test samples or in both; log-normal features; test
samples just beyond the training range; and splits of benchmark sets, which are left out if their
files are not at hand. ``docs/results/far_values.md`` is the table; rows are in
``far_values.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import NamedTuple
from unittest import mock

import numpy as np

from benchmarks.guide.pages import Figures, at_hand, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPRegressorCV
from probprop._types import Array, FloatArray
from probprop.encoding.bounds import InputBounds, fit_bounds
from probprop.estimators.cv import base
from probprop_lab.experiments.harness.benchmark import load_split

SEEDS = range(2)
TAIL_SEEDS = range(6)
DISTANCES = (12.0, 40.0, 1000.0)  # standard deviations from the mean
PLACES = ("training", "test", "both")
EFFECTS = ("linear", "saturating")
TARGETS = ("plain", "positive")
TAILS = (1.0, 2.0)  # standard deviation of the logarithm of the log-normal features
BEYOND = 0.2  # of the range, by which test samples may exceed it
SETS = {"boston_housing": "Boston housing", "concrete": "concrete", "yacht": "yacht"}
SPLITS = range(5)
_UNITS, _CENTERS = np.array([1.0, 10.0, 0.1, 1.0, 1.0]), np.array([0.0, 50.0, 3.0, 0.0, 0.0])
_WAYS = ("with", "without")


class Sizes(NamedTuple):
    """Numbers of synthetic samples."""

    train: int
    test: int


USUAL = Sizes(400, 300)


class Split(NamedTuple):
    """Training and test samples.

    Parameters
    ----------
    X, y : ndarray of shape (n, n_features) and (n,)
    X_test, y_test : ndarray of shape (n_test, n_features) and (n_test,)
    far : ndarray of bool, (n_test,)
        Test samples with a value beyond the training range.
    """

    X: Array
    y: Array
    X_test: Array
    y_test: Array
    far: Array


def main(
    argv: Sequence[str] | None = None,
    chosen: Sequence[Figures] | None = None,
    sizes: Sizes = USUAL,
) -> None:
    """Measure the chosen cases, or all of `cases`."""
    arguments = parser_of("far_values", __doc__).parse_args(argv)
    measured = partial(measure, sizes=sizes)
    if chosen is None:
        chosen = cases(at_hand(SETS))
    rows = rows_of(arguments.results / "far_values.jsonl", chosen, measured)
    write_pages(arguments.results, {"far_values": page(rows)})


def cases(sets: Sequence[str]) -> list[Figures]:
    """Return the arguments of `measure` for all tables: of synthetic data, and of these sets."""
    single: list[Figures] = [
        {"group": "single", "effect": effect, "target": target, "seed": seed}
        for effect, target, seed in product(EFFECTS, TARGETS, SEEDS)
    ]
    return [
        *({**c, "distance": d, "where": w} for d in DISTANCES for w in PLACES for c in single),
        *(
            {"group": "log-normal", "effect": effect, "tail": tail, "seed": seed}
            for tail, effect, seed in product(TAILS, ("linear", "logarithmic"), TAIL_SEEDS)
        ),
        *(
            {"group": "trend", "shape": shape, "target": target, "seed": seed}
            for shape, target, seed in product(("uniform", "normal"), TARGETS, SEEDS)
        ),
        *(
            {"group": "benchmark", "dataset": name, "seed": split}
            for name in sets
            for split in SPLITS
        ),
    ]


def measure(group: str, sizes: Sizes, **case: float | str) -> Figures:
    """Score a model with bounds and one without."""
    split = GROUPS[group](sizes, **case)
    return {
        "with": scored(split, fit_bounds),
        "without": scored(split, unbounded),
    }


def scored(split: Split, rule: Callable[[Array], InputBounds]) -> Figures:
    """Fit with bounds found by a rule; score ordinary and far test samples separately.

    The RMSE is in standard deviations of the targets of all test samples.
    """
    with mock.patch.object(base, "fit_bounds", rule):
        model = PBPRegressorCV(budget="fast", random_state=0).fit(split.X, split.y)
    found = {}
    for name, rows in (("ordinary", ~split.far), ("far", split.far)):
        if rows.any():
            y = split.y_test[rows]
            predicted = model.predict_distribution(split.X_test[rows])
            low, high = predicted.interval(0.95)
            found[name] = {
                "rmse": _root_mean_square((predicted.mean - y) / np.std(split.y_test)),
                "log_likelihood": float(np.mean(predicted.logpdf(y))),
                "coverage_95": float(np.mean((low <= y) & (y <= high))),
            }
    return found


def _root_mean_square(values: FloatArray) -> float:
    largest = np.abs(values).max()  # whose square may overflow
    return float(largest * np.sqrt(np.mean((values / largest) ** 2)))


def unbounded(X: Array) -> InputBounds:
    """Return bounds that leave every value as it is."""
    most = np.full(X.shape[1], np.finfo(np.float64).max)
    return InputBounds(-most, most, np.zeros(X.shape[1]))


# ---- The data


def single(sizes: Sizes, effect: str, target: str, seed: int, distance: float, where: str) -> Split:
    """Return samples of which two training and three test samples have a far value.

    A far value is a recording error if the effects are linear: the target does not follow it. If
    the effects are saturating, the value is true.
    """
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    Z, noise = rng.standard_normal((n, 5)), rng.standard_normal(n)
    recorded, far = Z.copy(), np.zeros(sizes.test, dtype=bool)
    if where != "test":
        recorded[7, 0], recorded[9, 1] = distance, -distance
    if where != "training":
        test = recorded[sizes.train :]
        test[3, 0], test[5, 1], test[8, 2] = 1.1 * distance, distance, -distance
        far[[3, 5, 8]] = True
    if effect == "linear":
        truth = Z[:, 0] + 0.7 * Z[:, 1] + 0.5 * Z[:, 2] * Z[:, 3]
    else:
        bent = np.tanh(recorded)
        truth = 2.0 * bent[:, 0] + 1.4 * bent[:, 1] + bent[:, 2] * Z[:, 3]
    y = _target(truth + 0.3 * noise, target)
    return _split(recorded * _UNITS + _CENTERS, y, far, sizes.train)


def log_normal(sizes: Sizes, effect: str, tail: float, seed: int) -> Split:
    """Return samples with two log-normal features, without far values on purpose."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    Z, noise = rng.standard_normal((n, 4)), rng.standard_normal(n)
    X = np.concatenate([np.exp(tail * Z[:, :2]), Z[:, 2:]], axis=1)
    first = X[:, 0] / np.std(X[:, 0]) if effect == "linear" else Z[:, 0] + np.sin(2.0 * Z[:, 1])
    return _split(X, first + Z[:, 2] + 0.2 * noise, np.zeros(sizes.test, dtype=bool), sizes.train)


def trend(sizes: Sizes, shape: str, target: str, seed: int) -> Split:
    """Return samples with linear effects, and test samples a little beyond the training range."""
    rng = np.random.default_rng(seed)
    n = sum(sizes)
    X, noise = rng.uniform(-1.0, 1.0, (n, 3)), rng.standard_normal(n)
    if shape == "normal":
        X = np.clip(0.4 * rng.standard_normal((n, 3)), -1.0, 1.0)
    beyond = sizes.test // 2
    X[sizes.train : sizes.train + beyond, 0] = 1.0 + 2.0 * BEYOND * rng.uniform(size=beyond)
    y = _target(1.5 * X[:, 0] + X[:, 1] + 0.1 * noise, target)
    return _split(X, y, np.arange(sizes.test) < beyond, sizes.train)


def benchmark(_: Sizes, dataset: str, seed: int) -> Split:
    """Return a fixed split of a benchmark set."""
    X, y, X_test, y_test = load_split(dataset, seed)[:4]
    return Split(X, y, X_test, y_test, np.zeros(len(y_test), dtype=bool))


GROUPS: dict[str, Callable[..., Split]] = {
    "single": single,
    "log-normal": log_normal,
    "trend": trend,
    "benchmark": benchmark,
}


def _target(y: FloatArray, target: str) -> FloatArray:
    return np.exp(0.7 * y) if target == "positive" else y


def _split(X: Array, y: Array, far: Array, n: int) -> Split:
    return Split(X[:n], y[:n], X[n:], y[n:], far)


# ---- The page


def page(rows: list[Figures]) -> str:
    """Return the table: a line for the tables that have certain arguments in common."""
    header = ["", "tables", "RMSE with", "without", "log-likelihood with", "without"]
    header += ["in the 95 % interval with", "without"]
    lines = [
        _line(title, samples, [row for row in rows if case.items() <= row.items()])
        for title, samples, case in _lines()
    ]
    return table(header, [line for line in lines if line]) + "\n"


def _lines() -> list[tuple[str, str, Figures]]:
    """Return titles, which test samples are scored, and the arguments of the tables."""
    far = {"linear": "errors", "saturating": "true values"}
    return [
        *(
            (f"training outliers, {d:,g} std", "ordinary", {"where": "training", "distance": d})
            for d in DISTANCES
        ),
        *(
            (f"test: {far[e]}, {t} target", "far", {"where": "test", "effect": e, "target": t})
            for e, t in product(EFFECTS, TARGETS)
        ),
        *(
            (f"training and test, {d:,g} std", "far", {"where": "both", "distance": d})
            for d in DISTANCES
        ),
        *(
            (f"log-normal features, {e} effect", "ordinary", {"group": "log-normal", "effect": e})
            for e in ("linear", "logarithmic")
        ),
        *(
            (
                f"up to {100.0 * BEYOND:g} % beyond the range, {t} target",
                "far",
                {"group": "trend", "target": t},
            )
            for t in TARGETS
        ),
        *((title, "ordinary", {"dataset": name}) for name, title in SETS.items()),
    ]


def _line(title: str, samples: str, rows: list[Figures]) -> list[str]:
    """Return the cells, or none without rows."""
    if not rows:
        return []

    def each(what: str) -> list[list[float]]:
        return [[row[way][samples][what] for row in rows] for way in _WAYS]

    return [
        title,
        str(len(rows)),
        *(f"{_short(np.median(errors))} ({_short(max(errors))})" for errors in each("rmse")),
        *(mean(values, 2) for values in each("log_likelihood")),
        *(f"{100.0 * np.mean(values):.0f} %" for values in each("coverage_95")),
    ]


def _short(value: float) -> str:
    return f"{value:.2f}" if value < 1000.0 else f"{value:.0e}".replace("e+", "e")


if __name__ == "__main__":
    main()
