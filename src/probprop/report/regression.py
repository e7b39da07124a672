"""The sections of a report on a fitted regressor: how good it is, how sure, and what it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import binom
from sklearn.utils.validation import check_is_fitted

from probprop import plot
from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.kind import is_cross_validated
from probprop.estimators.regressor import PBPRegressor
from probprop.inference.standardize import marginal, measure
from probprop.metrics.baseline import baseline_summary
from probprop.metrics.regression import Scores, scores, without_density_in_words
from probprop.metrics.verdict import Verdict, verdict
from probprop.report.columns import rows_of
from probprop.report.cross_validation import cross_validation_sections
from probprop.report.dependence import depending
from probprop.report.document import Section
from probprop.report.facts import model_facts, number
from probprop.report.parts import (
    SCORE_HEADER,
    axis_label,
    check_rows,
    percent,
    picture,
    training_section,
    weights_section,
)
from probprop.report.rows import worst_section
from probprop.table.encoding import Encoder
from probprop.table.names import target_names


def regression_sections(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str],
    target: str | Sequence[str],
    held_out: bool | None,
    row_numbers: Sequence[int] | None = None,
    table: pd.DataFrame | None = None,
    encoder: Encoder | None = None,
    sample_weight: ArrayLike | None = None,
    baseline: Sequence[tuple[float, float]] = (),
) -> list[Section]:
    """Judge a fitted regressor on rows with known targets.

    Parameters
    ----------
    model : PBPRegressor, PBPRegressorCV or PBPEnsemble
        Fitted.
    X : array-like of shape (n, n_features)
        The numbers the model takes, after any encoding.
    y : array-like of shape (n,), or (n, K) for several targets
        What was observed, in target units.
    feature_names : sequence of str
        One per column of X.
    target : str or sequence of str
        Name of the target, or of each of several.
    held_out : bool or None
        Whether the rows were kept from the model when it was fitted; None where that is not
        known. The report says so.
    row_numbers : sequence of int, default=None
        What to call the rows; None counts them from 1.
    table : DataFrame of shape (n, n_columns), default=None
        The table of which X was made: its columns have panels and cells. None: X is the table.
    encoder : Encoder, default=None
        How X was made of `table`, such as ``encoder`` of a `TableModel`.
    sample_weight : array-like of shape (n,), default=None
        Weights of the rows, in the units of `fit`, whose noise they have; None is the mean weight.
    baseline : sequence of (float, float), default=()
        Mean and standard deviation of each target over the training rows, such as ``baseline`` of
        a `TableModel`. If it is empty, those of y are used.

    Returns
    -------
    list of Section
        The numbers that matter, predicted against observed, calibration, residuals, the rows
        furthest off, which columns matter, what the predictions depend on, training, weights, more
        measures, facts. Each of several targets has its own numbers, pictures, rows and
        columns; what they have in common follows.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from probprop import PBPRegressor
    >>> X, y = load_diabetes(return_X_y=True, as_frame=True)
    >>> model = PBPRegressor(n_epochs=5, random_state=0).fit(X[:400], y[:400])
    >>> sections = regression_sections(
    ...     model, X[400:], y[400:], feature_names=X.columns, target="progression", held_out=True
    ... )
    >>> sections[0].title
    'How good the predictions are'
    """
    check_is_fitted(model)
    targets = target_names(target)
    n_outputs = cast(PBPRegressor, model).n_outputs_
    if len(targets) != n_outputs:
        raise ValueError(
            f"target must name each target of the model, {n_outputs} in number. Got {targets}."
        )
    encoded, names = check_rows(X, y, feature_names, len(targets))
    rows = rows_of(encoded, names, row_numbers, table, encoder)
    observed = np.asarray(y, np.float64).reshape(len(encoded), -1).T  # a row per target
    with warnings.catch_warnings():  # the names of the columns are given apart from X
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive = cast(
            TargetDistribution, model.predict_distribution(encoded, sample_weight=sample_weight)
        )
        each = list(zip(targets, observed, predictive.targets(), strict=True))
        depends = depending(model, rows, np.asarray(y), targets, held_out)
        pairs = baseline or marginal(measure(observed.T))
        judged = [
            _Judged(column, one, scores(column, one), baseline_summary(column, *pair))
            for (_, column, one), pair in zip(each, pairs, strict=True)
        ]
        of_training, calibrated = len(baseline) > 0, is_cross_validated(model)
        own = [
            [
                _quality(found, name, rows.numbers, held_out, calibrated, of_training),
                *_pictures(column, one, name),
                worst_section(column, one, rows, columns.names),
                *columns.sections,
            ]
            for (name, column, one), columns, found in zip(each, depends, judged, strict=True)
        ]
        in_common = [
            training_section(model, targets),
            *cross_validation_sections(model, targets[0]),
            weights_section(model),
            Section("More measures", table=_score_rows(judged, targets, _MORE)),
            Section("The model", table=([], model_facts(model, names, targets))),
        ]
    if len(targets) > 1:
        own = [
            [replace(s, title=f"{name}: {s.title[0].lower()}{s.title[1:]}") for s in sections]
            for name, sections in zip(targets, own, strict=True)
        ]
    return [*(section for sections in own for section in sections), *in_common]


# ---- Quality


class _Judged(NamedTuple):
    """Observed and predicted values of one target, (n,), with their scores and the baseline's."""

    y: FloatArray
    predictive: TargetDistribution
    scores: Scores
    baseline: dict[str, float] | None


