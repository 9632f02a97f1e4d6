"""The truth about faults: what was slow, when, and what it cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.model.columns import Int64
from prism_ch.model.result import DP
from prism_ch.simulate.job import COMPUTE_FAULTS, Fault
from prism_ch.simulate.network import Network, RankGrid
from prism_ch.simulate.scenario import Scenario, Silence
from prism_ch.simulate.traffic import AttemptRun, run_job
from prism_ch.simulate.truth import TEXTS, JobTruth, schema

#: A fault is effective if it lengthens a job's steps by at least this share; less is within their scatter.
EFFECTIVE_IMPACT = 0.01

#: The subject of a silence of all exporters, as findings name it.
ALL_EXPORTERS = "all exporters"

FAULTS = schema(
    (pa.string(), "fault_id kind job_id"),
    (TEXTS, "affected_jobs"),
    (pa.string(), "subject_type subject"),
    (TEXTS, "alt_subjects"),
    (pa.int32(), "pp_stage"),
    (pa.string(), "server"),
    (pa.int64(), "start_ns end_ns effect_start_ns effect_end_ns"),
    (pa.float64(), "magnitude"),
    (TEXTS, "accept_kinds"),
    (pa.bool_(), "effective"),
    (pa.float64(), "impact dp_impact"),
)
FAULT_JOBS = schema(
    (pa.string(), "fault_id job_id"),
    (pa.int32(), "first_step last_step"),
    (pa.int64(), "start_ns end_ns"),
    (pa.float64(), "baseline_step_s fault_step_s impact baseline_std_s"),
)

#: What a diagnosis may rightly call each kind.
_ACCEPTED = {
    "slow_gpu": ["slow_gpu", "slow_group", "slow_step"],
    "slow_drift": ["slow_gpu", "slow_group", "slow_step"],
    "slow_stage": ["slow_group", "slow_step"],
    "hang": ["hang"],
    "slow_nic": ["slow_nic", "slow_link", "slow_group", "slow_step"],
    "slow_link": ["slow_link", "slow_nic", "slow_group", "slow_step"],
    "slow_switch": ["slow_switch", "congestion", "slow_group", "slow_step"],
    "slow_spine": ["slow_switch", "congestion", "slow_group", "slow_step"],
    "slow_uplink": ["slow_link", "congestion", "slow_group", "slow_step"],
}
#: Faults that flows between leaves meet, by the spine that each of them crosses.
_OF_SPINES = ("slow_spine", "slow_uplink")


def fault_tables(truths: list[JobTruth], scenario: Scenario, network: Network) -> dict[str, pa.Table]:
    """Build the tables faults (one row a fault) and fault_jobs (one a fault and job)."""
    healthy = cache(lambda number: run_job(scenario, number, network, ()))
    faults: list[dict[str, Any]] = []
    effects: list[dict[str, Any]] = []
    for name, fault in ((f"fault-{number:03d}", fault) for number, fault in enumerate(scenario.faults)):
        mine = [
            {"fault_id": name, "grid": truth.runs[0].grid} | effect
            for truth in truths
            if any(_touches(fault, run, network) for run in truth.runs)
            and (effect := _effect(fault, truth, healthy(truth.number), scenario)) is not None
        ]
        faults.append({"fault_id": name} | _fault_row(fault, mine, scenario, network))
        effects += mine
    first = len(scenario.faults)
    for number, silence in enumerate(scenario.observation.silences, first):
        faults.append({"fault_id": f"fault-{number:03d}"} | _silence_row(silence, truths, scenario, network))
    return {
        "faults": pa.Table.from_pylist(faults, schema=FAULTS),
        "fault_jobs": pa.Table.from_pylist(effects, schema=FAULT_JOBS),
    }


def _silence_row(silence: Silence, truths: list[JobTruth], scenario: Scenario, network: Network) -> dict[str, Any]:
    """Describe exporters that fall silent. It costs nothing, and hides the jobs whose flows they see."""
    start_ns, end_ns = int(scenario.ns(silence.from_s)), int(scenario.ns(min(silence.to_s, scenario.duration_s)))
    leaves = network.switches[network.leaf]
    hidden = [
        truth.job.job_id
        for truth in truths
        if any(
            not silence.exporters or np.isin(leaves[run.grid.endpoint], silence.exporters).any() for run in truth.runs
        )
    ]
    return {
        "kind": "silence",
        "job_id": "",
        "affected_jobs": hidden,
        "subject_type": "exporter",
        "subject": ", ".join(silence.exporters) or ALL_EXPORTERS,
        "alt_subjects": list(silence.exporters),
        "pp_stage": -1,
        "server": "",
        "start_ns": start_ns,
        "end_ns": end_ns,
        "effect_start_ns": start_ns,
        "effect_end_ns": end_ns,
        "magnitude": 0.0,
        "accept_kinds": ["telemetry"],
        "effective": bool(hidden),
        "impact": 0.0,
        "dp_impact": 0.0,
    }


def _touches(fault: Fault, run: AttemptRun, network: Network) -> bool:
    first, second = network.ends(fault)
    grid = run.grid
    if fault.kind in COMPUTE_FAULTS:
        return bool((grid.gpu == fault.gpu).any())
    if fault.kind in _OF_SPINES:
        return bool(network.slowed_by(fault, run.flows.src, run.flows.dst, run.flows.queue).any())
    if fault.kind == "slow_switch":
        return bool((network.leaf[grid.endpoint] == network.leaf[first]).any())
    return {first, second if fault.kind == "slow_link" else first} <= set(grid.endpoint.tolist())


def _effect(fault: Fault, truth: JobTruth, healthy: Sequence[AttemptRun], scenario: Scenario) -> dict[str, Any] | None:
    """Compare the steps that a fault spans with the same steps without it, if any."""
    begin = np.concatenate([run.begin_ns for run in truth.runs])
    if fault.kind == "hang":  # the step that never ends lasts as long as the recording
        begin = np.append(begin, scenario.end_ns)
    step = np.arange(len(begin) - 1)
    if fault.first_step >= 0:
        during = step[(step >= fault.first_step) & (step <= fault.last_step)]
    else:
        start_ns, end_ns = _span_ns(fault, scenario)
        during = step[(begin[1:] > start_ns) & (begin[:-1] < end_ns)]
    if fault.kind == "hang":
        during = _hanging_step(fault, truth.runs, scenario)
    if not len(during):
        return None
    healthy_s = np.diff(np.concatenate([run.begin_ns for run in healthy])) / 1e9
    same_steps = during[during < len(healthy_s)]
    baseline_s = float(np.mean(healthy_s[same_steps] if len(same_steps) else healthy_s))
    harmed_s = float(np.mean(np.diff(begin)[during] / 1e9))
    return {
        "job_id": truth.job.job_id,
        "first_step": during[0],
        "last_step": during[-1],
        "start_ns": begin[during[0]],
        "end_ns": begin[during[-1] + 1],
        "baseline_step_s": baseline_s,
        "fault_step_s": harmed_s,
        "impact": harmed_s / baseline_s - 1.0,
        "baseline_std_s": np.std(healthy_s),
        "dp_impact": _dp_seconds(truth.runs, during) / max(_dp_seconds(healthy, during), 1e-9) - 1.0,
    }


def _hanging_step(fault: Fault, runs: Sequence[AttemptRun], scenario: Scenario) -> Int64:
    """Return the first step that the GPU never finishes, int64[1] or empty.

    It is the last of its attempt, and not the one in the middle of which the GPU fell ill, but the next.
    """
    last = np.cumsum([len(run.begin_ns) for run in runs]) - 1
    for step, run in zip(last, runs, strict=True):
        if (run.busy_s[-1:, run.grid.gpu == fault.gpu] > scenario.duration_s).any():
            return np.array([step])
    return np.array([], dtype=np.int64)


def _dp_seconds(runs: Sequence[AttemptRun], steps: Int64) -> float:
    """Return the mean seconds that a DP flow of these steps takes; 0 without any."""
    seconds = [
        (flows.end_ns - flows.start_ns)[(flows.kind == DP) & np.isin(flows.step, steps)] / 1e9
        for flows in (run.flows for run in runs)
    ]
    every = np.concatenate(seconds)
    return float(every.mean()) if len(every) else 0.0


def _span_ns(fault: Fault, scenario: Scenario) -> tuple[int, int]:
    end_s = scenario.duration_s if fault.kind == "slow_drift" else min(fault.end_s, scenario.duration_s)
    return max(scenario.start_ns, int(scenario.ns(fault.start_s))), int(scenario.ns(end_s))


def _fault_row(fault: Fault, effects: list[dict[str, Any]], scenario: Scenario, network: Network) -> dict[str, Any]:
    """Describe a fault by the job that it harms most."""
    nothing: dict[str, Any] = {"job_id": "", "start_ns": 0, "end_ns": 0, "impact": 0.0, "dp_impact": 0.0, "grid": None}
    worst = max(effects, key=lambda effect: effect["impact"], default=nothing)
    start_ns, end_ns = _span_ns(fault, scenario)
    if fault.first_step >= 0 and effects:
        start_ns, end_ns = worst["start_ns"], worst["end_ns"]
    return _subject(fault, worst["grid"], network, worst["job_id"]) | {
        "kind": fault.kind,
        "job_id": worst["job_id"],
        "affected_jobs": [effect["job_id"] for effect in effects],
        "server": "" if fault.kind in _OF_SPINES else network.server_names[network.server[network.ends(fault)[0]]],
        "start_ns": start_ns,
        "end_ns": end_ns,
        "effect_start_ns": worst["start_ns"],
        "effect_end_ns": worst["end_ns"],
        "magnitude": fault.factor,
        "accept_kinds": _ACCEPTED[fault.kind],
        "effective": worst["impact"] >= EFFECTIVE_IMPACT,
        "impact": worst["impact"],
        "dp_impact": worst["dp_impact"],
    }


def _subject(fault: Fault, grid: RankGrid | None, network: Network, job_id: str) -> dict[str, Any]:
    """Return a fault's subject, what else may rightly be named, and its stage (-1: none)."""
    first, second = network.ends(fault)
    name, peer = network.addresses[first], network.addresses[second]
    kind, subject, others, stage = "endpoint", name, [network.server_names[network.server[first]]], -1
    if fault.kind == "slow_link":
        kind, subject, others = "link", f"{name}->{peer}", [name, peer]
    elif fault.kind == "slow_switch":
        kind, subject, others = "switch", network.switches[network.leaf[first]], []
    elif fault.kind in _OF_SPINES:
        leaf, spine = network.switches[[network.leaf[first], network.leaves + fault.spine]]
        through_all = fault.kind == "slow_spine"
        kind, subject, others = ("switch", spine, []) if through_all else ("link", f"{leaf}->{spine}", [])
    elif fault.kind == "slow_stage" and grid is not None:
        stage = int(np.flatnonzero(grid.gpu == fault.gpu)[0]) // (len(grid.gpu) // grid.stages)
        kind, subject, others = "stage", f"{job_id}/stage/{stage}", []
    elif grid is not None:
        tensor_groups = grid.endpoint.reshape(-1, grid.tp)
        mine = np.flatnonzero((tensor_groups == first).any(axis=1))
        others += [network.addresses[mate] for mate in tensor_groups[mine].reshape(-1) if mate != first]
        stage = int(mine[0]) // grid.lanes if len(mine) else -1
    return {"subject_type": kind, "subject": subject, "alt_subjects": others, "pp_stage": stage}
