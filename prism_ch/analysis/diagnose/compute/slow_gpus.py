"""Slow GPUs: ranks that work longer than the others of their role, and make everybody wait."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.compute.peers import Comparison, compare
from prism_ch.analysis.diagnose.cost import lost_share
from prism_ch.analysis.diagnose.episodes import Episode, episodes
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Measured, Place, identity, make_finding
from prism_ch.core import robust
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams
from prism_ch.model.topology import Topology


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows of ranks that are slow together in an episode: seconds too many a step, share of the job's time lost."""

    rows: Int64
    episode: Episode
    extra_s: float
    lost_share: float

    def meets(self, other: _Unit) -> bool:
        """Say whether another is slow at the same time; each is when itself is."""
        return self.episode.first <= other.episode.last and other.episode.first <= self.episode.last

    def cells(self, values: Float64) -> Float64:
        """Return what [m, k] values hold of its ranks in the steps in which they are slow, [rows, steps]."""
        return values[self.rows][:, list(self.episode.abnormal)]


def find_slow_gpus(
    measured: Sequence[ComputeTime],
    division: Division,
    known: Sequence[Finding],
    place: Place,
    topology: Topology,
    usual_s: Mapping[int, float] = MappingProxyType({}),
) -> tuple[Finding, ...]:
    """Find the ranks of one life of a job that are slower at their work than the others of their role.

    Parameters: `measured`, the ranks' work, the measure that tells most first: a later one is for what that can't say;
    `known`, the findings open so far; `usual_s`, the usual work of endpoints some time ago, in seconds.
    Ranks of a role in one server that are slow together are named together: a tensor group works as one, and its
    members wait for one another inside the server, where no record shows which. Where as many ranks differ from their
    peers as do not, nobody can tell which of them are slow, and where most differ from what they did before, it is no
    GPU that is: then nothing is found.
    """
    expected_s = {**usual_s, **_expected_s(known, topology)}
    for compared in compare(measured, division, expected_s, place.params.work):
        slow = list(_units(compared, division, topology, place.params.work))
        units = _alone(_most_costly(slow, place.params.work))
        if units:
            return tuple(_describe(compared, unit, division, place, topology) for unit in units)
    return ()


def _expected_s(known: Sequence[Finding], topology: Topology) -> dict[int, float]:
    """Return the usual work of the endpoints that are known to be slow."""
    return {
        topology.index[address]: usual_s
        for finding in known
        if finding.kind == "slow_gpu" and finding.status == "open"
        for address, usual_s in finding.baseline.compute_s.items()
        if address in topology.index
    }


def _units(compared: Comparison, division: Division, topology: Topology, params: ComputeTimeParams) -> Iterator[_Unit]:
    """List the ranks that are slow, those of one server together where they are slow together."""
    seconds = compared.work.seconds
    for row in np.flatnonzero((compared.score > 0).any(axis=1)).tolist():
        for episode in episodes((compared.score[row] > 0).tolist(), params.repeats):
            steps = list(episode.abnormal)
            excess = np.nan_to_num(robust.median(compared.excess[:, steps], axis=1))
            alike = (compared.among == compared.among[row]) & (excess >= params.half * excess[row])
            together = _together(compared.work, row, alike, topology)
            can_be_told = compared.least[row] <= np.count_nonzero(alike) <= compared.most[row]
            if len(steps) < params.slow_steps or together[0] != row or not can_be_told:
                continue
            if not (compared.by_others[row] or _knows_better(seconds[row], episode, params)):
                continue
            extra_s = float(np.nanmedian(seconds[row, steps] - compared.usual[row, steps]))
            lost = lost_share(division, episode, extra_s, params.reference_steps)
            if lost >= params.worth_share:
                yield _Unit(together, episode, extra_s, lost)


def _knows_better(seconds: Float64, episode: Episode, params: ComputeTimeParams) -> bool:
    """Say whether enough of a rank's steps outside an episode are known to say what is usual of it."""
    outside = np.append(seconds[: episode.first], seconds[episode.last + 1 :])
    return int(np.count_nonzero(~np.isnan(outside))) >= params.reference_steps


