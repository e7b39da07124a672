"""PBP as the authors ran it: on naval a constant feature is a second bias unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from probprop_lab.baselines.second_bias import SecondBiasPBP
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.methods import KNOWN, pbp, with_variants

# The pressure P1 of naval is constant. In the authors' code round-off leaves it a standard
# deviation of 2e-13, by which its distance from the mean is divided: the column becomes a
# second bias unit, and their results on this set, the printed ones too, depend on it.
ROUND_OFF = {"naval_propulsion": (11,)}
"""Features that round-off sets to 1 in every row, by data set."""


def authors_pbp(job: Job) -> Any:
    """Return PBP, with the second bias unit where the authors' code has one."""
    ones = ROUND_OFF.get(job.dataset, ())
    return SecondBiasPBP(pbp(job), ones) if ones else pbp(job)


AUTHORS_PBP = replace(KNOWN["PBP"], make=authors_pbp)

METHODS = with_variants(AUTHORS_PBP)
"""The methods of the paper's tables."""
