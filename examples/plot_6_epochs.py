"""
Epochs and over-confidence
==========================

Every epoch uses the likelihood of every sample again, so the posterior narrows with the number of
epochs, whether or not the network learns anything from it. This example fits the same data with 5
to 160 epochs; 40 is the protocol of the paper and the default.
"""

# %%
# Diabetes: little signal, much noise. Ten random splits, a tenth of the rows to test on.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import load_diabetes
from sklearn.model_selection import ShuffleSplit

from probprop import PBPRegressor, metrics

X, y = load_diabetes(return_X_y=True)
splits = list(ShuffleSplit(10, test_size=0.1, random_state=0).split(X))
EPOCHS = [5, 10, 20, 40, 80, 160]


def measure(n_epochs):
    """Mean over the splits of error, log-likelihood, coverage and both standard deviations."""
    rows = []
    for train, test in splits:
        model = PBPRegressor(n_epochs=n_epochs, random_state=0).fit(X[train], y[train])
        predicted = model.predict_distribution(X[test])
        scores = metrics.summary(y[test], predicted)
        rows.append(
            [
                scores["rmse"],
                scores["log_likelihood"],
                scores["coverage_95"],
                predicted.epistemic_std.mean(),
                predicted.aleatoric_std.mean(),
            ]
        )
    return np.mean(rows, axis=0)


table = np.array([measure(n) for n in EPOCHS])
print("epochs   RMSE  log-lik.  in 95 %  epistemic_std  aleatoric_std")
for n, row in zip(EPOCHS, table, strict=True):
    print(f"{n:6} {row[0]:6.1f} {row[1]:9.3f} {row[2]:8.1%} {row[3]:14.1f} {row[4]:14.1f}")

# %%
# The training curve gives no warning: ``mean_log_Z``, on samples seen in earlier epochs,
# keeps rising. The test log-likelihood and the coverage show what happens.

fig, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
labels = [
    "test log-likelihood (nats per row)",
    "share in the 95 % interval",
    "mean epistemic_std (target units)",
]
for ax, column, label in zip(axes, table.T[1:4], labels, strict=True):
    ax.plot(EPOCHS, column, "o-", color="#0072B2")
    ax.axvline(40, color="gray", linewidth=0.8, linestyle="--")
    ax.set(xscale="log", xlabel="epochs", title=label)
    ax.set_xticks(EPOCHS, [str(n) for n in EPOCHS])
    ax.minorticks_off()
axes[1].axhline(0.95, color="black", linewidth=0.8)
axes[1].yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=1))
axes[2].set_ylim(0, None)
