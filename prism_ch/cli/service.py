"""The commands about the service: serve, doctor, hash-password."""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism_ch.cli.execute import execute_for_client
from prism_ch.cli.session import LOG_FORMAT, Session, pass_session, shared_options
from prism_ch.cli.terminal import progress, streams_by_thread
from prism_ch.errors import UsageError

if TYPE_CHECKING:
    from prism_ch.daemon.daemon import Daemon
    from prism_ch.settings import Settings


@click.command(short_help="Land and analyse around the clock.")
@click.option("--spool", type=click.Path(file_okay=False, path_type=Path), help="Folder whose files are landed.")
@click.option("--listen", metavar="HOST:PORT", help="Where HTTP is spoken.  [default: 127.0.0.1:9478]")
@click.option("--schedule", type=click.Path(dir_okay=False, path_type=Path), help="Another schedule.toml.")
@shared_options
@pass_session
def serve(session: Session, spool: Path | None, listen: str | None, schedule: Path | None) -> None:
    """Land and analyse until stopped.

    Lands what appears in the spool, works windows as they close, and watches its own health.

    Files appear in the spool whole, under their final names; those that start with a dot or end in .tmp or .part are
    left alone. Each is landed once and moved to done/, or to failed/ with the reason in a file .error beside it; none
    keeps others from landing.
    SIGTERM ends the service within 10 seconds; whatever ends it, nothing is lost and nothing counted twice.

    The embedded database answers SQL over HTTP as a ClickHouse server does, to the users of the settings; without any,
    to everyone on this machine, who may then read. Browsers get pages at / instead. /healthz and /metrics are there as
    well.

    \b
    Examples:
      prism-ch serve --spool /var/spool/prism-ch --url chdb:///var/lib/prism-ch/data
      curl -s http://127.0.0.1:9478/healthz
      curl -s http://127.0.0.1:9478 --data-binary "SELECT kind, subject, summary FROM incidents"
    """
    from prism_ch.daemon.control import controlled
    from prism_ch.daemon.daemon import Daemon
    from prism_ch.daemon.tasks import load_schedule
    from prism_ch.serve.http import application, listening
    from prism_ch.serve.pages import Pages
    from prism_ch.serve.sql import SqlEndpoint
    from prism_ch.store.client import connect
    from prism_ch.store.url import EmbeddedLocation, parse_url

    settings = _with_options(session.settings(), spool, listen, schedule)
    _log_to_stderr(settings)
    daemon = Daemon(settings, load_schedule(settings.serve.schedule))
    root = click.get_current_context().find_root().command
    location = parse_url(settings.url)
    with ExitStack() as stack:
        stack.enter_context(_stopped_by_signals(daemon))
        sql = pages = control = None
        if isinstance(location, EmbeddedLocation):  # a server answers SQL by itself
            store = stack.enter_context(connect(settings.url))
            sql = stack.enter_context(closing(SqlEndpoint(store, location.folder, settings.serve)))
            pages = stack.enter_context(closing(Pages(sql)))
        app = application(daemon.health.checks, daemon.health.measures, sql, pages, sql.users if sql else None)
        options = settings.serve
        stack.enter_context(listening(app, options.host, options.port, options.tls_certificate, options.tls_key))
        if isinstance(location, EmbeddedLocation):  # other processes can't open the database meanwhile
            stack.enter_context(streams_by_thread())
            control = stack.enter_context(
                controlled(
                    location.folder, lambda request, streams: execute_for_client(root, request, streams, settings)
                )
            )
        ended = daemon.run()
        if not ended or (control is not None and control.busy):
            # A task or command that still runs keeps its thread, and the interpreter would wait for that.
            sys.stderr.flush()
            os._exit(0)


