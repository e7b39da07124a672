"""What uncertainty includes and what it misses: ``python -m benchmarks.guide.error_bars``.

``docs/results/error_bars_toy.md`` has the two parts of the standard deviation on the toy problem,
``error_bars_blind.md`` cases in which they are too small, ``error_bars_splits.md`` the coverage
of intervals: on the paper's sets from the rows of Table 1, on diabetes measured here.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from benchmarks.clock import say
from benchmarks.guide.pages import FOLDER, Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPRegressor, metrics
from probprop._types import FloatArray
from probprop_lab.datasets import toy_cubic
from probprop_lab.results import read_rows

WHERE = {0.0: "amid the data", 4.0: "just outside", 6.0: "far outside"}
SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")
_SCORES = ("rmse", "log_likelihood", "coverage_95")
_N_SPLITS = 20
_TOY_SEED = 3  # as in the picture of the page, docs/toy_band.py
_N_ROWS = 2_000


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("error_bars", __doc__)
    parser.add_argument("--seeds", type=int, default=20, help="of the fits of diabetes")
    parser.add_argument("--splits", type=int, default=_N_SPLITS, help="of diabetes")
    parser.add_argument("--rows", type=int, default=_N_ROWS, help="of synthetic data")
    arguments = parser.parse_args(argv)
    say("synthetic data and diabetes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        written = {
            "toy": toy(),
            "outside": outside(),
            "tails": tails(),
            "outliers": outliers(arguments.rows),
            "growing": growing_noise(arguments.rows),
            "gap": gap(),
            "splits": splits(arguments.splits),
            "seeds": {str(n): seeds(n, arguments.seeds) for n in (40, 400)},
        }
    write(arguments.results, "error_bars", written, pages(written))


def toy() -> list[Figures]:
    """Return both parts of the standard deviation of the toy problem, at three inputs."""
    predicted = _toy_model(40).predict_distribution(np.array([[x] for x in WHERE]))
    parts = predicted.epistemic_std, predicted.aleatoric_std, predicted.std
    return [
        {"x": x, "epistemic_std": float(a), "aleatoric_std": float(b), "std": float(c)}
        for x, a, b, c in zip(WHERE, *parts, strict=True)
    ]


def outside() -> Figures:
    """Return where the toy rows end, and where the true curve leaves three standard deviations."""
    X, _ = toy_cubic(random_state=_TOY_SEED)
    line = np.linspace(-8.0, 8.0, 1601)
    predicted = _toy_model(40).predict_distribution(line[:, np.newaxis])
    held = line[np.abs(line**3 - predicted.mean) <= 3.0 * predicted.std]
    return {
        "rows": [float(X.min()), float(X.max())],
        "held": [float(held.min()), float(held.max())],
    }


def splits(n_splits: int) -> Figures:
    """Return means of the scores with default parameters over splits, by set."""
    kept = read_rows(FOLDER / "table1.jsonl")
    found: Figures = {}
    for name in SETS:
        rows = [row for row in kept if (row["dataset"], row["method"]) == (name, "PBP")]
        n_rows, n_features = rows[0]["n_train"] + rows[0]["n_test"], rows[0]["n_features"]
        found[name] = {"n_rows": n_rows, "n_features": n_features, **_means(rows)}
    X, y = load_diabetes(return_X_y=True)
    runs = []
    for k in range(n_splits):
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.1, random_state=k)
        predicted = PBPRegressor(random_state=k).fit(X_train, y_train).predict_distribution(X_test)
        scores = (
            metrics.rmse(y_test, predicted.mean),
            float(np.mean(predicted.logpdf(y_test))),
            _held(predicted, y_test, 0.95),
        )
        runs.append(dict(zip(_SCORES, scores, strict=True)))
    return {"diabetes": {"n_rows": len(y), "n_features": X.shape[1], **_means(runs)}, **found}


def _means(rows: list[Figures]) -> Figures:
    return {what: float(np.mean([row[what] for row in rows])) for what in _SCORES}


def _toy_model(n_epochs: int) -> PBPRegressor:
    return PBPRegressor(100, n_epochs=n_epochs, random_state=0).fit(
        *toy_cubic(random_state=_TOY_SEED)
    )


def tails() -> Figures:
    """Return half widths at x = 0 of the Gaussian and of Student's t, after 1 and 40 epochs."""
    found: Figures = {}
    for n_epochs in (1, 40):
        model = _toy_model(n_epochs)
        here = np.zeros((1, 1))
        both = [model.predict_distribution(here, student_t=t) for t in (False, True)]
        found[str(n_epochs)] = {
            "alpha_noise": float(np.ravel(model.posterior_.alpha_noise)[0]),
            **{
                str(level): [float(np.diff(np.ravel(p.interval(level)))[0] / 2.0) for p in both]
                for level in (0.95, 0.999)
            },
        }
    return found


def outliers(n: int) -> Figures:
    """Return the coverage of the intervals where the noise is Student's t with 2 degrees."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2.0, 2.0, (2 * n, 1))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_t(2.0, 2 * n)
    model = PBPRegressor(random_state=0).fit(X[:n], y[:n])
    predicted = model.predict_distribution(X[n:], student_t=True)
    return {str(level): _held(predicted, y[n:], level) for level in (0.5, 0.999)}


def growing_noise(n: int) -> Figures:
    """Return the coverage of the 95 % intervals where the noise grows tenfold along x."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 2 * n)
    y = np.sin(6.0 * x) + (0.05 + 0.45 * x) * rng.standard_normal(2 * n)
    model = PBPRegressor(random_state=0).fit(x[:n, np.newaxis], y[:n])
    x, y = x[n:], y[n:]
    quarters = {"all": x >= 0.0, "quietest": x < 0.25, "loudest": x >= 0.75}
    return {
        name: _held(model.predict_distribution(x[rows, np.newaxis]), y[rows], 0.95)
        for name, rows in quarters.items()
    }


