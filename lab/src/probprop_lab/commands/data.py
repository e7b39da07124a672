"""`probprop data`: the benchmark sets of the paper, where they are and how to get them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from probprop.cli.console import terminal_of
from probprop.table.names import plural

_HELP = """List and fetch the ten benchmark sets of the paper.

\b
Examples:
  probprop data list
  probprop data fetch yacht energy
  probprop data path
"""
LIST_EXAMPLES = """\b
Example:
  probprop data list
"""
FETCH_EXAMPLES = """\b
Examples:
  probprop data fetch yacht energy
  probprop data fetch all
"""
PATH_EXAMPLES = """\b
Examples:
  probprop data path
  cp YearPredictionMSD.txt "$(probprop data path)"
"""

app = typer.Typer(help=_HELP, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command("list", epilog=LIST_EXAMPLES)
def list_sets(context: typer.Context) -> None:
    """Show the sets, their sizes and licenses, and which are on this machine."""
    from probprop_lab.datasets import NAMES, where
    from probprop_lab.datasets.registry import SOURCES

    terminal_of(context).table(
        ["name", "rows", "features", "splits", "license", "where"],
        [
            [
                name,
                f"{SOURCES[name].shape[0]:,}",
                str(len(SOURCES[name].feature_names)),
                str(SOURCES[name].n_splits),
                SOURCES[name].license,
                _place(where(name)),
            ]
            for name in NAMES
        ],
    )


@app.command(epilog=FETCH_EXAMPLES)
def fetch(
    context: typer.Context,
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Sets to fetch, or `all`.")],
) -> None:
    """Download the sets that are missing, and verify and parse all that are named.

    If one fails, the others are still fetched.
    """
    from probprop_lab.datasets import NAMES, DataError, load, where
    from probprop_lab.datasets.registry import find_source

    terminal = terminal_of(context)
    wanted = NAMES if names == ["all"] else tuple(dict.fromkeys(names))
    try:
        sources = {name: find_source(name) for name in wanted}
    except DataError as error:
        raise typer.BadParameter(str(error)) from error
    failed = False
    for name, source in sources.items():
        if where(name) is None:
            terminal.say(f"{name}: from {source.address}")
        try:
            data = load(name)
        except DataError as error:
            terminal.error(f"{name}: {error}")
            failed = True
            continue
        shape = f"{plural(data.X.shape[0], 'row')}, {plural(data.X.shape[1], 'feature')}"
        terminal.result(f"{name}: {shape}; target {data.target}; license: {data.license}")
        terminal.say(f"  cite {data.citation}")
    if failed:
        raise typer.Exit(1)


@app.command(epilog=PATH_EXAMPLES)
def path(context: typer.Context) -> None:
    """Print the folder of the downloaded files; files can be put there by hand too."""
    from probprop_lab.datasets.store import cache_folder, data_folder

    terminal = terminal_of(context)
    folder = data_folder()
    if folder is not None:
        terminal.say(f"PROBPROP_DATA is looked into first: {folder}")
    terminal.result(str(cache_folder()))


def _place(path: Path | None) -> str:
    from probprop_lab.datasets.store import data_folder

    if path is None:
        return "not here"
    return "PROBPROP_DATA" if path.parent == data_folder() else "cache"
