"""Noise of each row, and tails: ``python -m benchmarks.guide.noises`` makes figures of their page.

``docs/results/noises_held.md`` has the coverage on the page's synthetic data,
``noises_motorcycle.md`` what more passes do, ``noises_tails.md`` compares heavy tails with Gaussian
ones on the first fixed splits, and ``noises_outliers.md`` and ``noises_cost.md`` are sentences.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import RepeatedKFold

from benchmarks.clock import median, say, seconds_per_call, timed
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from probprop import PBPRegressor, metrics
from probprop._types import FloatArray
from probprop_lab.experiments.harness.benchmark import Loader, Parts, load_split

SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")
NOISES: tuple[Literal["constant", "input"], ...] = ("constant", "input")
TAILS: tuple[Literal["gaussian", "heavy"], ...] = ("gaussian", "heavy")
MOTORCYCLE = Path(__file__).resolve().parents[2] / "examples" / "data" / "motorcycle.csv"
_N_SPLITS = 10
_N_NEW = 10_000
_N_PASSES = 20  # of the motorcycle's rows, after the fit
_SHARE, _SHIFT = 0.02, 100.0  # of the targets are outliers; in standard deviations


def trumpet(n: int, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return rows of the page's example: x, the targets, and what they scatter around."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.0, 10.0, (n, 1))
    truth = 3.0 * np.sin(X[:, 0] / 3.0)
    return X, truth + (0.1 + 0.12 * X[:, 0]) * rng.standard_normal(n), truth


def held() -> dict[str, dict[str, float]]:
    """Return how many new targets the 95 % intervals hold, in all and by quarters of x."""
    X, y, _ = trumpet(1_000, 0)
    new, targets, _ = trumpet(_N_NEW, 1)
    quarter = np.minimum(new[:, 0] // 2.5, 3)
    found: dict[str, dict[str, float]] = {}
    for noise in NOISES:
        model = PBPRegressor(noise=noise, random_state=0).fit(X, y)
        low, high = model.predict_distribution(new).interval(0.95)
        inside = (low <= targets) & (targets <= high)
        found[noise] = {"all": float(inside.mean())} | {
            f"quarter {k + 1}": float(inside[quarter == k].mean()) for k in range(4)
        }
    return found


def motorcycle(n_repeats: int) -> dict[str, float]:
    """Return the out-of-fold log-likelihood, in ten folds, repeated."""
    time, y = np.loadtxt(MOTORCYCLE, delimiter=",", skiprows=3, unpack=True)
    X = time[:, np.newaxis]
    scores: dict[str, list[FloatArray]] = {"constant": [], "input": [], "passes": []}
    for train, test in RepeatedKFold(n_splits=10, n_repeats=n_repeats, random_state=0).split(X):
        for noise in NOISES:
            model = PBPRegressor(
                (20, 20), noise=noise, n_epochs=200, evidence_cap=30, random_state=0
            )
            model.fit(X[train], y[train])
            scores[noise].append(model.predict_distribution(X[test]).logpdf(y[test]))
        for _ in range(_N_PASSES):
            model.partial_fit(X[train], y[train])
        scores["passes"].append(model.predict_distribution(X[test]).logpdf(y[test]))
    return {way: float(np.concatenate(found).mean()) for way, found in scores.items()}


def tails(parts: Parts, split: int) -> dict[str, Figures]:
    """Fit both tails to a split, as it is and with outliers; score on its clean test rows."""
    X, y, X_test, y_test = parts
    rng = np.random.default_rng(split)
    wild = np.array(y)
    wild[rng.choice(len(y), round(_SHARE * len(y)), replace=False)] += _SHIFT * y.std()
    found: dict[str, Figures] = {}
    for tail in TAILS:
        model = PBPRegressor(noise_tail=tail, random_state=split)
        seconds, _ = timed(partial(model.fit, X, y))
        predicted = model.predict_distribution(X_test)
        found[tail] = {
            "rmse": metrics.rmse(y_test, predicted.mean),
            "log_likelihood": float(np.mean(predicted.logpdf(y_test))),
            "coverage": metrics.interval_coverage(y_test, *predicted.interval(0.95)),
            "seconds": seconds,
            "rmse_outliers": metrics.rmse(y_test, model.fit(X, wild).predict(X_test)) / y.std(),
        }
    return found


def outliers() -> Figures:
    """Return what the intervals are after the outliers of the page's code, and without any."""
    X, y, _ = trumpet(1_000, 0)
    new, targets, _ = trumpet(_N_NEW, 1)
    wild = y.copy()
    wild[::50] += 30.0
    models: dict[str, PBPRegressor] = {
        tail: PBPRegressor(noise_tail=tail, random_state=0).fit(X, wild) for tail in TAILS
    }
    models["without"] = PBPRegressor(random_state=0).fit(X, y)
    found: Figures = {}
    for name, model in models.items():
        predicted = model.predict_distribution(new)
        low, high = predicted.interval(0.95)
        found[name] = {
            "in 50 %": metrics.interval_coverage(targets, *predicted.interval(0.5)),
            "width": float(np.median(high - low)),
        }
    return found


