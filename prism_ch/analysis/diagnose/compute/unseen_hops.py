"""Unseen: the work of servers in which stages pass on to one another, where no message shows what a rank waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime, between_messages, joined_by
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.model.columns import Int32
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.result import DP, PP
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


def passes_on_unseen(
    traffic: Traffic, kinds: PairKinds, division: Division, groups: GroupSet, topology: Topology
) -> bool:
    """Say whether a pipeline passes on from link to link inside servers.

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
    """Measure the work of the servers of a pipeline that passes on unseen, each of their ranks by that of its server.

    The n-th ranks of all stages of a server are taken for one rank, of a stage of its own: what one of them gets
    another sends on. Parameters and result as of `measure_work`.
    """
    endpoints, role = division.endpoints, groups.stage_of(division.endpoints)
    server = np.unique(topology.server[endpoints], return_inverse=True)[1].astype(np.int32)
    lane = _lane(server, role)
    _, first, rank = np.unique(server * np.int64(len(lane)) + lane, return_index=True, return_inverse=True)
    ranks = np.sort(first)
    row = np.searchsorted(ranks, first[rank])  # of each endpoint, the rank that it is taken for
    seen = kinds.of_kind(traffic, PP)
    src, dst = (
        endpoints[ranks[row[np.searchsorted(endpoints, end)]]].astype(np.int32)
        for end in (seen.pair_src, seen.pair_dst)
    )
    end_ns = np.zeros((len(ranks), division.steps), dtype=np.int64)
    np.maximum.at(end_ns, row, division.end_ns)
    whole = replace(division, endpoints=endpoints[ranks], end_ns=end_ns)
    found = dict(needs)
    seconds, _ = between_messages(replace(seen, pair_src=src, pair_dst=dst), whole, server[ranks], found, params)
    return (ComputeTime(endpoints, server, seconds[row], row.astype(np.int32), lane, absolute=True, needs=found),)


def _lane(server: Int32, role: Int32) -> Int32:
    """Return the place of each endpoint among those of its role in its server, int32[m]."""
    order = order_by(server, role)
    starts = run_starts(server[order], role[order])
    sizes = np.diff(np.append(starts, len(order)))
    lane = np.empty(len(order), dtype=np.int32)
    lane[order] = np.arange(len(order)) - np.repeat(starts, sizes)
    return lane
