"""The report on cross-validated estimators: what was chosen, and how it was calibrated."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import KFold

from cv_models import LABELS, PRICES, SQUARE_ROOT, X, Y, fit_small, small
from probprop import Mixture, TransformedMixture, load
from probprop.distributions.recalibrated import Recalibration
from probprop.facts import number
from probprop.metrics.verdict import Intervals, Scale, Verdict
from probprop.report import (
    calibration_in_words,
    choice_in_words,
    model_facts,
    render,
)
from probprop.report.sections import _verdict_sentences
from report_sections import sections_of

pytestmark = pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")

CHOICE = "Model selection"
NAMES = ["a", "b", "c"]
_ONE = np.zeros(1, np.int64), np.array([100]), np.ones(1)  # a sample, at the median
SHAPE = Recalibration(
    np.zeros(2), np.ones(2), np.zeros((1, 2)), *_ONE, 0.1, 0.1, 4.0, gain=0.5, gain_error=0.1
)


@cache
def fitted(kind: str) -> Any:
    return fit_small(kind)


@cache
def sections(kind: str, model: Any = None) -> dict[str, Any]:
    y = {"values": Y, "prices": PRICES, "labels": LABELS}[kind]
    model = fitted(kind) if model is None else model
    options: Any = {"feature_names": NAMES, "target": "price", "held_out": True}
    return {section.title: section for section in sections_of(model, X, y, **options)}


@pytest.mark.parametrize("kind", ["values", "labels"])
def test_the_report_shows_the_search(kind: str) -> None:
    model, made = fitted(kind), sections(kind)
    section = made[CHOICE]
    assert "; ".join(choice_in_words(model).splitlines()) in section.text
    ((image, alt),) = section.figures
    ElementTree.fromstring(image)
    assert "out-of-fold" in alt.lower()
    header, rows = section.table
    assert [len(row) for row in rows] == [len(header)] * 2
    best = max(model.trials_, key=lambda trial: trial.weight)
    score = f"{best.best[1]:.3f}".replace("-", "−")
    assert rows[0][1:4] == [str(best.best[0]), score, f"{best.weight:.2f}"]
    assert CHOICE in render("title", list(made.values()), footer="")


def test_several_groups_and_one() -> None:
    model = copy(fitted("values"))
    first = model.groups_[0]
    assert f"{first.n_epochs} epochs" in choice_in_words(model)
    model.estimators_ = [*model.estimators_[:2], *model.estimators_[:2]]
    model.groups_ = [replace(first, weight=0.75), replace(first, weight=0.25)]
    assert "is a mixture of 2 candidates with 2 networks" in sections("values", model)[CHOICE].text
    head, *each = choice_in_words(model).splitlines()
    assert head == "stacked from 2 candidates"
    assert [line.partition(": ")[0] for line in each] == ["weight 0.75", "weight 0.25"]
    alone = small(candidates=[first.candidate]).fit(X, Y)
    assert choice_in_words(alone).endswith("; the only candidate")


def test_the_calibration_of_intervals() -> None:
    model = copy(fitted("values"))
    found = model.calibration_
    factor, gain = np.sqrt(found.factor), f"{found.gain:+.3f} ± {found.gain_error:.3f}"
    assert calibration_in_words(model) in sections("values")[CHOICE].text
    words = (
        f"standard deviations scaled by {factor:.2f}; heteroscedastic noise "
        f"({gain} nats per sample)"
    )
    assert calibration_in_words(model) == words
    model.calibration_ = replace(found, recalibration=SHAPE)
    assert calibration_in_words(model) == f"{words}; learned shape (gain 0.5 ± 0.1)"


def test_a_calibration_in_an_interpreter() -> None:
    found = replace(fitted("values").calibration_, recalibration=SHAPE)
    gain = f"gain {found.gain:.3g} ± {found.gain_error:.2g}"
    with_noise = f"Calibration(factor={found.factor:.3g}, a noise network ({gain})"
    assert repr(found) == f"{with_noise}, learned shape (gain 0.5 ± 0.1), n=150)"
    bare = repr(replace(found, noise=None, gain=np.nan, recalibration=None))
    assert bare == f"Calibration(factor={found.factor:.3g}, the same noise everywhere, n=150)"


@pytest.mark.parametrize(
    ("gain", "line"),
    [(-0.02, "constant noise variance;"), (np.nan, "too few samples to learn")],
)
def test_a_model_without_a_noise_network(gain: float, line: str) -> None:
    model = small(cv=KFold(2)).fit(X, Y)
    model.calibration_ = replace(model.calibration_, noise=None, gain=gain, gain_error=0.01)
    assert line in sections("values", model)[CHOICE].text


def test_intervals_that_are_too_narrow_are_not_called_calibrated() -> None:
    narrow = Verdict(Intervals(1_000, 0.0, False, 0.95, 0.8, Scale(1.5, 0.02)), ())
    assert "PBPRegressorCV" in _verdict_sentences(narrow, calibrated=False)
    assert "PBPRegressorCV" not in _verdict_sentences(narrow, calibrated=True)


def test_the_calibration_of_probabilities() -> None:
    model = fitted("labels")
    found = model.calibration_
    line = calibration_in_words(model)
    assert line.startswith(f"temperature {found.temperature:.2f}; out-of-fold log-loss")
    assert line.endswith(f"{found.log_loss:.3f} ({found.raw_log_loss:.3f} before)")
    assert line in sections("labels")[CHOICE].text


def test_the_facts(tmp_path: Path) -> None:
    model = fitted("values")
    facts = dict(model_facts(model, NAMES, "price"))
    stacked = [facts[f"Candidate {i}"] for i in range(1, 1 + len(model.groups_))]
    assert [facts["Choice"], *stacked] == choice_in_words(model).splitlines()
    assert facts["Calibration"] == calibration_in_words(model)
    assert facts["Ensemble"].startswith(f"{len(model.estimators_)} networks, one for each fold")
    assert facts["Network"].startswith("3 features")
    assert facts["Seed"] == "0"
    assert "Noise before calibration" in facts
    model.save(tmp_path / "m")
    assert dict(model_facts(load(tmp_path / "m"), NAMES, "price")) == facts
    assert "one for each fold" in dict(model_facts(fitted("labels"), NAMES, "kind"))["Ensemble"]


class TestPowers:
    def test_the_report_says_what_is_predicted(self) -> None:
        model = fit_small("prices", candidates=[SQUARE_ROOT])
        made = sections("prices", model)
        words = "predicts the square root of the target, because errors grow with it"
        assert words in made[CHOICE].text
        names = [row[0] for row in made[CHOICE].table[1]]
        assert names == ["4 bins, 4, square root, no cap"]
        assert choice_in_words(model).endswith(
            "; predicts the square root of the target, because errors grow with it"
        )
        assert words not in sections("values")[CHOICE].text
        model.calibration_ = replace(model.calibration_, noise=None, gain=0.0)
        line = calibration_in_words(model)
        assert "; constant noise variance of the square root" in line

    def test_scales_are_in_target_units(self) -> None:
        model = fitted("prices")
        unit = model.calibration_.transformation.unit
        where = f"where that is {number(unit)}"
        facts = dict(model_facts(model, NAMES, "price"))
        noise = facts["Noise before calibration"]
        std = unit * model.estimators_[0].history_[-1].noise_std[0]
        assert noise.startswith(f"standard deviation {number(std)} (")
        assert noise.endswith(f"in units of price, {where}")
        # To first order that is the noise where the target is the unit.
        at_the_unit = Mixture.of_one([0.0], [0.0], std / unit)
        there = TransformedMixture(at_the_unit, model.calibration_.transformation)
        assert_allclose(there.aleatoric_std, std, rtol=0.05)


def test_a_loaded_model_has_the_same_report(tmp_path: Path) -> None:
    model = fitted("labels")
    model.save(tmp_path / "m")
    one, other = sections("labels"), sections("labels", load(tmp_path / "m"))
    assert one.keys() == other.keys()
    for title, section in one.items():
        assert (section.text, section.table) == (other[title].text, other[title].table)
