"""Deeper and wider networks for many rows: ``python -m benchmarks.guide.deeper``.

Networks of each candidate learn four fifths of the training rows of split 0, as in the race of
`PBPRegressorCV`, and are judged on the others. ``docs/results/deeper.md`` is the table; rows are in
``deeper.jsonl``. It takes about ten processor minutes.
"""

from __future__ import annotations

from functools import partial

from sklearn.model_selection import KFold

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
N_FOLDS = {"power_plant": 3, "protein": 1}
"""Of five, on which there is a network."""


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
    """Train a network per fold; return the log-likelihood of rows held out, epoch by epoch."""
    X, y, *_ = load_split(dataset, 0)
    candidate = Candidate(n_bins, hidden, MEMORY, noise="constant")
    folds = list(KFold(5, shuffle=True, random_state=0).split(X))[: N_FOLDS[dataset]]
    model = PBPRegressorCV(cv=folds, candidates=[candidate], random_state=0)
    seconds, _ = timed(partial(model.fit, X, y))
    [curve] = model.choice_.curves
    return {
        "n_rows": len(y),
        "n_networks": len(model.estimators_),
        "n_epochs": list(curve.n_epochs),
        "calibrated": list(curve.calibrated),
        "seconds": seconds,
    }


def page(rows: list[Figures]) -> str:
    """Return a line per candidate."""
    header = ["", "networks", "ramps", "hidden layers", "log-likelihood held out", "best of epochs"]
    lines = []
    for row in rows:
        log_p = max(row["calibrated"])
        lines.append(
            [
                _TITLES[row["dataset"]],
                str(row["n_networks"]),
                str(row["n_bins"]),
                ", ".join(map(str, row["hidden"])),
                mean([log_p], 3),
                str(row["n_epochs"][row["calibrated"].index(log_p)]),
                f"{row['seconds'] / row['n_epochs'][-1] / row['n_networks']:.2g}",
            ]
        )
    return table([*header, "processor seconds of an epoch"], lines, texts=(0, 3)) + "\n"


if __name__ == "__main__":
    main()
