"""Fit the diabetes data of scikit-learn and say how good the predictions and error bars are."""

import time

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from probprop import PBPRegressor
from probprop.engine import cpu_level

X, y = load_diabetes(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.2, random_state=0)

start = time.perf_counter()
model = PBPRegressor(random_state=0).fit(X_train, y_train)
seconds = time.perf_counter() - start

predicted = model.predict_distribution(X_test)
lower, upper = predicted.interval(0.95)
print(f"diabetes: {len(y_train)} rows to train on, {len(y_test)} to test, {X.shape[1]} features")
print(f"  test RMSE            {np.sqrt(np.mean((predicted.mean - y_test) ** 2)):8.2f}")
print(f"  test log-likelihood  {predicted.logpdf(y_test).mean():8.3f}")
print(f"  95 % interval covers {np.mean((lower <= y_test) & (y_test <= upper)):8.1%}")
print(f"  fit                  {1000 * seconds:8.1f} ms, 40 epochs, kernel {cpu_level()}")
