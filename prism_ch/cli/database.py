"""The commands about the database: retention, tenants apply."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, terminal_columns
from prism_ch.errors import UsageError
from prism_ch.report import count, size

if TYPE_CHECKING:
    from prism_ch.store.retention import ClassState


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
      results     jobs, their steps, findings, incidents
      ledger      what was worked and landed
      telemetry   the service's own health

    \b
    Examples:
      prism-ch retention
      prism-ch retention --set raw=14d --set timeline=1y
    """
    from prism_ch.query.answer import Answer
    from prism_ch.query.layout import plain_table
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
        from prism_ch.query.drawn import drawn_table

        emit(drawn_table(answer, terminal_columns()))
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
