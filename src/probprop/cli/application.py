"""The typer app, and the one place where failures become a line and an exit code."""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from typing import Annotated

import typer

from probprop._version import __version__
from probprop.cli import active, comparing, judging, prediction, showing, training
from probprop.cli.console import Terminal, make_terminal

DATA_ERROR, USAGE_ERROR, INTERRUPTED = 1, 2, 130
_ANYWHERE = ("--quiet", "-q", "--verbose", "-v", "--debug")

_HELP = """Regression and classification on tables with calibrated uncertainty.

Bayesian neural networks are fitted to a table (CSV, TSV, Parquet, JSON lines or Excel), without
tuning; predictions come with standard deviations and intervals. The options -q, -v and --debug are
accepted after the command too.

\b
Examples:
  probprop demo
  probprop play
  probprop fit houses.csv --target price -o houses.pbp
  probprop predict houses.pbp new.csv -o predicted.xlsx
  probprop evaluate houses.pbp sold.csv
  probprop active alloys.csv --target strength --ask 5
  probprop compare houses.csv --target price
"""

# Without markup the help is plain text, whose examples can be copied, on every kind of output.
app = typer.Typer(
    help=_HELP, rich_markup_mode=None, invoke_without_command=True, pretty_exceptions_enable=False
)
app.command(epilog=showing.DEMO_EXAMPLES)(showing.demo)
app.command(epilog=showing.PLAY_EXAMPLES)(showing.play)
app.command(epilog=training.FIT_EXAMPLES)(training.fit)
app.command(epilog=prediction.PREDICT_EXAMPLES)(prediction.predict)
app.command(epilog=judging.EVALUATE_EXAMPLES)(judging.evaluate)
app.command(epilog=judging.REPORT_EXAMPLES)(judging.report)
app.command(epilog=judging.UPDATE_EXAMPLES)(judging.update)
app.command(epilog=judging.INFO_EXAMPLES)(judging.info)
app.command(epilog=active.ACTIVE_EXAMPLES)(active.active)
app.command(epilog=comparing.COMPARE_EXAMPLES)(comparing.compare)
for entry_point in entry_points(group="probprop.commands"):
    entry_point.load()(app)


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print only results and errors.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Print notes on the algorithm.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Make the terminal that every command prints with, where `run` has not passed one."""
    if not isinstance(context.obj, Terminal):
        context.obj = make_terminal(quiet=quiet, verbose=verbose)
    if version:
        context.obj.result(f"probprop {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(USAGE_ERROR)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code: 0, 1 for data, 2 for usage, 130 for Ctrl-C."""
    arguments = _move_to_front(arguments)
    _prepare_standard_streams()
    debug = "--debug" in arguments
    terminal = make_terminal(
        quiet="--quiet" in arguments or "-q" in arguments,
        verbose="--verbose" in arguments or "-v" in arguments,
    )
    try:
        with terminal.warnings_as_notes():
            command = typer.main.get_command(app)
            # One console for bars and notes: rich then prints a note above a bar, not into it.
            code = command.main(
                arguments, prog_name="probprop", standalone_mode=False, obj=terminal
            )
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except (BrokenPipeError, SystemExit) as end:
        # The reader closed the pipe, as `head` does; Typer exits with the code 1 then.
        if not isinstance(end if isinstance(end, OSError) else end.__context__, BrokenPipeError):
            raise
        code = 0
        with open(os.devnull, "wb") as nowhere:  # Python would complain of the pipe at its end
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
    except Exception as error:
        if debug:
            raise
        code = _explain(error, terminal)
    if code == INTERRUPTED:
        terminal.error("interrupted; every file is complete or as it was")
    return code if isinstance(code, int) else 0


def _prepare_standard_streams() -> None:
    """Open the standard streams that are closed; escape what the encoding of a terminal lacks.

    The next file would otherwise get the number of a closed stream, and a library that prints would
    write into it. Python's own streams stay None.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _move_to_front(arguments: Sequence[str]) -> list[str]:
    """Accept the options of the application after the command too."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    anywhere = [a for a in arguments[:end] if a in _ANYWHERE]
    return [*anywhere, *(a for a in arguments[:end] if a not in _ANYWHERE), *arguments[end:]]


def _explain(error: Exception, terminal: Terminal) -> int:
    """Print what is wrong and what to do, in one line; return the exit code."""
    # The class of usage errors is click's or typer's own, depending on the version of typer.
    format_message = getattr(error, "format_message", None)
    if format_message is not None:
        context = getattr(error, "ctx", None)
        path = context.command_path if context is not None else "probprop"
        words = format_message().rstrip(".").replace("Value error, ", "")  # of some versions
        terminal.error(f"{words} (see `{path} --help`)")
        return USAGE_ERROR
    if isinstance(error, OSError):
        terminal.error(_explain_os_error(error))
    elif isinstance(error, MemoryError):
        terminal.error("not enough memory: use fewer rows, fewer columns or --dtype float32")
    elif isinstance(error, ValueError | ImportError):
        terminal.error(str(error))
    else:
        name = type(error).__name__
        terminal.error(
            f"unexpected {name}: {error}; run it again with --debug and report the traceback"
        )
    return DATA_ERROR


_ADVICE = {
    errno.ENOENT: "check the path",
    errno.EACCES: "check the permissions of the file and its folder",
    errno.EPERM: "check the permissions of the file and its folder",
    errno.EROFS: "choose a path on a disk that can be written",
    errno.EISDIR: "give the path of a file",
    errno.ENOTDIR: "check the path",
    errno.ENOSPC: "free some space or choose another path; that file was not changed",
    errno.EDQUOT: "free some space or choose another path; that file was not changed",
    errno.EFBIG: "raise the limit or choose another path; that file was not changed",
}


def _explain_os_error(error: OSError) -> str:
    """Return the system's reason with the file's name and what to do.

    >>> _explain_os_error(FileNotFoundError(2, "No such file or directory", "houses.csv"))
    'houses.csv: no such file or directory; check the path'
    """
    if error.errno is None or error.strerror is None:
        return str(error)
    reason = error.strerror[:1].lower() + error.strerror[1:]
    name = f"{error.filename}: " if error.filename is not None else ""
    advice = _ADVICE.get(error.errno)
    return f"{name}{reason}" + (f"; {advice}" if advice else "")
