"""Random options on random tables: ``python -m benchmarks.fuzz --fits 3000``.

Every case draws an estimator, its options and a table from its own seed, fits, and checks

- that predictions, quantiles, gradients and log densities are finite, and quantiles in order;
- that the mean lies within one width of the 99.99 % interval, and that the standard deviation is no
  larger than that width;
- that the model can be saved, and that the loaded model predicts the same bits;
- that a refit in another unit of the target, of the features or of the weights predicts the same;
- that a network of double precision predicts the same from sparse rows as from their array;
- that invalid data, and only invalid data, are refused, in a sentence of this package.

Units: a factor that is a power of two changes no digit of the data, so the refit must agree to
1e-6, in widths of the 90 % interval or in probability. Any other factor rounds the data
differently. So does every factor of a target under a Box–Cox transformation, of denormal numbers
and of a column that is constant but for rounding. If such a refit differs by more than 1e-6, the
data are refitted up to twelve times in their own unit, every number replaced by one of its
neighbors. The case is counted as "rounding" if one of these refits differs by a tenth as much or
more, as "selection" if the refit in other units selected another candidate or number of epochs, and
is a finding otherwise. A constant target and a constant feature have no unit.

Rows are kept in a file, and cases that are in it are not run again: delete it after a change of the
package. ``--case`` runs one case and prints what it is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, KFold, TimeSeriesSplit

import probprop
from benchmarks.guide.pages import Figures, rows_of
from benchmarks.markdown import table
from probprop import (
    PBPClassifier,
    PBPClassifierCV,
    PBPRegressor,
    PBPRegressorCV,
    load,
)
from probprop._types import Array, FloatArray
from probprop.estimators.progress import Share, progress
from probprop.inference.training import UpdateWarning

RESULTS = Path(__file__).resolve().parents[1] / "build" / "fuzz.jsonl"

MOST_ROWS = 300
AGREES = 1e-6  # in widths of the 90 % interval, or in probability
_N_NEW = 8  # test rows of each kind
_MOST_ROUNDED = 12  # refits of the same data with other roundings
_EXPLAINED = 10.0  # times the effect of other roundings
_LEVELS = (1e-4, 0.05, 0.5, 0.95, 1.0 - 1e-4)

# ---- Tables


def _sparse(rng: Generator, n: int) -> FloatArray:
    """Return zeros but for one or two values."""
    x = np.zeros(n)
    x[rng.integers(n, size=2)] = rng.uniform(1.0, 3.0)
    return x


def _with_a_far_value(rng: Generator, n: int) -> FloatArray:
    x = rng.standard_normal(n)
    x[rng.integers(n)] *= 10.0 ** rng.uniform(2.0, 5.0)
    return x


COLUMNS: dict[str, Callable[[Generator, int], FloatArray]] = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "uniform": lambda rng, n: rng.uniform(0.0, 1.0, n),
    "heavy-tailed": lambda rng, n: rng.standard_t(1.5, n),
    "codes": lambda rng, n: rng.integers(0, 6, n).astype(float),
    "binary": lambda rng, n: rng.integers(0, 2, n).astype(float),
    "constant": lambda _, n: np.full(n, 7.3),
    "constant but for rounding": lambda rng, n: rng.choice([0.3, 0.1 + 0.2], n),
    "nearly empty": _sparse,
    "far value": _with_a_far_value,
    "denormal": lambda rng, n: 1e-310 * rng.standard_normal(n),
    "Unix time": lambda rng, n: 1.7e9 + 86_400.0 * rng.integers(0, 365, n),
}


def _outliers(rng: Generator, z: FloatArray) -> FloatArray:
    y = z + 0.3 * rng.standard_normal(len(z))
    y[rng.integers(len(y), size=1 + len(y) // 50)] *= 50.0
    return y


def _one_value(rng: Generator, z: FloatArray) -> FloatArray:
    y = np.zeros_like(z)
    y[rng.integers(len(y))] = 5_000.0
    return y


TARGETS: dict[str, Callable[[Generator, FloatArray], FloatArray]] = {
    "normal": lambda rng, z: z + 0.3 * rng.standard_normal(len(z)),
    "log-normal": lambda rng, z: np.exp(z + 0.5 * rng.standard_normal(len(z))),
    "wide log-normal": lambda rng, z: np.exp(3.0 * z + 2.0 * rng.standard_normal(len(z))),
    "counts": lambda rng, z: rng.poisson(np.exp(z)).astype(float),
    "constant": lambda _, z: np.full_like(z, 4.2),
    "one nonzero value": _one_value,
    "offset": lambda rng, z: 1e7 + z + 0.3 * rng.standard_normal(len(z)),
    "outliers": _outliers,
}
WEIGHTS: dict[str, Callable[[Generator, int], FloatArray] | None] = {
    "none": None,
    "counts": lambda rng, n: 1.0 + rng.poisson(3.0, n),
    "populations": lambda rng, n: 1e5 * rng.lognormal(0.0, 1.5, n),
    "with zeros": lambda rng, n: rng.integers(0, 3, n).astype(float),
}


@dataclass(frozen=True, eq=False)
class Table:
    """A training set and test rows.

    Parameters
    ----------
    X : ndarray of shape (n, n_features)
    y : ndarray of shape (n,)
    X_new : ndarray of shape (n_new, n_features)
        Test rows with the distribution of X.
    X_far : ndarray of shape (n_far, n_features)
        Test rows with values far outside the training range or missing.
    weights : ndarray of shape (n,), default=None
    groups : ndarray of shape (n,), default=None
    """

    X: FloatArray
    y: Array
    X_new: FloatArray
    X_far: FloatArray
    weights: FloatArray | None = None
    groups: Array | None = None

    def fitted(self, model: Any) -> Any:
        """Return a clone of the model that is fitted to the table."""
        extra = {} if self.groups is None else {"groups": self.groups}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UpdateWarning)
            return clone(model).fit(self.X, self.y, sample_weight=self.weights, **extra)


@dataclass(frozen=True, eq=False)
class Case:
    """What a seed draws.

    Parameters
    ----------
    model : estimator
        Not fitted.
    table : Table
    rng : numpy.random.Generator
        Draws the unit of the refit.
    columns, target, weights : str
        What the table is made of.
    invalid : str, default=""
        What makes the data invalid; empty if they are valid.
    """

    model: Any
    table: Table
    rng: Generator
    columns: tuple[str, ...]
    target: str
    weights: str
    invalid: str = ""
    notes: dict[str, int] = field(default_factory=dict)

    @property
    def is_regression(self) -> bool:
        """Whether the targets are values."""
        return bool(self.table.y.dtype.kind == "f")

    @property
    def has_scale(self) -> bool:
        """Whether the samples that count have targets that differ: else y has no unit."""
        counts = slice(None) if self.table.weights is None else self.table.weights > 0.0
        return bool(np.ptp(self.table.y[counts]) > 0.0)


def draw(seed: int, case: int, most_rows: int = MOST_ROWS) -> Case:
    """Return the case with this number."""
    rng = np.random.default_rng([seed, case])
    model = _ESTIMATORS[rng.integers(len(_ESTIMATORS))](rng)
    n = int(np.exp(rng.uniform(np.log(2.0), np.log(most_rows + 1.0))))
    kinds = tuple(rng.choice(list(COLUMNS), rng.integers(1, 9)).tolist())
    drawn = np.column_stack([COLUMNS[kind](rng, n + _N_NEW) for kind in kinds])
    signal = np.clip(_standardized(drawn).sum(axis=1), -2.0, 2.0)[:n]
    target = str(rng.choice(list(TARGETS)))
    if _is_classifier(model):
        target, y = "classes", _labels(rng, signal)
    else:
        y = TARGETS[target](rng, signal) * 10.0 ** rng.uniform(-6.0, 6.0)
    weights = str(rng.choice(list(WEIGHTS)))
    w = None if (drawing := WEIGHTS[weights]) is None else drawing(rng, n)
    if w is not None:
        w[:2] = np.maximum(w[:2], 1.0)  # two samples, of two classes, always count
    X, X_new = drawn[:n].copy(), drawn[n:].copy()
    counts = np.ones(n, bool) if w is None else w > 0.0
    if _marginalizes(model):
        X[rng.uniform(size=X.shape) < 0.1] = np.nan
        for j in np.flatnonzero(np.isnan(X[counts]).all(axis=0)):  # some value counts
            X[rng.choice(np.flatnonzero(counts)), j] = drawn[0, j]
    X_far = _far(rng, X[counts], X_new)
    if _marginalizes(model):
        X_far[rng.uniform(size=X_far.shape) < 0.25] = np.nan
    if not _is_cv(model):  # one network takes a constant feature at scale 1, and may refuse others
        X_new, X_far = (_with_constants(X, w, rows) for rows in (X_new, X_far))
    table_ = Table(X, y, X_new, X_far, w)
    model, table_ = _with_folds(rng, model, table_)
    drawn_case = Case(model, table_, rng, kinds, target, weights)
    return _spoiled(drawn_case) if rng.uniform() < 0.05 else drawn_case


def _standardized(X: FloatArray) -> FloatArray:
    unit = np.abs(X).max(axis=0)
    x = X / np.where(unit > 0.0, unit, 1.0)
    spread = x.std(axis=0)
    z: FloatArray = (x - x.mean(axis=0)) / np.where(spread > 1e-9, spread, np.inf)
    return z


def _labels(rng: Generator, signal: FloatArray) -> Array:
    """Return two to five classes, as numbers or texts; the first two samples have two of them."""
    noisy = signal + rng.standard_normal(len(signal))
    n_classes = int(rng.integers(2, 6))
    y = np.searchsorted(np.quantile(noisy, np.arange(1, n_classes) / n_classes), noisy)
    y[:2] = 0, 1
    return y if rng.uniform() < 0.5 else np.array(["a", "b", "c", "d", "e"])[y]


def _far(rng: Generator, X: FloatArray, X_new: FloatArray) -> FloatArray:
    """Return test rows each of which has one value far from the training values."""
    X_far = X_new.copy()
    spread = np.nanstd(X, axis=0) + 1e-3 * np.nanmean(np.abs(X), axis=0)
    for row in X_far:
        j = rng.integers(X.shape[1])
        row[j] += rng.choice([-1.0, 1.0]) * 10.0 ** rng.uniform(1.0, 4.0) * spread[j]
    return X_far


def _with_constants(X: FloatArray, weights: FloatArray | None, rows: FloatArray) -> FloatArray:
    """Return rows in which the features that are constant in X have their constant values."""
    counts = X if weights is None else X[weights > 0.0]
    low, high = np.fmin.reduce(counts), np.fmax.reduce(counts)
    constant = high - low <= 1e-12 * np.maximum(np.abs(low), np.abs(high))
    return np.where(constant & ~np.isnan(rows), low, rows)


def _spoiled(case: Case) -> Case:
    """Return the case with data that must be refused."""
    t, rng = case.table, case.rng
    X, y = t.X.copy(), t.y.copy()
    what = str(rng.choice(["infinite feature", "missing target", "negative weight", "one class"]))
    if what == "infinite feature":
        X[-1, 0] = np.inf
        return replace(case, table=replace(t, X=X), invalid=what)
    if what == "negative weight" or (what == "missing target") != case.is_regression:
        w = np.ones(len(y))
        w[-1] = -1.0
        return replace(case, table=replace(t, weights=w), invalid="negative weight")
    y[-1 if case.is_regression else slice(None)] = np.nan if case.is_regression else y[0]
    return replace(case, table=replace(t, y=y), invalid=what)


# ---- Estimators and their options


def _of_network(rng: Generator) -> dict[str, Any]:
    sizes = [(), (5,), (20,), (5, 5)]
    return {
        "hidden_layer_sizes": sizes[rng.integers(len(sizes))],
        "n_epochs": int(rng.choice([1, 5, 20])),
        "evidence_cap": [None, 1.0, 10.0][rng.integers(3)],
        "missing": str(rng.choice(["error", "marginalize"])),
        "dtype": str(rng.choice(["float64", "float32"])),
        "random_state": int(rng.integers(2**31)),
    }


def _regressor(rng: Generator) -> PBPRegressor:
    return PBPRegressor(
        **_of_network(rng),
        noise=str(rng.choice(["constant", "input"])),
        noise_layer_sizes=int(rng.integers(1, 10)),
        noise_tail=str(rng.choice(["gaussian", "heavy"])),
    )


def _classifier(rng: Generator) -> PBPClassifier:
    return PBPClassifier(**_of_network(rng))


def _of_cv(rng: Generator) -> dict[str, Any]:
    return {
        "cv": int(rng.choice([2, 3, 5])),
        "candidates": "auto" if rng.uniform() < 0.2 else _candidates(rng),
        "budget": "good" if rng.uniform() < 0.05 else "fast",
        "missing": str(rng.choice(["error", "marginalize"])),
        "dtype": str(rng.choice(["float64", "float32"])),
        "random_state": int(rng.integers(2**31)),
    }


def _candidates(rng: Generator) -> list[dict[str, Any]]:
    every = [
        {"hidden_layer_sizes": 5, "evidence_cap": 10.0},
        {"hidden_layer_sizes": (), "evidence_cap": None},
        {"hidden_layer_sizes": (4, 4), "evidence_cap": 3.0},
        {"hidden_layer_sizes": 5, "n_bins": 4},
        {"hidden_layer_sizes": (), "n_bins": 8, "evidence_cap": 10.0},
    ]
    return [every[i] for i in rng.choice(len(every), rng.integers(1, 4), replace=False)]


def _regressor_cv(rng: Generator) -> PBPRegressorCV:
    options = _of_cv(rng)
    if options["candidates"] != "auto":
        noise = str(rng.choice(["auto", "constant", "input"]))
        options["candidates"] = [{**c, "noise": noise} for c in options["candidates"]]
    return PBPRegressorCV(**options)


def _classifier_cv(rng: Generator) -> PBPClassifierCV:
    return PBPClassifierCV(**_of_cv(rng))


_ESTIMATORS = (_regressor, _classifier, _regressor_cv, _regressor_cv, _classifier_cv)


def _is_classifier(model: Any) -> bool:
    return isinstance(model, PBPClassifier | PBPClassifierCV)


def _is_cv(model: Any) -> bool:
    return isinstance(model, PBPRegressorCV | PBPClassifierCV)


def _marginalizes(model: Any) -> bool:
    return bool(model.missing == "marginalize")


def _with_folds(rng: Generator, model: Any, t: Table) -> tuple[Any, Table]:
    """Let some cross-validations have another splitter, groups, or a power of the target."""
    n = len(t.y)
    if not _is_cv(model):
        return model, t
    positive = t.y.dtype.kind == "f" and bool((t.y > 0.0).all())
    if positive and model.candidates != "auto" and rng.uniform() < 0.4:
        power = float(rng.choice([0.0, 0.5]))
        model.set_params(candidates=[{**c, "power": power} for c in model.candidates])
    kind = rng.uniform()
    counts = n if t.weights is None else int(np.count_nonzero(t.weights))
    if counts < n or n < 12:  # a splitter ignores weights: its folds might be empty
        return model, t
    if kind < 0.1:
        return model.set_params(cv=KFold(3, shuffle=True, random_state=0)), t
    if kind < 0.2:
        return model.set_params(cv=TimeSeriesSplit(3)), t
    if kind < 0.35:
        groups = np.arange(n) % int(rng.integers(3, 7))
        splitter = GroupKFold(3) if kind < 0.25 else model.cv
        return model.set_params(cv=splitter), replace(t, groups=groups)
    return model, t


# ---- Checks


class Findings(list[dict[str, str]]):
    """What is wrong in a case."""

    def note(self, kind: str, detail: str = "") -> None:
        """Keep the first finding of its kind."""
        if kind not in [each["kind"] for each in self]:
            self.append({"kind": kind, "detail": detail[:300]})

    @contextmanager
    def catching(self, doing: str) -> Iterator[None]:
        """Keep every error and every warning of a library while something is done."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                yield
            except Exception as error:
                self.note(f"{doing}: {type(error).__name__}", f"{error} [{_where(error)}]")
        for warning in caught:
            if not _is_ours(str(warning.filename)) and not _is_own_warning(warning):
                where = f"{Path(warning.filename).name}:{warning.lineno}"
                self.note(f"{doing}: warning", f"{warning.message} [{where}]")


