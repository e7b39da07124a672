"""Predictive distributions: of targets, of labels, of mixtures; and what can be asked of them."""
