"""The commands from flow records to findings: migrate, ingest, topology, analyse, run."""

from __future__ import annotations

import re
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import emit, progress, report_columns
from prism_ch.errors import UsageError
from prism_ch.report import count, time_utc

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

    with session.store(may_be_new=True) as store:
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
@click.option("--again", is_flag=True, help="Put rows of these files back that were lost, as doctor may say.")
@shared_options
@pass_session
def ingest(session: Session, files: tuple[str, ...], file_format: str, *, again: bool) -> int:
    """Land flow records from files, globs or - (stdin).

    Parquet, Arrow IPC, CSV with header and JSON lines are read, each also compressed with gzip or zstd. The columns are
    GoFlow2's: time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, src_port, dst_port, proto, bytes, packets,
    sampler_address and, optionally, sampling_rate and path. What GoFlow2 (JSON, protobuf), pmacct (JSON, CSV), nfdump
    (JSON, CSV) and Akvorado (JSON, CSV) write is recognised by its content. A record that can't be used is kept in the
    table flows_rejected with its reason; a file that has landed before is skipped, unless --again puts rows of it back
    that were lost: those that are there stay once, and no sum counts them twice.

    \b
    Examples:
      prism-ch ingest flows.parquet
      prism-ch ingest 'flows/2026-03-*.csv.zst'
      nfdump -r nfcapd.202603010000 -o json | prism-ch ingest -
      goflow2 ... | prism-ch ingest - --format goflow2

    Each file that can't be read to its end is named; the others land.

    Exits with 1 if there were records and none could be used, or if a file could not be read to its end.
    """
    from prism_ch.ingest.files import land_files

    with session.store() as store, progress("landing files") as report_progress:
        paths = [session.path(file) for file in files]
        report = land_files(store, paths, file_format, again=again, progress=report_progress)
    return print_landing(report)


@click.command(short_help="Load topology.csv: who sits where.")
@click.argument("file", metavar="FILE")
@click.option("--check", is_flag=True, help="Show what is wrong in the file; load nothing.")
@shared_options
@pass_session
def topology(session: Session, file: str, *, check: bool) -> int:
    """Load topology.csv: which endpoint sits in which server, and whose it is.

    The header is endpoint,server,gpu,rail,leaf,pod,tenant and, optionally, valid_from,valid_to (RFC 3339). The whole
    topology is replaced. Lines that can't be used are reported with their number; the others load.

    --check looks for mistakes: GPU indices, rails, missing NICs and misspelt tenants in the file; and, if the database
    has flows, leaves, rails and tenants that traffic contradicts. A line is wrong where nearly all others agree.

    \b
    Examples:
      prism-ch topology topology.csv
      prism-ch topology topology.csv --check

    Exits with 1 if no line could be used, with --check if anything is wrong.
    """
    from prism_ch.ingest.topology_file import load_topology

    if check:
        return _check_topology(session, file)
    with session.store() as store:
        report = load_topology(store, session.path(file))
    return print_topology(report, file)


