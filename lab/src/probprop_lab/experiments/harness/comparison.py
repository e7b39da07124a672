"""Methods side by side: sentences about records of more than one."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from probprop_lab.experiments.harness.columns import Record, ratio
from probprop_lab.experiments.harness.methods import PLAIN
from probprop_lab.experiments.harness.protocol import protocol

TOLERANCE = 2.0  # combined standard errors
_MEASURES = {"rmse": ("RMSE", 1.0), "log_likelihood": ("log-likelihood", -1.0)}  # sign: worse


def notes(records: Sequence[Record]) -> list[str]:
    """Compare each method with PBP and with what the paper prints for it.

    Parameters
    ----------
    records : sequence of dict
        Of `benchmark.mean_records`, with the paper's values added: one per set and
        method, or per set, method and network.

    Returns
    -------
    list of str
    """
    others = [(method, own) for method, own in by_method(records) if method not in ("PBP", PLAIN)]
    lines = [against_pbp(method, own) for method, own in others]
    lines += [line for method, own in others for line in against_paper(method, own)]
    lines += [warned(method, own) for method, own in others]
    lines.append(fewer_splits(records))
    return [line for line in lines if line]


def by_method(records: Sequence[Record]) -> list[tuple[str, list[Record]]]:
    """Return the methods, each with its records, in the order in which they come.

    Examples
    --------
    >>> [(name, len(own)) for name, own in by_method([{"method": m} for m in ("a", "b", "a")])]
    [('a', 2), ('b', 1)]
    """
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record["method"], []).append(record)
    return list(found.items())


def against_pbp(method: str, records: Sequence[Record]) -> str:
    """Say on how many sets PBP is better, and by how much it is faster, on the same splits."""
    paired = [record for record in records if record["n_paired"]]
    if not paired:
        return ""
    n = len(paired)
    lower = [r for r in paired if r["rmse_gap"] < 0.0]
    higher = [r for r in paired if r["log_likelihood_gap"] > 0.0]
    ratios = [record["slower"] for record in paired]
    return (
        f"PBP against {method}, on the same splits: its log-likelihood is higher in {len(higher)} "
        f"of {n} ({_clearly(higher, 'log_likelihood')}), its RMSE lower in {len(lower)} of {n} "
        f"({_clearly(lower, 'rmse')}); a fit of {method} takes {ratio(statistics.median(ratios))} "
        f"times as long (median; from {ratio(min(ratios))} to {ratio(max(ratios))})"
    )


def _clearly(better: Sequence[Record], measure: str) -> str:
    """Say in how many of these the mean of the differences is beyond its standard error."""
    n = sum(
        record[f"{measure}_gap_se"] is not None
        and abs(record[f"{measure}_gap"]) > TOLERANCE * record[f"{measure}_gap_se"]
        for record in better
    )
    return f"by more than two standard errors in {n}"


def against_paper(method: str, records: Sequence[Record]) -> list[str]:
    """Say where our version of a method is better or worse than the one the paper printed."""
    lines = []
    for measure, (words, sign) in _MEASURES.items():
        printed = [record for record in records if record[f"{measure}_paper"] is not None]
        if not printed:
            continue
        known = [record for record in printed if record[f"{measure}_difference"] is not None]
        differences = [(sign * record[f"{measure}_difference"], record) for record in known]
        better = [record for d, record in differences if d < -TOLERANCE]
        worse = [record for d, record in differences if d > TOLERANCE]
        unknown = [record for record in printed if record[f"{measure}_difference"] is None]
        parts = [f"better in {_cells(better, measure)}" if better else "better in none"]
        parts += [f"worse in {_cells(worse, measure)}" if worse else "worse in none"]
        if unknown:
            parts.append(f"without a standard error to compare by: {_cells(unknown, measure)}")
        lines.append(
            f"our {method} against the paper's, {words}, by more than two standard errors: "
            + "; ".join(parts)
        )
    return lines


def _cells(records: Sequence[Record], measure: str) -> str:
    return ", ".join(
        f"{where(record)} ({record[measure]:.4g}, paper {record[f'{measure}_paper']})"
        for record in records
    )


def where(record: Record) -> str:
    """Name the set, and the network where there are several."""
    deep = "" if record["n_layers"] == 1 else f" with {record['hidden']}"
    return f"{record['dataset']}{deep}"


def warned(method: str, records: Sequence[Record], n_fits_key: str = "n_splits") -> str:
    """Say how many fits of a method warned; `n_fits_key` is the key of their number in a record."""
    n_warned = sum(record["n_warned"] for record in records)
    n_fits = sum(record[n_fits_key] for record in records)
    if n_warned == 0:
        return ""
    return f"{n_warned} of {n_fits} fits of {method} warned; their rows say of what"


def fewer_splits(
    records: Sequence[Record], n_splits: int | None = None, what: str = "splits"
) -> str:
    """Say which splits were run, unless they are all of the protocol.

    Parameters
    ----------
    records : sequence of dict
    n_splits : int or None, default=None
        How many the protocol has; None is all fixed ones of the set.
    what : str, default="splits"
        The word for them.
    """
    fewer = [
        record
        for record in records
        if record["n_splits"] < (n_splits or protocol(record["dataset"]).n_splits)
    ]
    groups: dict[str, list[str]] = {}
    for record in fewer:
        groups.setdefault(record["splits"], []).append(f"{where(record)} {record['method']}")
    if not groups:
        return ""
    if len(groups) == 1 and len(fewer) == len(records):
        return f"of the protocol only these {what} were run, counted from 0: {fewer[0]['splits']}"
    cells = "; ".join(f"{splits}: {', '.join(names)}" for splits, names in groups.items())
    return f"of the protocol only these {what} were run, counted from 0, of {cells}"
