"""The summary that `prism-ch run` ends with: what landed, each job, what slows it, and why nothing was found if so."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from prism_ch.model.result import Severity
from prism_ch.report.facts import Coverage, Facts, Finding, JobFacts
from prism_ch.report.sparkline import sparkline
from prism_ch.report.words import count, seconds, time_utc

#: Lines are laid out for this many columns.
WIDTH = 100
_LABEL_WIDTH = 16
#: Exporters whose records are too coarse that are told of one by one; a fabric has hundreds, set up alike.
_EXPORTERS_NAMED = 3

_STYLES: dict[Severity, str] = {"critical": "bold red", "warning": "yellow", "info": "dim"}
_RANK: dict[Severity, int] = {"critical": 0, "warning": 1, "info": 2}


def summarise(facts: Facts) -> Text:
    """Lay out all that was found, for a terminal or, without its styles, a pipe."""
    lines = list(_landed(facts.coverage))
    if not facts.jobs:
        lines += [Text(), Text("No training job was recognised", style="bold"), *_wrapped(why_no_job(facts.coverage))]
    for job in sorted(facts.jobs, key=lambda job: _worst(_of_job(facts.findings, job.job_id))):
        lines += [Text(), *_job(job, _of_job(facts.findings, job.job_id))]
    elsewhere = _of_job(facts.findings, "")
    if elsewhere:
        lines += [Text(), Text("Network and telemetry", style="bold"), *_findings(elsewhere, steps=False)]
    return Text("\n").join(lines)


def _landed(coverage: Coverage) -> Iterator[Text]:
    """Say what the database holds."""
    yield Text("Records", style="bold")
    yield from _labelled("flows", f"{coverage.flows:,} in {count(coverage.windows, 'window')}")
    if coverage.rejected:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in coverage.rejected)
        total = sum(count for _, count in coverage.rejected)
        yield from _labelled("rejected", f"{total:,}: {reasons}", "yellow")
    yield from _labelled("endpoints", f"{coverage.seen_endpoints:,} seen of {coverage.endpoints:,} in the topology")
    if coverage.unknown:
        examples = ", ".join(coverage.unknown_examples) + (
            ", ..." if coverage.unknown > len(coverage.unknown_examples) else ""
        )
        addresses = count(coverage.unknown, "address", "addresses")
        flows = count(coverage.unknown_flows, "flow")
        told = f"{addresses} not in the topology, on {flows}, which are in no job: {examples}"
        yield from _labelled("unknown", told, "yellow")
    if coverage.failed_windows:
        yield from _labelled(
            "failed",
            f"{count(coverage.failed_windows, 'window')} could not be analysed: {coverage.failure}",
            "bold red",
        )


def _job(job: JobFacts, findings: Sequence[Finding]) -> Iterator[Text]:
    """Describe a job and what slows it."""
    title = Text(f"Job {job.job_id}", style="bold")
    title.append(f"  {job.tenant or 'no tenant'}, {job.status}", style="not bold")
    yield title
    yield from _labelled("size", f"{count(job.endpoints, 'endpoint')} on {count(job.servers, 'server')}")
    yield from _labelled("parallelism", _parallelism(job))
    yield from _labelled("seen", f"{time_utc(job.first_seen_ns)} to {time_utc(job.last_seen_ns)} UTC")
    if job.durations_s:
        yield from _steps(job)
    else:
        yield from _labelled("steps", "none could be told apart")
    coarse = [finding for finding in findings if finding.kind == "telemetry"]
    findings = [finding for finding in findings if finding.kind != "telemetry"]
    slowing = [finding for finding in findings if finding.severity != "info"]
    if slowing:
        yield from _labelled("findings", count(len(slowing), "thing slows it", "things slow it"))
    elif job.durations_s:
        yield from _labelled("findings", "nothing slows it", "green")
    yield from _findings(findings, steps=True)
    yield from _findings(coarse[:_EXPORTERS_NAMED], steps=False)
    if len(coarse) > _EXPORTERS_NAMED:
        yield from _labelled("", f"and likewise {count(len(coarse) - _EXPORTERS_NAMED, 'more exporter')}", "dim")


def _parallelism(job: JobFacts) -> str:
    """Say how a job is divided, as far as the network shows it."""
    data = f"data-parallel (DP) groups of {job.dp_size}" if job.dp_size > 1 else "no data-parallel (DP) traffic"
    pipeline = f"{job.pp_size} pipeline (PP) stages" if job.pp_size > 1 else "no pipeline (PP) traffic"
    hidden = job.dp_size * job.pp_size != job.endpoints
    return f"{data}, {pipeline}" + (", as seen between servers" if hidden else "")


def _steps(job: JobFacts) -> Iterator[Text]:
    """Describe a job's steps: how many, how long, how even, and what they consist of."""
    shortest, longest = min(job.durations_s), max(job.durations_s)
    yield from _labelled(
        "steps", f"{job.steps:,}; median {seconds(job.step_s_median)}, 95th percentile {seconds(job.step_s_p95)}"
    )
    drawing = sparkline(job.durations_s, WIDTH - _LABEL_WIDTH)
    yield from _labelled("durations", drawing)
    yield from _labelled("", f"{seconds(shortest)} to {seconds(longest)}, in order of time")
    yield from _labelled(
        "time",
        f"compute {job.compute_share:.0%}, pipeline (PP) {job.pp_share:.0%}, data-parallel (DP) {job.dp_share:.0%}",
    )


