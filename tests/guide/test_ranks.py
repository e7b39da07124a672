"""Ranks in the words of README and pages against the tables that the experiments write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PRETRAINED = {"TabPFN 2.5", "RealTabPFN 2.5", "TabICL Quantiles"}
OURS = "probprop: PBPRegressorCV"
NUMBER = r"(\d+\.\d+)"


def ranks(page: str, heading: str) -> dict[str, list[float]]:
    """Mean ranks by method, in the order of the columns."""
    text = (ROOT / "docs" / "results" / page).read_text().partition(f"### {heading}")[2]
    table = text.partition("\n### ")[0]
    rows = (row.strip("| ").split(" | ") for row in re.findall(r"^\| .*\|$", table, re.M)[2:])
    return {name: [float(cell) for cell in cells[1:]] for name, *cells in rows}


def shown(page: str, pattern: str) -> list[float]:
    found = re.search(pattern, " ".join((ROOT / page).read_text().split()))
    assert found is not None, (page, pattern)
    return [float(number) for number in found.groups()]


def agree(words: list[float], table: list[float]) -> None:
    """One decimal is shown of ranks that the tables have with three digits."""
    assert words == pytest.approx(table, abs=0.056)


def density() -> dict[str, list[float]]:
    """Ranks in log-likelihood and CRPS, and the best of the methods trained from scratch."""
    found = ranks("density.md", "Mean ranks, n = 1,000")
    others = [own for name, own in found.items() if name not in {*PRETRAINED, OURS}]
    assert len(others) == len(found) - 4 == 19
    return found | {"others": [min(column) for column in zip(*others, strict=True)]}


def test_the_density_benchmark() -> None:
    found = density()
    row = r"\| log-likelihood / CRPS " + rf"\| {NUMBER} / {NUMBER} " * 4 + r"\|"
    names = (OURS, "TabPFN 2.5", "TabICL Quantiles", "others")
    agree(shown("README.md", row), [rank for name in names for rank in found[name]])
    page = (
        rf"mean rank of {NUMBER} in log-likelihood and {NUMBER} in CRPS among 23 methods\. "
        rf"TabPFN 2\.5 has {NUMBER} and {NUMBER}, RealTabPFN 2\.5 {NUMBER} and {NUMBER}, "
        rf"TabICL {NUMBER} and {NUMBER}; .* has {NUMBER} \(.*?\) and {NUMBER} \("
    )
    names = (OURS, "TabPFN 2.5", "RealTabPFN 2.5", "TabICL Quantiles", "others")
    agree(shown("docs/density.md", page), [rank for name in names for rank in found[name]])


@pytest.mark.parametrize("page", ["README.md", "docs/tables-experiment.md"])
def test_mixed_tables(page: str) -> None:
    found = ranks("tables.md", "Mean ranks")
    words = (
        rf"{NUMBER} in log-likelihood or log-loss \(CatBoost {NUMBER}\), {NUMBER} in CRPS "
        rf"\({NUMBER}\) and {NUMBER} in RMSE \({NUMBER}\)"
    )
    pairs = zip(found["probprop"][:3], found["CatBoost"][:3], strict=True)
    agree(shown(page, words), [rank for pair in pairs for rank in pair])
