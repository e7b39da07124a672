"""
A pipeline, and a search of your own
====================================

``PBPRegressorCV`` is a scikit-learn estimator. Here it is the last step of a pipeline that encodes
categories, and selects its hyperparameters itself. Then ``GridSearchCV`` selects hyperparameters of
a single network by the cross-validated log-likelihood, which takes the predictive distribution into
account.
"""

# %%
# A table with numbers and a category: fuel used by delivery trips.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from probprop import PBPRegressor, PBPRegressorCV
from probprop.metrics import crps_scorer, log_likelihood_scorer

random = np.random.RandomState(0)
n = 250
trips = pd.DataFrame(
    {
        "distance": random.gamma(2, 30, n),  # km
        "load": random.uniform(0, 3, n),  # t
        "road": random.choice(["city", "country", "motorway"], n),
    }
)
per_km = trips["road"].map({"city": 0.16, "country": 0.11, "motorway": 0.13})  # l/km
y = per_km * trips["distance"] * (1 + 0.2 * trips["load"]) + random.normal(0, 2.0, n)  # l
X_train, X_test, y_train, y_test = train_test_split(trips, y, random_state=0)

# %%
# The encoder must return a dense array. You need not scale anything: the regressor standardizes.
# ``return_std`` goes through the pipeline.

numbers = make_column_transformer(
    (OneHotEncoder(sparse_output=False), ["road"]), remainder="passthrough"
)
pipeline = make_pipeline(numbers, PBPRegressorCV(budget="fast", n_jobs=-1, random_state=0))
pipeline.fit(X_train, y_train)
mean, std = pipeline.predict(X_test, return_std=True)
print(X_test.assign(fuel=y_test, mean=mean, std=std).head().round(2).to_string(index=False))
print(f"log-likelihood {log_likelihood_scorer(pipeline, X_test, y_test):.3f} on the test rows")

# %%
# The same with one network, the paper's, and a search for its size and number of epochs. Two scores
# at once; the first decides which parameters win.

search = GridSearchCV(
    make_pipeline(numbers, PBPRegressor(random_state=0)),
    {
        "pbpregressor__hidden_layer_sizes": [(10,), (50,), (50, 50)],
        "pbpregressor__n_epochs": [5, 10, 20, 40, 80, 160],
    },
    scoring={"log_likelihood": log_likelihood_scorer, "crps": crps_scorer},
    refit="log_likelihood",
    cv=3,
)
search.fit(X_train, y_train)
print("best:", search.best_params_)
print(f"log-likelihood {search.best_score_:.3f} in cross-validation,", end=" ")
print(f"{search.score(X_test, y_test):.3f} on the test rows")

# %%
# The whole search. With few epochs the network has not learned enough; with many its intervals are
# too narrow. Larger networks need more epochs. ``PBPRegressorCV`` calibrates its intervals
# afterward, on out-of-fold predictions, so it can train longer.

results = pd.DataFrame(search.cv_results_)
fig, ax = plt.subplots(figsize=(7, 4), layout="constrained")
styles = zip(["#0072B2", "#D55E00", "black"], ["o-", "s--", "^:"], strict=True)
for (sizes, rows), (color, style) in zip(
    results.groupby(results["param_pbpregressor__hidden_layer_sizes"].astype(str), sort=False),
    styles,
    strict=True,
):
    ax.plot(
        rows["param_pbpregressor__n_epochs"],
        rows["mean_test_log_likelihood"],
        style,
        color=color,
        label=f"hidden layers {sizes}",
    )
ax.set(xscale="log", xlabel="epochs", ylabel="out-of-fold log-likelihood (nats per sample)")
ax.set_xticks([5, 10, 20, 40, 80, 160], ["5", "10", "20", "40", "80", "160"])
ax.minorticks_off()
ax.legend(frameon=False)