def _together(work: ComputeTime, row: int, alike: Bool, topology: Topology) -> Int64:
    """List those of the ranks alike that share a server with one, or wait for it inside operations, itself included."""
    server = topology.server[work.endpoints]
    rows = np.flatnonzero(alike & (work.role == work.role[row]))
    hub = {int(key): number for number, key in enumerate(np.unique(server[rows]))}
    first = np.array([hub[key] for key in server[rows].tolist()], dtype=np.int32)
    second = work.mates[rows] + np.int32(len(hub))
    label = components(len(hub) + int(work.mates.max()) + 1, first, second)
    mine: Int64 = rows[label[first] == label[hub[int(server[row])]]]
    return mine


def _most_costly(units: Sequence[_Unit], params: ComputeTimeParams) -> list[_Unit]:
    """Leave out units that lose much less than another at the same time: they wait for it, or hide behind it."""
    return [
        unit
        for unit in units
        if all(unit.extra_s >= params.half * other.extra_s for other in units if unit.meets(other))
    ]


def _alone(units: Sequence[_Unit]) -> list[_Unit]:
    """Leave out units that are slow at one time: GPUs seldom fail together, and what they share may be to blame."""
    return [unit for unit in units if sum(unit.meets(other) for other in units) == 1]


def _describe(compared: Comparison, unit: _Unit, division: Division, place: Place, topology: Topology) -> Finding:
    """Put the episode of a rank, or of those of one server that are slow together, into words and numbers."""
    episode = unit.episode
    members = compared.work.endpoints[unit.rows]
    alone = len(members) == 1
    subject = topology.endpoints[members[0]] if alone else topology.server_names[topology.server[members[0]]]
    expected_s = float(np.nanmedian(unit.cells(compared.usual)))
    addresses = [topology.endpoints[member] for member in members]
    extent = place.extent(division, episode)
    measured = Measured(
        float(np.nanmedian(unit.cells(compared.work.seconds))),
        expected_s,
        float(np.max(unit.cells(compared.score))),
        unit.lost_share,
    )
    return make_finding(
        "slow_gpu",
        ("endpoint" if alone else "server", subject),
        identity(place.job_id, "slow_gpu", subject, extent.first_step),
        extent,
        measured,
        place.grade(unit.lost_share),
        _sentence(compared, unit, topology),
        _evidence(compared, unit, topology),
        about=tuple(addresses),
        baseline=Baseline(compute_s=dict.fromkeys(addresses, expected_s)),
    )


def _sentence(compared: Comparison, unit: _Unit, topology: Topology) -> str:
    """Say who is slow, by how much, and what to do."""
    members = compared.work.endpoints[unit.rows]
    excess = float(np.nanmedian(unit.cells(compared.excess)))
    longer = f"{excess:.0%} longer a step than {compared.reference}, and the job waits for"
    if len(members) == 1:
        place = f"{topology.server_names[topology.server[members[0]]]}, GPU {topology.gpu[members[0]]}"
        return (
            f"{topology.endpoints[members[0]]} ({place}) works {longer} it: check clocks, temperature and power of "
            "that GPU, and its host."
        )
    return (
        f"{_listed(members, topology)} work {longer} them: they are slow together, so any of them may be to blame; "
        "check their clocks, temperature and power, and the host."
    )


def _listed(members: Int32, topology: Topology) -> str:
    """Name GPUs by their servers."""
    gpus: dict[str, list[str]] = {}
    for member in members.tolist():
        gpus.setdefault(topology.server_names[topology.server[member]], []).append(str(topology.gpu[member]))
    return "GPUs " + " and ".join(f"{', '.join(numbers)} of {server}" for server, numbers in gpus.items())


def _evidence(compared: Comparison, unit: _Unit, topology: Topology) -> dict[str, object]:
    """Return what lets a sceptic check the finding."""
    row, steps = int(unit.rows[0]), list(unit.episode.abnormal)[:EVIDENCE_ROWS]
    members = compared.work.endpoints[unit.rows]
    return {
        "endpoints": [topology.endpoints[member] for member in members],
        "servers": sorted({topology.server_names[topology.server[member]] for member in members}),
        "gpus": [int(topology.gpu[member]) for member in members],
        "pp_stage": int(compared.work.role[row]),
        "measure": "work between messages" if compared.work.absolute else "lateness in collectives",
        "compared_with": compared.reference,
        "ranks_compared": int(np.count_nonzero(compared.among == compared.among[row])),
        "excess": np.round(compared.excess[row, steps], 4).tolist(),
        "observed_s": np.round(compared.work.seconds[row, steps], 6).tolist(),
        "expected_s": np.round(compared.usual[row, steps], 6).tolist(),
        "lost_s": round(unit.extra_s * len(unit.episode.abnormal), 6),
    }
