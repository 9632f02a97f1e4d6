"""What a summary says, as plain values, and their reading from the public views."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from prism_ch.model.result import DiagnosisKind, JobStatus, Severity
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as the summary shows it; `durations_s` are of its complete steps in order, shares of their time, 0 to 1."""

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


@dataclass(frozen=True, slots=True)
class Finding:
    """A diagnosis as the summary shows it; `job_id` is empty where it concerns a switch or an exporter."""

    job_id: str
    kind: DiagnosisKind
    severity: Severity
    is_open: bool
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    summary: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the database holds to work on.

    `flows`, `unknown_flows` and `between_servers` count records as delivered: all, those with an end that is not in
    the topology, those between known endpoints of two servers. `endpoints` is the size of the topology;
    `seen_endpoints` and `seen_servers` count those of it that show in flows; `unknown` counts addresses that are not in
    it, of which `unknown_examples` names a few. `failure` is the error of the first failed window. `rejected` counts by
    reason, the most frequent first.
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
    rejected: Sequence[tuple[str, int]] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a summary says."""

    coverage: Coverage
    jobs: tuple[JobFacts, ...]
    findings: tuple[Finding, ...]


def read_facts(store: Store) -> Facts:
    """Read what the views hold now; raises StoreError."""
    return Facts(
        coverage=read_coverage(store),
        jobs=tuple(JobFacts(*row) for row in store.rows(statement("summary_jobs"))),
        findings=tuple(Finding(*row) for row in store.rows(statement("summary_findings"))),
    )


def read_coverage(store: Store) -> Coverage:
    """Read what there is to work on; raises StoreError."""
    [row] = store.rows(statement("summary_coverage"))
    return Coverage(*row)