def gap() -> Figures:
    """Return the standard deviation of the model between two groups of rows, in them, outside."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-4.0, -2.0, 100), rng.uniform(2.0, 4.0, 100)])
    y = np.sin(x) + 0.1 * rng.standard_normal(200)
    model = PBPRegressor(random_state=0).fit(x[:, np.newaxis], y)
    where = {"in the gap": [0.0], "among the rows": x, "outside": [-6.0, 6.0]}
    return {
        name: float(model.predict_distribution(np.reshape(at, (-1, 1))).epistemic_std.mean())
        for name, at in where.items()
    }


def seeds(n_epochs: int, n_seeds: int) -> Figures:
    """Return how far the predictions of seeds are apart on diabetes, and their stds."""
    X, y = load_diabetes(return_X_y=True)
    fits = [
        PBPRegressor(n_epochs=n_epochs, random_state=seed).fit(X, y).predict_distribution(X)
        for seed in range(n_seeds)
    ]
    return {
        "apart": float(np.std([p.mean for p in fits], axis=0, ddof=1).mean()),
        "epistemic_std": float(np.mean([p.epistemic_std for p in fits])),
        "aleatoric_std": float(np.mean([p.aleatoric_std for p in fits])),
    }


def _held(predicted: Any, y: FloatArray, level: float) -> float:
    return metrics.interval_coverage(y, *predicted.interval(level))


# ---- The pages


def pages(written: Figures) -> dict[str, str]:
    """Return the tables by the names of their files."""
    rows = [
        [
            f"{f['x']:g}",
            WHERE[f["x"]],
            *(f"{f[k]:.1f}" for k in ("epistemic_std", "aleatoric_std", "std")),
        ]
        for f in written["toy"]
    ]
    header = ["x", "", "`epistemic_std`", "`aleatoric_std`", "`std`"]
    return {
        "error_bars_toy": table(header, rows, texts=(0, 1)) + "\n",
        "error_bars_splits": _splits(written["splits"]),
        "error_bars_blind": table(["case", "measured"], _blind(written), texts=(0, 1)) + "\n",
    }


def _splits(found: Figures) -> str:
    """Return a line per set."""
    rows = [
        [
            name,
            f"{f['n_rows']:,}",
            f"{f['n_features']}",
            f"{f['rmse']:#.3g}",
            mean([f["log_likelihood"]], 2),
            _percent(f["coverage_95"]),
        ]
        for name, f in found.items()
    ]
    header = ["data", "rows", "features", "RMSE", "log-likelihood", "in the 95 % interval"]
    return table(header, rows) + "\n"


def _blind(written: Figures) -> list[list[str]]:
    """Return a line per case: what it is, and what was measured."""
    first, last = written["tails"]["1"], written["tails"]["40"]
    outliers, growing, gap = written["outliers"], written["growing"], written["gap"]
    few, many = written["seeds"]["40"], written["seeds"]["400"]
    outside, (gaussian, exact) = written["outside"], last["0.999"]
    return [
        [
            "Student's t after one epoch on the toy data",
            f"`alpha_noise` {first['alpha_noise']:.1f}; the 99.9 % interval is "
            f"{_instead(first['0.999'])}, the 95 % interval {_instead(first['0.95'])}",
        ],
        [
            "the same after 40",
            f"`alpha_noise` {last['alpha_noise']:.0f}; the 99.9 % intervals differ by "
            f"{_percent(abs(exact / gaussian - 1.0))}",
        ],
        [
            "noise that is itself Student's t, 2 degrees of freedom",
            f"the 50 % interval covers {_percent(outliers['0.5'])}, the 99.9 % interval "
            f"{_percent(outliers['0.999'])}",
        ],
        [
            "noise that grows from 0.05 to 0.5 along x",
            f"the 95 % interval covers {_percent(growing['all'])}; in the quietest quarter "
            f"{_percent(growing['quietest'])}, in the loudest {_percent(growing['loudest'])}",
        ],
        [
            "rows in [−4, −2] and in [2, 4]",
            f"`epistemic_std` {gap['in the gap']:.2f} in the middle of the gap, "
            f"{gap['among the rows']:.2f} among the rows, {gap['outside']:.2f} at ±6",
        ],
        [
            "the picture above, outside the data",
            f"the rows end at {_ends(outside['rows'])}; the true curve leaves the band of three "
            f"standard deviations at {_ends(outside['held'])}",
        ],
        [
            "seeds on diabetes, 40 epochs",
            f"predictions differ by {few['apart']:.1f}; "
            f"`epistemic_std` {few['epistemic_std']:.1f}, "
            f"`aleatoric_std` {few['aleatoric_std']:.0f}",
        ],
        [
            "the same, 400 epochs",
            f"predictions differ by {many['apart']:.1f}; "
            f"`epistemic_std` {many['epistemic_std']:.1f}",
        ],
    ]


def _instead(widths: list[float]) -> str:
    gaussian, exact = widths
    return f"±{exact:.1f} instead of ±{gaussian:.1f}"


def _ends(values: list[float]) -> str:
    return " and ".join(mean([value], 1) for value in values)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


if __name__ == "__main__":
    main()
