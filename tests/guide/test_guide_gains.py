"""Tables from the rows of other experiments: which methods are compared, on which splits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.guide import gains
from benchmarks.guide.pages import FOLDER

Row = dict[str, Any]


def values(dataset: str, method: str, split: int, log_p: float) -> Row:
    return {
        "dataset": dataset,
        "method": method,
        "split": split,
        "log_likelihood": log_p,
        "rmse": 1.0 + split,
        "coverage_95": 0.9,
        "seconds": 2.0 * split,
        "n_train": 1_234,
    }


def labels(dataset: str, method: str, losses: dict[int, float]) -> list[Row]:
    return [
        {"dataset": dataset, "method": method, "split": split, "log_loss": loss}
        for split, loss in losses.items()
    ]


def test_the_halves_of_the_splits_are_apart() -> None:
    rows = [values("yacht", "PBPRegressorCV", k, -1.0 if k < 10 else 2.0) for k in range(20)]
    rows.append(values("yacht", "PBP", 0, -99.0))
    line = gains.small(rows).splitlines()[2]
    assert line == "| yacht | −1.00 | 2.00 | 5.500, 15.500 | 90.0 %, 90.0 % | 19.0 |"


def test_the_lead_is_over_the_best_of_the_others() -> None:
    rows = [
        values("yacht", method, split, log_p + 0.5 * split)
        for method, log_p in {"PBPRegressorCV": 1.0, "PBP": 9.0, "GP": 0.75, "NGBoost": 0.5}.items()
        for split in range(2)
    ]
    line = gains.lead(rows).splitlines()[2]
    assert line == "| yacht | 2 | 1.250 | GP | 1.000 | 0.250 ± 0.000 |"


def test_classes_are_compared_on_splits_that_both_have() -> None:
    rows = [
        *labels("magic", "PBPClassifierCV", {0: 0.9, 1: 0.3, 2: 0.5}),
        *labels("magic", "MLPClassifier", {0: 0.1, 1: 0.4, 2: 0.6, 3: 7.0}),
        *labels("magic", "CatBoost", {2: 0.4, 3: 9.0}),
        *labels("magic", "GP", {1: 0.31}),
    ]
    line = gains.of_classes(rows).splitlines()[2]
    ahead = "MLPClassifier 0.367, CatBoost 0.400"
    assert line == f"| magic | 1 to 2 | 0.400 | 0.500 | 0.567 | {ahead} |"


def test_the_tables_in_the_repository_match_its_rows(tmp_path: Path) -> None:
    for name in ("auto", "field", "classification"):
        (tmp_path / f"{name}.jsonl").write_bytes((FOLDER / f"{name}.jsonl").read_bytes())
    gains.main(["--results", str(tmp_path)])
    for name in ("gains_small", "gains_large", "gains_field", "gains_classes", "gains_readme"):
        text = (tmp_path / f"{name}.md").read_text()
        assert text == (FOLDER / f"{name}.md").read_text()
    assert text in gains.README.read_text()
