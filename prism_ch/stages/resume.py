"""Resume: where a job's steps go on from those that were published before.

What is published of a job stays as it is, but for its newest life while that is young: of that all is found again from
its beginning in every window, until enough of its steps are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Bool, Int64
from prism_ch.model.division import Division
from prism_ch.model.flow import FlowBatch
from prism_ch.model.groupset import PairKinds
from prism_ch.model.newest_life import NewestLife
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import OTHER, GpuSteps, JobState, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Resumed:
    """The steps of a division that are new: the first is number `first_step` and begins at `start_ns` int64[m].

    `start_ns` is None where nothing came before.
    """

    division: Division
    first_step: int
    start_ns: Int64 | None


def is_settled(state: JobState | None, params: ContinueParams) -> bool:
    """Say whether enough steps of a job's newest life are known to add new ones, rather than find all again."""
    return state is not None and state.job.steps - NewestLife.of(state.job).first_step >= params.settle_steps


def at_work(states: Sequence[JobState], fresh: FlowBatch) -> list[JobState]:
    """Return the known jobs that the endpoints of a window's flows may work for: of several, the one there last."""
    active = np.zeros(_endpoints_of(fresh, states), dtype=bool)
    active[fresh.src] = active[fresh.dst] = True
    latest = np.zeros(len(active), dtype=np.int64)
    for state in states:
        np.maximum.at(latest, state.members.endpoint, state.members.last_seen_ns)
    return [
        state
        for state in states
        if (active[state.members.endpoint] & (state.members.last_seen_ns >= latest[state.members.endpoint])).any()
    ]


def at_rest(states: Sequence[JobState], batch: FlowBatch, from_ns: int, params: ContinueParams) -> list[JobState]:
    """Return the known jobs, not long gone, on whose endpoints nothing ends from a time on.

    Parameters: `batch`, flows from then on, and maybe others.
    """
    active = np.zeros(_endpoints_of(batch, states), dtype=bool)
    fresh = batch.end_ns >= from_ns
    active[batch.src[fresh]] = active[batch.dst[fresh]] = True
    return [
        state
        for state in states
        if state.job.status != "ended"
        and len(state.steps)
        and from_ns - state.job.last_seen_ns < params.ended_after_s * 10**9
        and not active[state.members.endpoint].any()
    ]


def rests_since_ns(state: JobState, params: ContinueParams) -> int:
    """Return from where on the traffic of a job at rest says how long its rests usually are."""
    return int(state.steps.start_ns[-min(params.context_steps, len(state.steps))])


def between_members(batch: FlowBatch, states: Sequence[JobState]) -> Bool:
    """Mask the flows between two members of the same one of some jobs, bool[n]."""
    mask = np.zeros(len(batch), dtype=bool)
    for state in states:
        member = np.zeros(_endpoints_of(batch, states), dtype=bool)
        member[state.members.endpoint] = True
        mask |= member[batch.src] & member[batch.dst]
    return mask


def told_before(batch: FlowBatch, states: Sequence[JobState], working: Sequence[JobState]) -> Bool:
    """Mask the flows of jobs and lives that are over, bool[n]: who is on their endpoints now has nothing of them.

    Parameters: `states`, what was known before the window, and those of them that are `working` in it.
    """
    told = np.zeros(len(batch), dtype=bool)
    going_on = {state.job.job_id for state in working}
    for state in states:
        over_ns = NewestLife.of(state.job).begin_ns if state.job.job_id in going_on else _over_ns(state)
        member = np.zeros(_endpoints_of(batch, states), dtype=bool)
        member[state.members.endpoint] = True
        told |= member[batch.src] & member[batch.dst] & (batch.end_ns < over_ns)
    return told


def _over_ns(state: JobState) -> int:
    """Return from when on nothing can be of a job that is over: a step after its last one, which it may have begun."""
    if len(state.steps) == 0:
        return state.job.last_seen_ns + 1
    step_ns = int(np.median(state.steps.end_ns - state.steps.start_ns))
    return min(state.job.last_seen_ns, int(state.steps.end_ns[-1]) + step_ns) + 1


def _endpoints_of(batch: FlowBatch, states: Sequence[JobState]) -> int:
    """Return one more than the largest endpoint of any of them."""
    largest = [int(part.max(initial=-1)) for part in (batch.src, batch.dst, *(s.members.endpoint for s in states))]
    return max(largest) + 1


def looked_at_from_ns(state: JobState, params: ContinueParams) -> int:
    """Return from where on a job's traffic is looked at: some steps back, or the beginning of a young life."""
    if is_settled(state, params):
        return context_start_ns(state, params)
    return max(NewestLife.of(state.job).begin_ns, state.job.first_seen_ns)


def context_start_ns(state: JobState, params: ContinueParams) -> int:
    """Return from where on a settled job's traffic is looked at."""
    return int(state.steps.start_ns[-params.context_steps])


def what_stays(state: JobState | None, params: ContinueParams) -> JobState | None:
    """Return what is known of a job that its newest life does not change: its steps, and the groups of earlier lives.

    While that life is young, its steps are found again: None for a young job of one life.
    """
    if state is None:
        return None
    life = NewestLife.of(state.job)
    stays = replace(state, groups=state.groups[: life.earlier_groups])
    if is_settled(state, params):
        return stays
    if life.first_step == 0:
        return None
    steps, gpu_steps = state.steps, state.gpu_steps
    begin_ns = life.begin_ns
    return replace(
        stays,
        steps=steps.take(steps.step < life.first_step),
        gpu_steps=gpu_steps.take(gpu_steps.step < life.first_step),
        diagnoses=tuple(finding for finding in state.diagnoses if finding.start_ns < begin_ns),
    )


