"""Places in an execution graph: which computing, messages and rounds are a finding's, or a named place's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from prism_ch.analysis.diagnose.network.places import is_between_leaves
from prism_ch.analysis.replay.causes import Cause, find_cause
from prism_ch.analysis.replay.draft import MESSAGE, ROUND
from prism_ch.analysis.replay.graph import ExecutionGraph
from prism_ch.model.columns import Float64
from prism_ch.model.finding import NETWORK_KINDS, Finding
from prism_ch.model.topology import Topology

#: Kinds of finding that name what computes.
_COMPUTE = ("slow_gpu",)


def cause_of(
    graph: ExecutionGraph, finding: Finding, communicators: Mapping[str, Sequence[int]], topology: Topology
) -> Cause | None:
    """Find what a finding touches. Returns None where it names no place, or none of this job.

    What is slow in the network touches the ways that were seen to be slow, too. Parameters: `communicators` of the job,
    by their names as ways, with the members that the graph has.
    """
    if finding.cause is not None and finding.cause.kind in _COMPUTE:
        named = (finding.cause.subject, *finding.cause.may_also_be)
        return cause_at(graph, named, topology, computes=True, moves=False)
    computes = finding.kind in _COMPUTE or finding.subject_type == "stage"
    if not computes and finding.kind not in NETWORK_KINDS:
        return None
    about = [one for one in finding.about if one not in finding.baseline.s_per_byte]
    group = finding.subject_type == "group"  # its number names no place
    names = (*(() if group else (finding.subject,)), *(about if computes or group else ()))
    sides = {side for name in names for side in name.split("->")}
    above = not (computes or group) and sides.isdisjoint(topology.index) and sides.isdisjoint(topology.leaf_names)
    cause = cause_at(graph, names, topology, computes=computes, moves=not computes, between_switches=above)
    if computes:
        return cause
    times, is_whole = _times_as_long(graph, finding, communicators, topology)
    # What goes on inside operations crosses switches as well, and is slow there whether or not that was seen.
    at_switch = finding.kind == "slow_switch" or is_between_leaves((finding.kind, finding.subject), topology)
    is_whole &= not at_switch or all(communicators.values())
    slower = times > 1
    if cause is None and not slower.any():
        return None
    moves = slower if cause is None else cause.moves | slower
    return Cause(np.empty(0, dtype=np.int64), moves, times if slower.any() else None, is_whole)


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


def _times_as_long(
    graph: ExecutionGraph, finding: Finding, communicators: Mapping[str, Sequence[int]], topology: Topology
) -> tuple[Float64, bool]:
    """Return how many times as long each edge takes by what a finding saw.

    It is float64[e], 1 where it saw nothing. Returns also whether all ways of the job that it saw are in the graph.
    """
    times, is_whole = np.ones(len(graph.kind)), True
    for way in finding.baseline.s_per_byte:
        here, arrow, there = way.partition("->")
        if arrow:
            ends = [topology.index.get(side, -1) for side in (here, there)]
            is_own = bool(np.isin(ends, graph.endpoints).all())
            kind, owns = MESSAGE, (graph.endpoints[graph.pairs] == np.array([ends]).T).all(axis=0)
        else:
            is_own = way in communicators
            inside = np.isin(graph.endpoints, communicators.get(way, ()))
            kind, owns = ROUND, np.array([bool(inside[rows].any()) for rows in graph.parts], dtype=np.bool_)
        edges = np.flatnonzero(graph.kind == kind)
        mine = edges[owns[graph.owner[edges]]] if is_own else edges[:0]
        times[mine] = finding.observed
        is_whole &= len(mine) > 0 or not is_own
    return times, is_whole