@click.command(short_help="Say what is wrong and how to mend it.")
@click.option("--mend", "is_mending", is_flag=True, help="First mend in the database what needs nothing from outside.")
@click.option("--costs", "is_measuring", is_flag=True, help="Measure what windows cost here instead; some minutes.")
@shared_options
@pass_session
def doctor(session: Session, *, is_mending: bool, is_measuring: bool) -> int:
    """Check the installation, and show how to mend what is wrong.

    Checked are configuration, database (each file of it, and whether the rows are there that ledgers name), topology
    (also against traffic), exporters and their clocks, spool and disk.

    Each line says ok, warn or bad, and what was found; a line below it says what to do. Exits with 1 unless all is ok.

    --mend sets damaged parts of tables aside, attaches whole ones, makes sums again from flows and blocks of steps from
    steps, and removes parts that were set aside where no ledger misses a row. What else is gone comes back by
    `ingest --again`, `topology` and `analyse --force`, as the checks then say.

    --costs analyses up to 24 of the last windows anew, three times, writes nothing, and fits what a flow, a job and a
    window cost to every other one; it says how well that predicts the rest, how much faster windows are worked than
    they come, and what each way to read flows costs: which of them `[analysis] pushdown` leads to, and what that saves.

    \b
    Examples:
      prism-ch doctor --url chdb:///var/lib/prism-ch/data
      prism-ch doctor --mend
      prism-ch doctor --costs
    """
    from prism_ch.daemon.tasks import load_schedule
    from prism_ch.health.doctor import examine, mend

    if is_measuring:
        if is_mending:
            raise UsageError("--mend and --costs are two things; ask for one of them")
        return _show_costs(session)
    if is_mending:
        for line in mend(session.settings, session.store):
            click.echo(f"mended  {line}")
    checks = examine(session.settings, lambda settings: load_schedule(settings.serve.schedule), session.store)
    for check in checks:
        click.echo(f"{check.state:4}  {check.name}: {check.what}")
        if check.mend:
            click.echo(f"      mend: {check.mend}")
    return 0 if all(check.state == "ok" for check in checks) else 1


def _show_costs(session: Session) -> int:
    from prism_ch.health.costs import measure_costs

    settings = session.settings()
    with session.store() as store, progress("measuring windows") as report:
        costs = measure_costs(store, settings, report)
    for line in costs.lines(settings):
        click.echo(line)
    return 0


@click.command("hash-password", short_help="Make the hash of a password for the settings.")
@shared_options
def hash_password() -> None:
    """Ask for a password and print its hash for the settings.

    The hash is the `password` of [serve.users.NAME]. At a terminal the password is asked for twice; else it is the
    first line of stdin. It is shown and kept nowhere.

    \b
    Example:
      prism-ch hash-password < password.txt
    """
    from prism_ch.serve.users import hash_password as hashed

    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise UsageError("there is no password: type one, or send one as the first line of stdin")
    click.echo(hashed(password))


def _with_options(settings: Settings, spool: Path | None, listen: str | None, schedule: Path | None) -> Settings:
    given: dict[str, object] = {"spool": spool, "schedule": schedule}
    if listen is not None:
        host, _, port = listen.rpartition(":")
        if not host or not port.isdigit() or int(port) > 65_535:
            raise UsageError(f"--listen takes HOST:PORT, for example 127.0.0.1:9478, not {listen}")
        given |= {"host": host.strip("[]"), "port": int(port)}
    update = {name: value for name, value in given.items() if value is not None}
    return settings.model_copy(update={"serve": settings.serve.model_copy(update=update)})


@contextmanager
def _stopped_by_signals(daemon: Daemon) -> Iterator[None]:
    """Let SIGTERM and SIGINT stop the service; a second SIGINT ends it at once."""
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
    """Log to stderr. The database's password is removed from every line."""
    from prism_ch.store.url import ServerLocation, parse_url

    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT)
    location = parse_url(settings.url)
    if isinstance(location, ServerLocation) and location.password:
        for handler in logging.getLogger().handlers:
            handler.addFilter(partial(_hide, location.password))


def _hide(password: str, record: logging.LogRecord) -> bool:
    """Remove a password from a log record, and let it pass."""
    message = record.getMessage()
    if password in message:
        record.msg, record.args = message.replace(password, "***"), None
    if record.exc_info and password in str(record.exc_info[1]):
        record.exc_info = None
    return True