def _is_own_warning(warning: warnings.WarningMessage) -> bool:
    return str(warning.message).startswith("In ")  # ... updates: at the caller's line


_OWN = str(Path(probprop.__file__).parent)


def _is_ours(filename: str) -> bool:
    """Whether a warning points to a line of a caller: a library's has the line of its cause."""
    return not filename.startswith(_OWN) and "site-packages" not in filename


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(_OWN)] or frames
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}"


def in_own_words(error: BaseException) -> bool:
    """Return whether this package, or a validation of scikit-learn for it, raised an error."""
    if not isinstance(error, ValueError | TypeError):
        return False
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    return last.startswith(_OWN) or Path(last).parts[-3:-1] == ("sklearn", "utils")


def check(case: Case) -> Findings:
    """Return what is wrong with a case."""
    found = Findings()
    if case.invalid:
        _check_refusal(case, found)
        return found
    model = None
    with found.catching("fit"):
        model = case.table.fitted(case.model)
    if model is None:
        return found
    _check_predictions(case, model, found)
    _check_file(case, model, found)
    with found.catching("refit"):
        check_units(case, model, found)
    if case.rng.uniform() < 0.2:
        with found.catching("partial_fit"):
            _check_stream(case, model, found)
    if not _is_cv(case.model) and not _marginalizes(case.model):
        with found.catching("sparse"):
            _check_sparse(case, found)
    return found


