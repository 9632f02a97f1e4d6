"""The truth about faults: what was slow, when, and what it cost, by comparison with the same job unharmed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.result import DP
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.training import LifeRun
from prism_ch.simulate.truth import TEXTS, JobTruth, recording_ns, table
from prism_ch.simulate.workload import COMPUTE_FAULTS, Fault

#: A fault that lengthens a job's steps by less than this can't be told from chance.
EFFECTIVE_IMPACT = 0.01

FAULTS = pa.schema(
    [("fault_id", pa.string()), ("kind", pa.string()), ("job_id", pa.string()), ("affected_jobs", TEXTS)]
    + [("subject_type", pa.string()), ("subject", pa.string()), ("alt_subjects", TEXTS), ("pp_stage", pa.int32())]
    + [("server", pa.string())]
    + [(name, pa.int64()) for name in ("start_ns", "end_ns", "effect_start_ns", "effect_end_ns")]
    + [("magnitude", pa.float64()), ("accept_kinds", TEXTS), ("effective", pa.bool_())]
    + [("impact", pa.float64()), ("dp_impact", pa.float64())]
)
FAULT_JOBS = pa.schema(
    [("fault_id", pa.string()), ("job_id", pa.string()), ("first_step", pa.int32()), ("last_step", pa.int32())]
    + [("start_ns", pa.int64()), ("end_ns", pa.int64())]
    + [(name, pa.float64()) for name in ("baseline_step_s", "fault_step_s", "impact", "baseline_std_s")]
)

#: What a diagnosis may rightly call each kind.
_ACCEPTED = {
    "slow_gpu": ["slow_gpu", "slow_group", "slow_step"],
    "slow_drift": ["slow_gpu", "slow_group", "slow_step"],
    "hang": ["hang"],
    "slow_nic": ["slow_nic", "slow_link", "slow_group", "slow_step"],
    "slow_link": ["slow_link", "slow_nic", "slow_group", "slow_step"],
    "slow_switch": ["slow_switch", "congestion", "slow_group", "slow_step"],
}


@dataclass(frozen=True, slots=True)
class _Effect:
    """Steps of one job that a fault spans, against the same steps without it."""

    truth: JobTruth
    first_step: int
    last_step: int
    start_ns: int
    end_ns: int
    harmed_s: float
    healthy_s: float
    healthy_std_s: float
    dp_impact: float

    @property
    def impact(self) -> float:
        return self.harmed_s / self.healthy_s - 1.0


def faults_tables(
    truths: list[JobTruth], healthy: dict[int, list[LifeRun]], scenario: Scenario, network: Network
) -> tuple[pa.Table, pa.Table]:
    """One row a fault, and one a fault and job it touches; `healthy` holds the touched jobs' runs without any fault."""
    faults: list[dict[str, Any]] = []
    touched: list[dict[str, Any]] = []
    for number, fault in enumerate(scenario.faults):
        fault_id = f"fault-{number:03d}"
        effects = [
            effect
            for truth in truths
            if truth.number in healthy and touches(fault, truth.lives, network)
            if (effect := _effect(fault, truth, healthy[truth.number], scenario)) is not None
        ]
        faults.append({"fault_id": fault_id, "kind": fault.kind} | _fault_row(fault, effects, scenario, network))
        touched += [
            {
                "fault_id": fault_id,
                "job_id": effect.truth.job.job_id,
                "first_step": effect.first_step,
                "last_step": effect.last_step,
                "start_ns": effect.start_ns,
                "end_ns": effect.end_ns,
                "baseline_step_s": effect.healthy_s,
                "fault_step_s": effect.harmed_s,
                "impact": effect.impact,
                "baseline_std_s": effect.healthy_std_s,
            }
            for effect in effects
        ]
    return table(FAULTS, faults), table(FAULT_JOBS, touched)


def touches(fault: Fault, lives: tuple[LifeRun, ...] | list[LifeRun], network: Network) -> bool:
    """Whether a fault can concern a job: it computes on the GPU, or its NICs are the fault's."""
    if fault.kind in COMPUTE_FAULTS:
        return any(np.isin(fault.gpu, run.grid.gpu).any() for run in lives)
    first, second = network.endpoint_of_gpu(np.array([fault.gpu, max(fault.peer, 0)])).tolist()
    if fault.kind == "slow_switch":
        return any((network.leaf[run.grid.endpoint] == network.leaf[first]).any() for run in lives)
    ends = [first, second] if fault.kind == "slow_link" else [first]
    return any(np.isin(ends, run.grid.endpoint).all() for run in lives)


