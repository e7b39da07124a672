"""
Uncertain and missing inputs
============================

``X_std`` and ``missing="marginalize"`` carry the uncertainty of the inputs into the predictions: a
measured feature has an error, and sometimes it is missing.
"""

# %%
# A cubic, learned from 100 points with exact x. Then predictions at exact x, and at x with a
# standard deviation of 0.5: the band widens where the curve is steep, and hardly where it is flat.
# The dashed lines are the same two standard deviations computed the long way, by drawing x 500
# times.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes

from probprop import PBPRegressor, PBPRegressorCV

rng = np.random.default_rng(0)
x = rng.uniform(-4.0, 4.0, 100)
cubic = PBPRegressor(random_state=0).fit(x[:, np.newaxis], x**3 + 3.0 * rng.standard_normal(100))

grid = np.linspace(-4.0, 4.0, 100)[:, np.newaxis]
drawn = [cubic.predict(grid + 0.5 * rng.standard_normal(grid.shape)) for _ in range(500)]
long_way = np.sqrt(np.var(drawn, axis=0) + cubic.predict(grid, return_std=True)[1] ** 2)

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, x_std in zip(axes, (0.0, 0.5), strict=True):
    mean, std = cubic.predict(grid, return_std=True, X_std=x_std)
    ax.plot(grid[:, 0], mean, color="#D55E00")
    band = {"color": "#D55E00", "alpha": 0.25, "lw": 0}
    ax.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, **band)
    ax.set(title=f"standard deviation of x: {x_std}", xlabel="x")
for sign in (-2, 2):
    axes[1].plot(grid[:, 0], np.mean(drawn, axis=0) + sign * long_way, color="0.3", lw=1, ls="--")
axes[0].set_ylabel("y")

# %%
# A missing entry is an uncertain one: its standard deviation is the feature's in the training
# data. We delete each entry of 442 patients with a probability of 0.2. Which feature matters
# most?

X, y = load_diabetes(return_X_y=True)
names = load_diabetes().feature_names
holed = np.where(rng.uniform(size=X.shape) < 0.2, np.nan, X)
model = PBPRegressorCV(budget="fast", missing="marginalize", n_jobs=-1, random_state=0)
model.fit(holed, y)

known = model.predict_distribution(X).epistemic_std
without = {}
for j, name in enumerate(names):
    less = X.copy()
    less[:, j] = np.nan
    without[name] = np.mean(model.predict_distribution(less).epistemic_std)

order = sorted(without, key=lambda name: without[name])
fig, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.barh(order, [without[name] for name in order], color="#0072B2")
ax.axvline(np.mean(known), color="0.3", lw=1, ls="--", label="nothing missing")
ax.set(xlabel="standard deviation of the model when it is missing", ylabel="feature")
fig.legend(loc="outside upper right", frameon=False)
plt.show()

# %%
# It is s5, which is related to triglycerides. :doc:`/guide/uncertain-inputs` compares the
# width of such bands with drawn inputs, and says when marginalizing is better than filling in the
# mean.
