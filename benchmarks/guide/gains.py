"""What `PBPRegressorCV` and `PBPClassifierCV` gain: ``python -m benchmarks.guide.gains``.

It fits nothing. From the rows that `probprop reproduce auto`, `field` and `classification` left in
``docs/results`` it makes tables that these commands do not have: splits that were in view when
the rules were made, splits that were not, and the best alternative on each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.guide.pages import FOLDER, Figures, parser_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import difference, mean, verdict
from probprop_lab.results import read_rows

README = Path(__file__).resolve().parents[2] / "README.md"
IN_README = {"PBPRegressorCV": "probprop", "CatBoost constant": "CatBoost", "LightGBM": "LightGBM"}
REGRESSOR, CLASSIFIER = "PBPRegressorCV", "PBPClassifierCV"
LARGE = {
    "kin8nm": ("kin8nm", 4),
    "power_plant": ("power plant", 2),
    "naval_propulsion": ("naval propulsion", 5),
    "protein": ("protein", 2),
}
SMALL = {
    "boston_housing": ("Boston housing", 2),
    "concrete": ("concrete", 2),
    "energy": ("energy", 3),
    "wine_red": ("wine (red)", 3),
    "yacht": ("yacht", 3),
}
"""Titles, and decimals of the RMSE."""
FIRST_FRESH = 10
"""For small regression sets: the first split that was run once, with the rules fixed."""
CLASSES_IN_VIEW = {"wine": 5, "breast_cancer": 5, "vehicle": 5, "digits": 2, "segment": 2}
"""Splits that were in view when the rules for classification were made; elsewhere the first."""

Splits = Mapping[int, float]
"""A measure, by split."""


def main(argv: Sequence[str] | None = None) -> None:
    folder = parser_of("gains", __doc__).parse_args(argv).results
    names = ("auto", "field", "classification")
    auto, field, classes = (read_rows(folder / f"{name}.jsonl") for name in names)
    found = pages(auto, field, classes)
    write_pages(folder, found)
    if folder == FOLDER:
        README.write_text(with_table(README.read_text(), found["gains_readme"]))


def pages(
    auto: Sequence[Figures], field: Sequence[Figures], classes: Sequence[Figures]
) -> dict[str, str]:
    """Return the tables by the names of their files, given the rows of the three experiments."""
    return {
        "gains_small": small(auto),
        "gains_large": large(field),
        "gains_field": lead(field),
        "gains_classes": of_classes(classes),
        "gains_readme": beside_trees(field),
    }


def small(rows: Sequence[Figures]) -> str:
    """Return a line per small set: splits that were in view, and those that were not."""
    lines = []
    for name, (title, decimals) in SMALL.items():
        own = _own(rows, name)
        if not own:
            continue
        halves = [
            [row for row in own if row["split"] < FIRST_FRESH],
            [row for row in own if row["split"] >= FIRST_FRESH],
        ]
        lines.append(
            [
                title,
                *(mean([row["log_likelihood"] for row in half], 2) for half in halves),
                ", ".join(mean([row["rmse"] for row in half], decimals) for half in halves),
                ", ".join(_percent(row["coverage_95"] for row in half) for half in halves),
                mean([row["seconds"] for row in own], 1),
            ]
        )
    header = ["", "log-likelihood, splits 0–9", "10–19", "RMSE, both", "in the 95 % interval, both"]
    return table([*header, "processor seconds"], lines) + "\n"


def large(rows: Sequence[Figures]) -> str:
    """Return a line per large set."""
    lines = []
    for name, (title, decimals) in LARGE.items():
        own = _own(rows, name)
        lines.append(
            [
                title,
                f"{own[0]['n_train']:,}",
                mean([row["log_likelihood"] for row in own], 2),
                mean([row["rmse"] for row in own], decimals),
                _percent(row["coverage_95"] for row in own),
                mean([row["seconds"] for row in own], 0),
            ]
        )
    header = ["", "training samples", "log-likelihood", "RMSE", "in the 95 % interval"]
    return table([*header, "processor seconds"], lines) + "\n"


def lead(rows: Sequence[Figures]) -> str:
    """Return a line per set: how far it is ahead of the best alternative."""
    lines = []
    for name, (title, _) in (SMALL | LARGE).items():
        log_p = by_method(rows, name, "log_likelihood")
        if not log_p:
            continue
        own, *_ = log_p.pop(REGRESSOR), log_p.pop("PBP")
        best = max(log_p, key=lambda method: np.mean(list(log_p[method].values())))
        pair = shared(own, log_p[best])
        lines.append([title, str(len(pair[0])), mean(pair[0], 3), best, mean(pair[1], 3)])
        lines[-1].append(difference(*pair, 3))
    header = ["", "splits", REGRESSOR, "best alternative", "its log-likelihood", "lead"]
    return table(header, lines, texts=(0, 3)) + "\n"


def beside_trees(rows: Sequence[Figures]) -> str:
    """Return a line per set: log-likelihood and RMSE next to boosted trees, with errors.

    The best is bold if it is ahead of each other method by more than two standard errors.
    """
    lines = []
    for name, (title, decimals) in sorted((SMALL | LARGE).items(), key=lambda kv: kv[1][0].lower()):
        own = _own(rows, name)
        line = [title, f"{own[0]['n_train']:,}", str(len(own))]
        for measure, sign, digits in (("log_likelihood", 1, 2), ("rmse", -1, decimals)):
            values = by_method(rows, name, measure)
            for method in IN_README:
                others = [values[other] for other in IN_README if other != method]
                best = all(verdict(*shared(values[method], other)) == sign for other in others)
                cell = _with_error(list(values[method].values()), digits)
                line.append(f"**{cell}**" if best else cell)
        lines.append(line)
    first, *names = IN_README.values()
    header = ["", "samples", "splits", f"log-likelihood: {first}", *names, f"RMSE: {first}", *names]
    return table(header, lines) + "\n"


def with_table(text: str, found: str) -> str:
    """Return the README with the table between its two comments replaced."""
    head, mark, rest = text.partition("<!-- gains -->\n")
    return head + mark + found + rest[rest.index("<!-- end -->") :]


def of_classes(rows: Sequence[Figures]) -> str:
    """Return a line per set: splits not in view next to MLPClassifier, and who is ahead."""
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        losses = by_method(rows, name, "log_loss")
        own, first = losses.pop(CLASSIFIER), CLASSES_IN_VIEW.get(name, 1)
        fresh = {split: loss for split, loss in own.items() if split >= first}
        ahead = []
        for method, theirs in losses.items():
            ours, others = (float(np.mean(each)) for each in shared(own, theirs))
            if others < ours:
                ahead.append((others, f"{method} {_loss(others)}"))
        lines.append(
            [
                name.replace("_", " "),
                f"{first}" if len(fresh) == 1 else f"{first} to {max(fresh)}",
                *(_loss(float(np.mean(v))) for v in shared(fresh, losses["MLPClassifier"])),
                _loss(float(np.mean(list(own.values())))),
                ", ".join(text for _, text in sorted(ahead)),
            ]
        )
    header = [
        "",
        "splits not in view",
        "log-loss there",
        "MLPClassifier there",
        "on all its splits",
    ]
    return table([*header, "ahead of it, on the splits that both have"], lines, texts=(0, 5)) + "\n"


def _own(rows: Iterable[Figures], dataset: str) -> list[Figures]:
    """Return the rows of `PBPRegressorCV` on a set."""
    return [row for row in rows if (row["dataset"], row["method"]) == (dataset, REGRESSOR)]


def by_method(rows: Iterable[Figures], dataset: str, measure: str) -> dict[str, dict[int, float]]:
    """Return a measure of every method on a set, by split."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["dataset"] == dataset:
            found.setdefault(row["method"], {})[row["split"]] = row[measure]
    return found


def shared(a: Splits, b: Splits) -> tuple[list[float], list[float]]:
    """Return two measures on the splits that both have.

    Examples
    --------
    >>> shared({0: 0.1, 2: 0.3}, {2: 0.5, 3: 0.9})
    ([0.3], [0.5])
    """
    both = sorted(a.keys() & b.keys())
    return [a[split] for split in both], [b[split] for split in both]


def _with_error(values: Sequence[float], decimals: int) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return f"{mean(values, decimals)} ± {error:.{decimals}f}"


def _percent(shares: Iterable[float]) -> str:
    return f"{100.0 * np.mean(list(shares)):.1f} %"


def _loss(value: float) -> str:
    return f"{value:.3f}" if value >= 0.03 else f"{value:.4f}"


if __name__ == "__main__":
    main()
