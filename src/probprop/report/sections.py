"""The sections of a report on a fitted model: how good it is, how sure, and what it is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from scipy.stats import binom, norm
from sklearn.metrics import ConfusionMatrixDisplay, RocCurveDisplay

from probprop import facts, plot
from probprop._types import Array, FloatArray
from probprop.distributions.base import TargetDistribution
from probprop.distributions.classes import ClassMixture
from probprop.estimators.cv.search import Trial
from probprop.estimators.kind import is_cross_validated, networks_of
from probprop.facts import OUT_OF_FOLD, HeldOut
from probprop.inference.posterior import Epoch
from probprop.inference.standardize import marginal, measure
from probprop.judged import LABELS, Judged, judge_classes, judge_values, show
from probprop.metrics.classes import rarer_class
from probprop.metrics.regression import pointwise, without_density_in_words
from probprop.metrics.verdict import ClassVerdict, Verdict
from probprop.plot.model import candidate_in_words
from probprop.report.dependence import Depends, Rows, depending, rows_of
from probprop.report.document import Section, Table, axis_label, picture
from probprop.table.model import TableModel

_KIND = {OUT_OF_FOLD: "out-of-fold ", True: "test ", False: "training ", None: ""}  # samples
_SEEN = {
    OUT_OF_FOLD: " Each of these samples is predicted by networks that were not trained on it.",
    True: " The model was not trained on these samples.",
    False: " The model was trained on these samples; on new samples expect {} errors.",
    None: "",
}


def sections_and_ranking(
    model: TableModel, frame: pd.DataFrame, *, held_out: HeldOut
) -> tuple[list[Section], tuple[str, ...]]:
    """Evaluate a model of a table on rows with known targets, whose index counts them from 0.

    `held_out` is whether the model was fitted without these rows; None if that is not known. If
    "out of fold", they are the training rows ``oof_rows_``, in this order, of a cross-validated
    estimator, and each is predicted by the networks that were not trained on it.

    Each of several targets has its own scores, pictures, rows and columns. The second result is
    the columns, the most important for the first target first.
    """
    estimator: Any = model.estimator
    X, y = model.split(frame, training=held_out == OUT_OF_FOLD)
    rows = rows_of(model, frame, X)
    weights = model.weights_to_judge(frame)
    options: Any = {} if weights is None else {"sample_weight": weights}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if held_out == OUT_OF_FOLD:
            predictive = estimator.oof_predictive_
        else:
            predictive = estimator.predict_distribution(X, **options)
        depends = depending(estimator, rows, y, model.targets, held_out)
    if model.classes is not None:
        index, [columns] = model.classes.searchsorted(y), depends
        made = [
            _quality_of_classes(index, predictive, model, held_out),
            *_pictures_of_classes(index, predictive.proba, model.classes),
            _uncertain_section(index, predictive, model.classes, rows, columns.names),
            *columns.sections,
        ]
    else:
        made = _sections_of_values(model, y, predictive, rows, depends, held_out)
    found = model.encoder.columns_.astype(str)
    table = Section("Columns", table=(list(found), found.to_numpy().tolist()))
    made += [*_sections_of_model(estimator, model.encoded_names, model.targets), table]
    return made, depends[0].names


def _sections_of_values(
    model: TableModel,
    y: Array,
    predictive: TargetDistribution,
    rows: Rows,
    depends: Sequence[Depends],
    held_out: HeldOut,
) -> list[Section]:
    """Return the sections of each target."""
    observed = np.asarray(y, np.float64).reshape(len(rows.X), -1).T  # a row per target
    pairs = model.baseline or marginal(measure(observed.T))
    which = "the training targets" if model.baseline else "these targets"
    calibrated, several = is_cross_validated(model.estimator), len(model.targets) > 1
    made: list[Section] = []
    each = zip(model.targets, observed, predictive.targets(), pairs, depends, strict=True)
    for name, column, one, pair, columns in each:
        judged = judge_values(pointwise(column, one), pair, rows.numbers)
        own = [
            _quality(judged, len(column), name, held_out, calibrated, which),
            *_pictures(column, one, name),
            _worst_section(column, one, rows, columns.names),
            *columns.sections,
        ]
        if several:
            own = [replace(s, title=f"{name}: {s.title[0].lower()}{s.title[1:]}") for s in own]
        made += own
    return made


def _drawn(title: str, text: str, draw: Callable[[Axes], object], alt: str) -> Section:
    return Section(title, text, figures=[picture(draw, alt)])


# ---- Scores


_OF_VALUES = {
    "rmse": "Root mean squared error, in units of the target.",
    "mae": "Mean absolute error, in units of the target.",
    "r2": "Share of the variance of the observed values that is explained. 1 is ideal.",
    "log_likelihood": "Mean log density of the observed values. Higher is better: it rewards small "
    "errors and calibrated intervals. Compare it between models on the same samples.",
    "crps": "Error of the whole predictive distribution, in units of the target. Lower is better; "
    "for a point prediction it is the mean absolute error.",
    **{
        f"coverage_{k}": f"Share of observed values inside their {k} % interval; {k} % is ideal."
        for k in (50, 80, 90, 95)
    },
    "calibration_error": "Mean distance between nominal and empirical coverage, over all levels. "
    "0 % is ideal.",
    "sharpness": "Mean predicted standard deviation, in units of the target. If two models are "
    "calibrated, the smaller value is better.",
}
_OF_CLASSES = {
    "accuracy": "Share of the samples whose most probable class is correct.",
    "log_loss": "Mean negative log probability of the observed class. Lower is better: it rewards "
    "correct predictions and calibrated probabilities.",
    "brier": "Mean squared distance between probabilities and observed classes. Lower is better.",
    "calibration_error": "Mean distance between the probability of the predicted class and the "
    "share that is correct. 0 % is ideal; with few samples it is above 0 % by chance.",
    "roc_auc": "Area under the ROC curve. {curve}. Higher is better; 0.5 is chance.",
    "average_precision": "Area under the precision-recall curve. {curve}. Higher is better.",
}


def _score_rows(judged: Judged, measures: Mapping[str, str]) -> Table:
    """Return header and rows of a table of the scores and the baseline's scores."""
    rows = []
    for key, text in measures.items():
        pair = (math.nan if v is None else v[key] for v in (judged.scores, judged.baseline))
        name = f"{LABELS[key][0].upper()}{LABELS[key][1:]}"
        rows.append([name, *(show(key, v).replace("-", "−") for v in pair), text])
    return ["Measure", "Value", "Baseline", "How to read it"], rows


