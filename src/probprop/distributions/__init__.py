"""Predictive distributions: of targets, of transformed targets, of class labels, of functions."""
