"""The work of ``probprop demo``: a table of penguins with text and gaps, and the paper's toy."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from numpy.random import RandomState

from probprop import metrics, plot
from probprop._types import Array
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.standardize import marginal, measure
from probprop.report import Section, figure, table_model_sections, write_report
from probprop.report.live import live_page
from probprop.table import TableModel, fit_table_model, read_table
from probprop.toy import toy_cubic

TARGET = "body_mass_g"  # of a penguin


class Result(NamedTuple):
    """How good a model is on rows that it has not seen."""

    name: str  # of the data
    n_train: int  # rows that it was fitted on
    n_test: int  # rows that it was evaluated on
    seconds: float  # processor time of the fit
    scores: dict[str, float]  # `metrics.summary` on the test rows
    baseline: dict[str, float]  # the same for mean and standard deviation of the training rows


class Penguins(NamedTuple):
    """A model of the weight of penguins, and the rows that it was fitted and judged on."""

    model: TableModel
    train: pd.DataFrame
    test: pd.DataFrame
    result: Result


class Toy(NamedTuple):
    """A network through the 20 points of the toy problem."""

    model: PBPRegressor
    X: Array
    y: Array
    result: Result


def fit_penguins(*, fast: bool = False) -> Penguins:
    """Fit the weight of penguins, with `fast` by one network, and evaluate it on a tenth.

    The 344 penguins of three species were measured by K. Gorman and the Palmer Station LTER, 2007
    to 2009; the data are in the public domain (CC0). Some values are missing.
    """
    with resources.as_file(resources.files("probprop") / "penguins.csv") as path:
        frame = read_table(path).dropna(subset=[TARGET]).reset_index(drop=True)
    # A tenth to test, as in [PBP15] section 5.1.
    order = RandomState(0).permutation(len(frame))
    train, test = (frame.iloc[np.sort(p)] for p in np.split(order, [round(0.9 * len(order))]))
    estimator = (
        PBPRegressor(missing="marginalize", random_state=0)
        if fast
        else PBPRegressorCV(budget="fast", missing="marginalize", n_jobs=-1, random_state=0)
    )
    start = time.process_time()
    model = fit_table_model(train, TARGET, estimator=estimator)
    seconds = time.process_time() - start
    y_train, y = (frame[TARGET].to_numpy(np.float64) for frame in (train, test))
    result = _result("penguins", y_train, y, model.predict_distribution(test), seconds)
    return Penguins(model, train, test, result)


def fit_toy() -> Toy:
    """Fit the 20 points of the toy problem and judge the network on 1,000 others."""
    X, y = toy_cubic(random_state=4)  # which spreads the 20 points over the whole range
    start = time.process_time()
    model = PBPRegressor(100, n_epochs=40, random_state=0).fit(X, y)
    seconds = time.process_time() - start
    X_test, y_test = toy_cubic(1_000, random_state=0)
    result = _result("toy, y = x³", y, y_test, model.predict_distribution(X_test), seconds)
    return Toy(model, X, y, result)


def _result(name: str, y_train: Array, y: Array, predicted: Any, seconds: float) -> Result:
    [pair] = marginal(measure(y_train[:, np.newaxis]))
    baseline = cast(dict[str, float], metrics.baseline_summary(y, *pair))  # the targets differ
    return Result(name, len(y_train), len(y), seconds, metrics.summary(y, predicted), baseline)


def write_demo_report(path: str | os.PathLike[str], penguins: Penguins, toy: Toy) -> None:
    """Write one self-contained HTML report: what if, the penguins, and the toy problem."""
    page = live_page(penguins.model, rows=penguins.test, train=penguins.train)
    sections = table_model_sections(penguins.model, penguins.test, held_out=True)
    overview = Section(
        "Two data sets, no tuning",
        "Both models were fitted without any tuning and judged on rows they had not seen. Rows: "
        "training + test; fit: processor time. The baseline is one prediction for all rows: mean "
        "and standard deviation of the rows to fit. The table of penguins has columns of text and "
        "empty cells; it is used as it is.",
        result_table([penguins.result, toy.result]),
    )
    title = "How heavy is a penguin? A demonstration of probprop"
    write_report(path, title, [overview, *sections, _toy_section(toy)], page)


def result_table(results: Sequence[Result]) -> tuple[list[str], list[list[str]]]:
    """Return the header and the rows of a table of results, each with its baseline below."""
    rows = []
    for r in results:
        both, seconds = f"{r.n_train} + {r.n_test}", f"{r.seconds:.3f} s"
        rows.append([r.name, both, *_texts(r.scores), seconds])
        rows.append(["baseline", str(r.n_test), *_texts(r.baseline), "–"])
    return ["data", "rows", "RMSE", "log-likelihood", "CRPS", "in 95 %", "fit"], rows


def _texts(scores: dict[str, float]) -> list[str]:
    values = [f"{scores[name]:.4g}" for name in ("rmse", "log_likelihood", "crps")]
    return [*values, f"{100 * scores['coverage_95']:.1f} %"]


def _toy_section(toy: Toy) -> Section:
    from matplotlib.figure import Figure

    x = np.linspace(-6.0, 6.0, 400)
    ax = Figure(figsize=(4.0, 3.2), layout="constrained").subplots()
    predicted, data = toy.model.predict_distribution(x[:, None]), (toy.X[:, 0], toy.y)
    plot.predictive_band(x, predicted, data=data, truth=x**3, target="y", ax=ax)
    return Section(
        "The toy problem: 20 points of y = x³ + noise",
        "The dots are all that the model saw. Where there are none, the band of 1, 2 and 3 "
        "standard deviations opens. Beyond ±4 a network goes on as a straight line, and a cubic "
        "does not: far from its data no band knows what it has not seen.",
        figures=[figure(ax, "A curve through 20 points with a band that opens beyond them")],
    )