def _n_rows(n: int, held_out: HeldOut) -> str:
    return f"{n:,} {_KIND[held_out]}sample" + ("" if n == 1 else "s")


def _quality(
    judged: Judged, n: int, target: str, held_out: HeldOut, calibrated: bool, which: str
) -> Section:
    """The numbers that matter, in a few paragraphs and a small table."""
    values, baseline = judged.scores, judged.baseline
    text = _coverage_sentence(values["coverage_95"], n, held_out) + "\n\n"
    text += _verdict_sentences(cast(Verdict, judged.verdict), calibrated) + "\n\n"
    text += f"The typical error (RMSE) is {facts.number(values['rmse'])}, in units of {target}"
    if baseline is not None and baseline["rmse"] > 0.0:
        change = values["rmse"] / baseline["rmse"] - 1.0
        direction = "below" if change <= 0.0 else "above"
        text += (
            f": {100.0 * abs(change):.0f} % {direction} the RMSE of always predicting the average"
        )
    text += "." + _SEEN[held_out].format("larger")
    if judged.left_out:
        words = without_density_in_words(judged.left_out)
        text += f"\n\n{words[0].upper()}{words[1:]}."
    text += (
        "\n\nBaseline: the score of one prediction for all samples, with the mean and the standard "
        f"deviation of {which}."
    )
    return Section("How good the predictions are", text, _score_rows(judged, _OF_VALUES))


