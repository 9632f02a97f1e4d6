"""Restarts: a job's newest life goes on from an earlier one after a time without any, or seems to as ranks connect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.stops.silence import Quiet, UsualRhythm
from prism_ch.analysis.diagnose.stops.stop_findings import Stop, first_few, stop_finding
from prism_ch.core.robust import usual_count
from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import StopParams
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology


def find_restart(
    job_id: str,
    steps: Steps,
    first_step: int,
    span_ns: tuple[int, int],
    members: tuple[Int32, Int32],
    topology: Topology,
    *,
    is_open: bool,
) -> Finding:
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


def seems_to_begin_anew(
    quiet: Quiet, rhythm: UsualRhythm | None, from_ns: int, topology: Topology, params: StopParams
) -> Finding | None:
    """Describe what seems to be a restart: members of a job at rest meet anew, or meet others in place of some.

    Whether those go on with the job its new steps tell, some of which have to be seen; who connects is seen at once.
    Parameters: `pace`, the usual one of the job; `from_ns`, from when on they meet.
    """
    if rhythm is None:
        return None
    said = quiet.beside.take(_says_little(quiet, rhythm, params))
    met = said.take(said.end_ns >= from_ns)
    if len(met) == 0:
        return None
    middle_ns = int(np.median(met.start_ns))
    work = quiet.flows.take(_is_work(quiet, params))
    ended, begun = work.end_ns <= middle_ns, work.start_ns > middle_ns
    if not (ended.any() and (ended | begun).all()):
        return None
    ended_ns = int(work.end_ns[ended].max())
    rests_until_ns = int(work.start_ns[begun].min(initial=quiet.until_ns))
    met = met.take((met.start_ns > ended_ns) & (met.start_ns < rests_until_ns))
    rest_s = (rests_until_ns - ended_ns) / 1e9
    after = _who_meet(met)
    still_there = np.isin(quiet.endpoints, after).mean()
    if rest_s <= rhythm.rest_s or still_there < params.half or _is_usual(met, said, ended_ns, params):
        return None
    suspected = _suspect(
        quiet.job_id, quiet.steps, (ended_ns, int(met.start_ns.min())), (quiet.endpoints, after), topology
    )
    return None if is_told(suspected, quiet, params) else suspected


def is_told(suspected: Finding, quiet: Quiet, params: StopParams) -> bool:
    """Say whether what a job did since it seemed to begin anew tells if it did: a new life, or so many steps."""
    is_new = len(quiet.flows) > 0 and int(quiet.flows.start_ns.min()) > suspected.start_ns
    steps = int(np.count_nonzero(quiet.steps.end_ns > suspected.end_ns))
    return is_new or steps >= params.repeats


def _is_work(quiet: Quiet, params: StopParams) -> Bool:
    """Mask the flows between two who train that are training: those who connect are among them as well."""
    way = quiet.ways.rows_of(quiet.flows)
    usual = np.bincount(way, weights=quiet.flows.bytes) / np.maximum(np.bincount(way), 1)
    mask: Bool = quiet.flows.bytes >= params.little * usual[way]
    return mask


def _says_little(quiet: Quiet, rhythm: UsualRhythm, params: StopParams) -> Bool:
    """Mask the flows beside between those who exchange far less than two do who train: not what is saved or loaded."""
    seen = (quiet.flows.end_ns >= rhythm.steps.start_ns[0]) & (quiet.flows.end_ns <= rhythm.steps.end_ns[-1])
    trained = quiet.flows.bytes[seen].sum() / (len(rhythm.steps) * len(quiet.ways.src))
    _, two = np.unique(_two(quiet.beside), return_inverse=True)
    mask: Bool = np.bincount(two, weights=quiet.beside.bytes)[two] < params.min_saved_share * trained
    return mask


def _who_meet(met: FlowBatch) -> Int32:
    """Return the endpoints that meet several others, as all do that make their communicators; sorted."""
    _, first = np.unique(_two(met), return_index=True)
    others = np.bincount(np.concatenate([met.src[first], met.dst[first]]))
    return np.flatnonzero(others >= 2).astype(np.int32)


def _is_usual(met: FlowBatch, said: FlowBatch, ended_ns: int, params: StopParams) -> bool:
    """Say whether no more who `met` than exchanged a word in as much time before the job came to rest, as strays do."""
    length_ns = int(met.end_ns.max() - met.start_ns.min())
    return len(met) <= params.twice * usual_count(said.start_ns, ended_ns, ended_ns + length_ns)


def _two(flows: FlowBatch) -> Int64:
    """Return the two ends of each flow as one number, whichever sends, int64[flows]."""
    low, high = np.minimum(flows.src, flows.dst).astype(np.int64), np.maximum(flows.src, flows.dst)
    number: Int64 = low * (1 + int(high.max(initial=0))) + high
    return number


def _suspect(
    job_id: str, steps: Steps, span_ns: tuple[int, int], members: tuple[Int32, Int32], topology: Topology
) -> Finding:
    """Put into words what seems to be a restart; parameters as of `find_restart`, `steps` those before."""
    before, after = members
    gone, new = np.setdiff1d(before, after), np.setdiff1d(after, before)
    gap_s = (span_ns[1] - span_ns[0]) / 1e9
    step = int(np.append(steps.step, steps.step[-1] + 1)[np.searchsorted(steps.end_ns, span_ns[1])])
    presumed = stop_finding(
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
    return replace(presumed, baseline=Baseline(presumed=True))


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