def _check_refusal(case: Case, found: Findings) -> None:
    try:
        case.table.fitted(case.model)
    except Exception as error:
        if not in_own_words(error):
            found.note(f"invalid data: {type(error).__name__}", f"{error} [{_where(error)}]")
    else:
        found.note("invalid data accepted", case.invalid)


def _check_predictions(case: Case, model: Any, found: Findings, when: str = "") -> None:
    t = case.table
    for kind, rows in (("", t.X_new), ("far ", t.X_far)):
        with found.catching(f"{when}{kind}predict"):
            if case.is_regression:
                _check_values(model, rows, found, f"{when}{kind}")
            else:
                _check_classes(model, rows, found, f"{when}{kind}")
    if case.is_regression:
        with found.catching(f"{when}logpdf"):
            counts = slice(None) if t.weights is None else t.weights > 0.0  # others may be far off
            p = model.predict_distribution(t.X[counts])
            if not np.isfinite(p.logpdf(t.y[counts])).all():
                found.note(f"{when}log density not finite")


def _check_values(model: Any, X: FloatArray, found: Findings, when: str) -> None:
    p = model.predict_distribution(X)
    quantiles = np.stack([p.ppf(q) for q in _LEVELS])
    low, high = p.interval(0.9999)
    names = {"mean": p.mean, "std": p.std, "quantiles": quantiles, "interval": (low, high)}
    for name, values in names.items():
        if not np.isfinite(values).all():
            found.note(f"{when}{name} not finite")
    with np.errstate(invalid="ignore"):
        if (np.diff(quantiles, axis=0) < 0.0).any() or (low > high).any():
            found.note(f"{when}quantiles out of order")
        width = high - low
        outside = np.maximum(low - width - p.mean, p.mean - high - width) > 0.0
        if outside.any():
            i = int(np.argmax(outside))
            text = f"mean {p.mean[i]:.3g}, interval [{low[i]:.3g}, {high[i]:.3g}]"
            found.note(f"{when}mean outside its interval", text)
        if (p.std > width).any():
            i = int(np.argmax(p.std / width))
            text = f"std {p.std[i]:.3g}, interval [{low[i]:.3g}, {high[i]:.3g}]"
            found.note(f"{when}std above its interval", text)
    if hasattr(model, "predict_gradient") and not np.isnan(X).any():
        gradient = model.predict_gradient(X)
        for name in ("dmean_dX", "depistemic_std_dX", "daleatoric_std_dX"):
            if not np.isfinite(getattr(gradient, name)).all():
                found.note(f"{when}{name} not finite")


