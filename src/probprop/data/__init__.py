"""Fits on samples in memory, on disk and on a Dask cluster: sources, shards, `fit` and `predict`.

`probprop.fit` and `probprop.predict` are defined here.
"""

from probprop.data.fitting import fit, predict
from probprop.data.shards import ShardWarning

__all__ = ["ShardWarning", "fit", "predict"]
