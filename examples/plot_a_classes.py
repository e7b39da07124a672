"""
Classification: epistemic and aleatoric uncertainty
===================================================

A prediction can be uncertain because the classes overlap (aleatoric uncertainty), or because there
were no training samples nearby (epistemic uncertainty). ``PBPClassifier`` separates the two.
"""

# %%
# Wines of three growers, with two of their chemical measurements, so that we can draw everything.

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.datasets import load_wine

from probprop import PBPClassifier

wine = load_wine()
columns = [wine.feature_names.index(name) for name in ("alcohol", "malic_acid")]
X, y = wine.data[:, columns], wine.target
model = PBPClassifier(random_state=0).fit(X, y)

# %%
# A grid that reaches well beyond the wines. At each point the entropy of the grower is the sum of
# ``entropy_noise``, which would remain if the network were known, and ``entropy_model``, which more
# wines could remove.

across, up = np.meshgrid(np.linspace(8.0, 18.0, 70), np.linspace(-5.0, 12.0, 70))
predicted = model.predict_distribution(np.column_stack([across.ravel(), up.ravel()]))

colors = ["#0072B2", "#D55E00", "#009E73"]
fig, axes = plt.subplots(1, 3, figsize=(12, 4.2), layout="constrained", sharey=True)
best = predicted.proba.argmax(axis=1).reshape(across.shape)
axes[0].pcolormesh(across, up, best, cmap=ListedColormap(colors), alpha=0.3, linewidth=0)
axes[0].set(title="the most probable grower", ylabel="malic acid")
for ax, name in zip(axes[1:], ["entropy_noise", "entropy_model"], strict=True):
    nats = getattr(predicted, name).reshape(across.shape)
    shades = ax.pcolormesh(across, up, nats, cmap="Greys", vmin=0.0, vmax=1.0)
    ax.set_title(name)
for ax in axes:
    for grower, color in enumerate(colors):
        ax.scatter(*X[y == grower].T, s=14, color=color, edgecolor="white", linewidth=0.5)
    ax.set_xlabel("alcohol")
fig.colorbar(shades, ax=axes, label="nats")

# %%
# Among the wines the growers overlap, and no further wine would change that. Where there are no
# wines, the epistemic entropy is high in a fan along the borders between growers, but not
# everywhere. With little alcohol it is low, with or without wines: far from a border the outputs
# grow as fast as their standard deviations. Three points:

points = {"among the wines": [13.0, 2.0], "far, at a border": [14.5, 10.0], "far left": [8.5, 2.0]}
for words, point in points.items():
    p = model.predict_distribution([point])
    print(
        f"{words:16} entropy {p.entropy[0]:.2f} = {p.entropy_noise[0]:.2f} random "
        f"+ {p.entropy_model[0]:.2f} not known"
    )