def prediction_cost(n_pairs: int) -> float:
    """Return how many times as long as with constant noise a prediction takes, on diabetes."""
    X, y = load_diabetes(return_X_y=True)
    constant, own = (PBPRegressor(noise=noise, random_state=0).fit(X, y) for noise in NOISES)
    pairs = [
        [seconds_per_call(partial(m.predict, X, return_std=True), 20) for m in (constant, own)]
        for _ in range(n_pairs)
    ]
    return median([after / before for before, after in pairs])


def main(argv: Sequence[str] | None = None, load: Loader = load_split) -> None:
    parser = parser_of("noises", __doc__, SETS)
    parser.add_argument("--splits", type=int, default=_N_SPLITS, help="of each set")
    parser.add_argument("--repeats", type=int, default=2, help="of the motorcycle's ten folds")
    parser.add_argument("--pairs", type=int, default=15, help="of timings")
    arguments = parser.parse_args(argv)
    written: Figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        say("synthetic data and the motorcycle")
        written["held"] = held()
        written["outliers"] = outliers()
        written["prediction"] = prediction_cost(arguments.pairs)
        written["motorcycle"] = motorcycle(arguments.repeats)
        for dataset in arguments.sets:
            say(f"tails: {dataset}")
            runs = [tails(load(dataset, split), split) for split in range(arguments.splits)]
            written.setdefault("tails", {})[dataset] = runs
    write(arguments.results, "noises", written, pages(written))


def pages(written: Figures) -> dict[str, str]:
    """Return the table and the sentences by the names of their files."""
    scores = written["motorcycle"]
    constant, own, passes = (mean([scores[k]], 2) for k in ("constant", "input", "passes"))
    return {
        "noises_held": _held_page(written["held"]),
        "noises_motorcycle": (
            f"On the motorcycle data of the example (133 rows, one feature) the out-of-fold "
            f'log-likelihood is {constant} with constant noise, {own} with `noise="input"`, and '
            f"{passes} after twenty such epochs.\n"
        ),
        "noises_tails": _tails_page(written["tails"]),
        "noises_outliers": _outliers_page(written["outliers"]),
        "noises_cost": (
            f"A prediction takes {written['prediction']:.1f} times the processor time of one with "
            "constant noise (diabetes, 10 features).\n"
        ),
    }


def _percent(share: float, decimals: int = 0) -> str:
    return f"{100.0 * share:.{decimals}f} %"


def _held_page(found: dict[str, dict[str, float]]) -> str:
    quarters = ["from 0 to 2.5", "from 2.5 to 5", "from 5 to 7.5", "from 7.5 to 10"]
    rows = [
        [f'`noise="{noise}"`', *(_percent(share, 1) for share in shares.values())]
        for noise, shares in found.items()
    ]
    header = ["in the 95 % interval", "all new rows", *(f"x {text}" for text in quarters)]
    return table(header, rows) + "\n"


def _tails_page(found: dict[str, list[dict[str, Figures]]]) -> str:
    rows = []
    for dataset, runs in found.items():
        of: dict[str, Any] = {
            what: [[run[tail][what] for run in runs] for tail in TAILS] for what in runs[0]["heavy"]
        }
        held_by, astray = of["coverage"], of["rmse_outliers"]
        rows.append(
            [
                dataset,
                difference(of["log_likelihood"][1], of["log_likelihood"][0], 3),
                f"{np.mean(of['rmse'][1]) / np.mean(of['rmse'][0]):.2f}",
                f"{_percent(np.mean(held_by[1]), 1)} ({_percent(np.mean(held_by[0]), 1)})",
                f"{np.mean(astray[1]):.2f} ({np.mean(astray[0]):.1f})",
                f"{np.median(np.divide(of['seconds'][1], of['seconds'][0])):.1f}",
            ]
        )
    header = [
        f"{len(runs)} splits, 40 epochs",
        "log-likelihood above Gaussian tails",
        "RMSE ratio",
        "in 95 % (Gaussian tails)",
        "RMSE with outliers (Gaussian tails)",
        "times the seconds",
    ]
    return table(header, rows) + "\n"


def _outliers_page(found: Figures) -> str:
    gaussian, heavy, without = (found[k] for k in (*TAILS, "without"))
    return (
        "After outliers as in the code above the 50 % intervals contain "
        f"{_percent(heavy['in 50 %'])} of new, clean targets ({_percent(gaussian['in 50 %'])} with "
        f"Gaussian tails), and the 95 % intervals are {heavy['width']:.1f} wide "
        f"({gaussian['width']:.1f}; {without['width']:.1f} without outliers): there are as many "
        "outliers as the intervals leave out.\n"
    )


if __name__ == "__main__":
    main()
