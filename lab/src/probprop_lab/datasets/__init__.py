"""The benchmark sets of [PBP15], their fixed splits, and its toy problem.

`load` finds, verifies and reads a set, or downloads it first; `splits` gives the splits of the
literature; `toy_cubic` draws the toy data. Downloads need the extra ``data``.
"""

from probprop_lab.datasets.dataset import Dataset, load, where
from probprop_lab.datasets.errors import DataError
from probprop_lab.datasets.registry import NAMES
from probprop_lab.datasets.splits import splits
from probprop_lab.datasets.toy import toy_cubic

__all__ = ["NAMES", "DataError", "Dataset", "load", "splits", "toy_cubic", "where"]
