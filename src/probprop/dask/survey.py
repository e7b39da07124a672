"""The first pass over pieces on a cluster: what they hold, one answer for all."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from probprop.dask.sources import Block, ParquetPiece, frame_of, no_rows
from probprop.table.encoding import Survey, Wanted, survey_frame


def survey(
    pieces: Sequence[pd.DataFrame | ParquetPiece], *, labels: Sequence[str], wanted: Wanted
) -> Survey:
    """Look at the columns of one piece."""
    [piece], [label] = pieces, labels
    frame = frame_of(piece, label)
    if len(frame) == 0:
        raise no_rows(label)
    return survey_frame(frame, label, wanted)


def survey_block(pieces: Sequence[Block], *, labels: Sequence[str], classes: bool) -> list[object]:
    """Return the different classes of one block; refuse one without rows."""
    [block], [label] = pieces, labels
    if len(block.X) == 0:
        raise no_rows(label)
    return np.unique(block.y).tolist() if classes and block.y.ndim == 1 else []
