"""The truth about jobs: members, groups, pairs, events, steps and phases."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from prism_ch.core.arrays import order_by, run_starts
from prism_ch.core.graph import components
from prism_ch.core.intervals import cut, tile, union_length
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.result import CP, DP, EP, PAIR_KINDS, PHASES, PP, TP
from prism_ch.simulate.job import Job
from prism_ch.simulate.network import PLAIN, REDUCES, TRAFFIC_NAMES, Flows, Index, Network
from prism_ch.simulate.scenario import Scenario
from prism_ch.simulate.traffic import AttemptRun

#: Kinds of training; if they overlap in time on an endpoint, the first of these names the phase.
TRAINING_KINDS = (DP, PP, EP, CP, TP)
#: The phase of each kind, by the kind's code.
_PHASE_OF_KIND = np.array([PHASES.index(PAIR_KINDS[kind]) for kind in sorted(TRAINING_KINDS)], dtype=np.int32)
_NEVER, _ALWAYS = np.iinfo(np.int64).min, np.iinfo(np.int64).max

TEXTS = pa.list_(pa.string())


def schema(*groups: tuple[pa.DataType, str]) -> pa.Schema:
    """Return a schema of (type, column names divided by blanks)."""
    return pa.schema([(name, of_type) for of_type, names in groups for name in names.split()])


GROUPS = schema(
    (pa.string(), "job_id kind"),
    (pa.int64(), "group_id pp_stage"),
    (TEXTS, "members"),
    (pa.list_(TEXTS), "components"),
    (pa.int64(), "incarnation"),
)
PAIRS = schema(
    (pa.string(), "job_id src_addr dst_addr kind"),
    (TEXTS, "kinds"),
    (pa.int64(), "flows bytes first_ns last_ns"),
    (pa.bool_(), "ack_only"),
)
EVENTS = schema((pa.string(), "job_id kind"), (pa.int64(), "start_ns end_ns"), (pa.int32(), "step"))


class JobTruth:
    """One job as it was simulated.

    `seen` are its flows that the recording holds, `flows` also those cut by its edges; `visible` int64[endpoints],
    rising, are the endpoints that training traffic touches inside the recording.
    """

    def __init__(self, number: int, job: Job, runs: tuple[AttemptRun, ...], flows: Flows, scenario: Scenario) -> None:
        self.number, self.job, self.runs, self.flows = number, job, runs, flows
        self.seen = within(flows, scenario)
        training = self.seen.take(np.isin(self.seen.kind, TRAINING_KINDS))
        self.visible: Int64 = np.unique([training.src, training.dst]).astype(np.int64)


def within(flows: Flows, scenario: Scenario) -> Flows:
    """Return the flows that end inside the recording."""
    return flows.take((flows.end_ns >= scenario.start_ns) & (flows.end_ns < scenario.end_ns))


def job_tables(truth: JobTruth, steps: pa.Table, scenario: Scenario, network: Network) -> dict[str, pa.Table]:
    """Build a job's rows of jobs, job_members, events and groups, from its steps."""
    runs = list(enumerate(truth.runs))
    return {
        "jobs": pa.table({name: [value] for name, value in _job(truth, steps, scenario, network).items()}),
        "job_members": pa.concat_tables(_members(truth, number, run, scenario, network) for number, run in runs),
        "events": pa.Table.from_pylist(list(_event_rows(truth, scenario)), schema=EVENTS),
        "groups": pa.Table.from_pylist(
            [row for number, run in runs for row in _group_rows(truth.job, number, run, network)], schema=GROUPS
        ),
    }


