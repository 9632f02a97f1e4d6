"""Compute time: how long each rank computes in each step, less what it waits for others, as its messages show.

In synchronous training everybody slows together, and the one that makes the others wait is the one that does not wait.

- In a pipeline a rank computes from when its input is there, and it is free, until it sends its output.
- In a collective a rank is late by how long after its peers it first takes part: nobody sends to or is sent to by a
  rank that still computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from prism_ch.analysis.diagnose.compute.between_messages import between_messages
from prism_ch.analysis.diagnose.compute.lateness import joined_by, measure_lateness
from prism_ch.core import intervals, robust
from prism_ch.core.arrays import order_by, run_places, run_starts
from prism_ch.core.significance import better_of_rows
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import DP, EP, INNER, PP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True)
class ComputeTime:
    """Seconds that each rank computes in each step, `seconds` float64[m, k], else NaN.

    `endpoints` int32[m] and their `role` int32[m], the pipeline stage: ranks of a role compute the same.
    `mates` int32[m] joins ranks that wait for one another inside a step's operations: those of one tensor, expert or
    context group, or two that exchange with nobody else; `chain` int32[m], those of one pipeline. `absolute`: the
    seconds are those of the rank itself, whatever its peers do; else only the differences between peers mean something.
    `turn_s` float64[m, k], if not None, is the compute time of ranks whose n-th output is made of their n-th input:
    that of different stages compares too, and is NaN of a first stage.
    `needs` are the inputs that outputs were found to wait for: by "stage>to<from", of each output in order the number
    of the last input that it needs, -1 for none. `hidden` bool[m], if not None, are ranks that compute something that
    no message follows, which may pass for waiting: their level means less than its changes.
    """

    endpoints: Int32
    role: Int32
    seconds: Float64
    mates: Int32
    chain: Int32
    absolute: bool
    turn_s: Float64 | None = None
    needs: Mapping[str, Sequence[int]] = field(default_factory=dict)
    hidden: Bool | None = None

    def usual_s(self, params: ComputeTimeParams) -> Float64:
        """Return what each rank computes in its better steps, float64[m], in seconds.

        Steps that only some ranks show count for all: else the better steps of those that lost records are others.
        """
        seconds = self._with_lost if self.absolute else self.seconds
        return better_of_rows(seconds, params.reference_steps, params.compute_jitter, params.min_score)

    @cached_property
    def stages_of_chains(self) -> tuple[tuple[Int64, Int64], ...]:
        """The rows of each stage of pipelines, and of their other stages.

        They are int64[c, a] and int64[c, b] for each form of pipelines, of which there are c.
        """
        chains = defaultdict[tuple[int, ...], list[Int64]](list)
        for rows in (np.flatnonzero(self.chain == chain) for chain in np.unique(self.chain)):
            chains[tuple(self.role[rows].tolist())].append(rows)
        forms = [(np.stack(each), np.array(roles)) for roles, each in chains.items()]
        return tuple(
            (rows[:, roles == stage], rows[:, roles != stage])
            for rows, roles in forms
            for stage in dict.fromkeys(roles.tolist())
        )

    @cached_property
    def _with_lost(self) -> Float64:
        """The seconds, float64[m, k], with lost ones as others of the role show them.

        A rank computes as many times longer than the median of its role as it does in the steps that it shows.
        """
        if not np.isnan(self.seconds).any():
            return self.seconds
        filled = self.seconds.copy()
        for stage in np.unique(self.role).tolist():
            rows = np.flatnonzero(self.role == stage)
            usual = robust.median(filled[rows], axis=0)[None]
            times = robust.median(filled[rows] / np.where(usual > 0, usual, np.nan), axis=1)[:, None]
            filled[rows] = np.where(np.isnan(filled[rows]), usual * times, filled[rows])
        return filled


def measure_compute_time(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    topology: Topology,
    params: ComputeTimeParams,
    needs: Mapping[str, Sequence[int]] = MappingProxyType({}),
) -> tuple[ComputeTime, ...]:
    """Measure the compute time of ranks in each possible way, best first.

    Parameters: `needs`, what was found before, see ComputeTime.
    Members of a collective inside a step's operations wait for one another there, and their messages are late together:
    lateness in that collective tells them apart, and compute time between messages only their group from others.
    """
    if division.steps == 0:
        return ()
    role, server = groups.stage_of(division.endpoints), topology.server[division.endpoints]
    of_server = (server * (role.max() + 1) + role).astype(np.int32)
    pipelined = bool((kinds.burst == PP).any())
    waiting = _exchanging(traffic, kinds, params)
    if not pipelined:
        waiting |= _of_two(traffic, division)
    mates, chain = (
        joined_by(traffic.pair_src[pairs], traffic.pair_dst[pairs], division) for pairs in (waiting, kinds.kind == PP)
    )
    measured = [
        ComputeTime(division.endpoints, role, late_s, mates, chain, absolute=False)
        for kind in (*INNER, DP)
        if (kinds.burst == kind).any() and not (kind == DP and pipelined)
        for seen in [kinds.of_kind(traffic, kind)]
        for late_s in [measure_lateness(seen, division, of_server, params, all_with_all=kind == EP)]
    ]
    if pipelined:
        pipeline, found = kinds.of_kind(traffic, PP), dict(needs)
        seconds, turn_s = between_messages(pipeline, division, role, of_server, found, params)
        seconds = _without_exchanges(seconds, traffic.take(np.isin(kinds.burst, INNER)), division, params)
        hidden = _ends_of_ring(pipeline, division, role)
        shown = (division.endpoints, role, seconds, mates, chain)
        measured.append(ComputeTime(*shown, absolute=True, turn_s=turn_s, needs=found, hidden=hidden))
    return tuple(measured)


def _exchanging(traffic: Traffic, kinds: PairKinds, params: ComputeTimeParams) -> Bool:
    """Mask the pairs that exchange data inside a step's operations, bool[pairs].

    They may carry gradients as well, which are more bytes in fewer bursts.
    """
    bursts, inner = (
        np.bincount(traffic.pair, weights, minlength=len(kinds.kind)) for weights in (None, np.isin(kinds.burst, INNER))
    )
    return np.asarray(inner > params.half * bursts)


def _of_two(traffic: Traffic, division: Division) -> Bool:
    """Mask the pairs of ranks that exchange with nobody else, bool[pairs]."""
    label = joined_by(traffic.pair_src, traffic.pair_dst, division)
    return np.asarray(np.bincount(label)[label[division.rows_of(traffic.pair_src)]] == 2)


def _ends_of_ring(pipeline: Traffic, division: Division, role: Int32) -> Bool:
    """Mask the ranks at both ends of a pipeline that wraps round, bool[m].

    Of its chunks of the model, the last does a forward and the first a backward without a message after it.
    """
    stage = [role[division.rows_of(side)] for side in (pipeline.pair_src, pipeline.pair_dst)]
    wraps = bool((np.abs(stage[0] - stage[1]) > 1).any())
    return np.asarray(wraps & ((role == 0) | (role == role.max())))


def _without_exchanges(seconds: Float64, inner: Traffic, division: Division, params: ComputeTimeParams) -> Float64:
    """Take away the time in which each rank exchanges data inside its operations, float64[m, k].

    A slow network lengthens that, and is no slow GPU. Exchanges that are longer than half of the compute time must go
    on in parallel to it, and are not taken away.
    """
    if len(inner) == 0:
        return seconds
    row = np.concatenate([division.rows_of(side) for side in (inner.src, inner.dst)])
    start, end = np.tile(inner.start_ns, 2), np.tile(inner.end_ns, 2)
    step = division.step_of(row, end - 1)
    inside = step < division.steps
    cell = (row * division.steps + step)[inside].astype(np.int32)
    busy_s = intervals.union_length(cell, start[inside], end[inside], seconds.size).reshape(seconds.shape) / 1e9
    in_parallel = robust.median(busy_s / np.where(seconds > 0, seconds, np.nan))
    return seconds - busy_s if in_parallel <= params.half else seconds


def passes_on_unseen(
    traffic: Traffic, kinds: PairKinds, division: Division, groups: GroupSet, topology: Topology
) -> bool:
    """Whether a pipeline passes on from link to link inside servers.

    Its links never meet then, and a server holds ranks of several stages, of different links. Replicas of one another
    may be laid out like that, but exchange gradients between the servers.
    """
    if (kinds.kind == DP).any():
        return False
    pairs = kinds.kind == PP
    chain = joined_by(traffic.pair_src[pairs], traffic.pair_dst[pairs], division)
    role, server = groups.stage_of(division.endpoints), topology.server[division.endpoints]
    return any(
        len(np.unique(role[server == one])) > 1 and len(np.unique(chain[server == one])) > 1
        for one in np.unique(server).tolist()
    )


def measure_servers(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    groups: GroupSet,
    topology: Topology,
    params: ComputeTimeParams,
    needs: Mapping[str, Sequence[int]],
) -> tuple[ComputeTime, ...]:
    """Measure each rank of an unseen pipeline by the compute time of its server.

    The n-th ranks of all stages of a server are taken for one rank, of a stage of its own: what one of them gets
    another sends on. Parameters and result: see `measure_compute_time`.
    """
    endpoints, role = division.endpoints, groups.stage_of(division.endpoints)
    server = np.unique(topology.server[endpoints], return_inverse=True)[1].astype(np.int32)
    order = order_by(server, role)
    starts = run_starts(server[order], role[order])
    lane = np.empty(len(order), dtype=np.int32)  # the place of each endpoint among those of its role in its server
    lane[order] = run_places(starts, len(order))
    _, first, rank = np.unique(server * np.int64(len(lane)) + lane, return_index=True, return_inverse=True)
    ranks = np.sort(first)
    row = np.searchsorted(ranks, first[rank])  # of each endpoint, the rank that it is taken for
    seen = kinds.of_kind(traffic, PP)
    src, dst = (endpoints[ranks[row[division.rows_of(end)]]].astype(np.int32) for end in (seen.pair_src, seen.pair_dst))
    end_ns = np.zeros((len(ranks), division.steps), dtype=np.int64)
    np.maximum.at(end_ns, row, division.end_ns)
    whole = replace(division, endpoints=endpoints[ranks], end_ns=end_ns)
    found = dict(needs)
    passed_on, alone = replace(seen, pair_src=src, pair_dst=dst), np.arange(len(ranks), dtype=np.int32)
    seconds, _ = between_messages(passed_on, whole, server[ranks], alone, found, params)
    return (ComputeTime(endpoints, server, seconds[row], row.astype(np.int32), lane, absolute=True, needs=found),)
