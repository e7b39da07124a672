"""Pictures of clothes, and of no clothes; writes ``docs/results/fashion.md``.

784-100-10 on the 60,000 pictures of Fashion-MNIST, in float32: processor seconds per epoch,
accuracy and log-loss after 5 and 20 epochs, and the entropy of the predictions on test pictures, on
pure noise and on handwritten digits.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.clock import median, say
from benchmarks.fashion_data import Bytes, Pictures, folder_of, handwriting, load, noise
from benchmarks.machine import machine
from benchmarks.markdown import table
from probprop import PBPClassifier
from probprop.inference.posterior import Epoch

HIDDEN = 100


class Scale(NamedTuple):
    """What the network sees of the pixels.

    Parameters
    ----------
    standardize : bool
        Parameter of the classifier; without it the pixels are from 0 to 1.
    n_epochs : tuple of int
    held_below : float, default=0
        Pixels whose standard deviation over the training pictures, from 0 to 1, is below this are
        held at their means. They are at the border, black in nearly every picture.
    """

    standardize: bool
    n_epochs: tuple[int, ...]
    held_below: float = 0.0


SCALES = {
    "each pixel standardized": Scale(True, (5, 20)),
    "pixels from 0 to 1": Scale(False, (5, 20)),
    "standardized, std below 0.05 held": Scale(True, (5,), 0.05),
    "standardized, std below 0.2 held": Scale(True, (5,), 0.2),
}

_RESULTS = Path(__file__).resolve().parent.parent / "docs" / "results"

Figures = dict[str, Any]


def main(
    argv: Sequence[str] | None = None,
    scales: Mapping[str, Scale] = SCALES,
    n_entropies: int = 2_000,
) -> None:
    """Score these scales; the entropy is averaged over `n_entropies` pictures of each kind."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fashion", description=__doc__)
    parser.add_argument("--folder", help="of the IDX files")
    parser.add_argument("--rows", type=int, help="maximum number of training pictures")
    parser.add_argument("--results", type=Path, default=_RESULTS, help="folder to write to")
    arguments = parser.parse_args(argv)
    folder = folder_of(arguments.folder)
    train, test = load(folder, "train"), load(folder, "t10k")
    train = Pictures(train.X[: arguments.rows], train.y[: arguments.rows])
    others = {"noise": noise(n_entropies), "handwritten digits": handwriting()[:n_entropies]}
    cases = []
    kinds = {"clothes": test.X[:n_entropies], **others}
    for name, scale in scales.items():
        for n_epochs in scale.n_epochs:
            say(f"{name}, {n_epochs} epochs")
            cases.append({"scale": name, **evaluate(scale, n_epochs, train, test, kinds)})
    written = {"machine": machine(), "clock": "processor", "n_train": len(train.y), "cases": cases}
    (arguments.results / "fashion.json").write_text(json.dumps(written, indent=1) + "\n")
    text = page(written)
    (arguments.results / "fashion.md").write_text(text)
    print(text)


def evaluate(
    scale: Scale, n_epochs: int, train: Pictures, test: Pictures, kinds: dict[str, Bytes]
) -> Figures:
    """Fit, and measure what it predicts for test pictures and for those of all kinds."""
    means, stds = (f(pixels(train.X), axis=0, dtype=np.float64) for f in (np.mean, np.std))
    held = stds < scale.held_below

    def seen(X: Bytes) -> NDArray[np.float32]:
        return np.where(held, means.astype(np.float32), pixels(X))

    times = [time.process_time()]

    def note_time(epoch: Epoch) -> None:
        times.append(time.process_time())

    model = PBPClassifier(
        HIDDEN,
        n_epochs=n_epochs,
        standardize=scale.standardize,
        dtype="float32",
        random_state=0,
        verbose=1,
    ).fit(seen(train.X), train.y, callback=note_time)
    log_proba = model.predict_log_proba(seen(test.X))
    predicted = {kind: model.predict_distribution(seen(X)) for kind, X in kinds.items()}
    known = predicted["clothes"].entropy
    return {
        "n_held": int(held.sum()),
        "least_std": float(stds[stds > 0.0].min()),
        "n_epochs": n_epochs,
        "seconds_per_epoch": median([b - a for a, b in pairwise(times)]),
        "accuracy": float(np.mean(log_proba.argmax(axis=1) == test.y)),
        "log_loss": log_loss(test.y, np.exp(log_proba)),
        "entropy": {kind: float(p.entropy.mean()) for kind, p in predicted.items()},
        "entropy_model": {kind: float(p.entropy_model.mean()) for kind, p in predicted.items()},
        "told_apart": {
            kind: told_apart(known, predicted[kind].entropy) for kind in kinds if kind != "clothes"
        },
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
            f"784-{HIDDEN}-10 on {written['n_train']:,} pictures, evidence cap 10, float32, one "
            f"core ({info['cpu']}, {info['date'][:10]}); accuracy and log-loss on the 10,000 test "
            "pictures:",
            "",
            table([*header, _epoch_title(written), "accuracy", "log-loss"], scores),
            "",
            "Mean entropy in nats, at most log 10 = 2.30, and in brackets the epistemic part; then "
            "how often a picture of that kind has more entropy than one of clothes:",
            "",
            table([*header, *kinds, *apart], entropies),
            "",
            *_held(cases),
        ]
    )


def _held(cases: list[Figures]) -> list[str]:
    """Say how many pixels the cases with pixels at their means hold there."""
    counts = [f"{case['n_held']} ({case['scale']})" for case in cases if case["n_held"]]
    return [f"Pixels held at their means: {', '.join(counts)}.", ""] if counts else []


if __name__ == "__main__":
    main()
