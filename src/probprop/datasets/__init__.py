"""The benchmark sets of [PBP15], their fixed splits, and its toy problem.

`load` finds, verifies and reads a set, or downloads it first; `splits` gives the splits of the
literature; `toy_cubic` draws the toy data. Downloads need the extra ``data``.
"""

from probprop.datasets.dataset import Dataset, load, where
from probprop.datasets.errors import DataError
from probprop.datasets.registry import NAMES
from probprop.datasets.splits import splits
from probprop.datasets.toy import toy_cubic

__all__ = ["NAMES", "DataError", "Dataset", "load", "splits", "toy_cubic", "where"]
