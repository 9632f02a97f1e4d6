"""Decides whether records can identify a culprit: no, if another one would leave the same records.

This follows from the job's layout and traffic, which the simulation knows, and not from findings.
"""

from __future__ import annotations

import numpy as np

from prism_ch.model.columns import Int32, Int64
from prism_ch.model.result import CP, DP, EP, OTHER, PP, TP
from prism_ch.simulate.job import COMPUTE_FAULTS, Fault
from prism_ch.simulate.network import Network, RankGrid
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.step import step_plan


def computes_in_one_go(scenario: Scenario) -> bool:
    """Return whether the first job only moves gradients, after a step's compute.

    In such a job, a rank that begins late leaves the same records as one that computes for longer.
    """
    job = scenario.jobs[0]
    at_the_end = job.sync.mode in ("allreduce", "distributed_optimizer") and not job.sync.overlap
    return at_the_end and bool((step_plan(job, Network(scenario.cluster)).kind == DP).all())


def is_identifiable(scenario: Scenario, fault: Fault) -> bool:
    """Return whether the records of the first job identify the culprit of a fault."""
    network, job = Network(scenario.cluster), scenario.jobs[0]
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    plan = step_plan(job, network)
    known = plan.kind != OTHER
    src, dst, kind = plan.src[known], plan.dst[known], plan.kind[known].astype(np.int64)
    if fault.kind in COMPUTE_FAULTS:
        eager = (kind != DP) | job.sync.eager
        return _gpu_is_identifiable(fault, grid, network, (src[eager], dst[eager], kind[eager]))
    return _path_is_identifiable(fault, network, (src, dst, _units(src, dst, kind, grid)))


def _gpu_is_identifiable(fault: Fault, grid: RankGrid, network: Network, flows: tuple[Int32, Int32, Int64]) -> bool:
    """Return whether flows identify a GPU's server.

    A pipeline's message waits for its sender alone, which identifies it. A collective's flow begins when both of its
    ranks are ready, so all flows of a late rank are late. A tensor group is late as one: it is identified if no group
    on another server has the same flows. If operations contain an exchange, its members finish them together, and only
    the flows of that exchange identify the late one.
    """
    src, dst, kind = flows
    endpoint, _ = network.ends(fault)
    home = network.server[endpoint]
    at_home = (network.server[src] == home) | (network.server[dst] == home)
    inside = np.isin(kind, (EP, CP, TP))
    if (inside & at_home).any():
        src, dst = src[inside], dst[inside]
    elif ((kind == PP) & at_home).any():
        return True
    edges = np.unique(np.stack([src, dst], axis=1), axis=0)
    late = {
        group: _touching(edges, grid.endpoint[group * grid.tp : (group + 1) * grid.tp])
        for group in _tensor_groups(grid)
    }
    own = next(group for group in late if endpoint in grid.endpoint[group * grid.tp : (group + 1) * grid.tp])
    others = (edge for group, edge in late.items() if grid.server[group * grid.tp] != home)
    return bool(late[own]) and all(edge != late[own] for edge in others)


def _tensor_groups(grid: RankGrid) -> range:
    return range(len(grid.endpoint) // grid.tp)


def _touching(edges: Int32, members: Int32) -> frozenset[int]:
    """Return the rows of the edges, int32[n, 2], that touch one of some endpoints."""
    return frozenset(np.flatnonzero(np.isin(edges, members).any(axis=1)).tolist())


def _units(src: Int32, dst: Int32, kind: Int64, grid: RankGrid) -> Int64:
    """Number the units of flows that slow down together, int64[n].

    A unit is a directed pair of a pipeline, or a communicator.
    """
    units = np.full(len(src), -1, dtype=np.int64)
    pairs = kind == PP
    size = int(grid.endpoint.max()) + 1
    units[pairs] = src[pairs].astype(np.int64) * size + dst[pairs]
    for one in np.unique(kind[~pairs]).tolist():
        member = np.full(size, -1, dtype=np.int64)
        for number, ranks in enumerate(grid.communicators(one)):
            member[grid.endpoint[ranks]] = number
        mine = kind == one
        units[mine] = size**2 * (one + 1) + member[src[mine]]
    return units


def _path_is_identifiable(fault: Fault, network: Network, flows: tuple[Int32, Int32, Int64]) -> bool:
    """Return whether no other NIC, link or switch slows the same units of flows.

    A link may also be named by the NICs at its ends.
    """
    src, dst, unit = flows
    first, second = network.ends(fault)
    leaf = int(network.leaf[first])
    slowed: dict[tuple[str, int, int], frozenset[int]] = {}
    for end in np.unique([src, dst]).tolist():
        slowed["slow_nic", end, 0] = frozenset(unit[(src == end) | (dst == end)].tolist())
    for a, b in np.unique(np.stack([src, dst], axis=1), axis=0).tolist():
        slowed["slow_link", a, b] = frozenset(unit[(src == a) & (dst == b)].tolist())
    for switch in np.unique(network.leaf[np.concatenate([src, dst])]).tolist():
        through = (network.leaf[src] == switch) | (network.leaf[dst] == switch)
        slowed["slow_switch", switch, 0] = frozenset(unit[through].tolist())
    culprit = {
        "slow_nic": ("slow_nic", first, 0),
        "slow_link": ("slow_link", first, second),
        "slow_switch": ("slow_switch", leaf, 0),
    }[fault.kind]
    same_name = {culprit} | ({("slow_nic", first, 0), ("slow_nic", second, 0)} if fault.kind == "slow_link" else set())
    return all(units != slowed[culprit] for other, units in slowed.items() if other not in same_name)
