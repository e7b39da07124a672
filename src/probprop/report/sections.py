"""The sections of a report on a fitted model: how good it is, how sure, and what it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from numpy.typing import ArrayLike
from scipy.stats import binom, norm
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from probprop import plot
from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.estimators.classifier import PBPClassifier
from probprop.estimators.cv.calibration import Calibration, ClassCalibration, Squares
from probprop.estimators.cv.classifier import PBPClassifierCV
from probprop.estimators.cv.policy import Candidate
from probprop.estimators.cv.regressor import PBPRegressorCV
from probprop.estimators.cv.search import RACE_WAS_OVER, CandidateCurve, CVChoice
from probprop.estimators.ensemble import PBPEnsemble
from probprop.estimators.kind import first_network, is_cross_validated, members, transformation_of
from probprop.estimators.regressor import PBPRegressor
from probprop.facts import (
    OUT_OF_FOLD,
    HeldOut,
    cell,
    epochs_in_words,
    gain_in_words,
    model_facts,
    number,
    percent,
    power_in_words,
)
from probprop.inference.posterior import Epoch
from probprop.inference.standardize import marginal, measure
from probprop.metrics.classes import class_baseline, class_summary, rarer_class
from probprop.metrics.regression import (
    Scores,
    baseline_summary,
    scores,
    without_density_in_words,
)
from probprop.metrics.verdict import Verdict, class_verdict, verdict
from probprop.plot.model import candidate_in_words
from probprop.report.dependence import Rows, depending, rows_of
from probprop.report.document import Section, Table, axis_label, picture
from probprop.table.encoding import Encoder
from probprop.table.names import in_words, target_names

_KIND = {OUT_OF_FOLD: "out-of-fold ", True: "held-out ", False: "training ", None: ""}  # rows
_SEEN = {
    OUT_OF_FOLD: " Each of these rows is predicted by networks that were not trained on it.",
    True: " The model had not seen these rows.",
    False: " The model was fitted on these rows; on new ones expect {} errors.",
    None: "",
}


def regression_sections(
    model: PBPRegressor | PBPRegressorCV | PBPEnsemble,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str],
    target: str | Sequence[str],
    held_out: HeldOut,
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
    held_out : bool, "out of fold" or None
        Whether the model was fitted without these rows; None if that is not known. If "out of
        fold", X and y are the training samples ``model.oof_rows_``, in this order, of a
        cross-validated estimator, and each is predicted by the networks that held it out.
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
        a `TableModel`. If it is empty, mean and standard deviation of y are used.

    Returns
    -------
    list of Section
        Each of several targets has its own scores, pictures, rows and columns; training, weights
        and facts, which they have in common, follow.

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
    encoded, names = _check_rows(X, y, feature_names, len(targets))
    rows = rows_of(encoded, names, row_numbers, table, encoder)
    observed = np.asarray(y, np.float64).reshape(len(encoded), -1).T  # a row per target
    with warnings.catch_warnings():  # the names of the columns are given apart from X
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if held_out == OUT_OF_FOLD:
            predictive: TargetDistribution = cast(Any, model).oof_predictive_
        else:
            predictive = cast(Any, model).predict_distribution(encoded, sample_weight=sample_weight)
        depends = depending(model, rows, np.asarray(y), targets, held_out)
    pairs = baseline or marginal(measure(observed.T))
    judged = [
        _Judged(column, one, scores(column, one), baseline_summary(column, *pair))
        for column, one, pair in zip(observed, predictive.targets(), pairs, strict=True)
    ]
    which = "the training targets" if len(baseline) else "these targets"
    made = []
    for name, one, columns in zip(targets, judged, depends, strict=True):
        own = [
            _quality(one, name, rows.numbers, held_out, is_cross_validated(model), which),
            *_pictures(one.y, one.predictive, name),
            _worst_section(one.y, one.predictive, rows, columns.names),
            *columns.sections,
        ]
        if len(targets) > 1:
            own = [replace(s, title=f"{name}: {s.title[0].lower()}{s.title[1:]}") for s in own]
        made += own
    found = [values for one in judged for values in (one.scores.values, one.baseline)]
    more = Section("More measures", table=_score_rows(found, targets, _MORE))
    return [*made, *_sections_of_model(model, names, targets, [more])]


def classification_sections(
    model: PBPClassifier | PBPEnsemble | PBPClassifierCV,
    X: ArrayLike,
    y: ArrayLike,
    *,
    feature_names: Sequence[str],
    target: str,
    held_out: HeldOut,
    row_numbers: Sequence[int] | None = None,
    table: pd.DataFrame | None = None,
    encoder: Encoder | None = None,
) -> list[Section]:
    """Judge a fitted classifier on rows whose classes are known.

    Parameters
    ----------
    model : PBPClassifier, PBPEnsemble or PBPClassifierCV
        Fitted on classes, not on several labels.
    X : array-like of shape (n, n_features)
        The numbers the model takes, after any encoding.
    y : array-like of shape (n,)
        Observed classes, all of them in ``model.classes_``.
    feature_names, target, held_out, row_numbers, table, encoder
        As for `regression_sections`, with one target.
    """
    check_is_fitted(model)
    if model.multilabel_:
        raise ValueError("The report is on classes. Got a model of several labels instead.")
    encoded, names = _check_rows(X, y, feature_names)
    rows = rows_of(encoded, names, row_numbers, table, encoder)
    observed = np.asarray(y)
    if not np.isin(observed, model.classes_).all():
        raise ValueError("y must hold classes of the model only. Leave out the other rows.")
    index = np.searchsorted(model.classes_, observed)
    with warnings.catch_warnings():  # the names of the columns are given apart from X
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        predictive: ClassMixture = (
            cast(Any, model).oof_predictive_
            if held_out == OUT_OF_FOLD
            else cast(Any, model).predict_distribution(encoded)
        )
    [columns] = depending(model, rows, observed, [target], held_out)
    return [
        _quality_of_classes(index, predictive, model.classes_, held_out),
        *_pictures_of_classes(index, predictive.proba, model.classes_),
        _uncertain_section(index, predictive, model.classes_, rows, columns.names),
        *columns.sections,
        *_sections_of_model(model, names, [target]),
    ]


def _check_rows(
    X: ArrayLike, y: ArrayLike, feature_names: Sequence[str], n_targets: int = 1
) -> tuple[Array, list[str]]:
    """Return X, (n, n_features), and the names of its columns; y is (n,), or (n, n_targets)."""
    rows, shape, names = np.asarray(X), np.shape(y), [str(k) for k in feature_names]
    expected = rows.shape[:1] + (() if n_targets == 1 else (n_targets,))
    if rows.ndim != 2 or shape != expected or len(names) != rows.shape[1]:
        raise ValueError(
            "X must have one row per target and one column per feature name. Got X of shape "
            f"{rows.shape}, y of shape {shape} and {len(names)} names instead."
        )
    return rows, names


def _drawn(title: str, text: str, draw: Callable[[Axes], object], alt: str) -> Section:
    return Section(title, text, figures=[picture(draw, alt)])


# ---- Scores


class _Judged(NamedTuple):
    """Observed and predicted values of one target, (n,), with their scores and the baseline's."""

    y: FloatArray
    predictive: TargetDistribution
    scores: Scores
    baseline: dict[str, float] | None


