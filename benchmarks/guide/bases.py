"""Bases of the piecewise-linear encoding: ``python -m benchmarks.guide.bases --density FOLDER``.

It trains single networks in five folds on centered ramps, on ramps that are 0 at the median, on
hierarchical hats and on the columns alone, with one hidden layer and with two, and compares their
calibrated out-of-fold log-likelihood. ``docs/results/bases.jsonl`` has a row per case, and
``bases.md`` the mean differences over the sets. The folder has the sets of the density benchmark
(https://arxiv.org/abs/2603.26611) as ``NAME.csv.gz`` without a header, the target last; without it
the benchmark sets of the literature are used alone. ``--show`` measures nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
from numpy.random import RandomState
from sklearn.model_selection import KFold, train_test_split

from benchmarks.clock import timed
from benchmarks.guide.pages import Figures, parser_of, rows_of, write_pages
from benchmarks.markdown import table
from benchmarks.paired import difference
from probprop._types import Array, FloatArray
from probprop.encoding.piecewise import encode, fit_piecewise
from probprop.estimators.cv.calibration import OutOfFold
from probprop.estimators.cv.folds import Encodings
from probprop.inference import training
from probprop.inference.inputs import Inputs
from probprop.inference.likelihoods import Gaussian
from probprop.inference.plan import Plan
from probprop.inference.prediction import output_moments
from probprop.inference.standardize import fit_standardizer, leaving_features, measure
from probprop_lab.experiments.harness.benchmark import Parts, load_split
from probprop_lab.results import read_rows

SETS = (
    "yacht",
    "energy",
    "concrete",
    "boston_housing",
    "wine_red",
    "kin8nm",
    "naval_propulsion",
    "power_plant",
    "protein",
)
DENSITY = (
    "CalHousing",
    "CPUact",
    "Puma8NH",
    "Diamonds",
    "CPS88Wages",
    "CpuSmall",
    "WhiteWine",
    "Ailerons",
)
EPOCHS = (20, 40, 80, 160)
CAP = 10.0  # evidence cap
N_ROWS, N_DENSITY = 750, 1_000
LARGE = ("kin8nm", "power_plant", "protein", "naval_propulsion", "CalHousing", "Diamonds")
N_LARGE = 5_000

Encoder = Callable[[Array], Array]
Load = Callable[[str, int, int, Path | None], Parts]


# ---- The data


def load(dataset: str, split: int, n: int, folder: Path | None) -> Parts:
    """Return training and test samples: at most n to train on."""
    if dataset in SETS:
        X, y, X_test, y_test = load_split(dataset, split)
        some, others = (RandomState(0).permutation(len(a))[:n] for a in (y, y_test))
        return X[some], y[some], X_test[others], y_test[others]
    rows = _read(dataset, folder)
    n_all = max(N_DENSITY, n * 4 // 3)
    rows = rows[RandomState(42).permutation(len(rows))[:n_all]]
    parts = train_test_split(rows[:, :-1], rows[:, -1], test_size=0.25, random_state=split)
    X, X_test, y, y_test = parts
    return X, y, X_test, y_test


@lru_cache(maxsize=1)
def _read(dataset: str, folder: Path | None) -> FloatArray:
    if folder is None:
        raise ValueError(f"{dataset} is a set of the density benchmark: give --density FOLDER.")
    return np.loadtxt(folder / f"{dataset}.csv.gz", delimiter=",")


# ---- The bases


def encoder_of(basis: str, n_bins: int, X: Array) -> Encoder:
    """Return what encodes samples, fitted to X."""
    dtype = np.dtype(np.float32)
    if basis == "columns":
        return lambda rows: fit_standardizer(X, None).checked_X(rows, dtype)
    n_bins = Encodings(X, dtype).bins_that_fit(n_bins)
    if basis == "hats":
        return partial(_hats, of=_hat_tables(X, n_bins), columns=encoder_of("columns", 0, X))
    return partial(encode, state=fit_piecewise(X, n_bins, centered=basis == "centered ramps"))


def _hat_tables(X: Array, n_bins: int) -> list[tuple[FloatArray, FloatArray]]:
    """Return the knots of each column, and the values of its hats there."""
    return [(knots, hats_at(len(knots) - 1)) for knots in fit_piecewise(X, n_bins).knots]


def hats_at(n_bins: int) -> FloatArray:
    """Return Lévy and Ciesielski's hats at n_bins + 1 knots, (n_bins + 1, n_hats).

    Level l has up to 2^l hats of height 2^(-l/2), between which the range is halved.

    >>> hats_at(4).round(2)
    array([[0.  , 0.  , 0.  ],
           [0.5 , 0.71, 0.  ],
           [1.  , 0.  , 0.  ],
           [0.5 , 0.  , 0.71],
           [0.  , 0.  , 0.  ]])
    """
    hats, spans, level = [np.empty((0, n_bins + 1))], [(0, n_bins)], 0
    while spans := [(a, b) for a, b in spans if b - a > 1]:
        middles = [(a, (a + b + 1) // 2, b) for a, b in spans]
        at = np.arange(n_bins + 1)
        height = 2.0 ** (-level / 2)
        hats.append(np.array([np.interp(at, span, [0.0, height, 0.0]) for span in middles]))
        spans = [pair for a, m, b in middles for pair in ((a, m), (m, b))]
        level += 1
    return np.concatenate(hats).T


def _hats(rows: Array, of: list[tuple[FloatArray, FloatArray]], columns: Encoder) -> Array:
    parts = [columns(rows)]
    for x, (knots, values) in zip(rows.T, of, strict=True):
        if len(knots):
            parts.append(np.stack([np.interp(x, knots, hat) for hat in values.T], axis=1))
    return np.concatenate(parts, axis=1)


# ---- The networks


def evaluate(
    dataset: str,
    split: int,
    n: int,
    basis: str,
    n_bins: int,
    layers: int,
    units: int,
    start: str,
    folder: Path | None = None,
    load: Load = load,
    epochs: Sequence[int] = EPOCHS,
) -> Figures:
    """Train a network in each fold, and score it after the best of `epochs`.

    With the start "draw" the layers between hidden layers begin near a draw from the prior.
    """
    X, y, X_test, y_test = load(dataset, split, n, folder)
    encoder = encoder_of(basis, n_bins, X)
    A, A_test = (encoder(rows).astype(np.float32) for rows in (X, X_test))
    plan = Plan(Gaussian(), (units,) * layers, evidence_cap=CAP, dtype=A.dtype)
    folds = list(KFold(5, shuffle=True, random_state=split).split(A))
    if n > N_DENSITY:
        folds = folds[:2]
    seconds, outputs = timed(
        partial(
            _trained, plan, A, y, A_test, folds, split, near_draw=start == "draw", epochs=epochs
        )
    )
    seen = np.concatenate([test for _, test in folds])
    scored = [_scored(own, y[seen], y_test) for own in zip(*outputs, strict=True)]
    best = max(range(len(epochs)), key=lambda k: scored[k]["log_likelihood"])
    return scored[best] | {
        "epochs": epochs[best],
        "inputs": A.shape[1],
        "not_0": round(np.count_nonzero(A) / X.size, 3),
        "seconds": seconds,
        "scores": [round(each["log_likelihood"], 4) for each in scored],
    }


def _trained(
    plan: Plan,
    A: Array,
    y: Array,
    A_test: Array,
    folds: Sequence[tuple[Array, Array]],
    split: int,
    *,
    near_draw: bool,
    epochs: Sequence[int],
) -> list[list[tuple[OutOfFold, OutOfFold]]]:
    """Return predictions of the samples of each fold, and of the test samples, at each check."""
    found = []
    for k, (train, test) in enumerate(folds):
        rows, rng = Inputs(np.ascontiguousarray(A[train])), RandomState(1_000 * split + k)
        scales = leaving_features(A.shape[1], measure(y[train, np.newaxis]))
        before = training.start(plan, rows, y[train], rng, scales, near_draw=near_draw)
        run, checks = training.begin(plan, before, rows, y[train], rng), []
        for n_epochs in np.diff(epochs, prepend=0).tolist():
            (run,), interrupt = training.advance([run], n_epochs)
            if interrupt is not None:
                raise interrupt
            checks.append((_predicted(run, A[test]), _predicted(run, A_test)))
        found.append(checks)
    return found


def _predicted(run: training.Run, A: Array) -> OutOfFold:
    fitted, unit = run.fitted, float(run.fitted.standardizer.y_scale[0])
    moments = output_moments(run.plan, fitted.posterior, fitted.standardizer, Inputs(A))
    mean, variance = (np.asarray(a, np.float64).reshape(-1) for a in moments)
    noise = np.full(len(mean), unit * np.sqrt(fitted.posterior.noise_variance[0]))
    mean = mean * unit + fitted.standardizer.y_mean[0]
    return OutOfFold(mean, np.zeros_like(mean), unit * np.sqrt(variance), noise, unit)


def _scored(folds: Sequence[tuple[OutOfFold, OutOfFold]], y: Array, y_test: Array) -> Figures:
    """Return the scores after one number of epochs; test samples are scored by each network."""
    oof = [own for own, _ in folds]
    ends = np.cumsum([len(own.mean) for own in oof])[:-1]
    with_y = [_of(own, part) for own, part in zip(oof, np.split(y, ends), strict=True)]
    r = np.concatenate([own.residual for own in with_y])
    factor = float(np.mean((r / np.concatenate([own.std for own in with_y])) ** 2))
    tests = [_of(own, y_test) for _, own in folds]
    return {
        "log_likelihood": float(np.mean(np.concatenate([own.log_p(factor) for own in with_y]))),
        "rmse": float(np.sqrt(np.mean(r**2))),
        "test_log_likelihood": float(np.mean([own.log_p(factor) for own in tests])),
        "test_rmse": float(np.sqrt(np.mean([own.residual**2 for own in tests]))),
    }


def _of(predicted: OutOfFold, y: Array) -> OutOfFold:
    return replace(predicted, residual=y - predicted.mean)


# ---- The cases


def forms() -> list[Figures]:
    """Return what is compared on every set; the first of each number of layers is the baseline."""

    def form(basis: str, n_bins: int, units: int = 50) -> Figures:
        return {"basis": basis, "n_bins": n_bins, "units": units}

    compared = [
        form("centered ramps", 32),
        *(form("ramps", n_bins) for n_bins in (16, 32, 8)),
        form("hats", 16),
        form("columns", 0),
        *(form("ramps", 16, units) for units in (48, 64)),
    ]
    plain = [compared[i] for i in (0, 1, 4, 5)]
    deep = [*(("paper", each) for each in plain), *(("draw", each) for each in compared)]
    return [
        *({"layers": 1, "start": "paper"} | each for each in compared),
        *({"layers": 2, "start": start} | each for start, each in deep),
    ]


def cases(folder: Path | None, sets: Sequence[str], splits: int) -> Iterator[Figures]:
    """Return the trainings; those on one set follow one another."""
    for split in range(splits):
        for dataset in sets:
            if dataset in SETS or folder is not None:
                for form in forms():
                    yield {"dataset": dataset, "split": split, "n": N_ROWS} | form


def large_cases(folder: Path | None) -> Iterator[Figures]:
    """Return the trainings on 5,000 samples, one layer, with the bins that many samples had."""
    form: Figures = {"split": 0, "n": N_LARGE, "layers": 1, "start": "paper", "units": 50}
    for dataset in LARGE:
        if dataset in SETS or folder is not None:
            for basis, n_bins in (("centered ramps", 64), ("ramps", 16), ("ramps", 32)):
                yield {"dataset": dataset, **form, "basis": basis, "n_bins": n_bins}


def main(argv: Sequence[str] | None = None, load: Load = load) -> None:
    parser = parser_of("bases", __doc__)
    parser.add_argument("--density", type=Path, help="the folder of the density benchmark's sets")
    parser.add_argument("--sets", nargs="+", default=[*SETS, *DENSITY], help="which sets")
    parser.add_argument("--splits", type=int, default=1, help="of each set")
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS, help="to score after")
    parser.add_argument("--large", action="store_true", help="5,000 samples of some sets too")
    parser.add_argument("--show", action="store_true", help="only make the page again")
    arguments = parser.parse_args(argv)
    path = arguments.results / "bases.jsonl"
    if not arguments.show:
        folder = arguments.density
        wanted = [*cases(folder, arguments.sets, arguments.splits)]
        wanted += large_cases(folder) if arguments.large else []
        evaluated = partial(evaluate, folder=folder, load=load, epochs=arguments.epochs)
        rows_of(path, wanted, evaluated)
    write_pages(arguments.results, {"bases": page(read_rows(path))})


# ---- The page


def page(rows: list[Figures]) -> str:
    """Return the mean differences to the baselines over the sets."""
    small = [row for row in rows if row["n"] == N_ROWS]
    base = {"units": 50, "basis": "centered ramps", "n_bins": 32}
    lines = []
    for form in forms():
        baseline = {"layers": form["layers"], "start": "paper"} | base
        lines.append([_name(form), *_compared(small, form, baseline)])
    header = ["", "log-likelihood", "sets ahead", "RMSE, %", "inputs that are not 0", "time"]
    parts = [table(header, lines)]
    if large := [row for row in rows if row["n"] == N_LARGE]:
        form = {"layers": 1, "start": "paper", "units": 50}
        baseline = form | {"basis": "centered ramps", "n_bins": 64}
        each = [form | {"basis": "ramps", "n_bins": n_bins} for n_bins in (16, 32)]
        lines = [[_name(own), *_compared(large, own, baseline)] for own in (baseline, *each)]
        parts.append(table([f"{N_LARGE:,} samples", *header[1:]], lines))
    return "\n\n".join(parts) + "\n"


def _name(form: Figures) -> str:
    bins = f"{form['n_bins']} " if form["n_bins"] else ""
    layers = " + ".join([str(form["units"])] * form["layers"])
    start = ", from a draw" if form["start"] == "draw" else ""
    return f"{bins}{form['basis']}, {layers}{start}"


def _compared(rows: list[Figures], form: Figures, baseline: Figures) -> list[str]:
    """Return the cells of a form: means over the sets that both were measured on."""
    own, other = (_by_set(rows, each) for each in (form, baseline))
    sets = [name for name in other if name in own]
    if len(sets) < 2:
        return ["", "", "", "", ""]
    pairs = [(own[name], other[name]) for name in sets]
    gains = [(a["log_likelihood"], b["log_likelihood"]) for a, b in pairs]
    errors = [(100.0 * np.log(a["rmse"]), 100.0 * np.log(b["rmse"])) for a, b in pairs]
    ahead = sum(a > b for a, b in gains)
    times = np.median([a["seconds"] / b["seconds"] for a, b in pairs])
    same = form == baseline
    return [
        "0" if same else difference(*zip(*gains, strict=True), 3),
        "" if same else f"{ahead} of {len(sets)}",
        "0" if same else difference(*zip(*errors, strict=True), 1),
        f"{np.mean([a['not_0'] for a, _ in pairs]):.1f}",
        f"{times:.2f}",
    ]


def _by_set(rows: list[Figures], form: Figures) -> dict[str, Figures]:
    """Return the means of the figures of a form over the splits of each set."""
    found: dict[str, list[Figures]] = {}
    for row in rows:
        if form.items() <= row.items():
            found.setdefault(row["dataset"], []).append(row)
    names = ("log_likelihood", "rmse", "not_0", "seconds")
    return {k: {name: np.mean([r[name] for r in v]) for name in names} for k, v in found.items()}


if __name__ == "__main__":
    main()
