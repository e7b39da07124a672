"""What identifies one piece of work of an experiment."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from probprop_lab.results import Row


@dataclass(frozen=True)
class Job:
    """One fit of one method, wholly determined by these fields.

    Parameters
    ----------
    experiment : str
        Such as "table1".
    dataset : str
        A name of `probprop_lab.datasets`, or "toy_cubic".
    split : int
        Number of the split, from 0.
    method : str, default="PBP"
    seed : int, default=0
        Seed of the method's own random numbers.
    hidden : tuple of int, default=(50,)
        Units of each hidden layer.
    n_epochs : int, default=40
    evidence_cap : float or None, default=None
        PBP's evidence cap, in passes; None is the paper's.

    Examples
    --------
    >>> job = Job("table1", "yacht", split=3)
    >>> job.key
    '["table1", "yacht", 3, "PBP", 0, [50], 40, null]'
    >>> Job.of_row({**job.fields, "rmse": 1.0}) == job
    True
    """

    experiment: str
    dataset: str
    split: int
    method: str = "PBP"
    seed: int = 0
    hidden: tuple[int, ...] = (50,)
    n_epochs: int = 40
    evidence_cap: float | None = None

    @property
    def fields(self) -> Row:
        """The identifying fields as they are in a row."""
        return {**asdict(self), "hidden": list(self.hidden)}

    @property
    def key(self) -> str:
        """The same as one string: two jobs with the same key have the same result."""
        return json.dumps(list(self.fields.values()))

    @staticmethod
    def of_row(row: Mapping[str, Any]) -> Job:
        """Return the job a row came from; KeyError where a field is missing.

        Rows older than the field evidence_cap have none.
        """
        found = {field.name: {"evidence_cap": None, **row}[field.name] for field in fields(Job)}
        return Job(**{**found, "hidden": tuple(found["hidden"])})
