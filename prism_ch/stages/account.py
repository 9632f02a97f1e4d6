"""Account: put what was found of a job into the rows of the result tables, added to what was known of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import order_by, run_starts
from prism_ch.model.columns import Float64, Int64, UInt8
from prism_ch.model.flow import FlowBatch
from prism_ch.model.groupset import GroupSet, PairKinds
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.newest_life import NewestLife
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import (
    DP,
    OTHER,
    Diagnosis,
    GpuSteps,
    Group,
    JobRecord,
    JobRevision,
    JobState,
    JobStatus,
    Members,
    Pairs,
    Reconstruction,
    Steps,
    Timeline,
)
from prism_ch.model.traffic import Traffic

#: What is said of pairs that carry no steady data: the stages looked, and found nothing to name.
_OTHER_CONFIDENCE = 0.5

#: Times of one flow, by clocks as they were known at different times, are no farther apart.
_CLOCKS_NS = 10**9


def with_history(before: JobState | None, fresh: Steps) -> Steps:
    """Return the steps known of before, where they stay, followed by the new ones."""
    return fresh if before is None else Steps.concat([before.steps, fresh])


@dataclass(frozen=True, slots=True)
class ExaminedLife:
    """What one working of a window found of one life of a job.

    `groups` are numbered after those of earlier lives; `lateness_s` float64[endpoints, steps], see `lateness_s` in
    reconstruct, is of all steps looked at, those said before among them.
    """

    traffic: Traffic
    kinds: PairKinds
    groups: GroupSet
    rebuilt: Reconstruction
    lateness_s: Float64


@dataclass(frozen=True, slots=True)
class Examined:
    """What one working of a window found of a job.

    `flows` are one observation a flow, between members, and `counted` what these were when earlier windows counted
    them; `lives`, in order, what was found of each, `newest` what is to
    be remembered of the last; `history` the steps known of before that stay, and the new ones; `state` is what was
    known of the job, and `before` what of that stays as it is, None where all is found again.
    """

    job: RecognisedJob
    flows: FlowBatch
    counted: FlowBatch
    lives: tuple[ExaminedLife, ...]
    newest: NewestLife
    history: Steps
    diagnoses: tuple[Diagnosis, ...]
    state: JobState | None
    before: JobState | None


def job_revision(found: Examined) -> JobRevision:
    """Say all that this working of the window says of a job."""
    before, last = found.before, found.lives[-1]
    pairs = _pairs(found)
    first_seen = min(
        int(pairs.first_seen_ns.min()), found.state.job.first_seen_ns if found.state else np.iinfo(np.int64).max
    )
    whole = found.history.take(found.history.complete == 1)
    dp_sizes = [len(group.members) for group in last.groups.groups if group.kind == DP]
    first_new = 0 if before is None else int(before.steps.step[-1]) + 1
    rebuilt = join_lives([life.rebuilt for life in found.lives])
    record = JobRecord(
        found.job.job_id,
        found.job.tenant,
        "running",
        first_seen,
        int(pairs.last_seen_ns.max()),
        int(np.median(dp_sizes)) if dp_sizes else 1,
        int(last.groups.pp_stage.max(initial=0)) + 1,
        first_new + len(rebuilt.steps),
        float(np.median(whole.duration_s)) if len(whole) else 0.0,
        found.newest.profile(),
    )
    groups = () if before is None else before.groups
    for life in found.lives:
        groups = add_groups(groups, life.groups)
    return JobRevision(
        record,
        _members(found, groups, pairs),
        pairs,
        groups,
        first_new,
        0 if before is None else int(before.steps.end_ns[-1]),
        rebuilt.steps,
        rebuilt.gpu_steps,
        rebuilt.timeline,
        found.diagnoses,
    )


def add_groups(earlier: tuple[Group, ...], life: GroupSet) -> tuple[Group, ...]:
    """Return the groups of earlier lives followed by those that a life adds to them."""
    return (*earlier, *(group for group in life.groups if group.group_id >= len(earlier)))


def join_lives(parts: Sequence[Reconstruction]) -> Reconstruction:
    """Put the steps of lives one after the other."""
    if len(parts) == 1:
        return parts[0]
    gpu_steps = GpuSteps.concat([part.gpu_steps for part in parts])
    timeline = Timeline.concat([part.timeline for part in parts])
    return Reconstruction(
        Steps.concat([part.steps for part in parts]),
        gpu_steps.take(order_by(gpu_steps.endpoint, gpu_steps.step)),
        timeline.take(order_by(timeline.endpoint, timeline.start_ns)),
    )


def silence(
    states: Sequence[JobState], until_ns: int, standing: Mapping[str, tuple[Diagnosis, ...]], params: ContinueParams
) -> list[JobRevision]:
    """Say of jobs that show no traffic in a window whether they are stalled or have ended, where that is news.

    Parameters: `standing`, by job_id, the findings on jobs that stand still, or seem to.
    A job of which no whole step is known yet may be in the middle of a long one: it is never called stalled. Of one
    that has ended no finding stays open.
    """
    changed = []
    for state in states:
        found = standing.get(state.job.job_id, ())
        status = _status(state, until_ns, found, params)
        if status == "ended":
            found = tuple(replace(finding, status="closed") for finding in state.diagnoses)
        if status != state.job.status or (found and status != "ended"):
            job = replace(state.job, status=status)
            changed.append(replace(unchanged(state), job=job, diagnoses=found or state.diagnoses))
    return changed


def _status(state: JobState, until_ns: int, found: Sequence[Diagnosis], params: ContinueParams) -> JobStatus:
    """Return the status of a silent job."""
    silent_s = (until_ns - state.job.last_seen_ns) / 1e9
    step_s = state.job.step_s_median
    stalled_s = params.stalled_after_steps * max(step_s, 1.0) if step_s > 0 else params.ended_after_s
    if silent_s > max(params.ended_after_s, stalled_s):
        return "ended"
    stands = any(finding.kind in ("stall", "hang") and finding.status == "open" for finding in found)
    return "stalled" if stands or silent_s > stalled_s else state.job.status


def absorbed(states: Sequence[JobState], revisions: Sequence[JobRevision]) -> tuple[str, ...]:
    """Name the known jobs that turned out to be parts of others.

    A pipeline repeats within one step, and shows before the gradients that join it to the others of its job. Such a
    part is told anew with the whole: a job found again since before the part was seen, that holds all of its endpoints.
    """
    said = {revision.job.job_id for revision in revisions}
    return tuple(
        state.job.job_id
        for state in states
        if state.job.job_id not in said
        and any(
            max(whole.job.first_seen_ns, whole.from_time_ns) <= state.job.first_seen_ns
            and np.isin(state.members.endpoint, whole.members.endpoint).all()
            for whole in revisions
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


def _pairs(found: Examined) -> Pairs:
    """Count what every pair moved, added to what was counted before."""
    pairs = _count_pairs(found.flows, found.lives)
    basis = found.state if found.state is not None and found.state.is_unresolved else found.before
    if basis is None or len(basis.pairs) == 0:
        return pairs
    # All until the job was last seen is counted already, but for pairs whose ends were not yet in it. Clocks may have
    # been corrected since.
    known, counted = basis.pairs, found.counted
    span = int(max(part.max(initial=0) for part in (known.src, known.dst, counted.src, counted.dst))) + 1
    was_in = np.isin(counted.src.astype(np.int64) * span + counted.dst, known.src.astype(np.int64) * span + known.dst)
    counted = counted.take(was_in & (counted.end_ns <= basis.job.last_seen_ns + _CLOCKS_NS))
    return _add_pairs(known, _without(pairs, _count_pairs(counted, found.lives)), found.newest.begin_ns)


def _count_pairs(flows: FlowBatch, lives: Sequence[ExaminedLife]) -> Pairs:
    """Count every directed pair of a batch sorted by (src, dst); pairs that were not identified are `other`."""
    first = run_starts(flows.src, flows.dst)
    if len(first) == 0:
        return Pairs.empty()
    src, dst = flows.src[first].astype(np.int64), flows.dst[first].astype(np.int64)
    size = int(max(src.max(), dst.max(), *(life.groups.endpoints.max(initial=0) for life in lives))) + 1
    identified, named, certain = _kinds_of_pairs(lives, size)
    kind, confidence = np.full(len(first), OTHER, dtype=np.uint8), np.full(len(first), _OTHER_CONFIDENCE)
    place = np.searchsorted(identified, src * size + dst)
    found = place < len(identified)
    found[found] = identified[place[found]] == (src * size + dst)[found]
    kind[found], confidence[found] = named[place[found]], certain[place[found]]
    confidence[(kind == OTHER) & ((confidence == 0) | (confidence > _OTHER_CONFIDENCE))] = _OTHER_CONFIDENCE
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


def _kinds_of_pairs(lives: Sequence[ExaminedLife], size: int) -> tuple[Int64, UInt8, Float64]:
    """Return the identified pairs as src * size + dst, sorted, their kinds and the confidence in them.

    A pair is called by the newest life in which it carried training.
    """
    key = np.concatenate([life.traffic.pair_src.astype(np.int64) * size + life.traffic.pair_dst for life in lives])
    kind = np.concatenate([life.kinds.kind for life in lives])
    confidence = np.concatenate([life.kinds.confidence for life in lives])
    age = np.repeat(-np.arange(len(lives)), [len(life.traffic.pair_src) for life in lives])
    order = np.lexsort((age, kind == OTHER, key))
    order = order[run_starts(key[order])]
    return key[order], kind[order], confidence[order]


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


def _add_pairs(before: Pairs, now: Pairs, begin_ns: int) -> Pairs:
    """Add this window's counts to what was counted before.

    Kinds found now win, but where a pair carries no training any more that carried some before the newest life, which
    began at `begin_ns`.
    """
    both = Pairs.concat([now, before])
    untyped = both.kind == OTHER
    untyped[len(now) :] |= before.first_seen_ns >= begin_ns
    order = np.lexsort((untyped, both.dst, both.src))  # stable: of equals, what was found now comes first
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


def _members(found: Examined, groups: tuple[Group, ...], pairs: Pairs) -> Members:
    """List the members of all lives, each with its place in the newest one it was in, and since and until when.

    A member without a group has a number beyond those of the groups.
    """
    parts: list[GroupSet | Members] = [life.groups for life in reversed(found.lives)]
    endpoints = [life.groups.endpoints for life in reversed(found.lives)]
    if found.before is not None and found.newest.first_step:
        parts.append(found.before.members)
        endpoints.append(found.before.members.endpoint)
    endpoint, row = np.unique(np.concatenate(endpoints), return_index=True)  # the first of each: its newest life
    dp_group = np.concatenate([part.dp_group for part in parts])[row]
    grouped = {(member, group.group_id) for group in groups if group.kind == DP for member in group.members}
    alone = [place not in grouped for place in zip(endpoint.tolist(), dp_group.tolist(), strict=True)]
    dp_group[alone] = len(groups) + np.arange(sum(alone))
    first, last = _seen(endpoint.astype(np.int64), pairs)
    return Members(endpoint, dp_group, np.concatenate([part.pp_stage for part in parts])[row], first, last)


def _seen(endpoints: Int64, pairs: Pairs) -> tuple[Int64, Int64]:
    """Return the first and last time each endpoint moved anything to or from another member."""
    size = int(max(endpoints.max(initial=0), pairs.src.max(initial=0), pairs.dst.max(initial=0))) + 1
    first, last = np.full(size, np.iinfo(np.int64).max), np.zeros(size, dtype=np.int64)
    for side in (pairs.src, pairs.dst):
        np.minimum.at(first, side, pairs.first_seen_ns)
        np.maximum.at(last, side, pairs.last_seen_ns)
    return first[endpoints], last[endpoints]
