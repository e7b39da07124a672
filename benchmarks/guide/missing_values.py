"""Missing values in new samples: ``python -m benchmarks.guide.missing_values``.

It fits `PBPRegressorCV` to complete samples of benchmark sets, then deletes one feature of all test
samples, each in turn, or a random quarter of their values. It compares with a model that was fitted
without the feature, and with predictions that take a missing value as independent of the others.
``docs/results/missing_values.md`` is the table; rows are in ``missing_values.jsonl``. Sets whose
files are not at hand are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from benchmarks.guide.pages import Figures, at_hand, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from probprop import PBPRegressorCV
from probprop._types import Array
from probprop.distributions.base import Moments
from probprop.encoding.piecewise import encode
from probprop_lab import datasets

SETS = {
    "energy": "energy",
    "boston_housing": "Boston housing",
    "concrete": "concrete",
    "power_plant": "power plant",
    "wine_red": "wine (red)",
    "yacht": "yacht",
}
SPLITS = 2
SHARE = 0.25  # of the values that are deleted
_MOST = 1_200  # samples of a set, of which a third is for testing


def main(argv: Sequence[str] | None = None, load: Callable[[str], Any] = datasets.load) -> None:
    parser = parser_of("missing_values", __doc__, at_hand(SETS))
    parser.add_argument("--splits", type=int, default=SPLITS, help="of each set")
    arguments = parser.parse_args(argv)
    cases = [
        {"dataset": name, "split": split}
        for name in arguments.sets
        for split in range(arguments.splits)
    ]
    measured = partial(measure, load=load)
    rows = rows_of(arguments.results / "missing_values.jsonl", cases, measured)
    write_pages(arguments.results, {"missing_values": page(rows)})


def measure(dataset: str, split: int, load: Callable[[str], Any]) -> Figures:
    """Return RMSE and coverage without a feature, each in turn, and with a quarter deleted."""
    data = load(dataset)
    X, y = data.X, data.y.reshape(len(data.y), -1)[:, 0]
    drawn = np.random.default_rng(split).permutation(len(y))[:_MOST]
    train, test = np.split(drawn, [2 * len(drawn) // 3])
    model = _fitted(X[train], y[train])
    features = []
    for j in range(X.shape[1]):
        without = _fitted(np.delete(X[train], j, axis=1), y[train])
        gaps = np.where(np.arange(X.shape[1]) == j, np.nan, X[test])
        reference = without.predict_distribution(np.delete(X[test], j, axis=1))
        features.append({"without": _scores(reference, y[test]), **_both(model, gaps, y[test])})
    deleted = np.random.default_rng(1).uniform(size=X[test].shape) < SHARE
    quarter = _both(model, np.where(deleted, np.nan, X[test]), y[test])
    return {"features": features, "quarter": quarter}


def _fitted(X: Array, y: Array) -> PBPRegressorCV:
    model = PBPRegressorCV(budget="fast", missing="marginalize", random_state=0)
    return model.fit(X, y)  # type: ignore[no-any-return]


def _both(model: PBPRegressorCV, X: Array, y: Array) -> Figures:
    """Score predictions that complete missing values, and ones that treat them as independent."""
    n_folds, of = len(model.estimators_) // len(model.groups_), []
    for i, group in enumerate(model.groups_):
        A = X if group.encoding is None else encode(X, group.encoding, np.dtype(np.float32))
        own = model.estimators_[i * n_folds : (i + 1) * n_folds]
        of += [member.predict_distribution(A) for member in own]
    members = Moments(
        np.stack([m.mean for m in of]),
        np.stack([m.epistemic_std for m in of]),
        np.stack([m.aleatoric_std for m in of]),
    )
    middle = 0.5 * (model.bounds_.low + model.bounds_.high)
    typical = np.where(np.isnan(X), middle, X)
    h = None if (noise := model.calibration_.noise) is None else noise.log_scale(typical)
    return {
        "completed": _scores(model.predict_distribution(X), y),
        "independent": _scores(
            model.calibration_.mixture(members, X, h, weights=model.weights_), y
        ),
    }


def _scores(predicted: Any, y: Array) -> Figures:
    low, high = predicted.interval(0.95)
    return {
        "rmse": float(np.sqrt(np.mean((predicted.mean - y) ** 2))),
        "coverage_95": float(np.mean((low <= y) & (y <= high))),
    }


# ---- The page


def page(rows: list[Figures]) -> str:
    """Return the table: for each set the worst feature of all splits."""
    header = ["", "features", "RMSE without the feature: completed", "independent"]
    header += ["in the 95 % interval: completed", "independent"]
    header += ["a quarter of the values: completed", "independent"]
    names = dict.fromkeys(row["dataset"] for row in rows)
    lines = [_line(name, [row for row in rows if row["dataset"] == name]) for name in names]
    return table(header, lines) + "\n"


def _line(name: str, rows: list[Figures]) -> list[str]:
    features = [feature for row in rows for feature in row["features"]]
    cells = [SETS[name], str(len(rows[0]["features"]))]
    for way in ("completed", "independent"):
        cells.append(f"{max(f[way]['rmse'] / f['without']['rmse'] for f in features):.2f} times")
    for way in ("completed", "independent"):
        cells.append(_percent(min(f[way]["coverage_95"] for f in features)))
    for way in ("completed", "independent"):
        cells.append(_percent(float(np.mean([row["quarter"][way]["coverage_95"] for row in rows]))))
    return cells


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


if __name__ == "__main__":
    main()
