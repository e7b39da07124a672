"""Pictures of clothes, and of no clothes: ``make fashion`` writes ``docs/results/fashion.md``.

784-100-10 on the 60,000 pictures of Fashion-MNIST, in float32: processor seconds per epoch,
accuracy and log-loss after 5 and 20 epochs, and the entropy of the predictions on test pictures, on
pure noise and on handwritten digits.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.clock import median, say
from benchmarks.fashion_data import Bytes, Pictures, folder_of, handwriting, load, noise
from benchmarks.machine import machine
from benchmarks.markdown import table
from probprop import PBPClassifier
from probprop.inference.posterior import Epoch

EPOCHS = (5, 20)
HIDDEN = 100
SCALES = {"each pixel standardised": True, "pixels from 0 to 1": False}
"""The scale of the pixels, and the value of `standardize` that makes it."""

_N_ENTROPIES = 2_000  # pictures of each kind whose entropy is averaged
_RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"

Figures = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fashion", description=__doc__)
    parser.add_argument("--folder", help="of the IDX files")
    parser.add_argument("--rows", type=int, help="only so many training pictures")
    arguments = parser.parse_args()
    folder = folder_of(arguments.folder)
    train, test = load(folder, "train"), load(folder, "t10k")
    train = Pictures(train.X[: arguments.rows], train.y[: arguments.rows])
    others = {"noise": noise(_N_ENTROPIES), "handwritten digits": handwriting()[:_N_ENTROPIES]}
    cases = []
    for scale in SCALES:
        for n_epochs in EPOCHS:
            say(f"{scale}, {n_epochs} epochs")
            cases.append(judge(scale, n_epochs, train, test, others))
    written = {"machine": machine(), "clock": "processor", "n_train": len(train.y), "cases": cases}
    (_RESULTS / "fashion.json").write_text(json.dumps(written, indent=1) + "\n")
    text = page(written)
    (_RESULTS / "fashion.md").write_text(text)
    print(text)


def judge(
    scale: str, n_epochs: int, train: Pictures, test: Pictures, others: dict[str, Bytes]
) -> Figures:
    """Fit, and measure what it predicts for test pictures and for others."""
    times = [time.process_time()]

    def note_time(epoch: Epoch) -> None:
        times.append(time.process_time())

    model = PBPClassifier(
        HIDDEN,
        n_epochs=n_epochs,
        standardize=SCALES[scale],
        dtype="float32",
        random_state=0,
        verbose=1,
    ).fit(pixels(train.X), train.y, callback=note_time)
    log_proba = model.predict_log_proba(pixels(test.X))
    kinds = {"clothes": test.X[:_N_ENTROPIES], **others}
    predicted = {kind: model.predict_distribution(pixels(X)) for kind, X in kinds.items()}
    known = predicted["clothes"].entropy
    return {
        "scale": scale,
        "n_epochs": n_epochs,
        "seconds_per_epoch": median([b - a for a, b in pairwise(times)]),
        "accuracy": float(np.mean(log_proba.argmax(axis=1) == test.y)),
        "log_loss": log_loss(test.y, np.exp(log_proba)),
        "entropy": {kind: float(p.entropy.mean()) for kind, p in predicted.items()},
        "entropy_model": {kind: float(p.entropy_model.mean()) for kind, p in predicted.items()},
        "told_apart": {kind: told_apart(known, predicted[kind].entropy) for kind in others},
    }


def pixels(X: Bytes) -> NDArray[np.float32]:
    """Return the pixels from 0 to 1."""
    return X.astype(np.float32) / np.float32(255.0)


def told_apart(known: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return how often a picture of another kind has more entropy than one of clothes."""
    is_other = np.repeat([0, 1], [len(known), len(other)])
    return float(roc_auc_score(is_other, np.concatenate([known, other])))


def _epoch_title(written: Figures) -> str:
    """Say which seconds they are: before there was a clock in the file it was wall time."""
    return "processor s per epoch" if written.get("clock") == "processor" else "s per epoch"


def page(written: Figures) -> str:
    """Return the tables as Markdown."""
    cases: list[Figures] = written["cases"]
    kinds = list(cases[0]["entropy"])
    info = written["machine"]
    scores = [
        [
            case["scale"],
            str(case["n_epochs"]),
            f"{case['seconds_per_epoch']:.2g}",
            f"{100.0 * case['accuracy']:.1f} %",
            f"{case['log_loss']:.3f}",
        ]
        for case in cases
    ]
    entropies = [
        [
            case["scale"],
            str(case["n_epochs"]),
            *(f"{case['entropy'][k]:.2f} ({case['entropy_model'][k]:.2f})" for k in kinds),
            *(f"{100.0 * share:.1f} %" for share in case["told_apart"].values()),
        ]
        for case in cases
    ]
    header = ["pixels", "epochs"]
    apart = [f"{kind} above clothes" for kind in cases[0]["told_apart"]]
    return "\n".join(
        [
            f"784-{HIDDEN}-10 on {written['n_train']:,} pictures, memory 10, float32, one core "
            f"({info['cpu']}, {info['date'][:10]}); accuracy and log-loss on the 10,000 test "
            "pictures:",
            "",
            table([*header, _epoch_title(written), "accuracy", "log-loss"], scores),
            "",
            "Mean entropy in nats, at most log 10 = 2.30, and in brackets the part that is the "
            "model's not knowing; then how often a picture of that kind has more entropy than one "
            "of clothes:",
            "",
            table([*header, *kinds, *apart], entropies),
            "",
        ]
    )


if __name__ == "__main__":
    main()
