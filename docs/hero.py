"""Draw ``docs/hero.png``, the picture of the README: python docs/hero.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("agg")
import matplotlib.pyplot as plt

from probprop import PBPRegressorCV, plot

random = np.random.RandomState(1)


def truth(x: np.ndarray) -> np.ndarray:
    """Return a wave with a steep step."""
    return np.sin(1.2 * x) + 2.0 * np.tanh(4.0 * (x - 3.0)) + 0.25 * x


def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw n samples with heteroscedastic noise."""
    x = np.sort(random.uniform(0.0, 10.0, n))
    noise_std = 0.1 + 0.7 * np.exp(-(((x - 7.0) / 1.2) ** 2))
    return x, truth(x) + noise_std * random.standard_normal(n)


x, y = draw(400)
model = PBPRegressorCV(random_state=0).fit(x[:, None], y)
line = np.linspace(0.0, 10.0, 401)
predicted = model.predict_distribution(line[:, None])

new, y_new = draw(10_000)
lower, upper = model.predict_interval(new[:, None], coverage=0.95).T
print(f"coverage of 95 % intervals: {np.mean((lower <= y_new) & (y_new <= upper)):.1%}")

fig, ax = plt.subplots(figsize=(8, 4), layout="constrained")
plot.predictive_band(line, predicted, data=(x, y), truth=truth(line), target="y", ax=ax)
ax.set(xlabel="x", xlim=(0.0, 10.0))
fig.savefig(Path(__file__).with_name("hero.png"), dpi=110, metadata={"Software": None})
