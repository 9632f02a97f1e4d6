"""What an operator reads: incidents, and beside them the findings of any grade, each with all that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from prism_ch.analysis.incidents.groups import also_named, named, subject_type_named
from prism_ch.model.finding import Finding
from prism_ch.model.incident import Incident
from prism_ch.model.topology import Topology
from tests.unit.chain import Published, Results

#: Types of subject that name a place: a culprit. A job or an exporter is none.
PLACES = frozenset({"endpoint", "server", "link", "switch", "group", "stage"})
_GRADES = ("info", "warning", "critical")


@dataclass(frozen=True, slots=True)
class Alarm:
    """One incident, or one finding, as it was last seen.

    `names` is what its subject and `may_also_be` stand for: endpoints, links and switches. A stage, group or job stands
    for its endpoints, a server for those in the jobs concerned, or for those of them that `may_also_be` lists.
    `subjects` is the part of `names` that the subject stands for. `first_ns` is when it was first read at its grade.
    """

    key: str
    kind: str
    subject_type: str
    subject: str
    may_also_be: tuple[str, ...]
    names: frozenset[str]
    subjects: frozenset[str]
    confidence: float
    severity: str
    start_ns: int
    end_ns: int
    jobs: tuple[str, ...]
    lost_gpu_h: float
    summary: str
    first_ns: int = 0

    @property
    def is_place(self) -> bool:
        """Whether it names a culprit."""
        return self.subject_type in PLACES

    @property
    def weight(self) -> tuple[int, float, float]:
        """How much it matters to who reads it first: by grade, by loss, by confidence."""
        return _GRADES.index(self.severity), self.lost_gpu_h, self.confidence

    def overlaps(self, other: Alarm) -> bool:
        """Return whether both concern one job at one time."""
        same_job = not self.jobs or not other.jobs or bool(set(self.jobs) & set(other.jobs))
        return same_job and self.start_ns < other.end_ns and other.start_ns < self.end_ns

    def contradicts(self, other: Alarm) -> bool:
        """Return whether both name culprits of one job and time, and not one in common."""
        return self.is_place and other.is_place and self.overlaps(other) and self.names.isdisjoint(other.names)

    def text(self) -> str:
        """Write the alarm in a line."""
        also = f" or {', '.join(self.may_also_be[:6])}" if self.may_also_be else ""
        more = f" and {len(self.may_also_be) - 6} more" if len(self.may_also_be) > 6 else ""
        cost = f"{self.lost_gpu_h * 60:.1f} GPU-min"
        return f"{self.severity:8} {self.kind} {self.subject}{also}{more} ({self.confidence:.2f}, {cost})"


@dataclass(slots=True)
class Log:
    """Alarms followed through windows: those that are read last, and those that were read once and are no longer."""

    now: dict[str, Alarm] = field(default_factory=dict)
    gone: dict[str, Alarm] = field(default_factory=dict)

    def read(self, alarms: Iterable[Alarm], now_ns: int) -> None:
        """Take over what is read after a window that ends now."""
        known = self.gone | self.now
        firsts = {key: one.first_ns for key, one in known.items()}
        self.now = {one.key: replace(one, first_ns=firsts.get(one.key, now_ns)) for one in alarms}
        self.gone = {key: one for key, one in known.items() if key not in self.now}


def incidents(results: Results, topology: Topology) -> list[Alarm]:
    """List the incidents of grade `warning` or above."""
    names = _Names(results, topology)
    found = []
    for one in results.incidents.values():
        if one.severity == "info":
            continue
        found.append(_alarm(one, one.incident_id, one.jobs, one.lost_gpu_h, names))
    return found


def findings(results: Results, topology: Topology) -> list[Alarm]:
    """List the findings of any grade, slow steps by whom they waited for."""
    names = _Names(results, topology)
    return [
        _of_finding(job_id, one, names, len(job.last.members) if job else 0)
        for job_id, job, one in _all_findings(results)
    ]


def _all_findings(results: Results) -> Iterator[tuple[str, Published | None, Finding]]:
    for job_id, job in results.jobs.items():
        yield from ((job_id, job, one) for one in job.findings.values())
    yield from (("", None, one) for one in results.cluster.values())


def _of_finding(job_id: str, one: Finding, names: _Names, gpus: int) -> Alarm:
    lost_gpu_h = one.slowdown * (one.end_ns - one.start_ns) / 3.6e12 * gpus
    place = replace(one, subject_type=subject_type_named(one), subject=named(one), may_also_be=also_named(one))
    return _alarm(place, one.diagnosis_id, (job_id,) if job_id else (), lost_gpu_h, names)


def _alarm(one: Finding | Incident, key: str, jobs: tuple[str, ...], lost_gpu_h: float, names: _Names) -> Alarm:
    own, every = names.of_alarm(one.subject_type, one.subject, one.may_also_be, jobs)
    return Alarm(
        key=key,
        kind=one.kind,
        subject_type=one.subject_type,
        subject=one.subject,
        may_also_be=one.may_also_be,
        names=every,
        subjects=own,
        confidence=one.confidence,
        severity=one.severity,
        start_ns=one.start_ns,
        end_ns=one.end_ns,
        jobs=jobs,
        lost_gpu_h=lost_gpu_h,
        summary=one.summary,
    )


class _Names:
    """What names stand for: the endpoints of a job, stage, group or server, or just themselves."""

    def __init__(self, results: Results, topology: Topology) -> None:
        self._jobs: Mapping[str, Published] = results.jobs
        self._topology, self._address = topology, topology.endpoints
        self._servers = frozenset(topology.server_names)

    def of_alarm(
        self, subject_type: str, subject: str, may_also_be: Collection[str], jobs: Iterable[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return what a subject stands for, and it and `may_also_be` together."""
        listed = frozenset(may_also_be) - self._servers
        parts = [self.of(subject_type, subject, jobs), *(self.of_any(name, jobs) for name in may_also_be)]
        whole = [name in self._servers for name in (subject, *may_also_be)]
        parts = [(part & listed) or part if is_server else part for part, is_server in zip(parts, whole, strict=True)]
        return parts[0], frozenset().union(*parts)

    def of(self, subject_type: str, subject: str, jobs: Iterable[str]) -> frozenset[str]:
        """Return what a subject of a type stands for, in some jobs."""
        if subject_type == "job":
            return self._members([subject] if subject in self._jobs else jobs, None)
        if subject_type == "stage":
            job, _, stage = subject.rpartition("/stage/")
            return self._members([job], int(stage)) or frozenset({subject})
        if subject_type == "group":
            number = subject.rpartition("/")[2]
            groups = [one for job in jobs if job in self._jobs for one in self._jobs[job].last.groups]
            held = [one.members for one in groups if number.isdecimal() and one.group_id == int(number)]
            return frozenset(self._address[row] for members in held for row in members) or frozenset({subject})
        return self.of_any(subject, jobs)

    def of_any(self, name: str, jobs: Iterable[str]) -> frozenset[str]:
        """Return what a name of unknown type stands for."""
        if name in self._servers:
            server = self._topology.server_names.index(name)
            on_it = np.flatnonzero(self._topology.server == server).tolist()
            endpoints = frozenset(self._address[row] for row in on_it)
            return (endpoints & self._members(jobs or self._jobs, None)) or endpoints
        if "/stage/" in name:
            return self.of("stage", name, jobs)
        return frozenset({name})

    def _members(self, jobs: Iterable[str], stage: int | None) -> frozenset[str]:
        held = [self._jobs[job].last.members for job in jobs if job in self._jobs]
        rows = [m.endpoint if stage is None else m.endpoint[m.pp_stage == stage] for m in held]
        return frozenset(self._address[row] for part in rows for row in part.tolist())
