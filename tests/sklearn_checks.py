"""The checks of scikit-learn that PBP does not pass, and why."""

from __future__ import annotations

from typing import Any

_SEQUENTIAL = (
    "PBP takes one row after the other: a row of weight 2 is one step with half the noise "
    "variance, a repeated row two steps. Rows of weight 0 are left out exactly."
)


def expected_failures(estimator: Any) -> dict[str, str]:
    check = "check_sample_weight_equivalence_on_{}_data"
    return {check.format(kind): _SEQUENTIAL for kind in ("dense", "sparse")}
