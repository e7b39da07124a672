"""The experiments by name."""

from __future__ import annotations

from probprop_lab.experiments import (
    active,
    auto,
    classification,
    deep,
    epochs,
    evidence,
    field,
    missing,
    t_approximation,
    table1,
    toy,
)
from probprop_lab.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    module.EXPERIMENT.name: module.EXPERIMENT
    for module in (
        table1,
        deep,
        active,
        toy,
        t_approximation,
        epochs,
        auto,
        evidence,
        field,
        classification,
        missing,
    )
}
"""What `probprop reproduce` can be asked for."""
