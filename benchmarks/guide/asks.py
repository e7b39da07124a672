"""Batches, and the warm start of `ActiveLearner`: ``python -m benchmarks.guide.asks``.

``docs/results/asks_batches.md`` has what is lost by asking for several rows at once,
``asks_warm.md`` what `warm_start` saves and costs. Sets whose files are not at hand are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial.distance import pdist

from benchmarks.clock import median, say, timed
from benchmarks.guide.pages import Figures, at_hand, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import change
from probprop import PBPRegressor, metrics
from probprop._types import Array, FloatArray
from probprop.active import ActiveLearner
from probprop_lab.experiments.beyond import acquisition_sets
from probprop_lab.experiments.harness.benchmark import mean_and_error

SETS = ("boston_housing", "energy", "yacht", "concrete")
_HIDDEN = (10,)
_N_ASKED = 20  # rows after the first twenty

Choice = Callable[[ActiveLearner, FloatArray, int], Array]


def ask(learner: ActiveLearner, X: FloatArray, n: int) -> Array:
    return learner.ask(X, n)


def highest(learner: ActiveLearner, X: FloatArray, n: int) -> Array:
    """Return the n rows of the highest variance, however close they are to each other."""
    _, std = learner.estimator_.predict(X, return_std=True)
    return np.argsort(-std, kind="stable")[:n]


class Way(NamedTuple):
    """A strategy, how many rows it gives at a time, and how they are chosen by it."""

    strategy: Any
    batch: int
    choose: Choice = ask


WAYS = {
    "random": Way("random", 1),
    "`variance`, one row at a time": Way("variance", 1),
    "`variance`, the five highest, four times": Way("variance", 5, highest),
    "`variance`, `ask(X, 5)`, four times": Way("variance", 5),
    "`variance_reduction`, one row at a time": Way("variance_reduction", 1),
    "`variance_reduction`, `ask(X, 5)`, four times": Way("variance_reduction", 5),
    "`variance_reduction`, `ask(X, 20)`, once": Way("variance_reduction", 20),
}

FIVE_HIGHEST, FIVE_ASKED = list(WAYS)[2:4]


class Added(NamedTuple):
    """Number of initial rows, of rows added, and of rows per query."""

    dataset: str
    first: int
    n: int
    batch: int
    units: int
    repetitions: int


WARM = (
    *(Added(name, 20, 10, 1, 10, 20) for name in ("boston_housing", "energy", "yacht")),
    Added("kin8nm", 2_000, 500, 50, 50, 5),
)


def main(argv: Sequence[str] | None = None, warm: Sequence[Added] | None = None) -> None:
    """Measure batches, and these warm starts, or all whose sets are at hand."""
    parser = parser_of("asks", __doc__, at_hand(SETS))
    parser.add_argument("--repetitions", type=int, default=20)
    arguments = parser.parse_args(argv)
    if warm is None:
        warm = [added for added in WARM if at_hand([added.dataset])]
    found: Figures = {"batches": {}, "warm": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        for name in arguments.sets:
            say(f"batches: {name}")
            found["batches"][name] = {
                title: [collect(name, k, way) for k in range(arguments.repetitions)]
                for title, way in WAYS.items()
            }
        for added in warm:
            say(f"warm start: {added.dataset}")
            n = min(added.repetitions, arguments.repetitions)
            runs = [{w: tell(added, k, w == "warm") for w in SIDES} for k in range(n)]
            found["warm"].append({**added._asdict(), "runs": runs})
    write(arguments.results, "asks", found, pages(found))


def collect(dataset: str, repetition: int, way: Way) -> Figures:
    """Add twenty rows to twenty; return the last error, and how far rows of a batch are apart."""
    X, y = acquisition_sets.load(dataset)
    train, test, pool = acquisition_sets.split(len(y), repetition)
    model = PBPRegressor(_HIDDEN, random_state=repetition)
    learner = ActiveLearner(model, way.strategy, random_state=repetition)
    learner.tell(X[train], y[train])
    scale, apart = X[pool].std(axis=0), []
    scale[scale == 0.0] = 1.0
    for _ in range(_N_ASKED // way.batch):
        batch = pool[way.choose(learner, X[pool], way.batch)]
        apart += pdist(X[batch] / scale).tolist()
        pool = pool[~np.isin(pool, batch)]
        learner.tell(X[batch], y[batch])
    return {"rmse": _rmse(learner, X[test], y[test]), "apart": float(np.mean(apart or [0.0]))}


SIDES = ("scratch", "warm")


def tell(added: Added, repetition: int, warm: bool) -> Figures:
    """Add rows with a warm start or without; return the last error and the seconds of a `tell`."""
    X, y = acquisition_sets.load(added.dataset)
    train, test, pool = acquisition_sets.split(len(y), repetition, added.first)
    model = PBPRegressor((added.units,), random_state=repetition)
    learner = ActiveLearner(model, warm_start=warm, random_state=repetition)
    learner.tell(X[train], y[train])
    seconds = []
    for _ in range(added.n // added.batch):
        batch = pool[learner.ask(X[pool], added.batch)]
        seconds.append(timed(partial(learner.tell, X[batch], y[batch]))[0])
    return {"rmse": _rmse(learner, X[test], y[test]), "seconds": median(seconds)}


def _rmse(learner: ActiveLearner, X: FloatArray, y: FloatArray) -> float:
    return metrics.rmse(y, learner.estimator_.predict(X))


# ---- The pages


def pages(found: Figures) -> dict[str, str]:
    """Return both tables by the names of their files."""
    return {"asks_batches": _batches(found["batches"]), "asks_warm": _warm(found["warm"])}


def _batches(found: Figures) -> str:
    """Return a line per way, a column per set; and how far rows are apart."""
    errors = {
        name: {title: [run["rmse"] for run in runs] for title, runs in ways.items()}
        for name, ways in found.items()
    }
    rows = [["random: RMSE", *(f"{np.mean(of['random']):.3g}" for of in errors.values())]]
    for title in list(WAYS)[1:]:
        rows.append([title, *(change(of[title], of["random"]) for of in errors.values())])
    apart = [_apart(ways[FIVE_ASKED]) / _apart(ways[FIVE_HIGHEST]) for ways in found.values()]
    n_runs = len(next(iter(found.values()))["random"])
    return "\n".join(
        [
            table(["", *found], rows),
            "",
            f"The RMSE with 40 rows in target units, and what the ways change of it, in percent ± "
            f"standard error of the paired difference; {n_runs} random starts with 20 rows, 10 "
            f"hidden units, 40 epochs. The rows of `ask(X, 5)` are {min(apart):.1f} to "
            f"{max(apart):.1f} times as far apart as the five highest.",
            "",
        ]
    )


def _apart(runs: Sequence[Figures]) -> float:
    return float(np.mean([run["apart"] for run in runs]))


def _warm(found: Sequence[Figures]) -> str:
    """Return a line per set: what a `tell` takes, and the error in the end."""
    rows = []
    for case in found:
        by = "one by one" if case["batch"] == 1 else f"{case['batch']} at a time"
        runs = {side: [run[side] for run in case["runs"]] for side in SIDES}
        milliseconds = [1e3 * median([f["seconds"] for f in runs[side]]) for side in SIDES]
        rows.append(
            [
                f"{case['dataset']}: {case['first']:,}, then {case['n']}, {by}",
                *(f"{ms:.1f} ms" for ms in milliseconds),
                *(_with_error([f["rmse"] for f in runs[side]]) for side in SIDES),
                change(*([f["rmse"] for f in runs[side]] for side in ("warm", "scratch"))) + " %",
            ]
        )
    header = ["rows at first, then added", "`tell` from scratch", "warm", "RMSE from scratch"]
    return table([*header, "warm", "change"], rows) + "\n"


def _with_error(values: Sequence[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.3g} ± {error or 0.0:.1g}"


if __name__ == "__main__":
    main()
