"""Tables of the pages that the benchmarks write."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], texts: Collection[int] = (0,)
) -> str:
    """Return a Markdown table; columns of texts begin at the left, those of numbers end right."""
    rule = [":--" if column in texts else "--:" for column in range(len(header))]
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])
