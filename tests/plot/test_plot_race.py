"""The picture of how candidates were compared."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import matplotlib
from numpy.testing import assert_allclose, assert_array_equal

from probprop import Candidate, Trial, plot
from probprop.plot.model import candidate_in_words

matplotlib.use("Agg")

TRIALS = (
    Trial(Candidate(None, (50,), 10.0), (20, 40), ((-2.1, -1.9), (-1.8, -1.8)), weight=0.25),
    Trial(Candidate(None, (50,)), (20,), ((-2.1,),)),
    Trial(Candidate(32, (50, 50)), (20, 40), ((-1.5,), (-1.6,)), weight=0.75),
    Trial(Candidate(64, (50, 50)), outcome="predictions were not finite"),
)


def fitted(*trials: Trial) -> Any:
    return SimpleNamespace(trials_=list(trials))


def test_each_candidate_is_a_line_and_stacked_ones_have_rings() -> None:
    ax = plot.candidate_curves(fitted(*TRIALS))
    *lines, ring = ax.get_lines()
    for line, curve in zip(lines, TRIALS[:3], strict=True):
        assert_array_equal(line.get_xdata(), curve.n_epochs)
        assert_array_equal(line.get_ydata(), curve.means)
        assert line.get_label() == candidate_in_words(curve.candidate)
    assert_allclose(ring.get_xydata(), [[40, -1.8], [20, -1.5]])
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["raw, 50", "32 bins, 50 + 50", "evidence cap 10", "no cap", "stacked"]
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["20", "40"]


def test_forms_differ_in_color_and_marker_and_evidence_caps_in_style() -> None:
    *lines, _ = plot.candidate_curves(fitted(*TRIALS)).get_lines()
    one, other, deep = lines
    assert (one.get_color(), one.get_marker()) == (other.get_color(), other.get_marker())
    assert one.get_linestyle() != other.get_linestyle()
    assert one.get_color() != deep.get_color()
    assert one.get_marker() != deep.get_marker()


def test_a_curve_far_below_does_not_squeeze_the_others() -> None:
    lost = Trial(Candidate(8), (20,), ((-900.0,),), weight=1.0)
    low, high = plot.candidate_curves(fitted(*TRIALS, lost)).get_ylim()
    assert -4.0 < low < -2.1 < -1.5 < high
    # A candidate without a rival is shown whole.
    low, _ = plot.candidate_curves(fitted(lost)).get_ylim()
    assert low < -900.0


def test_words() -> None:
    assert candidate_in_words(Candidate(None, (), 2.5)) == "raw, linear, evidence cap 2.5"
    assert candidate_in_words(Candidate(64, (9, 8, 7))) == "64 bins, 9 + 8 + 7, no cap"
    for power, words in ((0, "logarithm"), (0.5, "square root"), (0.35, "power 0.35")):
        assert candidate_in_words(Candidate(power=power)) == f"raw, 50, {words}, no cap"


def test_a_power_has_a_color_of_its_own() -> None:
    power = replace(TRIALS[0], candidate=replace(TRIALS[0].candidate, power=0.5))
    ax = plot.candidate_curves(fitted(TRIALS[0], power))
    one, other, _ = ax.get_lines()
    assert one.get_color() != other.get_color()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["raw, 50", "raw, 50, square root", "stacked"]
