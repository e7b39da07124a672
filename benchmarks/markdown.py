"""Tables of the pages that the benchmarks write."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], texts: Collection[int] = (0,)
) -> str:
    """Return a Markdown table; columns of text are aligned left, numbers right."""
    rule = [":--" if column in texts else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])


def best_bold(cells: Sequence[str], choose: Callable[[Iterable[float]], float]) -> list[str]:
    """Return numbers of a table with the best of them, as they are printed, in bold.

    Examples
    --------
    >>> best_bold(["−1.63", "−1.59", "−1.59"], max)
    ['−1.63', '**−1.59**', '**−1.59**']
    """
    values = [float(cell.replace("−", "-")) for cell in cells]
    best = choose(values)
    return [f"**{c}**" if v == best else c for c, v in zip(cells, values, strict=True)]