def _quality(
    judged: _Judged,
    target: str,
    row_numbers: Sequence[int] | Array,
    held_out: bool | None,
    calibrated: bool = False,
    of_training: bool = False,
) -> Section:
    """The numbers that matter, in a few paragraphs and a small table."""
    y, predictive, (values, without_density), baseline = judged
    kind = {True: "held-out ", False: "training ", None: ""}[held_out]
    text = _coverage_sentence(values["coverage_95"], len(y), kind) + "\n\n"
    text += _verdict_sentences(verdict(y, predictive), calibrated) + "\n\n"
    text += f"The typical error (RMSE) is {number(values['rmse'])}, in units of {target}"
    if baseline is not None and baseline["rmse"] > 0.0:
        change = values["rmse"] / baseline["rmse"] - 1.0
        direction = "below" if change <= 0.0 else "above"
        text += f": {100.0 * abs(change):.0f} % {direction} that of always predicting the average"
    text += {
        True: ". The model had not seen these rows.",
        False: ". The model was fitted on these rows; on new ones expect larger errors.",
        None: ".",
    }[held_out]
    if len(without_density):
        words = without_density_in_words([row_numbers[i] for i in without_density])
        text += f"\n\n{words[0].upper()}{words[1:]}."
    which = "the training targets" if of_training else "these targets"
    text += (
        "\n\nBaseline: the same score of one prediction for all rows, the mean and the standard "
        f"deviation of {which}."
    )
    return Section("How good the predictions are", text, _score_rows([judged], [target], _FIRST))


def _coverage_sentence(coverage: float, n: int, kind: str) -> str:
    """Say how many of the 95 % intervals held, and how many honest ones do."""
    low, high = (int(k) for k in binom.ppf([0.025, 0.975], n, 0.95))
    expected = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    rows = f"{n:,} {kind}row" + ("" if n == 1 else "s")
    return (
        f"Of the observed values in {rows}, {round(coverage * n):,} ({percent(coverage)}) lie "
        f"inside their 95 % interval. Give or take chance, honest intervals hold {expected}."
    )


def _verdict_sentences(found: Verdict, calibrated: bool) -> str:
    """Say whether the error bars are honest, where they are not, and what helps."""
    narrow = any(each.narrow for each in (found.all_rows, *found.doubtful))
    advice = "" if calibrated else ", or PBPRegressorCV, which calibrates them"
    return str(found) + (f" More rows usually help{advice}." if narrow else "")


