"""The commands about the database: sql, retention, tenants apply."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, progress
from prism_ch.errors import InputError, UsageError
from prism_ch.report import count, size

if TYPE_CHECKING:
    from prism_ch.store.retention import ClassState


@click.command(short_help="Answer one reading SQL statement.")
@click.argument("statement", metavar="SELECT")
@click.option(
    "--format",
    "answer_format",
    type=click.Choice(["table", "csv", "json", "arrow", "parquet"]),
    default="table",
    show_default=True,
    help="csv has a header; json is one object a line; arrow is an IPC file.",
)
@click.option("--tenant", metavar="NAME", help="See only this tenant's rows, as it would itself.")
@click.option("--rows", type=click.IntRange(0), help="Give at most so many rows: a page of the result.")
@click.option("--first-row", type=click.IntRange(0), default=0, show_default=True, help="Where the page starts.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="Write here instead of to stdout.")
@shared_options
@pass_session
def sql(
    session: Session,
    statement: str,
    answer_format: str,
    tenant: str | None,
    rows: int | None,
    first_row: int,
    output: Path | None,
) -> None:
    """Answer one reading statement: SELECT, WITH, SHOW, DESCRIBE or EXPLAIN.

    Anything that could write, or read what is not in the database, is refused, and so is what is not known to be
    harmless. `-` reads the statement from stdin. SETTINGS at its end may change how results look and lower limits.
    Ctrl-C ends the statement.

    \b
    Examples:
      prism-ch sql "SELECT kind, subject, summary FROM diagnoses"
      prism-ch sql "SELECT step, duration_s FROM steps ORDER BY duration_s DESC LIMIT 5"
      prism-ch sql "SELECT * FROM gpu_steps" --format parquet --output gpu_steps.parquet
      prism-ch sql "SELECT * FROM losses" --tenant research
      prism-ch sql "SELECT * FROM steps ORDER BY job_id, step" --rows 100 --first-row 200
      prism-ch sql "SHOW TABLES"
      prism-ch sql "DESCRIBE steps"
    """
    from prism_ch.query.answer import BINARY_FORMATS, Answer, FileFormat, answer, answer_bytes, page, track_progress
    from prism_ch.query.layout import drawn_table, plain_table

    if answer_format in BINARY_FORMATS and output is None and sys.stdout.isatty():
        raise UsageError(f"{answer_format} is binary: send it to a file with --output FILE, or to a pipe")
    output = None if output is None else Path(session.path(str(output)))
    settings = page(rows, first_row)
    with session.store() as store, ExitStack() as stack:
        text = sys.stdin.read() if statement == "-" else statement
        report = stack.enter_context(progress("asking", "rows read"))
        mark = stack.enter_context(track_progress(store, report, session.has_left))
        result: Answer | bytes
        if answer_format == "table":
            result = answer(store, text, tenant=tenant, settings=settings, mark=mark)
        else:
            file_format = cast("FileFormat", answer_format)
            result = answer_bytes(store, text, file_format, tenant=tenant, settings=settings, mark=mark)
    if isinstance(result, bytes):
        _write(result, output)
    elif output is None and sys.stdout.isatty():
        emit(drawn_table(result))
    else:
        _write(f"{plain_table(result)}\n".encode(), output)


def _write(content: bytes, output: Path | None) -> None:
    if output is None:
        # sys.stdout.buffer may silently write a part only, if Python runs unbuffered.
        sys.stdout.flush()
        with open(sys.stdout.fileno(), "wb", closefd=False) as stdout:
            stdout.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as error:
        raise InputError(f"{output}: can't be written: {error.strerror}") from error


@click.command(short_help="Say how long rows are kept, or change it.")
@click.option("--set", "orders", multiple=True, metavar="CLASS=TIME", help="For example raw=30d; may be repeated.")
@shared_options
@pass_session
def retention(session: Session, orders: tuple[str, ...]) -> None:
    """Show how long the rows of each class of tables are kept, or change it.

    TIME is a number of days, weeks or years: 30d, 6w, 2y. It counts from when a row was written here, not from the time
    that the row tells of: records of last year that are landed today are kept as long as today's. Rows go in whole
    parts, so some stay longer. What is set here outlasts upgrades. A class is never kept longer than one it needs.

    \b
    Classes:
      raw         flow records; a window is worked again only while they are there
      rollup_1s, rollup_1m, rollup_1h   traffic by second, minute and hour
      timeline    phases and steps of every endpoint
      results     jobs, their steps, findings
      ledger      what was worked and landed
      telemetry   the service's own health

    \b
    Examples:
      prism-ch retention
      prism-ch retention --set raw=14d --set timeline=1y
    """
    from prism_ch.query.answer import Answer
    from prism_ch.query.layout import drawn_table, plain_table
    from prism_ch.store.migrate import require_schema
    from prism_ch.store.retention import read_retention, set_retention

    wanted = _parse_orders(orders)
    with session.store() as store:
        require_schema(store)
        if wanted:
            set_retention(store, wanted)
        found = read_retention(store)
    names = ("class", "kept for", "rows", "size", "oldest", "")
    answer = Answer(names, ("String", "UInt64", "UInt64", "UInt64", "String", "String"), tuple(map(_row, found)))
    if sys.stdout.isatty():
        emit(drawn_table(answer))
    else:
        click.echo(plain_table(answer))


def _parse_orders(orders: tuple[str, ...]) -> dict[str, int]:
    from prism_ch.store.retention import parse_days

    wanted: dict[str, int] = {}
    for order in orders:
        name, equals, text = order.partition("=")
        if not equals:
            raise UsageError(f"--set takes CLASS=TIME, for example raw=30d, not {order}")
        if name in wanted:
            raise UsageError(f"--set names {name} twice")
        wanted[name] = parse_days(text)
    return wanted


def _row(state: ClassState) -> tuple[str, ...]:
    oldest = "" if state.oldest_at is None else f"{state.oldest_at:%Y-%m-%d}"
    origin = "default" if state.is_default else "set"
    return state.name, count(state.kept_days, "day"), f"{state.rows:,}", size(state.size_bytes), oldest, origin


@click.group(short_help="Give tenants users of their own on a server.")
@shared_options
def tenants() -> None:
    """Give tenants users of their own on a ClickHouse server.

    Each user sees the rows of its own tenant only.

    \b
    Example:
      prism-ch tenants apply --url clickhouse://admin:password@host:8123/prism
    """


@tenants.command(short_help="Make roles, users, row policies and quotas.")
@click.option("--print", "only_print", is_flag=True, help="Print the statements instead of running them.")
@shared_options
@pass_session
def apply(session: Session, only_print: bool) -> None:  # noqa: FBT001 - click's form
    """Make roles, users, row policies and quotas for every tenant of the topology.

    It is safe to repeat.

    A user can log in once it has a password: ALTER USER `prism_user_NAME` IDENTIFIED BY '...' HOST ANY. A tenant that
    has left the topology keeps its user, who sees what its jobs left. The server's configuration must have
    select_from_system_db_requires_grant and settings_constraints_replace_previous set, as the one it ships with has:
    else system.parts would tell how many rows there are, and Grafana could not set max_execution_time.

    \b
    Examples:
      prism-ch tenants apply --url clickhouse://admin:password@host:8123/prism
      prism-ch tenants apply --print > access.sql
    """
    from prism_ch.query.tenancy import access_statements, apply_access, topology_tenants, user_of

    with session.store() as store:
        if only_print:
            for statement in access_statements(store.database, topology_tenants(store)):
                click.echo(f"{statement};\n")
            return
        made = apply_access(store)
    click.echo(f"{len(made)} tenants have users: " + (", ".join(user_of(tenant) for tenant in made) or "none"))
