"""Fits and predictions on a Dask cluster (extra ``dask``).

`fit` shares one training among the workers and returns an ordinary estimator; `predict` adds
predictions to every partition.
"""

try:
    import dask as _dask  # noqa: F401
    import distributed as _distributed  # noqa: F401
except ModuleNotFoundError as error:
    raise ImportError(
        "probprop.dask needs Dask with its scheduler: pip install 'probprop[dask]'"
    ) from error

from probprop.dask.fitting import fit
from probprop.dask.predicting import predict
from probprop.dask.shards import ShardWarning

__all__ = ["ShardWarning", "fit", "predict"]
