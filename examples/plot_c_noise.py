"""
Heteroscedastic noise
=====================

``noise="input"`` learns the noise of each sample; by default the noise is constant.
"""

# %%
# The targets scatter little on the left and much on the right. Both models have the same
# mean, to the last bit; the bands are their 95 % intervals.

import matplotlib.pyplot as plt
import numpy as np

from probprop import PBPRegressor

rng = np.random.default_rng(0)
x = rng.uniform(0.0, 10.0, 400)
y = 3.0 * np.sin(x / 3.0) + (0.1 + 0.12 * x) * rng.standard_normal(400)


def draw(ax, x, y, model, title):
    grid = np.linspace(x.min(), x.max(), 300)
    predicted = model.predict_distribution(grid[:, np.newaxis])
    lower, upper = predicted.interval(0.95)
    ax.fill_between(grid, lower, upper, color="#0072B2", alpha=0.2, lw=0, label="95 % interval")
    ax.plot(grid, predicted.mean, color="#0072B2", lw=2, label="mean")
    ax.plot(x, y, "o", color="black", markersize=2.5, alpha=0.6, label="data")
    ax.set_title(title)


fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, noise in zip(axes, ("constant", "input"), strict=True):
    model = PBPRegressor(noise=noise, n_epochs=100, random_state=0).fit(x[:, np.newaxis], y)
    draw(ax, x, y, model, f'noise="{noise}"')
    ax.set(xlabel="x")
axes[0].set_ylabel("y")
axes[0].legend(loc="lower left", frameon=False)

# %%
# The noise that the second model predicts, and the true noise. The epistemic part,
# ``epistemic_std``, is small here: more samples would make it smaller, but not the noise.

grid = np.linspace(0.0, 10.0, 200)
predicted = model.predict_distribution(grid[:, np.newaxis])
fig, ax = plt.subplots(figsize=(7, 3.5), layout="constrained")
ax.plot(grid, predicted.aleatoric_std, color="#D55E00", lw=2, label="aleatoric_std")
ax.plot(grid, predicted.epistemic_std, color="#0072B2", lw=2, label="epistemic_std")
ax.plot(grid, 0.1 + 0.12 * grid, color="black", lw=1, ls="--", label="true noise")
ax.axhline(np.sqrt(model.noise_variance_), color="0.6", lw=1, label='noise="constant"')
ax.set(xlabel="x", ylabel="standard deviation of y", ylim=(0, None))
ax.legend(frameon=False)

# %%
# The head of a dummy in simulated motorcycle crashes (Silverman 1985). Nothing happens to it in the
# first 14 ms, and afterward the runs differ widely. ``fit`` gives the noise network the evidence
# of four epochs only, because residuals of training samples are too small. Twenty more epochs by
# ``partial_fit`` change it, and improve the cross-validated log-likelihood, as :doc:`/guide/noise`
# shows.

time, acceleration = np.loadtxt("data/motorcycle.csv", delimiter=",", skiprows=3, unpack=True)

fig, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained", sharey=True)
for ax, noise in zip(axes, ("constant", "input"), strict=True):
    model = PBPRegressor((20, 20), noise=noise, n_epochs=200, evidence_cap=30, random_state=0)
    model.fit(time[:, np.newaxis], acceleration)
    for _ in range(20):
        model.partial_fit(time[:, np.newaxis], acceleration)
    draw(ax, time, acceleration, model, f'noise="{noise}"')
    ax.set(xlabel="time after the impact [ms]")
axes[0].set_ylabel("acceleration of the head [g]")
axes[1].legend(loc="lower right", frameon=False)
plt.show()

# %%
# :doc:`/guide/noise` says when to use it, what it costs and where it loses.
