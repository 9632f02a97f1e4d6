"""What steps of a job would have taken without what was found to slow them, and without its stragglers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.diagnose.network.delay import way_of_group
from prism_ch.analysis.replay.causes import Cause, slower, straggling, without, without_stragglers
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.places import cause_of
from prism_ch.analysis.replay.replay import replay
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.params import ReplayParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.topology import Topology
from prism_ch.model.what_if import WhatIf

#: Numbers of the slowest workers that are taken out together, as the paper's table has them.
WORST = (1, 3, 10)

#: What stands for a part of the network that jobs of several tenants share.
SHARED = "shared network"


@dataclass(frozen=True, slots=True)
class ReplayedAttempt:
    """The graph of the steps of a job's attempt, without the traffic that it was made of.

    `first_step` numbers the graph's first step, `first_new` the first that is not published yet. Steps of the attempt's
    division end at `end_ns` int64[k + 1]; `duration_ns` float64[k] is how long those of the graph take in a replay that
    changes nothing. `communicators` are the members of each by its name as a way, none of those that the graph lacks.
    """

    job_id: str
    graph: ExecutionGraph
    first_step: int
    first_new: int
    end_ns: Int64
    duration_ns: Float64
    communicators: Mapping[str, Sequence[int]]
    topology: Topology
    params: ReplayParams

    @classmethod
    def of(cls, attempt: AttemptContext, graph: ExecutionGraph) -> ReplayedAttempt:
        """Take an attempt with its graph, which lacks the first step of its division."""
        one, params = attempt.attempt, attempt.params.replay
        duration_ns = replay(graph, graph.lag, params.sweeps).duration_ns
        end_ns = one.division.job_end_ns()
        job_id, first = attempt.place.job_id, one.first_step + 1
        communicators = {
            way_of_group(each.group_id, job_id): each.members if each.kind == DP else ()
            for each in one.groups.groups
            if each.kind not in (PP, OTHER)
        }
        return cls(job_id, graph, first, one.first_new, end_ns, duration_ns, communicators, attempt.topology, params)

    def new_steps(self) -> Bool:
        """Mask the steps that are not published yet, bool[k]."""
        return np.asarray(self.first_step + np.arange(self.graph.steps) >= self.first_new)

    def during(self, finding: Finding) -> Bool:
        """Mask the steps that end while a finding lasts, bool[k]."""
        ends = self.end_ns[1:]
        return np.asarray((ends > finding.start_ns) & (ends <= finding.end_ns))


def find_what_ifs(
    replayed: ReplayedAttempt, tenant: str, own: Sequence[Finding], shared: Sequence[Finding]
) -> Iterator[WhatIf]:
    """Replay the new steps of an attempt without each incident, and without its stragglers.

    Of several findings of an incident the costliest that names a place is taken out.

    Parameters: findings that belong to an incident, the job's `own` and those on places that it has `shared` with
    others, whose names are none of its tenant's business.
    """
    graph, params = replayed.graph, replayed.params
    new = replayed.new_steps() & graph.known
    if not new.any():
        return
    named = [
        *((one, one.subject if one.cause is None else one.cause.subject) for one in own),
        *((one, SHARED) for one in shared),
    ]
    done: set[str] = set()
    for finding, subject in sorted(named, key=lambda each: -each[0].slowdown):
        if finding.incident_id in done:
            continue
        steps = replayed.during(finding)
        cause = cause_of(graph, finding, replayed.communicators, replayed.topology)
        if cause is not None and (steps & new).any():
            done.add(finding.incident_id)
            lag = without(graph, cause, steps, params)
            yield outcome(replayed, lag, steps & new, (tenant, finding.incident_id, subject))
    excess = straggling(graph, params)
    for count in (None, *WORST):
        name = "stragglers" if count is None else f"worst {count}"
        yield outcome(replayed, without_stragglers(graph, excess, count), new, (tenant, "", name))


def lost_share(replayed: ReplayedAttempt, finding: Finding) -> float | None:
    """Return the share of time that steps take less in a replay without a finding.

    None where the graph does not show it: it names no place of the job, it is slow in the network on ways that are not
    in the graph, or a replay is hardly quicker and yet would take longer, were it slower. Others wait for it then where
    no flow shows that, and seem to compute for as long. Nor does the graph show what ends before that which it is taken
    to wait for, as rounds of several microbatches in one record do.
    """
    graph, params = replayed.graph, replayed.params
    steps = replayed.during(finding) & graph.known
    cause = cause_of(graph, finding, replayed.communicators, replayed.topology)
    if cause is None or not cause.is_whole or not steps.any() or _ends_early(graph, cause, steps):
        return None
    lag = without(graph, cause, steps, params)
    found = outcome(replayed, lag, steps, ("", "", finding.subject))
    share = max(1 - found.without_s / found.replayed_s, 0.0)
    if share >= params.worth_share:
        return share
    return None if cause.times is None or _is_waited_for(replayed, cause, steps) else share


def _ends_early(graph: ExecutionGraph, cause: Cause, steps: Bool) -> bool:
    return bool((robust.median(graph.lag[cause.moves][:, steps], axis=1) < 0).any())


def _is_waited_for(replayed: ReplayedAttempt, cause: Cause, steps: Bool) -> bool:
    """Return whether steps would take longer if a cause were slower by a little."""
    graph, params = replayed.graph, replayed.params
    lag = slower(graph, cause, steps, 1 + params.small_excess)
    longer = outcome(replayed, lag, steps, ("", "", ""))
    return longer.without_s / longer.replayed_s - 1 > params.worth_share * params.small_excess


def outcome(replayed: ReplayedAttempt, lag: Float64, steps: Bool, named: tuple[str, str, str]) -> WhatIf:
    """Compare steps, bool[k], as they were with a replay of them.

    Parameters: `lag` float64[e, k] of the replay; `named`, tenant, incident_id and what is taken out.
    """
    graph, sweeps = replayed.graph, replayed.params.sweeps
    actual_s = np.diff(replayed.end_ns)[steps].sum() / 1e9
    changed_ns = replay(graph, lag, sweeps).duration_ns
    replayed_s, without_s = (duration_ns[steps].sum() / 1e9 for duration_ns in (replayed.duration_ns, changed_ns))
    numbers = replayed.first_step + np.flatnonzero(steps)
    return WhatIf(
        job_id=replayed.job_id,
        tenant=named[0],
        incident_id=named[1],
        without=named[2],
        first_step=int(numbers[0]),
        last_step=int(numbers[-1]),
        actual_s=float(actual_s),
        replayed_s=float(replayed_s),
        without_s=float(without_s),
        saved_gpu_h=float((replayed_s - without_s) * len(graph.endpoints) / 3600),
    )
