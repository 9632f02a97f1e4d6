"""What steps of a job would have taken without what was found to slow them, and without its stragglers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.context import AttemptContext
from prism_ch.analysis.replay.causes import Cause, find_cause, stragglers, without
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.analysis.replay.replay import replay
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.params import ReplayParams
from prism_ch.model.topology import Topology
from prism_ch.model.what_if import WhatIf

#: Numbers of the slowest workers that are taken out together, as the paper's table has them.
WORST = (1, 3, 10)

#: What stands for a part of the network that jobs of several tenants share.
SHARED = "shared network"

#: Kinds of finding that name what computes, and what moves data.
_COMPUTE, _NETWORK = ("slow_gpu",), ("slow_nic", "slow_link", "slow_switch", "congestion", "slow_group")


@dataclass(frozen=True, slots=True)
class ReplayedAttempt:
    """The graph of the steps of a job's attempt, without the traffic that it was made of.

    `first_step` numbers the graph's first step, `first_new` the first that is not published yet. Steps of the attempt's
    division end at `end_ns` int64[k + 1]; `duration_ns` float64[k] is how long those of the graph take in a replay that
    changes nothing.
    """

    job_id: str
    graph: ExecutionGraph
    first_step: int
    first_new: int
    end_ns: Int64
    duration_ns: Float64
    topology: Topology
    params: ReplayParams

    @classmethod
    def of(cls, attempt: AttemptContext, graph: ExecutionGraph) -> ReplayedAttempt:
        """Take an attempt with its graph, which lacks the first step of its division."""
        one, params = attempt.attempt, attempt.params.replay
        duration_ns = replay(graph, graph.lag, params.sweeps).duration_ns
        end_ns = one.division.job_end_ns()
        job_id, first = attempt.place.job_id, one.first_step + 1
        return cls(job_id, graph, first, one.first_new, end_ns, duration_ns, attempt.topology, params)

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
        cause = cause_of(graph, finding, replayed.topology)
        if cause is not None and (steps & new).any():
            done.add(finding.incident_id)
            lag = without(graph, cause, steps, params)
            yield outcome(replayed, lag, steps & new, (tenant, finding.incident_id, subject))
    for count in (None, *WORST):
        name = "stragglers" if count is None else f"worst {count}"
        yield outcome(replayed, stragglers(graph, params, count), new, (tenant, "", name))


def lost_share(replayed: ReplayedAttempt, finding: Finding) -> float | None:
    """Return the share of its steps' time that a finding costs.

    None where it names no place of the job, or where a replay without it is no quicker: then the graph does not show
    it. Of what moves data for longer it is the least: a replay shortens only what others show to take less.
    """
    graph, params = replayed.graph, replayed.params
    steps = replayed.during(finding) & graph.known
    cause = cause_of(graph, finding, replayed.topology)
    if cause is None or not steps.any():
        return None
    lag = without(graph, cause, steps, params)
    found = outcome(replayed, lag, steps, ("", "", finding.subject))
    return 1 - found.without_s / found.replayed_s if found.without_s < found.replayed_s else None


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


def cause_of(graph: ExecutionGraph, finding: Finding, topology: Topology) -> Cause | None:
    """Find what a finding touches. Returns None where it names no place, or none of this job."""
    if finding.cause is not None and finding.cause.kind in _COMPUTE:
        named = (finding.cause.subject, *finding.cause.may_also_be)
        return cause_at(graph, named, topology, computes=True, moves=False)
    computes = finding.kind in _COMPUTE or finding.subject_type == "stage"
    if not computes and finding.kind not in _NETWORK:
        return None
    names = (finding.subject, *(finding.about if computes or finding.kind == "slow_group" else ()))
    sides = {side for name in names for side in name.split("->")}
    above = not computes and sides.isdisjoint(topology.index) and sides.isdisjoint(topology.leaf_names)
    return cause_at(graph, names, topology, computes=computes, moves=not computes, between_switches=above)


def cause_at(
    graph: ExecutionGraph,
    names: Sequence[str],
    topology: Topology,
    *,
    computes: bool,
    moves: bool,
    between_switches: bool = False,
) -> Cause | None:
    """Find what places touch: endpoints, servers, leaves, or links `a->b`. Returns None for places elsewhere.

    An uplink, or whatever else is `between_switches`, may carry any of the job's flows.
    """
    rows = np.zeros(len(graph.endpoints), dtype=np.bool_)
    links, above = np.zeros(graph.pairs.shape[1], dtype=np.bool_), False
    for name in names:
        here, arrow, there = name.partition("->")
        if name in topology.index:
            rows |= graph.endpoints == topology.index[name]
        elif name in topology.server_names:
            rows |= topology.server[graph.endpoints] == topology.server_names.index(name)
        elif name in topology.leaf_names:
            rows |= topology.leaf[graph.endpoints] == topology.leaf_names.index(name)
        elif here in topology.index and there in topology.index:
            ends = [graph.endpoints == topology.index[side] for side in (here, there)]
            rows |= ends[0] | ends[1]
            links |= ends[0][graph.pairs[0]] & ends[1][graph.pairs[1]]
        else:
            above |= bool(arrow) and not {here, there}.isdisjoint(topology.leaf_names)
    if above or (names and between_switches):
        rows[:] = True
    if not rows.any():
        return None
    nobody = np.zeros_like(rows)
    touched = rows if moves else nobody
    return find_cause(graph, np.flatnonzero(rows).tolist() if computes else [], touched, links if links.any() else None)