def _job(truth: JobTruth, steps: pa.Table, scenario: Scenario, network: Network) -> dict[str, Any]:
    job, seen = truth.job, truth.seen
    ended = steps["end_ns"].to_numpy()
    inside = (ended >= scenario.start_ns) & (ended <= scenario.end_ns)
    duration_s = steps["duration_s"].to_numpy()[inside & steps["complete"].to_numpy()]
    endpoints = np.unique(np.concatenate([run.grid.endpoint for run in truth.runs]))
    return {
        "job_id": job.job_id,
        "tenant": job.tenant,
        **{axis: getattr(job.layout, axis) for axis in ("tp", "pp", "dp", "cp", "ep")},
        "vpp": job.pipeline.chunks,
        "microbatches": job.pipeline.microbatches,
        "schedule": job.pipeline.schedule,
        "dp_mode": job.sync.mode,
        "overlap": job.sync.overlap,
        "endpoints": pa.scalar(network.addresses[endpoints].tolist(), TEXTS),
        "visible_endpoints": pa.scalar(network.addresses[truth.visible].tolist(), TEXTS),
        "servers": pa.scalar(network.server_names[np.unique(network.server[endpoints])].tolist(), TEXTS),
        "visible": len(truth.visible) > 0,
        "start_ns": scenario.ns(max(job.attempts[0].start_s, 0.0)),
        "end_ns": scenario.ns(min(job.attempts[-1].end_s, scenario.duration_s)),
        "first_flow_ns": seen.start_ns.min() if len(seen) else 0,
        "last_flow_ns": seen.end_ns.max() if len(seen) else 0,
        "incarnations": len(truth.runs),
        "steps": inside.sum(),
        "step_s_median": np.median(duration_s) if len(duration_s) else float("nan"),
        "dp_group_size": job.layout.dp * job.layout.cp,
    }


def _members(truth: JobTruth, attempt: int, run: AttemptRun, scenario: Scenario, network: Network) -> pa.Table:
    grid, ranks = run.grid, len(run.grid.endpoint)
    stage, data, expert, context, tensor = np.unravel_index(np.arange(ranks), (grid.stages, *grid.shape, grid.tp))
    columns = {
        "job_id": pa.repeat(truth.job.job_id, ranks),
        "endpoint": pa.array(network.addresses[grid.endpoint]),
        "server": pa.array(network.server_names[grid.server]),
        "gpu": grid.gpu.astype(np.int64) % network.cluster.gpus,
        "pp_stage": stage,
        "dp_rank": data * grid.shape[1] + expert,
        "tp_rank": tensor,
        "cp_rank": context,
        "ep_rank": expert,
        "dp_group": stage * grid.tp + tensor,
        "incarnation": pa.repeat(attempt, ranks),
        "first_ns": pa.repeat(scenario.ns(max(run.attempt.start_s, 0.0)), ranks),
        "last_ns": pa.repeat(scenario.ns(min(run.attempt.end_s, scenario.duration_s)), ranks),
        "visible": np.isin(grid.endpoint, truth.visible),
    }
    return pa.table(columns)


def _event_rows(truth: JobTruth, scenario: Scenario) -> Iterator[dict[str, Any]]:
    ended_s = None
    for run in truth.runs:
        events = [(pause.kind, pause.begin_s, pause.until_s, pause.step) for pause in run.pauses]
        if ended_s is not None:
            events.append(("restart", ended_s, run.attempt.start_s + run.attempt.startup_s, run.first_step))
        ended_s = run.attempt.end_s
        for kind, begin_s, until_s, step in sorted(events, key=lambda event: event[1]):
            ends = {"start_ns": scenario.ns(begin_s), "end_ns": scenario.ns(until_s)}
            yield {"job_id": truth.job.job_id, "kind": kind, **ends, "step": step}


def _group_rows(job: Job, attempt: int, run: AttemptRun, network: Network) -> Iterator[dict[str, Any]]:
    """Yield one row a communicator that may leave a server.

    `members` are those that the job has, `components` those of them that the network shows as joined.
    """
    grid, inner = run.grid, ((EP, job.experts), (CP, job.context), (TP, job.tensor))
    for kind in (DP, PP, *(kind for kind, traffic in inner if traffic is not None)):
        flows = run.flows.take(run.flows.kind == kind)
        label = components(len(network.addresses), flows.src, flows.dst)
        touched = np.unique([flows.src, flows.dst])
        for number, ranks in enumerate(grid.communicators(kind)):
            if len(ranks) == 1:
                continue
            members = grid.endpoint[ranks]
            joined: dict[int, list[str]] = {}
            for endpoint in dict.fromkeys(members[np.isin(members, touched)].tolist()):
                joined.setdefault(int(label[endpoint]), []).append(network.addresses[endpoint])
            yield {
                "job_id": job.job_id,
                "kind": TRAFFIC_NAMES[kind],
                "group_id": number,
                "pp_stage": 0 if kind == PP else ranks[0] // (grid.lanes * grid.tp),
                "members": network.addresses[members],
                "components": [part if kind == PP else sorted(part) for part in joined.values()],
                "incarnation": attempt,
            }


