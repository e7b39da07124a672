"""Fits whose every bit is kept: run as a script, it writes them; `test_golden` fits them again.

Only the public interface is used, so that the code behind it can change its shape. The networks
are small, but wider than a vector of any instruction set, so that whole vectors and their rests
are both in it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import sys
import warnings
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np

import probprop
from probprop import PBPClassifier, PBPRegressor

FILE = Path(__file__).parent / "data" / "golden.jsonl"
LEVEL = "generic"
"""The instruction set of the file: the one that every machine has."""

N_ROWS, N_FEATURES, N_NEW = 40, 3, 4
LAYERS = [(), (17,), (9, 5), (5, 9, 3)]
KINDS = ["regressor", "two classes", "five classes", "labels", "targets"]
OPTIONS: list[dict[str, Any]] = [
    {},
    {"missing": "marginalize"},
    {},
    {"standardize": False},
    {"X_std": True},
]


def data(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows and targets of this kind, the same in every call."""
    rng = np.random.RandomState(7)
    X = rng.standard_normal((N_ROWS, N_FEATURES))
    f = X[:, 0] - 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(N_ROWS)
    if kind == "two classes":
        return X, np.where(f > 0.0, "yes", "no")
    if kind == "five classes":
        return X, np.argsort(np.argsort(f)) * 5 // N_ROWS
    if kind == "labels":
        return X, np.stack([f > 0.0, X[:, 2] > 0.3], axis=1).astype(int)
    if kind == "targets":
        return X, np.stack([f, 10.0 * X[:, 2] - f], axis=1)
    return X, f


def estimator(kind: str, **parameters: Any) -> Any:
    """An estimator that is not fitted."""
    is_classifier = kind in ("two classes", "five classes", "labels")
    return (PBPClassifier if is_classifier else PBPRegressor)(random_state=3, **parameters)


def cases() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield (name, estimator, keywords): every kind, depth and dtype, with options in turn."""
    for engine, first in (("native", 0), ("reference", 3)):
        options, caps = islice(cycle(OPTIONS), first, None), cycle([None, 3.0, 3.0])
        for kind in KINDS:
            for layers in LAYERS:
                for dtype in ("float64", "float32"):
                    own = dict(next(options))
                    cap = next(caps)
                    name = f"{engine}, {kind}, {layers}, {dtype}, memory {cap}, {own}"
                    uncertain = own.pop("X_std", False)
                    model = estimator(
                        kind,
                        hidden_layer_sizes=layers,
                        dtype=dtype,
                        engine=engine,
                        evidence_cap=cap,
                        n_epochs=3,
                        **own,
                    )
                    yield name, model, {"uncertain": uncertain}
            for cap in (None, 3.0):
                name = f"{engine}, {kind}, stream, memory {cap}"
                model = estimator(kind, hidden_layer_sizes=(9,), engine=engine, evidence_cap=cap)
                yield name, model, {"stream": True}


def fit(kind: str, model: Any, uncertain: bool, stream: bool) -> Any:
    """Fit it, or give it the rows in four parts."""
    X, y = data(kind)
    if model.missing == "marginalize":
        X = X.copy()
        X[::7, 1] = np.nan
    keywords = {"X_std": np.full(X.shape, 0.2)} if uncertain else {}
    if not stream:
        return model.fit(X, y, **keywords)
    first = {"classes": np.unique(y)} if kind.endswith("classes") else {}
    for part in range(4):
        rows = slice(part * 10, part * 10 + 10)
        model.partial_fit(X[rows], y[rows], **first, **keywords)
    return model


def hexadecimal(values: Any) -> list[str]:
    """Every number of an array, or of layers of them, exactly."""
    layers = values if isinstance(values, tuple) else (values,)
    return [float(v).hex() for a in layers for v in np.asarray(a, np.float64).ravel()]


def digest(values: Any) -> str:
    """A hash of every bit, where the numbers themselves would take too much room."""
    return hashlib.sha256(" ".join(hexadecimal(values)).encode()).hexdigest()


def network(model: Any) -> dict[str, Any]:
    """The posterior of a fitted network, and what training observed."""
    q = model.posterior_
    found: dict[str, Any] = {k: hexadecimal(getattr(q, k)) for k in ("m_w", "v_w")}
    for k in ("alpha_noise", "beta_noise", "alpha_prior", "beta_prior"):
        found[k] = hexadecimal(getattr(q, k))
    found |= {k: digest(getattr(q, k)) for k in ("v_hat_nat", "a_hat_nat", "b_hat_nat")}
    found["mean_log_Z"] = hexadecimal([epoch.mean_log_Z for epoch in model.history_])
    found["counts"] = [[*epoch[5:9], epoch.n_points] for epoch in model.history_]
    found["log_evidence"] = hexadecimal(model.log_evidence_)
    return found


def outcome(kind: str, model: Any, uncertain: bool = False, stream: bool = False) -> dict[str, Any]:
    """Fit one case; return its networks and its predictions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of counts, which are kept
        fit(kind, model, uncertain, stream)
    rows = 1.5 * np.random.RandomState(8).standard_normal((N_NEW, N_FEATURES))
    keywords = {"X_std": np.full(rows.shape, 0.2)} if uncertain else {}
    p = model.predict_distribution(rows, **keywords)
    found: dict[str, Any] = {"networks": [network(model)]}
    found["mean"] = hexadecimal(p.mean)
    found["std"] = hexadecimal(p.std)
    if hasattr(p, "log_proba"):
        found["log_proba"] = hexadecimal(p.log_proba)
        found["entropy_model"] = hexadecimal(p.entropy_model)
    else:
        found["epistemic_std"] = hexadecimal(p.epistemic_std)
        found["aleatoric_std"] = hexadecimal(np.broadcast_to(p.aleatoric_std, p.mean.shape))
        found["logpdf"] = hexadecimal(p.logpdf(p.mean + 0.3))
        found["interval"] = hexadecimal(p.interval(0.9))
    return found


def all_outcomes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (name, outcome) of every case."""
    for name, model, how in cases():
        yield name, outcome(name.split(", ")[1], model, **how)


def machine() -> dict[str, str]:
    """What the last bits depend on besides this package: libraries and the processor's vectors."""
    from numpy._core._multiarray_umath import __cpu_features__ as features

    vectors = sorted(name for name, there in features.items() if there)
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    model = [line for line in lines if line.startswith(("vendor_id", "cpu family", "model\t"))][:3]
    return {
        "numpy": np.__version__,
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "processor": hashlib.sha256(" ".join(model + vectors).encode()).hexdigest()[:16],
    }


def write(path: Path) -> None:
    """Write the machine, then a case per line."""
    lines = [json.dumps(machine())]
    lines += [json.dumps({"name": name, **found}) for name, found in all_outcomes()]
    path.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    write(target)
    print(f"wrote {target} with probprop {probprop.__version__}")
