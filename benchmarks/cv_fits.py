"""Fits of the default `PBPRegressorCV` next to single fits of CatBoost and LightGBM."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np
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
_FEW = 5_000  # samples from which on there are three repetitions
_NAME = "PBPRegressorCV"
_FOLDS = "CatBoost, five folds"


def run(effort: Effort) -> Outcome:
    """Fit in turn on Friedman's function with noise 1; ratios are taken within a repetition."""
    seconds: dict[int, defaultdict[str, list[float]]] = {}
    for n in _MOST:
        seconds[n] = defaultdict(list)
        X, y = make_friedman1(effort.of(n, least=40), _N_FEATURES, noise=1.0, random_state=0)
        n_repetitions = min(effort.n_repetitions, 3) if n >= _FEW else effort.n_repetitions
        for repetition in range(n_repetitions):
            say(f"cv_fits: {n:,} samples, repetition {repetition + 1} of {n_repetitions}")
            for name, fit in _fits(repetition).items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    taken, model = timed(partial(fit, X, y))
                seconds[n][name].append(taken)
                if name == _NAME and not (model.predict(X, return_std=True)[1] > 0.0).all():
                    raise WrongAnswerError(f"cv_fits: {n:,} samples: a std is not positive")
                if name == _NAME and effort.checked and model.score(X, y) < 0.7:
                    raise WrongAnswerError(f"cv_fits: {n:,} samples: it has learned too little")
    rows, missed = [], []
    for n, most in _MOST.items():
        for name, own in seconds[n].items():
            ratio = _ratio(own, seconds[n].get("CatBoost"))
            passed = name != _NAME or ratio is None or ratio <= most
            shown = ["" if ratio is None else f"{ratio:.2f}"]
            shown += [f"{most}", verdict(passed)] if name == _NAME else ["", ""]
            rows.append([f"{n:,}", name, f"{median(own):.2f}", *shown])
            if not passed:
                missed.append(f"cv_fits: {n:,} samples take {ratio:.2f} times CatBoost's fit")
    return Outcome(
        title="Default fits of 10 columns, processor seconds on one thread (medians)",
        header=["samples", "method", "seconds", "of CatBoost", "at most", ""],
        rows=rows,
        figures=[
            Figure(f"cv fits, {n:,} samples", [1.0 / s for s in times]) if name == _NAME else None
            for n, own in seconds.items()
            for name, times in own.items()
        ],
        notes=[
            "Checked: every predicted standard deviation is positive.",
            "CatBoost needs five more fits for a standard deviation from out-of-fold residuals.",
        ],
        measured={str(n): dict(own) for n, own in seconds.items()},
        missed=missed,
    )


def _ratio(own: list[float], beside: list[float] | None) -> float | None:
    return None if beside is None else median(list(np.divide(own, beside)))


def _fits(seed: int) -> dict[str, Callable[[Array, Array], Any]]:
    """Return what is fitted; other packages where they are installed."""
    found: dict[str, Callable[[Array, Array], Any]] = {_NAME: PBPRegressorCV(random_state=seed).fit}
    if find_spec("catboost") is not None:
        from catboost import CatBoostRegressor

        quiet = {"thread_count": 1, "verbose": 0, "allow_writing_files": False}
        model = CatBoostRegressor(random_state=seed, **quiet)
        found |= {"CatBoost": model.fit}
        found |= {_FOLDS: lambda X, y: cross_val_predict(model, X, y, cv=5)}
    if find_spec("lightgbm") is not None:
        from lightgbm import LGBMRegressor

        found |= {"LightGBM": LGBMRegressor(n_jobs=1, verbose=-1, random_state=seed).fit}
    return found
