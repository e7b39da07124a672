"""Model files from before `PBPRegressorCV`, whose epochs and memory may be "auto".

Such a file has what was chosen in `choice_`. The model that is made of it has that as its
parameters: it predicts, and goes on, as it did.
"""

from __future__ import annotations

from typing import Any

from probprop.files.fields import field


def settled(header: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a network with what was chosen in place of "auto".

    Examples
    --------
    >>> old = {"n_epochs": "auto", "memory": 3.0, "dtype": "float32"}
    >>> settled({"parameters": old, "choice_": {"n_epochs": 160, "memory": 3.0}})
    {'n_epochs': 160, 'memory': 3.0, 'dtype': 'float32'}
    """
    parameters: dict[str, Any] = field(header, "parameters", dict)
    asked = [k for k in ("n_epochs", "memory") if parameters.get(k) == "auto"]
    if not asked:
        return parameters
    choice = field(header, "choice_", dict)
    if any(k not in choice for k in asked):
        raise ValueError("choice_ does not say what was chosen")
    return {**parameters, **{k: choice[k] for k in asked}}
