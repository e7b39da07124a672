"""What the experiment on classification can run: PBP and its alternatives.

A method makes a classifier for a job. It has ``fit(X, y)``, ``classes_`` and
``predict_proba(X)``; if it also has ``predict_log_proba(X)``, that is scored instead. Parameters
have their defaults; exceptions are named where they are set.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from probprop.cli import methods as own
from probprop.estimators.classifier import PBPClassifier
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.methods import Method, shared

BASE = "MLPClassifier"
"""The baseline of the comparison."""

EVIDENCE_CAP = 10.0
"""The evidence cap of PBP, the default of `PBPClassifier`."""


def _pbp(job: Job) -> PBPClassifier:
    return PBPClassifier(
        job.hidden, n_epochs=job.n_epochs, evidence_cap=job.evidence_cap, random_state=job.seed
    )


def _wider(job: Job) -> PBPClassifier:
    # The number of units that MLPClassifier has by default.
    return PBPClassifier(
        (100,), n_epochs=job.n_epochs, evidence_cap=job.evidence_cap, random_state=job.seed
    )


def _mlp(job: Job) -> Pipeline:
    return make_pipeline(StandardScaler(), MLPClassifier(random_state=job.seed))


def _cat_boost(job: Job) -> Any:
    from probprop_lab.baselines.boosting import cat_boost_classifier

    return cat_boost_classifier(job.seed)


_SHARED = shared(own.KNOWN["classification"])
KNOWN = {
    method.name: method
    for method in [
        Method("PBP", _pbp, 1.0),
        Method("PBP 100", _wider, 2.0),
        _SHARED["PBPClassifierCV"],
        _SHARED["LogisticRegression"],
        Method(BASE, _mlp, 1.0),
        _SHARED["HistGB"],
        _SHARED["GP"],
        Method("CatBoost", _cat_boost, 20.0, ("catboost",), "field"),
    ]
}
"""The methods by name, in the order of the table."""

OTHERS = [BASE, "CatBoost"]
"""The methods that `probprop compare` gains."""


def check(names: Iterable[str]) -> None:
    """Refuse names of methods that are not known."""
    unknown = [name for name in names if name not in KNOWN]
    if unknown:
        raise ValueError(
            f"the experiment classification has the methods {', '.join(KNOWN)} only, not "
            f"{', '.join(unknown)}"
        )
