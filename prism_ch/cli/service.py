"""The commands that run the service and look after it: serve, doctor, hash-password."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import LOG_FORMAT, Session, pass_session, shared_options
from prism_ch.cli.streams import streams_by_thread
from prism_ch.errors import UsageError

if TYPE_CHECKING:
    from prism_ch.daemon.control import Control
    from prism_ch.daemon.daemon import Daemon
    from prism_ch.serve.sql import SqlEndpoint
    from prism_ch.settings import Settings

_SIGNS = {"ok": "ok  ", "warn": "warn", "bad": "bad "}


@click.command(short_help="Land and analyse around the clock.")
@click.option("--spool", type=click.Path(file_okay=False, path_type=Path), help="Folder whose files are landed.")
@click.option("--listen", metavar="HOST:PORT", help="Where HTTP is spoken.  [default: 127.0.0.1:9478]")
@click.option("--schedule", type=click.Path(dir_okay=False, path_type=Path), help="Another schedule.toml.")
@shared_options
@pass_session
def serve(session: Session, spool: Path | None, listen: str | None, schedule: Path | None) -> None:
    """Run the schedule until stopped: land what appears in the spool, work windows as they close, mind its health.

    Files appear in the spool whole, under their final names; those that start with a dot or end in .tmp or .part are
    left alone. Each is landed once and moved to done/, or to failed/ with the reason in a file .error beside it.
    SIGTERM ends the service within 10 seconds; whatever ends it, nothing is lost and nothing counted twice.

    The embedded database answers SQL over HTTP as a ClickHouse server does, to the users of the settings; without any,
    to everyone on this machine, who may then read. /healthz and /metrics are there as well.

    \b
    Examples:
      prism-ch serve --spool /var/spool/prism-ch --url chdb:///var/lib/prism-ch/data
      curl -s http://127.0.0.1:9478/healthz
      curl -s http://127.0.0.1:9478 --data-binary "SELECT kind, subject, summary FROM diagnoses"
    """
    from prism_ch.daemon.daemon import Daemon
    from prism_ch.daemon.schedule import load_schedule
    from prism_ch.daemon.tasks import TASKS
    from prism_ch.serve.http import application, listening

    settings = _told(session.settings(), spool, listen, schedule)
    _log_to_stderr(settings)
    daemon = Daemon(settings, load_schedule(settings.serve.schedule, TASKS))
    told = settings.serve
    with (
        _stopped_by_signals(daemon),
        _answering_sql(settings) as answering,
        listening(
            application(daemon.vitals.lights, daemon.vitals.measures, answering),
            told.host,
            told.port,
            told.tls_certificate,
            told.tls_key,
        ),
        _taking_commands(settings) as control,
    ):
        ended = daemon.run()
        if not ended or (control is not None and control.busy):
            # What hangs or is at work keeps its thread, and the interpreter would wait for that.
            sys.stderr.flush()
            os._exit(0)


@click.command(short_help="Say what is wrong and how to mend it.")
@shared_options
@pass_session
def doctor(session: Session) -> int:
    """Look at configuration, database, topology, exporters and their clocks, spool and disk, and say how to mend them.

    Each line says ok, warn or bad, and what was found; a line below it says what to do. Exits with 1 unless all is ok.

    \b
    Example:
      prism-ch doctor --url chdb:///var/lib/prism-ch/data
    """
    from prism_ch.daemon.schedule import load_schedule
    from prism_ch.daemon.tasks import TASKS
    from prism_ch.health.doctor import examine
    from prism_ch.health.light import all_green

    lights = examine(session.settings, lambda settings: load_schedule(settings.serve.schedule, TASKS), session.store)
    for light in lights:
        click.echo(f"{_SIGNS[light.state]}  {light.name}: {light.what}")
        if light.mend:
            click.echo(f"      mend: {light.mend}")
    return 0 if all_green(lights) else 1


@click.command("hash-password", short_help="Make the hash of a password for the settings.")
@shared_options
def hash_password() -> None:
    """Ask for a password and print what stands for it in the settings, as `password` of [serve.users.NAME].

    At a terminal it is asked for twice; else it is the first line of stdin. It is shown and kept nowhere.

    \b
    Example:
      prism-ch hash-password < password.txt
    """
    from prism_ch.serve.passwords import hash_password as hashed

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UsageError("there is no password: type one, or send one as the first line of stdin")
    click.echo(hashed(password))


@contextmanager
def _answering_sql(settings: Settings) -> Iterator[SqlEndpoint | None]:
    """Answer SQL over HTTP while this process has the embedded database open; a server does so itself."""
    from prism_ch.serve.sql import SqlEndpoint
    from prism_ch.store.client import connect
    from prism_ch.store.url import EmbeddedLocation, parse_url

    location = parse_url(settings.url)
    if not isinstance(location, EmbeddedLocation):
        yield None
        return
    with connect(settings.url) as store, closing(SqlEndpoint(store, location.folder, settings.serve)) as endpoint:
        yield endpoint


@contextmanager
def _taking_commands(settings: Settings) -> Iterator[Control | None]:
    """Run commands for others while this process has the embedded database open; a server needs no such help."""
    from prism_ch.cli.root import run_for_another
    from prism_ch.daemon.control import controlled
    from prism_ch.store.url import EmbeddedLocation, parse_url

    location = parse_url(settings.url)
    if not isinstance(location, EmbeddedLocation):
        yield None
        return
    with (
        streams_by_thread(),
        controlled(location.folder, lambda request, streams: run_for_another(request, streams, settings)) as control,
    ):
        yield control


def _told(settings: Settings, spool: Path | None, listen: str | None, schedule: Path | None) -> Settings:
    """Return the settings with what the command line says of the service."""
    told: dict[str, object] = {}
    if spool is not None:
        told["spool"] = spool
    if schedule is not None:
        told["schedule"] = schedule
    if listen is not None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise UsageError(f"--listen takes HOST:PORT, for example 127.0.0.1:9478, not {listen}")
        told |= {"host": host.strip("[]"), "port": int(port)}
    return settings.model_copy(update={"serve": settings.serve.model_copy(update=told)})


@contextmanager
def _stopped_by_signals(daemon: Daemon) -> Iterator[None]:
    """Let SIGTERM and SIGINT end the service in good order; a second SIGINT ends it at once."""
    previous_wakeup = signal.set_wakeup_fd(-1)

    def stop(number: int, frame: object) -> None:  # noqa: ARG001 - the form of a handler
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        daemon.stop()

    previous = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(previous_wakeup)


def _log_to_stderr(settings: Settings) -> None:
    """Log to stderr, without the database's password, whoever would write it."""
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    for handler in logging.getLogger().handlers:
        handler.addFilter(_Redacted(settings.url))


class _Redacted(logging.Filter):
    """Blots the database's password out of log lines."""

    def __init__(self, url: str) -> None:
        super().__init__()
        from prism_ch.store.url import ServerLocation, parse_url

        location = parse_url(url)
        self._password = location.password if isinstance(location, ServerLocation) else ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, its message without the password."""
        if self._password:
            message = record.getMessage()
            if self._password in message:
                record.msg, record.args = message.replace(self._password, "***"), None
            if record.exc_info and self._password in str(record.exc_info[1]):
                record.exc_info = None
        return True
