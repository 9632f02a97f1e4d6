"""The command that writes results to a file for people: report."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from prism_ch.cli.analysis import Time
from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import progress
from prism_ch.errors import InputError, UsageError


@click.command(short_help="Write where GPU-hours went as one HTML file.")
@click.option("--job", "job_id", metavar="JOB", default="", help="Only this job.")
@click.option("--incident", "incident_id", metavar="INCIDENT", default="", help="Only this incident and its jobs.")
@click.option("--tenant", metavar="NAME", help="What this tenant may see, and nothing of others.")
@click.option("--from", "from_ns", type=Time(), metavar="TIME", help="Start of the span.  [default: a week before]")
@click.option("--to", "to_ns", type=Time(), metavar="TIME", help="End of the span.  [default: what was seen last]")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, allow_dash=True, path_type=str),
    metavar="FILE",
    help="Write here; - is stdout.",
)
@shared_options
@pass_session
def report(
    session: Session,
    job_id: str,
    incident_id: str,
    tenant: str | None,
    from_ns: int | None,
    to_ns: int | None,
    output: str,
) -> None:
    """Write where GPU-hours went, and why, as one HTML file.

    It needs no script, no network and no other file: it can be sent and printed. It shows incidents with what was
    before and after, the culprit against its peers, step times, every GPU of the jobs, the slowest step, what it would
    be without, and how sure all that is. The span of an incident's report is that of the incident.

    \b
    Examples:
      prism-ch report -o fleet.html
      prism-ch report --job job-1f0a6c --from 2026-03-01 --to 2026-03-02 -o job.html
      prism-ch report --tenant research -o research.html
      prism-ch report --incident 7941a29a0da78873 -o incident.html
    """
    if job_id and incident_id:
        raise UsageError("give --job or --incident, not both")
    from prism_ch.report.ask import AskStore
    from prism_ch.report.document import Subject, write_report

    subject = Subject(job_id=job_id, incident_id=incident_id, tenant=tenant, from_ns=from_ns, to_ns=to_ns)
    with session.store() as store, progress("drawing") as tracked:
        page = write_report(AskStore(store, tenant), subject, tracked)
    if output == "-":
        sys.stdout.write(page)
        return
    try:
        Path(session.path(output)).write_text(page, encoding="utf-8")
    except OSError as error:
        raise InputError(f"{output}: can't be written: {error.strerror}") from error
