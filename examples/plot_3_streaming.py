"""
A stream of data with ``partial_fit``
=====================================

Samples arrive in batches. The model predicts each batch before it is updated on it, so every error
shown here is on new data, and no sample needs to be kept.
"""

# %%
# Friedman's function of five features (and five irrelevant ones), with noise of standard deviation
# 1.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.datasets import make_friedman1

from probprop import PBPRegressor, metrics

X, y = make_friedman1(n_samples=20_000, n_features=10, noise=1.0, random_state=0)
batches = list(zip(np.array_split(X, 100), np.array_split(y, 100), strict=True))

# %%
# The first batch sets the mean and scale that standardize all later ones, so it should be typical.

model = PBPRegressor(random_state=0)
model.partial_fit(*batches[0])
rmse, coverage, epistemic_std, aleatoric_std = [], [], [], []
for X_new, y_new in batches[1:]:
    predicted = model.predict_distribution(X_new)
    rmse.append(metrics.rmse(y_new, predicted.mean))
    coverage.append(metrics.interval_coverage(y_new, *predicted.interval(0.95)))
    epistemic_std.append(predicted.epistemic_std.mean())
    aleatoric_std.append(predicted.aleatoric_std.mean())
    model.partial_fit(X_new, y_new)

print(f"after {model.n_samples_seen_} rows: RMSE {np.mean(rmse[-10:]):.2f} (noise 1.00),")
print(f"{np.mean(coverage[-10:]):.1%} in the 95 % interval")

# %%
# The error falls toward the noise of 1, which no model can beat. The standard deviations follow:
# they start wide and narrow as samples arrive. A coverage that falls from batch to batch would be
# a sign that the stream changes.

rows = 200 * np.arange(1, 100)
fig, (top, bottom) = plt.subplots(2, figsize=(8, 6), layout="constrained", sharex=True)
top.plot(rows, rmse, color="black", label="RMSE of the next batch")
top.plot(rows, aleatoric_std, color="#D55E00", linestyle="--", label="aleatoric_std")
top.plot(
    rows, epistemic_std, color="#0072B2", linestyle=":", linewidth=2, label="mean epistemic_std"
)
top.axhline(1.0, color="gray", linewidth=0.8)
top.set(ylabel="target units", ylim=(0, None))
top.legend(frameon=False)
bottom.plot(rows, coverage, color="black", linewidth=1)
bottom.axhline(0.95, color="gray", linewidth=0.8)
bottom.set(xlabel="rows seen", ylabel="share in the 95 % interval", ylim=(0.9, 1.005))
bottom.yaxis.set_major_formatter(PercentFormatter(xmax=1, decimals=0))
