"""The page that learns as one clicks: one HTML file with the kernel in it."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import numpy as np
from numpy.random import RandomState

from probprop._types import Array, FloatArray
from probprop.toy import toy_cubic
from probprop.web import content_security_policy, packed_kernel, text_of

_LEARNING = ("kernel.js", "learning.js")
_SCRIPTS = ("plot.js", "points.js", "curve.js", "plane.js", "controls.js", "play.js")


def play_page(*, embedded: bool = False) -> str:
    """Return the page, an HTML document that asks for nothing else.

    If it is `embedded`, another page has the title and the introduction.
    """
    import jinja2  # heavy, and of the extra `cli`

    folder = resources.files("probprop.web.play")
    texts = {
        name: folder.joinpath(name).read_text(encoding="utf-8")
        for name in (*_SCRIPTS, "play.css", "play.html.jinja")
    }
    script = "\n".join([*map(text_of, _LEARNING), *(texts[name] for name in _SCRIPTS)])
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    presets = {"curve": curves(), "plane": planes()}
    return environment.from_string(texts["play.html.jinja"]).render(
        policy=content_security_policy([script], [texts["play.css"]]),
        style=texts["play.css"],
        script=script,
        kernel=packed_kernel(),
        presets=presets,
        presets_json=json.dumps(presets),
        embedded=embedded,
    )


# ---- The points that the page begins with, and the settings that suit them


Preset = dict[str, Any]
"""Name, axes, settings beside the usual ones, and points: x, y and, of classes, label."""


def curves() -> dict[str, Preset]:
    """Return the presets of the first tab by their keys; all is ready for JSON."""
    random = RandomState(0)
    X, y = toy_cubic(random_state=4)
    presets = {"cubic": _curve("The paper's cubic", (-6, 6), (-120, 120), X[:, 0], y)}

    x = np.sort(random.uniform(0.2, 9.8, 110))
    y = 2.0 * np.sin(0.7 * x) + (0.05 + 0.012 * x**2) * random.standard_normal(len(x))
    trumpet = {"noise": "input", "n_epochs": 80}
    presets["trumpet"] = _curve("Noise that grows", (0, 10), (-5, 5), x, y, trumpet)

    x = np.concatenate([random.uniform(-4.5, -2.0, 20), random.uniform(2.0, 4.5, 20)])
    y = np.sin(0.8 * x) + 0.06 * random.standard_normal(len(x))
    # One network alone hardly widens between the points; where several differ, the ensemble does.
    gap = {"hidden": [20, 20], "n_epochs": 160, "n_members": 5}
    presets["gap"] = _curve("A gap", (-6, 6), (-2, 2), x, y, gap)

    x = np.sort(random.uniform(-5, 5, 45))
    y = 2.5 * np.sin(0.8 * x) + 0.25 * random.standard_normal(len(x))
    y[4::9] += np.array([5.0, -4.0, 6.0, 5.0, -6.0])
    heavy = {"noise_tail": "heavy", "n_epochs": 160}
    presets["outliers"] = _curve("Outliers", (-6, 6), (-10, 10), x, y, heavy)

    presets["blank"] = _curve("No points yet", (-3, 3), (-3, 3), x[:0], y[:0])
    return presets


def planes() -> dict[str, Preset]:
    """Return the presets of the second tab."""
    random = RandomState(1)
    n = 40
    t = np.pi * random.uniform(0, 1, n)
    upper = np.stack([np.cos(t) - 0.5, np.sin(t) - 0.25])
    lower = np.stack([0.5 - np.cos(t), 0.25 - np.sin(t)])
    moons = 1.4 * np.concatenate([upper, lower], axis=1) + 0.14 * random.standard_normal((2, 2 * n))
    presets = {"moons": _plane("Two moons", moons, np.repeat([1, -1], n))}

    blobs = 0.55 * random.standard_normal((2, 2 * n)) + np.repeat([[0.9, -0.9]], n, axis=1)
    presets["blobs"] = _plane("Two clouds that overlap", blobs, np.repeat([1, -1], n))

    corners = random.uniform(0.25, 2.2, (2, 2 * n)) * random.choice([-1, 1], (2, 2 * n))
    of_corners = np.where(corners[0] * corners[1] > 0, 1, -1)
    presets["corners"] = _plane("Opposite corners", corners, of_corners)

    angle = 2 * np.pi * random.uniform(0, 1, 2 * n)
    radius = np.concatenate([0.7 * np.sqrt(random.uniform(0, 1, n)), random.uniform(1.5, 2.1, n)])
    ring = radius * np.stack([np.cos(angle), np.sin(angle)])
    presets["ring"] = _plane("A ring", ring, np.repeat([1, -1], n))
    presets["blank"] = _plane("No points yet", ring[:, :0], of_corners[:0])
    return presets


def _curve(
    name: str,
    across: tuple[float, float],
    up: tuple[float, float],
    x: FloatArray,
    y: FloatArray,
    settings: dict[str, Any] | None = None,
) -> Preset:
    digits = [3 - int(np.floor(np.log10(to - start))) for start, to in (across, up)]
    points = [
        {"x": round(float(a), digits[0]), "y": round(float(b), digits[1])}
        for a, b in zip(x, y, strict=True)
    ]
    axes = {"x": across, "y": up}
    return {"name": name, "axes": axes, "settings": settings or {}, "points": points}


def _plane(name: str, places: FloatArray, label: Array) -> Preset:
    """Return the preset of points at `places`, (2, n), with these labels, +1 or -1."""
    preset = _curve(name, (-3, 3), (-3, 3), *places)
    for point, sign in zip(preset["points"], label, strict=True):
        point["label"] = int(sign)
    return preset
