"""The commands that bring the schema and the data in: migrate, ingest, topology."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import progress

if TYPE_CHECKING:
    from prism_ch.ingest.files import LandingReport
    from prism_ch.ingest.topology_file import TopologyReport

FORMATS = ("auto", "parquet", "arrow", "csv", "jsonl")


@click.command(short_help="Bring the database to this version's schema.")
@shared_options
@pass_session
def migrate(session: Session) -> None:
    """Bring the database to this version's schema; safe to repeat.

    \b
    Example:
      prism-ch migrate --url chdb:///var/lib/prism
    """
    from prism_ch.store.migrate import migrate as apply_migrations

    with session.store() as store:
        applied = apply_migrations(store)
        for name in applied:
            click.echo(f"applied {name}")
        if not applied:
            click.echo(f"{store} is up to date")


@click.command(short_help="Land flow records from files or stdin.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the files.",
)
@shared_options
@pass_session
def ingest(session: Session, files: tuple[str, ...], file_format: str) -> int:
    """Land flow records from files, globs or - (stdin).

    Parquet, Arrow IPC, CSV with header and JSON lines are read, each also compressed with gzip or zstd. The columns are
    GoFlow2's: time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto, bytes, packets,
    sampler_address and, optionally, sampling_rate and path. A record that can't be used is kept in the table
    flows_rejected with its reason; a file that has landed before is skipped.

    \b
    Examples:
      prism-ch ingest flows.parquet
      prism-ch ingest 'flows/2026-03-*.csv.zst'
      goflow2 ... | prism-ch ingest - --format jsonl

    Exits with 1 if there were records and none could be used.
    """
    from prism_ch.ingest.files import land_files

    with session.store() as store, progress("landing files") as report_progress:
        report = land_files(store, files, file_format, progress=report_progress)
    for line in describe_landing(report):
        click.echo(line)
    return 1 if report.records and not report.landed else 0


@click.command(short_help="Load topology.csv: who sits where.")
@click.argument("file", metavar="FILE")
@shared_options
@pass_session
def topology(session: Session, file: str) -> int:
    """Load topology.csv: which endpoint sits in which server, and whose it is.

    The header is endpoint,server,gpu,rail,leaf,pod,tenant and, optionally, valid_from,valid_to (RFC 3339). The whole
    topology is replaced. Lines that can't be used are reported with their number; the others load.

    \b
    Example:
      prism-ch topology topology.csv

    Exits with 1 if no line could be used.
    """
    from prism_ch.ingest.topology_file import load_topology

    with session.store() as store:
        report = load_topology(store, file)
    warn_of_topology(report, file)
    click.echo(describe_topology(report, file))
    return 0 if report.endpoints else 1


def describe_landing(report: LandingReport) -> list[str]:
    """Say in a few lines what became of the records."""
    lines = [f"skipped {source}: it has landed before" for source in report.skipped]
    files = f"{len(report.sources):,} file{'s' * (len(report.sources) != 1)}"
    rejected = sum(report.rejected.values())
    lines.append(f"landed {report.landed:,} of {report.records:,} records from {files}")
    if rejected:
        reasons = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(report.rejected.items(), key=lambda r: -r[1])
        )
        lines.append(f"rejected {rejected:,}: {reasons}; see the table flows_rejected")
    return lines


def warn_of_topology(report: TopologyReport, file: str) -> None:
    """Name the lines that did not load, on stderr."""
    for line, problem in report.problems:
        click.echo(f"prism-ch: {file}:{line}: {problem}", err=True)


def describe_topology(report: TopologyReport, file: str) -> str:
    """Say in a line what was loaded."""
    bad = f"; {len(report.problems):,} lines could not be used" if report.problems else ""
    return f"loaded {report.endpoints:,} endpoints from {file}{bad}"
