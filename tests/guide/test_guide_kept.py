"""Pages made of figures that other commands have measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmarks.__main__ import PARTS
from benchmarks.effort import QUICK
from benchmarks.guide import speed, toy_seeds
from benchmarks.machine import machine

ROWS = [
    {"method": "HMC", "seed": 0, "x": [0, 1], "mean": [0, 0], "std": [1, 1], "noise_variance": 4},
    {"method": "HMC", "seed": 1000, "x": [0, 1], "mean": [9, 9], "std": [3, 3]},
    {
        "method": "HMC weak",
        "seed": 0,
        "x": [0, 1],
        "mean": [1, 1],
        "std": [2, 2],
        "noise_variance": 1,
    },
    {"method": "PBP", "seed": 0, "x": [0, 1], "mean": [1, 2], "std": [4, 4], "noise_variance": 9},
    {"method": "VI", "seed": 0, "x": [0, 1], "mean": [5, 5], "std": [1, 3], "noise_variance": 16},
    {"method": "PBP", "seed": 1000, "x": [0, 1], "mean": [1, 2], "std": [4, 4]},
    {"method": "VI", "seed": 1000, "x": [0, 1], "mean": [5, 5], "std": [1, 3]},
]


def test_distances_from_hmc_of_the_same_seed_and_else_of_the_first() -> None:
    pages = toy_seeds.pages(ROWS)
    lines = pages["toy_seeds"].splitlines()
    assert lines[2] == "| 0 | 2.0 / 1.0 | 0.5 / 4.0 | 3.0 / 1.0 | 1.5 / 5.0 |"
    assert lines[3] == "| 1 | 2.0 / 1.0 | 0.5 / 4.0 | 1.0 / 1.0 | 7.5 / 4.0 |"
    assert "| PBP | 3.0 |" in pages["toy_noise"]


def test_without_measurements_the_page_says_what_to_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--measured", str(tmp_path / "none.json"), "--results", str(tmp_path)]
    with pytest.raises(SystemExit):
        speed.main(arguments)
    assert "run `make bench` first" in capsys.readouterr().err


@pytest.mark.slow
def test_the_page_finds_what_the_benchmarks_measure() -> None:
    measured = {
        name: PARTS[name](QUICK).measured
        for name in ("updates", "predict_calls", "sampled", "memory")
    }
    figures = speed.taken({**measured, "machine": machine(), "n_repetitions": 1})
    rates = measured["sampled"]["f"]["(13, 50)"]
    assert min(rates) <= figures["sampled_rows_per_second"] <= max(rates)
    assert len(speed.page(figures).splitlines()) == 4 + len(speed.SHAPES) + 2


def test_figures_are_those_that_were_measured() -> None:
    case = {"updates_per_second": 2e6, "ratio_to_reference": 300.0, "repetitions": []}
    names = [f"({shape.name}) {dtype}" for shape in speed.SHAPES for dtype in speed.DTYPES]
    measured = {
        "machine": {"cpu": "some", "cpu_level": "v4", "date": "2026-01-01T00:00:00"},
        "n_repetitions": 3,
        "updates": {"dgemm_gflops": 50.0, "cases": dict.fromkeys(names, case)},
        "predict_calls": {"predict": {"(13, 50) float64": [1e6, 3e6, 9e6]}},
        "sampled": {"f": {"(13, 50)": [2e7]}},
        "memory": {"one network": {"above_mb": 10.2}, "cross-validated": {"above_mb": 500.0}},
    }
    figures = speed.taken(json.loads(json.dumps(measured)))
    assert figures["predict_rows_per_second"] == 3e6
    page = speed.page(figures)
    assert page.count("| 2.00M | 2.00M | 300 |") == len(speed.SHAPES)
    assert "3.00M rows/s" in page
    assert "takes 10 MB" in page
