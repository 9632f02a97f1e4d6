"""Resume: where a job's steps go on from those that were published before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Int64
from prism_ch.model.division import Division
from prism_ch.model.groupset import PairKinds
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import OTHER, JobState
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
    """Say whether enough steps of a job are known for new ones to be added to them, rather than all found again."""
    return state is not None and len(state.steps) >= params.settle_steps


def context_start_ns(state: JobState, params: ContinueParams) -> int:
    """Return from where on a settled job's traffic is looked at."""
    return int(state.steps.start_ns[-params.context_steps])


def keep_known_kinds(kinds: PairKinds, traffic: Traffic, state: JobState, topology: Topology) -> PairKinds:
    """Give the pairs of a settled job the kind they were found to have; only others keep what is found now.

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


def published_steps(state: JobState, params: ContinueParams) -> Division:
    """Return the newest published steps of a settled job, as many as are looked back over.

    An endpoint that joined after a step ended it with the job.
    """
    steps, mine = state.steps, state.gpu_steps
    numbers, job_end_ns = steps.step[-params.context_steps :], steps.end_ns[-params.context_steps :]
    endpoints, row = np.unique(mine.endpoint, return_inverse=True)
    end_ns = np.tile(job_end_ns, (len(endpoints), 1))
    recent = np.isin(mine.step, numbers)
    end_ns[row[recent], np.searchsorted(numbers, mine.step[recent])] = mine.end_ns[recent]
    return Division(endpoints, end_ns, np.ones(len(numbers), dtype=bool))


def resume(division: Division, state: JobState | None, params: ContinueParams) -> Resumed:
    """Keep the steps of a division that are not yet published.

    Parameters: `division`, of the traffic looked at; `state`, of a settled job, else None.
    """
    if state is None:
        return Resumed(division, 0, None)
    published = int(state.steps.end_ns[-1])
    step_ns = float(np.median(state.steps.end_ns - state.steps.start_ns))
    new = int(np.searchsorted(division.job_end_ns(), published + params.same_boundary_share * step_ns))
    last = state.gpu_steps.take(state.gpu_steps.step == state.steps.step[-1])
    start = np.full(len(division.endpoints), published)
    place = np.searchsorted(division.endpoints, last.endpoint)
    place = np.minimum(place, len(division.endpoints) - 1)
    member = division.endpoints[place] == last.endpoint
    start[place[member]] = last.end_ns[member]
    ends = division.end_ns[:, new:].copy()
    # The first step of a division may be cut by the span looked at; the published steps before it say that it is not.
    fresh = Division(division.endpoints.copy(), ends, np.ones(ends.shape[1], dtype=bool))
    return Resumed(fresh, int(state.steps.step[-1]) + 1, start)
