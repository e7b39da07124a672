"""Model selection on a cluster, and rows in a bad order: ``python -m benchmarks.guide.cluster``.

``docs/results/cluster_cv.md`` has `PBPRegressorCV` fitted by `probprop.fit` on a cluster next to
its own `fit`, and ``cluster_sorted.md`` fits whose shards are sorted by the target. Both need the
extra ``dask`` and the files of the benchmark sets. Rows that ``cluster.jsonl`` has are not made
again.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.child import processor_seconds_of_children
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPRegressor, PBPRegressorCV, metrics
from probprop._types import FloatArray
from probprop.data import ShardWarning, fit, fitting
from probprop_lab.experiments.harness.benchmark import Loader, load_split

if TYPE_CHECKING:
    from distributed import Client

WAYS = {
    "one machine": None,
    "cluster, all rows decide": 20_000,
    "cluster, 2,000 rows decide": 2_000,
}
"""Where hyperparameters are selected: rows of the sample on the cluster."""
ORDERS = ("random", "sorted by the target")
_N_WORKERS, _N_SHARDS = 2, 2
_N_SORTED_SHARDS = 8


@contextmanager
def cluster(*, processes: bool) -> Iterator[Client]:
    """Yield a client of a cluster of this machine, of workers with a thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=_N_WORKERS,
            threads_per_worker=1,
            processes=processes,
            dashboard_address=":0",
        ) as made,
        Client(made) as client,
    ):
        yield client


def ordered(
    dataset: str, split: int, order: str, load: Loader = load_split, n_epochs: int = 40
) -> Figures:
    """Fit on rows in their order or sorted by the target, a shard for each eighth of them."""
    X, y, X_test, y_test = load(dataset, split)
    rows = np.argsort(y, kind="stable") if order != ORDERS[0] else np.arange(len(y))
    network = PBPRegressor(n_epochs=n_epochs, evidence_cap=3, random_state=split)
    # Threads, not processes: the result is the same, and a task costs less.
    with cluster(processes=False) as client, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        parts = _dask(X[rows], y[rows], _N_SORTED_SHARDS)
        model = fit(network, parts, client=client, n_shards=_N_SORTED_SHARDS)
    return {
        **_evaluate(model, X_test, y_test),
        "warned": any(warning.category is ShardWarning for warning in told),
    }


def fit_on_cluster(network: PBPRegressorCV, rows: tuple[Any, Any], n_shards: int) -> Any:
    """Fit to Dask arrays by processes of this machine."""
    with cluster(processes=True) as client:
        return fit(network, rows, client=client, n_shards=n_shards)


def chosen(
    dataset: str,
    split: int,
    way: str,
    load: Loader = load_split,
    fit: Callable[[PBPRegressorCV, tuple[Any, Any], int], Any] = fit_on_cluster,
) -> Figures:
    """Select hyperparameters on one machine, or on a cluster with `n_sample` rows."""
    X, y, X_test, y_test = load(dataset, split)
    network, sample = PBPRegressorCV(budget="fast", random_state=split), WAYS[way]
    before = _processor_seconds()
    if sample is None:
        model: Any = network.fit(X, y)
    else:
        kept, fitting.SAMPLE = fitting.SAMPLE, sample
        try:
            model = fit(network, _dask(X, y, _N_SHARDS), _N_SHARDS)
        finally:
            fitting.SAMPLE = kept
    return {
        **_evaluate(model, X_test, y_test),
        "seconds": _processor_seconds() - before,
        "chosen": repr(model.best_params_),
    }


def main(argv: Sequence[str] | None = None, order: Callable[..., Figures] = ordered) -> None:
    parser = parser_of("cluster", __doc__)
    parser.add_argument("--splits", type=int, default=3, help="of power plant")
    parser.add_argument("--sorted-splits", type=int, default=3, help="of kin8nm")
    arguments = parser.parse_args(argv)
    path = arguments.results / "cluster.jsonl"
    orders = [
        {"dataset": "kin8nm", "split": split, "order": order}
        for split in range(arguments.sorted_splits)
        for order in ORDERS
    ]
    choices = [
        {"dataset": "power_plant", "split": split, "way": way}
        for split in range(arguments.splits)
        for way in WAYS
    ]
    write_pages(
        arguments.results, pages(rows_of(path, orders, order), rows_of(path, choices, chosen))
    )


def _processor_seconds() -> float:
    return time.process_time() + processor_seconds_of_children()


def _dask(X: FloatArray, y: FloatArray, n_parts: int) -> tuple[Any, Any]:
    """Return the rows as dask arrays in parts."""
    import dask.array

    n = -(-len(y) // n_parts)
    return dask.array.from_array(X, chunks=(n, X.shape[1])), dask.array.from_array(y, chunks=n)


def _evaluate(model: Any, X: FloatArray, y: FloatArray) -> Figures:
    predicted = model.predict_distribution(X)
    return {
        "log_likelihood": float(np.mean(predicted.logpdf(y))),
        "rmse": metrics.rmse(y, predicted.mean),
    }


# ---- The pages


def pages(orders: list[Figures], choices: list[Figures]) -> dict[str, str]:
    """Return both tables by the names of their files."""
    return {
        "cluster_sorted": _by_split(orders, "order", ORDERS, []) + "\n",
        "cluster_cv": _by_split(choices, "way", tuple(WAYS), [_seconds(choices)]) + "\n",
    }


def _by_split(rows: list[Figures], key: str, names: tuple[str, ...], more: list[list[str]]) -> str:
    """Return a table of log-likelihoods: a line for each split, and the means of several."""
    of = {name: [row["log_likelihood"] for row in rows if row[key] == name] for name in names}
    lines = [
        [str(split), *(mean([of[name][split]], 3) for name in names)]
        for split in range(len(of[names[0]]))
    ]
    if len(lines) > 1:
        lines.append(["mean", *(mean(of[name], 3) for name in names)])
    return table(["split", *names], [*lines, *more])


def _seconds(choices: list[Figures]) -> list[str]:
    means = [np.mean([row["seconds"] for row in choices if row["way"] == way]) for way in WAYS]
    return ["processor s", *(f"{value:,.0f}" for value in means)]


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
