"""Other packages on diabetes: ``python -m benchmarks.guide.packages``.

``docs/results/packages.md`` has scores of probprop, of scikit-learn's regressors and, where it is
installed, of NGBoost on ten splits, what they say far from the data, and how many checks of
scikit-learn they fail.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

from benchmarks.clock import say
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop import PBPRegressor, PBPRegressorCV, metrics
from probprop._types import FloatArray
from probprop_lab.experiments.harness.benchmark import mean_and_error

FAR = (0.0, 5.0, 50.0)  # standard deviations of the body mass index, all else at its mean
_BODY_MASS = 2  # its column
_NONE = "–"


class Predicted(NamedTuple):
    """What a model says about rows: in the units of the target it was fitted on."""

    mean: FloatArray
    std: FloatArray | None = None


def of_scikit_learn(model: Any, X: FloatArray) -> Predicted:
    return Predicted(*model.predict(X, return_std=True))


def of_means(model: Any, X: FloatArray) -> Predicted:
    return Predicted(model.predict(X))


def of_ngboost(model: Any, X: FloatArray) -> Predicted:
    found = model.pred_dist(X)
    return Predicted(found.loc, found.scale)


class Package(NamedTuple):
    """A regressor with its default parameters, and how it predicts; some take minutes to check."""

    model: Any
    ask: Callable[[Any, FloatArray], Predicted] = of_scikit_learn
    checked: bool = True


def packages() -> dict[str, Package]:
    """Return those that are installed."""
    kernel = 1.0 * RBF() + WhiteKernel()
    found = {
        "`PBPRegressor`": Package(PBPRegressor(random_state=0)),
        "`PBPRegressorCV`": Package(PBPRegressorCV(random_state=0), checked=False),
        "`GaussianProcessRegressor`": Package(GaussianProcessRegressor(kernel, random_state=0)),
        "`MLPRegressor`": Package(MLPRegressor(random_state=0), of_means),
        "`BayesianRidge`": Package(BayesianRidge()),
    }
    if importlib.util.find_spec("ngboost") is not None:
        from ngboost import NGBRegressor

        model = NGBRegressor(verbose=False, random_state=0)
        found["NGBoost"] = Package(model, of_ngboost, checked=False)
    return found


def evaluate(package: Package, split: int) -> Figures:
    """Fit on four fifths, features and target standardized by them; score in target units."""
    parts = train_test_split(*load_diabetes(return_X_y=True), test_size=0.2, random_state=split)
    X_train, X_test, y_train, y_test = parts
    scaler, center, scale = StandardScaler().fit(X_train), y_train.mean(), y_train.std()
    model = clone(package.model).fit(scaler.transform(X_train), (y_train - center) / scale)
    predicted = package.ask(model, scaler.transform(X_test))
    mean = center + scale * predicted.mean
    scores: Figures = {"rmse": metrics.rmse(y_test, mean)}
    if predicted.std is not None:
        std = scale * predicted.std
        ends = norm.interval(0.95, mean, std)
        scores["log_likelihood"] = float(np.mean(norm.logpdf(y_test, mean, std)))
        scores["coverage"] = metrics.interval_coverage(y_test, *ends)
    return scores


def far(package: Package) -> list[float] | None:
    """Return standard deviations, in target units, ever further along one feature."""
    X, y = load_diabetes(return_X_y=True)
    model = clone(package.model).fit(StandardScaler().fit_transform(X), (y - y.mean()) / y.std())
    rows = np.zeros((len(FAR), X.shape[1]))
    rows[:, _BODY_MASS] = FAR
    std = package.ask(model, rows).std
    return None if std is None else [float(y.std() * value) for value in std]


def failed(model: Any) -> list[str]:
    """Return the names of the checks of scikit-learn that a model fails."""
    checks = check_estimator(clone(model), on_fail=None)
    return [check["check_name"] for check in checks if check["status"] == "failed"]


def main(
    argv: Sequence[str] | None = None,
    models: Mapping[str, Package] | None = None,
    failing: Callable[[Any], list[str]] = failed,
) -> None:
    """Score these models, or all that are installed."""
    parser = parser_of("packages", __doc__)
    parser.add_argument("--splits", type=int, default=10)
    arguments = parser.parse_args(argv)
    found: Figures = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and what the checks provoke
        for name, package in (models or packages()).items():
            say(name)
            found[name] = {
                "splits": [evaluate(package, k) for k in range(arguments.splits)],
                "far": far(package),
                "failed": failing(package.model) if package.checked else None,
            }
    write(arguments.results, "packages", found, {"packages": page(found)})


def page(found: Figures) -> str:
    """Return a line per model."""
    rows = []
    for name, f in found.items():
        scores = {what: [run[what] for run in f["splits"]] for what in f["splits"][0]}
        coverage = scores.get("coverage")
        rows.append(
            [
                name,
                _with_error(scores["rmse"], 1),
                _with_error(scores.get("log_likelihood"), 3),
                _NONE if coverage is None else f"{100.0 * np.mean(coverage):.1f} %",
                _NONE if f["far"] is None else ", ".join(f"{value:.0f}" for value in f["far"]),
                _NONE if f["failed"] is None else f"{len(f['failed'])}",
            ]
        )
    header = ["", "test RMSE", "test log-likelihood", "95 % interval covers"]
    last = ["std at 0, 5, 50 deviations along one feature", "checks failed"]
    return table([*header, *last], rows) + "\n"


def _with_error(values: list[float] | None, decimals: int) -> str:
    if values is None:
        return _NONE
    return f"{mean(values, decimals)} ± {mean_and_error(values)[1] or 0.0:.{decimals}f}"


if __name__ == "__main__":
    main()
