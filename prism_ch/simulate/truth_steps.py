"""The truth about time: when each endpoint's and each job's steps end, and what fills them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from prism_ch.model.columns import Bool, Float64, Int64, UInt8
from prism_ch.model.result import CP, DP, EP, PAIR_KINDS, PHASES, PP, TP
from prism_ch.simulate.cluster import Network
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.transfers import PLAIN, REDUCES, Transfers
from prism_ch.simulate.truth import TRAINING_KINDS, JobTruth, recording_ns

#: Where kinds overlap in time on an endpoint, the first of these names the phase.
PRIORITY = (DP, PP, EP, CP, TP)
_PHASE_OF_KIND = {kind: PHASES.index(PAIR_KINDS[kind]) for kind in PRIORITY}
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class StepGrid:
    """Steps of one job: arrays are [steps, endpoints], but `step`, `life` [steps] and `endpoint` [endpoints].

    `end_ns` counts a gathering of parameters to the step it follows, `reduce_end_ns` does not. `complete`: both
    bounds lie inside the recording. `present`: the endpoint had traffic in that step. `phase_s`: float64[phases,
    steps, endpoints], all NaN where phases were not asked for.
    """

    step: Int64
    life: Int64
    endpoint: Int64
    start_ns: Int64
    end_ns: Int64
    reduce_start_ns: Int64
    reduce_end_ns: Int64
    busy_s: Float64
    complete: Bool
    present: Bool
    phase_s: Float64


@dataclass(frozen=True, slots=True)
class PhaseColumns:
    """Phases of a job's endpoints (rows of the Network), by (endpoint, start); `phase` is a position in PHASES."""

    endpoint: Int64
    step: Int64
    phase: UInt8
    start_ns: Int64
    end_ns: Int64


def step_grid(truth: JobTruth, scenario: Scenario, network: Network) -> tuple[StepGrid, PhaseColumns]:
    """Read the bounds of all steps off a job's flows, as the contract defines them, and divide them into phases."""
    flows = truth.all.take(np.isin(truth.all.kind, TRAINING_KINDS))
    endpoint = truth.visible()
    local = np.full(len(network.addresses), -1)
    local[endpoint] = np.arange(len(endpoint))
    steps = sum(len(run.begin_ns) for run in truth.lives)
    life = np.repeat(np.arange(len(truth.lives)), [len(run.begin_ns) for run in truth.lives])
    closing = _last_end(flows, flows.role != PLAIN, local, (steps, len(endpoint)))
    reducing = _last_end(flows, flows.role == REDUCES, local, (steps, len(endpoint)))
    plain = _last_end(flows, np.ones(len(flows), dtype=bool), local, (steps, len(endpoint)))
    without_dp = (closing == _NEVER).all(axis=0)
    closing[:, without_dp] = plain[:, without_dp]
    reducing[:, without_dp] = plain[:, without_dp]
    finished = np.concatenate([run.finish_ns < scenario.start_ns + run.life.end_s * 1e9 for run in truth.lives])
    closing[~finished] = _NEVER
    begin = np.concatenate([run.begin_ns for run in truth.lives])
    opening = np.diff(life, prepend=-1) != 0
    present = closing != _NEVER
    start, reduce_start = _previous(closing, begin, opening), _previous(reducing, begin, opening)
    first_ns, last_ns = recording_ns(scenario)
    complete = present & (start >= first_ns) & (closing <= last_ns) & ~opening[:, None]
    if scenario.phases:
        phases = _phases(flows, endpoint, local, closing, start)
        phase_s = _phase_seconds(phases, local, (len(PHASES), steps, len(endpoint)))
    else:
        nothing = np.empty(0, dtype=np.int64)
        phases = PhaseColumns(nothing, nothing, nothing.astype(np.uint8), nothing, nothing)
        phase_s = np.full((len(PHASES), steps, len(endpoint)), np.nan)
    grid = StepGrid(
        step=np.arange(steps),
        life=life,
        endpoint=endpoint,
        start_ns=start,
        end_ns=closing,
        reduce_start_ns=reduce_start,
        reduce_end_ns=reducing,
        busy_s=_busy_seconds(truth, local, (steps, len(endpoint))),
        complete=complete,
        present=present,
        phase_s=phase_s,
    )
    return grid, phases


