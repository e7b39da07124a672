"""The seed of models of tables: the same in Python and in the command."""

DEFAULT_SEED = 0
"""Taken by `fit_table_model` and by ``probprop fit`` where no seed is given."""
