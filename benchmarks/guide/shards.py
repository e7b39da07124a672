"""One fit shared by the threads of a machine: ``python -m benchmarks.guide.shards``.

``docs/results/shards_cost.md`` says what the rounds cost and what threads can gain, and
``shards_epochs.md`` how good the fit is after a few epochs.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence

import numpy as np

from benchmarks.clock import median, say, timed
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from benchmarks.scale_out_fit import rows
from probprop import PBPRegressor
from probprop._types import FloatArray

SIZES = (100_000, 1_000_000)
EPOCHS = (3, 6, 12, 40)
_COST_EPOCHS = 5
_CORES = (2, 8)
N_SHARDS = 8

Rows = tuple[FloatArray, FloatArray]


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("shards", __doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="of the fits that are timed")
    parser.add_argument("--seeds", type=int, default=5, help="of the fits that are scored")
    arguments = parser.parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        costs = [cost(n, arguments.repetitions) for n in SIZES]
        scored = [evaluate(n, seed) for seed in range(arguments.seeds) for n in EPOCHS]
    written = {"cost": costs, "epochs": scored}
    write(arguments.results, "shards", written, pages(costs, scored))


def made(n: int, seed: int) -> Rows:
    """Return rows of 20 features, a smooth function of three of them with noise."""
    frame = rows(n, seed)
    y = frame.pop("y").to_numpy()
    return np.ascontiguousarray(frame.to_numpy()), y


# ---- What it costs


def cost(n: int, n_repetitions: int) -> Figures:
    """Return the processor seconds of a fit in one piece and shared, in turns; medians.

    `alone` is the time of the thread that combines what the others learned: on idle cores the
    fit takes it and an equal share of the rest.
    """
    data = made(n, 0)
    found: dict[str, list[float]] = {"one": [], "shared": [], "alone": []}
    for repetition in range(n_repetitions):
        say(f"{n:,} rows, repetition {repetition + 1} of {n_repetitions}")
        found["one"].append(timed(lambda: _fit(data, _COST_EPOCHS, None, 0))[0])
        before = time.thread_time()
        found["shared"].append(timed(lambda: _fit(data, _COST_EPOCHS, N_SHARDS, 0))[0])
        found["alone"].append(time.thread_time() - before)
    return {"n": n, **{name: median(values) for name, values in found.items()}}


def gain(figures: Figures, n_cores: int) -> float:
    """Return the largest possible speed-up of the shared fit on idle cores.

    Examples
    --------
    >>> gain({"one": 3.0, "shared": 4.0, "alone": 1.0}, 2)
    1.2
    """
    alone = figures["alone"]
    return float(figures["one"] / (alone + (figures["shared"] - alone) / n_cores))


# ---- How good it is


def evaluate(n_epochs: int, seed: int, n_learned: int = 100_000, n_new: int = 20_000) -> Figures:
    """Return the log-likelihood of new rows after a fit in one piece, and shared."""
    say(f"{n_epochs} epochs, seed {seed}")
    learned, new = made(n_learned, 2 * seed + 1), made(n_new, 2 * seed + 2)
    found: Figures = {"n_epochs": n_epochs, "seed": seed}
    for name, n_shards in (("one", None), ("shared", N_SHARDS)):
        predicted = _fit(learned, n_epochs, n_shards, seed).predict_distribution(new[0])
        found[name] = float(np.mean(predicted.logpdf(new[1])))
    return found


def _fit(data: Rows, n_epochs: int, n_shards: int | None, seed: int) -> PBPRegressor:
    model = PBPRegressor(n_epochs=n_epochs, evidence_cap=3, n_shards=n_shards, random_state=seed)
    return model.fit(*data)


# ---- The pages


def pages(costs: list[Figures], scored: list[Figures]) -> dict[str, str]:
    """Return both tables by the names of their files."""
    header = [
        "rows",
        "one piece, processor s",
        "shared, processor s",
        "of it in one thread",
        *(f"gain, {n} cores" for n in _CORES),
    ]
    lines = [
        [
            f"{f['n']:,}",
            *(f"{f[name]:.2f}" for name in ("one", "shared", "alone")),
            *(f"{gain(f, n):.2f}" for n in _CORES),
        ]
        for f in costs
    ]
    after = []
    for n_epochs in EPOCHS:
        runs = [f for f in scored if f["n_epochs"] == n_epochs]
        one, shared = ([f[name] for f in runs] for name in ("one", "shared"))
        after.append([str(n_epochs), mean(one, 3), mean(shared, 3), difference(shared, one, 3)])
    titles = ["epochs", "one piece", "eight shards", "difference"]
    return {
        "shards_cost": table(header, lines, texts=()) + "\n",
        "shards_epochs": table(titles, after, texts=()) + "\n",
    }


if __name__ == "__main__":
    main()