def gpu_steps_table(grids: list[tuple[JobTruth, StepGrid]], network: Network) -> pa.Table:
    """One row a job, step and visible endpoint."""
    parts = []
    names = np.array(network.addresses)
    for truth, grid in grids:
        step, column = np.nonzero(grid.present)
        phase_s = grid.phase_s[:, step, column]
        parts.append(
            pa.table(
                {
                    "job_id": pa.array([truth.job.job_id] * len(step), pa.string()),
                    "endpoint": pa.array(names[grid.endpoint[column]], pa.string()),
                    "step": grid.step[step].astype(np.int32),
                    **_bounds(grid, step, column),
                    **{f"{name.lower()}_s": seconds for name, seconds in zip(PHASES, phase_s, strict=True)},
                    "busy_s": grid.busy_s[step, column],
                    "complete": grid.complete[step, column],
                    "visible": np.ones(len(step), dtype=bool),
                    "incarnation": grid.life[step].astype(np.int32),
                    "rs_start_ns": grid.reduce_start_ns[step, column],
                    "rs_end_ns": grid.reduce_end_ns[step, column],
                }
            )
        )
    return pa.concat_tables(parts)


def _bounds(grid: StepGrid, step: Int64, column: Int64) -> dict[str, npt.NDArray[np.generic]]:
    start, end = grid.start_ns[step, column], grid.end_ns[step, column]
    return {"start_ns": start, "end_ns": end, "duration_s": (end - start) / 1e9}


def steps_table(grids: list[tuple[JobTruth, StepGrid]]) -> pa.Table:
    """One row a job and step: it ends with its last endpoint and starts where the step before it ended."""
    parts = []
    for truth, grid in grids:
        shown = np.flatnonzero(grid.present.any(axis=1)) if grid.present.size else np.empty(0, dtype=np.int64)
        present = grid.present[shown]
        end = np.where(present, grid.end_ns[shown], _NEVER).max(axis=1, initial=_NEVER)
        reduce_end = np.where(present, grid.reduce_end_ns[shown], _NEVER).max(axis=1, initial=_NEVER)
        begin = np.where(present, grid.start_ns[shown], np.iinfo(np.int64).max).min(
            axis=1, initial=np.iinfo(np.int64).max
        )
        opening = np.diff(grid.life[shown], prepend=-1) != 0
        start = np.where(opening, begin, np.concatenate([begin[:1], end[:-1]]))
        reduce_start = np.where(opening, begin, np.concatenate([begin[:1], reduce_end[:-1]]))

        def mean(values: Float64, present: Bool = present, shown: Int64 = shown) -> Float64:
            return np.asarray(
                (values[shown] * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1), dtype=np.float64
            )

        parts.append(
            pa.table(
                {
                    "job_id": pa.array([truth.job.job_id] * len(shown), pa.string()),
                    "step": grid.step[shown].astype(np.int32),
                    "incarnation": grid.life[shown].astype(np.int32),
                    "start_ns": start,
                    "end_ns": end,
                    "duration_s": (end - start) / 1e9,
                    "duration_mean_s": mean((grid.end_ns - grid.start_ns) / 1e9),
                    "complete": (grid.complete[shown] | ~present).all(axis=1),
                    "warmup": np.zeros(len(shown), dtype=bool),
                    "busy_s": mean(grid.busy_s),
                    **{f"{name.lower()}_s": mean(seconds) for name, seconds in zip(PHASES, grid.phase_s, strict=True)},
                    "rs_start_ns": reduce_start,
                    "rs_end_ns": reduce_end,
                }
            )
        )
    return pa.concat_tables(parts)


def phases_table(phases: list[tuple[JobTruth, PhaseColumns]], network: Network) -> pa.Table:
    """One row a phase."""
    names = np.array(network.addresses)
    return pa.concat_tables(
        pa.table(
            {
                "job_id": pa.array([truth.job.job_id] * len(part.step), pa.string()),
                "endpoint": pa.array(names[part.endpoint], pa.string()),
                "step": part.step.astype(np.int32),
                "phase": pa.array(np.array(PHASES)[part.phase], pa.string()),
                "start_ns": part.start_ns,
                "end_ns": part.end_ns,
            }
        )
        for truth, part in phases
    )


