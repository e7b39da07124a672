"""Draw ``docs/hero.png``, the picture of the README: python docs/hero.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

from probprop import PBPRegressorCV, plot

random = np.random.RandomState(1)
x = np.sort(random.uniform(0.0, 10.0, 600))
x = x[(x < 5.6) | (x > 6.6)]  # nobody measured there


def truth(x: np.ndarray) -> np.ndarray:
    """A wave, a jump at 3, and a slope."""
    return np.sin(1.8 * x) + 2.0 * (x > 3.0) + 0.25 * x


noise = 0.08 + 0.09 * np.maximum(x - 3.0, 0.0)  # larger and larger
y = truth(x) + noise * random.standard_normal(len(x))

model = PBPRegressorCV(random_state=0).fit(x[:, None], y)
line = np.linspace(-1.5, 11.5, 521)
predicted = model.predict_distribution(line[:, None])

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
plot.predictive_band(line, predicted, data=(x, y), truth=truth(line), target="y", ax=ax)
ax.set(xlabel="x", xlim=(-1.5, 11.5))
fig.savefig(Path(__file__).with_name("hero.png"), dpi=110, metadata={"Software": None})
