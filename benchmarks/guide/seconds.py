"""Time and memory of `PBPRegressorCV`: ``python -m benchmarks.guide.seconds``.

``docs/results/seconds_rows.md`` has how they grow with the rows. Rows are in ``seconds.jsonl``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.child import run_fresh
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table

SIZES = (1_000, 10_000, 100_000)
"""Rows of synthetic tables, fitted with the defaults."""
GOOD = "good"
SPLIT = 0


def in_own_process(data: str, split: int, budget: str) -> Figures:
    """Fit once, in a process of its own, so that its memory is its own."""
    found: Figures = run_fresh("-m", "benchmarks.guide.seconds_fit", data, str(split), budget)
    return found


def main(
    argv: Sequence[str] | None = None, measure: Callable[..., Figures] = in_own_process
) -> None:
    parser = parser_of("seconds", __doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="rows")
    arguments = parser.parse_args(argv)
    cases = [{"data": f"made {n}", "split": SPLIT, "budget": GOOD} for n in arguments.sizes]
    rows = rows_of(arguments.results / "seconds.jsonl", cases, measure)
    write_pages(arguments.results, pages(rows))


# ---- The pages


def pages(rows: Sequence[Figures]) -> dict[str, str]:
    """Return the table by the name of its file; rows are as `in_own_process` returns them."""
    return {"seconds_rows": _sizes(rows)}


def _sizes(rows: Sequence[Figures]) -> str:
    header = ["rows", "processor seconds", "memory above the table's, MB", "networks"]
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
