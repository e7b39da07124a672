"""
Thompson sampling: what to measure next
=======================================

There are 2000 candidates, each described by eight numbers, and measuring one is costly. Which are
the best? Thompson sampling draws a function from the posterior and measures the candidate that is
best *by that function*. Ten functions give a batch of ten: each is plausible, and they disagree
where the model is unsure, so the batch is varied. ``sample_functions`` draws them.
"""

# %%
# The candidates, and what a measurement of each would give: Friedman's function with noise of
# standard deviation 1.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1
from sklearn.metrics import pairwise_distances

from probprop import PBPRegressor

X, value = make_friedman1(2000, n_features=8, noise=0.0, random_state=0)
measured = value + np.random.RandomState(0).standard_normal(2000)
best = np.argsort(value)[-40:]  # the best two in a hundred: what is to be found

# %%
# Three ways to choose the next ten.


def at_random(model, left, random):
    return random.choice(left, 10, replace=False)


def by_the_mean(model, left, random):
    return left[np.argsort(model.predict(X[left]))[-10:]]


def by_Thompson_sampling(model, left, random):
    chosen = []
    for f in model.sample_functions(10, random_state=random):
        order = left[np.argsort(-f(X[left]))]
        chosen.append(next(i for i in order if i not in chosen))
    return np.array(chosen)


# %%
# Twenty candidates at random to begin with, then twelve rounds. The model is refitted every
# time, which takes milliseconds.


def search(choose):
    """Return the share of the best that was measured, and the spread of each batch, per round."""
    random = np.random.RandomState(0)
    seen = random.choice(2000, 20, replace=False)
    found, spread = [], []
    for _ in range(12):
        model = PBPRegressor(random_state=0).fit(X[seen], measured[seen])
        batch = choose(model, np.setdiff1d(np.arange(2000), seen), random)
        seen = np.append(seen, batch)
        found.append(np.isin(best, seen).mean())
        spread.append(pairwise_distances(X[batch]).sum() / 90)  # mean over the pairs
    return found, spread


results = {
    choose.__name__: search(choose) for choose in (at_random, by_the_mean, by_Thompson_sampling)
}
for name, (found, spread) in results.items():
    print(f"{name.replace('_', ' '):21} found {found[-1]:4.0%}", end="   ")
    print(f"distance within a batch: first {spread[0]:.2f}, last {spread[-1]:.2f}")

# %%
# After 140 of 2000 measurements Thompson sampling has found nearly all of the best, chance only a
# few. On this smooth function the highest means alone are as good a choice. Thompson sampling pays
# if ten near copies of one candidate would be a waste: its first batches are more varied. It cannot
# repair a wrong model: none of the drawn functions has a narrow peak far from all measurements.

fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for (name, (found, _)), style, color in zip(
    results.items(), [":", "--", "-"], ["gray", "#D55E00", "#0072B2"], strict=True
):
    ax.plot(30 + 10 * np.arange(12), found, style, color=color, label=name.replace("_", " "))
ax.set(xlabel="measurements", ylabel="share of the 40 best that was found", ylim=(0, 1.04))
ax.legend(frameon=False)
