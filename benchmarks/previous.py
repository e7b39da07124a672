"""The figures of the previous release, which are compared with a run's.

``python -m benchmarks --keep "release 0.2.0"`` writes them; a release does that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.outcome import Figure

PREVIOUS = Path(__file__).with_name("previous.json")


def read_previous(path: Path = PREVIOUS) -> dict[str, float]:
    """Return the figures by their names; empty without a file."""
    if not path.exists():
        return {}
    figures: dict[str, float] = json.loads(path.read_text())["figures"]
    return figures


def keep(
    what: str, info: Mapping[str, str], figures: Iterable[Figure], path: Path = PREVIOUS
) -> None:
    """Write figures with their origin; figures of parts that were not run stay."""
    of_these = {figure.name: float(f"{figure.value:.4g}") for figure in figures}
    written = {
        "of": what,
        "machine": {name: info[name] for name in ("cpu", "cpu_level", "python", "numpy", "date")},
        "figures": dict(sorted({**read_previous(path), **of_these}.items())),
    }
    path.write_text(json.dumps(written, indent=1) + "\n")
