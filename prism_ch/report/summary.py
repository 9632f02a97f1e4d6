"""Reads the facts of the summary that `prism-ch run` ends with, and lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain

from rich.text import Text

from prism_ch.model.result import JobStatus
from prism_ch.report import count, seconds, sparkline, time_utc
from prism_ch.report.incidents import Finding, Incident, about_job, of_several_jobs_or_none, worst
from prism_ch.report.lines import WIDTH, Line, labelled, wrapped
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: A job of which records show less is not seen as a whole: in between two steps an endpoint may be idle for a window.
_ALL_SEEN = 0.995


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as the summary shows it.

    `durations_s` are its complete steps in order; the shares, from 0 to 1, divide their time. `seen_share` is how
    much of its endpoints' time records show, `unseen_why` the reason of which most of the rest is missing.
    """

    job_id: str
    tenant: str
    status: JobStatus
    first_seen_ns: int
    last_seen_ns: int
    endpoints: int
    servers: int
    dp_size: int
    pp_size: int
    steps: int
    step_s_median: float
    step_s_p95: float
    compute_share: float
    pp_share: float
    dp_share: float
    durations_s: Sequence[float]
    seen_share: float = 1.0
    unseen_why: str = ""


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the database holds for the analysis.

    `flows` counts records as delivered; `unknown_flows` those with an address that is not in the topology,
    `between_servers` those between known endpoints of two servers. `endpoints` is the size of the topology;
    `seen_endpoints` and `seen_servers` count what flows show of it. `unknown` counts addresses that are not in the
    topology, `unknown_examples` are a few of them. `failure` is the error of the first failed window,
    `partial_failure` that of the first one without a job that failed. `rejected` holds reasons and counts, the most
    frequent first.
    """

    flows: int = 0
    unknown_flows: int = 0
    between_servers: int = 0
    endpoints: int = 0
    seen_endpoints: int = 0
    seen_servers: int = 0
    unknown: int = 0
    unknown_examples: Sequence[str] = ()
    windows: int = 0
    failed_windows: int = 0
    failure: str = ""
    partial_windows: int = 0
    partial_failure: str = ""
    rejected: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of a summary."""

    coverage: Coverage
    jobs: tuple[JobFacts, ...]
    incidents: tuple[Incident, ...]
    findings: tuple[Finding, ...]


def read_facts(store: Store) -> Facts:
    """Read the facts from the views; raises StoreError."""
    return Facts(
        coverage=read_coverage(store),
        jobs=tuple(JobFacts(*row) for row in store.rows(statement("summary_jobs"))),
        incidents=tuple(Incident(*row) for row in store.rows(statement("summary_incidents"))),
        findings=tuple(Finding(*row) for row in store.rows(statement("summary_findings"))),
    )


def read_coverage(store: Store) -> Coverage:
    """Read what the database holds for the analysis; raises StoreError."""
    [row] = store.rows(statement("summary_coverage"))
    return Coverage(*row)


def summarise(facts: Facts, columns: int = WIDTH) -> Text:
    """Lay out all facts, with styles for a terminal `columns` wide."""
    lines = list(_records(facts.coverage))
    if not facts.jobs:
        lines += [Text(), Text("No training job was recognised", style="bold"), *wrapped(why_no_job(facts.coverage))]
    for job in sorted(facts.jobs, key=lambda job: worst(job.job_id, facts.incidents)):
        lines += [Text(), *_job(job, facts)]
    elsewhere = list(of_several_jobs_or_none(facts.incidents, facts.findings))
    if elsewhere:
        lines += [Text(), Text("Network and telemetry", style="bold"), *elsewhere]
    return Text("\n").join(
        chain.from_iterable([one] if isinstance(one, Text) else one.laid_out(columns) for one in lines)
    )


def _records(coverage: Coverage) -> Iterator[Text | Line]:
    yield Text("Records", style="bold")
    yield from labelled("flows", f"{coverage.flows:,} in {count(coverage.windows, 'window')}")
    if coverage.rejected:
        reasons = ", ".join(f"{number:,} {reason}" for reason, number in coverage.rejected)
        total = sum(number for _, number in coverage.rejected)
        yield from labelled("rejected", f"{total:,}: {reasons}", "yellow")
    yield from labelled("endpoints", f"{coverage.seen_endpoints:,} seen of {coverage.endpoints:,} in the topology")
    if coverage.unknown:
        more = coverage.unknown > len(coverage.unknown_examples)
        examples = ", ".join([*coverage.unknown_examples, *(["..."] if more else [])])
        addresses = count(coverage.unknown, "address", "addresses")
        flows = count(coverage.unknown_flows, "flow")
        yield from labelled(
            "unknown", f"{addresses} not in the topology, on {flows}, which are in no job: {examples}", "yellow"
        )
    if coverage.failed_windows:
        failed = count(coverage.failed_windows, "window")
        yield from labelled("failed", f"{failed} could not be analysed: {coverage.failure}", "bold red")
    if coverage.partial_windows:
        partial = count(coverage.partial_windows, "window lacks", "windows lack")
        yield from labelled(
            "failed", f"{partial} a job that could not be analysed: {coverage.partial_failure}", "bold red"
        )


