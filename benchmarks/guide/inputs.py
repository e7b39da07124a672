"""Uncertain inputs: how wide predictions become, what imputing gains, what it costs.

``python -m benchmarks.guide.inputs`` writes the three tables of ``docs/results/inputs*.md``.
It uses five benchmark sets; those whose files are not at hand are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401
from sklearn.impute import IterativeImputer, SimpleImputer

from benchmarks.clock import median, say, seconds_per_call, timed
from benchmarks.guide.pages import Figures, at_hand, parser_of, write
from benchmarks.markdown import table
from benchmarks.paired import difference, mean
from probprop import PBPRegressor, metrics
from probprop._types import Array, FloatArray
from probprop.inference.engine import ENGINES
from probprop_lab.experiments.beyond.missing import with_holes
from probprop_lab.experiments.harness.benchmark import Loader, Parts, load_split

SETS = ("boston_housing", "concrete", "energy", "wine_red", "yacht")
SHARE = 0.3  # of the entries of X that are deleted
WIDTHS = (0.3, 1.0)  # standard deviations of the inputs, as shares of the features'

_N_ROWS = 50  # test rows whose width is measured
_FROM_OTHERS = [1, 3, 4]  # surface, roof and height of energy: they follow from its shape


def main(argv: Sequence[str] | None = None, load: Loader = load_split) -> None:
    parser = parser_of("inputs", __doc__, at_hand(SETS))
    parser.add_argument("--splits", type=int, default=20, help="of energy")
    parser.add_argument("--few", type=int, default=8, help="splits of the other comparison")
    parser.add_argument("--draws", type=int, default=1_000, help="of the inputs, for a width")
    parser.add_argument("--imputers", type=int, default=10)
    parser.add_argument("--pairs", type=int, default=9, help="of timings")
    arguments = parser.parse_args(argv)
    sets, few = arguments.sets, range(arguments.few)
    figures: Figures = {"n_draws": arguments.draws, "n_pairs": arguments.pairs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of few rounds of the imputer
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts
        say("widths")
        figures["widths"] = {name: widths(*load(name, 0), n_draws=arguments.draws) for name in sets}
        say("missing entries integrated over")
        figures["integrated"] = {name: [integrated(load(name, k), k) for k in few] for name in sets}
        if "energy" in sets:
            say("energy imputed")
            of_energy = [(load("energy", k), k) for k in range(arguments.splits)]
            figures["imputed"] = [imputed(*each, arguments.imputers) for each in of_energy]
            figures["without"] = [without_what_follows(*each) for each in of_energy]
        if "concrete" in sets:
            say("cost")
            X, y, _, _ = load("concrete", 0)
            figures["cost"] = {
                str(hidden): cost(X, y, hidden, arguments.pairs) for hidden in ((50,), (50, 50))
            }
    write(arguments.results, "inputs", figures, pages(figures))


# ---- How wide


def widths(X_train: Array, y_train: Array, X_test: Array, y_test: Array, n_draws: int) -> Figures:
    """Return medians over rows of epistemic_std over what draws of the inputs give."""
    rng = np.random.default_rng(0)
    rows, scales = X_test[:_N_ROWS], X_train.std(axis=0)
    found: Figures = {}
    for hidden, what in (((), "linear"), ((50,), "network")):
        model = PBPRegressor(hidden, random_state=0).fit(X_train, y_train)
        for width in WIDTHS:
            std = width * scales
            drawn = drawn_std(
                model, lambda rng, std=std: rows + std * normal(rng, rows), rng, n_draws
            )
            integrated = model.predict_distribution(rows, X_std=std).epistemic_std
            found[f"{what} {width}"] = ratio(integrated, drawn)
            found[f"{what} {width} propagated"] = ratio(propagated(model, rows, std), drawn)
    holed_train, holed = (with_holes(X, SHARE, np.random.default_rng(1)) for X in (X_train, rows))
    model = PBPRegressor(missing="marginalize", random_state=0).fit(holed_train, y_train)
    means, stds = np.nanmean(holed_train, axis=0), np.nanstd(holed_train, axis=0)

    def filled(rng: np.random.Generator) -> FloatArray:
        return np.where(np.isnan(holed), means + stds * normal(rng, rows), holed)

    drawn = drawn_std(model, filled, rng, n_draws)
    predicted = model.predict_distribution(holed)
    found["missing"] = ratio(predicted.epistemic_std, drawn)
    found["missing, std"] = ratio(predicted.std, np.hypot(drawn, predicted.aleatoric_std))
    return found


def drawn_std(
    model: PBPRegressor,
    draw: Callable[[np.random.Generator], FloatArray],
    rng: np.random.Generator,
    n_draws: int,
) -> FloatArray:
    """Return the standard deviation of the mixture over drawn inputs, (n,): the oracle."""
    drawn = [model.predict_distribution(draw(rng)) for _ in range(n_draws)]
    means = np.stack([p.mean for p in drawn])
    variances = np.stack([p.epistemic_std**2 for p in drawn])
    return np.sqrt(variances.mean(axis=0) + means.var(axis=0))


def propagated(model: PBPRegressor, X: Array, std: FloatArray) -> FloatArray:
    """Return epistemic_std by [PBP15] Eqs. (13) to (17) with the variance of the inputs in (17)."""
    standardizer = model.standardizer_
    X_var = np.broadcast_to((std / standardizer.x_scale) ** 2, X.shape).copy()
    engine = ENGINES["native"]
    _, variance = engine.predict_moments(model.posterior_, X, X_var, standardizer)
    return np.sqrt(variance) * standardizer.y_scale


def normal(rng: np.random.Generator, like: Array) -> FloatArray:
    return rng.standard_normal(like.shape)


def ratio(ours: FloatArray, drawn: FloatArray) -> float:
    return float(np.median(ours / drawn))


# ---- Missing entries


def integrated(parts: Parts, split: int) -> dict[str, float]:
    """Return by how much integrating over missing entries raises the log-likelihood."""
    gains = {}
    for share in (0.1, SHARE):
        X_train, y_train, X_test, y_test = _holed(parts, split, share)
        model = PBPRegressor(missing="marginalize", random_state=split).fit(X_train, y_train)
        means, stds = np.nanmean(X_train, axis=0), np.nanstd(X_train, axis=0)
        holes = np.isnan(X_test)
        filled, std = np.where(holes, means, X_test), np.where(holes, stds, 0.0)
        log_p = model.predict_distribution(filled, X_std=std).logpdf(y_test)
        gains[str(share)] = float(
            np.mean(log_p - model.predict_distribution(X_test).logpdf(y_test))
        )
    return gains


def imputed(parts: Parts, split: int, n_imputers: int) -> Figures:
    """Return the scores of the treatments of missing values of energy."""
    X_train, y_train, X_test, y_test = _holed(parts, split, SHARE)

    def scores(train: Array, test: Array, train_std: Any = None, test_std: Any = None) -> Figures:
        gaps = "marginalize" if np.isnan(train).any() else "error"
        model = PBPRegressor(missing=gaps, random_state=split)
        model.fit(train, y_train, X_std=train_std)
        return _scores(model.predict_distribution(test, X_std=test_std), y_test)

    simple = SimpleImputer().fit(X_train)
    imputers = [
        IterativeImputer(sample_posterior=True, max_iter=5, random_state=seed).fit(X_train)
        for seed in range(n_imputers)
    ]
    draws = [np.array([i.transform(X) for i in imputers]) for X in (X_train, X_test)]
    means, stds = [d.mean(axis=0) for d in draws], [d.std(axis=0) for d in draws]
    return {
        "mean": scores(simple.transform(X_train), simple.transform(X_test)),
        '`missing="marginalize"`': scores(X_train, X_test),
        "ten draws, their mean": scores(*means),
        "ten draws, their mean and `X_std`": scores(*means, *stds),
    }


def without_what_follows(parts: Parts, split: int) -> Figures:
    """Return the same two of energy without the features that follow from others."""
    X_train, y_train, X_test, y_test = _holed(parts, split, SHARE)
    X_train, X_test = (np.delete(X, _FROM_OTHERS, axis=1) for X in (X_train, X_test))
    simple = SimpleImputer().fit(X_train)
    model = PBPRegressor(random_state=split).fit(simple.transform(X_train), y_train)
    gaps = PBPRegressor(missing="marginalize", random_state=split).fit(X_train, y_train)
    return {
        "mean": _scores(model.predict_distribution(simple.transform(X_test)), y_test),
        '`missing="marginalize"`': _scores(gaps.predict_distribution(X_test), y_test),
    }


def _holed(parts: Parts, split: int, share: float) -> Parts:
    """Return a split with the holes of `probprop reproduce missing`."""
    X_train, y_train, X_test, y_test = parts
    rng = np.random.default_rng(split)
    holed = [with_holes(X, share, rng) for X in (X_train, X_test)]
    return holed[0], y_train, holed[1], y_test


def _scores(predicted: Any, y: Array) -> dict[str, float]:
    return {
        "rmse": metrics.rmse(y, predicted.mean),
        "log_likelihood": float(np.mean(predicted.logpdf(y))),
    }


# ---- Cost


def cost(X: Array, y: Array, hidden: tuple[int, ...], n_pairs: int) -> dict[str, float]:
    """Return how many times as long fits and predictions of concrete take, medians of pairs."""
    holed, std = with_holes(X, SHARE, np.random.default_rng(0)), 0.1 * X.std(axis=0)
    known = PBPRegressor(hidden, random_state=0)
    gaps = PBPRegressor(hidden, missing="marginalize", random_state=0)
    work: list[Callable[[], object]] = [
        lambda: known.fit(X, y),
        lambda: known.fit(X, y, X_std=std),
        lambda: gaps.fit(holed, y),
    ]
    fits = [[timed(fit)[0] for fit in work] for _ in range(n_pairs)]
    known.fit(X, y)
    calls = [
        [
            seconds_per_call(lambda: known.predict(X, return_std=True), 20),
            seconds_per_call(lambda: gaps.predict(holed, return_std=True), 20),
            seconds_per_call(lambda: known.predict(X, return_std=True, X_std=std), 1),
        ]
        for _ in range(n_pairs)
    ]
    return {
        "fit with `X_std`": median([b / a for a, b, _ in fits]),
        "fit with missing entries": median([c / a for a, _, c in fits]),
        "prediction with missing entries": median([b / a for a, b, _ in calls]),
        "prediction with `X_std`": median([c / a for a, _, c in calls]),
        "microseconds": 1e6 * median([c for *_, c in calls]) / len(X),
    }


# ---- The pages


def pages(figures: Figures) -> dict[str, str]:
    """Return the three tables by the names of their files."""
    found = {"inputs_width": _width_page(figures)}
    if "imputed" in figures:
        found["inputs_imputed"] = _imputed_page(figures)
    if "cost" in figures:
        found["inputs_cost"] = _cost_page(figures["cost"], figures["n_pairs"])
    return found


def _width_page(figures: Figures) -> str:
    by_set: dict[str, Figures] = figures["widths"]

    def over(keys: Sequence[str]) -> str:
        values = [found[key] for found in by_set.values() for key in keys]
        low, high = f"{min(values):.2f}", f"{max(values):.2f}"
        return low if low == high else f"{low} to {high}"

    network = [f"network {width}" for width in WIDTHS]
    linear = [f"linear {width}" for width in WIDTHS]
    rows = [
        ["no hidden layer, `X_std` of 0.3 or 1 standard deviations", over(linear)],
        ["one layer, the same", over(network)],
        ["one layer, the same, if it were propagated", over([f"{k} propagated" for k in network])],
        ["fitted with 30 % missing, predicted with 30 % missing", over(["missing"])],
        ["the same with the noise, `std`", over(["missing, std"])],
    ]
    gains = [
        float(np.mean([gain[share] for gain in runs]))
        for runs in figures["integrated"].values()
        for share in runs[0]
    ]
    n = len(next(iter(figures["integrated"].values())))
    return "\n".join(
        [
            table(["", "`epistemic_std` / drawn (median)"], rows),
            "",
            f"Split 0 of {', '.join(by_set)}; {figures['n_draws']:,} draws of the inputs of "
            f"{_N_ROWS} test rows; the range over the sets. Integrating over "
            f"missing entries instead of propagating them changes the log-likelihood by "
            f"{mean([min(gains)], 2)} to {mean([max(gains)], 2)} (means over {n} splits of each "
            "set, 10 and 30 % missing).",
            "",
        ]
    )


def _imputed_page(figures: Figures) -> str:
    runs: list[Figures] = figures["imputed"]
    base = [f["mean"]["log_likelihood"] for f in runs]
    rows = []
    for name in runs[0]:
        log_p = [f[name]["log_likelihood"] for f in runs]
        gain = "" if name == "mean" else difference(log_p, base, 3)
        rows.append([name, mean([f[name]["rmse"] for f in runs], 2), mean(log_p, 3), gain])
    simple, gaps = (
        [f[name]["log_likelihood"] for f in figures["without"]]
        for name in ("mean", '`missing="marginalize"`')
    )
    return "\n".join(
        [
            table(["", "RMSE", "log-likelihood", "above the mean"], rows),
            "",
            f"Energy with 30 % missing, {len(runs)} splits. Without the surface, the roof and the "
            "height (X2, X4, X5) marginalizing gains "
            f"{difference(gaps, simple, 2)} in log-likelihood.",
            "",
        ]
    )


def _cost_page(found: dict[str, dict[str, float]], n_pairs: int) -> str:
    one, two = found.values()
    rows = [[what, _times(one[what]), _times(two[what])] for what in one if what != "microseconds"]
    return "\n".join(
        [
            table(["times as long as with known inputs", "one layer of 50", "two"], rows),
            "",
            f"Concrete, 927 rows, 8 features; medians of {n_pairs} interleaved pairs, processor "
            f"time. A prediction with `X_std` takes {one['microseconds']:.0f} µs per row with one "
            "layer.",
            "",
        ]
    )


def _times(value: float) -> str:
    return f"{value:.1f}" if value < 10.0 else f"{value:.0f}"


if __name__ == "__main__":
    main()
