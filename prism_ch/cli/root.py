"""The entry point: options before the command's name, and what an error looks like to the outside."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism_ch import __version__
from prism_ch.cli.analysis import analyse, run
from prism_ch.cli.grafana import grafana
from prism_ch.cli.interrupt import interruptible
from prism_ch.cli.landing import ingest, migrate, topology
from prism_ch.cli.retention import retention
from prism_ch.cli.service import doctor, hash_password, serve
from prism_ch.cli.session import HeldElsewhere, Session, shared_options
from prism_ch.cli.simulation import simulate
from prism_ch.cli.sql import sql
from prism_ch.cli.streams import streams_named
from prism_ch.cli.tenants import tenants
from prism_ch.errors import PrismError, SettingsError, StoreError, UsageError

if TYPE_CHECKING:
    from prism_ch.daemon.control import Request, Streams
    from prism_ch.settings import Settings

FAILED, WRONG_USAGE = 1, 2
# As shells report a program that a signal ended: 128 and the signal's number.
INTERRUPTED, READER_GONE = 128 + 2, 128 + 13


@click.group(
    commands=[
        migrate,
        ingest,
        topology,
        analyse,
        run,
        serve,
        doctor,
        hash_password,
        retention,
        sql,
        tenants,
        grafana,
        simulate,
    ],
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: prism-ch run flows.parquet --topology topology.csv",
)
@click.version_option(__version__, prog_name="prism-ch")
@shared_options
def cli() -> None:
    """Find what slows LLM training jobs, from the network's flow records in ClickHouse.

    \b
    Exit status: 0 done, 1 failed at run time, 2 wrong usage.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; whatever goes wrong becomes one line on stderr."""
    session = Session()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with interruptible(_leave):
            status = _run(arguments, session)
            sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read our output has seen enough; let the interpreter's last flush go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except (KeyboardInterrupt, click.Abort):
        _tell_interrupted()
        return INTERRUPTED
    except HeldElsewhere as held:
        return _have_it_done(arguments, held, session)
    except Exception as error:  # noqa: BLE001 - the border to the outside: nothing may pass as a traceback unasked
        return _fail(error, session)
    return status if isinstance(status, int) else 0


def run_for_another(request: Request, streams: Streams, settings: Settings) -> int:
    """Run a command inside the service for another process, on its streams; return the exit status."""
    database = f"{settings.url.partition('?')[0]}?database={request.database}"
    session = Session(
        served=settings.model_copy(update={"url": database}), directory=request.directory, has_left=streams.has_left
    )
    with streams_named(streams.stdin, streams.stdout, streams.stderr):
        try:
            status = _run(request.arguments, session)
            sys.stdout.flush()
        except BrokenPipeError:
            return READER_GONE
        except Exception as error:  # noqa: BLE001 - as above
            return INTERRUPTED if streams.has_left() else _fail(error, session)
    return status if isinstance(status, int) else 0


def _have_it_done(arguments: Sequence[str], held: HeldElsewhere, session: Session) -> int:
    """Have the service that holds the database run a command; say so where no service does."""
    from prism_ch.daemon.control import Request, call

    request = Request(list(arguments), held.location.database, str(Path.cwd()))
    try:
        status = call(
            held.location.folder, request, [stream.fileno() for stream in (sys.stdin, sys.stdout, sys.stderr)]
        )
    except KeyboardInterrupt:
        _say("interrupted" if arguments[:1] == ["sql"] else "interrupted; the service goes on with it")
        return INTERRUPTED
    except ConnectionError as error:
        return _fail(StoreError(f"{held.location}: {error}; run it again"), session)
    return _fail(held.error, session) if status is None else status


def _run(arguments: list[str], session: Session) -> object:
    """Run one command and return what it returns; click's own main() would have its own say on errors and pipes."""
    try:
        with cli.make_context("prism-ch", arguments, obj=session) as context:
            return cli.invoke(context)
    except click.exceptions.Exit as end:
        return end.exit_code


def _leave() -> None:
    """End the process at once, whatever it is in the middle of."""
    _tell_interrupted()
    os._exit(INTERRUPTED)


def _tell_interrupted() -> None:
    """Say so, on a line of its own where the terminal has just shown ^C."""
    if sys.stderr.isatty():
        click.echo(err=True)
    _say("interrupted; run the same command again to go on")


def _fail(error: Exception, session: Session) -> int:
    """Print an error as one line and return the exit status that goes with it."""
    if session.debug:
        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return WRONG_USAGE
    if isinstance(error, click.ClickException):
        asked = error.ctx.command_path if isinstance(error, click.UsageError) and error.ctx else "prism-ch"
        _say(f"{error.format_message()} (see `{asked} --help`)")
        return error.exit_code
    if isinstance(error, PrismError):
        _say(str(error))
        return WRONG_USAGE if isinstance(error, UsageError | SettingsError) else FAILED
    _say(f"unexpected {type(error).__name__}: {error}; run again with --debug to see where")
    return FAILED


def _say(message: str) -> None:
    """Write one line to stderr, whatever the message holds."""
    click.echo(f"prism-ch: {' '.join(message.split())}", err=True)
