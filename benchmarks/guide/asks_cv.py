"""Asking with `PBPRegressorCV` as the model: ``python -m benchmarks.guide.asks_cv``.

``docs/results/asks_cv.md`` is made of the rows of the experiment acquisition,
``acquisition_cv.jsonl`` (its methods that end with "CV") and ``acquisition.jsonl``; nothing is
fitted. The error of a repetition is the mean over its eleven fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.guide.pages import FOLDER, Figures, parser_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import brief, change, difference, verdict
from probprop_lab.experiments.beyond.acquisition import CV
from probprop_lab.results import read_rows

DEFAULT = "variance_reduction"


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("asks_cv", __doc__)
    parser.add_argument("--rows", type=Path, default=FOLDER, help="the folder of both files")
    arguments = parser.parse_args(argv)
    own, others = (
        read_rows(arguments.rows / f"{n}.jsonl") for n in ("acquisition_cv", "acquisition")
    )
    write_pages(arguments.results, {"asks_cv": page(own, others)})


def page(own: Sequence[Figures], others: Sequence[Figures]) -> str:
    """Return a line per set: both models at random, and what the default strategy changes.

    Parameters
    ----------
    own : sequence of rows
        Rows of PBPRegressorCV.
    others : sequence of rows
        Rows of five averaged networks, for the same repetitions at least.
    """
    lines, signs, signs_of_others = [], list[int](), list[int]()
    for name in dict.fromkeys(row["dataset"] for row in own):
        asked, at_random = (_by_split(own, name, f"{s}{CV}") for s in (DEFAULT, "random"))
        both = sorted(asked.keys() & at_random.keys())
        averaged = [
            _scores(_by_split(others, name, strategy), both, "rmse")
            for strategy in (DEFAULT, "random")
        ]
        errors, errors_at_random = (_scores(runs, both, "rmse") for runs in (asked, at_random))
        log_p, log_p_at_random = (
            _scores(runs, both, "log_likelihood") for runs in (asked, at_random)
        )
        signs.append(verdict(errors, errors_at_random))
        signs_of_others.append(verdict(*averaged))
        lines.append(
            [
                name,
                f"{len(both)}",
                brief(averaged[1]),
                change(*averaged),
                brief(errors_at_random),
                change(errors, errors_at_random),
                difference(log_p, log_p_at_random, 3),
            ]
        )
    header = ["data set", "runs", "five seeds: at random", f"`{DEFAULT}`"]
    header += ["`PBPRegressorCV`: at random", f"`{DEFAULT}`", "log-likelihood"]
    words = (
        f"With `PBPRegressorCV` it is better than random rows by more than two standard errors on "
        f"{signs.count(-1)} of {len(signs)} sets, worse on {signs.count(1) or 'none'}; with "
        f"five seeds on {signs_of_others.count(-1)} and {signs_of_others.count(1) or 'none'}."
    )
    return f"{table(header, lines)}\n\n{words}\n"


def _by_split(rows: Sequence[Figures], dataset: str, method: str) -> dict[int, Figures]:
    return {
        row["split"]: row for row in rows if (row["dataset"], row["method"]) == (dataset, method)
    }


def _scores(runs: dict[int, Figures], splits: Sequence[int], what: str) -> list[float]:
    return [runs[k][what] for k in splits]


if __name__ == "__main__":
    main()
