"""The machine and the versions with which the figures were measured."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn

import probprop
from probprop._kernel import cpu_level


def machine() -> dict[str, str]:
    """Describe the processor, the versions and the date."""
    return {
        "cpu": _cpu_model(),
        "cpu_count": str(os.cpu_count()),
        "cpu_level": cpu_level(),
        "platform": platform.platform(),
        "python": platform.python_version(),
        "probprop": probprop.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
