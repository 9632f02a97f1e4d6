"""Resume: where a job's steps go on from those that were published before.

What is published of a job stays as it is, but for its newest life while that is young: of that all is found again from
its beginning in every window, until enough of its steps are known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.pairs import PairIndex
from prism_ch.model.columns import Int64
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import OTHER, GpuSteps, Steps
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class NewSteps:
    """The steps of a division that are new: the first is number `first_step` and begins at `start_ns` int64[m].

    `start_ns` is None where nothing came before.
    """

    division: Division
    first_step: int
    start_ns: Int64 | None


def what_stays(memory: JobMemory | None, params: ContinueParams) -> JobMemory | None:
    """Return what is known of a job that its newest life does not change: its steps, and the groups of earlier lives.

    While that life is young, its steps are found again: None for a young job of one life.
    """
    if memory is None:
        return None
    attempt = memory.attempt
    stays = replace(memory, groups=memory.groups[: attempt.earlier_groups])
    if memory.is_settled(params):
        return stays
    if attempt.first_step == 0:
        return None
    steps, gpu_steps = memory.steps, memory.gpu_steps
    begin_ns = attempt.begin_ns
    return replace(
        stays,
        steps=steps.take(steps.step < attempt.first_step),
        gpu_steps=gpu_steps.take(gpu_steps.step < attempt.first_step),
        findings=tuple(finding for finding in memory.findings if finding.start_ns < begin_ns),
    )


def keep_known_kinds(kinds: PairKinds, traffic: Traffic, memory: JobMemory) -> PairKinds:
    """Give the pairs of a known job the kind they were found to have; only others keep what is found now.

    A pair that was `other` may have been new. Where then and now agree the bursts keep their own kinds: a pair may
    carry two.
    """
    if len(memory.pairs) == 0:
        return kinds
    row = PairIndex.of(memory.pairs.src, memory.pairs.dst).rows_of(traffic.pair_src, traffic.pair_dst)
    found = (row >= 0) & (memory.pairs.kind[row] != OTHER)
    kind = np.where(found, memory.pairs.kind[row], kinds.kind)
    changed = (kind != kinds.kind)[traffic.pair]
    return PairKinds(
        kind,
        np.where(found, memory.pairs.confidence[row], kinds.confidence),
        np.where(changed, kind[traffic.pair], kinds.burst),
    )


def known_steps(memory: JobMemory | None, params: ContinueParams) -> Division | None:
    """Return published steps that say what a step of a job's newest life is; None where they are too few.

    Of a settled job those are the newest, as many as are looked back over; of a young one that became slow, those that
    were known by then; else all. An endpoint that joined after a step ended it with the job.
    """
    if memory is None:
        return None
    if memory.is_settled(params):
        first, until = memory.job.steps - params.recent_steps, memory.job.steps
    else:
        attempt = memory.attempt
        first = attempt.first_step
        until = first + attempt.even_until if attempt.even_until else memory.job.steps
    steps = memory.steps.take((memory.steps.step >= first) & (memory.steps.step < until))
    if len(steps) < min(params.recent_steps, params.recent_steps):
        return None
    mine = memory.gpu_steps
    endpoints, row = np.unique(mine.endpoint, return_inverse=True)
    end_ns = np.tile(steps.end_ns, (len(endpoints), 1))
    recent = np.isin(mine.step, steps.step)
    end_ns[row[recent], np.searchsorted(steps.step, mine.step[recent])] = mine.end_ns[recent]
    return Division(endpoints, end_ns, np.ones(len(steps), dtype=bool))


def confirms(division: Division, known: Division, params: ContinueParams) -> bool:
    """Say whether a division holds steps known before, but for a few, and no more than those in their time."""
    ends_ns, known_ns = division.job_end_ns(), known.job_end_ns()
    near_ns = params.same_boundary * float(np.median(np.diff(known_ns)))
    place = np.searchsorted(ends_ns, known_ns - near_ns)
    found = np.append(ends_ns, np.iinfo(np.int64).max)[place] <= known_ns + near_ns
    within = np.count_nonzero((ends_ns > known_ns[0] - near_ns) & (ends_ns < known_ns[-1] + near_ns))
    few = (1 - params.nearly_all) * len(known_ns)
    return bool(np.count_nonzero(~found) <= few and within <= len(known_ns) + few)


def is_slow(division: Division, known: Division, params: ContinueParams) -> bool:
    """Say whether some of the newest steps of a division take longer than most of those known before."""
    usual_ns = float(np.quantile(np.diff(known.job_end_ns()), 0.25))
    newest_ns = np.diff(division.job_end_ns())[-2 * params.slow_steps :]
    return bool(np.count_nonzero(newest_ns > (1 + params.notable) * usual_ns) >= params.slow_steps)


def go_on(division: Division, memory: JobMemory, params: ContinueParams) -> NewSteps:
    """Keep the steps of a settled job's division that are not yet published."""
    published = int(memory.steps.end_ns[-1])
    step_ns = float(np.median(memory.steps.end_ns - memory.steps.start_ns))
    new = int(np.searchsorted(division.job_end_ns(), published + params.same_boundary * step_ns))
    ends = division.end_ns[:, new:].copy()
    # The first step of a division may be cut by the span looked at; the published steps before it say that it is not.
    fresh = Division(division.endpoints.copy(), ends, np.ones(ends.shape[1], dtype=bool))
    return _after(fresh, memory.steps, memory.gpu_steps)


def begin_anew(division: Division, steps: Steps, gpu_steps: GpuSteps) -> NewSteps:
    """Add the steps of another life to those of earlier ones, if there are any.

    The time from the last step that was finished to the end of the first new one is not what a step takes.
    """
    if len(steps) == 0:
        return NewSteps(division, 0, None)
    whole = division.whole.copy()
    whole[:1] = False
    fresh = Division(division.endpoints.copy(), division.end_ns.copy(), whole, division.regular)
    return _after(fresh, steps, gpu_steps)


def _after(division: Division, steps: Steps, gpu_steps: GpuSteps) -> NewSteps:
    """Let the first step of a division begin on each endpoint where its last one ended, or else the job's."""
    last = gpu_steps.take(gpu_steps.step == steps.step[-1])
    start = np.full(len(division.endpoints), int(steps.end_ns[-1]))
    place = np.searchsorted(division.endpoints, last.endpoint)
    place = np.minimum(place, len(division.endpoints) - 1)
    member = division.endpoints[place] == last.endpoint
    start[place[member]] = last.end_ns[member]
    return NewSteps(division, int(steps.step[-1]) + 1, start)
