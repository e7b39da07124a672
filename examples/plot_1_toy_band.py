"""
The toy problem of the paper
============================

The paper introduces probabilistic backpropagation by this picture: twenty points of y = x³ + ε with
noise ε of standard deviation 3, x drawn from [−4, 4], and a network with one layer of 100 units.
"""

# %%
# The data, and the fit. Nothing is tuned: the network learns the noise and the strength of the
# prior.

import matplotlib.pyplot as plt
import numpy as np

from probprop import PBPRegressor, plot

random = np.random.RandomState(3)
x = random.uniform(-4, 4, 20)
y = x**3 + 3 * random.standard_normal(20)

model = PBPRegressor(hidden_layer_sizes=100, random_state=0).fit(x[:, None], y)

# %%
# The distribution of a new target, along a line that goes beyond the data. The bands are one, two
# and three standard deviations of it, noise included.

line = np.linspace(-6, 6, 241)
predicted = model.predict_distribution(line[:, None])

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
plot.predictive_band(line, predicted, data=(x, y), truth=line**3, target="y", ax=ax)
ax.set(xlabel="x", ylim=(-130, 130))

# %%
# The two parts of the band. The noise is the same everywhere; the epistemic uncertainty grows
# outside the data. It grows linearly, because a ReLU network is linear there: rely on the growth,
# but not on its rate (the cubic leaves the band).

fig, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
ax.plot(line, predicted.std, color="black", label="std: both")
ax.plot(line, predicted.epistemic_std, color="#0072B2", label="epistemic_std: the network")
ax.plot(
    line, predicted.aleatoric_std, color="#D55E00", linestyle="--", label="aleatoric_std: the noise"
)
ax.plot(x, np.zeros_like(x), "|", color="black", markersize=12, label="data")
ax.set(xlabel="x", ylabel="standard deviation of y", ylim=(0, None))
ax.legend(loc="upper center", ncols=2, frameon=False)

# %%
# Functions drawn from the posterior show the same: they agree where there are data. Each is one
# ordinary network.

fig, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
for f in model.sample_functions(30, random_state=0):
    ax.plot(line, f(line[:, None]), color="#0072B2", alpha=0.3, linewidth=1)
ax.plot(x, y, "o", color="black", markersize=4)
ax.set(xlabel="x", ylabel="y", ylim=(-130, 130))
