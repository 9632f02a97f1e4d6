"""The commands that analyse windows: analyse, and run, which does everything once."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

import click

from prism_ch.cli.landing import print_landing, print_topology
from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, progress
from prism_ch.errors import UsageError
from prism_ch.report.text import count, time_utc

_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?\s?(Z|z|[+-]\d\d:\d\d)?)?")


class Time(click.ParamType[int]):
    """An RFC 3339 time or a date, by default UTC, as nanoseconds since the epoch."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a text; a number was converted before."""
        if isinstance(value, int):
            return value
        match = _TIME.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no time; write 2026-03-01T12:00:00Z or 2026-03-01", param, ctx)
        day, clock, second, fraction, zone = match.groups()
        zone = "+00:00" if zone in {None, "Z", "z"} else zone
        try:
            whole = datetime.fromisoformat(f"{day}T{clock or '00:00'}:{second or '00'}{zone}")
        except ValueError as error:
            self.fail(f"{value!r} is no time: {error}", param, ctx)
        seconds = round((whole - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())
        return seconds * 1_000_000_000 + int((fraction or "").ljust(9, "0"))


@click.command(short_help="Work every window that is new or has changed.")
@click.option("--from", "from_ns", type=Time(), metavar="TIME", help="Only windows that end after this time.")
@click.option("--to", "to_ns", type=Time(), metavar="TIME", help="Only windows that start before this time.")
@click.option("--force", is_flag=True, help="Work them again even if nothing has changed.")
@shared_options
@pass_session
def analyse(session: Session, from_ns: int | None, to_ns: int | None, *, force: bool) -> None:
    """Work every window that is not yet worked or whose flows have changed; nothing else.

    Windows after a changed one are worked again too, as results rest on what came before. Windows whose flow records
    may be gone (see prism-ch retention), and those before them, are never worked again; it is said how many that
    concerns. TIME is RFC 3339 or a date, UTC where it names no zone.

    \b
    Examples:
      prism-ch analyse
      prism-ch analyse --from 2026-03-01 --to 2026-03-01T06:00:00Z --force
    """
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError("--from must be before --to")
    from prism_ch.report.summary import read_coverage, why_no_job
    from prism_ch.worker import analyse as analyse_windows
    from prism_ch.worker import left_windows

    with session.store() as store:
        left = left_windows(store, session.settings(), from_ns=from_ns, to_ns=to_ns, force=force)
        if left:
            click.echo(
                f"left {count(len(left), 'window')} as they are, the last from {time_utc(left[-1].start_ns)}: raw flows"
                " they rest on may be gone (see windows_left and prism-ch retention)"
            )
        with progress("analysing windows") as report_progress:
            report = analyse_windows(
                store,
                session.settings(),
                from_ns=from_ns,
                to_ns=to_ns,
                force=force,
                progress=report_progress,
                patient=True,
            )
        flows = sum(window.flows for window in report.windows)
        if not report.windows:
            click.echo("nothing to work")
            return
        click.echo(
            f"worked {count(len(report.windows), 'window')}, read {count(flows, 'flow')} between known endpoints"
        )
        if not flows:
            click.echo(why_no_job(read_coverage(store)))


@click.command(short_help="Do it all once and say what was found.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option("--topology", "topology_file", required=True, metavar="FILE", help="topology.csv: who is who.")
@shared_options
@pass_session
def run(session: Session, files: tuple[str, ...], topology_file: str) -> int:
    """Find what slows the jobs in recorded flows: migrate, topology, ingest, analyse, and say what was found.

    \b
    Examples:
      prism-ch run flows.parquet --topology topology.csv
      prism-ch run 'flows/*.jsonl.gz' --topology topology.csv --url chdb:///var/lib/prism

    Exits with 1 if no line of the topology or no flow record could be used, or if a file could not be read to its end.
    """
    from prism_ch.ingest.files import land_files
    from prism_ch.ingest.topology_file import load_topology
    from prism_ch.report.summary import read_facts, summarise
    from prism_ch.store.migrate import migrate
    from prism_ch.worker import analyse as analyse_windows

    with session.store() as store:
        migrate(store)
        status = print_topology(load_topology(store, session.path(topology_file)), topology_file)
        with progress("landing files") as report_progress:
            landed = land_files(store, [session.path(file) for file in files], progress=report_progress)
        status = max(status, print_landing(landed))
        with progress("analysing windows") as report_progress:
            analyse_windows(store, session.settings(), progress=report_progress, patient=True)
        facts = read_facts(store)
    click.echo()
    emit(summarise(facts))
    return status