def _job(job: JobFacts, facts: Facts) -> Iterator[Text | Line]:
    title = Text(f"Job {job.job_id}", style="bold")
    title.append(f"  {job.tenant or 'no tenant'}, {job.status}", style="not bold")
    yield title
    yield from labelled("size", f"{count(job.endpoints, 'endpoint')} on {count(job.servers, 'server')}")
    yield from labelled("parallelism", _parallelism(job))
    yield from labelled("seen", f"{time_utc(job.first_seen_ns)} to {time_utc(job.last_seen_ns)} UTC")
    if job.seen_share < _ALL_SEEN:
        unseen = f"{job.seen_share:.1%} of its time can be seen; {job.unseen_why}"
        yield from labelled("not seen", unseen, "yellow")
    if job.durations_s:
        yield from _steps(job)
    else:
        yield from labelled("steps", "none could be told apart")
    yield from about_job(job.job_id, facts.incidents, facts.findings, has_steps=bool(job.durations_s))


def _parallelism(job: JobFacts) -> str:
    data = f"data-parallel (DP) groups of {job.dp_size}" if job.dp_size > 1 else "no data-parallel (DP) traffic"
    pipeline = f"{job.pp_size} pipeline (PP) stages" if job.pp_size > 1 else "no pipeline (PP) traffic"
    hidden = job.dp_size * job.pp_size != job.endpoints
    return f"{data}, {pipeline}" + (", as seen between servers" if hidden else "")


def _steps(job: JobFacts) -> Iterator[Line]:
    shortest, longest = min(job.durations_s), max(job.durations_s)
    yield from labelled(
        "steps", f"{job.steps:,}; median {seconds(job.step_s_median)}, 95th percentile {seconds(job.step_s_p95)}"
    )
    yield from labelled("durations", partial(sparkline, job.durations_s))
    yield from labelled("", f"{seconds(shortest)} to {seconds(longest)}, in order of time")
    shares = f"compute {job.compute_share:.0%}, pipeline (PP) {job.pp_share:.0%}, data-parallel (DP) {job.dp_share:.0%}"
    yield from labelled("time", shares)


def why_no_job(coverage: Coverage) -> str:
    """Return the first reason that explains why no job was found, and what to check."""
    if not coverage.flows and coverage.rejected:
        reason = (
            "No record could be used. See why: prism-ch sql "
            '"SELECT reason, any(record) FROM flows_rejected GROUP BY reason"'
        )
    elif not coverage.flows:
        reason = "No flow records have landed. Land some: prism-ch ingest FILE"
    elif not coverage.endpoints:
        reason = (
            "No topology is loaded, so it is unknown which endpoints share a server and whose they are. "
            "Load it and analyse again: prism-ch topology topology.csv && prism-ch analyse"
        )
    elif not coverage.seen_endpoints:
        reason = (
            "None of the addresses in the flows is in the topology. Check that topology.csv and the exporters name "
            "the same NICs, and that addresses are not translated on the way."
        )
    elif coverage.seen_endpoints == 1:
        reason = (
            "Only one endpoint of the topology shows in the flows; a job needs at least two that exchange data. "
            "Check that the exporters see the training network."
        )
    elif not coverage.between_servers:
        reason = (
            "No flow runs between two servers of the topology. Traffic inside a server leaves no records, so a job "
            "within one server can't be seen; check the server column of topology.csv if these are several."
        )
    elif not coverage.windows:
        reason = "The flows have not been analysed yet: prism-ch analyse"
    elif coverage.windows == coverage.failed_windows:
        reason = "The analysis failed in every window; the reason stands above."
    else:
        reason = (
            "Flows run between servers, but no set of endpoints exchanges them steadily, step after step. Check that "
            "the records cover a dozen steps or more, that the exporters' idle timeout is well below a step, and that "
            "the endpoints of a job have the same tenant in topology.csv."
        )
    return reason