def _share(value: float) -> str:
    text = number(value) if abs(value) >= 1.0 else f"{value:.3f}"
    return text.replace("-0.000", "0.000").replace("-", "−")


_SCORE_HEADER = ["Measure", "Value", "How to read it"]
_LEVELS = (50, 80, 90, 95)  # per cent
_SCORES: dict[str, tuple[str, Callable[[float], str]]] = {  # name, and how a value is written
    "rmse": ("RMSE", number),
    "mae": ("MAE", number),
    "r2": ("R²", _share),
    "log_likelihood": ("Log-likelihood", number),
    "crps": ("CRPS", number),
    "sharpness": ("Sharpness", number),
    "calibration_error": ("Calibration error", percent),
    "accuracy": ("Accuracy", percent),
    "log_loss": ("Log-loss", number),
    "brier": ("Brier score", number),
    "roc_auc": ("ROC-AUC", number),
    "average_precision": ("Average precision", number),
    **{f"coverage_{level}": (f"Inside {level} %", percent) for level in _LEVELS},
}
_INSIDE = {
    level: f"Share of observed values inside their {level} % interval; {level} % is ideal."
    for level in _LEVELS
}
_FIRST = {
    "rmse": "Root mean squared error, in units of the target.",
    "mae": "Mean absolute error, in units of the target.",
    "r2": "Share of the variance of the observed values that is explained. 1 is ideal.",
    "log_likelihood": "Mean log density of what was observed. Higher is better: it rewards small "
    "errors and calibrated intervals. Compare it between models on the same rows.",
    "crps": "Error of the whole predicted distribution, in units of the target. Lower is better; "
    "without error bars it is the mean absolute error.",
    "coverage_50": _INSIDE[50],
    "coverage_95": _INSIDE[95],
}
_MORE = {
    "coverage_80": _INSIDE[80],
    "coverage_90": _INSIDE[90],
    "calibration_error": "Mean distance between the expected and the observed share, over all "
    "levels. 0 % is ideal.",
    "sharpness": "Mean predicted standard deviation, in units of the target. Of two calibrated "
    "models the one with the smaller value says more.",
}
_OF_CLASSES = {
    "accuracy": "Share of the rows whose most probable class is right.",
    "log_loss": "Mean negative log of the probability of what was observed. Lower is better: it "
    "rewards right predictions and calibrated probabilities.",
    "brier": "Mean squared distance of the probabilities from what was observed. Lower is better.",
    "calibration_error": "Mean distance between the probability of the predicted class and the "
    "share that is right. 0 % is ideal; with few rows chance alone keeps it above.",
    "roc_auc": "Area under the ROC curve. {curve}. Higher is better; 0.5 is chance.",
    "average_precision": "Area under the precision-recall curve. {curve}. Higher is better.",
}