def _check_classes(model: Any, X: FloatArray, found: Findings, when: str) -> None:
    p = model.predict_distribution(X)
    for name in ("proba", "log_proba", "entropy", "entropy_model"):
        if not np.isfinite(getattr(p, name)).all():
            found.note(f"{when}{name} not finite")
    if not np.abs(p.proba.sum(axis=1) - 1.0).max() < 1e-9:
        found.note(f"{when}probabilities do not add to 1")


def _summary(model: Any, X: FloatArray) -> FloatArray:
    """Return what a model predicts, (n, k): moments and quantiles, or probabilities."""
    p = model.predict_distribution(X)
    if hasattr(p, "proba"):
        return np.asarray(p.proba)
    return np.column_stack([p.ppf(0.05), p.mean, p.ppf(0.5), p.ppf(0.95), p.std])


def _check_file(case: Case, model: Any, found: Findings, when: str = "") -> None:
    with tempfile.TemporaryDirectory() as folder, found.catching(f"{when}save"):
        path = Path(folder) / "model"
        model.save(path)
        again = load(path)
        X = case.table.X_far
        same = np.array_equal(_summary(model, X), _summary(again, X), equal_nan=True)
        if not same:
            found.note(f"{when}the loaded model predicts otherwise")


def _check_stream(case: Case, model: Any, found: Findings) -> None:
    t = case.table
    some = slice(0, min(10, len(t.y)))
    weights = None if t.weights is None else t.weights[some]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UpdateWarning)
        model.partial_fit(t.X[some], t.y[some], sample_weight=weights)
    _check_predictions(case, model, found, "partial_fit, ")
    _check_file(case, model, found, "partial_fit, ")


