"""One step of the run of Year's size, alone in its process; prints its figures as JSON.

The folder that is given holds the made songs as ``YearPredictionMSD.txt``, and is both
``PROBPROP_DATA`` and ``PROBPROP_CACHE``.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.child import run_command
from benchmarks.clock import timed
from benchmarks.memory_fit import peak, reset_peak
from probprop import PBPRegressor, load, metrics
from probprop_lab import datasets

NAME, TEXT = "year_prediction_msd", "YearPredictionMSD.txt"
HIDDEN, N_EPOCHS = 100, 40  # [PBP15] section 5.1
BUDGET = "good"  # of the model selection

_SEED = 0

Figures = dict[str, Any]
Step = Callable[[Path], list[Figures]]


def measured(what: str, work: Callable[[], Any]) -> tuple[Figures, Any]:
    """Return the processor seconds and the peak memory of some work in this process."""
    reset_peak()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        seconds, result = timed(work)
    return {"what": what, "seconds": seconds, "peak": peak()}, result


def commanded(what: str, folder: Path, arguments: str) -> tuple[Figures, str]:
    """Return the processor seconds and the peak memory of a command, and what it printed."""
    used, printed = run_command(folder, *arguments.split())
    return {"what": f"`probprop {what}`", **used}, printed


# ---- The steps


def reading(folder: Path) -> list[Figures]:
    """Read the text, which leaves arrays in the cache, and read these."""
    first, _ = measured("`datasets.load`, the text file", lambda: datasets.load(NAME))
    again, data = measured("`datasets.load`, from its cache", lambda: datasets.load(NAME))
    size = (folder / TEXT).stat().st_size
    return [first | {"note": f"{size / 1e6:,.0f} MB"}, again | {"note": _shape(data.X)}]


def library(folder: Path) -> list[Figures]:
    """Fit by the protocol of the paper, predict, score, save and load."""
    X_train, y_train, X_test, y_test = _split()
    model = PBPRegressor(HIDDEN, n_epochs=N_EPOCHS, random_state=_SEED)
    fit, model = measured(_FIT, lambda: model.fit(X_train, y_train))
    predict, predicted = measured(
        "`predict_distribution` of the test rows", lambda: model.predict_distribution(X_test)
    )
    scored, found = measured("`metrics.summary`", lambda: metrics.summary(y_test, predicted))
    path = folder / "library.pbp"
    save, _ = measured("`save`", lambda: model.save(path))
    read, again = measured("`load`", lambda: load(path))
    np.testing.assert_array_equal(again.predict(X_test[:100]), predicted.mean[:100])
    baseline = float(np.sqrt(np.mean((y_test - y_train.mean()) ** 2)))
    return [
        fit | {"note": _shape(X_train)},
        predict | {"note": _shape(X_test)},
        scored | {"note": f"{_told(found)}; the mean year: RMSE {baseline:.3f}"},
        save | {"note": f"{path.stat().st_size / 1e3:,.0f} kB"},
        read,
    ]


def single(folder: Path) -> list[Figures]:
    """Fit in float32."""
    return [_variant(f'{_FIT}, `dtype="float32"`', {"dtype": "float32"}, np.float32)]


def shared(folder: Path) -> list[Figures]:
    """Fit in rounds on two threads."""
    return [
        _variant(
            f"{_FIT}, `evidence_cap=3, n_shards=8`", {"evidence_cap": 3, "n_shards": 8}, np.float64
        )
    ]


def shell_fit(folder: Path) -> list[Figures]:
    """Fit from the shell, on a table with a line of names."""
    write_tables(folder)
    network = f"--fast --hidden-layer-sizes {HIDDEN} --n-epochs {N_EPOCHS} --test-fraction 0"
    fit, _ = commanded("fit --fast", folder, f"fit train.csv --target year {network} -o shell.pbp")
    return [fit | {"note": f"CSV of {_n_train():,} rows"}]


def shell_use(folder: Path) -> list[Figures]:
    """Predict, score and report from the shell."""
    predict, _ = commanded("predict", folder, "predict shell.pbp test.csv -o out.csv")
    scored, found = commanded("evaluate", folder, "evaluate shell.pbp test.csv --json")
    report, _ = commanded("report", folder, "report shell.pbp test.csv -o out.html")
    return [
        predict | {"note": f"{(folder / 'out.csv').stat().st_size / 1e6:,.0f} MB written"},
        scored | {"note": _told(json.loads(found))},
        report | {"note": f"{(folder / 'out.html').stat().st_size / 1e3:,.0f} kB written"},
    ]


def searched(folder: Path) -> list[Figures]:
    """Let `probprop fit` select the hyperparameters."""
    write_tables(folder)
    budget = f"fit train.csv --target year --budget {BUDGET} -o searched.pbp"
    fit, _ = commanded(f"fit --budget {BUDGET}", folder, budget)
    scored, found = commanded("evaluate", folder, "evaluate searched.pbp test.csv --json")
    size = (folder / "searched.pbp").stat().st_size
    scored |= {"what": "`probprop evaluate`, that model", "note": _told(json.loads(found))}
    return [fit | {"note": f"a model of {size / 1e6:,.1f} MB"}, scored]


def reproduced(folder: Path) -> list[Figures]:
    """Run the job of Table 1 on it, as one would with the real file."""
    job = f"reproduce table1 --dataset {NAME} --jobs 1 --results year.jsonl"
    run, _ = commanded("reproduce table1", folder, job)
    row = json.loads((folder / "year.jsonl").read_text().splitlines()[0])
    return [run | {"note": f"{row['seconds']:.1f} s of it the fit; {_told(row)}"}]


STEPS: dict[str, Step] = {
    step.__name__: step
    for step in (reading, library, single, shared, shell_fit, shell_use, reproduced, searched)
}
"""By name, in the order of the page; each needs the files of those before it."""

_FIT = "`PBPRegressor.fit`"


def _variant(what: str, params: Figures, dtype: type) -> Figures:
    """Fit with other parameters on arrays of a type, and score."""
    X_train, y_train, X_test, y_test = _split()
    rows = X_train.astype(dtype, copy=False)
    model = PBPRegressor(HIDDEN, n_epochs=N_EPOCHS, random_state=_SEED, **params)
    fit, model = measured(what, lambda: model.fit(rows, y_train))
    predicted = model.predict_distribution(X_test.astype(dtype, copy=False))
    return fit | {"note": _told(metrics.summary(y_test, predicted))}


def _split() -> tuple[Any, Any, Any, Any]:
    data = datasets.load(NAME)
    cut = _n_train()  # the official split is the first rows and the others: views, not copies
    return data.X[:cut], data.y[:cut], data.X[cut:], data.y[cut:]


def _n_train() -> int:
    return len(datasets.splits(NAME)[0][0])


def write_tables(folder: Path) -> None:
    """Write the lines of the text as two tables with names, once."""
    names = ("train.csv", "test.csv")
    if not (folder / names[1]).exists():
        data = datasets.load(NAME)
        header = ",".join([data.target, *data.feature_names]) + "\n"
        with (folder / TEXT).open() as lines:
            for name, n in zip(names, (_n_train(), None), strict=True):
                with (folder / name).open("w") as table:
                    table.write(header)
                    table.writelines(itertools.islice(lines, n))


def _shape(X: Any) -> str:
    return f"{X.shape[0]:,} × {X.shape[1]}, {X.nbytes / 1e6:,.0f} MB"


def _told(found: Any) -> str:
    return (
        f"RMSE {found['rmse']:.3f}, log-likelihood {found['log_likelihood']:.3f}, "
        f"{100.0 * found['coverage_95']:.1f} % in 95 %"
    )


def main() -> None:
    name, folder = sys.argv[1], Path(sys.argv[2])
    os.environ.update(PROBPROP_DATA=str(folder), PROBPROP_CACHE=str(folder))
    print(json.dumps(STEPS[name](folder)))


if __name__ == "__main__":
    main()
