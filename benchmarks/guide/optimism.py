"""How optimistic out-of-fold scores are: ``python -m benchmarks.guide.optimism``.

It fits `PBPRegressorCV` to the fixed splits of five benchmark sets. Samples that are in the test
set of one split are out-of-fold samples of the others, so that both scores are compared on the same
samples. ``docs/results/optimism.md`` is the table; rows, one per set, are in ``optimism.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from benchmarks.guide.pages import Figures, at_hand, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from probprop import PBPRegressorCV
from probprop._types import Array, FloatArray
from probprop_lab import datasets

SETS = {
    "yacht": "yacht",
    "boston_housing": "Boston housing",
    "energy": "energy",
    "concrete": "concrete",
    "wine_red": "wine (red)",
}
N_SPLITS = 10
_SCORES = ("log_p", "square", "crps")  # of each sample

Whole = tuple[Array, Array, list[tuple[Array, Array]]]  # X, y, and the samples of each split


def data_of(dataset: str) -> Whole:
    """Return X, y and the rows to fit and to test of the fixed splits."""
    found = datasets.load(dataset)
    return found.X, found.y, list(datasets.splits(dataset))[:N_SPLITS]


def main(argv: Sequence[str] | None = None, load: Callable[[str], Whole] = data_of) -> None:
    parser = parser_of("optimism", __doc__, at_hand(SETS))
    parser.add_argument("--budget", default="good", help="of the fits")
    arguments = parser.parse_args(argv)
    cases = [{"dataset": name} for name in arguments.sets]
    measured = partial(measure, budget=arguments.budget, load=load)
    rows = rows_of(arguments.results / "optimism.jsonl", cases, measured)
    write_pages(arguments.results, {"optimism": page(rows)})


def measure(dataset: str, budget: Any, load: Callable[[str], Whole]) -> Figures:
    """Compare the scores of samples that are out of fold in some splits and tested in others."""
    X, y, splits = load(dataset)
    out_of_fold, tested, few = (np.full((len(splits), len(_SCORES), len(y)), np.nan) for _ in "abc")
    for split, (train, test) in enumerate(splits):
        model = PBPRegressorCV(budget=budget, random_state=split).fit(X[train], y[train])
        rows = train[model.oof_rows_]
        out_of_fold[split][:, rows] = scores_of(model.oof_predictive_, y[rows])
        tested[split][:, test] = scores_of(model.predict_distribution(X[test]), y[test])
        each = [scores_of(m.predict_distribution(X[test]), y[test]) for m in as_out_of_fold(model)]
        few[split][:, test] = np.mean(each, axis=0)
    both = np.isfinite(out_of_fold[:, 0]).any(axis=0) & np.isfinite(tested[:, 0]).any(axis=0)
    means = (np.nanmean(each[:, :, both], axis=0) for each in (out_of_fold, tested, few))
    oof, test, test_of_few = (dict(zip(_SCORES, each, strict=True)) for each in means)
    return {
        "n": int(both.sum()),
        "log_likelihood": float(test["log_p"].mean()),
        "difference": _mean_and_error(oof["log_p"] - test["log_p"]),
        "selection": _mean_and_error(oof["log_p"] - test_of_few["log_p"]),
        "averaging": _mean_and_error(test["log_p"] - test_of_few["log_p"]),
        "rmse": float(np.sqrt(oof["square"].mean() / test["square"].mean())),
        "crps": float(oof["crps"].mean() / test["crps"].mean()),
    }


def scores_of(predictive: Any, y: Array) -> FloatArray:
    """Return log density, squared error and CRPS of every sample, (3, n)."""
    return np.stack([predictive.logpdf(y), (y - predictive.mean) ** 2, predictive.crps(y)])


def as_out_of_fold(model: PBPRegressorCV) -> list[PBPRegressorCV]:
    """Return the model with as few networks as predict an out-of-fold sample, in all folds."""
    n_folds, found = len(model.estimators_) // len(model.groups_), []
    for fold in range(n_folds):
        few = copy(model)
        few.estimators_ = model.estimators_[fold::n_folds]
        few.calibration_ = model.calibration_.out_of_fold
        found.append(few)
    return found


def _mean_and_error(gaps: FloatArray) -> list[float]:
    return [float(gaps.mean()), float(gaps.std(ddof=1) / np.sqrt(len(gaps)))]


# ---- The page


def page(rows: list[Figures]) -> str:
    """Return the table."""
    header = ["", "samples", "log-likelihood, test", "out-of-fold minus test"]
    header += ["by choice and calibration", "by fewer networks", "RMSE ratio", "CRPS ratio"]
    lines = [
        [
            SETS[row["dataset"]],
            f"{row['n']:,}",
            _signed(row["log_likelihood"]),
            _with_error(row["difference"]),
            _with_error(row["selection"]),
            _with_error([-row["averaging"][0], row["averaging"][1]]),
            f"{row['rmse']:.3f}",
            f"{row['crps']:.3f}",
        ]
        for row in rows
    ]
    return table(header, lines) + "\n"


def _signed(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


def _with_error(pair: list[float]) -> str:
    return f"{_signed(pair[0])} ± {pair[1]:.3f}"


if __name__ == "__main__":
    main()
