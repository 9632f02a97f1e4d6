"""The truth about an injected fault: where and when it is, who else it may be by the records, and what it costs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bench.accuracy.faults.alarms import Alarm
from bench.accuracy.faults.cases import KINDS, Case
from bench.accuracy.faults.identifiable import alike, computes_in_one_go, culprit_name, pairs_across
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.incident import Incident
from prism_ch.simulate import Scenario, Simulation, generate
from prism_ch.simulate.job import COMPUTE_FAULTS, Job
from prism_ch.simulate.network import Network, RankGrid
from prism_ch.simulate.traffic import AttemptRun, run_job

#: The right kinds of finding for each kind of fault, most exact first.
_ACCEPTED = {
    "slow_gpu": ("slow_gpu", "slow_group", "slow_step"),
    "slow_step": ("slow_gpu", "slow_step"),
    "slow_drift": ("slow_gpu", "slow_group", "slow_step"),
    "slow_nic": ("slow_nic", "slow_link", "slow_group", "slow_step"),
    "slow_link": ("slow_link", "slow_nic", "slow_group", "slow_step"),
    "slow_switch": ("slow_switch", "congestion", "slow_group", "slow_step"),
    "slow_spine": ("slow_switch", "congestion", "slow_link", "slow_group", "slow_step"),
    "slow_uplink": ("slow_link", "congestion", "slow_switch", "slow_group", "slow_step"),
    "slow_stage": ("slow_group", "slow_step"),
    "hang": ("hang",),
    "stall": ("stall",),
    "restart": ("restart",),
    "hole": ("telemetry",),
}
#: Kinds of finding that place a fault in the network: each is right for any, if it names who may be to blame.
PATH_KINDS = frozenset({"slow_nic", "slow_link", "slow_switch", "slow_group"})
#: Kinds of fault at a place: a GPU, a NIC, a link, a switch or a stage. The others stop a job, or hide it.
PLACED = (
    "slow_gpu",
    "slow_step",
    "slow_drift",
    "slow_nic",
    "slow_link",
    "slow_switch",
    "slow_spine",
    "slow_uplink",
    "slow_stage",
)
STOPS = ("hang", "stall", "restart", "hole")
#: Faults of the network whose culprit is above the leaves: a healthy leaf or NIC must not be accused.
ABOVE_LEAVES = ("slow_spine", "slow_uplink")
#: A fault is one that a person must be told of from this share of its jobs' time on, or this many GPU-seconds.
COSTLY_SHARE, COSTLY_GPU_S = 0.05, 600.0
#: A job that moves nothing for this long should be found to hang, whether or not it goes on in the end.
_HANGS_AFTER_NS = 15 * 10**9


@dataclass(frozen=True, slots=True)
class Truth:
    """The truth about one fault.

    `start_ns` to `end_ns` is the time of its effect; records show it from `shown_ns` on, a stop or hole from when the
    first should have come. `accepted` are the right kinds of finding; those of `meanwhile` are right while it lasts,
    from `meanwhile_ns` on. `culprit` is empty if there is none, else `alike` is it and all that leave the same records.
    `costs` are of every job; what `hides` jobs from sight must be told of without any. `first_step` counts the steps
    that ended before it.
    `across` are the pairs `a->b` whose flows cross a slow spine or uplink: the path between them is slow.
    `is_shown` is false if a job was slow from its first step to the recording's end, and all of its endpoints may be to
    blame: a healthy job with longer steps would leave the same records.
    """

    start_ns: int
    end_ns: int
    shown_ns: int
    accepted: tuple[str, ...]
    culprit: frozenset[str]
    alike: frozenset[str]
    costs: tuple[Cost, ...] = ()
    meanwhile: tuple[str, ...] = ()
    meanwhile_ns: int = 0
    hides: bool = False
    first_step: int = 0
    is_shown: bool = True
    across: frozenset[str] = frozenset()

    @property
    def lost_gpu_s(self) -> float:
        """GPU-seconds lost in the recording by all jobs."""
        return sum(cost.lost_gpu_s for cost in self.costs)

    @property
    def share(self) -> float:
        """The largest share that a job lost of its time while the fault lasted."""
        return max((cost.share for cost in self.costs), default=0.0)

    @property
    def is_costly(self) -> bool:
        """Whether an alarm must be raised."""
        costs = self.share >= COSTLY_SHARE or self.lost_gpu_s >= COSTLY_GPU_S
        return self.hides or (self.is_shown and costs)

    def meets(self, told: Alarm | Incident) -> bool:
        """Return whether an alarm or incident overlaps the time of the effect."""
        return told.start_ns < self.end_ns and told.end_ns > self.start_ns


def true_of(case: Case, made: Simulation) -> Truth:
    """Return the truth about the only fault of a simulation."""
    if case.kind == "hole":
        return _hole(made)
    truth = _event(case, made) if case.kind in ("stall", "restart") else _fault(case, made)
    until_ns = min(truth.end_ns, made.scenario.end_ns)
    lasts_s = max(until_ns - max(truth.start_ns, made.scenario.start_ns), 1) / 1e9
    costs = tuple(_cost(made, number, lasts_s) for number in range(len(made.scenario.jobs)))
    harmed = frozenset().union(*(cost.endpoints for cost in costs if cost.lost_s > 0))
    scenario = made.scenario
    uneven = case.kind == "slow_stage"  # a stage that always is so has more to compute
    whole = any(
        fault.first_step < 0 and fault.start_s <= 0 and fault.end_s >= scenario.duration_s for fault in scenario.faults
    )
    return replace(truth, costs=costs, is_shown=not (whole and (uneven or truth.alike >= harmed)))


@dataclass(frozen=True, slots=True)
class Cost:
    """What faults cost one job whose GPUs are seen at `endpoints`; a GPU whose NIC carries nothing is no part of it.

    `gpus` counts those that it has at a time. `lost_s` are the seconds by which it gets behind in the recording,
    `share` the part of its time that is, while they last.
    """

    endpoints: frozenset[str]
    gpus: int
    lost_s: float
    share: float

    @property
    def lost_gpu_s(self) -> float:
        """Seconds lost over all GPUs."""
        return self.lost_s * self.gpus

    @property
    def is_costly(self) -> bool:
        """Whether an alarm must be raised for it."""
        return self.share >= COSTLY_SHARE or self.lost_gpu_s >= COSTLY_GPU_S


def _cost(made: Simulation, number: int, lasts_s: float) -> Cost:
    """Compare a job with itself under the same seed without the fault."""
    endpoints = frozenset(made.truth["jobs"].to_pylist()[number]["visible_endpoints"])
    scenario, network = made.scenario, Network(made.scenario.cluster)
    first = network.endpoint_of_gpu(np.array(scenario.jobs[number].attempts[0].gpus))
    gpus = len(endpoints & set(network.addresses[first].tolist()))
    lost_s = _lost_s(scenario, number)
    return Cost(endpoints, gpus, lost_s, lost_s / lasts_s)


def _lost_s(scenario: Scenario, number: int) -> float:
    """Return by how many seconds a job gets behind in the recording.

    That is when it ended its last step, less when it would have ended the same without the fault; what an attempt did
    not end is done again by the next one. Of a step that never ends, what is longer than usual counts as well.
    """
    network = Network(scenario.cluster)
    healthy = _healthy(scenario)
    ran = _begun_and_ended_s(run_job(scenario, number, network, scenario.faults), scenario)
    would = _begun_and_ended_s(run_job(healthy, number, network, ()), healthy)
    if not 1 < len(ran) <= len(would):
        return 0.0
    stuck_s = scenario.duration_s - float(ran[-1]) - float(np.median(np.diff(would)))
    hangs = any(fault.kind == "hang" for fault in scenario.faults)
    behind_s = float(ran[-1] - would[len(ran) - 1]) - _before_s(ran, would[: len(ran)])
    return max(behind_s, 0.0) + (max(stuck_s, 0.0) if hangs else 0.0)


def _before_s(ran: Float64, would: Float64) -> float:
    """Return by how many seconds steps got behind before the recording begins. One that it cuts lost evenly."""
    took_s = np.diff(ran)
    return float(((took_s - np.diff(would)) * np.clip(-ran[:-1] / took_s, 0, 1)).sum())


def _healthy(scenario: Scenario) -> Scenario:
    """Return a scenario in which nothing is slow, stops or is hidden."""
    seen = replace(scenario.observation, silences=())
    return replace(scenario, faults=(), jobs=tuple(_undisturbed(one) for one in scenario.jobs), observation=seen)


def _first_missing_ns(made: Simulation) -> int:
    """Return when the first flow should have ended that has no record, or another one."""
    would = generate(replace(_healthy(made.scenario), phases=False))
    came, due = (_flows(one) for one in (made, would))
    return min(one[-1] for one in due - came)


def _flows(made: Simulation) -> set[tuple[str, str, int, int, int]]:
    """List the recorded flows, by ends, port, begin and end."""
    names = ("src_addr", "dst_addr", "src_port", "time_flow_start_ns", "time_flow_end_ns")
    return set(zip(*(made.flows[name].to_pylist() for name in names), strict=True))


def _undisturbed(job: Job) -> Job:
    """Return a job without restarts and without pauses that come once."""
    return replace(
        job,
        attempts=(replace(job.attempts[0], end_s=float("inf")),),
        pauses=tuple(pause for pause in job.pauses if pause.every_steps),
    )


def _begun_and_ended_s(runs: Sequence[AttemptRun], scenario: Scenario) -> Float64:
    """Return when a job began and when it ended its steps, float64[1 + steps].

    In seconds of the recording.
    """
    ends = [run.finish_ns[run.finish_ns <= _until_ns(run, scenario)] for run in runs]
    return (np.concatenate([runs[0].begin_ns[:1], *ends]) - scenario.start_ns) / 1e9


def _until_ns(run: AttemptRun, scenario: Scenario) -> float:
    """Return when an attempt ends, or the recording."""
    return min(scenario.end_ns, scenario.start_ns + run.attempt.end_s * 1e9)


def _step_ends(made: Simulation, job_id: str) -> Int64:
    """Return when a job's steps ended, int64[steps], rising."""
    table = made.truth["steps"]
    mine = np.asarray(table["job_id"].to_pylist()) == job_id
    return np.sort(table["end_ns"].to_numpy()[mine])


