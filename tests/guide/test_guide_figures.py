"""The benchmarks whose tables the guide includes, on few rows: what they measure, their pages."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from benchmarks import paired
from benchmarks.guide import error_bars, inputs, labels, streams, targets
from benchmarks.guide.pages import rows_of

from made_splits import Parts, linear
from probprop import PBPRegressor, metrics
from probprop_lab.results import ResultsError, appending


def made_split(name: str, split: int) -> Parts:
    return linear(split, 100, 40, 8)


def test_differences_are_paired() -> None:
    assert paired.difference([1.0, 2.0, 3.0], [0.9, 1.9, 2.9], 2) == "0.10 ± 0.00"
    assert paired.difference([1.0, 3.0], [2.0, 2.0], 1) == "0.0 ± 1.0"
    assert paired.difference([1.0, 2.0], [2.0, 4.0], 1) == "−1.5 ± 0.5"
    assert [paired.mean([x], 1) for x in (-0.04, -1.0, 2.0)] == ["0.0", "−1.0", "2.0"]


def test_each_target_has_the_network_of_its_own() -> None:
    data = targets.strangers(0, 100)
    found = targets.evaluate(data, 3, together=False, n_epochs=3)
    for k, y in enumerate(data.Y_test.T):
        model = PBPRegressor(n_epochs=3, random_state=3).fit(data.X_train, data.Y_train[:, k])
        assert found["rmse"][k] == metrics.rmse(y, model.predict(data.X_test))
    both = targets.evaluate(data, 3, together=True, n_epochs=3)
    model = PBPRegressor(n_epochs=3, random_state=3).fit(data.X_train, data.Y_train)
    expected = model.predict_distribution(data.X_test).logpdf(data.Y_test).mean(axis=0)
    np.testing.assert_allclose(both["log_likelihood"], expected, rtol=1e-12)


def test_synthetic_targets_have_nothing_in_common() -> None:
    data = targets.strangers(0)
    X, Y = data.X_train, data.Y_train
    assert abs(np.corrcoef(Y.T)[0, 1]) < 0.1
    own, other = np.sin(2.0 * X[:, 0]), np.sin(2.0 * X[:, 4])
    assert np.corrcoef(own, Y[:, 0])[0, 1] > 0.3 > 0.1 > abs(np.corrcoef(other, Y[:, 0])[0, 1])


def test_a_linear_model_is_as_wide_as_its_draws() -> None:
    """Its variance is known: variances of the weights, of the inputs, and their products."""
    X, y, rows, _ = made_split("", 0)
    model = PBPRegressor((), random_state=0).fit(X, y)
    std = 0.5 * X.std(axis=0)
    exact = inputs.propagated(model, rows, std)
    np.testing.assert_allclose(
        model.predict_distribution(rows, X_std=std).epistemic_std, exact, rtol=0.02
    )
    rng = np.random.default_rng(0)
    drawn = inputs.drawn_std(model, lambda rng: rows + std * inputs.normal(rng, rows), rng, 4_000)
    np.testing.assert_allclose(drawn, exact, rtol=0.05)
    assert (exact > 1.5 * model.predict_distribution(rows).epistemic_std).all()


@pytest.mark.filterwarnings("ignore:In .* updates:RuntimeWarning")
def test_both_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = ["--results", str(tmp_path)]
    targets.main(
        ["--repetitions", "2", "--rows", "100", *folder], partial(targets.strangers, n=100)
    )
    few = ["--splits", "2", "--few", "2", "--draws", "20", "--imputers", "2", "--pairs", "2"]
    inputs.main(["--sets", *inputs.SETS, *few, *folder], made_split)
    printed = capsys.readouterr().out
    for name in ("targets", "inputs_width", "inputs_imputed", "inputs_cost"):
        assert (tmp_path / f"{name}.md").read_text() in printed
    found = json.loads((tmp_path / "inputs.json").read_text())
    assert all(f["linear 0.3"] == pytest.approx(1.0, abs=0.25) for f in found["widths"].values())
    assert found["cost"]["(50,)"]["prediction with `X_std`"] > 5.0
    assert printed.count("ten draws") == 2


def test_a_stream_is_all_rows_once() -> None:
    for first, then in ((1, 1), (20, 1), (100, 30), (100, 100)):
        cut = [np.arange(100)[part] for part in streams.parts(100, first, then)]
        np.testing.assert_array_equal(np.concatenate(cut), np.arange(100))
        assert len(cut[0]) == first
        assert all(len(part) <= then for part in cut[1:])


def test_orders_are_permutations_that_begin_as_they_say() -> None:
    values = np.random.default_rng(0).standard_normal(200)
    near, after = streams.near(values, 50), streams.sorted_after(values, 30)
    for order in (near, after):
        np.testing.assert_array_equal(np.sort(order), np.arange(200))
    far = np.abs(values - np.median(values))
    assert far[near[:50]].max() <= far[near[50:]].min()
    np.testing.assert_array_equal(after[:30], np.arange(30))
    assert (np.diff(values[after[30:]]) >= 0.0).all()


def test_streams_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--seeds", "2", "--many", "2", "--rows", "1200"]
    streams.main(
        [*few, "--results", str(tmp_path)], lambda: streams.Rows(*made_split("boston", 0)[:2])
    )
    printed = capsys.readouterr().out
    for name, cases in streams.TABLES.items():
        page = (tmp_path / f"streams_{name}.md").read_text()
        assert page in printed
        assert all(f"| {title} |" in page for title in cases)
    written = json.loads((tmp_path / "streams.json").read_text())
    found, once = written["tables"], written["once"]
    assert (tmp_path / "streams_once.md").read_text() in printed
    first, alone, _ = once.values()  # of one, two and three layers
    assert max(alone[2]) < min(first[2])  # the paper's first epoch learns little with three layers
    assert found["first"]["100 typical rows"] == found["order"]["random"]
    assert found["order"]["random"][0]["rmse"] < found["order"]["sorted by the target"][0]["rmse"]


def test_labels_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--sets", "wine", "iris", "--folds", "2", "--seeds", "2"]
    labels.main([*few, "--results", str(tmp_path)])
    printed = capsys.readouterr().out
    for name in ("labels_folds", "labels_weights"):
        assert (tmp_path / f"{name}.md").read_text() in printed
    found = json.loads((tmp_path / "labels.json").read_text())
    assert all(0.0 < f["log_loss"] < 0.7 for f in found["folds"]["wine"].values())
    assert all(f["accuracy"] > 0.9 for f in found["folds"]["wine"].values())
    assert found["noise"]["noise"] > 3.0 * found["noise"]["digits"]
    assert all(-1.5 < value < 0.0 for run in found["weights"]["iris"] for value in run.values())


def test_weights_of_one_are_no_weights() -> None:
    found = labels.weighted(*labels.load_iris(return_X_y=True), 0, choices=(1.0,))
    ways = ("weights", "repeated rows")
    assert len({found[way] for way in ways}) == 1


def test_where_vi_starts_is_fixed_or_searched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("jax", reason="needs the extra 'baselines'")
    pytest.importorskip("bayes_opt", reason="needs the extra 'baselines'")
    from benchmarks.guide import vi_starts

    few = ["--sets", "yacht", "--splits", "1", "--evaluations", "2"]
    vi_starts.main([*few, "--results", str(tmp_path)], made_split, (0.1, None))
    fixed, searched = json.loads((tmp_path / "vi_starts.json").read_text())["rows"]
    assert sorted(fixed["params"]) == ["learning_rate", "momentum"]
    assert sorted(searched["params"]) == ["initial_std", "learning_rate", "momentum"]
    assert "| yacht | the paper's mean of all splits | 6.89 | −3.44 |" in capsys.readouterr().out


def test_error_bars_write_their_pages(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--seeds", "2", "--splits", "2", "--rows", "200"]
    error_bars.main([*few, "--results", str(tmp_path)])
    printed = capsys.readouterr().out
    for name in ("error_bars_toy", "error_bars_splits", "error_bars_blind"):
        assert (tmp_path / f"{name}.md").read_text() in printed
    found = json.loads((tmp_path / "error_bars.json").read_text())
    inside, near, far = found["toy"]
    assert inside["epistemic_std"] < near["epistemic_std"] < far["epistemic_std"]
    assert inside["std"] == pytest.approx(
        np.hypot(inside["epistemic_std"], inside["aleatoric_std"])
    )
    gaussian, exact = found["tails"]["1"]["0.999"]
    assert exact > 1.01 * gaussian
    assert found["growing"]["quietest"] > found["growing"]["loudest"]
    assert found["gap"]["in the gap"] < found["gap"]["outside"]
    low, high = found["outside"]["held"]
    assert low < found["outside"]["rows"][0] < found["outside"]["rows"][1] < high
    assert found["splits"]["yacht"]["n_rows"] == 308
    assert found["splits"]["yacht"]["log_likelihood"] == pytest.approx(-1.63, abs=0.005)
    assert 45.0 < found["splits"]["diabetes"]["rmse"] < 65.0
    assert found["seeds"]["40"]["epistemic_std"] > found["seeds"]["400"]["epistemic_std"]


def test_what_was_measured_is_not_measured_again(tmp_path: Path) -> None:
    calls: list[int] = []

    def measure(split: int) -> dict[str, float]:
        calls.append(split)
        return {"rmse": 0.5 * split}

    path, cases = tmp_path / "rows.jsonl", [{"split": k} for k in range(3)]
    assert rows_of(path, cases[:2], measure) == [
        {"split": 0, "rmse": 0.0},
        {"split": 1, "rmse": 0.5},
    ]
    path.write_text(path.read_text()[:-4])  # half a row, as a kill leaves it
    assert [row["rmse"] for row in rows_of(path, cases, measure)] == [0.0, 0.5, 1.0]
    assert calls == [0, 1, 1, 2]
    assert len(path.read_text().splitlines()) == 3
    with appending(path), pytest.raises(ResultsError, match="another run is writing to it"):
        rows_of(path, cases, measure)
    path.write_text("damaged\n" + path.read_text())
    with pytest.raises(ResultsError, match="line 1 is not a result"):
        rows_of(path, cases, measure)
