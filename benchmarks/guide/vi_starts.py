"""Where VI starts: ``python -m benchmarks.guide.vi_starts`` writes ``docs/results/vi_starts.md``.

The initial standard deviation of VI's weights, fixed, while the search finds the learning rate and
the momentum, as in the paper; and found by the search, as in the experiments. A few splits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.clock import say
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import metrics
from probprop_lab.baselines import VariationalRegressor, tuned
from probprop_lab.baselines.tuning import VARIATIONAL_SPACE
from probprop_lab.experiments.harness.benchmark import Loader, Parts, load_split
from probprop_lab.experiments.paper import printed

SPLITS = {"yacht": 4, "energy": 2}
STARTS = (0.1, 0.2, 0.5, None)  # None: found by the search
_N_ITER = 30


def main(
    argv: Sequence[str] | None = None,
    load: Loader = load_split,
    starts: Sequence[float | None] = STARTS,
) -> None:
    parser = parser_of("vi_starts", __doc__, list(SPLITS))
    parser.add_argument("--splits", type=int, default=max(SPLITS.values()), help="at most")
    parser.add_argument("--evaluations", type=int, default=_N_ITER, help="of each search")
    arguments = parser.parse_args(argv)
    rows = []
    for name in arguments.sets:
        splits = range(min(SPLITS[name], arguments.splits))
        for start in starts:
            say(f"{name}, {start or 'searched'}")
            rows += [evaluate(load(name, k), name, k, start, arguments.evaluations) for k in splits]
    written = {"rows": rows}
    write(arguments.results, "vi_starts", written, {"vi_starts": page(rows)})


def evaluate(parts: Parts, name: str, split: int, start: float | None, n_iter: int) -> Figures:
    """Search and fit on the training set of a split; score on its test set."""
    X_train, y_train, X_test, y_test = parts
    space = dict(VARIATIONAL_SPACE)
    model = VariationalRegressor((50,))
    if start is not None:
        del space["initial_std"]
        model.set_params(initial_std=start)
    found = tuned(model, space, n_iter, "log_likelihood", random_state=split)
    predicted = found.fit(X_train, y_train).predict_distribution(X_test)
    return {
        "dataset": name,
        "split": split,
        "start": start,
        "params": found.best_params_,
        "rmse": metrics.rmse(y_test, predicted.mean),
        "log_likelihood": float(np.mean(predicted.logpdf(y_test))),
    }


def page(rows: list[Figures]) -> str:
    """Return one line per set and start, next to what the paper prints for all splits."""
    lines = []
    for name in dict.fromkeys(row["dataset"] for row in rows):
        for start in dict.fromkeys(row["start"] for row in rows):
            runs = [row for row in rows if (row["dataset"], row["start"]) == (name, start)]
            lines.append(
                [
                    name,
                    "searched" if start is None else f"{start:g}",
                    ", ".join(f"{run['rmse']:.2f}" for run in runs),
                    ", ".join(mean([run["log_likelihood"]], 2) for run in runs),
                ]
            )
        cells = [printed.table1(name, what, "VI") for what in ("rmse", "log_likelihood")]
        means = [mean([cell.value], 2) for cell in cells if cell is not None]
        lines.append([name, "the paper's mean of all splits", *means])
    header = ["data set", "initial standard deviation", "RMSE of each split", "log-likelihood"]
    return table(header, lines, texts=(0, 1)) + "\n"


if __name__ == "__main__":
    main()