def _coverage_sentence(coverage: float, n: int, held_out: HeldOut) -> str:
    """Give the empirical coverage of the 95 % intervals, and its range if they are calibrated."""
    low, high = (int(k) for k in binom.ppf([0.025, 0.975], n, 0.95))
    expected = f"{low:,} to {high:,}" if low < high else f"{low:,}"
    return (
        f"The 95 % intervals contain {round(coverage * n):,} of {_n_rows(n, held_out)} (empirical "
        f"coverage {facts.percent(coverage)}); calibrated intervals contain {expected} in about "
        "95 % of all cases."
    )


def _verdict_sentences(found: Verdict, calibrated: bool) -> str:
    """Say how far the intervals are off, with the p-value, where, and what helps."""
    narrow = any(each.too_narrow for each in (found.all_rows, *found.doubtful))
    advice = "" if calibrated else ", or PBPRegressorCV, which calibrates them"
    text = f"{found} {_test_in_words(found.all_rows.p_value)}"
    return text + (f" More training samples usually help{advice}." if narrow else "")


def _test_in_words(p_value: float) -> str:
    """Name the p-value of the test behind a verdict."""
    p = "p < 0.001" if p_value < 0.001 else f"p = {p_value:.2g}"
    return f"The test of the hypothesis that they are calibrated has {p}."


def _quality_of_classes(
    index: Array, predictive: ClassMixture, model: TableModel, held_out: HeldOut
) -> Section:
    """The numbers that matter, in three paragraphs and a small table."""
    classes, known = cast(Array, model.classes), (model.scores or {}).get("positive_class")
    judged = judge_classes(classes, index, predictive.log_proba, known)
    found, verdict = judged.scores, cast(ClassVerdict, judged.verdict)
    n_right = round(found["accuracy"] * len(index))
    shares = np.bincount(index, minlength=len(classes)) / len(index)
    text = (
        f"The most probable class is correct in {n_right:,} of {_n_rows(len(index), held_out)} "
        f"({facts.percent(found['accuracy'])}). Always predicting the most frequent class, "
        f"{classes[shares.argmax()]}, is correct in {facts.percent(shares.max())}."
    )
    text += (
        _SEEN[held_out].format("more") + f"\n\n{verdict} {_test_in_words(verdict.p_value)}"
        "\n\nBaseline: the score without features, with the class frequencies of these samples as "
        "probabilities."
    )
    several = "Mean over the classes, each against all others"
    curve = several if judged.positive is None else f"For {judged.positive}, the rarer class"
    measures = {
        key: words.replace("{curve}", curve)
        for key, words in _OF_CLASSES.items()
        if not np.isnan(found[key])  # a single class has no curve
    }
    return Section("How good the predictions are", text, _score_rows(judged, measures))


# ---- Pictures


_MOST_NUMBERS = 12  # classes whose cells have room for a number


def _pictures(y: FloatArray, predictive: TargetDistribution, target: str) -> list[Section]:
    label = axis_label(target)

    def on_axes(draw: Callable[..., Axes]) -> Callable[[Axes], Axes]:
        return lambda ax: draw(y, predictive, target=label, ax=ax)

    return [
        _drawn(
            "Predicted against observed",
            "Each mark is a sample with its 95 % interval; if there are many, a random selection "
            "is shown. On the dashed line, prediction and observation are equal. Crosses are "
            "samples outside their interval: one in twenty is expected. Outliers are drawn at the "
            "edge of the axes.",
            on_axes(plot.predicted_against_observed),
            f"Predicted against observed {target}, with 95 % intervals",
        ),
        _drawn(
            "Calibration",
            "Empirical coverage of the intervals against their nominal coverage. Intervals are "
            "calibrated on the diagonal, too narrow below it and too wide above it. The shaded "
            "band contains 95 % of the curves of calibrated intervals.",
            on_axes(plot.calibration),
            "Observed against expected coverage of the predictive intervals",
        ),
        _drawn(
            "Residuals against error bars",
            "Errors may be larger if the predicted standard deviation is larger (to the right). "
            "About 68 % of the dots should be within one standard deviation, the darkest band, and "
            "95 % within two.",
            on_axes(plot.residuals_against_std),
            f"Residuals of {target} against the predicted standard deviation",
        ),
    ]


