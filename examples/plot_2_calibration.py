"""
Calibration on real data
========================

Ten measurements of 442 diabetes patients, and how far the disease had progressed a year later. A
prediction with an error bar makes two promises: it is close, and the error bar says how close. This
example checks both on a test set.
"""

# %%
# Fit on three quarters; the last quarter is the test set. ``PBPRegressorCV`` selects its
# hyperparameters and calibrates its predictive distribution by cross-validation within the three
# quarters; ``budget="fast"`` has it done in about a second.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.inspection import PartialDependenceDisplay
from sklearn.model_selection import train_test_split

from probprop import PBPRegressorCV, metrics, plot

data = load_diabetes()
X_train, X_test, y_train, y_test = train_test_split(
    data.data, data.target, test_size=0.25, random_state=0
)
model = PBPRegressorCV(budget="fast", n_jobs=-1, random_state=0).fit(X_train, y_train)
predicted = model.predict_distribution(X_test)

# %%
# RMSE and MAE score the mean only; log-likelihood and CRPS score the whole
# distribution; coverage and calibration error score the intervals.

for name, value in metrics.summary(y_test, predicted).items():
    print(f"{name:18} {value:8.3f}")

# %%
# Predicted against observed, with standard deviations.

TARGET = "disease progression"
fig, ax = plt.subplots(figsize=(6, 5.5), layout="constrained")
plot.predicted_against_observed(y_test, predicted, target=TARGET, ax=ax)

# %%
# Calibration: 80 % intervals should cover 80 % of the targets, and so for every level.
# Below the diagonal the intervals are too narrow. With 111 patients a few hundredths are chance.

fig, ax = plt.subplots(figsize=(5.5, 5), layout="constrained")
plot.calibration(y_test, predicted, ax=ax)

# %%
# Do the residuals grow with the predicted standard deviation? They should. Out of fold, the
# errors grew with the target, so the networks predict a Box–Cox transformation of it: where the
# prediction is high, the standard deviation is large. Everything is shown in units of the target.

print(model.best_params_)

fig, ax = plt.subplots(figsize=(6, 4.5), layout="constrained")
plot.residuals_against_std(y_test, predicted, target=TARGET, ax=ax)

# %%
# What the model found: the two features that matter most to its predictions, and scikit-learn's
# partial dependence on each, averaged over a hundred patients.

[ranked] = metrics.permutation_importance(model, X_test, y_test)
features = [int(name) for name in ranked.names[:2]]
fig, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", sharey=True)
PartialDependenceDisplay.from_estimator(
    model, X_train[:100], features, feature_names=data.feature_names, ax=axes
)
