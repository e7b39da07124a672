"""Piecewise-linear encoding: functions over arrays, and a scikit-learn transformer."""
