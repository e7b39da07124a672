"""Every instruction set the machine has: the tests of the kernel again, each in its own process."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from probprop._kernel import cpu_level, cpu_levels


def run_at_level(level: str, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PROBPROP_CPU_LEVEL": level}
    return subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )


outside = pytest.mark.skipif("PROBPROP_CPU_LEVEL" in os.environ, reason="already inside a level")


@outside
@pytest.mark.parametrize("level", cpu_levels()[1:])  # this process runs at the fastest
@pytest.mark.process
def test_parity_at_every_level(level: str) -> None:
    tests = Path(__file__).parents[1]
    files = [
        str(tests / "inference" / f"test_{name}.py")
        for name in ("parity", "oracle", "train", "listed")
    ]
    files += [
        str(tests / "reference" / name)
        for name in (
            "activations/test_relu.py",
            "test_gradient.py",
            "test_sampled.py",
            "likelihoods/test_likelihood.py",
            "likelihoods/test_scale.py",
            "test_scale_mixture.py",
        )
    ]
    of_mixtures = ("one_member", "members", "heavy_tails", "transformed_mixture")
    files += [str(tests / "distributions" / f"test_{name}.py") for name in of_mixtures]
    # Those with the parameter `reference`; the bare word would take the folder for it.
    native = "not [reference and not -reference- and not reference]"
    result = run_at_level(
        level, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", native, *files
    )
    assert result.returncode == 0, result.stdout[-3000:] + result.stderr[-3000:]
    n_passed = re.search(r"(\d+) passed", result.stdout)
    assert n_passed is not None
    assert int(n_passed[1]) > 350  # of all these files, not of some


@outside
def test_the_environment_chooses_the_fastest_level_too() -> None:  # the others check their own
    level = cpu_levels()[0]
    result = run_at_level(level, "-c", "import probprop._kernel as k; print(k.cpu_level())")
    assert result.stdout.strip() == level, result.stderr


@outside
def test_an_unknown_level_is_refused_with_the_choices() -> None:
    result = run_at_level("v9", "-c", "from probprop import PBPRegressor")
    assert result.returncode != 0
    assert "PROBPROP_CPU_LEVEL must be one of" in result.stderr
    assert "generic" in result.stderr


def test_the_level_is_the_variables_or_the_fastest() -> None:
    assert cpu_level() == os.environ.get("PROBPROP_CPU_LEVEL", cpu_levels()[0])
