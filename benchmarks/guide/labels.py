"""Classes and labels of scikit-learn's sets: ``python -m benchmarks.guide.labels``.

``docs/results/labels_folds.md`` has the log-loss of `PBPClassifier` and other classifiers, and
what it says of several noisy labels and of pictures of noise; ``labels_weights.md`` what weights of
rows do.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.datasets import (
    load_breast_cancer,
    load_digits,
    load_iris,
    load_wine,
    make_multilabel_classification,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.clock import say
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPClassifier
from probprop._types import Array

SETS = {"breast cancer": load_breast_cancer, "wine": load_wine, "digits": load_digits}
WEIGHTED = {"wine": load_wine, "breast cancer": load_breast_cancer, "iris": load_iris}
METHODS: dict[str, Any] = {
    "`PBPClassifier()`": PBPClassifier(random_state=0),
    "`evidence_cap=3`": PBPClassifier(evidence_cap=3, random_state=0),
    "`evidence_cap=None`": PBPClassifier(evidence_cap=None, random_state=0),
    "`MLPClassifier()`": make_pipeline(StandardScaler(), MLPClassifier(random_state=0)),
    "`LogisticRegression()`": make_pipeline(StandardScaler(), LogisticRegression()),
}
DEFAULT, UNBOUNDED, OTHER = "`PBPClassifier()`", "`evidence_cap=None`", "`MLPClassifier()`"

_N_FOLDS, _N_SEEDS = 10, 20
_N_LABELLED = 90  # rows with weights


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("labels", __doc__, list(SETS | WEIGHTED))
    parser.add_argument("--folds", type=int, default=_N_FOLDS)
    parser.add_argument("--seeds", type=int, default=_N_SEEDS)
    arguments = parser.parse_args(argv)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of the others with their defaults
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        folds: dict[str, dict[str, Figures]] = {}
        for name, read in SETS.items():
            if name not in arguments.sets:
                continue
            say(name)
            X, y = read(return_X_y=True)
            folds[name] = {
                how: evaluate(model, X, y, arguments.folds) for how, model in METHODS.items()
            }
        say("several labels, noise, weights")
        seeds = range(arguments.seeds)
        written = {
            "folds": folds,
            "labels": several_labels(),
            "noise": pictures_of_noise(),
            "weights": {
                name: [weighted(*read(return_X_y=True), seed) for seed in seeds]
                for name, read in WEIGHTED.items()
                if name in arguments.sets
            },
        }
    write(arguments.results, "labels", written, pages(written))


def evaluate(model: Any, X: Array, y: Array, n_folds: int) -> Figures:
    """Predict every row out of fold, and score all."""
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=0)
    p = cross_val_predict(model, X, y, cv=folds, method="predict_proba")
    return {
        "log_loss": float(log_loss(y, p)),
        "accuracy": float(accuracy_score(y, p.argmax(axis=1))),
        "confidence": float(p.max(axis=1).mean()),
    }


def several_labels() -> Figures:
    """Return the log-loss per label of four noisy labels: 200 rows to fit and 200 to test."""
    X, Y = make_multilabel_classification(400, 8, n_classes=4, random_state=0)
    found = {}
    for how in (DEFAULT, "`evidence_cap=3`", OTHER):
        model = clone(METHODS[how]).fit(X[:200], Y[:200])
        p = np.clip(model.predict_proba(X[200:]), 1e-15, 1.0 - 1e-15)
        found[how] = float(-np.mean(np.where(Y[200:] == 1, np.log(p), np.log1p(-p))))
    return found


def pictures_of_noise() -> Figures:
    """Return the entropy on test digits and on uniform pixels, in nats."""
    X, y = load_digits(return_X_y=True)
    model = PBPClassifier(random_state=0).fit(X[:1500], y[:1500])
    noise = np.random.RandomState(0).uniform(0.0, 16.0, size=(300, X.shape[1]))
    digits, strange = (model.predict_distribution(rows) for rows in (X[1500:], noise))
    return {
        "digits": float(digits.entropy.mean()),
        "noise": float(strange.entropy.mean()),
        "noise, model": float(strange.entropy_model.mean()),
    }


def weighted(X: Array, y: Array, seed: int, choices: Sequence[float] = (1.0, 2.0, 5.0)) -> Figures:
    """Return the test log-likelihood, for three ways to give weights, which are whole numbers."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    train, test = order[:_N_LABELLED], order[_N_LABELLED:]
    weights = rng.choice(choices, len(train))
    repeated = np.repeat(train, weights.astype(int))
    ways = {
        "weights": (train, weights, 10),
        "repeated rows": (repeated, None, 10),
        "weights, `evidence_cap=None`": (train, weights, None),
    }
    found = {}
    for way, (rows, weight, evidence_cap) in ways.items():
        model = PBPClassifier(10, n_epochs=20, evidence_cap=evidence_cap, random_state=seed)
        model.fit(X[rows], y[rows], sample_weight=weight)
        p = model.predict_proba(X[test])
        found[way] = -float(log_loss(y[test], p, labels=model.classes_))
    return found


# ---- The pages


def pages(written: Figures) -> dict[str, str]:
    """Return both tables by the names of their files."""
    return {"labels_folds": _folds_page(written), "labels_weights": _weights_page(written)}


def _folds_page(written: Figures) -> str:
    folds, labels, noise = written["folds"], written["labels"], written["noise"]
    rows = [
        [how, *(f"{found[how]['log_loss']:.3f}" for found in folds.values())] for how in METHODS
    ]
    share = noise["noise, model"] / noise["noise"]
    return "\n".join(
        [
            table(["log-loss", *folds], rows),
            "",
            f"Accuracy is {_shares(folds, DEFAULT, 'accuracy')} with the default, and its mean "
            f"confidence {_shares(folds, DEFAULT, 'confidence')}. Without an evidence cap the "
            f"confidence is {_shares(folds, UNBOUNDED, 'confidence')}, and the accuracy "
            f"{_shares(folds, UNBOUNDED, 'accuracy')}.",
            "",
            f"Several labels: the log-loss per label is {labels[DEFAULT]:.2f} with the default, "
            f"{labels['`evidence_cap=3`']:.2f} with `evidence_cap=3`, and {labels[OTHER]:.2f} for "
            f"{OTHER}.",
            "",
            f"Pictures of pure noise: after a fit on 1,500 digits the entropy is "
            f"{noise['digits']:.2f} nats on test digits and {noise['noise']:.2f} on noise, "
            f"{100.0 * share:.0f} % of it `entropy_model`.",
            "",
        ]
    )


def _shares(folds: Figures, how: str, what: str) -> str:
    *others, last = (f"{100.0 * found[how][what]:.1f}" for found in folds.values())
    return f"{', '.join(others)} and {last} %"


def _weights_page(written: Figures) -> str:
    by_set: dict[str, list[Figures]] = written["weights"]
    ways = next(iter(by_set.values()))[0]
    rows = [[way, *(mean([f[way] for f in runs], 2) for runs in by_set.values())] for way in ways]
    return table(["", *by_set], rows) + "\n"


if __name__ == "__main__":
    main()
