"""The toy problem from several seeds: ``python -m benchmarks.guide.toy_seeds``, without any fit.

``docs/results/toy_seeds.md`` says how far PBP and VI of each seed in ``toy.jsonl`` are from HMC
with both priors of the noise, and ``toy_noise.md`` which noise each method sees.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.guide.pages import Figures, parser_of, write_pages
from benchmarks.markdown import table
from probprop_lab.experiments import read_results

TRUTHS, METHODS = ("HMC weak", "HMC"), ("PBP", "VI")


def main(argv: Sequence[str] | None = None) -> None:
    arguments = parser_of("toy_seeds", __doc__).parse_args(argv)
    rows = list(read_results(arguments.results / "toy.jsonl").values())
    write_pages(arguments.results, pages(rows))


def distance(row: Figures, truth: Figures, what: str) -> float:
    """Return the mean absolute difference of the predicted "mean" or "std" over the grid."""
    assert row["x"] == truth["x"]
    return float(np.mean(np.abs(np.subtract(row[what], truth[what]))))


def truth_of(rows: list[Figures], name: str, seed: int) -> Figures:
    """Return the row of HMC of this seed, or of the first that has one."""
    own = {row["seed"]: row for row in rows if row["method"] == name}
    return own.get(seed, own[min(own)])


def pages(rows: list[Figures]) -> dict[str, str]:
    """Return both tables by the names of their files."""
    pairs = [(name, what) for name in TRUTHS for what in ("std", "mean")]
    lines = []
    for seed in sorted({row["seed"] for row in rows if row["method"] in METHODS}):
        own = [row for m in METHODS for row in rows if (row["method"], row["seed"]) == (m, seed)]
        cells = []
        for name, what in pairs:
            found = [distance(row, truth_of(rows, name, seed), what) for row in own]
            cells.append(" / ".join(f"{value:.1f}" for value in found))
        lines.append([f"{seed // 1000}", *cells])
    header = ["`--seed`", *(f"{what} from {name}'s, {' / '.join(METHODS)}" for name, what in pairs)]
    first = [row for row in rows if row["seed"] == 0]
    noise = [[row["method"], f"{row['noise_variance'] ** 0.5:.1f}"] for row in first]
    return {
        "toy_seeds": table(header, lines) + "\n",
        "toy_noise": table(["method", "standard deviation of the noise"], noise) + "\n",
    }


if __name__ == "__main__":
    main()
