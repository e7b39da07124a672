"""Time of `PBPRegressorCV`, and what more of it gains: ``python -m benchmarks.guide.seconds``.

``docs/results/seconds_taken.md`` has what was taken of a budget of seconds, and what came of it
beside ``budget="good"``, whose rows `probprop reproduce auto` and `field` made; ``seconds_rows.md``
how time and memory grow with the rows. Rows are in ``seconds.jsonl``. It takes eight minutes of
processor time; sets whose files are not at hand are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from benchmarks.child import run_fresh
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop_lab import datasets
from probprop_lab.experiments import read_results

TAKEN: dict[str, Sequence[float]] = {
    "yacht": (3, 10, 30),
    "wine_red": (3, 10, 30),
    "power_plant": (10, 30),
    "protein": (30,),
    "made 300": (3, 10),
    "made 1500": (3, 10, 30),
    "made 10000": (3, 10, 30),
}
SIZES = (1_000, 10_000, 100_000)
"""Rows of made tables, fitted with the default."""
GOOD = "good"
SPLIT = 0
_TITLES = {"wine_red": "wine (red)", "power_plant": "power plant"}


def main() -> None:
    arguments = parser_of("seconds", __doc__).parse_args()
    folder = arguments.results
    cases = [
        *(_case(name, seconds) for name, all_of in TAKEN.items() for seconds in all_of),
        *(_case(f"made {n}", GOOD) for n in SIZES),
    ]
    cases = [c for c in cases if c["data"].startswith("made") or datasets.where(c["data"])]
    rows = rows_of(folder / "seconds.jsonl", cases, measure)
    kept = [read_results(folder / f"{name}.jsonl").values() for name in ("field", "auto")]
    write_pages(folder, pages(rows, list(chain(*kept))))


def _case(data: str, budget: float | str) -> Figures:
    return {"data": data, "split": SPLIT, "budget": budget}


def measure(data: str, split: int, budget: float | str) -> Figures:
    """Fit once, in a process of its own, so that its memory is its own."""
    found: Figures = run_fresh("-m", "benchmarks.guide.seconds_fit", data, str(split), str(budget))
    return found


# ---- The pages


def pages(rows: Sequence[Figures], kept: Sequence[Figures]) -> dict[str, str]:
    """Return the tables by the names of their files.

    Parameters
    ----------
    rows : sequence of dict
        As `measure` returns them, with their cases.
    kept : sequence of dict
        Those of ``probprop reproduce auto`` and ``field``.
    """
    seconds, sizes = ([r for r in rows if (r["budget"] == GOOD) is good] for good in (False, True))
    own = {
        r["dataset"]: {**r, "data": r["dataset"], "budget": GOOD, "n_networks": "", "ended": ""}
        for r in kept
        if (r["method"], r["split"]) == ("PBPRegressorCV", SPLIT)
    }
    beside = own | {row["data"]: row for row in sizes}
    lines = []
    for name in dict.fromkeys(row["data"] for row in seconds):
        lines += [_taken(row) for row in seconds if row["data"] == name]
        lines += [_taken(beside[name])] if name in beside else []
    header = ["", "rows to learn from", "budget", "seconds taken", "networks"]
    header += ["log-likelihood, test rows", "ended because"]
    return {
        "seconds_taken": table(header, lines, texts=(0, 6)) + "\n",
        "seconds_rows": _sizes(sizes),
    }


def _taken(row: Figures) -> list[str]:
    return [
        "made" if row["data"].startswith("made ") else _TITLES.get(row["data"], row["data"]),
        f"{row['n_train']:,}",
        f'`"{GOOD}"`' if row["budget"] == GOOD else f"{row['budget']:g}",
        f"{row['seconds']:.1f}",
        str(row["n_networks"]),
        mean([row["log_likelihood"]], 3),
        row["ended"],
    ]


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


if __name__ == "__main__":
    main()
