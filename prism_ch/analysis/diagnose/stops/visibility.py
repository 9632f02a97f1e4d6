"""Measures how much of each job a window shows, so that "nothing is wrong" and "not seen" are two answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from prism_ch.analysis.diagnose.stops.stop_findings import ALL_EXPORTERS, is_gap
from prism_ch.analysis.observe.observe import Observed
from prism_ch.model.columns import Int64
from prism_ch.model.finding import Finding
from prism_ch.model.memory import JobRevision, Visibility


def measure_visibility(
    jobs: Sequence[JobRevision], missing: Sequence[Finding], seen: Observed
) -> tuple[Visibility, ...]:
    """Measure what share of each job's endpoints and time a window shows.

    Parameters: `jobs`, all that have not ended; `missing`, the findings on missing records.
    """
    new = seen.new
    touched = np.zeros(1 + max(int(side.max(initial=-1)) for side in (new.src, new.dst)), dtype=np.bool_)
    touched[new.src] = touched[new.dst] = True
    shown = np.flatnonzero(touched)
    return tuple(_measure(job, shown, missing, seen) for job in jobs if job.job.status != "ended")


def _measure(job: JobRevision, touched: Int64, missing: Sequence[Finding], seen: Observed) -> Visibility:
    members = job.members.endpoint[job.members.last_seen_ns >= job.attempt.begin_ns]
    shown = int(np.isin(members, touched).sum())
    mine = [one for one in missing if job.job.job_id in one.jobs]
    holes = [one for one in mine if not one.baseline.jobs]
    hidden_ns = max((_overlap_ns(one, seen) for one in holes), default=0)
    share = shown / max(len(members), 1) * (1 - hidden_ns / seen.window.length_ns)
    why = "; ".join(_reasons(job, shown, len(members), mine, seen))
    return Visibility(job.job.job_id, job.job.tenant, len(members), shown, share, why)


def _overlap_ns(one: Finding, seen: Observed) -> int:
    """Return for how long of a window records are missing."""
    end_ns = seen.window.end_ns if one.status == "open" else min(one.end_ns, seen.window.end_ns)
    return max(end_ns - max(one.start_ns, seen.window.start_ns), 0)


def _reasons(job: JobRevision, shown: int, members: int, missing: Sequence[Finding], seen: Observed) -> Iterator[str]:
    """Yield why not all of a job is seen."""
    cut = [(one, _overlap_ns(one, seen) / 1e9) for one in missing]
    for one, length_s in cut:
        if length_s > 0:
            who = ALL_EXPORTERS if one.subject == ALL_EXPORTERS else f"exporter {one.subject}"
            yield f"no records from {who} for {length_s:.3g} s"
    coarse = [one for one in job.findings if one.kind == "telemetry" and not is_gap(one)]
    joined = {one.subject for one in coarse if one.status == "open"}
    if joined:
        yield f"records joined over several steps by {len(joined)} exporter{'s' * (len(joined) > 1)}"
    if shown < members and not any(length_s > 0 for _, length_s in cut):
        unseen = f"{members - shown} of {members} endpoints neither sent nor got anything"
        yield f"{unseen}: {'the job stands still' if job.job.status == 'stalled' else 'they are idle'}, or not recorded"
