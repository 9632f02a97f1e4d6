"""The command that says how long rows are kept, and changes it: retention."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit
from prism_ch.errors import UsageError
from prism_ch.report.words import count, size

if TYPE_CHECKING:
    from prism_ch.store.retention import Kept


@click.command(short_help="Say how long rows are kept, or change it.")
@click.option("--set", "orders", multiple=True, metavar="CLASS=TIME", help="For example raw=30d; may be repeated.")
@shared_options
@pass_session
def retention(session: Session, orders: tuple[str, ...]) -> None:
    """Say how long the rows of each class of tables are kept and what they take, or change how long.

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

    wanted = _read_orders(orders)
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


def _read_orders(orders: tuple[str, ...]) -> dict[str, int]:
    """Read what is to be set: days by class."""
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


def _row(kept: Kept) -> tuple[str, ...]:
    """Return one line of the table."""
    oldest = "" if kept.oldest_at is None else f"{kept.oldest_at:%Y-%m-%d}"
    origin = "default" if kept.is_default else "set"
    return kept.name, count(kept.kept_days, "day"), f"{kept.rows:,}", size(kept.size_bytes), oldest, origin
