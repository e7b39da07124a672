"""Draw ``docs/toy-band.png``, the picture of the guide to uncertainty: python docs/toy_band.py."""

from pathlib import Path

import matplotlib

matplotlib.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from probprop import PBPRegressor, plot

random = np.random.RandomState(3)
x = random.uniform(-4, 4, 20)
y = x**3 + 3 * random.standard_normal(20)
model = PBPRegressor(hidden_layer_sizes=100, random_state=0).fit(x[:, None], y)

line = np.linspace(-6, 6, 241)
fig, ax = plt.subplots(figsize=(9, 4.8), dpi=100, layout="constrained", facecolor="white")
plot.predictive_band(
    line,
    model.predict_distribution(line[:, None]),
    data=(x, y),
    truth=line**3,
    target="y",
    ax=ax,
)
ax.set(xlim=(-6, 6), ylim=(-130, 130), title="20 points of y = x³ + noise, one layer of 100 units")
# Without the date and the version of Matplotlib the same picture is the same file.
fig.savefig(Path(__file__).with_name("toy-band.png"), metadata={"Software": None})
