"""What slows one life of a job: all that is compared within it, put together, one finding a root cause."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from prism_ch.model.division import Division
from prism_ch.model.groupset import GroupSet, PairKinds
from prism_ch.model.newest_life import UsualWork
from prism_ch.model.result import Diagnosis
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.stages.diagnose.episode import Place, together
from prism_ch.stages.diagnose.gpus import find_slow_gpus
from prism_ch.stages.diagnose.groups import find_slow_groups
from prism_ch.stages.diagnose.imbalance import find_imbalance
from prism_ch.stages.diagnose.network import find_slow_network
from prism_ch.stages.diagnose.pace import measure_pace
from prism_ch.stages.diagnose.unseen import measure_servers, passes_on_unseen
from prism_ch.stages.diagnose.usual_work import recall, remember
from prism_ch.stages.diagnose.work import measure_work


@dataclass(frozen=True, slots=True)
class Life:
    """One life of a job as it is looked at: its bursts and their kinds, its steps, and its groups.

    `usual_work`, how long its ranks worked some time ago, as far as that is remembered.
    """

    traffic: Traffic
    kinds: PairKinds
    division: Division
    groups: GroupSet
    usual_work: UsualWork = field(default_factory=UsualWork)


@dataclass(frozen=True, slots=True)
class Slowness:
    """What was found in a life: `causes`, which explain what else is slow, and `symptoms` that none of them explains.

    A switch is not a job's own: what the job says of it is in `switches`. `shape` is no slowness: how unevenly the job
    is divided. `work` is what is to be remembered of how long its ranks work.
    """

    causes: tuple[Diagnosis, ...]
    symptoms: tuple[Diagnosis, ...]
    switches: tuple[Diagnosis, ...] = ()
    shape: tuple[Diagnosis, ...] = ()
    work: UsualWork = field(default_factory=UsualWork)


def find_slowness(life: Life, known: Sequence[Diagnosis], place: Place, topology: Topology) -> Slowness:
    """Find what slows a life of a job; `known`, the findings open so far.

    Where a part of the network explains why a group is slow, the group is its symptom, and no finding of its own; and
    so is the rank behind a slow NIC, which can't send before its last message is out.
    """
    params = place.params
    if life.division.steps == 0:
        return Slowness((), ())
    pace = measure_pace(life.traffic, life.kinds, life.division, life.groups, topology, params.pace)
    network = find_slow_network(pace, life.division, known, place, topology)
    usual = life.usual_work
    shown = (life.traffic, life.kinds, life.division, life.groups)
    if passes_on_unseen(*shown, topology):
        work = measure_servers(*shown, topology, params.work, usual.needs)
    else:
        work = measure_work(*shown, params.work, usual.needs)
    gpus = find_slow_gpus(work, life.division, known, place, topology, recall(usual, work, topology))
    groups = find_slow_groups(
        place.job_id, life.traffic, life.kinds, life.division, life.groups, place.first_step, topology, params
    )
    said = [one for one in (*gpus, *groups) if not any(_explains(cause, one, topology) for cause in network)]
    own = [one for one in network if one.kind != "slow_switch"]
    return Slowness(
        tuple(one for one in (*own, *said) if one.kind != "slow_group"),
        tuple(one for one in (*own, *said) if one.kind == "slow_group"),
        tuple(one for one in network if one.kind == "slow_switch"),
        find_imbalance(life.traffic, life.kinds, life.division, life.groups, work, known, place),
        remember(usual, work, gpus, life.division, topology, params.work),
    )


def _explains(cause: Diagnosis, symptom: Diagnosis, topology: Topology) -> bool:
    """Say whether something slow in the network explains a slow group or GPU at the same time."""
    if not together(cause, symptom):
        return False
    if symptom.kind == "slow_group" or cause.kind == "slow_switch":
        return True
    ends = [topology.index[address] for address in cause.subject.split("->") if address in topology.index]
    servers = {topology.server_names[topology.server[end]] for end in ends}
    return not servers.isdisjoint(json.loads(symptom.evidence)["servers"])
