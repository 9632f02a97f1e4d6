"""Slow GPUs: ranks that compute longer than others of their role, or than before, and make everybody wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.compute.comparison import Comparison, of_their_own
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import Episode, episodes, lost_share
from prism_ch.analysis.diagnose.findings import (
    EVIDENCE_ROWS,
    Measured,
    Place,
    confidence_in,
    identity,
    make_finding,
    severity,
)
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows of ranks that are slow together, seconds lost a step, share of time lost."""

    rows: Int64
    episode: Episode
    extra_s: float
    lost_share: float

    def cells(self, values: Float64) -> Float64:
        """Return the cells of [m, k] values in which its ranks are slow, [rows, steps]."""
        return values[self.rows][:, list(self.episode.abnormal)]


def find_slow_gpus(
    comparisons: Iterable[Comparison], division: Division, place: Place, topology: Topology
) -> tuple[Finding, ...]:
    """Find the ranks of an attempt that compute longer than others, or than before.

    1. Compare the ranks in each way, until one of them finds somebody.
    2. Join the ranks of one server that are slow together: a tensor group works as one, and its members wait for one
       another inside the server, where no record shows which.
    3. Leave out what loses much less time than another at the same time, which it waits for or hides behind.
    4. Leave out what is slow at one time with another: GPUs seldom fail together, and may share the cause.
    Where as many ranks differ from their peers as do not, or most from what they did before, nothing is found.
    """
    params = place.params.compute
    for compared in comparisons:
        slow = list(_units(compared, division, topology, params))
        costly = [
            unit
            for unit in slow
            if all(unit.extra_s >= params.half * one.extra_s for one in slow if unit.episode.meets(one.episode))
        ]
        alone = [unit for unit in costly if sum(unit.episode.meets(one.episode) for one in costly) == 1]
        if alone:
            return tuple(_describe(compared, unit, division, place, topology) for unit in alone)
    return ()


def _units(compared: Comparison, division: Division, topology: Topology, params: ComputeTimeParams) -> Iterator[_Unit]:
    """List the slow ranks, those of one server together."""
    seconds = compared.times.seconds
    for row in np.flatnonzero((compared.score > 0).any(axis=1)).tolist():
        for episode in episodes((compared.score[row] > 0).tolist(), params.repeats):
            steps = list(episode.abnormal)
            excess = np.nan_to_num(robust.median(compared.excess[:, steps], axis=1))
            excess = of_their_own(excess, compared.times.role, params)
            alike = (compared.among == compared.among[row]) & (excess >= params.half * excess[row])
            together = ranks_together(compared.times, row, alike, topology)
            may_be_slow = compared.least[row] <= np.count_nonzero(alike) <= compared.most[row]
            if len(steps) < params.slow_steps or together[0] != row or not may_be_slow or excess[row] <= 0:
                continue
            extra_s = robust.median(seconds[:, steps] - compared.usual[:, steps], axis=1)
            if _are_stage(together, compared.times, topology) or _is_shared(
                extra_s, together, compared.times, topology, params
            ):
                continue
            outside = np.append(seconds[row, : episode.first], seconds[row, episode.last + 1 :])
            if not compared.by_others[row] and np.count_nonzero(~np.isnan(outside)) < params.repeats:
                continue
            lost = lost_share(division, episode, float(extra_s[row]), params.reference_steps)
            if lost >= params.worth_share:
                yield _Unit(together, episode, float(extra_s[row]), lost)


def _are_stage(rows: Int64, times: ComputeTime, topology: Topology) -> bool:
    """Return whether some ranks are a whole pipeline stage on several servers. Then the stage is slow."""
    stage = np.flatnonzero(times.role == times.role[rows[0]])
    apart = len(np.unique(topology.server[times.endpoints[rows]])) > 1
    return apart and len(rows) == len(stage) < len(times.role)


