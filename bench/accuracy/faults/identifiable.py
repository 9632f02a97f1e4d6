"""Decides who may be to blame for a fault by the records: all that would leave the same ones.

This follows from the jobs' layouts and traffic, which the simulation knows, and not from findings.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.result import CP, DP, EP, OTHER, PP, TP
from prism_ch.simulate.job import COMPUTE_FAULTS, Fault, Job
from prism_ch.simulate.network import Flows, Network, RankGrid
from prism_ch.simulate.records import first_records, pieces_of
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.step import step_plan


def computes_in_one_go(scenario: Scenario) -> bool:
    """Return whether the first job only moves gradients, after a step's compute.

    In such a job, a rank that begins late leaves the same records as one that computes for longer.
    """
    job = scenario.jobs[0]
    at_the_end = job.sync.mode in ("allreduce", "distributed_optimizer") and not job.sync.overlap
    return at_the_end and bool((step_plan(job, Network(scenario.cluster)).kind == DP).all())


def alike(scenario: Scenario, fault: Fault) -> frozenset[str]:
    """Name the culprit of a fault and all that would leave the same records.

    A GPU is named by its endpoint, or by its server if its NIC carries nothing. Of the network, these are endpoints,
    links `a->b`, leaves and, where records tell ways, spines and the links between leaf and spine.
    """
    network = Network(scenario.cluster)
    if fault.kind == "slow_stage":
        return _of_stage(scenario, fault, network)
    if fault.kind in COMPUTE_FAULTS:
        return _gpus_alike(scenario, fault, network)
    return _paths_alike(scenario, fault, network)


def pairs_across(scenario: Scenario, fault: Fault) -> frozenset[str]:
    """Name the pairs `a->b` whose flows cross a fault's switch or link."""
    network = Network(scenario.cluster)
    carried, culprit = _carried(scenario, network), culprit_name(fault, network)
    name = [str(one) for one in network.switches]
    ways = [{name[one] for one in route if one >= 0} for route in carried.route.tolist()]
    links = [{f"{name[a]}->{name[b]}" for a, b in pairwise(route) if b >= 0} for route in carried.route.tolist()]
    ends = zip(carried.src.tolist(), carried.dst.tolist(), ways, links, strict=True)
    address = network.addresses
    return frozenset(f"{address[a]}->{address[b]}" for a, b, way, link in ends if culprit in way | link)


def tells_ways(scenario: Scenario) -> bool:
    """Return whether records show which switches a flow crossed."""
    return scenario.observation.path or scenario.observation.exporters == "every"


def _of_stage(scenario: Scenario, fault: Fault, network: Network) -> frozenset[str]:
    """Name the endpoints of a GPU's stage whose NICs carry something.

    One inside a server, none of whose NICs does, shows in the stages of that server whose NICs do.
    """
    job = next(job for job in scenario.jobs if fault.gpu in job.attempts[0].gpus)
    grid, plan = RankGrid(job.layout, job.attempts[0].gpus, network), step_plan(job, network)
    of_stage = (grid.gpu == fault.gpu).reshape(grid.stages, -1).any(axis=1)
    stage, endpoints = grid.endpoint.reshape(grid.stages, -1)[of_stage], grid.endpoint.ravel()
    carries = [plan.src, plan.dst]
    if not np.isin(stage, carries).any():
        stage = endpoints[np.isin(network.server[endpoints], network.server[stage])]
    return frozenset(network.addresses[stage[np.isin(stage, carries)]].tolist())


