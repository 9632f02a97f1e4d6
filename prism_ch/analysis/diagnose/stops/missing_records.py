"""Makes the findings on records that are missing: one for each place and time, over all jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.findings import Extent, Measured, confidence_in, identity, make_finding, severity
from prism_ch.analysis.diagnose.stops.stop_findings import ALL_EXPORTERS, SILENCE, first_few, is_stop
from prism_ch.analysis.observe.holes import Hole, hidden_by
from prism_ch.analysis.observe.observe import Observed
from prism_ch.model.columns import Int32
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.memory import JobRevision
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval


@dataclass(frozen=True, slots=True)
class _Missing:
    """A span in which exporters sent nothing; `jobs` are those that go on and are seen by others.

    `is_settled`: it was told of before, and no job's records are found to be missing any more.
    """

    subject: str
    exporters: tuple[str, ...]
    span: Interval
    is_open: bool
    jobs: tuple[str, ...] = ()
    is_settled: bool = False

    def covers(self, other: _Missing) -> bool:
        """Return whether one finding is enough for both."""
        whose = set(other.exporters) <= set(self.exporters)
        return whose and self.span.start_ns <= other.span.end_ns and other.span.start_ns <= self.span.end_ns

    def goes_on(self, before: Finding | None) -> bool:
        """Return whether it is one with a known one: nothing was heard in between."""
        return before is not None and self.span.start_ns <= before.end_ns

    def after(self, before: Finding | None) -> _Missing:
        """Return it with the jobs that were known to go on."""
        if before is None or not self.jobs:
            return self
        return replace(self, jobs=tuple(sorted({*self.jobs, *before.baseline.jobs})))

    def with_other(self, other: _Missing) -> _Missing:
        """Return both as one."""
        span = Interval(min(self.span.start_ns, other.span.start_ns), max(self.span.end_ns, other.span.end_ns))
        jobs = tuple(sorted({*self.jobs, *other.jobs}))
        return replace(self, span=span, is_open=self.is_open or other.is_open, jobs=jobs)


def find_missing_records(
    holes: Iterable[Hole],
    gaps: Mapping[str, Sequence[Finding]],
    jobs: Sequence[JobRevision],
    seen: Observed,
    topology: Topology,
    params: Params,
) -> tuple[Finding, ...]:
    """Find exporters whose records are missing, each place once.

    Parameters: `holes`, in which no job can be told to go on; `gaps`, by job_id, what single exporters miss of a job
    that goes on; `jobs`, all that the window shows, and those known before.

    1. Join the gaps of one exporter, and leave out those within a hole.
    2. Leave out what was over before the window: that was found then.
    3. Let findings that were open go on, and close those whose exporters are heard again.
    """
    missing: list[_Missing] = []
    for hole in holes:
        subject = ALL_EXPORTERS if hole.is_total else first_few([_named(name) for name in hole.exporters])
        missing.append(_Missing(subject, hole.exporters, hole.span, hole.is_open))
    for job_id, found in sorted(gaps.items()):
        for gap in found:
            span = Interval(gap.start_ns, gap.end_ns)
            goes_on = () if gap.subject == ALL_EXPORTERS else (job_id,)
            one = _Missing(_named(gap.subject), gap.baseline.exporters, span, gap.status == "open", goes_on)
            row = next((row for row, other in enumerate(missing) if other.covers(one)), None)
            if row is None:
                missing.append(one)
            elif missing[row].exporters == one.exporters:
                missing[row] = missing[row].with_other(one)
    fresh = [one for one in missing if one.is_open or one.span.end_ns >= seen.window.start_ns]
    left = {one.subject: one for one in seen.known.findings if one.kind == "telemetry" and is_stop(one)}
    same = [left.pop(one.subject) if one.goes_on(left.get(one.subject)) else None for one in fresh]
    both = [(one.after(before), before) for one, before in zip(fresh, same, strict=True)]
    both += [(_settled(one, seen), one) for one in left.values()]
    return tuple(_describe(one, before, jobs, seen, topology, params) for one, before in both)


def _named(exporter: str) -> str:
    return exporter or "without a name"


def _settled(one: Finding, seen: Observed) -> _Missing:
    """Return a finding that was open and not found again. It is over if its exporters are heard again."""
    names, new = one.baseline.exporters, seen.new
    heard = np.isin(new.exporter, [code for code, name in enumerate(new.exporters) if name in names])
    again_ns = new.end_ns[(heard | (one.subject == ALL_EXPORTERS)) & (new.end_ns > one.start_ns)]
    end_ns = int(again_ns.min(initial=max(seen.until_ns, one.end_ns)))
    span = Interval(one.start_ns, end_ns)
    return _Missing(one.subject, names, span, not len(again_ns), one.baseline.jobs, is_settled=True)


def _hidden_jobs(
    one: _Missing, start_ns: int, hidden: Int32, jobs: Iterable[JobRevision], params: Params
) -> tuple[str, ...]:
    """Name the jobs that went on until all their records were missing."""
    found = []
    for job in jobs:
        usual_ns = round(params.going_on.repeats * max(job.job.step_s_median, 1.0) * 1e9)
        fresh = job.job.first_seen_ns < start_ns <= job.job.last_seen_ns + usual_ns
        everywhere = one.subject == ALL_EXPORTERS
        if fresh and (everywhere or np.isin(job.members.endpoint, hidden).mean() >= params.stops.half):
            found.append(job.job.job_id)
    return tuple(sorted(found))


def _describe(
    one: _Missing,
    before: Finding | None,
    jobs: Sequence[JobRevision],
    seen: Observed,
    topology: Topology,
    params: Params,
) -> Finding:
    """Make the finding, graded by the share of endpoints that are hidden.

    Where one job alone fell silent with all that saw it, and has not gone on, that may be its end, too: no more than a
    warning. If it then began anew, its restart was what was silent; if its step proves to be whole, it stood still.
    """
    start_ns = one.span.start_ns if before is None else min(before.start_ns, one.span.start_ns)
    hidden, around = hidden_by(seen.read, one.exporters, Interval(start_ns, one.span.end_ns))
    hidden_count, around_count = len(hidden), len(around)
    if before is not None and before.baseline.hidden * around_count > hidden_count * before.baseline.around:
        # What was seen before it began may not be read again.
        hidden_count, around_count = before.baseline.hidden, before.baseline.around
    share = hidden_count / max(around_count, 1)
    length_s = (one.span.end_ns - start_ns) / 1e9
    names = [_named(name) for name in one.exporters]
    silent = one.jobs or _hidden_jobs(one, start_ns, hidden, jobs, params)
    alone = [] if one.jobs or len(silent) != 1 else [job for job in jobs if job.job.job_id == silent[0]]
    began_anew = any(job.attempt.begin_ns > start_ns for job in alone)
    may_have_ended = not any((job.steps.end_ns > one.span.end_ns).any() for job in alone) and bool(alone)
    stood_still = one.is_settled and not one.is_open and bool(alone) and not may_have_ended
    grade = "info" if began_anew or stood_still else severity(share, params.diagnose)
    if one.subject == ALL_EXPORTERS:
        who = f"No exporter {'has sent' if one.is_open else 'sent'} anything for {length_s:.3g} s"
        look = "the collector and the way to it"
    else:
        sends = "sends" if len(names) == 1 else "send"
        who = f"Exporter{'s' * (len(names) > 1)} {first_few(names)} {sends if one.is_open else 'sent'} nothing"
        who += f" for {length_s:.3g} s"
        look = "the exporter, its switch and the way to the collector"
    if one.jobs:
        who += f", while others saw {len(one.jobs)} job{'s' * (len(one.jobs) > 1)} go on"
    what = f"{hidden_count} of {around_count} endpoints" if hidden_count else "a part of what endpoints send"
    return make_finding(
        "telemetry",
        ("exporter", one.subject),
        # Looks differ by a hair about when it began.
        identity("", "telemetry", one.subject, start_ns // 10**9) if before is None else before.diagnosis_id,
        Extent(0, 0, start_ns, one.span.end_ns, is_open=one.is_open),
        Measured(length_s, 0.0),
        "warning" if may_have_ended and grade == "critical" else grade,
        f"{who}: {what} can't be seen, and whether jobs there go on can't be told; look at {look}"
        + (f", unless {silent[0]} has ended" if may_have_ended else "")
        + (f", unless {silent[0]} stood still: nothing of its step is missing." if stood_still else "."),
        {
            "because": SILENCE,
            "exporters": list(one.exporters),
            "jobs": list(one.jobs),
            "endpoints_hidden": hidden_count,
            "endpoints": around_count,
            "servers_hidden": [topology.server_names[row] for row in np.unique(topology.server[hidden]).tolist()],
            "lost_s": 0.0,
        },
        baseline=Baseline(
            records_missing=True, exporters=one.exporters, jobs=one.jobs, hidden=hidden_count, around=around_count
        ),
        confidence=confidence_in("exporter"),
        jobs=silent,
    )