def _is_shared(
    extra_s: Float64, rows: Int64, times: ComputeTime, topology: Topology, params: ComputeTimeParams
) -> bool:
    """Return whether the role of some ranks loses half as much on other servers.

    Parameters: `extra_s` float64[m], seconds that each rank loses a step.
    Then its stage is slow, or there is more to compute: of another amount of work stages need not take the same part.
    """
    role, server = times.role, topology.server[times.endpoints]
    elsewhere = (role == role[rows[0]]) & ~np.isin(server, server[rows])
    return bool(robust.median(extra_s[elsewhere]) > params.half * extra_s[rows[0]])


def ranks_together(times: ComputeTime, row: int, alike: Bool, topology: Topology) -> Int64:
    """List the alike ranks that share a server with one, or wait for it."""
    server = topology.server[times.endpoints]
    rows = np.flatnonzero(alike & (times.role == times.role[row]))
    hubs, first = np.unique(server[rows], return_inverse=True)
    second = times.mates[rows] + np.int32(len(hubs))
    label = components(len(hubs) + int(times.mates.max()) + 1, first.astype(np.int32), second)
    mine: Int64 = rows[label[first] == label[np.searchsorted(hubs, server[row])]]
    return mine


def _describe(compared: Comparison, unit: _Unit, division: Division, place: Place, topology: Topology) -> Finding:
    members = compared.times.endpoints[unit.rows]
    alone, row, steps = len(members) == 1, int(unit.rows[0]), list(unit.episode.abnormal)[:EVIDENCE_ROWS]
    servers = [topology.server_names[server] for server in topology.server[members].tolist()]
    subject = topology.endpoints[members[0]] if alone else servers[0]
    expected_s = float(np.nanmedian(unit.cells(compared.usual)))
    addresses = [topology.endpoints[member] for member in members]
    extent = place.extent(division, unit.episode)
    return make_finding(
        "slow_gpu",
        ("endpoint" if alone else "server", subject),
        identity(place.job_id, "slow_gpu", subject, extent.first_step),
        extent,
        Measured(
            float(np.nanmedian(unit.cells(compared.times.seconds))),
            expected_s,
            float(np.max(unit.cells(compared.score))),
            unit.lost_share,
        ),
        severity(unit.lost_share, place.params),
        _sentence(compared, unit, topology),
        {
            "endpoints": addresses,
            "servers": sorted(set(servers)),
            "gpus": topology.gpu[members].tolist(),
            "pp_stage": int(compared.times.role[row]),
            "measure": "work between messages" if compared.times.absolute else "lateness in collectives",
            "compared_with": compared.reference,
            "ranks_compared": int(np.count_nonzero(compared.among == compared.among[row])),
            "excess": np.round(compared.excess[row, steps], 4).tolist(),
            "observed_s": np.round(compared.times.seconds[row, steps], 6).tolist(),
            "expected_s": np.round(compared.usual[row, steps], 6).tolist(),
            "lost_s": round(unit.extra_s * len(unit.episode.abnormal), 6),
        },
        about=tuple(addresses),
        may_also_be=() if alone else tuple(addresses),
        confidence=confidence_in("endpoint" if alone else "server") / len(set(servers)),
        baseline=Baseline(compute_s=dict.fromkeys(addresses, expected_s)),
    )


def _sentence(compared: Comparison, unit: _Unit, topology: Topology) -> str:
    members, excess = compared.times.endpoints[unit.rows], float(np.nanmedian(unit.cells(compared.excess)))
    longer = f"{excess:.0%} longer a step than {compared.reference}, and the job waits for"
    if len(members) == 1:
        place = f"{topology.server_names[topology.server[members[0]]]}, GPU {topology.gpu[members[0]]}"
        return (
            f"{topology.endpoints[members[0]]} ({place}) works {longer} it: check clocks, temperature and power of "
            "that GPU, and its host."
        )
    gpus: dict[str, list[str]] = {}
    for member in members.tolist():
        gpus.setdefault(topology.server_names[topology.server[member]], []).append(str(topology.gpu[member]))
    listed = " and ".join(f"{', '.join(numbers)} of {server}" for server, numbers in gpus.items())
    return (
        f"GPUs {listed} work {longer} them: they are slow together, so any of them may be to blame; "
        "check their clocks, temperature and power, and the host."
    )
