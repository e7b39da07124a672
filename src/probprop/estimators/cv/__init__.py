"""Estimators that select their hyperparameters by cross-validation."""
