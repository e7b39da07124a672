"""Experiments the paper does not have: choices made automatically, other methods, labels."""
