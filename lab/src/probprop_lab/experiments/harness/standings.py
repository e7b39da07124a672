"""Who is ahead: ranks within a set, their means over sets, and whether a lead is significant."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import numpy as np
from scipy import stats

from probprop_lab.experiments.harness.columns import Record, Table, text, times
from probprop_lab.experiments.harness.comparison import TOLERANCE
from probprop_lab.results import Row

_LOSS = {
    "log_likelihood": -1.0,
    "crps": 1.0,
    "rmse": 1.0,
    "log_loss": 1.0,
}  # the sign that makes a measure a loss


def ranks(rows: Sequence[Row], measure: str = "log_likelihood") -> dict[str, dict[str, float]]:
    """Rank the methods of each set by the mean of a measure; 1 is the best.

    The mean is over the splits that all methods of the set were run on: splits differ by more
    than methods do. Equal means share the mean of their ranks.

    Parameters
    ----------
    rows : sequence of dict
    measure : str, default="log_likelihood"
        The highest is the best for "log_likelihood", the lowest for "crps" and "log_loss".

    Returns
    -------
    dict
        By set and method; a set without a split that all methods have is empty.

    Examples
    --------
    >>> def row(method, split, value):
    ...     return {"dataset": "yacht", "method": method, "split": split, "log_likelihood": value}
    >>> ranks([row("a", 0, -1.0), row("b", 0, -2.0), row("b", 1, 9.0)])
    {'yacht': {'a': 1.0, 'b': 2.0}}
    """
    found: dict[str, dict[str, dict[int, float]]] = {}
    for row in rows:
        methods = found.setdefault(row["dataset"], {})
        methods.setdefault(row["method"], {})[row["split"]] = _LOSS[measure] * row[measure]
    return {name: _ranks_of_a_set(methods) for name, methods in found.items()}


def _ranks_of_a_set(losses: dict[str, dict[int, float]]) -> dict[str, float]:
    common = set.intersection(*(set(by_split) for by_split in losses.values()))
    if not common:
        return {}
    means = [np.mean([by_split[k] for k in sorted(common)]) for by_split in losses.values()]
    return dict(zip(losses, stats.rankdata(means).tolist(), strict=True))


def mean_ranks(records: Sequence[Record]) -> list[Record]:
    """Return a record per method, by mean rank: how it does over all sets.

    Parameters
    ----------
    records : sequence of dict
        One per set and method, with ``rank`` and, where they are known, ``crps_rank``, ``gain``
        and ``gain_se`` (the log-likelihood above PBP's, and its standard error) and ``slower``.

    Returns
    -------
    list of dict
        With ``mean_rank`` and ``n_sets``, over the sets it was run on; ``common_rank``, over
        the sets that all methods were run on; ``mean_crps_rank`` and ``common_crps_rank``, the
        same of the CRPS; ``n_first``; ``n_better`` and ``n_worse``, the sets on which it
        differs from PBP by more than two standard errors; ``slower``, the median over the sets.
    """
    ranked = [record for record in records if record["rank"] is not None]
    names = {record["method"] for record in ranked}
    by_set: dict[str, set[str]] = {}
    for record in ranked:
        by_set.setdefault(record["dataset"], set()).add(record["method"])
    complete = {name for name, methods in by_set.items() if methods == names}
    found = []
    for method in dict.fromkeys(record["method"] for record in ranked):
        own = [record for record in ranked if record["method"] == method]
        common = [record for record in own if record["dataset"] in complete]
        slower = _known(own, "slower")
        found.append(
            {
                "method": method,
                "mean_rank": _mean(own, "rank"),
                "mean_crps_rank": _mean(own, "crps_rank"),
                "n_sets": len(own),
                "common_rank": _mean(common, "rank"),
                "common_crps_rank": _mean(common, "crps_rank"),
                "n_common": len(common),
                "n_first": sum(record["rank"] == 1.0 for record in own),
                "n_better": _count(own, 1.0),
                "n_worse": _count(own, -1.0),
                "slower": statistics.median(slower) if slower else None,
            }
        )
    return sorted(found, key=lambda record: record["mean_rank"])


def _known(records: Sequence[Record], key: str) -> list[float]:
    return [record[key] for record in records if record.get(key) is not None]


def _mean(records: Sequence[Record], key: str) -> float | None:
    known = _known(records, key)
    return statistics.mean(known) if known else None


def _count(records: Sequence[Record], sign: float) -> int | None:
    """Count the differences from PBP of this sign beyond two standard errors.

    None where no difference has a standard error.
    """
    known = [record for record in records if record.get("gain_se") is not None]
    beyond = [sign * record["gain"] > TOLERANCE * record["gain_se"] for record in known]
    return sum(beyond) if known else None


def rank_table(records: Sequence[Record]) -> Table:
    """Return `mean_ranks` as text."""
    found = mean_ranks(records)
    n_common = found[0]["n_common"] if found else 0
    columns = {
        "method": text("method"),
        "mean rank": _rank("mean_rank"),
        "of the CRPS": _rank("mean_crps_rank"),
        "on sets": text("n_sets"),
        f"mean rank on the {n_common} that all ran": _rank("common_rank"),
        "of the CRPS there": _rank("common_crps_rank"),
        "first on": text("n_first"),
        "above PBP on": text("n_better"),
        "below PBP on": text("n_worse"),
        "of PBP's seconds": times("slower"),
    }
    header = list(columns)
    cells = [[show(record) for show in columns.values()] for record in found]
    kept = [i for i in range(len(header)) if any(line[i] for line in cells)]
    return [header[i] for i in kept], [[line[i] for i in kept] for line in cells]


def _rank(key: str) -> Callable[[Record], str]:
    return lambda record: "" if record[key] is None else f"{record[key]:.2f}"


def first(records: Sequence[Record]) -> dict[str, Record]:
    """Return the record of the method that leads each set, where ranks are known."""
    ranked = [record for record in records if record["rank"] is not None]
    found: dict[str, Record] = {}
    for record in sorted(ranked, key=lambda record: record["rank"]):
        found.setdefault(record["dataset"], record)
    return found