def _score_rows(
    found: Sequence[dict[str, float] | None], targets: Sequence[str], measures: Mapping[str, str]
) -> Table:
    """Return header and rows: for each target the score and the baseline, in turn in `found`."""
    measure, value, words = _SCORE_HEADER
    columns = [value, "Baseline"]
    if len(targets) > 1:
        columns = [name for target in targets for name in (target, f"{target}: baseline")]
    rows = []
    for key, text in measures.items():
        name, write = _SCORES[key]
        cells = ("–" if v is None or math.isnan(v[key]) else write(v[key]) for v in found)
        rows.append([name, *cells, text])
    return [measure, *columns, words], rows


def _n_rows(n: int, held_out: HeldOut) -> str:
    return f"{n:,} {_KIND[held_out]}row" + ("" if n == 1 else "s")


def _quality(
    judged: _Judged,
    target: str,
    row_numbers: Array,
    held_out: HeldOut,
    calibrated: bool,
    which: str,
) -> Section:
    """The numbers that matter, in a few paragraphs and a small table."""
    y, predictive, (values, without_density), baseline = judged
    text = _coverage_sentence(values["coverage_95"], len(y), held_out) + "\n\n"
    text += _verdict_sentences(verdict(y, predictive), calibrated) + "\n\n"
    text += f"The typical error (RMSE) is {number(values['rmse'])}, in units of {target}"
    if baseline is not None and baseline["rmse"] > 0.0:
        change = values["rmse"] / baseline["rmse"] - 1.0
        direction = "below" if change <= 0.0 else "above"
        text += f": {100.0 * abs(change):.0f} % {direction} that of always predicting the average"
    text += "." + _SEEN[held_out].format("larger")
    if len(without_density):
        words = without_density_in_words([row_numbers[i] for i in without_density])
        text += f"\n\n{words[0].upper()}{words[1:]}."
    text += (
        "\n\nBaseline: the same score of one prediction for all rows, the mean and the standard "
        f"deviation of {which}."
    )
    table = _score_rows([values, baseline], [target], _FIRST)
    return Section("How good the predictions are", text, table)


