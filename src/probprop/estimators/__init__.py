"""The algorithm behind scikit-learn's interface."""
