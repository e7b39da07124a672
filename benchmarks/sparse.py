"""Sparse and encoded rows: what inputs that are 0 cost, and what they would as arrays."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse

from benchmarks.agreement import WrongAnswerError
from benchmarks.cases import DTYPES, first_posterior
from benchmarks.clock import median, say, timed
from benchmarks.effort import Effort
from benchmarks.outcome import Figure, Outcome, verdict
from probprop import Candidate, PBPClassifierCV, PBPRegressor, PBPRegressorCV
from probprop._types import FloatArray
from probprop.encoding.piecewise import encode, encode_sparse, fit_piecewise
from probprop.inference.engine import ENGINES
from probprop.inference.inputs import ColumnBasis, Encoded, basis_of

_N_ROWS, _N_NUMBERS, _N_CODES = 20_000, 10, 1_000
_N_EPOCHS = 10
_N_LEVELS = 5  # of hats: 31 for each column, of which five are not 0
_LARGEST_DIFFERENCE = 1e-12
_N_FEWER = 5_000  # rows of the encoded columns that are fitted

Work = Callable[[], Any]


def run(effort: Effort) -> Outcome:
    """Measure fits with and without a column of categories, and epochs over encoded columns."""
    times: defaultdict[str, list[float]] = defaultdict(list)
    works: dict[str, Work] = {}
    for dtype in DTYPES:
        works |= _fits(effort, dtype) | _encoded_fits(effort, dtype) | _passes(effort, dtype)
    works |= _default_fits(effort)
    for _ in range(effort.n_repetitions):
        for name, work in works.items():
            say(f"sparse: {name}")
            n_rows = _N_FEWER if "ramps" in name else _N_ROWS
            once = "hats" in name or "default" in name
            n_updates = effort.of(n_rows, least=200) * (1 if once else _N_EPOCHS)
            times[name].append(timed(work)[0] / n_updates * 1e9)
    ratios = {
        f"{name} {dtype}": (
            median(times[f"{name} {dtype}"]) / median(times[f"{base} {dtype}"]),
            most,
        )
        for dtype in DTYPES
        for name, (base, most) in _MOST.items()
        if f"{name} {dtype}" in works
    }
    return Outcome(
        title=f"Sparse and encoded rows (medians of {effort.n_repetitions})",
        header=["rows", "ns per update", "ratio", "at most", ""],
        rows=[
            [name, f"{median(times[name]):.0f}", *_scored(*ratios.get(name, ()))] for name in works
        ],
        notes=[
            f"Fits of PBPRegressor((50,), evidence_cap=10) over {_N_EPOCHS} epochs with all that "
            "belongs to them, and passes of the kernel over hats.",
            "Default fits are of PBPRegressorCV(random_state=0) on tables; their time is per row.",
            'Fits with labels are of a candidate of PBPClassifierCV alone, with the budget "fast".',
            f"Checked: lists and arrays agree to {_LARGEST_DIFFERENCE:.0e}.",
        ],
        measured=dict(times),
        figures=[Figure(f"ns per update, {name}", times[name]) for name in works],
        missed=[
            f"sparse: {name} take {ratio:.2f} times as long, above {most:.2f}"
            for name, (ratio, most) in ratios.items()
            if ratio > most
        ],
    )


def _scored(ratio: float | None = None, most: float = 0.0) -> list[str]:
    if ratio is None:
        return ["", "", ""]
    return [f"{ratio:.2f}", f"{most:.2f}", verdict(ratio <= most)]


_NUMBERS = f"{_N_NUMBERS} numbers, array,"
_SPARSE = f"{_N_NUMBERS} numbers and {_N_CODES:,} categories, sparse,"
_ARRAY = f"{_N_NUMBERS} numbers and {_N_CODES:,} categories, array,"
_TABLE = f"default, table of {_N_NUMBERS} numbers,"
_TEXT = f"default, table of {_N_NUMBERS} numbers and text of {_N_CODES:,} levels,"
_GAPS = f"{_TABLE} 5 % of one missing,"
_TEXT_GAPS = f"{_TEXT} 5 % of a number missing,"
# With labels a default search finds another model if the text is there, so the time of each of its
# candidates is compared.
_CANDIDATES = {
    "labels, default candidate": Candidate(None, (96,), 10.0),
    "labels, default encoded candidate": Candidate(32, (96,), 10.0),
}
_NUMBERS_ALONE, _WITH_TEXT = f"of {_N_NUMBERS} numbers,", f"with text of {_N_CODES:,} levels,"
_CENTERED = f"{_N_NUMBERS} columns of 64 centered ramps, array,"
_RAMPS = {n: f"{_N_NUMBERS} columns of {n} ramps, sparse," for n in (16, 32)}
# The case that is compared with, and the largest ratio allowed.
_MOST = {
    _SPARSE: (_NUMBERS, 1.2),
    _TEXT: (_TABLE, 1.2),
    _TEXT_GAPS: (_GAPS, 1.2),
    **{f"{name} {_WITH_TEXT}": (f"{name} {_NUMBERS_ALONE}", 1.2) for name in _CANDIDATES},
    **{name: (_CENTERED, 1.0 / 3.0) for name in _RAMPS.values()},
}


def _fits(effort: Effort, dtype: str) -> dict[str, Work]:
    rng, n = np.random.RandomState(0), effort.of(_N_ROWS, least=200)
    numbers, codes = rng.standard_normal((n, _N_NUMBERS)), rng.randint(_N_CODES, size=n)
    y = np.sin(numbers[:, 0]) + rng.standard_normal(_N_CODES)[codes] + 0.1 * rng.standard_normal(n)
    one_hot = sparse.csr_array((np.ones(n), (np.arange(n), codes)), shape=(n, _N_CODES))
    both = sparse.csr_array(sparse.hstack([sparse.csr_array(numbers), one_hot]))
    model = PBPRegressor((50,), n_epochs=_N_EPOCHS, evidence_cap=10.0, dtype=dtype, random_state=0)
    return {
        f"{_NUMBERS} {dtype}": lambda: model.fit(numbers, y),
        f"{_SPARSE} {dtype}": lambda: model.fit(both, y),
        f"{_ARRAY} {dtype}": lambda: model.fit(both.toarray(), y),
    }


def _default_fits(effort: Effort) -> dict[str, Work]:
    rng, n = np.random.RandomState(0), effort.of(_N_ROWS, least=200)
    n_levels = min(_N_CODES, n // 20)
    numbers, codes = rng.standard_normal((n, _N_NUMBERS)), rng.randint(n_levels, size=n)
    y = np.sin(numbers[:, 0]) + rng.standard_normal(n_levels)[codes] + 0.1 * rng.standard_normal(n)
    table = pd.DataFrame(numbers, columns=[f"number {i}" for i in range(_N_NUMBERS)])
    gaps = table.assign(**{"number 3": table["number 3"].mask(rng.uniform(size=n) < 0.05)})
    text = [f"level {code}" for code in codes]
    tables = {
        _TABLE: table,
        _TEXT: table.assign(text=text),
        _GAPS: gaps,
        _TEXT_GAPS: gaps.assign(text=text),
    }
    model = PBPRegressorCV(random_state=0)
    found = {f"{name} float32": lambda X=X: model.fit(X, y) for name, X in tables.items()}  # type: ignore[misc]
    for name, candidate in _CANDIDATES.items():
        own = PBPClassifierCV(candidates=[candidate], budget="fast", random_state=0)
        for X, of in ((table, _NUMBERS_ALONE), (tables[_TEXT], _WITH_TEXT)):
            found[f"{name} {of} float32"] = lambda X=X, own=own: own.fit(X, y > 0.0)  # type: ignore[misc]
    return found


def _encoded_fits(effort: Effort, dtype: str) -> dict[str, Work]:
    rng, n = np.random.RandomState(0), effort.of(_N_FEWER, least=200)
    X = rng.standard_normal((n, _N_NUMBERS))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(n)
    model = PBPRegressor((50,), n_epochs=_N_EPOCHS, evidence_cap=10.0, dtype=dtype, random_state=0)
    rows = {_CENTERED: encode(X, fit_piecewise(X, 64, centered=True))}
    rows |= {name: encode_sparse(X, fit_piecewise(X, k)) for k, name in _RAMPS.items()}
    return {f"{name} {dtype}": lambda A=A: model.fit(A, y) for name, A in rows.items()}  # type: ignore[misc]


def _passes(effort: Effort, dtype: str) -> dict[str, Work]:
    rng, n = np.random.RandomState(0), effort.of(_N_ROWS, least=200)
    X = rng.standard_normal((n, _N_NUMBERS))
    y, order = np.sin(X[:, 0]), rng.permutation(n)
    rows = Encoded(X.astype(dtype), basis_of([_hats(x) for x in X.T]))
    posterior = first_posterior(rows.shape[1], (50,), dtype)
    array, adf_pass = rows.toarray().astype(dtype), ENGINES["native"].adf_pass
    some = order[:200]
    got, expected = (adf_pass(posterior, X, y, some)[0] for X in (rows, array))
    difference = max(float(np.abs(a - b).max()) for a, b in zip(got.m_w, expected.m_w, strict=True))
    if dtype == "float64" and difference > _LARGEST_DIFFERENCE:
        raise WrongAnswerError(f"encoded rows differ by {difference:.1e}")
    name = f"{_N_NUMBERS} columns of {2**_N_LEVELS - 1} hats,"
    return {
        f"{name} encoded, {dtype}": lambda: adf_pass(posterior, rows, y, order),
        f"{name} array, {dtype}": lambda: adf_pass(posterior, array, y, order),
    }


def _hats(x: FloatArray) -> ColumnBasis:
    """Return the column itself and hats of half the width at each level, between quantiles."""
    u = np.linspace(0.0, 1.0, 2**_N_LEVELS + 1)
    knots = np.quantile(x, u)
    centers = [(level, (k + 0.5) / 2**level) for level in range(_N_LEVELS) for k in range(2**level)]
    hats = [
        np.maximum(0.0, 1.0 - np.abs(u - center) * 2.0 ** (level + 1)) for level, center in centers
    ]
    values = np.column_stack([knots, *hats])
    slope = np.zeros((len(knots) + 1, values.shape[1]))
    slope[:, 0] = 1.0
    slope[1:-1] = np.diff(values, axis=0) / np.diff(knots)[:, np.newaxis]
    return ColumnBasis(knots, np.concatenate([values[:1], values]), slope)