def _coverage_sentence(coverage: float, n: int, held_out: HeldOut) -> str:
    """Say how many of the 95 % intervals held, and how many calibrated ones do."""
    low, high = (int(k) for k in binom.ppf([0.025, 0.975], n, 0.95))
    expected = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    return (
        f"Of the observed values in {_n_rows(n, held_out)}, {round(coverage * n):,} "
        f"({percent(coverage)}) lie inside their 95 % interval; calibrated intervals hold "
        f"{expected}, give or take chance."
    )


def _verdict_sentences(found: Verdict, calibrated: bool) -> str:
    """Say how far the intervals are off, with the p-value, where, and what helps."""
    narrow = any(each.narrow for each in (found.all_rows, *found.doubtful))
    advice = "" if calibrated else ", or PBPRegressorCV, which calibrates them"
    text = f"{found} {_test_in_words(found.all_rows.p_value)}"
    return text + (f" More rows usually help{advice}." if narrow else "")


def _test_in_words(p_value: float) -> str:
    """Name the p-value of the test behind a verdict."""
    p = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
    return f"The hypothesis that they are calibrated has {p}."


def _quality_of_classes(
    index: Array, predictive: ClassMixture, classes: Array, held_out: HeldOut
) -> Section:
    """The numbers that matter, in three paragraphs and a small table."""
    found, baseline = class_summary(index, predictive), class_baseline(index, len(classes))
    n_right = round(found["accuracy"] * len(index))
    shares = np.bincount(index, minlength=len(classes)) / len(index)
    text = (
        f"The most probable class is right in {n_right:,} of {_n_rows(len(index), held_out)} "
        f"({percent(found['accuracy'])}). Always naming the most frequent one, "
        f"{classes[shares.argmax()]}, would be right in {percent(shares.max())}."
    )
    judged = class_verdict(n_right, predictive.proba.max(axis=1))
    text += (
        _SEEN[held_out].format("more") + f"\n\n{judged} {_test_in_words(judged.p_value)}"
        "\n\nBaseline: the same score without features, with the shares of the classes in these "
        "rows as probabilities."
    )
    several = "Mean over the classes, each against all others"
    curve = f"For {classes[rarer_class(index)]}, the rarer class" if len(classes) == 2 else several
    measures = {
        key: words.replace("{curve}", curve)
        for key, words in _OF_CLASSES.items()
        if not np.isnan(found[key])  # a single class has no curve
    }
    table = _score_rows([found, baseline], [""], measures)
    return Section("How good the predictions are", text, table)


# ---- Pictures


def _pictures(y: FloatArray, predictive: TargetDistribution, target: str) -> list[Section]:
    label = axis_label(target)

    def on_axes(draw: Callable[..., Axes]) -> Callable[[Axes], Axes]:
        return lambda ax: draw(y, predictive, target=label, ax=ax)

    return [
        _drawn(
            "Predicted against observed",
            "Each mark is a row with its 95 % interval; a random selection if there are many. On "
            "the dashed line the prediction is right. Crosses are rows whose interval misses what "
            "was observed: one in twenty is to be expected.",
            on_axes(plot.predicted_against_observed),
            f"Predicted against observed {target}, with 95 % intervals",
        ),
        _drawn(
            "Calibration",
            "How many observed values lie inside their interval, for every level of confidence. "
            "On the diagonal the intervals are calibrated; below it they are too narrow, above it "
            "too wide. The shade is where chance leaves 19 of 20 curves of calibrated intervals: "
            "the verdict above doubts those that leave it.",
            on_axes(plot.calibration),
            "Observed against expected coverage of the predictive intervals",
        ),
        _drawn(
            "Residuals against error bars",
            "Where the model is less sure (to the right), errors may be larger. About 68 % of the "
            "dots belong inside one standard deviation, the darkest band, and 95 % inside two.",
            on_axes(plot.residuals_against_std),
            f"Residuals of {target} against the predicted standard deviation",
        ),
    ]


