"""Numbers as piecewise-linear ramps: the functions over arrays, and scikit-learn's transformer."""
