"""
Active learning: which samples to label
=======================================

``ActiveLearner`` queries the samples whose labels reduce the uncertainty of the pool most; ``tell``
passes the labels to it. Here are 2000 candidates, and each measurement costs a day. Nine candidates
in ten are variants of one recipe; the rest are spread over all possible recipes. The model should
be right everywhere, not only about the usual recipe.
"""

# %%
# Two ingredients, from -1 to 1. The yield rises steeply where both are large, which the usual
# recipe does not show.

import matplotlib.pyplot as plt
import numpy as np

from probprop import PBPRegressor, metrics
from probprop.active import ActiveLearner


def candidates(random):
    usual = np.clip(-0.4 + 0.25 * random.standard_normal((2000, 2)), -1, 1)
    anything = random.uniform(-1, 1, (2000, 2))
    return np.where(random.uniform(size=(2000, 1)) < 0.9, usual, anything)


def true_yield(X):
    return X[:, 0] + 6 * np.maximum(X[:, 0] + X[:, 1] - 0.5, 0)


# %%
# We begin with the measurements of the first twelve rows. The picture shows two choices of what to
# measure next: the ten rows with the highest variance, and the ten rows of ``ask``. Each sample of
# a batch is chosen as if the previous ones were labeled, so the batch is spread out.

random = np.random.RandomState(0)
X = candidates(random)
y = true_yield(X) + 0.05 * random.standard_normal(2000)
learner = ActiveLearner(PBPRegressor(20, random_state=0), random_state=0).tell(X[:12], y[:12])
_, std = learner.estimator_.predict(X, return_std=True)
batches = {"the ten highest variances": np.argsort(-std)[:10], "ask(X, 10)": learner.ask(X, 10)}

axis = np.linspace(-1, 1, 60)
grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
epistemic_std = learner.estimator_.predict_distribution(grid).epistemic_std.reshape(60, 60)
fig, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
for ax, (title, batch) in zip(axes, batches.items(), strict=True):
    levels = ax.contourf(axis, axis, epistemic_std, 12, cmap="Blues")
    ax.plot(*X.T, ".", color="gray", markersize=2, label="candidates")
    ax.plot(*X[:12].T, "x", color="black", label="measured")
    ax.plot(*X[batch].T, "o", color="#D55E00", markeredgecolor="white", label="to measure next")
    ax.set(title=title, xlabel="ingredient 1", aspect="equal")
axes[0].set_ylabel("ingredient 2")
fig.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
fig.colorbar(levels, ax=axes, label="epistemic_std")

# %%
# Now six rounds of four measurements, twelve times over: with the default strategy, with the
# samples of the highest variance, and with random samples. The model is refitted after every round,
# which takes milliseconds. The error is measured over all recipes, not only the usual ones.


def errors(strategy, seed):
    """Return the RMSE over the whole square after 12, 16, ... 36 measurements."""
    random = np.random.RandomState(seed)
    X = candidates(random)
    y = true_yield(X) + 0.05 * random.standard_normal(2000)
    learner = ActiveLearner(PBPRegressor(20, random_state=seed), strategy, 4, random_state=seed)
    batch = np.arange(12)
    rmse = []
    for _ in range(7):
        learner.tell(X[batch], y[batch])
        rmse.append(metrics.rmse(true_yield(grid), learner.estimator_.predict(grid)))
        batch = learner.ask(X)
    return rmse


strategies = ("random", "variance", "variance_reduction")
runs = {s: np.array([errors(s, seed) for seed in range(12)]) for s in strategies}
for strategy, rmse in runs.items():
    first, *_, last = rmse.mean(axis=0)
    print(f"{strategy:18}  RMSE after 12 rows {first:.2f}, after 36 {last:.2f}")

# %%
# Random samples are mostly of the usual recipe and improve the model little. The samples of the
# highest variance are extreme, which helps here at first, because most of the pool is alike. The
# default strategy queries samples in between as well, and ends with half the error. In an evenly
# spread pool extreme samples may be worse than random ones; samples of the default strategy are
# not: :doc:`/guide/active` has the figures.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (strategy, rmse), style, color in zip(
    runs.items(), ["s--", "D:", "o-"], ["gray", "#D55E00", "#0072B2"], strict=True
):
    error = rmse.std(axis=0, ddof=1) / np.sqrt(len(rmse))
    ax.errorbar(
        12 + 4 * np.arange(7), rmse.mean(axis=0), error, fmt=style, color=color, label=strategy
    )
ax.set(xlabel="measurements", ylabel="RMSE over all recipes", ylim=(0, None))
ax.legend(title="strategy", frameon=False)
