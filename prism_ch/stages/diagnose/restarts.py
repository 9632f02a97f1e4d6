"""Restarts with other members: a job's newest life goes on from an earlier one after a time without any."""

from __future__ import annotations

import numpy as np

from prism_ch.model.columns import Int32
from prism_ch.model.result import Diagnosis, Steps
from prism_ch.model.topology import Topology
from prism_ch.stages.diagnose.stop_finding import Stop, first_few, stop_finding


def find_restart(
    job_id: str,
    steps: Steps,
    first_step: int,
    span_ns: tuple[int, int],
    members: tuple[Int32, Int32],
    topology: Topology,
    *,
    is_open: bool,
) -> Diagnosis:
    """Describe a restart.

    Parameters: `steps`, of the job, those around the restart among them; `first_step`, of the life after it; `span_ns`,
    the end of the last traffic before, and the beginning of the first after; `members`, before and after, sorted;
    `is_open`, while the new life is young and may yet be seen otherwise.
    """
    before, after = members
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    lost_s = max(_interrupted_s(steps, first_step) - _usual_s(steps), 0.0)
    gap_s = (span_ns[1] - span_ns[0]) / 1e9
    return stop_finding(
        "restart",
        job_id,
        Stop(first_step, *span_ns, usual_s=0.0, lost_s=lost_s, slowdown=1.0),
        ("job", job_id),
        "warning",
        f"The job was interrupted for {gap_s:.3g} s before step {first_step} and went on with {len(after)} endpoints "
        f"in place of {len(before)}{_exchanged(gone, new, topology)}: look for why it died.",
        {
            "gap_s": round(gap_s, 6),
            "members_before": len(before),
            "members_after": len(after),
            "left": [topology.endpoints[endpoint] for endpoint in gone.tolist()],
            "joined": [topology.endpoints[endpoint] for endpoint in new.tolist()],
        },
        is_open=is_open,
    )


def suspect_restart(
    job_id: str, steps: Steps, span_ns: tuple[int, int], members: tuple[Int32, Int32], topology: Topology
) -> Diagnosis:
    """Describe what seems to be a restart, as long as the new life has not made steps enough to say whose it is.

    Parameters: as of `find_restart`; `steps`, those before.
    """
    before, after = members
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    gap_s, step = (span_ns[1] - span_ns[0]) / 1e9, int(steps.step[-1]) + 1
    return stop_finding(
        "restart",
        job_id,
        Stop(step, *span_ns, usual_s=0.0, lost_s=max(gap_s - _usual_s(steps), 0.0), slowdown=1.0),
        ("job", job_id),
        "info",
        f"The job was interrupted for {gap_s:.3g} s before step {step}, and {len(after)} endpoints in place of "
        f"{len(before)} connect anew{_exchanged(gone, new, topology)}: whether they go on with it, steps will tell.",
        {"gap_s": round(gap_s, 6), "members_before": len(before), "members_after": len(after)},
        is_open=True,
    )


def _usual_s(steps: Steps) -> float:
    """Return the usual duration of whole steps, in seconds; 0 without any."""
    whole = steps.complete == 1
    return float(np.median(steps.duration_s[whole])) if whole.any() else 0.0


def _interrupted_s(steps: Steps, first_step: int) -> float:
    """Return the time from the end of the last step before to the end of the first one after, in seconds."""
    ends = [int(steps.end_ns[steps.step == step][0]) for step in (first_step - 1, first_step) if step in steps.step]
    return (ends[-1] - ends[0]) / 1e9 if ends else 0.0


def _exchanged(gone: Int32, new: Int32, topology: Topology) -> str:
    """Name the servers that left and that joined."""
    parts = [
        f"{what} {first_few([topology.server_names[server] for server in np.unique(topology.server[who]).tolist()])}"
        for what, who in (("without", gone), ("with", new))
        if len(who)
    ]
    return f" ({', '.join(parts)})" if parts else ""
