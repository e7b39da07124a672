"""
Letting the data choose epochs and memory
=========================================

``n_epochs="auto", memory="auto"`` chooses the number of epochs, and the evidence that the posterior
holds, on held-out rows. The best choice depends on the data: little noise needs many epochs and a
long memory, much noise few.
"""

# %%
# Two sets of rows: Friedman's function with hardly any noise, and diabetes, where most of the
# target is noise. A quarter of each is kept for the test.

import matplotlib.pyplot as plt
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import train_test_split

from probprop import PBPRegressor, metrics, plot

data = {
    "Friedman, little noise": make_friedman1(240, n_features=5, noise=0.1, random_state=0),
    "diabetes, much noise": load_diabetes(return_X_y=True),
}
parts = {name: train_test_split(*both, random_state=0) for name, both in data.items()}
models = {}
for name, (X_train, _, y_train, _) in parts.items():
    usual = PBPRegressor(random_state=0).fit(X_train, y_train)
    auto = PBPRegressor(n_epochs="auto", memory="auto", random_state=0).fit(X_train, y_train)
    models[name] = usual, auto

# %%
# Each line is a training run with another memory, judged on rows of the training part that were
# held out in turn. A line ends when it has not improved for a while.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, (name, (_, auto)) in zip(axes, models.items(), strict=True):
    plot.choice_curves(auto.choice_, ax=ax)
    ax.set_title(name)

# %%
# ``choice_`` has the pair, and how much better it was than the protocol of the paper on the
# held-out rows. The pair wins only if that is more than its standard error.

for name, (_, auto) in models.items():
    c = auto.choice_
    print(f"{name}: memory {c.memory}, {c.n_epochs} epochs")
    print(f"  gain on rows held out {c.gain:+.3f} ± {c.gain_error:.3f} nats per row")

# %%
# On the test rows, which had no part in the choice:

print(f"{'':28} RMSE  log-lik.  in 95 %  std_model  std_noise")
for name, (_, X_test, _, y_test) in parts.items():
    print(name)
    for label, model in zip(["40 epochs, no bound", "auto"], models[name], strict=True):
        predicted = model.predict_distribution(X_test)
        scores = metrics.summary(y_test, predicted)
        print(
            f"  {label:24} {scores['rmse']:6.3g} {scores['log_likelihood']:9.3f} "
            f"{scores['coverage_95']:8.1%} {predicted.std_model.mean():10.2g} "
            f"{predicted.std_noise.mean():10.2g}"
        )
