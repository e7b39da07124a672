"""A table of all kinds of columns, and a fitted model of every kind on it."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from probprop import (
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
)
from probprop.inference.training import UpdateWarning
from probprop.table import TableModel, fit_table_model

N_TRAIN = 300
CITIES = ["Ulm", "Bonn <b>&amp;</b>", '"Köln", am Rhein', "Bern"]
SMALL: dict[str, Any] = {"hidden_layer_sizes": (12,), "n_epochs": 8, "random_state": 0}
GAPS: dict[str, Any] = {**SMALL, "missing": "marginalize"}
CANDIDATE = {"hidden_layer_sizes": (12,), "evidence_cap": 10.0}


@cache
def table() -> pd.DataFrame:
    """400 rows: numbers, whole numbers, true and false, text, dates; some cells are missing."""
    rng = np.random.RandomState(3)
    n = 400
    area, rooms = rng.gamma(4.0, 20.0, n), rng.randint(1, 7, n)
    city = rng.choice(CITIES, n, p=[0.4, 0.3, 0.2, 0.1])
    garden = rng.rand(n) < 0.3
    sold = pd.Timestamp("2019-03-05T08:30") + pd.to_timedelta(
        rng.randint(0, 900_000, n), unit="min"
    )
    worth = 2.0 * area + 15.0 * rooms + 40.0 * (city == "Bern") + 30.0 * garden
    price = worth * np.exp(rng.normal(0.0, 0.05 + 0.002 * area))
    frame = pd.DataFrame(
        {
            "area <m²>": area.round(1),
            "rooms": rooms.astype(float),
            "city": pd.Categorical(city, CITIES, ordered=True),
            "garden": pd.Series(garden, dtype=object),
            "sold": sold.strftime("%Y-%m-%dT%H:%M"),
            "price": price.round(2),
            "rent": (0.03 * price + rng.normal(0.0, 1.0, n)).round(2),
            "fast": np.where(worth > 250.0, "yes", "no"),
            # The moments of a target with such an uncertain logarithm are capped.
            "lottery": price * np.exp(6.0 * np.random.RandomState(4).standard_normal(n)),
            # Two modes, and no target below 0.
            "bids": np.maximum(
                worth * np.where(np.random.RandomState(5).rand(n) < 0.5, 0.1, 1.5), 40.0
            ),
            "grade": np.where(worth > 320.0, "high", np.where(worth > 180.0, "middle", "low")),
        }
    )
    for name in ("rooms", "city", "garden", "sold"):
        frame[name] = frame[name].mask(rng.rand(n) < 0.05)
    return frame


FEATURES = list(table().columns[:5])


def complete() -> pd.DataFrame:
    """Its complete rows."""
    frame = table().dropna()
    return frame.assign(garden=frame["garden"].astype(bool))


def _cv(estimator: Any, **candidate: Any) -> Any:
    return estimator(
        cv=3,
        candidates=[{**CANDIDATE, **candidate}],
        budget="fast",
        missing="marginalize",
        random_state=0,
    )


MODELS: dict[str, tuple[str | list[str], Any]] = {
    "one network": ("price", PBPRegressor(**GAPS)),
    "no gaps, float32": ("price", PBPRegressor(**SMALL, dtype="float32")),
    "no hidden layer": ("price", PBPRegressor((), n_epochs=5, missing="marginalize")),
    "not standardized": ("rent", PBPRegressor(**GAPS, standardize=False)),
    "heavy tails": ("price", PBPRegressor(**GAPS, noise_tail="heavy")),
    "noise of the inputs": ("price", PBPRegressor(**GAPS, noise="input")),
    "both": ("price", PBPRegressor(**GAPS, noise="input", noise_tail="heavy")),
    "two targets": (["price", "rent"], PBPRegressor(**GAPS)),
    "two targets, heavy": (
        ["price", "rent"],
        PBPRegressor(**GAPS, noise="input", noise_tail="heavy"),
    ),
    "exact output layer": ("price", PBPRegressor(**GAPS, output_layer="full")),
    "two targets, exact, no hidden layer": (
        ["price", "rent"],
        PBPRegressor((), n_epochs=5, missing="marginalize", output_layer="full"),
    ),
    "cv, exact output layer": ("price", _cv(PBPRegressorCV, n_bins=16, output_layer="full")),
    "cv": ("price", _cv(PBPRegressorCV, n_bins=None)),
    "cv, few rows": ("price", _cv(PBPRegressorCV, n_bins=None)),
    "cv, ramps": ("price", _cv(PBPRegressorCV, n_bins=16)),
    "cv, codes": ("price", _cv(PBPRegressorCV, n_bins=8, codes=True)),
    "cv, logarithm": ("price", _cv(PBPRegressorCV, n_bins=16, power=0.0)),
    "cv, root": ("price", _cv(PBPRegressorCV, n_bins=None, power=0.5)),
    "cv, capped moments": (
        "lottery",
        _cv(PBPRegressorCV, n_bins=None, power=0.0).set_params(dtype="float64"),
    ),
    "cv, learned shape": (
        "bids",
        _cv(PBPRegressorCV, n_bins=None).set_params(support=(40.0, None), dtype="float64"),
    ),
    "cv, learned shape, root": ("bids", _cv(PBPRegressorCV, n_bins=None, power=0.5)),
    "two classes": ("fast", PBPClassifier(**GAPS)),
    "three classes": ("grade", PBPClassifier(**GAPS)),
    "cv, two classes": ("fast", _cv(PBPClassifierCV, n_bins=None)),
    "cv, three classes": ("grade", _cv(PBPClassifierCV, n_bins=16)),
}


@cache
def fitted(name: str) -> TableModel:
    """A model of a kind, fitted on the first rows."""
    target, estimator = MODELS[name]
    frame = table() if estimator_takes_gaps(estimator) else complete()
    rows = frame[frame.index < (19 if "few rows" in name else N_TRAIN)]  # too few for noise
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpdateWarning)  # features that are not standardized
        return fit_table_model(rows, target, features=FEATURES, estimator=estimator)


def write_page(path: Path, name: str, **options: Any) -> Path:
    """Write a report with the what-if page of a model, on rows that it has not seen."""
    from probprop.report import Section, write_report
    from probprop.report.live import live_page

    model = fitted(name)
    known = {"rows": new_rows(model)[13:], "train": rows_of(model)} | options
    sections = [Section("Accuracy", "As on every report.", (["measure", "value"], [["RMSE", "1"]]))]
    write_report(path, f"Predicting {model.targets[0]}", sections, live_page(model, **known))
    return path


def rows_of(model: TableModel) -> pd.DataFrame:
    """The rows that it was fitted on."""
    frame = table() if estimator_takes_gaps(model.estimator) else complete()
    return frame[frame.index < N_TRAIN]


def estimator_takes_gaps(estimator: Any) -> bool:
    member = getattr(estimator, "estimator", None) or estimator
    return bool(member.missing == "marginalize")


def new_rows(model: TableModel) -> pd.DataFrame:
    """100 rows that the model has not seen, a few of them far from those it has."""
    gaps = estimator_takes_gaps(model.estimator)
    frame = table() if gaps else complete()
    frame = frame[frame.index >= N_TRAIN][:100].copy()
    frame = pd.concat([frame] * 2, ignore_index=True)[:100]
    frame.loc[frame.index[:5], "area <m²>"] *= 20.0
    frame.loc[frame.index[5:8], "rooms"] = -40.0
    odd = ["1969-12-31T23:59:58", "2000-02-29T00:00", "2024-12-31T12:00:00.250", "2031-01-01"]
    frame.loc[frame.index[9:13], "sold"] = odd
    if gaps:
        frame.loc[frame.index[8], FEATURES] = None
        for i, name in enumerate(FEATURES):  # each unknown alone, and with the one before it
            frame.loc[frame.index[13 + i], name] = None
            frame.loc[frame.index[18 + i], [name, FEATURES[i - 1]]] = None
    return frame