def _pictures_of_classes(index: Array, proba: FloatArray, classes: Array) -> list[Section]:
    sections = [
        _drawn(
            "Reliability",
            "Share of correct predictions against the predicted probability, in bins of width 0.1; "
            "larger dots have more samples. Probabilities are calibrated on the diagonal, "
            "overconfident below it and underconfident above it. The bars are the range of a "
            "calibrated model by chance.",
            lambda ax: plot.reliability(index, proba, ax=ax),
            "Share of correct predictions against their probability",
        ),
        _drawn(
            "Confusion matrix",
            "Number of samples by observed and predicted class; darker cells have more samples. "
            "Off the diagonal are the errors.",
            lambda ax: _draw_confusion(index, proba.argmax(axis=1), classes, ax),
            "Confusion matrix: observed against predicted class",
        ),
    ]
    if len(classes) == 2 and len(np.unique(index)) == 2:
        rarer = rarer_class(index)
        name = str(classes[rarer])
        text = (
            f"Samples whose probability of {name} is above a threshold are predicted as {name}. "
            "The vertical axis is the true positive rate, the horizontal axis the false positive "
            "rate; the curve runs over all thresholds. The area under it is the probability that a "
            "sample of this class is ranked above a sample of the other class."
        )
        sections.append(
            _drawn(
                "Threshold (ROC curve)",
                text,
                lambda ax: RocCurveDisplay.from_predictions(
                    index, proba[:, rarer], pos_label=rarer, name=axis_label(name), ax=ax
                ).ax_.set(xlabel="false positive rate", ylabel="true positive rate"),
                f"ROC curve of {name}",
            )
        )
    return sections


def _draw_confusion(index: Array, predicted: Array, classes: Array, ax: Axes) -> None:
    names, n = [axis_label(str(name)) for name in classes], len(classes)
    options: dict[str, Any] = {"cmap": "Blues", "colorbar": False, "values_format": ","}
    options |= {"include_values": n <= _MOST_NUMBERS, "labels": range(n), "display_labels": names}
    rotation = "vertical" if max(map(len, names)) * n > 40 else "horizontal"  # they would touch
    ConfusionMatrixDisplay.from_predictions(
        index, predicted, xticks_rotation=rotation, ax=ax, **options
    )
    ax.tick_params(labelsize=9 if n <= _MOST_NUMBERS else 5)
    ax.set(xlabel="predicted class", ylabel="observed class")


# ---- The samples a reader should look at: the largest errors, and the least certain classes


_SHOWN = 10  # rows
_CELLS = 6  # columns of the table that are shown for each


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
            facts.number(float(y[i]), float(std[i])),
            facts.number(float(mean[i]), float(std[i])),
            facts.number(float(std[i])),
            f"{off[i]:+,.1f}".replace("-", "−"),
        ]
        for i in worst
    ]
    n = len(y)
    by_chance = norm.ppf(0.5 * (1.0 + 0.5 ** (1.0 / n)))  # median of the largest of n
    text = (
        "Samples whose observed value is furthest from the prediction, in predicted standard "
        f"deviations (std). With calibrated Gaussian error bars, the largest distance among {n:,} "
        f"samples is about {by_chance:.1f}. Larger distances may be errors in the table, or "
        "samples unlike the training samples."
    )
    header = ["Observed", "Predicted", "Std", "Off by [std]"]
    return _rows_section("Largest errors", text, header, worst, own, rows, important)


def _uncertain_section(
    index: Array, predictive: ClassMixture, classes: Array, rows: Rows, important: Sequence[str]
) -> Section:
    """Show the samples with the least certain class, and the epistemic share of their entropy.

    `index`, (n,), is the place of each row's class in `classes`.
    """
    least = np.argsort(-predictive.entropy, kind="stable")[:_SHOWN]
    shown = predictive[least]
    guessed, proba = shown.proba.argmax(axis=1), shown.proba.max(axis=1)
    unknown = shown.entropy_model / np.maximum(shown.entropy, 1e-300)
    own = [
        [
            str(classes[index[i]]),
            f"{classes[guessed[j]]}, {facts.percent(float(proba[j]))}",
            facts.number(float(shown.entropy[j])),
            facts.percent(float(unknown[j])),
        ]
        for j, i in enumerate(least)
    ]
    text = (
        "Samples with the largest entropy, in nats: 0 is certain, "
        f"{facts.number(math.log(len(classes)))} is a uniform distribution over the classes. The "
        "epistemic share could be removed by more data; the rest is overlap of the classes."
    )
    header = ["Observed", "Predicted", "Entropy", "Epistemic"]
    return _rows_section("Least certain samples", text, header, least, own, rows, important)


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
        text += f" The {len(names)} most important of {n:,} columns are shown."
    table = [
        [str(rows.numbers[i]), *cells, *(facts.cell(rows.table[name].iloc[i]) for name in names)]
        for i, cells in zip(chosen, own, strict=True)
    ]
    return Section(title, text, (["Row", *header, *names], table), names_rows=True)


