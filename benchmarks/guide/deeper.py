"""Deeper and wider networks for many rows: ``python -m benchmarks.guide.deeper``.

One network per candidate learns four fifths of the training rows of split 0, as in the race of
`PBPRegressorCV`, and is judged on the others. ``docs/results/deeper.md`` is the table; rows are in
``deeper.jsonl``. It takes about ten processor minutes.
"""

from __future__ import annotations

from functools import partial

from sklearn.model_selection import ShuffleSplit

from benchmarks.clock import timed
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import Candidate, PBPRegressorCV
from probprop_lab.experiments.harness.benchmark import load_split

MEMORY = 10
SHAPES = {
    "power_plant": [
        (64, [50, 50]),
        (128, [50, 50]),
        (64, [100, 100]),
        (64, [50, 50, 50]),
        (64, [100, 100, 100, 100]),
    ],
    "protein": [(64, [50, 50]), (64, [100, 100])],
}
_TITLES = {"power_plant": "power plant", "protein": "protein"}
_HELD_OUT = 0.2


def main() -> None:
    arguments = parser_of("deeper", __doc__).parse_args()
    cases = [
        {"dataset": name, "n_bins": n_bins, "hidden": hidden}
        for name, shapes in SHAPES.items()
        for n_bins, hidden in shapes
    ]
    rows = rows_of(arguments.results / "deeper.jsonl", cases, measure)
    write_pages(arguments.results, {"deeper": page(rows)})


def measure(dataset: str, n_bins: int, hidden: list[int]) -> Figures:
    """Train one network; return the log-likelihood of rows held out, epoch by epoch."""
    X, y, *_ = load_split(dataset, 0)
    candidate = Candidate(n_bins, hidden, MEMORY, noise="constant")
    parted = ShuffleSplit(1, test_size=_HELD_OUT, random_state=0)
    model = PBPRegressorCV(cv=parted, candidates=[candidate], random_state=0)
    seconds, _ = timed(partial(model.fit, X, y))
    [curve] = model.choice_.curves
    return {
        "n_rows": len(y),
        "n_epochs": list(curve.n_epochs),
        "calibrated": list(curve.calibrated),
        "seconds": seconds,
    }


def page(rows: list[Figures]) -> str:
    """Return a line per candidate."""
    header = ["", "rows", "ramps", "hidden layers", "log-likelihood held out", "best of epochs"]
    lines = []
    for row in rows:
        log_p = max(row["calibrated"])
        lines.append(
            [
                _TITLES[row["dataset"]],
                f"{row['n_rows']:,}",
                str(row["n_bins"]),
                ", ".join(map(str, row["hidden"])),
                mean([log_p], 3),
                str(row["n_epochs"][row["calibrated"].index(log_p)]),
                f"{row['seconds'] / row['n_epochs'][-1]:.2g}",
            ]
        )
    return table([*header, "processor seconds per epoch"], lines, texts=(0, 3)) + "\n"


if __name__ == "__main__":
    main()