def pairs_table(flows: Flows, counted_bytes: Int64, ack_bytes: Int64, scenario: Scenario, network: Network) -> pa.Table:
    """Build one row a job and directed pair, before any loss or repetition.

    The job is '' for what belongs to none. `counted_bytes`, `ack_bytes`: int64[flows], of each flow and its
    acknowledgements (none: empty).

    1. Sort flows by job, pair and kind, and add up the runs of equal ones.
    2. Name each pair's kinds, that with most bytes first.
    3. Append the reverse of pairs whose way back carries nothing but acknowledgements.
    """
    if not len(flows):
        return PAIRS.empty_table()
    order = order_by(flows.job, flows.src, flows.dst, flows.kind)
    flows, counted_bytes = flows.take(order), counted_bytes[order]
    first = run_starts(flows.job, flows.src, flows.dst)
    kind_first = run_starts(flows.job, flows.src, flows.dst, flows.kind)
    kind_bytes = dict(zip(kind_first.tolist(), np.add.reduceat(counted_bytes, kind_first).tolist(), strict=True))
    kinds = [
        [TRAFFIC_NAMES[flows.kind[row]] for row in sorted(rows.tolist(), key=lambda row: -kind_bytes[row])]
        for rows in np.split(kind_first, np.searchsorted(kind_first, first[1:]))
    ]
    src, dst = network.addresses[flows.src[first]], network.addresses[flows.dst[first]]
    job_ids = np.array([*(job.job_id for job in scenario.jobs), ""])
    columns: dict[str, Any] = {
        "job_id": job_ids[flows.job[first]],
        "src_addr": src,
        "dst_addr": dst,
        "kind": [names[0] for names in kinds],
        "kinds": kinds,
        "flows": np.diff(first, append=len(flows)),
        "bytes": np.add.reduceat(counted_bytes, first),
        "first_ns": np.minimum.reduceat(flows.start_ns, first),
        "last_ns": np.maximum.reduceat(flows.end_ns, first),
        "ack_only": np.zeros(len(first), dtype=bool),
    }
    pairs = pa.Table.from_pydict(columns, schema=PAIRS)
    if not len(ack_bytes):
        return pairs
    known = set(zip(src, dst, strict=True))
    alone = np.array([pair not in known for pair in zip(dst, src, strict=True)])
    columns |= {"src_addr": dst, "dst_addr": src, "ack_only": alone}
    columns["bytes"] = np.add.reduceat(ack_bytes[order], first)
    return pa.concat_tables([pairs, pa.Table.from_pydict(columns, schema=PAIRS).filter(alone)])


