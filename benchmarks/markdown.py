"""Tables of the pages that the benchmarks write."""

from __future__ import annotations

from collections.abc import Sequence


def table(header: Sequence[str], rows: Sequence[Sequence[str]], n_texts: int = 1) -> str:
    """Return a Markdown table; the first columns are text, the others numbers."""
    rule = [":--"] * n_texts + ["--:"] * (len(header) - n_texts)
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *rows])
