"""The picture of the strategies of active learning: what each changes of the error at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from probprop_lab.experiments.harness.columns import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_APART = 0.3  # marks of one set, which are 1 apart


def figures(records: Sequence[Record]) -> list[tuple[Figure, str]]:
    """Draw one panel per model, a line per set and a mark per strategy with two standard errors.

    Parameters
    ----------
    records : sequence of dict
        One per set and model. If nothing was compared there is no picture.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter

    from probprop.plot.parts import BLUE, VERMILLION

    compared = [r for r in records if r["variance_reduction"] is not None]
    names = list(dict.fromkeys(record["dataset"] for record in compared))
    models = list(dict.fromkeys(record["model"] for record in compared))
    if not names:
        return []
    figure = Figure(
        figsize=(2.6 + 3.4 * len(models), 1.4 + 0.32 * len(names)), layout="constrained"
    )
    panels = figure.subplots(1, len(models), sharex=True, sharey=True, squeeze=False).ravel()
    for ax, model in zip(panels, models, strict=True):
        own = [record for record in compared if record["model"] == model]
        for i, (key, color, marker) in enumerate(
            [("variance", VERMILLION, "D"), ("variance_reduction", BLUE, "o")]
        ):
            shown = [record for record in own if record[key] is not None]
            if shown:
                ax.errorbar(
                    [record[key] for record in shown],
                    [names.index(r["dataset"]) + _APART * (i - 0.5) for r in shown],
                    xerr=[2.0 * (record[f"{key}_se"] or 0.0) for record in shown],
                    color=color,
                    marker=marker,
                    ms=5,
                    ls="none",
                    capsize=2,
                    label=key,
                )
        ax.axvline(0.0, color="0.3", lw=1, ls="--", zorder=1)
        ax.grid(color="0.92")
        ax.set_title(model, fontsize="medium")
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _per_cent(x)))
    panels[0].set_yticks(range(len(names)), names)
    panels[0].set_ylim(len(names) - 0.5, -0.5)  # the first at the top
    figure.supxlabel("RMSE from 20 to 60 rows, against rows at random", fontsize="medium")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    words = "What strategies change of the RMSE at random, with two standard errors; left is better"
    return [(figure, f"{words}: {', '.join(names)}")]


def _per_cent(change: float) -> str:
    """Return the text of a tick.

    Examples
    --------
    >>> _per_cent(-10.0), _per_cent(0.0), _per_cent(5.0)
    ('−10 %', '0 %', '+5 %')
    """
    return "0 %" if change == 0.0 else f"{change:+.0f} %".replace("-", "−")
