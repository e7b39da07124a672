"""Estimators that choose their own settings by cross-validation."""
