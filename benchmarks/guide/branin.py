"""To find the lowest value of Branin's function: ``python -m benchmarks.guide.branin``.

``docs/results/branin.md``: expected improvement among 500 candidates, compared with random
candidates.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.clock import median, say
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from probprop import PBPRegressor
from probprop._types import FloatArray
from probprop.active import best_in_pool, expected_improvement

BOX = np.array([(-5.0, 10.0), (0.0, 15.0)])
LEAST = 0.397887  # at three points of the box
N_FIRST = 10  # evaluations at random, before a model is fitted
N_CANDIDATES, N_BEST = 500, 5
EPOCHS = (40, 200)


def branin(X: FloatArray) -> FloatArray:
    """Return Branin's function at points of its box, (n, 2)."""
    x, z = X.T
    valley = z - 5.1 / (4.0 * np.pi**2) * x**2 + 5.0 / np.pi * x - 6.0
    value: FloatArray = valley**2 + 10.0 * (1.0 - 1.0 / (8.0 * np.pi)) * np.cos(x) + 10.0
    return value


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("branin", __doc__)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--candidates", type=int, default=N_CANDIDATES)
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS)
    arguments = parser.parse_args(argv)
    seeds, n = range(arguments.seeds), arguments.candidates
    found: Figures = {"pool": {}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        for n_epochs in arguments.epochs:
            say(f"{n_epochs} epochs")
            params = {"n_epochs": n_epochs}
            found["pool"][str(n_epochs)] = [in_pool(seed, n, **params) for seed in seeds]
    write(arguments.results, "branin", found, {"branin": page(found, n)})


def points(seed: int, n: int) -> FloatArray:
    """Return points of the box at random, (n, 2): the pool; the first ten are measured."""
    return np.random.RandomState(seed).uniform(*BOX.T, (n, 2))


def in_pool(seed: int, n: int, **params: Any) -> int:
    """Return after how many evaluations one of the five best candidates is found."""
    X = points(seed, n)
    y = branin(X)
    best = set(np.argsort(y)[:N_BEST].tolist())
    known = list(range(N_FIRST))
    while not best & set(known):
        model = PBPRegressor(random_state=seed, **params).fit(X[known], y[known])
        score = expected_improvement(model, best=y[known].min(), goal="minimize")
        left = np.setdiff1d(np.arange(len(y)), known)
        known.append(int(left[best_in_pool(score, X[left], random_state=seed)]))
    return 1 + min(known.index(k) for k in best & set(known))


def at_random(n: int) -> int:
    """Return the median of the same for candidates at random, which is known exactly.

    None of the five is among the first m with the probability of drawing m others.
    """
    none_yet, m = 1.0, 0
    while none_yet > 0.5:
        none_yet *= (n - N_BEST - m) / (n - m)
        m += 1
    return m


def page(found: Figures, n: int) -> str:
    """Return a line per way: evaluations until one of the best candidates is found."""
    rows = [["at random", f"{at_random(n)}"]]
    for n_epochs, needed in found["pool"].items():
        rows.append([f"expected improvement, {n_epochs} epochs", _spread(needed, 0)])
    header = ["", f"evaluations to one of the {N_BEST} best of {n} candidates"]
    n_seeds = len(needed)
    return "\n".join(
        [
            table(header, rows),
            "",
            f"Medians of {n_seeds} seeds (range); the first {N_FIRST} evaluations are at random.",
            "",
        ]
    )


def _spread(values: list[float], decimals: int) -> str:
    """Return the median, and the least and the largest."""
    shown = [f"{value:.{decimals}f}" for value in (median(values), min(values), max(values))]
    return f"{shown[0]} ({shown[1]} to {shown[2]})"


if __name__ == "__main__":
    main()
