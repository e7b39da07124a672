from collections.abc import Sequence
from typing import Annotated

import numpy
from numpy.typing import NDArray


def move(position: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], momentum: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], gradient: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], inverse_mass: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], step: float, n_steps: int, X: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], y: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], hidden_layer_sizes: Sequence[int], hyperprior: tuple[float, float, float, float], probit: bool) -> Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C')]:
    """
    Moves chains by leapfrog steps, in place, and returns their potentials, (n_chains,).
    """