def _busy_seconds(truth: JobTruth, local: Int64, shape: tuple[int, int]) -> Float64:
    """Return how long each endpoint's GPU computed in each step (the busier, where two share a NIC)."""
    busy = np.zeros(shape)
    for run in truth.lives:
        shown = local[run.grid.endpoint] >= 0
        rows = run.first_step + np.arange(len(run.begin_ns))
        np.maximum.at(busy, (rows[:, None], local[run.grid.endpoint[shown]]), run.busy_s[:, shown])
    return busy


def _last_end(flows: Transfers, rows: Bool, local: Int64, shape: tuple[int, int]) -> Int64:
    """Return when the last of the chosen flows of each step ended on each endpoint, whichever way it went."""
    latest = np.full(shape, _NEVER)
    chosen = flows.take(rows & (flows.step >= 0))
    for side in (chosen.src, chosen.dst):
        shown = local[side] >= 0
        np.maximum.at(latest, (chosen.step[shown], local[side[shown]]), chosen.end_ns[shown])
    return latest


def _previous(end_ns: Int64, begin_ns: Int64, opening: Bool) -> Int64:
    """Return where the step before ended, or, for the first step of a life, when the job began it."""
    start = np.empty_like(end_ns)
    start[1:] = end_ns[:-1]
    start[opening] = begin_ns[opening, None]
    return start


def _phases(flows: Transfers, endpoint: Int64, local: Int64, end_ns: Int64, start_ns: Int64) -> PhaseColumns:
    """Sweep each endpoint's time: at every instant the foremost kind in PRIORITY that moves bytes names the phase."""
    training = flows.take(np.isin(flows.kind, PRIORITY))
    place = local[np.concatenate([training.src, training.dst])]
    shown = place >= 0
    doubled = [np.tile(column, 2)[shown] for column in (training.start_ns, training.end_ns, training.kind)]
    place = place[shown]
    known = end_ns != _NEVER
    step, column = np.nonzero(known)
    marks = np.concatenate([start_ns[step, column], end_ns[step, column]])
    count = len(place)
    where = np.concatenate([place, place, column, column])
    when = np.concatenate([doubled[0], doubled[1], marks])
    kind = np.concatenate([doubled[2], doubled[2], np.zeros(len(marks), dtype=np.uint8)])
    delta = np.concatenate([np.ones(count), -np.ones(count), np.zeros(len(marks))]).astype(np.int64)
    entered = np.concatenate([np.full(2 * count, -1), step, np.full(len(step), -1)])
    order = np.lexsort((when, where))
    where, when, kind, delta, entered = where[order], when[order], kind[order], delta[order], entered[order]
    phase = np.zeros(len(when), dtype=np.uint8)
    for code in reversed(PRIORITY):
        phase[np.cumsum(np.where(kind == code, delta, 0)) > 0] = _PHASE_OF_KIND[code]
    row = np.arange(len(when))
    latest = np.maximum.accumulate(np.where(entered >= 0, row, -1))
    inside = latest >= 0
    current = np.where(inside, entered[latest], -1)
    inside &= where[latest] == where
    until = np.append(when[1:], 0)
    inside &= np.append(where[1:] == where[:-1], False)
    inside[inside] &= until[inside] <= end_ns[current[inside], where[inside]]
    inside &= until > when
    where, when, until, phase, current = where[inside], when[inside], until[inside], phase[inside], current[inside]
    fresh = np.ones(len(where), dtype=bool)
    fresh[1:] = (np.diff(where) != 0) | (np.diff(current) != 0) | (np.diff(phase.astype(np.int64)) != 0)
    last = np.append(fresh[1:], True)[: len(fresh)]
    return PhaseColumns(endpoint[where[fresh]], current[fresh], phase[fresh], when[fresh], until[last])


def _phase_seconds(phases: PhaseColumns, local: Int64, shape: tuple[int, int, int]) -> Float64:
    """Sum phases to seconds, float64[phases, steps, endpoints]."""
    index = np.ravel_multi_index((phases.phase.astype(np.int64), phases.step, local[phases.endpoint]), shape)
    seconds = np.zeros(int(np.prod(shape)))
    np.add.at(seconds, index, (phases.end_ns - phases.start_ns) / 1e9)
    return seconds.reshape(shape)
