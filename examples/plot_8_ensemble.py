"""
Ensembles: several seeds instead of one
=======================================

An ensemble predicts with the mixture of several networks. Another ``random_state`` starts from
other weights and ends in another, equally good network. The mixture is wider where its members
disagree, and usually better on new samples. Its cost is one fit per member.
"""

# %%
# Noisy points of y = x sin(1.5 x) / 2. Among the data the members agree. Outside they diverge, and
# each alone is over-confident.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import ShuffleSplit

from probprop import PBPEnsemble, PBPRegressor, plot

random = np.random.RandomState(1)
x = random.uniform(-4, 4, 200)
y = x * np.sin(1.5 * x) / 2 + 0.2 * random.standard_normal(200)
ensemble = PBPEnsemble(PBPRegressor(100), n_members=5, random_state=0).fit(x[:, None], y)
single = ensemble.estimators_[0]  # what PBPRegressor(100, random_state=0) gives

line = np.linspace(-7, 7, 281)
truth = line * np.sin(1.5 * line) / 2
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", sharey=True)
for ax, model, title in zip(axes, (single, ensemble), ("one network", "five"), strict=True):
    predicted = model.predict_distribution(line[:, None])
    plot.predictive_band(line, predicted, data=(x, y), truth=truth, target="y", ax=ax)
    ax.set(title=title, xlabel="x", ylim=(-9, 7))

# %%
# The means of the members and the ``epistemic_std`` of the ensemble, whose square is the mean of
# the members' variances plus the variance of their means.

fig, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for i, member in enumerate(ensemble.estimators_):
    predicted = member.predict_distribution(line[:, None])
    style = {"color": "#0072B2", "alpha": 0.6, "linewidth": 1, "label": "a member" if not i else ""}
    axes[0].plot(line, predicted.mean, **style)
    axes[1].plot(line, predicted.epistemic_std, **style)
predicted = ensemble.predict_distribution(line[:, None])
for ax, values, name in zip(
    axes, (predicted.mean, predicted.epistemic_std), ("mean", "epistemic_std"), strict=True
):
    ax.plot(line, values, color="#D55E00", linestyle="--", linewidth=2, label="the ensemble")
    ax.set(xlabel="x", ylabel=f"{name} of y")
    ax.axvspan(x.min(), x.max(), color="gray", alpha=0.12, linewidth=0, label="data")
    ax.legend(frameon=False)

# %%
# On real data: ten splits of diabetes, two hidden layers, the log-likelihood of test rows. The
# members of a smaller ensemble are the first of a larger one, so one fit of eight shows all sizes.

X, target = load_diabetes(return_X_y=True)
SIZES = [1, 2, 3, 5, 8]
table = []
for seed, (train, test) in enumerate(ShuffleSplit(10, test_size=0.1, random_state=0).split(X)):
    ensemble = PBPEnsemble(PBPRegressor((50, 50)), n_members=8, n_jobs=-1, random_state=seed)
    members = ensemble.fit(X[train], target[train]).estimators_
    row = []
    for size in SIZES:
        ensemble.estimators_ = members[:size]
        row.append(ensemble.predict_distribution(X[test]).logpdf(target[test]).mean())
    table.append(row)
table = np.array(table)

fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
gain = table - table[:, :1]
error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
ax.errorbar(SIZES, gain.mean(axis=0), error, fmt="o-", color="#0072B2", capsize=3)
ax.axhline(0, color="black", linewidth=0.8)
ax.set(xlabel="members", ylabel="gain in test log-likelihood\n(nats per row)", xticks=SIZES)