def _fault(case: Case, made: Simulation) -> Truth:
    """Return the truth about a fault of the scenario."""
    [row] = made.truth["faults"].to_pylist()
    scenario, [fault] = made.scenario, made.scenario.faults
    ends = _step_ends(made, row["job_id"] or scenario.jobs[0].job_id)
    step_ns = int(np.median(np.diff(ends)))
    start_ns, end_ns = row["effect_start_ns"], row["effect_end_ns"]
    shown = int(np.searchsorted(ends, start_ns + step_ns // 2))
    shown_ns = _first_missing_ns(made) if case.kind == "hang" else int(ends[min(shown, len(ends) - 1)])
    network = Network(scenario.cluster)
    same = alike(scenario, fault)
    if fault.kind in COMPUTE_FAULTS:
        culprit = str(network.addresses[network.ends(fault)[0]])
        culprit = culprit if culprit in same else min(same, default=culprit)
    else:
        culprit = culprit_name(fault, network)
    accepted = _ACCEPTED[case.kind]
    if case.kind == "slow_stage" and len(servers_of(same, network)) == 1:
        accepted = (*accepted, "slow_gpu")  # whether a server or its work is slow leaves the same records
    return Truth(
        start_ns=start_ns,
        end_ns=end_ns,
        shown_ns=min(shown_ns, end_ns),
        accepted=accepted,
        culprit=same if case.kind == "slow_stage" else frozenset({culprit}),
        alike=same,
        first_step=int(np.searchsorted(ends, start_ns, side="right")),
        across=pairs_across(scenario, fault) if fault.kind in ABOVE_LEAVES else frozenset(),
    )


def servers_of(addresses: Collection[str], network: Network) -> frozenset[str]:
    """Return the servers of some endpoints."""
    server = network.server[np.isin(network.addresses, list(addresses))]
    return frozenset(str(network.server_names[one]) for one in np.unique(server).tolist())


def _hole(made: Simulation) -> Truth:
    """Return the truth about exporters that fall silent. It costs nothing, and hides what they see."""
    scenario, [silence] = made.scenario, made.scenario.observation.silences
    ends = _step_ends(made, scenario.jobs[0].job_id)
    start_ns, end_ns = (int(scenario.ns(at_s)) for at_s in (silence.from_s, silence.to_s))
    return Truth(
        start_ns=start_ns,
        end_ns=end_ns,
        shown_ns=_first_missing_ns(made),
        accepted=_ACCEPTED["hole"],
        culprit=frozenset(silence.exporters),
        alike=frozenset(silence.exporters),
        hides=True,
        first_step=int(np.searchsorted(ends, start_ns)),
    )


def _event(case: Case, made: Simulation) -> Truth:
    """Return the truth about a stall or restart, the simulation's only event."""
    ends = _step_ends(made, made.scenario.jobs[0].job_id)
    step_ns = int(np.median(np.diff(ends)))
    [event] = [row for row in made.truth["events"].to_pylist() if row["kind"] in ("stall", "checkpoint", "restart")]
    start_ns, end_ns = event["start_ns"], event["end_ns"]
    resumed_ns = int(ends[min(np.searchsorted(ends, end_ns), len(ends) - 1)])
    shown_ns = end_ns if case.kind == "restart" else _first_missing_ns(made)
    late = _late_replica(made) if event["kind"] == "stall" else ()
    slow = ("slow_step", "slow_gpu") if late and _may_be_slow(case, made) else ()
    return Truth(
        start_ns=start_ns,
        end_ns=resumed_ns,
        shown_ns=shown_ns,
        accepted=(*_ACCEPTED[case.kind], *slow),
        culprit=frozenset(late),
        alike=frozenset(late),
        first_step=int(np.searchsorted(ends, start_ns)),
        meanwhile=("hang",),  # until it goes on, or begins anew, it may as well never do
        meanwhile_ns=0 if case.kind == "restart" else start_ns + step_ns + _HANGS_AFTER_NS,
    )


def _may_be_slow(case: Case, made: Simulation) -> bool:
    """Return whether a late replica leaves the same records as a slow GPU could."""
    return case.magnitude <= max(KINDS["slow_step"].magnitudes) - 1 and computes_in_one_go(made.scenario)


def _late_replica(made: Simulation) -> Sequence[str]:
    """List the endpoints of the late replica; a job of one replica has none."""
    scenario = made.scenario
    job, network = scenario.jobs[0], Network(scenario.cluster)
    grid = RankGrid(job.layout, job.attempts[0].gpus, network)
    if grid.lanes == 1:
        return ()
    lane = job.pauses[0].replica % grid.lanes
    endpoints: Any = grid.endpoint.reshape(grid.stages, grid.lanes, -1)[:, lane]
    return sorted({str(name) for name in network.addresses[endpoints.reshape(-1)]})