class StepGrid:
    """Steps of one job: arrays are [steps, endpoints], but `attempt` [steps] and `endpoint` [endpoints].

    `end_ns` counts a gathering of parameters to the step it follows, `reduce_end_ns` does not. `complete`: both
    bounds lie inside the recording. `present`: the endpoint had traffic in that step. `phase_s`, float64[phases, steps,
    endpoints], is NaN if the scenario wants no phases.
    """

    def __init__(self, truth: JobTruth, scenario: Scenario, network: Network) -> None:
        """Read the bounds of all steps off a job's flows.

        1. A step ends on an endpoint with its last reduction or gathering; with its last flow if it never has any.
        2. It starts where the step before ended, and the first of an attempt when its first rank began.
        3. An endpoint without such a flow in a step is not present; a step that never finished has no bounds.
        """
        self._job_id, self.endpoint = truth.job.job_id, network.addresses[truth.visible]
        self._training = training = truth.flows.take(np.isin(truth.flows.kind, TRAINING_KINDS))
        place = self._place = np.full(len(network.addresses), -1, dtype=np.int32)
        place[truth.visible] = np.arange(len(truth.visible))
        counts = [len(run.begin_ns) for run in truth.runs]
        shape = (sum(counts), len(truth.visible))
        self.attempt = np.repeat(np.arange(len(truth.runs)), counts)
        self.end_ns = self._last_end(training.role != PLAIN, shape)
        self.reduce_end_ns = self._last_end(training.role == REDUCES, shape)
        without_dp = (self.end_ns == _NEVER).all(axis=0)
        last_end = self._last_end(training.role >= PLAIN, shape)
        self.end_ns[:, without_dp] = self.reduce_end_ns[:, without_dp] = last_end[:, without_dp]
        finished = [run.finish_ns < scenario.start_ns + run.attempt.end_s * 1e9 for run in truth.runs]
        self.end_ns[~np.concatenate(finished)] = _NEVER
        begin = np.concatenate([run.begin_ns for run in truth.runs])[:, None]
        opens = np.diff(self.attempt, prepend=-1)[:, None] != 0
        self.start_ns = np.where(opens, begin, np.roll(self.end_ns, 1, axis=0))
        self.reduce_start_ns = np.where(opens, begin, np.roll(self.reduce_end_ns, 1, axis=0))
        self.present = self.end_ns != _NEVER
        inside = (self.start_ns >= scenario.start_ns) & (self.end_ns <= scenario.end_ns)
        self.complete = self.present & inside & ~opens
        self.busy_s = np.zeros(shape)
        for run in truth.runs:
            column = place[run.grid.endpoint]
            rows = run.first_step + np.arange(len(run.begin_ns))
            # the busier GPU, if two share an endpoint
            np.maximum.at(self.busy_s, (rows[:, None], column[column >= 0]), run.busy_s[:, column >= 0])
        self.phases, self.phase_s = self._divide(wanted=scenario.phases)
        self.idle_s = self._idle(truth, scenario)

    def _last_end(self, rows: Bool, shape: tuple[int, int]) -> Int64:
        """Return when the last flow of each step ended on each endpoint, either way."""
        latest, flows = np.full(shape, _NEVER), self._training.take(rows & (self._training.step >= 0))
        for column in (self._place[flows.src], self._place[flows.dst]):
            seen = column >= 0
            np.maximum.at(latest, (flows.step[seen], column[seen]), flows.end_ns[seen])
        return latest

    def tables(self) -> dict[str, pa.Table]:
        """Build the job's rows of the tables steps, gpu_steps and phases."""
        return {"steps": self._steps(), "gpu_steps": self._gpu_steps(), "phases": self.phases}

    def _divide(self, *, wanted: bool) -> tuple[pa.Table, Float64]:
        """Divide steps into phases, if wanted, and sum those to seconds.

        At every instant the foremost kind in TRAINING_KINDS that moves bytes on an endpoint names its phase.
        """
        training = self._training
        column, step = (axis.astype(np.int32) for axis in np.nonzero(self.present.T & wanted))
        span_start, span_end = self.start_ns[step, column], self.end_ns[step, column]
        line = self._place[np.concatenate([training.src, training.dst])]
        start, end = (np.tile(times, 2)[line >= 0] for times in (training.start_ns, training.end_ns))
        parts = cut(line[line >= 0], start, end, column, span_start, span_end)
        label = _PHASE_OF_KIND[np.tile(training.kind, 2)[line >= 0][parts.row]]
        span, strongest = parts.span.astype(np.int32), _PHASE_OF_KIND[list(TRAINING_KINDS)].tolist()
        pieces = tile(span_start, span_end, span, parts.start, parts.end, label, strongest=strongest, fill=0)
        step, column = step[pieces.group], column[pieces.group]
        seconds = np.full((len(PHASES), *self.present.shape), 0.0 if wanted else np.nan)
        np.add.at(seconds, (pieces.label, step, column), (pieces.end - pieces.start) / 1e9)
        columns = {
            "job_id": pa.repeat(self._job_id, len(step)),
            "endpoint": pa.array(self.endpoint[column], pa.string()),
            "step": step,
            "phase": pa.array(np.array(PHASES)[pieces.label], pa.string()),
            "start_ns": pieces.start,
            "end_ns": pieces.end,
        }
        return pa.table(columns), seconds

    def _idle(self, truth: JobTruth, scenario: Scenario) -> Float64:
        """Measure how long ranks wait for others while their endpoint moves nothing, float64[steps, endpoints].

        NaN if the scenario wants no phases. Of GPUs that share an endpoint, both may wait.
        """
        if not scenario.phases:
            return np.full(self.present.shape, np.nan)
        parts = [(run.grid.endpoint[run.waits.rank], run.waits.start_s, run.waits.end_s) for run in truth.runs]
        endpoint, start_s, end_s = (np.concatenate(column) for column in zip(*parts, strict=True))
        training = self._training
        moving = np.concatenate([training.src, training.dst])
        moved = self._in_steps(moving, *(np.tile(times, 2) for times in (training.start_ns, training.end_ns)))
        waited = self._in_steps(endpoint, scenario.ns(start_s), scenario.ns(end_s))
        cells = self.present.size
        cell = np.concatenate([moved[0], waited[0]])
        start_ns, end_ns = (np.concatenate([moved[column], waited[column]]) for column in (1, 2))
        seconds = (union_length(cell, start_ns, end_ns, cells) - union_length(*moved, cells)) / 1e9
        return np.asarray(seconds.reshape(self.present.T.shape).T)

    def _in_steps(self, endpoint: Index, start_ns: Int64, end_ns: Int64) -> tuple[Int32, Int64, Int64]:
        """Cut intervals to the steps of endpoints. Returns cells (endpoint x steps + step), starts and ends."""
        column, step = (axis.astype(np.int32) for axis in np.nonzero(self.present.T))
        line = self._place[endpoint]
        seen = line >= 0
        parts = cut(
            line[seen], start_ns[seen], end_ns[seen], column, self.start_ns[step, column], self.end_ns[step, column]
        )
        cell = column[parts.span] * np.int32(len(self.present)) + step[parts.span]
        return cell.astype(np.int32), parts.start, parts.end

    def _gpu_steps(self) -> pa.Table:
        rows = step, column = np.nonzero(self.present)
        start, end = self.start_ns[rows], self.end_ns[rows]
        columns = {
            "job_id": pa.repeat(self._job_id, len(step)),
            "endpoint": pa.array(self.endpoint[column], pa.string()),
            "step": step.astype(np.int32),
            "start_ns": start,
            "end_ns": end,
            "duration_s": (end - start) / 1e9,
            **{f"{name.lower()}_s": seconds[rows] for name, seconds in zip(PHASES, self.phase_s, strict=True)},
            "busy_s": self.busy_s[rows],
            "idle_s": self.idle_s[rows],
            "complete": self.complete[rows],
            "visible": np.ones(len(step), dtype=bool),
            "incarnation": self.attempt[step].astype(np.int32),
            "rs_start_ns": self.reduce_start_ns[rows],
            "rs_end_ns": self.reduce_end_ns[rows],
        }
        return pa.table(columns)

    def _steps(self) -> pa.Table:
        """Build one row a step, which ends with its last endpoint."""
        step = np.flatnonzero(self.present.any(axis=1))
        present, attempt = self.present[step], self.attempt[step]
        ends = (self.end_ns, self.reduce_end_ns)
        end, reduce_end = (np.where(present, end_ns[step], _NEVER).max(axis=1, initial=_NEVER) for end_ns in ends)
        begin = np.where(present, self.start_ns[step], _ALWAYS).min(axis=1, initial=_ALWAYS)
        opens = np.diff(attempt, prepend=-1) != 0
        start, reduce_start = (np.where(opens, begin, np.roll(last, 1)) for last in (end, reduce_end))

        def mean(values: Float64) -> Float64:
            return np.asarray((values[step] * present).sum(axis=1) / np.maximum(present.sum(axis=1), 1))

        columns = {
            "job_id": pa.repeat(self._job_id, len(step)),
            "step": step.astype(np.int32),
            "incarnation": attempt.astype(np.int32),
            "start_ns": start,
            "end_ns": end,
            "duration_s": (end - start) / 1e9,
            "duration_mean_s": mean((self.end_ns - self.start_ns) / 1e9),
            "complete": (self.complete[step] | ~present).all(axis=1),
            "warmup": np.zeros(len(step), dtype=bool),
            "busy_s": mean(self.busy_s),
            **{f"{name.lower()}_s": mean(seconds) for name, seconds in zip(PHASES, self.phase_s, strict=True)},
            "rs_start_ns": reduce_start,
            "rs_end_ns": reduce_end,
        }
        return pa.table(columns)
