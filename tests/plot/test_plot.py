"""The plots by their content: labels, artists and the data drawn."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes

from probprop import Candidate, PBPRegressor, Trial, plot
from probprop.distributions.mixture import Mixture
from probprop.metrics import predictive_coverage
from probprop.metrics.verdict import largest_by_chance

matplotlib.use("Agg")


@cache
def diabetes() -> tuple[PBPRegressor, Any, Any]:
    X, y = load_diabetes(return_X_y=True, as_frame=True, scaled=False)
    return PBPRegressor(20, n_epochs=5, random_state=0).fit(X[:350], y[:350]), X, y


@cache
def toy() -> tuple[PBPRegressor, Any, Any]:
    rng = np.random.RandomState(3)
    x = rng.uniform(-4, 4, 20)
    y = x**3 + 3 * rng.standard_normal(20)
    return PBPRegressor(100, random_state=0).fit(x[:, np.newaxis], y), x, y


def held_out(student_t: bool = False) -> tuple[Any, Mixture]:
    model, X, y = diabetes()
    return y[350:].to_numpy(), model.predict_distribution(X[350:], student_t=student_t)


def labels(ax: Axes) -> list[str]:
    return [
        text.get_text()
        for axes in ax.figure.axes
        if axes.get_legend()
        for text in axes.get_legend().get_texts()
    ]


def line(ax: Axes, label: str) -> Any:
    return next(found for found in ax.get_lines() if found.get_label() == label)


def band(ax: Axes, label: str) -> Any:
    """The vertices of a shaded band."""
    found = next(c for c in ax.collections if c.get_label() == label)
    return found.get_paths()[0].vertices


class TestPredictiveBand:
    def test_draws_mean_bands_data_and_truth(self) -> None:
        model, x, y = toy()
        grid = np.linspace(-6, 6, 50)
        p = model.predict_distribution(grid[:, np.newaxis])
        ax = plot.predictive_band(grid, p, data=(x, y), truth=grid**3, target="y [m]")
        assert labels(ax) == ["±1 std", "±2 std", "±3 std", "mean", "truth", "data"]
        assert ax.get_ylabel() == "y [m]"
        assert_array_equal(line(ax, "mean").get_xydata(), np.stack([grid, p.mean], axis=1))
        assert_array_equal(line(ax, "truth").get_ydata(), grid**3)
        assert_array_equal(line(ax, "data").get_xydata(), np.stack([x, y], axis=1))
        assert line(ax, "data").get_color() == "k"
        for k in (1, 2, 3):
            vertices = band(ax, f"±{k} std")
            assert_allclose(vertices[:, 1].max(), (p.mean + k * p.std).max())
            assert_allclose(vertices[:, 1].min(), (p.mean - k * p.std).min())

    def test_sorts_what_comes_in_any_order(self) -> None:
        p = Mixture.of_one(np.array([2.0, 0.0, 1.0]), np.array([0.2, 0.0, 0.1]), 1.0)
        x = np.array([[5.0], [3.0], [4.0]])
        ax = plot.predictive_band(x, p, truth=[20.0, 0.0, 10.0])
        assert_array_equal(line(ax, "mean").get_xydata(), [[3, 0], [4, 1], [5, 2]])
        assert_array_equal(line(ax, "truth").get_xydata(), [[3, 0], [4, 10], [5, 20]])
        vertices = band(ax, "±2 std")
        for at, std in zip(x[:, 0], p.std, strict=True):
            assert np.ptp(vertices[vertices[:, 0] == at][:, 1]) == pytest.approx(4 * std)

    def test_sorts_the_truth_too(self) -> None:
        p = Mixture.of_one(np.zeros(3), np.ones(3), 1.0)
        ax = plot.predictive_band([2, 0, 1], p, truth=[8, 0, 1])
        assert_array_equal(line(ax, "truth").get_xydata(), [[0, 0], [1, 1], [2, 8]])

    def test_a_truth_far_away_does_not_flatten_the_band(self) -> None:
        p = Mixture.of_one(np.zeros(3), np.ones(3), 1.0)
        ax = plot.predictive_band([0, 1, 2], p, truth=[0.0, 0.0, 1e6])
        assert ax.get_ylim()[1] < 20

    def test_narrower_bands_are_darker_and_in_front_also_in_gray(self) -> None:
        p = Mixture.of_one(np.zeros(3), np.ones(3), 1.0)
        ax = plot.predictive_band([0, 1, 2], p)
        assert labels(ax)[:3] == ["±1 std", "±2 std", "±3 std"]
        grays = [np.dot(to_rgb(c.get_facecolor()[0]), (0.3, 0.59, 0.11)) for c in ax.collections]
        assert (np.diff(grays) > 0.05).all()
        assert (np.diff([c.get_zorder() for c in ax.collections]) < 0).all()

    def test_refuses_other_lengths(self) -> None:
        p = Mixture.of_one(np.zeros(3), np.ones(3), 1.0)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            plot.predictive_band([0, 1], p)
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            plot.predictive_band([0, 1, 2], p, truth=[1.0])
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            plot.predictive_band([0, 1, 2], p, data=([1, 2], [1]))


class TestPredictedAgainstObserved:
    @pytest.mark.parametrize("student_t", [False, True])
    def test_draws_every_row_with_its_interval(self, student_t: bool) -> None:
        y, p = held_out(student_t)
        ax = plot.predicted_against_observed(y, p, target="progression")
        assert (ax.get_xlabel(), ax.get_ylabel()) == (
            "observed progression",
            "predicted progression",
        )
        lower, upper = p.interval(0.95)
        outside = (y < lower) | (y > upper)
        marks = zip(ax.get_lines()[1:], ax.collections, (~outside, outside), strict=True)
        for points, bars, chosen in marks:
            assert_array_equal(points.get_xydata(), np.stack([y, p.mean], axis=1)[chosen])
            ends = np.stack([lower, upper], axis=1)[chosen]
            assert_allclose([segment[:, 1] for segment in bars.get_segments()], ends)
        assert labels(ax)[1:] == [
            f"observed in 95 % interval: {100 - 100 * outside.mean():.1f} %",
            f"observed outside it: {100 * outside.mean():.1f} %",
        ]

    def test_draws_a_thousand_of_many_rows_and_counts_them_all(self) -> None:
        p = Mixture.of_one(np.arange(4000.0), np.zeros(4000), 1.0)
        y = p.mean + np.where(np.arange(4000) < 1000, 5.0, 0.0)
        ax = plot.predicted_against_observed(y, p)
        drawn = [len(points.get_xdata()) for points in ax.get_lines()[1:]]
        assert sum(drawn) == 1000
        assert labels(ax)[2] == "observed outside it: 25.0 %"
        assert 150 < drawn[1] < 350  # a random choice, not the first thousand

    def test_skewed_targets_have_an_axis_that_fits_most_rows(self) -> None:
        y = np.append(np.linspace(0.0, 10.0, 500), [1000.0])
        ax = plot.predicted_against_observed(y, Mixture.of_one(y * 0.0 + 5.0, y * 0.0, 1.0))
        assert ax.get_xlim()[1] < 20.0
        assert ax.get_xlim()[0] == pytest.approx(ax.get_ylim()[0], abs=1.0)
        assert labels(ax)[-1] == "beyond the axes, at their edge: 1"
        wide = np.exp(np.linspace(0.0, 9.0, 500))
        ax = plot.predicted_against_observed(wide, Mixture.of_one(wide, 0.0 * wide, 0.01))
        assert ax.get_xscale() == ax.get_yscale() == "log"


class TestCalibration:
    @pytest.mark.parametrize("student_t", [False, True])
    def test_draws_the_coverage_of_the_distribution(self, student_t: bool) -> None:
        y, p = held_out(student_t)
        ax = plot.calibration(y, p, target="progression")
        curve = next(li for li in ax.get_lines() if li.get_label().startswith("observed"))
        expected, observed = predictive_coverage(y, p)
        assert_array_equal(curve.get_xydata(), np.stack([expected, observed], axis=1))
        error = np.abs(expected - observed).mean()
        assert labels(ax)[2:] == [f"observed, error {error:.3f}"]
        assert ax.get_ylabel() == "observed coverage of progression"
        assert ax.get_xlim() == ax.get_ylim() == (0, 1)

    def test_shade_of_chance_matches_the_verdict(self) -> None:
        p = Mixture.of_one(np.zeros(100), np.zeros(100), 1.0)
        vertices = band(plot.calibration(p.rvs(1, 0)[0], p), "within chance")
        at_half = vertices[np.isclose(vertices[:, 0], 0.5)][:, 1]
        half = largest_by_chance(100)
        assert_allclose([at_half.min(), at_half.max()], [0.5 - half, 0.5 + half])


def test_residuals_are_drawn_over_multiples_of_the_std() -> None:
    y, p = held_out()
    ax = plot.residuals_against_std(y, p, target="progression")
    drawn = line(ax, "observed").get_xydata()
    assert_array_equal(drawn, np.stack([p.std, y - p.mean], axis=1))
    assert ax.get_xlabel() == "predicted std of progression"
    for k in (1, 2, 3):
        vertices = band(ax, f"±{k} std")
        assert_allclose(np.abs(vertices[:, 1]), k * vertices[:, 0])
        assert vertices[:, 0].min() < p.std.min() < p.std.max() < vertices[:, 0].max()


def test_residuals_of_equal_std_have_a_width() -> None:
    ax = plot.residuals_against_std([1.0, 2.0], Mixture.of_one(np.zeros(2), np.zeros(2), 1.0))
    assert ax.get_xlim()[0] < 1.0 < ax.get_xlim()[1]


CLASSES = np.arange(30) % 2
SCORES = [((-n,), (1 - n,), (-n,)) for n in (2, 9, 32)]
TRIALS = [Trial(Candidate(2 - s[0][0], 50), (20, 40, 80), s, "", 0.3) for s in SCORES]
PROBA = np.random.RandomState(0).dirichlet([1.0, 1.0], 30)


def draw(name: str, ax: Axes | None = None) -> Axes:
    _, X, _ = diabetes()
    y, p = held_out()
    drawn: Axes
    match name:
        case "predictive_band":
            bmi = X["bmi"][350:]
            return plot.predictive_band(bmi, p, data=(bmi, y), truth=bmi * 4, ax=ax)
        case "reliability":
            return plot.reliability(CLASSES, PROBA, ax=ax)
        case "candidate_curves":
            return plot.candidate_curves(SimpleNamespace(trials_=TRIALS), ax=ax)
        case _:
            drawn = getattr(plot, name)(y, p, ax=ax)
            return drawn


@pytest.mark.parametrize("name", sorted({*plot.__all__} - {"shapley_values"}))
class TestEveryPlot:
    def test_opens_one_figure_with_a_layout_and_never_shows(
        self, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(plt, "show", lambda *a, **k: pytest.fail("show was called"))
        ax = draw(name)
        assert len(plt.get_fignums()) == 1
        assert ax.figure.get_layout_engine() is not None
        assert ax.get_xlabel()
        assert ax.get_ylabel()

    def test_draws_on_the_given_axes(self, name: str) -> None:
        _, axes = plt.subplots(1, 2)
        assert draw(name, axes[1]) is axes[1]
        assert len(plt.get_fignums()) == 1
        assert not axes[0].lines

    @pytest.mark.parametrize("size", [(6.4, 4.8), (4.0, 4.0), (12.0, 5.0)])
    def test_legend_lies_within_the_axes_and_covers_no_point(
        self, name: str, size: tuple[float, float]
    ) -> None:
        fig, ax = plt.subplots(figsize=size, layout="constrained")
        draw(name, ax)
        fig.canvas.draw()
        (legend,) = [axes.get_legend() for axes in fig.axes if axes.get_legend()]
        box, frame = legend.get_window_extent(), ax.get_window_extent()
        assert frame.x0 <= box.x0 < box.x1 <= frame.x1
        assert frame.y0 <= box.y0 < box.y1 <= frame.y1
        points = [d.get_transform().transform(d.get_xydata()) for a in fig.axes for d in a.lines]
        for vertices in [path.vertices for c in ax.collections for path in c.get_paths()]:
            points.append(ax.transData.transform(vertices))
        assert sum(len(some) for some in points) > 4
        for x, y in np.concatenate(points):
            assert not (box.x0 < x < box.x1 and box.y0 < y < box.y1)


def test_shapley_values_are_drawn_largest_first_and_add_up() -> None:
    names = ["(baseline)", *(f"c{i}" for i in range(12))]
    index = pd.MultiIndex.from_product([[7, 8], names], names=["sample", "column"])
    mean = np.tile([1000.0, *(np.arange(12) - 3.0)], 2)
    explained = pd.DataFrame({"value": "a", "mean": mean, "std": 2.0}, index)
    ax = plot.shapley_values(explained)
    widths = [patch.get_width() for patch in ax.patches]
    assert widths[:2] == [8.0, 7.0]
    assert len(widths) == 11
    assert sum(widths) == 30.0
    labels = [text.get_text() for text in ax.get_yticklabels()]
    assert labels[0] == "c11 = a"
    assert labels[-1] == "2 other columns"
    assert ax.get_xlabel() == "added to the mean, from 1000 to 1030"
    assert "added to the std" in plot.shapley_values(explained, output="std").get_xlabel()
    classes = explained.rename(columns={"mean": "no", "std": "yes"})
    assert "added to the yes" in plot.shapley_values(classes).get_xlabel()


class TestAxes:
    def test_leaves_autoscaling_on(self) -> None:
        p = Mixture.of_one(np.zeros(3), np.ones(3), 1.0)
        ax = plot.predictive_band([0, 1, 2], p)
        ax.plot([1], [50])
        assert ax.get_ylim()[1] > 50