def _check_sparse(case: Case, found: Findings) -> None:
    """Fit standardized features, two thirds of which are made 0, as sparse rows and as an array."""
    t, y = case.table, case.table.y
    rows = _standardized(np.concatenate([t.X, t.X_new]))
    rows[case.rng.uniform(size=rows.shape) < 0.67] = 0.0
    X, X_new = rows[: len(y)], rows[len(y) :]
    if case.is_regression:
        y = (y - y.mean()) / (y.std() if case.has_scale else 1.0)
    model = clone(case.model).set_params(standardize=False, dtype="float64")
    sparsely, densely = (replace(t, X=rows, y=y).fitted(model) for rows in (csr_array(X), X))
    got, expected = _summary(sparsely, csr_array(X_new)), _summary(densely, X_new)
    width = expected[:, 3:4] - expected[:, :1] if case.is_regression else 1.0
    difference = float((np.abs(got - expected) / width).max())
    if not difference <= AGREES:
        found.note("sparse rows predict otherwise", f"{difference:.3g}")


# ---- Units


@dataclass(frozen=True, eq=False)
class Units:
    """Factors of the features, of the target and of the weights.

    Parameters
    ----------
    what : {"X", "y", "weights"}
        What has another unit.
    exact : bool
        Whether the factors are powers of two, and no column is a matter of rounding alone.
    x : ndarray of shape (n_features,) or float, default=1.0
    y, weights : float, default=1.0
    """

    what: str
    exact: bool
    x: FloatArray | float = 1.0
    y: float = 1.0
    weights: float = 1.0

    @property
    def factors(self) -> str:
        """The factors in words."""
        shown = {"X": self.x, "y": self.y, "weights": self.weights}[self.what]
        return f"factors {np.array2string(np.asarray(shown), precision=4)}"

    def of(self, t: Table) -> Table:
        """Return the table in these units."""
        return replace(
            t,
            X=t.X * self.x,
            y=t.y if self.y == 1.0 else t.y * self.y,
            weights=None if t.weights is None else t.weights * self.weights,
        )


