"""One network for two targets, or one for each: writes ``docs/results/targets.md``.

On energy, which has a heating and a cooling load, and on made targets with nothing in common. The
fits have the same parameters and seeds; energy's splits are the first fixed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from benchmarks.clock import say, timed
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from probprop import PBPRegressor, metrics
from probprop._types import FloatArray
from probprop_lab import datasets
from probprop_lab.datasets.registry import find_source
from probprop_lab.datasets.store import download, find_raw

N_REPETITIONS = 10
SETTINGS: dict[str, dict[str, Any]] = {
    "`PBPRegressor()`": {},
    "`n_epochs=100, evidence_cap=10`": {"n_epochs": 100, "evidence_cap": 10},
    "two layers of 50": {"hidden_layer_sizes": (50, 50)},
}
TARGETS = ("heating", "cooling")

_N_ROWS, _NOISE_STD = 1_000, 0.3  # of the synthetic targets: to fit, and the same number to test


class Data(NamedTuple):
    """Training and test rows; two targets."""

    X_train: FloatArray
    Y_train: FloatArray
    X_test: FloatArray
    Y_test: FloatArray


def energy(split: int) -> Data:
    """Return a fixed split of energy with both of its loads."""
    X, Y = datasets.load("energy").X, loads()
    train, test = datasets.splits("energy")[split]
    return Data(X[train], Y[train], X[test], Y[test])


def loads() -> FloatArray:
    """Return the heating and the cooling load of all buildings, of which the loader has one."""
    source = find_source("energy")
    both: FloatArray = source.read(find_raw(source) or download(source))[:, 8:]
    return both


def strangers(seed: int, n: int = _N_ROWS) -> Data:
    """Return two targets, each a smooth function of four features of its own, and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((2 * n, 8))
    a, b = X[:, :4].T, X[:, 4:].T
    smooth = [np.sin(2.0 * x[0]) + x[1] * x[2] + np.tanh(x[3]) for x in (a, b)]
    Y = np.column_stack(smooth) + _NOISE_STD * rng.standard_normal((2 * n, 2))
    return Data(X[:n], Y[:n], X[n:], Y[n:])


def evaluate(data: Data, seed: int, together: bool, **params: Any) -> Figures:
    """Fit one network for both targets, or one for each; return what each target gets."""
    targets = [data.Y_train] if together else list(data.Y_train.T)
    model = PBPRegressor(random_state=seed, **params)
    fits = [timed(partial(clone(model).fit, data.X_train, y)) for y in targets]
    predicted = [fitted.predict_distribution(data.X_test) for _, fitted in fits]
    if together:
        predicted = predicted[0].targets()
    pairs = list(zip(data.Y_test.T, predicted, strict=True))
    return {
        "rmse": [metrics.rmse(y, p.mean) for y, p in pairs],
        "log_likelihood": [float(np.mean(p.logpdf(y))) for y, p in pairs],
        "seconds": sum(seconds for seconds, _ in fits),
    }


def main(argv: Sequence[str] | None = None, load: Callable[[int], Data] = energy) -> None:
    parser = parser_of("targets", __doc__)
    parser.add_argument("--repetitions", type=int, default=N_REPETITIONS)
    parser.add_argument("--rows", type=int, default=_N_ROWS, help="of the synthetic targets")
    arguments = parser.parse_args(argv)
    repetitions, n = range(arguments.repetitions), arguments.rows
    found: dict[str, dict[str, list[Figures]]] = {}
    for setting, params in SETTINGS.items():
        say(f"energy, {setting}")
        found[setting] = {
            way: [evaluate(load(k), k, way == "both", **params) for k in repetitions]
            for way in ("each", "both")
        }
    say("targets with nothing in common")
    made = {
        "each": [evaluate(strangers(k, n), k, False) for k in repetitions],
        "both": [evaluate(strangers(k, n), k, True) for k in repetitions],
        "both, 100 units": [
            evaluate(strangers(k, n), k, True, hidden_layer_sizes=(100,)) for k in repetitions
        ],
    }
    written = {"energy": found, "made": made}
    write(arguments.results, "targets", written, {"targets": page(written, n)})


def page(written: Figures, n_rows: int) -> str:
    """Return the table of energy and the sentence on the made targets."""
    rows = []
    for setting, runs_of in written["energy"].items():
        for k, target in enumerate(TARGETS):
            rmse, log_p = (
                {way: [f[what][k] for f in runs] for way, runs in runs_of.items()}
                for what in ("rmse", "log_likelihood")
            )
            rows.append(
                [
                    setting if k == 0 else "",
                    target,
                    mean(rmse["each"], 2),
                    mean(rmse["both"], 2),
                    difference(rmse["both"], rmse["each"], 2),
                    mean(log_p["each"], 3),
                    mean(log_p["both"], 3),
                    difference(log_p["both"], log_p["each"], 3),
                ]
            )
    ways = ["each", "both", "both − each"]
    header = ["", "target", *(f"RMSE: {w}" for w in ways), *(f"log-likelihood: {w}" for w in ways)]
    shares = [
        np.median([b["seconds"] / e["seconds"] for b, e in zip(w["both"], w["each"], strict=True)])
        for w in written["energy"].values()
    ]
    per_target = {
        way: [float(np.mean(f["log_likelihood"])) for f in runs]
        for way, runs in written["made"].items()
    }
    n = len(per_target["each"])
    each = per_target["each"]
    return "\n".join(
        [
            table(header, rows, texts=(0, 1)),
            "",
            f"One network takes {min(shares):.1f} to {max(shares):.1f} times the processor "
            f"seconds of two. Over {n} draws of synthetic targets with nothing in common, "
            f"{n_rows:,} rows to fit, the log-likelihood per target of one network of 50 units "
            f"for both, minus two of 50, is {difference(per_target['both'], each, 3)}; of "
            f"one of 100 units, {difference(per_target['both, 100 units'], each, 3)}.",
            "",
        ]
    )


if __name__ == "__main__":
    main()