def _findings(findings: Iterable[Finding], *, steps: bool) -> Iterator[Text]:
    """Tell findings one by one, the most severe first."""
    for finding in sorted(findings, key=lambda finding: _RANK[finding.severity]):
        yield from _labelled(f"  {finding.severity}", finding.summary, _STYLES[finding.severity])
        yield from _labelled("", ", ".join(_span(finding, steps=steps)), "dim")


def _span(finding: Finding, *, steps: bool) -> Iterator[str]:
    """Say what a finding is called, and which steps and time it concerns."""
    yield finding.kind
    if steps:
        yield f"steps {finding.first_step:,} to {finding.last_step:,}"
    since, until = time_utc(finding.start_ns), time_utc(finding.end_ns)
    yield f"since {since} UTC"
    day = since[: len("2026-01-01 ")]
    yield "still going on" if finding.is_open else f"until {until.removeprefix(day)}"


def why_no_job(coverage: Coverage) -> str:
    """Say why there is no job, as far as the records tell, and what to check: the first reason that holds."""
    reasons = (
        (
            not coverage.flows and coverage.rejected,
            (
                "No record could be used. See why: prism-ch sql "
                '"SELECT reason, any(record) FROM flows_rejected GROUP BY reason"'
            ),
        ),
        (not coverage.flows, "No flow records have landed. Land some: prism-ch ingest FILE"),
        (
            not coverage.endpoints,
            (
                "No topology is loaded, so it is unknown which endpoints share a server and whose they are. "
                "Load it and analyse again: prism-ch topology topology.csv && prism-ch analyse"
            ),
        ),
        (
            not coverage.seen_endpoints,
            (
                "None of the addresses in the flows is in the topology. Check that topology.csv and the exporters name "
                "the same NICs, and that addresses are not translated on the way."
            ),
        ),
        (
            coverage.seen_endpoints == 1,
            (
                "Only one endpoint of the topology shows in the flows; a job needs at least two that exchange data. "
                "Check that the exporters see the training network."
            ),
        ),
        (
            not coverage.between_servers,
            (
                "No flow runs between two servers of the topology. Traffic inside a server leaves no records, so a job "
                "within one server can't be seen; check the server column of topology.csv if these are several."
            ),
        ),
        (not coverage.windows, "The flows have not been analysed yet: prism-ch analyse"),
        (
            coverage.windows == coverage.failed_windows,
            "The analysis failed in every window; the reason stands above.",
        ),
    )
    unsteady = (
        "Flows run between servers, but no set of endpoints exchanges them steadily, step after step. Check that the "
        "records cover a dozen steps or more, that the exporters' idle timeout is well below a step, and that the "
        "endpoints of a job have the same tenant in topology.csv."
    )
    return next((reason for holds, reason in reasons if holds), unsteady)


def _of_job(findings: Iterable[Finding], job_id: str) -> list[Finding]:
    """Select a job's findings."""
    return [finding for finding in findings if finding.job_id == job_id]


def _worst(findings: Iterable[Finding]) -> int:
    """Rank by the most severe finding; what has none comes last."""
    return min((_RANK[finding.severity] for finding in findings), default=len(_RANK))


def _labelled(label: str, text: str, style: str = "") -> Iterator[Text]:
    """Lay out a text beside its label, over as many lines as it takes."""
    first = f"  {label}".ljust(_LABEL_WIDTH)
    for number, line in enumerate(textwrap.wrap(text, WIDTH - _LABEL_WIDTH, break_on_hyphens=False) or [""]):
        yield Text.assemble((first if number == 0 else " " * _LABEL_WIDTH, "dim"), (line, style))


def _wrapped(text: str) -> Iterator[Text]:
    """Lay out a paragraph."""
    for line in textwrap.wrap(text, WIDTH - 2, break_on_hyphens=False):
        yield Text(f"  {line}")