@click.command(short_help="Work every window that is new or has changed.")
@click.option("--from", "from_ns", type=Time(), metavar="TIME", help="Only windows that end after this time.")
@click.option("--to", "to_ns", type=Time(), metavar="TIME", help="Only windows that start before this time.")
@click.option("--force", is_flag=True, help="Work them again even if nothing has changed.")
@click.option("--allow-missing", is_flag=True, help="Work windows again also where flows of them are gone.")
@shared_options
@pass_session
def analyse(session: Session, from_ns: int | None, to_ns: int | None, *, force: bool, allow_missing: bool) -> None:
    """Work every window that is not yet worked or whose flows have changed; nothing else.

    Windows after a changed one are worked again too, as results rest on what came before. Windows whose flow records
    may be gone (see prism-ch retention), and those before them, are never worked again; it is said how many that
    concerns. TIME is RFC 3339 or a date, UTC where it names no zone.

    Where flow records of a worked window have landed and are gone, good results would give way to poorer ones: it is
    refused, unless with --allow-missing; `prism-ch doctor` says how to bring them back.

    \b
    Examples:
      prism-ch analyse
      prism-ch analyse --from 2026-03-01 --to 2026-03-01T06:00:00Z --force
    """
    if from_ns is not None and to_ns is not None and from_ns >= to_ns:
        raise UsageError("--from must be before --to")
    from prism_ch.cluster.choice import chosen_executor
    from prism_ch.report.summary import read_coverage, why_no_job
    from prism_ch.worker import analyse as analyse_windows
    from prism_ch.worker import left_windows

    with session.store() as store, chosen_executor(session.settings().analysis) as executor:
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
                allow_missing=allow_missing,
                executor=executor,
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
    """Find what slows the jobs in recorded flows, and print it.

    The same as migrate, topology, ingest and analyse, one after the other.

    \b
    Examples:
      prism-ch run flows.parquet --topology topology.csv
      prism-ch run 'flows/*.jsonl.gz' --topology topology.csv --url chdb:///var/lib/prism

    Exits with 1 if no line of the topology or no flow record could be used, or if a file could not be read to its end.
    """
    from prism_ch.cluster.choice import chosen_executor
    from prism_ch.ingest.files import land_files
    from prism_ch.ingest.topology_file import load_topology
    from prism_ch.report.summary import read_facts, summarise
    from prism_ch.store.migrate import migrate
    from prism_ch.worker import analyse as analyse_windows

    settings = session.settings()
    with session.store(may_be_new=True) as store, chosen_executor(settings.analysis) as executor:
        migrate(store)
        status = print_topology(load_topology(store, session.path(topology_file)), topology_file)
        with progress("landing files") as report_progress:
            landed = land_files(store, [session.path(file) for file in files], progress=report_progress)
        status = max(status, print_landing(landed))
        with progress("analysing windows") as report_progress:
            analyse_windows(store, settings, progress=report_progress, patient=True, executor=executor)
        facts = read_facts(store)
    click.echo()
    emit(summarise(facts, report_columns()))
    return status


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


def _check_topology(session: Session, file: str) -> int:
    """Print a line for each mistake in a topology file. Returns 1 if there is one, else 0."""
    from prism_ch.ingest.topology_check import examine_topology
    from prism_ch.ingest.topology_file import read_topology_file
    from prism_ch.store.url import EmbeddedLocation, parse_url

    content = read_topology_file(session.path(file))
    location = parse_url(session.settings().url)
    # The engine would make a folder that is not there, and a check leaves nothing behind.
    if isinstance(location, EmbeddedLocation) and not (location.folder / "metadata").is_dir():
        report = examine_topology(content.rows, None)
    else:
        with session.store() as store:
            report = examine_topology(content.rows, store)
    wrong = [(content.numbers[each.row], f"{each.reason}: {each.mend}") for each in report.problems]
    wrong += [(line, f"{problem}: the line is left out when the file is loaded") for line, problem in content.problems]
    for line, problem in sorted(wrong):
        click.echo(f"{file}:{line}: {problem}")
    against = (
        f"itself and the traffic of {count(report.pairs, 'pair')}" if report.pairs else "itself; there is no traffic"
    )
    found = count(len(wrong), "problem") if wrong else "nothing wrong"
    click.echo(f"checked {count(report.endpoints, 'endpoint')} of {file} against {against}: {found}")
    return 1 if wrong or not content.rows else 0


def print_topology(report: TopologyReport, file: str) -> int:
    """Print the report, with problems on stderr. Returns 1 if no line was usable, else 0."""
    for line, problem in report.problems:
        click.echo(f"prism-ch: {file}:{line}: {problem}", err=True)
    problems = f"; {count(len(report.problems), 'line')} could not be used" if report.problems else ""
    click.echo(f"loaded {count(report.endpoints, 'endpoint')} from {file}{problems}")
    return 0 if report.endpoints else 1
