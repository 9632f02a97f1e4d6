"""What all findings of stops have in common: their identity, whom they are about, how names are listed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import Extent, Measured, identity, make_finding
from prism_ch.model.columns import Int32
from prism_ch.model.finding import Baseline, Finding, FindingKind, Severity, SubjectType
from prism_ch.model.topology import Topology

#: Why records are missing, in the evidence of a finding that they are.
SILENCE = "silence"

#: Names that a sentence gives before it counts the rest.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Stop:
    """When a job stood still, for how long where that is usual, and what of it is lost.

    `slowdown` is the lost share of the time that counts.
    """

    step: int
    start_ns: int
    end_ns: int
    usual_s: float
    lost_s: float
    slowdown: float

    @property
    def length_s(self) -> float:
        """How long it lasted, in seconds."""
        return (self.end_ns - self.start_ns) / 1e9


def stop_finding(
    kind: FindingKind,
    job_id: str,
    stop: Stop,
    subject: tuple[SubjectType, str],
    severity: Severity,
    summary: str,
    evidence: Mapping[str, object],
    *,
    is_open: bool = False,
) -> Finding:
    """Put a stop down as a finding; the same stop has the same identity, whatever it turns out to be."""
    return make_finding(
        kind,
        subject,
        identity(job_id, "stall", job_id, stop.start_ns),
        Extent(stop.step, stop.step, stop.start_ns, stop.end_ns, is_open=is_open),
        Measured(stop.length_s, stop.usual_s, slowdown=min(stop.slowdown, 1.0)),
        severity,
        summary,
        {"lost_s": round(stop.lost_s, 6), **evidence},
        baseline=Baseline(records_missing=kind == "telemetry"),
    )


def is_stop(finding: Finding) -> bool:
    """Say whether a finding is of a job that stands still, or that seems to since its records are missing."""
    return finding.kind in ("stall", "hang", "restart") or (
        finding.kind == "telemetry" and finding.baseline.records_missing
    )


def carry_on_stops(known: Iterable[Finding], found: Sequence[Finding], told_ns: int) -> tuple[Finding, ...]:
    """Let stops that were found take the identity of open ones that they turn out to be; close the open ones left.

    Parameters: `told_ns`, the end of the last step that another one came after, which tells what it was. A stop that
    began since stays open; an earlier one that is none after all was a job that was late, and went on.
    """
    said, left = [], {one.diagnosis_id: one for one in known if is_stop(one) and one.status == "open"}
    for stop in found:
        same = next((one for one in left.values() if is_same_stop(one, stop)), None)
        if same is not None:
            del left[same.diagnosis_id]
            stop = replace(stop, diagnosis_id=same.diagnosis_id)  # noqa: PLW2901 - the same stop by its right name
        said.append(stop)
    return (*said, *(_left(one, told_ns) for one in left.values()))


def _left(one: Finding, told_ns: int) -> Finding:
    """Say what became of an open stop that is not found any more."""
    if one.kind not in ("stall", "hang"):
        return replace(one, status="closed")
    if told_ns <= one.start_ns:
        return one
    summary = (
        f"Nothing of the job was seen to end for {one.observed:.3g} s in step {one.first_step}, and then it went on."
    )
    return replace(one, kind="stall", status="closed", severity="info", slowdown=0.0, summary=summary)


def is_same_stop(one: Finding, other: Finding) -> bool:
    """Say whether two findings are of one stop: at one time, and where records are missing, of one exporter."""
    if (one.kind == "telemetry" or other.kind == "telemetry") and (one.kind, one.subject) != (
        other.kind,
        other.subject,
    ):
        return False
    return one.start_ns <= other.end_ns and other.start_ns <= one.end_ns


def subject_of(endpoints: Int32, job_id: str, topology: Topology) -> tuple[SubjectType, str]:
    """Name the endpoint or the server where all is about one, else the job."""
    if len(endpoints) == 1:
        return "endpoint", topology.endpoints[endpoints[0]]
    servers = np.unique(topology.server[endpoints])
    return ("server", topology.server_names[servers[0]]) if len(servers) == 1 else ("job", job_id)


def listed(endpoints: Int32, topology: Topology) -> str:
    """Name some endpoints and their servers in words."""
    names = [topology.endpoints[endpoint] for endpoint in endpoints.tolist()]
    servers = [topology.server_names[server] for server in np.unique(topology.server[endpoints]).tolist()]
    return f"{first_few(names)} ({first_few(servers)})"


def first_few(names: Sequence[str]) -> str:
    """List names, and how many more there are."""
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")


def traffic_beside(moved: Mapping[str, int]) -> str:
    """Say which machine moved most beside a stop."""
    most = max(moved, key=lambda name: moved[name])
    return f"{moved[most] / 1e9:.3g} GB went to or from {most}"