# ---- The model: training, choice, calibration, weights, facts


def _sections_of_model(model: Any, names: Sequence[str], targets: list[str]) -> list[Section]:
    """Return what is said of a model itself."""
    history: list[Epoch] = networks_of(model)[0].history_
    training = _drawn(
        "Training",
        "Mean log Z is the mean log predictive density of each sample just before the update on "
        f"it; it should rise and level off.{_which(model)}",
        lambda ax: _draw_epochs(history, ax),
        "Mean log Z after each epoch",
    )
    return [
        training,
        *cross_validation_sections(model, targets[0]),
        Section("The model", table=([], facts.model_facts(model, names, targets))),
    ]


def _draw_epochs(history: Sequence[Epoch], ax: Axes) -> None:
    epochs, log_Z = zip(*((epoch.n_iter, epoch.mean_log_Z) for epoch in history), strict=True)
    ax.plot(epochs, log_Z, "o-", markersize=4, markevery=max(1, len(epochs) // 40))
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    ax.set(xlabel="epoch", ylabel="mean log Z [nats per sample]")


def _which(model: Any) -> str:
    n = len(networks_of(model))
    return f" The first of the {n:,} networks is shown." if n > 1 else ""


def cross_validation_sections(model: Any, target: str) -> list[Section]:
    """Return what was selected and why; nothing for other estimators."""
    if not is_cross_validated(model):
        return []
    trials: list[Trial] = model.trials_
    n, k = len(networks_of(model)), len(model.groups_)
    mixture = f"The predictive distribution is a mixture of the {n:,} networks of its folds."
    if k > 1:
        mixture = (
            f"The predictive distribution is a mixture of {k:,} candidates with {n // k:,} "
            "networks each, one per fold; the weights maximize the out-of-fold log-likelihood of "
            "the mixture."
        )
    text = (
        "Candidates were compared by the out-of-fold log-likelihood after calibration; "
        f"higher is better. Chosen: {'; '.join(facts.choice_in_words(model).splitlines())}.\n\n"
        f'{mixture} In the picture and in the table, "32 bins, 50 + 50, evidence cap 10" is a '
        "candidate with a piecewise-linear encoding with 32 bins per column, two layers of 50 "
        "units, and an effective sample size of at most ten times the number of samples; with "
        f'"logarithm" or another transformation, the networks predict the transformed {target}.\n\n'
        f"Calibration on the same samples: {facts.calibration_in_words(model)}."
    )
    drawn = picture(
        lambda ax: plot.candidate_curves(model, ax=ax),
        "Out-of-fold log-likelihood against the epochs, a line for each candidate",
    )
    ranked = sorted(trials, key=lambda trial: (-trial.weight, -trial.best[1]))
    rows = [_trial_row(trial) for trial in ranked]
    header = ["Candidate", "Epochs", "Log-likelihood", "Weight", "Why training ended"]
    return [Section("Model selection", text, (header, rows), [drawn])]


def _trial_row(trial: Trial) -> list[str]:
    """Return the best rung of a trial."""
    name, (n_epochs, score) = candidate_in_words(trial.candidate), trial.best
    if not n_epochs:
        return [name, "–", "–", "–", trial.outcome]
    weight = f"{trial.weight:.2f}" if trial.weight else "–"
    return [name, f"{n_epochs:,}", f"{score:.3f}".replace("-", "−"), weight, trial.outcome]