_Row = tuple[str, str, Callable[[float], str], str]
"""Name of a measure, its key, how it is written and how to read it."""


def _share(value: float) -> str:
    text = number(value) if abs(value) >= 1.0 else f"{value:.3f}"
    return text.replace("-0.000", "0.000").replace("-", "−")


def _inside(level: int) -> _Row:
    text = f"Share of observed values inside their {level} % interval; {level} % is ideal."
    return f"Inside {level} %", f"coverage_{level}", percent, text


_FIRST: list[_Row] = [
    ("RMSE", "rmse", number, "Root mean squared error, in units of the target."),
    ("MAE", "mae", number, "Mean absolute error, in units of the target."),
    (
        "R²",
        "r2",
        _share,
        "Share of the variance of the observed values that is explained. 1 is ideal.",
    ),
    (
        "Log-likelihood",
        "log_likelihood",
        number,
        "Mean log density of what was observed. Higher is better: it rewards small errors and "
        "honest error bars. Compare it between models on the same rows.",
    ),
    (
        "CRPS",
        "crps",
        number,
        "Error of the whole predicted distribution, in units of the target. Lower is better; "
        "without error bars it is the mean absolute error.",
    ),
    _inside(50),
    _inside(95),
]
_MORE: list[_Row] = [
    _inside(80),
    _inside(90),
    (
        "Calibration error",
        "calibration_error",
        percent,
        "Mean distance between the expected and the observed share, over all levels. 0 % is ideal.",
    ),
    (
        "Sharpness",
        "sharpness",
        number,
        "Mean predicted standard deviation, in units of the target. Of two calibrated models "
        "the one with the smaller value says more.",
    ),
]


def _score_rows(
    judged: Sequence[_Judged], targets: Sequence[str], measures: Sequence[_Row]
) -> tuple[list[str], list[list[str]]]:
    """Return header and rows: for each target the score and the baseline."""
    measure, value, words = SCORE_HEADER
    several = len(targets) > 1
    columns = [
        name
        for target in targets
        for name in (target if several else value, f"{target}: baseline" if several else "Baseline")
    ]
    rows = [
        [
            name,
            *(
                "–" if found is None or math.isnan(found[key]) else write(found[key])
                for one in judged
                for found in (one.scores.values, one.baseline)
            ),
            text,
        ]
        for name, key, write, text in measures
    ]
    return [measure, *columns, words], rows


# ---- Pictures


def _pictures(y: FloatArray, predictive: TargetDistribution, target: str) -> list[Section]:
    label = axis_label(target)

    def section(title: str, text: str, draw: Callable[..., Axes], alt: str) -> Section:
        drawn = picture(lambda ax: draw(y, predictive, target=label, ax=ax), alt)
        return Section(title, text, figures=[drawn])

    return [
        section(
            "Predicted against observed",
            "Each mark is a row with its 95 % interval; a random selection if there are many. On "
            "the dashed line the prediction is right. Crosses are rows whose interval misses what "
            "was observed: one in twenty is to be expected.",
            plot.predicted_against_observed,
            f"Predicted against observed {target}, with 95 % intervals",
        ),
        section(
            "Calibration",
            "How many observed values lie inside their interval, for every level of confidence. "
            "On the diagonal the error bars are honest; below it they are too narrow, above it "
            "too wide. The shade is where chance leaves 19 of 20 curves of honest error bars: the "
            "verdict above doubts those that leave it.",
            plot.calibration,
            "Observed against expected coverage of the predictive intervals",
        ),
        section(
            "Residuals against error bars",
            "Where the model is less sure (to the right), errors may be larger. About 68 % of the "
            "dots belong inside one standard deviation, the darkest band, and 95 % inside two.",
            plot.residuals_against_std,
            f"Residuals of {target} against the predicted standard deviation",
        ),
    ]
