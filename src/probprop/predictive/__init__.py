"""Predictive distributions of targets and of labels, of one network or as a mixture of several."""
