"""Which columns matter most: what is lost where the cells of one are shuffled."""

from __future__ import annotations

import numpy as np

from probprop import plot
from probprop._types import FloatArray
from probprop.metrics.importance import Importance
from probprop.report.document import Section
from probprop.report.parts import picture

_MOST = 15  # columns shown


def importance_section(found: Importance, held_out: bool | None, *, of_classes: bool) -> Section:
    """Which columns matter most, as a chart and a table.

    Parameters
    ----------
    found : Importance
        On the rows of the report.
    held_out : bool or None
        Whether the model had not seen them.
    of_classes : bool
    """
    n_repeats = found.loss.shape[1]
    rows = {True: "rows that the model had not seen", False: "training rows", None: "rows"}[
        held_out
    ]
    of = "log-loss rises" if of_classes else "log-likelihood falls"
    text = (
        f"How much worse the predictions of {found.n_rows:,} {rows} get when the cells of one "
        f"column are shuffled among them: by how much the mean {of}, in nats per row. Each column "
        f"was shuffled {n_repeats} times; ± is the standard deviation over these. A column that "
        "says the same as another is ranked low, since the other is still there."
    )
    if found.n_columns > len(found.names):
        text += (
            f" Of {found.n_columns:,} columns only these were ranked: they were left after groups "
            "of columns had been shuffled, and the groups that mattered least set aside."
        )
    shown = len(found.names[:_MOST])
    if shown < len(found.names):
        text += f" Shown are the first {shown}."
    other = "Accuracy falls by" if of_classes else "RMSE rises by"
    header = ["Column", f"{of.capitalize()} by", other]
    share = 100.0 if of_classes else 1.0
    table = [
        [name, _spread(loss), _spread(share * error) + (" %" if of_classes else "")]
        for name, loss, error in zip(found.names, found.loss, found.error, strict=True)
    ][:shown]
    drawn = picture(
        lambda ax: plot.importance(found, n=shown, label=f"{of} by [nats per row]", ax=ax),
        f"By how much the {of} where a column is shuffled",
        f"Most important is {found.names[0]}: {table[0][1]}.",
    )
    return Section("Which columns matter", text, (header, table), [drawn])


def _spread(values: FloatArray) -> str:
    """Write the mean of repetitions and their standard deviation."""
    spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    mean = float(values.mean())
    largest = max(abs(mean), spread)
    decimals = 0 if largest == 0.0 else max(0, 2 - int(np.floor(np.log10(largest))))
    return f"{mean:,.{decimals}f} ± {spread:,.{decimals}f}".replace("-", "−")
