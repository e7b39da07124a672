"""Fits of the default `PBPRegressorCV` next to single fits of CatBoost and LightGBM."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.datasets import make_friedman1
from sklearn.model_selection import cross_val_predict

from benchmarks.agreement import WrongAnswerError
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import PBPRegressorCV
from probprop._types import Array

_N_FEATURES = 10
_MOST = {300: 1.2, 1_000: 1.5, 5_000: 3.0, 20_000: 3.0, 100_000: 3.0}  # times a fit of CatBoost
_MIXED, _MOST_MIXED = (3_000, 40, 30), 3.0  # samples, columns of text and of numbers
_FEW = 3_000  # samples from which on there are three repetitions
_NAME = "PBPRegressorCV"
_FOLDS = "CatBoost, five folds"


def run(effort: Effort) -> Outcome:
    """Fit in turn on Friedman's function with noise 1, and on a table with text.

    Ratios are taken within a repetition.
    """
    n_mixed, n_text, _ = _MIXED
    cases = [(f"{n:,}", n, most, _friedman) for n, most in _MOST.items()]
    cases += [(f"{n_mixed:,}, {n_text} text columns", n_mixed, _MOST_MIXED, _mixed)]
    rows, missed, figures, measured = [], [], list[Figure | None](), dict[str, Any]()
    for label, n, most, table in cases:
        seconds = defaultdict[str, list[float]](list)
        X, y = table(effort.of(n, least=40))
        n_repetitions = min(effort.n_repetitions, 3) if n >= _FEW else effort.n_repetitions
        for repetition in range(n_repetitions):
            say(f"cv_fits: {label} samples, repetition {repetition + 1} of {n_repetitions}")
            for name, fit in _fits(repetition, X).items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    taken, model = timed(partial(fit, X, y))
                seconds[name].append(taken)
                if name == _NAME and not (model.predict(X, return_std=True)[1] > 0.0).all():
                    raise WrongAnswerError(f"cv_fits: {label} samples: a std is not positive")
                if name == _NAME and effort.checked and model.score(X, y) < 0.7:
                    raise WrongAnswerError(f"cv_fits: {label} samples: it has learned too little")
        for name, own in seconds.items():
            ratio = _ratio(own, seconds.get("CatBoost"))
            passed = name != _NAME or ratio is None or ratio <= most
            shown = ["" if ratio is None else f"{ratio:.2f}"]
            shown += [f"{most}", verdict(passed)] if name == _NAME else ["", ""]
            rows.append([label, name, f"{median(own):.2f}", *shown])
            figure = Figure(f"cv fits, {label} samples", [1.0 / s for s in own])
            figures.append(figure if name == _NAME else None)
            if not passed:
                missed.append(f"cv_fits: {label} samples take {ratio:.2f} times CatBoost's fit")
        measured[label] = dict(seconds)
    return Outcome(
        title="Default fits of 10 columns, and of 70, processor seconds on one thread (medians)",
        header=["samples", "method", "seconds", "of CatBoost", "at most", ""],
        rows=rows,
        figures=figures,
        notes=[
            "Checked: every predicted standard deviation is positive.",
            "CatBoost needs five more fits for a standard deviation from out-of-fold residuals.",
        ],
        measured=measured,
        missed=missed,
    )


def _ratio(own: list[float], beside: list[float] | None) -> float | None:
    return None if beside is None else median(list(np.divide(own, beside)))


def _friedman(n: int) -> tuple[Any, Array]:
    X, y = make_friedman1(n, _N_FEATURES, noise=1.0, random_state=0)
    return X, y


def _mixed(n: int) -> tuple[Any, Array]:
    """Return text of 3 to 60 levels, of which 12 columns have an effect, beside numbers."""
    rng, (_, n_text, n_numbers) = np.random.RandomState(0), _MIXED
    columns, y = {}, 0.3 * rng.standard_normal(n)
    for j in range(n_text):
        n_levels = (3, 8, 20, 60)[j % 4]
        level, effect = rng.randint(n_levels, size=n), rng.standard_normal(n_levels)
        columns[f"text {j}"] = np.array([f"level {k}" for k in level], dtype=object)
        y += effect[level] if j < 12 else 0.0
    X = rng.standard_normal((n, n_numbers))
    columns |= {f"number {j}": x for j, x in enumerate(X.T)}
    y += 2.0 * np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3]
    return pd.DataFrame(columns), y


def _fits(seed: int, X: Any) -> dict[str, Callable[[Any, Array], Any]]:
    """Return what is fitted; other packages where they are installed.

    Text is of categories for CatBoost; LightGBM has the tables of numbers alone.
    """
    found: dict[str, Callable[[Any, Array], Any]] = {_NAME: PBPRegressorCV(random_state=seed).fit}
    is_table = isinstance(X, pd.DataFrame)
    if find_spec("catboost") is not None:
        from catboost import CatBoostRegressor

        quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        text = [name for name in X if X[name].dtype == object] if is_table else None
        model = CatBoostRegressor(random_state=seed, cat_features=text, **quiet)
        found |= {"CatBoost": model.fit}
        if not is_table:
            found |= {_FOLDS: lambda X, y: cross_val_predict(model, X, y, cv=5)}
    if find_spec("lightgbm") is not None and not is_table:
        from lightgbm import LGBMRegressor

        found |= {"LightGBM": LGBMRegressor(n_jobs=1, verbose=-1, random_state=seed).fit}
    return found
