"""What goes to the terminal or the pipe: colours, tables and progress only where a person is watching."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click
from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from prism_ch.cli.streams import stream_here

#: Reports are laid out for this many columns where the width of the reader's window is unknown.
PIPE_COLUMNS = 100


#: Takes note of how much is done, and of how much there is.
Report = Callable[[int, int], None]


def emit(renderable: RenderableType) -> None:
    """Print to stdout: in colour on a terminal, as plain text without trailing blanks in a pipe."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without block characters still gets the rest
    watched = sys.stdout.isatty()
    console = Console(highlight=False, width=None if watched else PIPE_COLUMNS, no_color=None if watched else True)
    with console.capture() as capture:
        console.print(renderable)
    text = capture.get()
    click.echo(text if watched else "\n".join(line.rstrip() for line in text.splitlines()))


@contextmanager
def progress(what: str, unit: str = "") -> Iterator[Report | None]:
    """Show on stderr how far a block has come, if stderr is a terminal; keep quiet otherwise.

    Parameters: `unit`, what is counted, where the count is worth showing beside the share.
    """
    if not sys.stderr.isatty():
        yield None
        return
    here = stream_here(sys.stderr)  # the display has a thread of its own
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    count = (TextColumn(f"{{task.completed:,.0f}} {unit}"),) if unit else ()
    with Progress(
        *columns, *count, console=Console(file=here), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)