def _drawn_units(case: Case) -> Units:
    rng, exact = case.rng, bool(case.rng.uniform() < 0.5)
    choices = ["X", *["y"] * (case.is_regression and case.has_scale)]
    what = str(rng.choice([*choices, *["weights"] * (case.table.weights is not None)]))
    if what != "X":
        return Units(what, exact, **{what: float(_factors(rng, exact)[0])})
    x = _factors(rng, exact, len(case.columns))
    tiny = np.array([kind == "denormal" for kind in case.columns])
    exact &= not tiny.any() and "constant but for rounding" not in case.columns
    return Units(what, exact, x=np.where(tiny, np.maximum(x, 1.0 / x), x))  # not yet smaller


def _factors(rng: Generator, exact: bool, n: int = 1) -> FloatArray:
    power = rng.uniform(-4.0, 4.0, n)
    factors: FloatArray = 2.0 ** np.round(5.0 * power) if exact else 10.0**power
    return factors


def check_units(case: Case, model: Any, found: Findings, units: Units | None = None) -> None:
    """Compare the model with one in other units: these, or drawn ones."""
    t, units = case.table, units or _drawn_units(case)
    X = _with_known_units(t)
    before = _summary(model, X)
    if not np.isfinite(before).all():
        return  # a finding already

    def difference(after: FloatArray) -> float:
        width = before[:, 3:4] - before[:, :1] if case.is_regression else 1.0
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return float(np.nan_to_num(np.abs(after - before) / width, nan=np.inf).max())

    other = units.of(t).fitted(case.model)
    found_in_units = difference(_summary(other, X * units.x) / units.y)
    if found_in_units <= AGREES:
        return
    text = f"{found_in_units:.3g} with {units.factors}"
    if units.exact and not any(map(_has_power, (model, other))):
        found.note(f"unit of {units.what}, power of two", text)
        return
    by_rounding = 0.0
    for _ in range(_MOST_ROUNDED):
        refitted = _rounded(t, case.rng).fitted(case.model)
        by_rounding = max(by_rounding, difference(_summary(refitted, X)))
        if found_in_units <= _EXPLAINED * by_rounding:
            break
    if found_in_units <= _EXPLAINED * by_rounding:
        case.notes["rounding"] = 1
    elif _is_cv(model) and _selected(model) != _selected(other):
        case.notes["selection"] = 1
    else:
        kind = "power of two" if units.exact else "decimal"
        found.note(f"unit of {units.what}, {kind}", f"{text}; other roundings {by_rounding:.3g}")


