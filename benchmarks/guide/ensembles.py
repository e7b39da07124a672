"""One network and five: ``python -m benchmarks.guide.ensembles`` makes the tables of the ensembles.

``docs/results/ensembles_gain.md`` is made of the rows of ``auto.jsonl``, which `probprop reproduce
auto` wrote; ``ensembles_gap.md`` of two fits to two separate groups of rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from benchmarks.guide.pages import FOLDER, Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from probprop import PBPEnsemble, PBPRegressor
from probprop_lab.experiments import read_results

SETS = {
    "boston_housing": "Boston housing",
    "concrete": "concrete",
    "energy": "energy",
    "wine_red": "wine (red)",
    "yacht": "yacht",
}
LAYERS = {"two layers of 50": [50, 50], "one layer of 50": [50]}
METHODS = ("PBP", "PBP ensemble")
_N_ROWS = 80


def gap() -> Figures:
    """Return the `epistemic_std` of one network and of five, between two groups and outside."""
    rng = np.random.default_rng(0)
    half = _N_ROWS // 2
    x = np.concatenate([rng.uniform(-4.0, -2.0, half), rng.uniform(2.0, 4.0, half)])
    y = np.sin(x) + 0.1 * rng.standard_normal(_N_ROWS)
    where = {"in the middle of the gap": [[0.0]], "2 beyond the last row": [[x.max() + 2.0]]}
    five = PBPEnsemble(PBPRegressor(), n_members=5, random_state=0).fit(x[:, np.newaxis], y)
    models = {"one": five.estimators_[0], "five": five}
    return {
        place: {n: float(m.predict_distribution(at).epistemic_std[0]) for n, m in models.items()}
        for place, at in where.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    parser = parser_of("ensembles", __doc__)
    parser.add_argument("--rows", type=Path, default=FOLDER / "auto.jsonl")
    arguments = parser.parse_args(argv)
    rows = list(read_results(arguments.rows).values())
    written = {"gap": gap()}
    pages = {"ensembles_gain": gains(rows), "ensembles_gap": gap_page(written["gap"])}
    write(arguments.results, "ensembles", written, pages)


def gains(rows: Sequence[Figures]) -> str:
    """Return a table per network: the splits that both ways share, by set."""
    scores = ["RMSE", "log-likelihood", "in the 95 % interval"]
    error, log_p, held = ([f"{score}: one", "five"] for score in scores)
    tables = []
    for title, hidden in LAYERS.items():
        lines = []
        for dataset, name in SETS.items():
            of = [r for r in rows if (r["dataset"], r["hidden"]) == (dataset, hidden)]
            one, five = ({r["split"]: r for r in of if r["method"] == m} for m in METHODS)
            pairs = [(one[split], five[split]) for split in sorted(one.keys() & five.keys())]
            lines.append([name, *_cells(pairs, 3 if dataset == "wine_red" else 2)])
        tables.append(table([title, *error, *log_p, "gain", *held], lines))
    return "\n\n".join(tables) + "\n"


def _cells(pairs: Iterable[tuple[Figures, Figures]], decimals: int) -> list[str]:
    one, five = zip(*pairs, strict=True)
    error, log_p, held = (
        [[row[what] for row in side] for side in (one, five)]
        for what in ("rmse", "log_likelihood", "coverage_95")
    )
    return [
        *(mean(values, decimals) for values in error),
        *(mean(values, 3) for values in log_p),
        difference(log_p[1], log_p[0], 3),
        *(f"{100.0 * np.mean(values):.1f} %" for values in held),
    ]


def gap_page(found: Figures) -> str:
    """Return the epistemic std of one network and of five where there are no rows."""
    (_, inside), (_, outside) = found.items()
    return (
        f"With {_N_ROWS} rows of a sine in two groups, from −4 to −2 and from 2 to 4, and one "
        f"layer, `epistemic_std` in the middle of the gap is {inside['one']:.2f} for one network "
        f"and {inside['five']:.2f} for five, while at 2 beyond the last row it rises from "
        f"{outside['one']:.2f} to {outside['five']:.2f}.\n"
    )


if __name__ == "__main__":
    main()
