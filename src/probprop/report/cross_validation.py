"""What a cross-validated estimator chose and how it was calibrated, in plain words."""

from __future__ import annotations

import math
from typing import Any

from probprop import plot
from probprop.estimators.cv.calibration import Calibration, ClassCalibration, Squares
from probprop.estimators.cv.policy import Candidate
from probprop.estimators.cv.search import RACE_WAS_OVER, CandidateCurve, CVChoice
from probprop.estimators.kind import is_cross_validated, members, transformation_of
from probprop.plot.model import candidate_in_words
from probprop.report.document import Section
from probprop.report.facts import (
    candidate_in_full,
    epochs_in_words,
    gain_in_words,
    number,
    power_in_words,
)
from probprop.report.parts import SCORE_HEADER, picture

_USED = {
    "auto": "It is used where the gain is above 0.",
    "constant": "None was tried, as the setting asks.",
    "input": "It is used whatever it gains, as the setting asks.",
}
_RACE_HEADER = ["Setting", "Epochs", "Log-likelihood", "Not calibrated", "Why it went no further"]


def cross_validation_sections(model: Any, target: str) -> list[Section]:
    """Return what was chosen and why, and the calibration; nothing for other estimators."""
    if not is_cross_validated(model):
        return []
    return [_choice_section(model, target), _calibration_section(model, target)]


# ---- The choice


def _choice_section(model: Any, target: str) -> Section:
    choice: CVChoice = model.choice_
    n = len(choice.curves)
    compared = f"{n:,} settings were" if n > 1 else "One setting was"
    text = (
        f"{compared} trained on folds of the rows and judged by the log-likelihood of the rows "
        "held out, after calibration; higher is better. Chosen: "
        f"{candidate_in_full(choice.candidate)}, {epochs_in_words(choice.n_epochs)}. "
        f"{_why(choice)}{_about_power(model, target)}\n\n"
        f"{_networks(model)} predict together, and none was trained again.{_about_end(choice)} In "
        'the picture and in the table "32 ramps, 50 + 50, memory 10" is a setting with 32 ramps '
        "beside each feature, which let a network bend there, two layers of 50 units, and the "
        f"evidence of at most ten passes over the data.{_legend_of_powers(choice, target)}"
    )
    drawn = picture(
        lambda ax: plot.candidate_curves(choice, ax=ax),
        "Log-likelihood of held-out rows against the epochs, a line for each setting",
    )
    rows = [_race_row(curve, curve is choice.curves[choice.best]) for curve in _ranked(choice)]
    return Section("How the networks were chosen", text, (_RACE_HEADER, rows), [drawn])


def _networks(model: Any) -> str:
    """Say which networks there are."""
    n, k = len(members(model)), model.n_partitions_
    if k == 1:
        return f"The {n:,} networks of the folds"
    return (
        f"The rows were parted into {n // k:,} folds {k:,} times; the {n:,} networks of all folds"
    )


def _about_end(choice: CVChoice) -> str:
    """Say why nothing more was trained, where a budget of seconds or Ctrl-C had a part in it."""
    return "" if choice.ended in ("", RACE_WAS_OVER) else f" Training ended: {choice.ended}."


def _best_of(curve: CandidateCurve) -> tuple[int, float, float]:
    """Return the epochs, the calibrated and the raw score of the best point of a curve."""
    i = curve.calibrated.index(max(curve.calibrated))
    return curve.n_epochs[i], curve.calibrated[i], curve.raw[i]


def _ranked(choice: CVChoice) -> list[CandidateCurve]:
    """Return the curves, best first; those that were never looked at come last."""
    scores = {id(c): max(c.calibrated, default=-math.inf) for c in choice.curves}
    return sorted(choice.curves, key=lambda curve: -scores[id(curve)])


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


def _about_power(model: Any, target: str) -> str:
    """Say what the networks predict, if it is not the target itself."""
    if (g := transformation_of(model)) is None:
        return ""
    return (
        f" Its networks predict {power_in_words(g.power)} of {target}, since errors grow with it; "
        f"all that is shown of predictions is in units of {target}, and never below 0."
    )


def _legend_of_powers(choice: CVChoice, target: str) -> str:
    """Say what settings with a power are, if there are any."""
    powers = dict.fromkeys(c.candidate.power for c in choice.curves)
    names = [power_in_words(power) for power in powers if power is not None]
    words = [f'"{name.removeprefix("the ")}" predicts {name} of {target}' for name in names]
    return f" One with {', one with '.join(words)}." if words else ""


def _race_row(curve: CandidateCurve, chosen: bool) -> list[str]:
    name = candidate_in_words(curve.candidate)
    if not curve.n_epochs:
        return [name, "–", "–", "–", curve.outcome]
    n_epochs, calibrated, raw = _best_of(curve)
    outcome = f"chosen ({curve.outcome})" if chosen else curve.outcome
    return [name, f"{n_epochs:,}", _score(calibrated), _score(raw), outcome]


def _score(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


# ---- The calibration


def _calibration_section(model: Any, target: str) -> Section:
    calibration: Calibration | ClassCalibration = model.calibration_
    if isinstance(calibration, ClassCalibration):
        text, rows = _of_classes(calibration)
    else:
        text, rows = _of_numbers(calibration, model.choice_.candidate, target)
    return Section("How it was calibrated", text, (SCORE_HEADER, rows))


def _of_numbers(
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
        f"{_about_errors(calibration.squares)} "
        f"{_about_noise(calibration, candidate)}{of_scale}\n\n"
        "Beyond the range of the training rows there are no errors to learn from; there the error "
        "bars grow with the distance."
    )
    rows = [
        [
            "Factor of the error bars",
            f"{factor:.3f}",
            "Of each network. 1: the networks were right about it.",
        ],
        [
            "Gain of the noise network",
            "–" if math.isnan(calibration.gain) else gain_in_words(calibration),
            "Log density per row, on rows held out from it, with the standard error. "
            f"{_USED[candidate.noise]}",
        ],
        [
            "Slope beyond the range",
            number(slope),
            f"Standard deviation added for each standard deviation of a feature, {units}.",
        ],
    ]
    return text, rows


def _of_classes(calibration: ClassCalibration) -> tuple[str, list[list[str]]]:
    T = calibration.temperature
    how = "too sure" if T > 1.0 else "less sure than they could be"
    moved = "closer to each other" if T > 1.0 else "further apart"
    text = (
        f"On the rows held out the networks were {how} of the class. One number, the temperature, "
        f"was learned there, and moves all probabilities {moved}."
    )
    known = 1.0 / math.sqrt(calibration.precision)
    rows = [
        [
            "Temperature",
            f"{T:.3f}",
            "1: as the networks say; above, less sure; below, surer. What is known of it leaves "
            f"it open by {100.0 * known:.0f} %.",
        ],
        [
            "Log-loss",
            f"{calibration.log_loss:.4f}",
            "Mean of −log probability of the classes held out, with the temperature. Lower is "
            "better.",
        ],
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