def _with_known_units(t: Table) -> FloatArray:
    """Return rows to compare: a constant feature, which has no unit, is constant in them too."""
    return _with_constants(t.X, t.weights, np.concatenate([t.X[:_N_NEW], t.X_new]))


def _selected(model: Any) -> tuple[Any, int]:
    return [(group.candidate, group.n_epochs) for group in model.groups_]


def _has_power(model: Any) -> bool:
    """Return whether the target is predicted under a Box–Cox transformation."""
    return getattr(getattr(model, "calibration_", None), "transformation", None) is not None


def _rounded(t: Table, rng: Generator) -> Table:
    """Return the table with every number replaced by one of its two neighbors."""

    def with_errors(a: Array) -> Array:
        toward = np.where(rng.uniform(size=a.shape) < 0.5, -np.inf, np.inf)
        return np.where(a == 0.0, a, np.nextafter(a, toward))

    y = with_errors(t.y) if t.y.dtype.kind == "f" else t.y
    return replace(t, X=with_errors(t.X), y=y)


# ---- The command


def measure(
    seed: int, case: int, most_rows: int, draw: Callable[[int, int, int], Case] = draw
) -> Figures:
    """Return what a case is and what is wrong with it."""
    start = time.process_time()
    drawn = draw(seed, case, most_rows)
    found = check(drawn)
    return {
        "estimator": type(drawn.model).__name__,
        "target": drawn.target,
        "invalid": drawn.invalid,
        "notes": list(drawn.notes),
        "findings": list(found),
        "seconds": round(time.process_time() - start, 3),
    }