def _pictures_of_classes(index: Array, proba: FloatArray, classes: Array) -> list[Section]:
    sections = [
        _drawn(
            "Reliability",
            "How often the predicted class is right, against the probability it was given, in bins "
            "of a tenth; a larger dot is more rows. On the diagonal the probabilities are "
            "calibrated; below it too sure, above it too cautious. The bars are where chance "
            "leaves a calibrated model.",
            lambda ax: plot.reliability(index, proba, ax=ax),
            "Share of right predictions against their probability",
        ),
        _drawn(
            "Confusion matrix",
            "Rows of each observed class, by the class predicted; the darker, the larger the share "
            "of the observed class. Off the diagonal are the errors.",
            lambda ax: plot.confusion_matrix(index, proba, classes.tolist(), ax=ax),
            "Confusion matrix: observed against predicted class",
        ),
    ]
    if len(classes) == 2 and len(np.unique(index)) == 2:
        rarer = rarer_class(index)
        name = str(classes[rarer])
        is_rarer, order = (index == rarer).astype(int), [1 - rarer, rarer]
        text = (
            f"Rows whose probability of {name} is above a threshold are taken for it. Upwards is "
            "the share of its rows that this finds, to the right the share of other rows taken "
            "wrongly; the curve is all thresholds. The area under it is the probability that a row "
            "of this class is ranked above one of the other."
        )
        sections.append(
            _drawn(
                "Threshold (ROC curve)",
                text,
                lambda ax: plot.roc_curve(is_rarer, proba[:, order], name=name, ax=ax),
                f"ROC curve of {name}",
            )
        )
    return sections


# ---- The rows a reader should look at: those furthest off, and those least certain


_SHOWN = 10  # rows
_CELLS = 6  # columns of the table beside them


def _worst_section(
    y: FloatArray, predictive: TargetDistribution, rows: Rows, important: Sequence[str]
) -> Section:
    """Show the rows whose y, (n,), is most standard deviations from what was predicted."""
    mean, std = predictive.mean, predictive.std
    with np.errstate(divide="ignore", invalid="ignore"):  # a std of 0: the target is surely 0
        off = np.where(y == mean, 0.0, (y - mean) / std)
    worst = np.argsort(-np.abs(off), kind="stable")[:_SHOWN]
    own = [
        [
            number(float(y[i]), float(std[i])),
            number(float(mean[i]), float(std[i])),
            number(float(std[i])),
            f"{off[i]:+,.1f}".replace("-", "−"),
        ]
        for i in worst
    ]
    n = len(y)
    by_chance = norm.ppf(0.5 * (1.0 + 0.5 ** (1.0 / n)))  # median of the largest of n
    text = (
        "Rows whose observed value is furthest from the prediction, counted in the standard "
        f"deviations (std) of its error bar. Among {n:,} rows with calibrated Gaussian error "
        f"bars the largest is about {by_chance:.1f}. Larger ones are worth a look: wrong cells, or "
        "rows unlike those the model learned from."
    )
    header = ["Observed", "Predicted", "Std", "Off by [std]"]
    return _rows_section("The rows furthest off", text, header, worst, own, rows, important)


def _uncertain_section(
    index: Array, predictive: ClassMixture, classes: Array, rows: Rows, important: Sequence[str]
) -> Section:
    """Show the rows with the least certain class, and how much of that more data could settle.

    `index`, (n,), is the place of each row's class in `classes`.
    """
    least = np.argsort(-predictive.entropy, kind="stable")[:_SHOWN]
    shown = predictive[least]
    guessed, proba = shown.proba.argmax(axis=1), shown.proba.max(axis=1)
    unknown = shown.entropy_model / np.maximum(shown.entropy, 1e-300)
    own = [
        [
            str(classes[index[i]]),
            f"{classes[guessed[j]]}, {percent(float(proba[j]))}",
            number(float(shown.entropy[j])),
            percent(float(unknown[j])),
        ]
        for j, i in enumerate(least)
    ]
    text = (
        f"Rows of the largest entropy, in nats: 0 is certain, {number(math.log(len(classes)))} all "
        "classes alike. Not known is the part of it that more data could remove; the rest is "
        "classes that overlap."
    )
    header = ["Observed", "Predicted", "Entropy", "Not known"]
    return _rows_section("The least certain rows", text, header, least, own, rows, important)


