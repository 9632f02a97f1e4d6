"""The standard streams: colours and progress on a terminal, and separate streams for threads."""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Reports are laid out for this many columns where the width of the reader's window is unknown.
PIPE_COLUMNS = 100
_STREAMS = ("stdin", "stdout", "stderr")

#: Called with how much is done, and how much there is.
Report = Callable[[int, int], None]


def emit(renderable: RenderableType) -> None:
    """Print to stdout, in colour on a terminal, as plain text in a pipe."""
    from rich.console import Console

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without block characters still gets the rest
    is_terminal = sys.stdout.isatty()
    console = Console(
        highlight=False, width=None if is_terminal else PIPE_COLUMNS, no_color=None if is_terminal else True
    )
    with console.capture() as capture:
        console.print(renderable)
    text = capture.get()
    click.echo(text if is_terminal else "\n".join(line.rstrip() for line in text.splitlines()))


def terminal_columns() -> int:
    """Return how wide the terminal is."""
    from rich.console import Console

    return Console().width


def report_columns() -> int:
    """Return the columns that reports have. In a pipe that is a fixed number."""
    return terminal_columns() if sys.stdout.isatty() else PIPE_COLUMNS


@contextmanager
def progress(what: str, unit: str = "") -> Iterator[Report | None]:
    """Show on stderr how far a block has come, if stderr is a terminal.

    Parameters: `unit`, what is counted, if the count is worth showing next to the share.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    # The display has a thread of its own, in which sys.stderr may be another stream.
    stderr = sys.stderr.current if isinstance(sys.stderr, _ThreadStream) else sys.stderr
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    count = (TextColumn(f"{{task.completed:,.0f}} {unit}"),) if unit else ()
    with Progress(
        *columns, *count, console=Console(file=stderr), transient=True, redirect_stdout=False, redirect_stderr=False
    ) as bars:
        task = bars.add_task(what, total=None)
        yield lambda done, total: bars.update(task, completed=done, total=total or None)


class _ThreadStream:
    """Stands for a standard stream, and for another one in threads that set one."""

    def __init__(self, default: TextIO) -> None:
        self._default = default
        self._local = threading.local()

    @property
    def current(self) -> TextIO:
        """The stream of this thread."""
        stream: TextIO = getattr(self._local, "stream", self._default)
        return stream

    @contextmanager
    def replaced(self, stream: TextIO) -> Iterator[None]:
        """Stand for another stream in this thread while a block runs."""
        self._local.stream = stream
        try:
            yield
        finally:
            del self._local.stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self.current, name)


@contextmanager
def streams_by_thread() -> Iterator[None]:
    """Allow threads their own standard streams while a block runs; see thread_streams."""
    originals = {name: getattr(sys, name) for name in _STREAMS}
    for name, stream in originals.items():
        setattr(sys, name, cast("TextIO", _ThreadStream(stream)))
    try:
        yield
    finally:
        for name, stream in originals.items():
            setattr(sys, name, stream)


@contextmanager
def thread_streams(stdin: TextIO, stdout: TextIO, stderr: TextIO) -> Iterator[None]:
    """Give this thread other standard streams while a block runs, inside streams_by_thread."""
    with ExitStack() as stack:
        for name, stream in zip(_STREAMS, (stdin, stdout, stderr), strict=True):
            stack.enter_context(getattr(sys, name).replaced(stream))
        yield