def _effect(fault: Fault, truth: JobTruth, healthy: list[LifeRun], scenario: Scenario) -> _Effect | None:
    begin = np.concatenate([run.begin_ns for run in truth.lives])
    if fault.kind == "hang":  # the step that never ends lasts as long as the recording
        begin = np.append(begin, recording_ns(scenario)[1])
    if fault.first_step >= 0:
        during = np.flatnonzero(
            (np.arange(len(begin)) >= fault.first_step) & (np.arange(len(begin)) <= fault.last_step)
        )
    else:
        start_ns, end_ns = _span_ns(fault, scenario)
        ends = np.append(begin[1:], np.iinfo(np.int64).max)
        during = np.flatnonzero((ends > start_ns) & (begin < end_ns))
    during = during[during < len(begin) - 1]
    if fault.kind == "hang":  # which is not the one in the middle of which the GPU fell ill, but the next
        during = during[-1:]
    if not len(during):
        return None
    unharmed = np.concatenate([run.begin_ns for run in healthy])
    steps = np.diff(unharmed) / 1e9
    harmed_s = float(np.mean(np.diff(begin)[during] / 1e9))
    return _Effect(
        truth=truth,
        first_step=int(during[0]),
        last_step=int(during[-1]),
        start_ns=int(begin[during[0]]),
        end_ns=int(begin[during[-1] + 1]),
        harmed_s=harmed_s,
        healthy_s=float(np.mean(steps[during[during < len(steps)]]))
        if during[0] < len(steps)
        else float(np.mean(steps)),
        healthy_std_s=float(np.std(steps)),
        dp_impact=_dp_seconds(truth.lives, during) / max(_dp_seconds(healthy, during), 1e-9) - 1.0,
    )


def _dp_seconds(lives: tuple[LifeRun, ...] | list[LifeRun], steps: Int64) -> float:
    """Return the mean seconds that a DP flow of these steps takes; 0 without any."""
    seconds: list[Float64] = []
    for run in lives:
        flows = run.transfers
        rows = (flows.kind == DP) & np.isin(flows.step, steps)
        seconds.append((flows.end_ns[rows] - flows.start_ns[rows]) / 1e9)
    every = np.concatenate(seconds)
    return float(every.mean()) if len(every) else 0.0


def _span_ns(fault: Fault, scenario: Scenario) -> tuple[int, int]:
    first_ns, last_ns = recording_ns(scenario)
    start_ns = scenario.start_ns + round(fault.start_s * 1e9)
    end_s = scenario.duration_s if fault.kind == "slow_drift" else min(fault.end_s, scenario.duration_s)
    return max(first_ns, start_ns), min(last_ns, scenario.start_ns + round(end_s * 1e9))


def _fault_row(fault: Fault, effects: list[_Effect], scenario: Scenario, network: Network) -> dict[str, Any]:
    worst = max(effects, key=lambda effect: effect.impact, default=None)
    start_ns, end_ns = _span_ns(fault, scenario)
    if fault.first_step >= 0 and worst is not None:
        start_ns, end_ns = worst.start_ns, worst.end_ns
    subject_type, subject, others, stage = _subject(fault, worst, network)
    server = network.server_names[network.server[network.endpoint_of_gpu(np.array([fault.gpu]))[0]]]
    return {
        "job_id": worst.truth.job.job_id if worst else "",
        "affected_jobs": [effect.truth.job.job_id for effect in effects],
        "subject_type": subject_type,
        "subject": subject,
        "alt_subjects": others,
        "pp_stage": stage,
        "server": server,
        "start_ns": start_ns,
        "end_ns": end_ns,
        "effect_start_ns": worst.start_ns if worst else 0,
        "effect_end_ns": worst.end_ns if worst else 0,
        "magnitude": fault.factor,
        "accept_kinds": _ACCEPTED[fault.kind],
        "effective": worst is not None and worst.impact >= EFFECTIVE_IMPACT,
        "impact": worst.impact if worst else 0.0,
        "dp_impact": worst.dp_impact if worst else 0.0,
    }


def _subject(fault: Fault, worst: _Effect | None, network: Network) -> tuple[str, str, list[str], int]:
    """Return a fault's type of subject, subject, what else may rightly be named, and its pipeline stage (-1: none)."""
    first, second = network.endpoint_of_gpu(np.array([fault.gpu, max(fault.peer, 0)])).tolist()
    name = network.addresses[first]
    if fault.kind == "slow_link":
        peer = network.addresses[second]
        return "link", f"{name}->{peer}", [name, peer], -1
    if fault.kind == "slow_switch":
        return "switch", network.switches[network.leaf[first]], [], -1
    others = [network.server_names[network.server[first]]]
    if worst is None:
        return "endpoint", name, others, -1
    grid = worst.truth.lives[0].grid
    places = np.flatnonzero(grid.endpoint == first) // grid.tp
    for place in np.unique(places).tolist():
        others += [network.addresses[e] for e in grid.endpoint[place * grid.tp : (place + 1) * grid.tp] if e != first]
    return "endpoint", name, others, int(places[0]) // grid.lanes if len(places) else -1
