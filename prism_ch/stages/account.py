"""Account: put what was found of a job into the rows of the result tables, added to what was known of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import run_starts
from prism_ch.model.columns import Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.groupset import GroupSet, PairKinds
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import (
    DP,
    OTHER,
    Diagnosis,
    JobRecord,
    JobRevision,
    JobState,
    JobStatus,
    Members,
    Pairs,
    Reconstruction,
    Steps,
)
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window

#: What is said of pairs that carry no steady data: the stages looked, and found nothing to name.
_OTHER_CONFIDENCE = 0.5


def with_history(settled: JobState | None, fresh: Steps) -> Steps:
    """Return the steps known of before, where the job is settled, followed by the new ones."""
    return fresh if settled is None else Steps.concat([settled.steps, fresh])


def typed_in_window(traffic: Traffic, kinds: PairKinds, window: Window) -> Traffic:
    """Return the bursts of training traffic that end in the window."""
    ends_inside = (traffic.end_ns >= window.start_ns) & (traffic.end_ns < window.end_ns)
    return traffic.take(ends_inside & (kinds.burst != OTHER))


@dataclass(frozen=True, slots=True)
class Examined:
    """What one working of a window found of a job.

    `flows` are one observation a flow, between members, and `counted` what these were when earlier windows counted
    them; `history` the steps known of before, where the job is settled, and the new ones; `state` is what was known of
    the job, and `settled` the same where steps are added rather than found again.
    """

    job: RecognisedJob
    flows: FlowBatch
    counted: FlowBatch
    traffic: Traffic
    kinds: PairKinds
    groups: GroupSet
    rebuilt: Reconstruction
    history: Steps
    diagnoses: tuple[Diagnosis, ...]
    state: JobState | None
    settled: JobState | None


def job_revision(found: Examined) -> JobRevision:
    """Say all that this working of a window says of a job."""
    settled = found.settled
    pairs = _count_pairs(found.flows, found.traffic, found.kinds)
    basis = found.state if found.state is not None and found.state.is_unresolved else settled
    if basis is not None:
        pairs = _add_pairs(basis.pairs, _without(pairs, _count_pairs(found.counted, found.traffic, found.kinds)))
    first_seen = min(
        int(pairs.first_seen_ns.min()), found.state.job.first_seen_ns if found.state else np.iinfo(np.int64).max
    )
    whole = found.history.take(found.history.complete == 1)
    dp_sizes = [len(group.members) for group in found.groups.groups if group.kind == DP]
    first_new = int(settled.steps.step[-1]) + 1 if settled is not None else 0
    record = JobRecord(
        found.job.job_id,
        found.job.tenant,
        "running",
        first_seen,
        int(pairs.last_seen_ns.max()),
        int(np.median(dp_sizes)) if dp_sizes else 1,
        int(found.groups.pp_stage.max(initial=0)) + 1,
        first_new + len(found.rebuilt.steps),
        float(np.median(whole.duration_s)) if len(whole) else 0.0,
        json.dumps({"settled": settled is not None}),
    )
    return JobRevision(
        record,
        _members(found.groups, pairs),
        pairs,
        found.groups.groups,
        first_new,
        int(settled.steps.end_ns[-1]) if settled is not None else 0,
        found.rebuilt.steps,
        found.rebuilt.gpu_steps,
        found.rebuilt.timeline,
        found.diagnoses,
    )


def silence(states: Sequence[JobState], until_ns: int, params: ContinueParams) -> list[JobRevision]:
    """Say of jobs that show no traffic in a window whether they are stalled or have ended, where that is news.

    A job of which no whole step is known yet may be in the middle of a long one: it is never called stalled.
    """
    changed = []
    for state in states:
        silent_s = (until_ns - state.job.last_seen_ns) / 1e9
        step_s = state.job.step_s_median
        stalled_s = params.stalled_after_steps * max(step_s, 1.0) if step_s > 0 else params.ended_after_s
        status: JobStatus
        if silent_s > max(params.ended_after_s, stalled_s):
            status = "ended"
        elif silent_s > stalled_s:
            status = "stalled"
        else:
            status = state.job.status
        if status != state.job.status:
            changed.append(replace(unchanged(state), job=replace(state.job, status=status)))
    return changed


def absorbed(states: Sequence[JobState], revisions: Sequence[JobRevision]) -> tuple[str, ...]:
    """Name the known jobs that turned out to be parts of others.

    A pipeline repeats within one step, and shows before the gradients that join it to the others of its job. Such a
    part is told anew with the whole: a job found again from its beginning that holds all of its endpoints.
    """
    anew = [revision for revision in revisions if revision.from_step == 0]
    said = {revision.job.job_id for revision in revisions}
    return tuple(
        state.job.job_id
        for state in states
        if state.job.job_id not in said
        and any(
            whole.job.first_seen_ns <= state.job.first_seen_ns
            and np.isin(state.members.endpoint, whole.members.endpoint).all()
            for whole in anew
        )
    )


def unchanged(state: JobState) -> JobRevision:
    """Say of a job what was known before, without new steps; steps published later are withdrawn."""
    return JobRevision(
        state.job,
        state.members,
        state.pairs,
        state.groups,
        state.job.steps,
        state.job.last_seen_ns,
        diagnoses=state.diagnoses,
    )


def _count_pairs(flows: FlowBatch, traffic: Traffic, kinds: PairKinds) -> Pairs:
    """Count every directed pair of a batch sorted by (src, dst); pairs that were not identified are `other`."""
    first = run_starts(flows.src, flows.dst)
    src, dst = flows.src[first].astype(np.int64), flows.dst[first].astype(np.int64)
    span = (
        int(
            max(
                src.max(initial=0), dst.max(initial=0), traffic.pair_src.max(initial=0), traffic.pair_dst.max(initial=0)
            )
        )
        + 1
    )
    identified = traffic.pair_src.astype(np.int64) * span + traffic.pair_dst
    kind, confidence = np.full(len(first), OTHER, dtype=np.uint8), np.full(len(first), _OTHER_CONFIDENCE)
    place = np.searchsorted(identified, src * span + dst)
    found = place < len(identified)
    found[found] = identified[place[found]] == (src * span + dst)[found]
    kind[found], confidence[found] = kinds.kind[place[found]], kinds.confidence[place[found]]
    unnamed = (kind == OTHER) & ((confidence == 0) | (confidence > _OTHER_CONFIDENCE))
    confidence[unnamed] = _OTHER_CONFIDENCE
    if len(first) == 0:
        return Pairs.empty()
    return Pairs(
        src.astype(np.int32),
        dst.astype(np.int32),
        kind,
        confidence,
        np.diff(np.append(first, len(flows))),
        np.add.reduceat(flows.bytes, first),
        np.minimum.reduceat(flows.start_ns, first),
        np.maximum.reduceat(flows.end_ns, first),
    )


def _without(pairs: Pairs, counted: Pairs) -> Pairs:
    """Return the pairs less what of them was counted before, those left out that have nothing new.

    An observation that comes to others of its flow may be the one that is elected: it changes counts, and adds none.
    """
    span = int(pairs.dst.max(initial=0)) + 1
    key, wanted = (each.src.astype(np.int64) * span + each.dst for each in (pairs, counted))
    place = np.searchsorted(key, wanted)
    flows, volume = pairs.flows.copy(), pairs.bytes.copy()
    flows[place] -= counted.flows
    volume[place] -= counted.bytes
    return replace(pairs, flows=flows, bytes=volume).take((flows != 0) | (volume != 0))


def _add_pairs(before: Pairs, now: Pairs) -> Pairs:
    """Add this window's counts to what was counted before; kinds found now win."""
    if len(before) == 0:
        return now
    both = Pairs.concat([now, before])
    order = np.lexsort((both.dst, both.src))  # stable: of equal pairs, what was found now comes first
    both = both.take(order)
    first = run_starts(both.src, both.dst)
    return Pairs(
        both.src[first],
        both.dst[first],
        both.kind[first],
        both.confidence[first],
        np.add.reduceat(both.flows, first),
        np.add.reduceat(both.bytes, first),
        np.minimum.reduceat(both.first_seen_ns, first),
        np.maximum.reduceat(both.last_seen_ns, first),
    )


def _members(groups: GroupSet, pairs: Pairs) -> Members:
    """Say since and until when each member was seen."""
    first, last = _seen(groups.endpoints.astype(np.int64), pairs)
    return Members(groups.endpoints, groups.dp_group, groups.pp_stage, first, last)


def _seen(endpoints: Int64, pairs: Pairs) -> tuple[Int64, Int64]:
    """Return the first and last time each endpoint moved anything to or from another member."""
    size = int(max(endpoints.max(initial=0), pairs.src.max(initial=0), pairs.dst.max(initial=0))) + 1
    first, last = np.full(size, np.iinfo(np.int64).max), np.zeros(size, dtype=np.int64)
    for side in (pairs.src, pairs.dst):
        np.minimum.at(first, side, pairs.first_seen_ns)
        np.maximum.at(last, side, pairs.last_seen_ns)
    return first[endpoints], last[endpoints]
