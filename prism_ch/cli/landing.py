"""The commands that load the schema and the data: migrate, ingest, topology."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import progress
from prism_ch.report.text import count

if TYPE_CHECKING:
    from prism_ch.ingest.files import LandingReport
    from prism_ch.ingest.topology_file import TopologyReport

STREAMS = ("flows", "goflow2", "pmacct")
#: How to mend rejections that a setting of the collector or exporter causes, by reason.
_HINTS = {
    "no_time": "the collector gives no start or no end, so these count as volume only; let exporters send times in"
    " milliseconds (IPFIX), and the collector keep them",
    "implausible_time": "check the clocks of exporters and collectors, and run collectors with TZ=UTC",
    "zero_bytes": "where exporters send bidirectional flows, use a collector that keeps both directions",
}

FORMATS = ("auto", "parquet", "arrow", "csv", "jsonl", "goflow2", "pmacct", "nfdump", "akvorado")


@click.command(short_help="Bring the database to this version's schema.")
@click.option(
    "--stream",
    "streams",
    multiple=True,
    type=click.Choice(STREAMS),
    help="Let the server consume this Kafka topic as well; may be repeated.",
)
@shared_options
@pass_session
def migrate(session: Session, streams: tuple[str, ...]) -> None:
    """Bring the database to this version's schema; safe to repeat.

    On a ClickHouse server --stream connects a Kafka topic of GoFlow2's or pmacct's JSON, or of JSON with the canonical
    names (flows), to the landing. Brokers and credentials are in the server's named collection prism_kafka.

    \b
    Examples:
      prism-ch migrate --url chdb:///var/lib/prism
      prism-ch migrate --url clickhouse://user:password@host/prism?cluster=prism --stream goflow2
    """
    from prism_ch.store.migrate import connect_stream
    from prism_ch.store.migrate import migrate as apply_migrations

    with session.store() as store:
        applied = apply_migrations(store)
        for name in applied:
            click.echo(f"applied {name}")
        if not applied:
            click.echo(f"{store} is up to date")
        for stream in streams:
            connect_stream(store, stream)
            click.echo(f"consuming the topic {stream}")


@click.command(short_help="Land flow records from files or stdin.")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the files, or the collector that wrote them.",
)
@shared_options
@pass_session
def ingest(session: Session, files: tuple[str, ...], file_format: str) -> int:
    """Land flow records from files, globs or - (stdin).

    Parquet, Arrow IPC, CSV with header and JSON lines are read, each also compressed with gzip or zstd. The columns are
    GoFlow2's: time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto, bytes, packets,
    sampler_address and, optionally, sampling_rate and path. What GoFlow2 (JSON, protobuf), pmacct (JSON, CSV), nfdump
    (JSON, CSV) and Akvorado (JSON, CSV) write is recognised by its content. A record that can't be used is kept in the
    table flows_rejected with its reason; a file that has landed before is skipped.

    \b
    Examples:
      prism-ch ingest flows.parquet
      prism-ch ingest 'flows/2026-03-*.csv.zst'
      nfdump -r nfcapd.202603010000 -o json | prism-ch ingest -
      goflow2 ... | prism-ch ingest - --format goflow2

    Exits with 1 if there were records and none could be used, or if a file could not be read to its end.
    """
    from prism_ch.ingest.files import land_files

    with session.store() as store, progress("landing files") as report_progress:
        report = land_files(store, [session.path(file) for file in files], file_format, progress=report_progress)
    return print_landing(report)


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
        report = load_topology(store, session.path(file))
    return print_topology(report, file)


def print_landing(report: LandingReport) -> int:
    """Print the report. Returns 1 if a file was damaged or no record was usable, else 0."""
    for outcome in report.skipped:
        name = "" if outcome.repeat_of == outcome.source else f", as {outcome.repeat_of}"
        click.echo(f"skipped {outcome.source}: its content has landed before{name}")
    for outcome in report.failures:
        click.echo(f"prism-ch: {outcome.error}", err=True)
    if report.landings:
        click.echo(f"landed {report.landed:,} of {report.records:,} records from {count(len(report.landings), 'file')}")
    if report.rejected:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in Counter(report.rejected).most_common())
        click.echo(f"rejected {sum(report.rejected.values()):,}: {reasons}; see the table flows_rejected")
        for reason in filter(report.rejected.get, _HINTS):
            click.echo(f"  {reason}: {_HINTS[reason]}")
    return 1 if report.failures or (report.records and not report.landed) else 0


def print_topology(report: TopologyReport, file: str) -> int:
    """Print the report, with problems on stderr. Returns 1 if no line was usable, else 0."""
    for line, problem in report.problems:
        click.echo(f"prism-ch: {file}:{line}: {problem}", err=True)
    problems = f"; {count(len(report.problems), 'line')} could not be used" if report.problems else ""
    click.echo(f"loaded {count(report.endpoints, 'endpoint')} from {file}{problems}")
    return 0 if report.endpoints else 1
