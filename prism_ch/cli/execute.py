"""Runs a command and ends it: every error becomes one line and an exit status.

Ctrl-C ends a command also while the engine runs a statement.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import HeldElsewhere, Session
from prism_ch.cli.terminal import thread_streams
from prism_ch.errors import PrismError, SettingsError, StoreError, UsageError

if TYPE_CHECKING:
    from prism_ch.daemon.control import Request, Streams
    from prism_ch.settings import Settings

FAILED, WRONG_USAGE = 1, 2
#: As shells report a program that a signal ended: 128 and the signal's number.
INTERRUPTED, READER_GONE = 128 + 2, 128 + 13
#: Commands that the service ends when their reader has gone.
_READING = (["sql"], ["incidents"], ["jobs"], ["steps"], ["tables"], ["export"], ["report"], ["what-if"])
#: How long Python may take to act on SIGINT by itself, in seconds.
_INTERRUPT_GRACE_S = 1.0


def execute(root: click.Command, arguments: Sequence[str]) -> int:
    """Run one command and return its exit status; every error becomes one line on stderr."""
    session = Session()
    try:
        with _interruptible():
            status = _invoke(root, arguments, session)
    except BrokenPipeError:
        # Nobody reads the output any more; the interpreter's last flush must not fail on that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except (KeyboardInterrupt, click.Abort):
        _print_interrupted()
        return INTERRUPTED
    except HeldElsewhere as held:
        return _delegate(arguments, held, session)
    except Exception as error:  # noqa: BLE001 - the border to the outside: a traceback is shown on request only
        return _print_error(error, session)
    return status


def execute_for_client(root: click.Command, request: Request, streams: Streams, settings: Settings) -> int:
    """Run a client's command in the service, on the client's streams."""
    database = f"{settings.url.partition('?')[0]}?database={request.database}"
    session = Session(
        served=settings.model_copy(update={"url": database}), directory=request.directory, has_left=streams.has_left
    )
    with thread_streams(streams.stdin, streams.stdout, streams.stderr):
        try:
            return _invoke(root, request.arguments, session)
        except BrokenPipeError:
            return READER_GONE
        except Exception as error:  # noqa: BLE001 - the client gets one line for any error
            return INTERRUPTED if streams.has_left() else _print_error(error, session)


def _invoke(root: click.Command, arguments: Sequence[str], session: Session) -> int:
    """Run a command without click's main(), which handles errors in its own way."""
    try:
        with root.make_context("prism-ch", list(arguments), obj=session) as context:
            status = root.invoke(context)
    except click.exceptions.Exit as end:
        status = end.exit_code
    sys.stdout.flush()
    return status if isinstance(status, int) else 0


def _delegate(arguments: Sequence[str], held: HeldElsewhere, session: Session) -> int:
    """Have the service that holds the embedded database run a command."""
    from prism_ch.daemon.control import Request, call

    request = Request(list(arguments), held.location.database, str(Path.cwd()))
    try:
        status = call(
            held.location.folder, request, [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]
        )
    except KeyboardInterrupt:
        _print_line("interrupted" if arguments[:1] in _READING else "interrupted; the service goes on with it")
        return INTERRUPTED
    except ConnectionError as error:
        return _print_error(StoreError(f"{held.location}: {error}; run it again"), session)
    return _print_error(held.error, session) if status is None else status


@contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGINT end the process also while the engine runs a statement.

    Python handles a signal between two of its own instructions, and a statement is a single one. A thread notices the
    signal meanwhile, and ends the process if Python has not done so. The database survives that as it survives a kill.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)  # noqa: FBT003 - the only way to say it
    ended = threading.Event()

    def watch() -> None:
        while signals := reader.recv(64):
            if signal.SIGINT in signals and not ended.wait(_INTERRUPT_GRACE_S):
                _print_interrupted()
                os._exit(INTERRUPTED)

    watcher = threading.Thread(target=watch, name="interrupt", daemon=True)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        signal.set_wakeup_fd(previous)
        writer.close()
        watcher.join()
        reader.close()


def _print_interrupted() -> None:
    if sys.stderr.isatty():
        click.echo(err=True)  # the terminal has shown ^C on this line
    _print_line("interrupted; run the same command again to go on")


def _print_error(error: Exception, session: Session) -> int:
    if session.debug:
        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return WRONG_USAGE
    if isinstance(error, click.ClickException):
        command = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "prism-ch"
        _print_line(f"{error.format_message()} (see `{command} --help`)")
        return error.exit_code
    if isinstance(error, PrismError):
        _print_line(str(error))
        return WRONG_USAGE if isinstance(error, UsageError | SettingsError) else FAILED
    _print_line(f"unexpected {type(error).__name__}: {error}; run again with --debug to see where")
    return FAILED


def _print_line(message: str) -> None:
    click.echo(f"prism-ch: {' '.join(message.split())}", err=True)
