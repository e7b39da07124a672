"""Sections of a report on an estimator that was fitted on arrays, as a model of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from probprop.report import Section
from probprop.report.sections import sections_and_ranking
from probprop.table import TableModel
from probprop.table.encoding import TableEncoder


def sections_of(
    model: Any,
    X: Any,
    y: Any,
    *,
    feature_names: Sequence[object],
    target: str,
    held_out: Any,
    first_row: int = 1,
    baseline: Sequence[tuple[float, float]] = (),
) -> list[Section]:
    """Make a table of X and y, whose first row has this number, and score the model on it."""
    names = [str(name) for name in feature_names]
    frame = pd.DataFrame(np.asarray(X), columns=pd.Index(names))
    encoder = TableEncoder().fit(frame)
    frame[target] = np.asarray(y)
    frame.index += first_row - 1
    table = TableModel(model, encoder, target, baseline=tuple(baseline))
    return sections_and_ranking(table, frame, held_out=held_out)[0]
