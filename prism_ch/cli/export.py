"""The commands that write what is known of a job to files of other programs: export perfetto."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import click

from prism_ch.cli.session import Session, pass_session, shared_options
from prism_ch.cli.terminal import progress
from prism_ch.errors import UsageError
from prism_ch.report import count, size

if TYPE_CHECKING:
    from prism_ch.export.perfetto import Exported

_STEPS = re.compile(r"(\d{1,19})?:(\d{1,19})?", re.ASCII)


@click.group(short_help="Write a job's timeline for other programs.")
@shared_options
def export() -> None:
    """Write what is known of a job to a file that another program opens.

    \b
    Example:
      prism-ch export perfetto job-1f0a6c -o trace.pftrace.gz
    """


@export.command(short_help="Write a job's timeline as a Perfetto trace.")
@click.argument("job", metavar="JOB")
@click.option("--steps", metavar="A:B", default=":", help="Only steps A to B, both included; A: and :B leave one open.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; gzip packs it if its name ends in .gz.",
)
@click.option("--tenant", metavar="NAME", help="See only this tenant's rows, as it would itself.")
@shared_options
@pass_session
def perfetto(session: Session, /, job: str, steps: str, output: Path, tenant: str | None) -> None:
    """Write the timeline of a job as a trace that https://ui.perfetto.dev opens.

    A process is a server, a thread is a GPU. On it lies a slice for each step, and in that one for each phase, as the
    table timeline has them. Arrows are pipeline messages, counters what each server sent, and a track on top has the
    incidents that concern the job. Arrows and counters come from flow records: they are there as long as those are
    kept, and for operators only, as are the records.

    \b
    Examples:
      prism-ch export perfetto job-1f0a6c -o trace.pftrace.gz
      prism-ch export perfetto job-1f0a6c --steps 100:119 -o trace.pftrace
      prism-ch export perfetto job-1f0a6c --tenant research -o trace.pftrace.gz
    """
    from prism_ch.export.output import replaced
    from prism_ch.export.perfetto import export_trace
    from prism_ch.export.reader import Source

    first, last = _parse_steps(steps)
    path = Path(session.path(str(output)))
    with session.store() as store, progress("exporting", "steps") as bar, replaced(path) as file:

        def report(done: int, total: int) -> None:
            if session.has_left is not None and session.has_left():
                raise click.Abort
            if bar is not None:
                bar(done, total)

        source = Source.of_store(store, tenant)
        made = export_trace(source, job, file.write, first_step=first, last_step=last, report=report)
    click.echo(f"wrote {output}, {size(file.size)}: {_contents(made)}")
    if not made.with_records:
        click.echo("no arrows and no counters: they come from flow records, which are the operator's")
    if made.cut:
        click.echo(f"{count(made.cut, 'phase')} began before the one before had ended, and were cut")


def _parse_steps(text: str) -> tuple[int | None, int | None]:
    """Read A:B, A:, :B or : as the first and the last step."""
    found = _STEPS.fullmatch(text)
    if found is None:
        raise UsageError(f"--steps takes A:B, for example 100:119, not {text}")
    first, last = (None if number is None else int(number) for number in found.groups())
    if first is not None and last is not None and first > last:
        raise UsageError(f"--steps {text} is none: the first may not be behind the last")
    return first, last


def _contents(made: Exported) -> str:
    """Describe what a trace holds."""
    steps = f"steps {made.span.first_step} to {made.span.last_step}"
    parts = [f"{count(made.phases, 'phase')} of {count(made.endpoints, 'endpoint')} in {steps}"]
    if made.with_records:
        parts.append(count(made.messages, "pipeline message"))
    return ", ".join([*parts, count(made.incidents, "incident")])