def keep_known_kinds(kinds: PairKinds, traffic: Traffic, state: JobState, topology: Topology) -> PairKinds:
    """Give the pairs of a known job the kind they were found to have; only others keep what is found now.

    A pair that was `other` may have been new. Where then and now agree the bursts keep their own kinds: a pair may
    carry two.
    """
    if len(state.pairs) == 0:
        return kinds
    span = len(topology)
    known = state.pairs.src.astype(np.int64) * span + state.pairs.dst
    wanted = traffic.pair_src.astype(np.int64) * span + traffic.pair_dst
    order = np.argsort(known)
    place = np.minimum(np.searchsorted(known[order], wanted), len(known) - 1)
    row = order[place]
    found = (known[row] == wanted) & (state.pairs.kind[row] != OTHER)
    kind = np.where(found, state.pairs.kind[row], kinds.kind)
    changed = (kind != kinds.kind)[traffic.pair]
    return PairKinds(
        kind,
        np.where(found, state.pairs.confidence[row], kinds.confidence),
        np.where(changed, kind[traffic.pair], kinds.burst),
    )


def known_steps(state: JobState | None, params: ContinueParams) -> Division | None:
    """Return published steps that say what a step of a job's newest life is; None where they are too few.

    Of a settled job those are the newest, as many as are looked back over; of a young one that became slow, those that
    were known by then; else all. An endpoint that joined after a step ended it with the job.
    """
    if state is None:
        return None
    if is_settled(state, params):
        first, until = state.job.steps - params.context_steps, state.job.steps
    else:
        life = NewestLife.of(state.job)
        first = life.first_step
        until = first + life.even_until if life.even_until else state.job.steps
    steps = state.steps.take((state.steps.step >= first) & (state.steps.step < until))
    if len(steps) < min(params.even_steps, params.context_steps):
        return None
    mine = state.gpu_steps
    endpoints, row = np.unique(mine.endpoint, return_inverse=True)
    end_ns = np.tile(steps.end_ns, (len(endpoints), 1))
    recent = np.isin(mine.step, steps.step)
    end_ns[row[recent], np.searchsorted(steps.step, mine.step[recent])] = mine.end_ns[recent]
    return Division(endpoints, end_ns, np.ones(len(steps), dtype=bool))


def confirms(division: Division, known: Division, params: ContinueParams) -> bool:
    """Say whether a division holds steps known before, but for a few, and no more than those in their time."""
    ends_ns, known_ns = division.job_end_ns(), known.job_end_ns()
    near_ns = params.same_boundary_share * float(np.median(np.diff(known_ns)))
    place = np.searchsorted(ends_ns, known_ns - near_ns)
    found = np.append(ends_ns, np.iinfo(np.int64).max)[place] <= known_ns + near_ns
    within = np.count_nonzero((ends_ns > known_ns[0] - near_ns) & (ends_ns < known_ns[-1] + near_ns))
    few = (1 - params.same_steps) * len(known_ns)
    return bool(np.count_nonzero(~found) <= few and within <= len(known_ns) + few)


def is_slow(division: Division, known: Division, params: ContinueParams) -> bool:
    """Say whether some of the newest steps of a division take longer than most of those known before."""
    usual_ns = float(np.quantile(np.diff(known.job_end_ns()), 0.25))
    newest_ns = np.diff(division.job_end_ns())[-2 * params.slow_steps :]
    return bool(np.count_nonzero(newest_ns > (1 + params.slow_excess) * usual_ns) >= params.slow_steps)


def resume(division: Division, state: JobState | None, params: ContinueParams) -> Resumed:
    """Keep the steps of a division that are not yet published.

    Parameters: `division`, of the traffic looked at; `state`, of a settled job, else None.
    """
    if state is None:
        return Resumed(division, 0, None)
    published = int(state.steps.end_ns[-1])
    step_ns = float(np.median(state.steps.end_ns - state.steps.start_ns))
    new = int(np.searchsorted(division.job_end_ns(), published + params.same_boundary_share * step_ns))
    ends = division.end_ns[:, new:].copy()
    # The first step of a division may be cut by the span looked at; the published steps before it say that it is not.
    fresh = Division(division.endpoints.copy(), ends, np.ones(ends.shape[1], dtype=bool))
    return _after(fresh, state.steps, state.gpu_steps)


def begin_anew(division: Division, steps: Steps, gpu_steps: GpuSteps) -> Resumed:
    """Add the steps of another life to those of earlier ones, if there are any.

    The time from the last step that was finished to the end of the first new one is not what a step takes.
    """
    if len(steps) == 0:
        return Resumed(division, 0, None)
    whole = division.whole.copy()
    whole[:1] = False
    fresh = Division(division.endpoints.copy(), division.end_ns.copy(), whole, division.regular)
    return _after(fresh, steps, gpu_steps)


def _after(division: Division, steps: Steps, gpu_steps: GpuSteps) -> Resumed:
    """Let the first step of a division begin on each endpoint where its last one ended, or else the job's."""
    last = gpu_steps.take(gpu_steps.step == steps.step[-1])
    start = np.full(len(division.endpoints), int(steps.end_ns[-1]))
    place = np.searchsorted(division.endpoints, last.endpoint)
    place = np.minimum(place, len(division.endpoints) - 1)
    member = division.endpoints[place] == last.endpoint
    start[place[member]] = last.end_ns[member]
    return Resumed(division, int(steps.step[-1]) + 1, start)