def described(case: Case) -> str:
    """Return what a case is, in lines."""
    t, values = case.table, np.unique(case.table.y)
    return "\n".join(
        [
            f"model    {case.model}",
            f"table    {t.X.shape[0]} rows; columns: {', '.join(case.columns)}",
            f"target   {case.target}, from {values[0]} to {values[-1]}",
            f"weights  {case.weights}{'; groups' if t.groups is not None else ''}",
            *([f"invalid  {case.invalid}"] if case.invalid else []),
        ]
    )


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table of fits per estimator, and of findings by their kinds."""
    names = sorted({row["estimator"] for row in rows})
    lines = []
    for name in (*names, "all"):
        own = [row for row in rows if name in (row["estimator"], "all")]
        count = [
            len(own),
            sum(bool(row["invalid"]) for row in own),
            sum("rounding" in row["notes"] for row in own),
            sum("selection" in row["notes"] for row in own),
            sum(bool(row["findings"]) for row in own),
        ]
        lines.append([name, *map(str, count), f"{sum(row['seconds'] for row in own):.0f} s"])
    header = ["", "cases", "invalid data", "rounding", "selection", "with findings", "time"]
    kinds: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        for kind in dict.fromkeys(each["kind"] for each in row["findings"]):
            kinds[kind].append(row["case"])
    if not kinds:
        return f"{table(header, lines)}\n\nNo findings."
    found = [
        [kind, str(len(cases)), ", ".join(map(str, cases[:8]))]
        for kind, cases in sorted(kinds.items(), key=lambda item: -len(item[1]))
    ]
    listed = table(["finding", "cases", "the first of them"], found, texts=(0, 2))
    return f"{table(header, lines)}\n\n{listed}"


def main(argv: Sequence[str] | None = None, draw: Callable[[int, int, int], Case] = draw) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("--fits", type=int, default=3000, help="number of cases")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS, help="file to resume from")
    parser.add_argument("--most-rows", type=int, default=MOST_ROWS, help="rows of a table")
    parser.add_argument("--case", type=int, help="run this case alone, and print what it is")
    arguments = parser.parse_args(argv)
    seed, most_rows = arguments.seed, arguments.most_rows
    if arguments.case is not None:
        print(described(case := draw(seed, arguments.case, most_rows)))
        findings = check(case)
        print(*(f"{each['kind']}: {each['detail']}" for each in findings), sep="\n")
        return int(bool(findings))
    n = arguments.fits
    cases = [{"seed": seed, "case": i, "most_rows": most_rows} for i in range(n)]
    arguments.results.parent.mkdir(parents=True, exist_ok=True)
    with progress(1, None) as report:
        rows = rows_of(
            arguments.results,
            cases,
            partial(measure, draw=draw),
            lambda case: report(Share(case["case"] / n, "fitting")),
        )
    print(summary(rows))
    return int(any(row["findings"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
