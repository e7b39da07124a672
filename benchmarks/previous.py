"""The figures of the previous release, which stand beside those of a run.

``python -m benchmarks --keep "release 0.2.0"`` writes them; a release does that.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.outcome import Figure

PREVIOUS = Path(__file__).with_name("previous.json")


def read_previous(path: Path = PREVIOUS) -> dict[str, float]:
    """Return the figures by their names; none where there is no file."""
    if not path.exists():
        return {}
    figures: dict[str, float] = json.loads(path.read_text())["figures"]
    return figures


def keep(
    what: str, info: Mapping[str, str], figures: Iterable[Figure], path: Path = PREVIOUS
) -> None:
    """Write figures with what they are of; those of parts that were not run stay."""
    of_these = {figure.name: float(f"{figure.value:.4g}") for figure in figures}
    written = {
        "of": what,
        "machine": {name: info[name] for name in ("cpu", "cpu_level", "python", "numpy", "date")},
        "figures": dict(sorted({**read_previous(path), **of_these}.items())),
    }
    path.write_text(json.dumps(written, indent=1) + "\n")