def _gpus_alike(scenario: Scenario, fault: Fault, network: Network) -> frozenset[str]:
    """Return the endpoints of the tensor groups whose lateness the same flows show.

    A pipeline's message waits for its sender alone. A collective's flow begins when both of its ranks are ready, if it
    is eager, so all flows of a late rank are late; else it begins when all are. If operations contain an exchange, its
    members finish them together, and only the flows of that exchange show the late one.
    """
    job = next(job for job in scenario.jobs if any(fault.gpu in attempt.gpus for attempt in job.attempts))
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    plan = step_plan(job, network)
    known = plan.kind != OTHER
    src, dst, kind = plan.src[known], plan.dst[known], plan.kind[known].astype(np.int64)
    own, groups = int(np.flatnonzero(grid.gpu == fault.gpu)[0]) // grid.tp, len(grid.gpu) // grid.tp
    if job.experts is not None and job.experts.rail_aligned and (kind == EP).any():
        shown = _shown_by_leads(grid, groups)
    else:
        shown = [_shown_by(group, (src, dst, kind), grid, eager=job.sync.eager) for group in range(groups)]
    same = [group for group, edges in enumerate(shown) if edges == shown[own]]
    if not shown[own] and any(shown):  # nothing shows which rank of its server it is
        same = [group for group in range(len(shown)) if grid.server[group * grid.tp] == grid.server[own * grid.tp]]
    visible = np.unique([src, dst])
    endpoints = np.unique(np.concatenate([grid.endpoint[g * grid.tp : (g + 1) * grid.tp] for g in same]))
    names = frozenset(network.addresses[endpoints[np.isin(endpoints, visible)]].tolist())
    return names or frozenset({str(network.server_names[grid.server[own * grid.tp]])})


def _shown_by(
    group: int, flows: tuple[Int32, Int32, Int64], grid: RankGrid, *, eager: bool
) -> frozenset[tuple[int, int]]:
    """Return the pairs whose flows are late if only one tensor group is."""
    src, dst, kind = flows
    members = grid.endpoint[group * grid.tp : (group + 1) * grid.tp]
    sends, touches = np.isin(src, members), np.isin(src, members) | np.isin(dst, members)
    for rows in (
        ((kind == EP) | (kind == CP) | (kind == TP)) & touches,
        (kind == PP) & sends,
        (kind == DP) & touches & eager,
    ):
        if rows.any():
            return frozenset(zip(src[rows].tolist(), dst[rows].tolist(), strict=True))
    return frozenset()