def _rows_section(
    title: str,
    text: str,
    header: list[str],
    chosen: Array,
    own: list[list[str]],
    rows: Rows,
    important: Sequence[str],
) -> Section:
    """Show the chosen rows: their numbers, their own cells under `header`, the important columns.

    The text says which columns are shown if these are not all.
    """
    names, n = list(important[:_CELLS]), len(rows.columns)
    if n > len(names):
        text += f" Of their {n:,} cells the {len(names)} most important are shown."
    table = [
        [str(rows.numbers[i]), *cells, *(cell(rows.table[name].iloc[i]) for name in names)]
        for i, cells in zip(chosen, own, strict=True)
    ]
    return Section(title, text, (["Row", *header, *names], table), names_rows=True)


# ---- The model: training, choice, calibration, weights, facts


def _sections_of_model(
    model: Any, names: Sequence[str], targets: list[str], more: Sequence[Section] = ()
) -> list[Section]:
    """Return what is said of a model itself; `more` stands before its facts."""
    return [
        _training_section(model, targets),
        *cross_validation_sections(model, targets[0]),
        _drawn(
            "Weights",
            "The mean and the standard deviation of each weight of the network after training, "
            "layer by layer. A weight that the data say nothing about stays near zero, as wide as "
            "the prior; one below the dotted line is more than two standard deviations from zero."
            + _which(model),
            lambda ax: plot.weight_posterior(first_network(model).posterior_, ax=ax),
            "Means and standard deviations of the weights in each layer",
        ),
        *more,
        Section("The model", table=([], model_facts(model, names, targets))),
    ]


def _training_section(model: Any, targets: list[str]) -> Section:
    """How training went, pass by pass."""
    network = first_network(model)
    has_noise = not is_classifier(network)
    text = "Mean log Z is how well each row was predicted just before the network learned from it; "
    text += "it should rise and level off." + _which(model)
    if has_noise:
        text += " The noise is what the network leaves unexplained"
        text += ", before calibration." if is_cross_validated(model) else "."
    shown = f"Mean log Z and the noise of {in_words(targets)}" if has_noise else "Mean log Z"
    labels = [axis_label(name) for name in targets] if has_noise else None
    history: list[Epoch] = network.history_
    if (g := transformation_of(model)) is not None:
        at = f"{targets[0]} where it is {number(g.unit)}"
        text += f" Both are those of {power_in_words(g.power)}; the noise is shown as that of {at}."
        unit = g.unit * g.unit  # where y is the unit, dy = unit dz
        history = [e._replace(noise_variance=unit * e.noise_std[0] ** 2) for e in history]

    def draw(ax: Axes) -> None:
        plot.training_curve(history, target=labels, ax=ax)

    return _drawn("Training", text, draw, f"{shown} after each pass")


def _which(model: Any) -> str:
    n = len(members(model))
    return f" Shown is the first of the {n:,} networks." if n else ""


def cross_validation_sections(model: Any, target: str) -> list[Section]:
    """Return what was chosen and why, and the calibration; nothing for other estimators."""
    if not is_cross_validated(model):
        return []
    calibration: Calibration | ClassCalibration = model.calibration_
    if isinstance(calibration, ClassCalibration):
        text, rows = _calibration_of_classes(calibration)
    else:
        text, rows = _calibration_of_numbers(calibration, model.choice_.candidate, target)
    calibrated = Section("How it was calibrated", text, (_SCORE_HEADER, rows))
    return [_choice_section(model, target), calibrated]


_RACE_HEADER = ["Setting", "Epochs", "Log-likelihood", "Not calibrated", "Why it went no further"]


