"""The command as the pages show it: ``python -m benchmarks.guide.shell``.

``docs/results/shell_energy.md`` and ``shell_alloys.md`` are commands with their output,
``shell_verdict.md`` a verdict, ``shell_budgets.md`` what ``fit`` takes and how good it is.
What needs a set whose file is not at hand is left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchmarks.child import processor_seconds_of_children
from benchmarks.clock import median, say
from benchmarks.guide.pages import Figures, parser_of, write
from benchmarks.guide.targets import loads
from benchmarks.markdown import table
from benchmarks.paired import mean
from probprop_lab import datasets

BUDGETS = ("--budget fast", "--budget good", "--budget best", "--fast")
_N_MADE = 900  # prices to fit, and the same number to test
_WIDTH = 95  # letters of a line of a verdict
_N_COLUMNS = (1_000, 10_000)


Parts = Mapping[str, Callable[[Path], tuple[str, Figures]]]


class Done(NamedTuple):
    """What a command wrote, notes among the results, and its processor seconds."""

    text: str
    seconds: float


def run(line: str, folder: Path) -> Done:
    """Run a line such as ``probprop info houses.pbp`` in a folder."""
    before = processor_seconds_of_children()
    arguments = [sys.executable, "-m", *shlex.split(line)]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
    done = subprocess.run(
        arguments, cwd=folder, env=environment, check=True, stdout=-1, stderr=-2, text=True
    )
    return Done(done.stdout, processor_seconds_of_children() - before)


# ---- Tables


def alloys() -> pd.DataFrame:
    """Return 200 made alloys, of which 25 have a strength."""
    rng, n = np.random.default_rng(0), 200
    found = pd.DataFrame(
        {
            "id": [f"A-{k:03}" for k in range(n)],
            "route": rng.choice(["cast", "forged", "rolled"], n, p=[0.5, 0.3, 0.2]),
            "nickel": rng.uniform(2.0, 20.0, n).round(2),
            "chromium": rng.uniform(5.0, 25.0, n).round(2),
            "anneal_C": rng.integers(400, 900, n),
        }
    )
    extra = found.route.map({"cast": 0.0, "forged": 60.0, "rolled": 30.0})
    curved = 12.0 * found.nickel + 9.0 * found.chromium - ((found.anneal_C - 650) / 20.0) ** 2
    strength = 200.0 + extra + curved + 20.0 * rng.standard_normal(n)
    return found.assign(strength=strength.round(1).where(found.index < 25))


def houses(seed: int) -> pd.DataFrame:
    """Return made prices, whose errors grow with them."""
    rng = np.random.default_rng(seed)
    area, rooms, age = (rng.uniform(*ends, _N_MADE) for ends in ((40, 220), (1, 8), (0, 90)))
    expected = 150e3 + 3.5e3 * area + 12e3 * rooms - 1e3 * age
    price = expected + (5e3 + 0.3 * np.maximum(expected - 300e3, 0.0)) * rng.standard_normal(
        _N_MADE
    )
    found = pd.DataFrame({"area": area, "rooms": rooms, "age": age, "price": price})
    return found.round({"area": 0, "rooms": 0, "age": 0, "price": -3})


def energy() -> pd.DataFrame:
    """Return the benchmark set energy as its authors name the columns, with both loads."""
    names = [f"X{k}" for k in range(1, 9)]
    heating, cooling = loads().T
    return pd.DataFrame(datasets.load("energy").X, columns=names).assign(Y1=heating, Y2=cooling)


def concrete() -> pd.DataFrame:
    rows = datasets.load("concrete")
    return pd.DataFrame(rows.X, columns=rows.feature_names).assign(strength=rows.y)


def wide(n_columns: int) -> pd.DataFrame:
    """Return three rows of many columns."""
    X = np.random.default_rng(0).uniform(size=(3, n_columns)).round(3)
    return pd.DataFrame(X, columns=[f"x{k}" for k in range(n_columns)]).assign(y=[0.5, 1.5, 2.7])


# ---- What is run


def main(argv: Sequence[str] | None = None, parts: Parts | None = None) -> None:
    """Make these parts, or all, if the sets that they need are at hand."""
    arguments = parser_of("shell", __doc__).parse_args(argv)
    pages: dict[str, str] = {}
    figures: Figures = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, part in (parts or PARTS).items():
            if all(datasets.where(needed) is not None for needed in NEEDS.get(title, ())):
                say(title)
                pages[f"shell_{title}"], figures[title] = part(folder)
    write(arguments.results, "shell", figures, pages)


def of_energy(folder: Path) -> tuple[str, Figures]:
    """Fit one network for both loads, and one for each."""
    energy().to_csv(folder / "energy.csv", index=False)
    line = "probprop fit energy.csv --target Y1,Y2 --fast -o energy.pbp --report energy.html"
    shown = console(line, run(line, folder).text)
    alone = {
        target: score("RMSE", run(f"{line.replace('Y1,Y2', target)} --drop {other}", folder).text)
        for target, other in (("Y1", "Y2"), ("Y2", "Y1"))
    }
    words = f"On the same rows, a network for each target has an RMSE of {alone['Y1']:g} and "
    return f"{shown}\n{words}{alone['Y2']:g}.\n", {"console": shown, "alone": alone}


def of_alloys(folder: Path) -> tuple[str, Figures]:
    """Ask for five alloys."""
    alloys().to_csv(folder / "alloys.csv", index=False)
    line = "probprop active alloys.csv --target strength --ask 5 --drop id --fast"
    shown = console(line, run(line, folder).text)
    return shown, {"console": shown}


def of_verdict(folder: Path) -> tuple[str, Figures]:
    """Score one network, and the default of `fit`, on prices whose errors grow."""
    for seed, name in enumerate(("houses", "sold")):
        houses(seed).to_csv(folder / f"{name}.csv", index=False)
    found = {}
    for how in ("--fast", ""):
        run(f"probprop fit houses.csv --target price {how} -o houses.pbp", folder)
        found[how] = run("probprop evaluate houses.pbp sold.csv", folder).text.splitlines()[-1]
    figures = {"fast": found["--fast"], "good": found[""]}
    return verdict_page(figures), figures


def verdict_page(found: Figures) -> str:
    """Return both verdicts, in lines that fit a page."""
    one, chosen = ("\n".join(textwrap.wrap(found[how], _WIDTH)) for how in ("fast", "good"))
    words = "Without `--fast`, `fit` finds that errors grow, and the verdict is"
    return f"```text\n{one}\n```\n\n{words}\n\n```text\n{chosen}\n```\n"


def of_budgets(folder: Path) -> tuple[str, Figures]:
    """Fit concrete with each budget, the quick one thrice."""
    concrete().to_csv(folder / "concrete.csv", index=False)
    found: Figures = {}
    for how in BUDGETS:
        say(how)
        line = (
            f"probprop fit concrete.csv --target strength {how} --test-fraction 0.1 -o concrete.pbp"
        )
        done = [run(line, folder) for _ in range(3 if how == "--fast" else 1)]
        found[how] = {
            "seconds": median([each.seconds for each in done]),
            "log_likelihood": score("log-likelihood", done[0].text),
        }
    return budgets_page(found), found


def budgets_page(found: Figures) -> str:
    """Return a line per budget."""
    rows = [
        [f"`{how}`", f"{found[how]['seconds']:.2g}", mean([found[how]["log_likelihood"]], 2)]
        for how in BUDGETS
    ]
    words = (
        "The whole command on concrete, 1,030 rows and 8 features, with `--test-fraction 0.1`: the "
        "log-likelihoods are for the test set of 103 rows. Fitting is a small part of what "
        "`--fast` takes. Several cores take less time."
    )
    return f"{table(['', 'processor seconds', 'log-likelihood'], rows)}\n\n{words}\n"


def of_columns(folder: Path) -> tuple[str, Figures]:
    """Fit and predict three rows of many columns."""
    found: Figures = {"fit": {}, "predict": {}}
    for n in _N_COLUMNS:
        wide(n).to_csv(folder / "wide.csv", index=False)
        lines = {
            "fit": "probprop fit wide.csv --target y --fast --test-fraction 0 -o wide.pbp",
            "predict": "probprop predict wide.pbp wide.csv -o predicted.csv",
        }
        for what, line in lines.items():
            found[what][str(n)] = run(line, folder).seconds
    few, many = _N_COLUMNS
    each = {
        what: 1e3 * (seconds[str(many)] - seconds[str(few)]) / (many - few)
        for what, seconds in found.items()
    }
    words = (
        f"Wide tables take time in proportion to their columns: with three rows `fit --fast` takes "
        f"{each['fit']:.1f} ms of processor time for each, `predict` {each['predict']:.1f} ms "
        f"(measured with up to {many:,})."
    )
    return f"{words}\n", found


def console(line: str, text: str) -> str:
    """Return a block with a command and what it wrote."""
    return f"```console\n$ {line}\n{text.rstrip()}\n```\n"


def score(measure: str, text: str) -> float:
    """Return a score that a command shows, the model's own.

    Examples
    --------
    >>> score("RMSE", "RMSE    2.09   10.9")
    2.09
    """
    found = re.search(rf"^{measure}\s+(\S+)", text, re.MULTILINE)
    if found is None:
        raise ValueError(f"the command shows no {measure}: {text}")
    return float(found[1].replace(",", ""))


PARTS: Parts = {
    "energy": of_energy,
    "alloys": of_alloys,
    "verdict": of_verdict,
    "budgets": of_budgets,
    "columns": of_columns,
}
NEEDS = {"energy": ("energy",), "budgets": ("concrete",)}


if __name__ == "__main__":
    main()