def _shown_by_leads(grid: RankGrid, groups: int) -> list[frozenset[tuple[int, int]]]:
    """Return for each tensor group the pairs whose flows are late if only it is.

    Rails carry the exchange: what a rank sends to those of one server crosses one pair of NICs. Its flow begins when
    the rank and the first of them are ready.
    """
    carrier_of = {
        (int(server), int(gpu) % grid.server_gpus): rank
        for rank, (server, gpu) in enumerate(zip(grid.server, grid.gpu, strict=True))
    }
    leads: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for members in grid.communicators(EP).tolist():
        for sender in members:
            first: dict[int, int] = {}
            for receiver in members:
                first.setdefault(int(grid.server[receiver]), receiver)
            for server, receiver in first.items():
                if server != grid.server[sender]:
                    carrier = carrier_of.get((server, int(grid.gpu[sender]) % grid.server_gpus), receiver)
                    pair = int(grid.endpoint[sender]), int(grid.endpoint[carrier])
                    leads.setdefault(pair, set()).add((sender // grid.tp, receiver // grid.tp))
    return [
        frozenset(pair for pair, ends in leads.items() if all(group in end for end in ends)) for group in range(groups)
    ]


@dataclass(frozen=True, slots=True)
class _Carried:
    """Flows of steps: ends, the switches on their way, int32[n, 3] (-1: none), and what slows down together."""

    src: Int32
    dst: Int32
    route: Int32
    unit: Int64

    def units(self, rows: Bool) -> frozenset[int]:
        """Return the units that have one of some flows."""
        return frozenset(np.unique(self.unit[rows]).tolist())

    def of_place(self, place: tuple[int, int] | int, *, is_switch: bool) -> Bool:
        """Mark the flows that cross a switch, an endpoint, or a link of two endpoints."""
        if isinstance(place, tuple):
            return np.asarray((self.src == place[0]) & (self.dst == place[1]))
        if is_switch:
            return np.asarray((self.route == place).any(axis=1))
        return np.asarray((self.src == place) | (self.dst == place))


def _paths_alike(scenario: Scenario, fault: Fault, network: Network) -> frozenset[str]:
    """Name the endpoints, links and switches that slow the same units of flows.

    A unit is what slows down together: the messages of a pipeline's pair on one way, or a communicator.
    """
    slowed = _places(_carried(scenario, network), network)
    culprit = culprit_name(fault, network)
    mine = slowed.get(culprit, frozenset())
    same = {name for name, units in slowed.items() if units == mine}
    if not tells_ways(scenario):
        spines = set(network.switches[network.leaves :].tolist())
        same = {name for name in same if spines.isdisjoint(name.split("->"))}
    return frozenset(same | {culprit})


def culprit_name(fault: Fault, network: Network) -> str:
    """Return the name of what a fault of the network is at."""
    first, second = network.ends(fault)
    if fault.kind == "slow_link":
        return f"{network.addresses[first]}->{network.addresses[second]}"
    leaf = str(network.switches[network.leaf[first]])
    if fault.kind in ("slow_spine", "slow_uplink"):
        spine = str(network.switches[network.leaves + fault.spine])
        return spine if fault.kind == "slow_spine" else f"{leaf}->{spine}"
    if fault.kind == "slow_switch":
        return leaf
    return str(network.addresses[first])


def _places(carried: _Carried, network: Network) -> dict[str, frozenset[int]]:
    """Return by name the units of flows that each place slows if it is slow."""
    slowed: dict[str, frozenset[int]] = {}
    for end in np.unique([carried.src, carried.dst]).tolist():
        slowed[str(network.addresses[end])] = carried.units(carried.of_place(end, is_switch=False))
    for a, b in np.unique(np.stack([carried.src, carried.dst], axis=1), axis=0).tolist():
        name = f"{network.addresses[a]}->{network.addresses[b]}"
        slowed[name] = carried.units(carried.of_place((a, b), is_switch=False))
    for switch in np.unique(carried.route[carried.route >= 0]).tolist():
        slowed[str(network.switches[switch])] = carried.units(carried.of_place(switch, is_switch=True))
    far = carried.route[:, 2] >= 0
    for hop in (0, 1):
        for a, b in np.unique(carried.route[far][:, hop : hop + 2], axis=0).tolist():
            rows = far & (carried.route[:, hop] == a) & (carried.route[:, hop + 1] == b)
            slowed[f"{network.switches[a]}->{network.switches[b]}"] = carried.units(rows)
    return slowed


def _carried(scenario: Scenario, network: Network) -> _Carried:
    """Return the flows of a step of every job, each queue pair's on its way."""
    parts: list[_Carried] = []
    first = 0
    for job in scenario.jobs:
        part = _carried_by(job, scenario, network)
        parts.append(replace(part, unit=part.unit + first))
        first += int(part.unit.max(initial=-1)) + 1
    every = np.concatenate([np.column_stack([p.src, p.dst, p.route, p.unit]) for p in parts])
    every = np.unique(every, axis=0)
    src, dst, route = every[:, 0].astype(np.int32), every[:, 1].astype(np.int32), every[:, 2:5].astype(np.int32)
    return _Carried(src, dst, route, every[:, 5])


def _carried_by(job: Job, scenario: Scenario, network: Network) -> _Carried:
    plan = step_plan(job, network)
    plan = plan.take(plan.kind != OTHER)
    rows, part = pieces_of(np.full(len(plan), job.queue_pairs))
    queued = replace(plan.take(rows), queue=(plan.queue[rows] * job.queue_pairs + part).astype(np.int32))
    route = first_records(queued, scenario.observation, network, [scenario.seed, 7]).route
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    return _Carried(queued.src, queued.dst, route, _units(queued, route, grid, len(network.addresses)))


def _units(flows: Flows, route: Int32, grid: RankGrid, endpoints: int) -> Int64:
    """Number the units of flows that slow down together, int64[n].

    A unit is a directed pair of a pipeline on one way, or a communicator.
    """
    src, dst, kind = flows.src.astype(np.int64), flows.dst.astype(np.int64), flows.kind.astype(np.int64)
    keys = np.stack([kind, src * endpoints + dst, route[:, 1].astype(np.int64)])
    for one in np.unique(kind[kind != PP]).tolist():
        member = np.full(endpoints, -1, dtype=np.int64)
        for number, ranks in enumerate(grid.communicators(one)):
            member[grid.endpoint[ranks]] = number
        mine = kind == one
        keys[1:, mine] = np.stack([member[src[mine]], np.zeros(mine.sum(), dtype=np.int64)])
    return np.asarray(np.unique(keys, axis=1, return_inverse=True)[1].reshape(-1), dtype=np.int64)
