"""`predict` of `PBPRegressorCV` with ten networks, next to CatBoost's and LightGBM's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.agreement import check_close
from benchmarks.cases import made_data
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import Candidate, PBPRegressorCV
from probprop._types import Array
from probprop.encoding.piecewise import encode

_N_FIT, _N_FEATURES, _N_ROWS, _MANY = 400, 10, 1_000, 100_000
_N_CALLS = 200  # of one row, in one timing
# The package whose mean of this number of rows is compared, and the largest ratio allowed.
_MOST = {
    "mean, 1 rows": ("CatBoost", 0.6),
    "mean and std, 1 rows": ("CatBoost", 0.8),
    "interval, 1 rows": ("CatBoost", 2.2),
    "encoded mean, 1,000 rows": ("CatBoost", 6.0),
    "encoded mean, 100,000 rows": ("LightGBM", 1.08),
}


def run(effort: Effort) -> Outcome:
    """Time all in turn; ratios to CatBoost and LightGBM are reported where they are installed."""
    X, y = made_data(_MANY, _N_FEATURES)
    fitted = {}
    for name, n_bins in (("", None), ("encoded ", 16)):
        plain = [Candidate(n_bins, evidence_cap=10.0, noise="constant")]
        model = PBPRegressorCV(candidates=plain, budget="fast", random_state=0)
        fitted[name] = model.fit(X[:_N_FIT], y[:_N_FIT])
        _check(model, X[:_N_FIT])  # inside the training range, where no value is bounded
    trees = _trees(X[:_N_FIT], y[:_N_FIT])
    n_calls = effort.of(_N_CALLS, least=2)
    works: dict[str, tuple[Callable[[], Any], int]] = {}
    for n, n_rows in ((n_calls, 1), (1, _N_ROWS), (1, effort.of(_MANY, least=_N_ROWS + 1))):
        asked = {
            f"{kind}{what}": work
            for kind, model in fitted.items()
            for what, work in _asked(model, X[:n_rows]).items()
            if n_rows <= _N_ROWS or what == "mean"
        } | {name: lambda f=f, n=n_rows: f(X[:n]) for name, f in trees.items()}
        of = _MANY if n_rows > _N_ROWS else n_rows
        works |= {f"{name}, {of:,} rows": (work, n) for name, work in asked.items()}
    seconds: defaultdict[str, list[float]] = defaultdict(list)
    for repetition in range(effort.n_repetitions):
        say(f"cv_predict: repetition {repetition + 1} of {effort.n_repetitions}")
        for name, (work, n) in works.items():
            seconds[name].append(timed(lambda work=work, n=n: _often(work, n))[0] / n)  # type: ignore[misc]
    beside = {name: f"{of}, {name.split(', ')[1]}" for name, (of, _) in _MOST.items()}
    ratios = {
        name: median([a / b for a, b in zip(seconds[name], seconds[of], strict=True)])
        for name, of in beside.items()
        if of in works
    }
    most = {name: value for name, (_, value) in _MOST.items()}
    return Outcome(
        title=f"PBPRegressorCV of ten networks, processor time (medians of {effort.n_repetitions})",
        header=["what", "microseconds", "ratio", "at most", ""],
        rows=[
            [
                name,
                f"{1e6 * median(seconds[name]):,.0f}",
                f"{ratios[name]:.2f}" if name in ratios else "",
                f"{most[name]}" if name in most else "",
                verdict(ratios[name] <= most[name]) if name in most and name in ratios else "",
            ]
            for name in works
        ],
        figures=[Figure(f"cv predict, {name}", [1.0 / s for s in seconds[name]]) for name in works],
        notes=[
            "The ratio is to CatBoost's mean of the same rows, for 100,000 rows to LightGBM's.",
            "Checked: the mean is the average of the networks' own predictions.",
        ],
        measured={"cv_predict": dict(seconds)},
        missed=[
            f"cv_predict: {name} takes {ratio:.2f} times {_MOST[name][0]}'s, above {most[name]}"
            for name, ratio in ratios.items()
            if ratio > most[name]
        ],
    )


def _often(work: Callable[[], Any], n: int) -> None:
    for _ in range(n):
        work()


def _asked(model: PBPRegressorCV, rows: Array) -> dict[str, Callable[[], Any]]:
    return {
        "mean": lambda: model.predict(rows),
        "mean and std": lambda: model.predict(rows, return_std=True),
        "interval": lambda: model.predict_interval(rows),
    }


def _trees(X: Array, y: Array) -> dict[str, Callable[[Array], Any]]:
    """Return `predict` of the packages that are installed."""
    found: dict[str, Callable[[Array], Any]] = {}
    try:
        from catboost import CatBoostRegressor

        usual = {"verbose": False, "thread_count": 1, "allow_writing_files": False}
        found["CatBoost"] = CatBoostRegressor(random_seed=0, **usual).fit(X, y).predict
        from lightgbm import LGBMRegressor

        found["LightGBM"] = LGBMRegressor(random_state=0, n_jobs=1, verbose=-1).fit(X, y).predict
    except ImportError:
        pass
    return found


def _check(model: PBPRegressorCV, X: Array) -> None:
    """Compare with the slow way: each network by itself, and quantiles against the cdf."""
    [group] = model.groups_
    A = X if group.encoding is None else encode(X, group.encoding)
    each = np.mean([member.predict(A) for member in model.estimators_], axis=0)
    check_close("cv_predict", model.predict(X), each, 1e-12 if A is X else 1e-5)
    predicted = model.predict_distribution(X)
    ends = model.predict_interval(X, 0.9).T
    for end, q in zip(ends, (0.05, 0.95), strict=True):
        check_close("cv_predict interval", predicted.cdf(end), np.full(len(X), q), 1e-9)