def _choice_section(model: Any, target: str) -> Section:
    choice: CVChoice = model.choice_
    n = len(choice.curves)
    compared = f"{n:,} settings were" if n > 1 else "One setting was"
    n, k = len(members(model)), model.n_partitions_
    networks = f"The {n:,} networks of the folds"
    if k > 1:
        networks = f"The rows were parted into {n // k:,} folds {k:,} times; the {n:,} networks of "
        networks += "all folds"
    # A budget of seconds or Ctrl-C may have had a part in the end.
    end = "" if choice.ended in ("", RACE_WAS_OVER) else f" Training ended: {choice.ended}."
    of_power = ""
    if (g := transformation_of(model)) is not None:
        of_power = (
            f" Its networks predict {power_in_words(g.power)} of {target}, since errors grow with "
            f"it; all that is shown of predictions is in units of {target}, and never below 0."
        )
    powers = dict.fromkeys(c.candidate.power for c in choice.curves)
    names = [power_in_words(power) for power in powers if power is not None]
    words = [f'"{name.removeprefix("the ")}" predicts {name} of {target}' for name in names]
    legend = f" One with {', one with '.join(words)}." if words else ""
    text = (
        f"{compared} trained on folds of the rows and judged by the log-likelihood of the rows "
        "held out, after calibration; higher is better. Chosen: "
        f"{choice.in_words}. "
        f"{_why(choice)}{of_power}\n\n"
        f"{networks} predict together, and none was trained again.{end} In "
        'the picture and in the table "32 ramps, 50 + 50, evidence cap 10" is a setting with 32 '
        "ramps beside each feature, which let a network bend there, two layers of 50 units, and an "
        f"effective sample size of at most ten times the rows.{legend}"
    )
    drawn = picture(
        lambda ax: plot.candidate_curves(choice, ax=ax),
        "Log-likelihood of held-out rows against the epochs, a line for each setting",
    )
    rows = [_race_row(curve, curve is choice.curves[choice.best]) for curve in _ranked(choice)]
    return Section("How the networks were chosen", text, (_RACE_HEADER, rows), [drawn])


def _best_of(curve: CandidateCurve) -> tuple[int, float, float]:
    """Return the epochs, the calibrated and the raw score of the best point of a curve."""
    i = curve.calibrated.index(max(curve.calibrated))
    return curve.n_epochs[i], curve.calibrated[i], curve.raw[i]


def _ranked(choice: CVChoice) -> list[CandidateCurve]:
    """Return the curves, best first; those that were never looked at come last."""
    return sorted(choice.curves, key=lambda curve: -max(curve.calibrated, default=-math.inf))


def _why(choice: CVChoice) -> str:
    """Say by how much it was better than the best of the others."""
    chosen = choice.curves[choice.best]
    _, score, _ = _best_of(chosen)
    others = [curve for curve in _ranked(choice) if curve is not chosen and curve.n_epochs]
    if not others:
        return f"Its log-likelihood there is {_score(score)} per row; nothing else was compared."
    n_epochs, second, _ = _best_of(others[0])
    gain = score - second
    distance, end = f"{gain:.3f} above the next best,", "."
    if gain < 0.0:  # what costs more, or has a power, must be clearly better
        distance, end = f"{-gain:.3f} below that of", ", which is no clear gain."
    return (
        f"Its log-likelihood there is {_score(score)} per row, {distance} "
        f'"{candidate_in_words(others[0].candidate)}" after '
        f"{epochs_in_words(n_epochs)}{end}"
    )


def _race_row(curve: CandidateCurve, chosen: bool) -> list[str]:
    name = candidate_in_words(curve.candidate)
    if not curve.n_epochs:
        return [name, "–", "–", "–", curve.outcome]
    n_epochs, calibrated, raw = _best_of(curve)
    outcome = f"chosen ({curve.outcome})" if chosen else curve.outcome
    return [name, f"{n_epochs:,}", _score(calibrated), _score(raw), outcome]


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


_USED = {
    "auto": "It is used where the gain is above 0.",
    "constant": "None was tried, as the setting asks.",
    "input": "It is used whatever it gains, as the setting asks.",
}


