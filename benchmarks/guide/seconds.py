"""Time of `PBPRegressorCV`, and what more of it gains: ``python -m benchmarks.guide.seconds``.

``docs/results/seconds_taken.md`` has what was taken of a budget of seconds, ``seconds_gained.md``
what a larger one gains over ``budget="good"``, whose rows `probprop reproduce auto` made, and
``seconds_rows.md`` how time and memory grow with the rows. Rows are in ``seconds.jsonl``. It takes
about a quarter of an hour of processor time; sets whose files are not at hand are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.datasets import make_friedman1

from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.memory_fit import peak, reset_peak, resident
from benchmarks.paired import difference, mean
from probprop import PBPRegressorCV
from probprop._types import Array
from probprop_lab import datasets
from probprop_lab.experiments.harness.benchmark import load_split
from probprop_lab.experiments.harness.judging import judge
from probprop_lab.experiments.harness.results import read_results

TAKEN: dict[str, Sequence[float]] = {
    "yacht": (3, 10, 30),
    "wine_red": (3, 10, 30),
    "power_plant": (10, 30),
    "protein": (30,),
    "made 300": (3, 10),
    "made 1500": (3, 10, 30),
    "made 10000": (3, 10, 30),
}
GAINED = {"concrete": 4, "wine_red": 4, "yacht": 4}
"""Splits on which a budget is set beside "good"."""
MORE = 30
"""Seconds of that budget."""
SIZES = (1_000, 10_000, 100_000)
_TITLES = {"wine_red": "wine (red)", "power_plant": "power plant"}
_N_FEATURES, _N_TEST = 10, 1_000


def main() -> None:
    arguments = parser_of("seconds", __doc__).parse_args()
    folder = arguments.results
    cases = [
        *(_case(name, 0, seconds) for name, all_of in TAKEN.items() for seconds in all_of),
        *(_case(f"made {n}", 0, "good") for n in SIZES),
        *(_case(name, split, MORE) for name, n in GAINED.items() for split in range(n)),
    ]
    cases = [c for c in cases if c["data"].startswith("made") or datasets.where(c["data"])]
    rows = rows_of(folder / "seconds.jsonl", cases, measure)
    good = list(read_results(folder / "auto.jsonl").values())
    write_pages(folder, pages(rows, good))


def _case(data: str, split: int, budget: float | str) -> Figures:
    return {"data": data, "split": split, "budget": budget}


def rows_to_fit_and_test(data: str, split: int) -> tuple[Array, Array, Array, Array]:
    """Return a fixed split of a benchmark set, or rows of Friedman's function with noise 1."""
    if not data.startswith("made "):
        return load_split(data, split)
    n = int(data.partition(" ")[2])
    X, y = make_friedman1(n + _N_TEST, _N_FEATURES, noise=1.0, random_state=split)
    return X[:n], y[:n], X[n:], y[n:]


def measure(data: str, split: int, budget: Any) -> Figures:
    """Fit once; return what it took, what came of it, and why it ended."""
    parts = rows_to_fit_and_test(data, split)
    model = PBPRegressorCV(budget=budget, random_state=split)
    reset_peak()
    before = resident()
    judged = judge(model, *parts)
    return {
        "peak_above": peak() - before,
        "n_networks": len(model.estimators_),
        "ended": model.choice_.ended,
        **{name: judged[name] for name in ("n_train", "seconds", "log_likelihood", "rmse")},
    }


# ---- The pages


def pages(rows: Sequence[Figures], good: Sequence[Figures]) -> dict[str, str]:
    """Return the tables by the names of their files.

    Parameters
    ----------
    rows : sequence of dict
        As `measure` returns them, with their cases.
    good : sequence of dict
        Those of ``probprop reproduce auto``.
    """
    found = {(row["data"], row["split"], row["budget"]): row for row in rows}
    taken = [
        found[name, 0, s] for name, all_of in TAKEN.items() for s in all_of if (name, 0, s) in found
    ]
    sizes = [row for row in rows if row["budget"] == "good"]
    return {
        "seconds_taken": _taken(taken),
        "seconds_gained": _gained(found, good),
        "seconds_rows": _sizes(sizes),
    }


def _taken(rows: Sequence[Figures]) -> str:
    header = ["", "rows to learn from", "seconds asked for", "taken", "networks", "ended"]
    lines = [
        [
            _title(row["data"]),
            f"{row['n_train']:,}",
            f"{row['budget']:g}",
            f"{row['seconds']:.1f}",
            str(row["n_networks"]),
            row["ended"],
        ]
        for row in rows
    ]
    return table(header, lines, texts=(0, 5)) + "\n"


def _gained(found: dict[tuple[str, int, Any], Figures], good: Sequence[Figures]) -> str:
    header = [
        "",
        "splits",
        "log-likelihood, “good”",
        f"{MORE} seconds",
        "gain",
        "processor seconds",
    ]
    kept = {(r["dataset"], r["split"]): r for r in good if r["method"] == "PBPRegressorCV"}
    lines = []
    for name, n in GAINED.items():
        pairs = [
            (kept[name, k], found[name, k, MORE]) for k in range(n) if (name, k, MORE) in found
        ]
        if not pairs:
            continue
        before, after = (
            [row["log_likelihood"] for row in rows] for rows in zip(*pairs, strict=True)
        )
        seconds = [np.mean([row["seconds"] for row in rows]) for rows in zip(*pairs, strict=True)]
        lines.append(
            [
                _title(name),
                str(len(pairs)),
                mean(before, 3),
                mean(after, 3),
                difference(after, before, 3),
                ", ".join(f"{value:.1f}" for value in seconds),
            ]
        )
    return table(header, lines) + "\n"


def _sizes(rows: Sequence[Figures]) -> str:
    header = ["rows", "processor seconds", "memory above that of the table, MB", "networks"]
    lines = [
        [
            f"{row['n_train']:,}",
            f"{row['seconds']:.0f}",
            f"{row['peak_above'] / 1e6:,.0f}",
            str(row["n_networks"]),
        ]
        for row in rows
    ]
    return table(header, lines, texts=()) + "\n"


def _title(name: str) -> str:
    return "made" if name.startswith("made ") else _TITLES.get(name, name)


if __name__ == "__main__":
    main()
