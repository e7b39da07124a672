"""The report on cross-validated estimators: what was chosen, and how it was calibrated."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from cv_models import ENCODED, LABELS, PRICES, SQUARE_ROOT, X, Y, fit_small, small
from probprop import Mixture, TransformedMixture, load
from probprop.facts import number
from probprop.metrics.verdict import Intervals, Scale, Verdict
from probprop.report import (
    calibration_in_words,
    choice_in_words,
    classification_sections,
    model_facts,
    regression_sections,
    render,
)
from probprop.report.sections import _verdict_sentences

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

CHOICE, CALIBRATION = "How the networks were chosen", "How it was calibrated"
NAMES = ["a", "b", "c"]


@cache
def fitted(kind: str) -> Any:
    return fit_small(kind)


def sections(kind: str, model: Any = None) -> dict[str, Any]:
    make, y = {
        "values": (regression_sections, Y),
        "prices": (regression_sections, PRICES),
        "labels": (classification_sections, LABELS),
    }[kind]
    model = fitted(kind) if model is None else model
    options: Any = {"feature_names": NAMES, "target": "price", "held_out": True}
    return {section.title: section for section in make(model, X, y, **options)}


@pytest.mark.parametrize("kind", ["values", "labels"])
def test_the_report_shows_the_race(kind: str) -> None:
    model, made = fitted(kind), sections(kind)
    section = made[CHOICE]
    assert list(made).index(CHOICE) == list(made).index("Training") + 1
    assert section.text.startswith("2 settings were trained on folds of the rows")
    assert "parted into 2 folds 2 times; the 4 networks of all folds predict" in section.text
    assert f"{model.choice_.n_epochs} epochs." in section.text
    ((image, alt),) = section.figures
    ElementTree.fromstring(image)
    assert "held-out" in alt
    header, rows = section.table
    assert [len(row) for row in rows] == [len(header)] * 2
    chosen = model.choice_.curves[model.choice_.best]
    at = chosen.n_epochs.index(model.choice_.n_epochs)
    assert rows[0][1:4] == [
        str(model.choice_.n_epochs),
        f"{chosen.calibrated[at]:.3f}".replace("-", "−"),
        f"{chosen.raw[at]:.3f}".replace("-", "−"),
    ]
    assert rows[0][4].startswith("chosen (")
    gain = max(chosen.calibrated) - max(model.choice_.curves[1 - model.choice_.best].calibrated)
    assert f"{gain:.3f} above the next best" in section.text
    assert CHOICE in render("title", list(made.values()), footer="")


def test_a_race_of_one_and_candidates_that_were_left_out() -> None:
    model = small(budget=1e-6).fit(X, Y)
    section = sections("values", model)[CHOICE]
    assert "nothing else was compared" in section.text
    assert section.table[1][1][1:4] == ["–", "–", "–"]
    assert section.table[1][1][4] == "too costly for the budget"
    alone = small(candidates=[model.choice_.candidate]).fit(X, Y)
    assert sections("values", alone)[CHOICE].text.startswith("One setting was trained")
    assert choice_in_words(alone).endswith("; the only setting")


def test_why_it_ended() -> None:
    model = small().fit(X[:40], Y[:40])
    assert model.choice_.ended == "the race was over"
    assert "Training ended" not in sections("values", model)[CHOICE].text
    model.choice_ = replace(model.choice_, ended="out of time")
    assert (
        "trained again. Training ended: out of time. In the"
        in sections("values", model)[CHOICE].text
    )


def test_the_calibration_of_error_bars() -> None:
    model = fitted("values")
    found = model.calibration_
    section = sections("values")[CALIBRATION]
    factor, squares = np.sqrt(found.factor), found.squares
    assert f"were {np.sqrt(squares.error):.2f} times as large" in section.text
    assert f"all 4 networks will be {np.sqrt(squares.total):.2f} times" in section.text
    assert f"by the factor {factor:.2f}" in section.text
    assert ("widened" if factor > 1.0 else "narrowed") in section.text
    gain = f"{found.gain:+.3f} ± {found.gain_error:.3f}"
    assert f"gains {gain} in log density per row, so it is used" in section.text
    values = {row[0]: row[1] for row in section.table[1]}
    assert values["Factor of the error bars"] == f"{factor:.3f}"
    assert values["Gain of the noise network"] == gain
    assert calibration_in_words(model) == (
        f"error bars times {factor:.2f}; a noise network, which gains {gain} per row"
    )


def test_a_calibration_in_an_interpreter() -> None:
    found = fitted("values").calibration_
    gain = f"gain {found.gain:.3g} ± {found.gain_error:.2g}"
    with_noise = f"Calibration(factor={found.factor:.3g}, a noise network ({gain}), n=150)"
    assert repr(found) == with_noise
    bare = repr(replace(found, noise=None, gain=np.nan))
    assert bare == f"Calibration(factor={found.factor:.3g}, the same noise everywhere, n=150)"


@pytest.mark.parametrize(
    ("gain", "words", "line"),
    [
        (-0.02, "gained nothing on rows it had not seen (−0.020 ± 0.010", "the same everywhere"),
        (np.nan, "too few rows, or too few seconds, to learn where", "too few rows or seconds"),
    ],
)
def test_a_model_without_a_noise_network(gain: float, words: str, line: str) -> None:
    model = small(cv=KFold(2)).fit(X, Y)
    squares = replace(model.calibration_.squares, error=0.25)
    found = replace(model.calibration_, squares=squares, noise=None, gain=gain, gain_error=0.01)
    model.calibration_ = found
    assert "The 2 networks of the folds predict" in sections("values", model)[CHOICE].text
    text = sections("values", model)[CALIBRATION].text
    assert words in text
    assert "0.50 times as large" in text
    assert "narrowed" in text
    assert line in calibration_in_words(model)


def test_error_bars_that_are_too_narrow_are_not_told_to_be_calibrated_twice() -> None:
    narrow = Verdict(Intervals(None, 1_000, 0.0, None, (0.95, 0.8), Scale(1.5, 0.02)), ())
    assert "PBPRegressorCV" in _verdict_sentences(narrow, calibrated=False)
    assert "PBPRegressorCV" not in _verdict_sentences(narrow, calibrated=True)


def test_the_calibration_of_probabilities() -> None:
    model = fitted("labels")
    section = sections("labels")[CALIBRATION]
    values = {row[0]: row[1] for row in section.table[1]}
    found = model.calibration_
    assert values["Temperature"] == f"{found.temperature:.3f}"
    assert values["Log-loss"] == f"{found.log_loss:.4f}"
    assert values["Log-loss before"] == f"{found.raw_log_loss:.4f}"
    for temperature, words in ((2.0, "too sure"), (0.5, "less sure than they could be")):
        other = fit_small("labels")
        other.calibration_ = replace(found, temperature=temperature)
        assert f"were {words} of the class" in sections("labels", other)[CALIBRATION].text
        assert calibration_in_words(other).startswith(f"temperature {temperature:.2f}; log-loss")


def test_the_facts(tmp_path: Path) -> None:
    model = fitted("values")
    facts = dict(model_facts(model, NAMES, "price"))
    assert facts["Choice"] == choice_in_words(model)
    assert facts["Calibration"] == calibration_in_words(model)
    assert facts["Ensemble"] == "4 networks, one for each fold of 2 partitions; below is the first"
    assert facts["Network"].startswith("3 features encoded as 15 numbers, 4 hidden units")
    assert facts["Seed"] == "0"
    assert "Noise before calibration" in facts
    model.save(tmp_path / "m")
    assert dict(model_facts(load(tmp_path / "m"), NAMES, "price")) == facts
    assert "one for each fold" in dict(model_facts(fitted("labels"), NAMES, "kind"))["Ensemble"]


class TestPowers:
    def test_the_report_says_what_is_predicted(self) -> None:
        model = fit_small("prices", candidates=[ENCODED, SQUARE_ROOT])
        made = sections("prices", model)
        words = "predict the square root of price, since errors grow with it"
        assert model.choice_.candidate == SQUARE_ROOT
        assert words in made[CHOICE].text
        assert 'One with "square root" predicts the square root of price.' in made[CHOICE].text
        names = [row[0] for row in made[CHOICE].table[1]]
        assert names == ["4 ramps, 4, square root, no cap", "4 ramps, 4, no cap"]
        assert choice_in_words(model).endswith(
            "best of 2 settings; predicts the square root of the target, since errors grow with it"
        )
        assert words not in sections("values")[CHOICE].text
        assert "All of this is about the square root of price;" in made[CALIBRATION].text
        model.calibration_ = replace(model.calibration_, noise=None, gain=0.0)
        line = calibration_in_words(model)
        assert line.endswith("; the noise of the square root is the same everywhere")

    def test_scales_are_in_target_units(self) -> None:
        model = fitted("prices")
        unit, made = model.calibration_.transformation.unit, sections("prices")
        where = f"where that is {number(unit)}"
        slope = made[CALIBRATION].table[1][-1]
        assert slope[1] == number(unit * model.calibration_.range.slope)
        assert slope[2].endswith(f"in units of price {where}.")
        assert f"as that of price where it is {number(unit)}" in made["Training"].text
        facts = dict(model_facts(model, NAMES, "price"))
        noise = facts["Noise before calibration"]
        std = unit * model.estimators_[0].history_[-1].noise_std[0]
        assert noise.startswith(f"standard deviation {number(std)} (")
        assert noise.endswith(f"in units of price, {where}")
        # To first order that is the noise where the target is the unit.
        at_the_unit = Mixture.of_one([0.0], [0.0], std / unit)
        there = TransformedMixture(at_the_unit, model.calibration_.transformation)
        assert_allclose(there.aleatoric_std, std, rtol=0.05)

    def test_a_gain_that_is_not_clear(self) -> None:
        model = fit_small("prices", candidates=[ENCODED, SQUARE_ROOT])
        choice = replace(model.choice_, best=1 - model.choice_.best)
        model.choice_ = replace(choice, n_epochs=choice.curves[choice.best].n_epochs[0])
        text = sections("prices", model)[CHOICE].text
        assert ' below that of "4 ramps, 4, square root, no cap" after' in text
        assert "which is no clear gain." in text


def test_a_loaded_model_has_the_same_report(tmp_path: Path) -> None:
    model = fitted("labels")
    model.save(tmp_path / "m")
    one, other = sections("labels"), sections("labels", load(tmp_path / "m"))
    assert one.keys() == other.keys()
    for title, section in one.items():
        assert (section.text, section.table) == (other[title].text, other[title].table)