def _calibration_of_numbers(
    calibration: Calibration, candidate: Candidate, target: str
) -> tuple[str, list[list[str]]]:
    factor, slope = math.sqrt(calibration.factor), calibration.range.slope
    units, of_scale = f"in units of {target}", ""
    if (g := calibration.transformation) is not None:
        slope, units = slope * g.unit, f"{units} where that is {number(g.unit)}"
        of_scale = (
            f" All of this is about {power_in_words(g.power)} of {target}; in its own units errors "
            "grow with it."
        )
    text = (
        f"{_about_errors(calibration.squares)} {_about_noise(calibration, candidate)}{of_scale}\n\n"
        "Beyond the range of the training rows there are no errors to learn from; there the error "
        "bars grow with the distance."
    )
    gain = "–" if math.isnan(calibration.gain) else gain_in_words(calibration)
    of_factor = "Of each network. 1: the networks were right about it."
    of_gain = "Log density per row, on rows held out from it, with the standard error. "
    of_slope = f"Standard deviation added for each standard deviation of a feature, {units}."
    rows = [
        ["Factor of the error bars", f"{factor:.3f}", of_factor],
        ["Gain of the noise network", gain, of_gain + _USED[candidate.noise]],
        ["Slope beyond the range", number(slope), of_slope],
    ]
    return text, rows


def _calibration_of_classes(calibration: ClassCalibration) -> tuple[str, list[list[str]]]:
    T = calibration.temperature
    how = "too sure" if T > 1.0 else "less sure than they could be"
    moved = "closer to each other" if T > 1.0 else "further apart"
    text = (
        f"On the rows held out the networks were {how} of the class. One number, the temperature, "
        f"was learned there, and moves all probabilities {moved}."
    )
    of_temperature = (
        "1: as the networks say; above, less sure; below, surer. What is known of it leaves it "
        f"open by {100.0 / math.sqrt(calibration.precision):.0f} %."
    )
    of_loss = "Mean of −log probability of the classes held out, with the temperature. Lower is "
    rows = [
        ["Temperature", f"{T:.3f}", of_temperature],
        ["Log-loss", f"{calibration.log_loss:.4f}", of_loss + "better."],
        ["Log-loss before", f"{calibration.raw_log_loss:.4f}", "The same without it."],
    ]
    return text, rows


def _about_errors(squares: Squares) -> str:
    """Say how large errors were, and what was done about it."""
    factor = math.sqrt(squares.factor)
    done = "widened" if factor > 1.0 else "narrowed"
    size = f"{math.sqrt(squares.error):.2f} times as large as the networks expected"
    if squares.n_pooled == 1:
        return f"Errors on the rows held out were {size}, so all error bars are {done} by that."
    return (
        f"Errors on the rows held out, of the mean of {squares.n_pooled:,} networks each, were "
        f"{size}; those of the mean of all {squares.n_members:,} networks will be "
        f"{math.sqrt(squares.total):.2f} times as large. The networks disagree, which is a part of "
        f"that; for the rest the error bars of each are {done}, by the factor {factor:.2f}."
    )


def _about_noise(calibration: Calibration, candidate: Candidate) -> str:
    asked = candidate.noise != "auto"
    if calibration.noise is not None:
        so = ". It is used, as the setting asks" if asked else ", so it is used"
        return (
            "A small second network has learned from these errors where the noise is larger and "
            "where it is smaller. On rows it had not seen this gains "
            f"{gain_in_words(calibration)} in log density per row{so}."
        )
    if asked:
        return "The noise is taken to be the same everywhere, as the setting asks."
    if math.isnan(calibration.gain):
        return (
            "There were too few rows, or too few seconds, to learn where the noise is larger: it "
            "is taken as constant."
        )
    return (
        "A second network that learned where the noise is larger and where it is smaller gained "
        f"nothing on rows it had not seen ({gain_in_words(calibration)} in log density per row), "
        "so the noise is taken to be the same everywhere."
    )
