"""Faults as people write them: a kind, a subject by its name in the topology, and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, inf, isfinite
from typing import Any, get_args

import numpy as np

from prism_ch.errors import UsageError
from prism_ch.simulate.job import Fault, FaultKind, require
from prism_ch.simulate.network import Index, Network, RankGrid
from prism_ch.simulate.scenario import Scenario, Silence

FAULT_KINDS: tuple[str, ...] = get_args(FaultKind)
#: Stands where a fault has no magnitude or no end.
_NONE = "-"


def read_fault(words: Sequence[str], scenario: Scenario) -> Fault:
    """Turn kind, subject, magnitude, start and end into a fault of the scenario.

    A GPU is a number, `server/gpu`, or the address of its NIC (of the first GPU that shares it); a link is `a->b`
    of two of these in different servers; a switch is the address of a GPU's leaf, a spine its own, an uplink
    `leaf->spine`, a stage `job/stage/N`. Seconds count from the begin of the recording. A hang has `-` for
    magnitude and end; an end `-` is that of the recording.
    Raises UsageError for what is not in the scenario's cluster or recording, and for a fault that would not be slow.
    """
    kind, subject, magnitude, start, end = words
    require(kind in FAULT_KINDS, f"no kind of fault {kind!r}: there are {', '.join(FAULT_KINDS)}")
    try:
        values = _place(kind, subject, scenario)
        if kind == "hang":
            require(magnitude == end == _NONE, "a hang has neither magnitude nor end: write - for both")
        else:
            values["factor"] = factor = _number("the magnitude", magnitude)
            require(factor > 0, f"the magnitude is more than 0, not {magnitude}")
        start_s, end_s = _number("the start", start), inf if end == _NONE else _number("the end", end)
        inside = 0 <= start_s < scenario.duration_s and (end == _NONE or end_s <= scenario.duration_s)
        require(inside, f"{start} to {end} s is not inside the recording, 0 to {_rounded(scenario.duration_s)} s")
        return Fault(kind=kind, start_s=start_s, end_s=end_s, **values)  # type: ignore[arg-type]
    except UsageError as error:
        raise UsageError(f"fault {kind} {subject}: {error}") from None


def read_silence(words: tuple[str, float, str], scenario: Scenario) -> Silence:
    """Turn exporters, start and end into a silence of the scenario.

    Exporters are `all`, or addresses of switches with commas between; an end `-` is that of the recording.
    Raises UsageError for switches that are not in the scenario's cluster.
    """
    names, start_s, end = words
    exporters = () if names == "all" else tuple(name.strip() for name in names.split(","))
    unknown = sorted(set(exporters) - set(Network(scenario.cluster).switches.tolist()))
    require(not unknown, f"silence {names}: no switch {', '.join(unknown)}; see column leaf of topology.csv")
    end_s = scenario.duration_s if end == _NONE else _number("the end", end)
    require(start_s >= 0, f"silence {names}: the start is 0 s or more, not {start_s}")
    return Silence(exporters=exporters, from_s=start_s, to_s=end_s)


def _place(kind: str, subject: str, scenario: Scenario) -> dict[str, Any]:
    """Return the fields `gpu`, `peer` and `spine` of a fault."""
    require(subject != _NONE, "it needs a subject")
    network = Network(scenario.cluster)
    if kind == "slow_stage":
        return {"gpu": _gpu_of_stage(subject, scenario, network)}
    if kind == "slow_switch":
        return {"gpu": _gpu_at_leaf(subject, network)}
    if kind == "slow_spine":
        return {"gpu": 0, "spine": _spine(subject, network)}
    if kind not in ("slow_link", "slow_uplink"):
        return {"gpu": _gpu(subject, network)}
    ends = subject.split("->")
    require(len(ends) == 2, f"a link is written a->b, not {subject!r}")
    if kind == "slow_uplink":
        return {"gpu": _gpu_at_leaf(ends[0].strip(), network), "spine": _spine(ends[1].strip(), network)}
    gpu, peer = (_gpu(name.strip(), network) for name in ends)
    require(gpu // network.cluster.gpus != peer // network.cluster.gpus, "both ends are in one server")
    return {"gpu": gpu, "peer": peer}


def _gpu(name: str, network: Network) -> int:
    cluster, names = network.cluster, network.server_names
    server, slash, index = name.rpartition("/")
    gpus: Index
    if slash:
        found = np.flatnonzero(names[: cluster.servers] == server) * cluster.gpus
        gpus = found + int(index) if _is_below(index, cluster.gpus) else found[:0]
    elif _is_below(name, cluster.servers * cluster.gpus):
        gpus = np.array([int(name)])
    else:
        gpus = _first_gpus(np.flatnonzero(network.addresses == name), network)
    server_last = f"{names[cluster.servers - 1]}/{cluster.gpus - 1}"
    known = f"0 to {cluster.servers * cluster.gpus - 1}, {names[0]}/0 to {server_last}, and their endpoints"
    require(len(gpus) == 1, f"no GPU {name!r}; GPUs are {known} in topology.csv")
    return int(gpus[0])


def _gpu_of_stage(name: str, scenario: Scenario, network: Network) -> int:
    """Return the first GPU of a stage, as its job begins."""
    job_id, _, number = name.rpartition("/stage/")
    jobs = [job for job in scenario.jobs if job.job_id == job_id]
    known = ", ".join(job.job_id for job in scenario.jobs)
    require(len(jobs) == 1, f"a stage is written JOB/stage/N, not {name!r}; jobs are {known}")
    grid = RankGrid(jobs[0].layout_of(jobs[0].attempts[0]), jobs[0].attempts[0].gpus, network)
    require(_is_below(number, grid.stages), f"{job_id} has stages 0 to {grid.stages - 1}, not {number!r}")
    return int(grid.gpu.reshape(grid.stages, -1)[int(number), 0])


def _gpu_at_leaf(name: str, network: Network) -> int:
    gpus = _first_gpus(np.flatnonzero(network.switches[network.leaf] == name), network)
    require(len(gpus) > 0, f"no leaf {name!r} of GPUs; see column leaf of topology.csv, {network.switches[0]} ff.")
    return int(gpus[0])


def _spine(name: str, network: Network) -> int:
    spines = network.switches[network.leaves :]
    found = np.flatnonzero(spines == name)
    require(len(found) > 0, f"no spine {name!r}: there are {spines[0]} to {spines[-1]}")
    return int(found[0])


def _first_gpus(endpoints: Index, network: Network) -> Index:
    """Return the first GPU of each endpoint, leaving out storage and other machines."""
    cluster = network.cluster
    server, nic = np.divmod(endpoints[endpoints < cluster.servers * cluster.nics], cluster.nics)
    return np.asarray(server * cluster.gpus + nic * (cluster.gpus // cluster.nics))


def _is_below(text: str, bound: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10 and int(text) < bound


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise UsageError(f"{name} is a number, not {text!r}") from None
    require(isfinite(number), f"{name} is a finite number, not {text!r}")
    return number


def _rounded(seconds: float) -> str:
    """Round down to milliseconds, so that what is shown is inside."""
    return f"{floor(seconds * 1000) / 1000:.12g}"
