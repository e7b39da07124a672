"""
Model selection by cross-validation
===================================

``PBPRegressorCV`` compares encodings, layers, evidence caps and epochs by cross-validation, and
stacks and calibrates the best. What is best depends on the data: little noise needs long training,
much noise little.
"""

# %%
# Two data sets: Friedman's function with hardly any noise, and diabetes, where most of the
# target is noise. A quarter of each is kept for the test.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split

from probprop import PBPRegressor, PBPRegressorCV, metrics, plot

data = {
    "Friedman, little noise": make_friedman1(240, n_features=5, noise=0.1, random_state=0),
    "diabetes, much noise": load_diabetes(return_X_y=True),
}
parts = {name: train_test_split(*both, random_state=0) for name, both in data.items()}
models = {}
for name, (X_train, _, y_train, _) in parts.items():
    usual = PBPRegressor(random_state=0).fit(X_train, y_train)
    chosen = PBPRegressorCV(n_jobs=-1, random_state=0).fit(X_train, y_train)
    models[name] = usual, chosen

# %%
# Each line is a candidate, evaluated by its calibrated out-of-fold log-likelihood. A line ends
# where the candidate was stopped.

fig, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
for ax, (name, (_, chosen)) in zip(axes, models.items(), strict=True):
    plot.candidate_curves(chosen, ax=ax)
    ax.set_title(name)

# %%
# ``groups_`` has the stacked candidates, ``calibration_`` the variance scaling factor and the
# gain of the noise network in log-likelihood per sample.

for name, (_, chosen) in models.items():
    print(f"{name}: {[group.candidate for group in chosen.groups_]}")
    found = chosen.calibration_
    print(f"  variances times {found.factor:.2f}; noise network {found.gain:+.3f} nats per row")

# %%
# On the test set, which had no part in the selection:

print(f"{'':28} RMSE  log-lik.  in 95 %  epistemic_std  aleatoric_std")
for name, (_, X_test, _, y_test) in parts.items():
    print(name)
    for label, model in zip(["40 epochs, no cap", "chosen"], models[name], strict=True):
        predicted = model.predict_distribution(X_test)
        scores = metrics.summary(y_test, predicted)
        print(
            f"  {label:24} {scores['rmse']:6.3g} {scores['log_likelihood']:9.3f} "
            f"{scores['coverage_95']:8.1%} {predicted.epistemic_std.mean():14.2g} "
            f"{predicted.aleatoric_std.mean():14.2g}"
        )
