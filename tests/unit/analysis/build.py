"""Small scenes of training traffic, made by hand: milliseconds from the scene's beginning, bytes of payload."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from prism_ch.analysis.continuity.continuity import ContinuedJob, RebuiltAttempt
from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.stops.rests import StepsSeen, find_rests
from prism_ch.analysis.jobs.job_traffic import JobTraffic
from prism_ch.analysis.observe.earlier import EarlierFlows
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.analysis.observe.observe import Observed
from prism_ch.analysis.roles.stage_order import number_after, order
from prism_ch.analysis.steps.phases import reconstruct
from prism_ch.model.columns import Bool, Int64, ragged
from prism_ch.model.exporter import ExporterHistory, ExporterStates, Timeouts
from prism_ch.model.finding import Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.job import Division, GroupSet, PairKinds, RecognisedJob
from prism_ch.model.memory import Attempt, JobMemory
from prism_ch.model.params import ClockParams
from prism_ch.model.result import DP, OTHER, PP, GpuSteps, Group, JobRecord, JobStatus, Members, Pairs, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window

#: When every scene begins: 2023-11-14 22:13:00 UTC, the beginning of a minute.
BEGIN_NS = 1_699_999_980 * 10**9
MS = 10**6
MB = 10**6
TCP, UDP = 6, 17
ROCE_HEADER = 62


@dataclass(frozen=True)
class Flow:
    """One message from one endpoint to another, seen by one exporter; `way` is known where there is one."""

    src: int
    dst: int
    start_ms: float
    length_ms: float = 10.0
    size: int = 40 * MB
    exporter: str = ""
    port: int = 50_000
    proto: int = UDP
    way: tuple[str, ...] = ()

    @property
    def start_ns(self) -> int:
        return BEGIN_NS + round(self.start_ms * MS)

    @property
    def end_ns(self) -> int:
        return self.start_ns + round(self.length_ms * MS)


def topology(
    servers: int, gpus: int = 1, tenants: Sequence[str] = ("acme",), leaves: Sequence[str] | None = None
) -> Topology:
    """Endpoint `server * gpus + gpu` of each GPU; tenants and leaves are dealt to the servers in turn."""
    server = [number for number in range(servers) for _ in range(gpus)]
    gpu = list(range(gpus)) * servers
    leaves = leaves or ("leaf",)
    leaf_names, tenant_names = (tuple(sorted(set(names))) for names in (leaves, tenants))
    return Topology(
        endpoints=tuple(f"10.0.{100 + s}.{g}" for s, g in zip(server, gpu, strict=True)),
        server=np.array(server, np.int32),
        gpu=np.array(gpu, np.uint8),
        rail=np.array(gpu, np.int32),
        leaf=np.array([leaf_names.index(leaves[s % len(leaves)]) for s in server], np.int32),
        pod=np.zeros(len(server), np.int32),
        tenant=np.array([tenant_names.index(tenants[s % len(tenants)]) for s in server], np.int32),
        server_names=tuple(f"host-{s:02}" for s in range(servers)),
        leaf_names=leaf_names,
        pod_names=("pod",),
        tenant_names=tenant_names,
    )


def batch(flows: Iterable[Flow], exporters: Sequence[str] | None = None) -> FlowBatch:
    """Records of the flows as the store would hand them over: repeats folded, sorted; headers added to the payload."""
    names = tuple(sorted({flow.exporter for flow in flows})) if exporters is None else tuple(exporters)
    rows = sorted(set(flows), key=lambda f: (f.src, f.dst, f.start_ns, f.end_ns, f.port, f.exporter))
    if not rows:
        return FlowBatch.empty()
    ways = tuple(sorted({flow.way for flow in rows} - {()}))
    packets = np.array([max(1, -(-flow.size // 4096)) for flow in rows])
    header = np.array([52 if flow.proto == TCP else ROCE_HEADER for flow in rows])
    return FlowBatch(
        start_ns=np.array([flow.start_ns for flow in rows]),
        end_ns=np.array([flow.end_ns for flow in rows]),
        src=np.array([flow.src for flow in rows]),
        dst=np.array([flow.dst for flow in rows]),
        src_port=np.array([flow.port for flow in rows]),
        dst_port=np.full(len(rows), 4791),
        proto=np.array([flow.proto for flow in rows]),
        bytes=np.array([flow.size for flow in rows]) + header * packets,
        packets=packets,
        exporter=np.array([names.index(flow.exporter) for flow in rows]),
        way=np.array([ways.index(flow.way) if flow.way else -1 for flow in rows]),
        exporters=names,
        ways=ways,
    )


def traffic(flows: Iterable[Flow], blur_ms: float = 0, tick_ms: float = 0) -> Traffic:
    """The flows as bursts, one each."""
    rows = sorted(flows, key=lambda f: (f.src, f.dst, f.start_ns))
    pairs = sorted({(flow.src, flow.dst) for flow in rows})
    return Traffic(
        pair=np.array([pairs.index((flow.src, flow.dst)) for flow in rows], np.int32),
        start_ns=np.array([flow.start_ns for flow in rows]),
        end_ns=np.array([flow.end_ns for flow in rows]),
        payload=np.array([flow.size for flow in rows]),
        pair_src=np.array([src for src, _ in pairs], np.int32),
        pair_dst=np.array([dst for _, dst in pairs], np.int32),
        pair_blur_ns=np.full(len(pairs), round(blur_ms * MS)),
        pair_tick_ns=np.full(len(pairs), max(round(tick_ms * MS), 1)),
    )


def every(step_ms: float, steps: int, first_ms: float = 0.0) -> list[float]:
    """Moments a step apart."""
    return [first_ms + step_ms * step for step in range(steps)]


def ring(members: Sequence[int], ends_ms: Iterable[float], *, length_ms: float = 40, size: int = 40 * MB) -> list[Flow]:
    """A collective round a ring that ends at each of the moments: every member sends to the next."""
    hops = list(zip(members, [*members[1:], members[0]], strict=True))
    return [Flow(src, dst, end - length_ms, length_ms, size) for end in ends_ms for src, dst in hops]


def buckets(
    members: Sequence[int], ends_ms: Sequence[float], sizes: Sequence[int], apart_ms: float, length_ms: float = 20
) -> list[Flow]:
    """Gradients reduced in several buckets, the last of which ends at each of the moments."""
    flows = []
    for place, size in enumerate(reversed(sizes)):
        flows += ring(members, [end - place * apart_ms for end in ends_ms], length_ms=length_ms, size=size)
    return flows


def pipeline(
    stages: Sequence[int],
    starts_ms: Iterable[float],
    *,
    microbatches: int = 4,
    forward_ms: float = 20,
    backward_ms: float = 40,
    message_ms: float = 4,
    size: int = 8 * MB,
    slow: Mapping[int, float] = MappingProxyType({}),
) -> list[Flow]:
    """One pass of microbatches through a pipeline from each of the moments on: one forward, one backward in turn.

    A stage that occurs twice is one of an interleaved pipeline, and does one thing at a time. Some are `slow`, by so
    many times.
    """
    done = _one_forward_one_backward(stages, microbatches, forward_ms, backward_ms, message_ms, slow)
    flows = []
    for start in starts_ms:
        for (stage, kind, _), moment in done.items():
            other = stage + 1 if kind == "F" else stage - 1
            if 0 <= other < len(stages):
                flows.append(Flow(stages[stage], stages[other], start + moment, message_ms, size))
    return flows


def _one_forward_one_backward(
    stages: Sequence[int],
    microbatches: int,
    forward_ms: float,
    backward_ms: float,
    message_ms: float,
    slow: Mapping[int, float],
) -> dict[tuple[int, str, int], float]:
    """When each place in the pipeline has done each microbatch's forward and backward pass."""
    depth, todo = len(stages), []
    for stage in range(depth):
        warm = min(depth - stage - 1, microbatches)
        forward, backward = ([(kind, m) for m in range(microbatches)] for kind in "FB")
        steady = [op for pair in zip(forward[warm:], backward, strict=False) for op in pair]
        todo.append([*forward[:warm], *steady, *backward[microbatches - warm :]])
    done: dict[tuple[int, str, int], float] = {}
    free = dict.fromkeys(stages, 0.0)
    while any(todo):
        for stage, ops in enumerate(todo):
            if not ops:
                continue
            kind, m = ops[0]
            before = (stage - 1, "F", m) if kind == "F" else (stage + 1, "B", m)
            needs = before if 0 <= before[0] < depth else ((stage, "F", m) if kind == "B" else None)
            if needs is None or needs in done:
                arrival = 0.0 if needs is None else done[needs] + (message_ms if needs[0] != stage else 0)
                rank = stages[stage]
                free[rank] = max(free[rank], arrival) + (forward_ms if kind == "F" else backward_ms) * slow.get(rank, 1)
                done[stage, kind, m] = free[rank]
                ops.pop(0)
    return done


def job(
    grid: Sequence[Sequence[int]],
    steps: int,
    step_ms: float = 1000,
    *,
    microbatches: int = 4,
    first_ms: float = 0,
) -> list[Flow]:
    """A job of `grid[stage][replica]`: in every step the replicas' pipelines, then each stage's gradients in a ring."""
    starts = every(step_ms, steps, first_ms)
    flows: list[Flow] = []
    if len(grid) > 1:
        for replica in zip(*grid, strict=True):
            flows += pipeline(replica, starts, microbatches=microbatches)
    if len(grid[0]) > 1:
        for stage in grid:
            flows += ring(stage, [start + step_ms for start in starts])
    return flows


def shaken(flows: Iterable[Flow], seed: int, ms: float = 1.0) -> list[Flow]:
    """The flows, each moved by a little."""
    chance = np.random.default_rng(seed)
    return [replace(flow, start_ms=flow.start_ms + float(chance.normal(0, ms))) for flow in flows]


def shifted(flows: Iterable[Flow], ms: float) -> list[Flow]:
    """The flows, all moved by the same time."""
    return [replace(flow, start_ms=flow.start_ms + ms) for flow in flows]


def renamed(flows: Iterable[Flow], name: Sequence[int]) -> list[Flow]:
    """The flows between other endpoints: `name[old]`."""
    return [replace(flow, src=name[flow.src], dst=name[flow.dst]) for flow in flows]


def finding(**changes: Any) -> Finding:
    """A finding about a slow NIC that lasts for steps 3 to 9, but for what is told otherwise."""
    usual = Finding(
        diagnosis_id="1",
        kind="slow_nic",
        subject_type="endpoint",
        subject="10.0.100.0",
        first_step=3,
        last_step=9,
        start_ns=BEGIN_NS,
        end_ns=BEGIN_NS + 10_000 * MS,
        status="open",
        severity="warning",
        observed=2.0,
        expected=1.0,
        score=9.0,
        slowdown=0.1,
        summary="a fault",
    )
    return replace(usual, **changes)


def steps_of(durations_s: Sequence[float], slowest: Sequence[int] | int = 0, complete: bool = True) -> Steps:
    """Steps of the given durations, one after the other from the scene's beginning, that end in 10 % of DP traffic.

    Parameters: `slowest`, who is last to be ready in each, -1 for nobody.
    """
    count = len(durations_s)
    end = BEGIN_NS + np.cumsum(np.round(np.array(durations_s, np.float64) * 10**9)).astype(np.int64)
    start = np.concatenate([[BEGIN_NS], end[:-1]])[:count]
    length = (end - start) / 10**9
    return Steps(
        step=np.arange(count),
        start_ns=start,
        end_ns=end,
        compute_s=0.9 * length,
        pp_s=np.zeros(count),
        dp_s=0.1 * length,
        slowest=ragged([one] if one >= 0 else [] for one in np.broadcast_to(slowest, count).tolist()),
        complete=np.full(count, complete, np.uint8),
    )


def steps_seen(
    ends_ms: Sequence[float], met: Iterable[Flow] = (), first_new: int = 0, late_ms: float = 0, tick_ms: float = 0
) -> StepsSeen:
    """What a ring of four shows of its steps: one endpoint is so late in each; some flows are of no training."""
    members, meetings = range(4), list(met)
    bursts = traffic([*ring(members, ends_ms), *meetings], tick_ms=tick_ms)
    kinds = typed(bursts, other=[(flow.src, flow.dst) for flow in meetings])
    steps = division(members, ends_ms)
    ends_ns = steps.job_end_ns()
    late_s = np.zeros((4, len(ends_ms)))
    late_s[2] = late_ms / 1000
    attempt = rebuilt_attempt(bursts, kinds, steps)
    new = replace(attempt.rebuilt, steps=attempt.rebuilt.steps.take(np.arange(first_new, len(ends_ms))))
    return StepsSeen(
        replace(attempt, first_new=first_new, rebuilt=new, lateness_s=late_s),
        duration_s=np.append(np.nan, np.diff(ends_ns) / 1e9),
        rests=find_rests(bursts, kinds, ends_ns),
        storage=np.zeros(len(ends_ms), dtype=bool),
    )


def gpu_steps_of(steps: Steps, endpoints: Sequence[int]) -> GpuSteps:
    """The same steps on every endpoint."""
    many = len(endpoints)
    names = ("step", "start_ns", "end_ns", "compute_s", "pp_s", "dp_s", "complete")
    columns = {name: np.tile(getattr(steps, name), many) for name in names}
    return GpuSteps(endpoint=np.repeat(np.array(endpoints, np.int32), len(steps)), **columns)


def known_job(
    job_id: str,
    endpoints: Sequence[int],
    *,
    tenant: str = "acme",
    steps: int = 0,
    step_s: float = 1.0,
    status: JobStatus = "running",
    findings: tuple[Finding, ...] = (),
    examined: int | None = None,
) -> JobMemory:
    """What is known of a job that made so many equal steps from the scene's beginning on.

    So many of them were found when all of it was last looked at, by default all.
    """
    made = steps_of([step_s] * steps)
    seen = BEGIN_NS, int(made.end_ns.max(initial=BEGIN_NS))
    each, nothing = np.ones(len(endpoints), np.int64), np.zeros(len(endpoints), np.int32)
    return JobMemory(
        JobRecord(job_id, tenant, status, *seen, len(endpoints), 1, steps, step_s if steps else 0.0),
        Members(np.array(endpoints, np.int32), nothing, nothing, each * seen[0], each * seen[1]),
        Pairs.empty(),
        (),
        made,
        gpu_steps_of(made, endpoints),
        findings,
        attempt=Attempt(examined=steps if examined is None else examined),
    )


def typed(bursts: Traffic, pp: Iterable[tuple[int, int]] = (), other: Iterable[tuple[int, int]] = ()) -> PairKinds:
    """Kinds of the pairs: pipeline-parallel between the listed endpoints either way, `other` likewise, else DP."""
    code = {frozenset(pair): kind for kind, pairs in ((PP, pp), (OTHER, other)) for pair in pairs}
    pairs = zip(bursts.pair_src.tolist(), bursts.pair_dst.tolist(), strict=True)
    kind = np.array([code.get(frozenset(pair), DP) for pair in pairs], np.uint8)
    return PairKinds(kind, np.ones(len(kind)), kind[bursts.pair])


def links(grid: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """The pipeline links of a job of `grid[stage][replica]`."""
    return [pair for near, far in pairwise(grid) for pair in zip(near, far, strict=True)]


def division(endpoints: Sequence[int], ends_ms: Sequence[float] | Sequence[Sequence[float]]) -> Division:
    """Steps that end at the given moments, on all endpoints or on each at its own."""
    ends = np.broadcast_to(np.array(ends_ms, np.float64), (len(endpoints), np.shape(ends_ms)[-1]))
    end_ns = BEGIN_NS + np.round(ends * MS).astype(np.int64)
    return Division(np.array(endpoints, np.int32), end_ns, np.ones(end_ns.shape[1], dtype=bool))


def job_traffic(
    bursts: Traffic,
    flows: FlowBatch | None = None,
    coarse: Bool | None = None,
    merged: Bool | None = None,
) -> JobTraffic:
    """Bursts as the traffic of a job; all pairs recur where nothing else is said, and none is merged."""
    seen = FlowBatch.empty() if flows is None else flows
    none = np.zeros(len(bursts.pair_src), dtype=bool)
    return JobTraffic(
        flows=FlowCut(seen),
        timeouts=Timeouts((), *(np.empty(0),) * 3),
        bursts=bursts,
        recurring=~none,
        coarse=none if coarse is None else coarse,
        merged=none if merged is None else merged,
    )


def ordered(bursts: Traffic, kinds: PairKinds, steps: Division, where: Topology | None = None) -> GroupSet:
    """The groups of a job; its endpoints have a server each, unless told otherwise."""
    return order(bursts, kinds, steps, topology(256) if where is None else where)


def rebuilt_attempt(
    bursts: Traffic,
    kinds: PairKinds,
    steps: Division,
    first_step: int = 0,
    start_ns: Int64 | None = None,
    earlier: tuple[Group, ...] = (),
) -> RebuiltAttempt:
    """An attempt whose steps are all new, and in which nobody is late."""
    nobody_late = np.zeros(steps.end_ns.shape)
    rebuilt = reconstruct(bursts, kinds, steps, first_step, start_ns)
    groups = number_after(ordered(bursts, kinds, steps), earlier)
    name = RecognisedJob("job", "acme", steps.endpoints, known=False)
    return RebuiltAttempt(name, job_traffic(bursts), kinds, steps, groups, first_step, rebuilt, nobody_late)


def continued_job(attempts: Sequence[RebuiltAttempt], memory: JobMemory | None = None, **changes: Any) -> ContinuedJob:
    """A job of some attempts, all that is known of which is found again, but for what is told otherwise."""
    last = attempts[-1]
    found = ContinuedJob(
        replace(last.attempt, known=memory is not None),
        last.traffic.flows,
        tuple(attempts),
        Attempt(),
        Steps.concat([one.rebuilt.steps for one in attempts]),
        GpuSteps.concat([one.rebuilt.gpu_steps for one in attempts]),
        memory,
        None,
    )
    return replace(found, **changes)


def earlier_flows(seen: FlowBatch | None = None) -> EarlierFlows:
    """What one exporter with the right time saw before a window, by default nothing."""
    flows = FlowBatch.empty() if seen is None else seen
    nobody, known = ExporterHistory.empty(), KnownJobs((), (), (), ())
    return EarlierFlows(flows, int(flows.end_ns.max(initial=BEGIN_NS)) + 1, nobody, known, 0, ClockParams())


def observed(flows: FlowBatch, until_ns: int = BEGIN_NS) -> Observed:
    """A window that shows some flows and nothing else."""
    bursts = traffic([])
    return Observed(
        window=Window(BEGIN_NS, max(until_ns, BEGIN_NS + 1)),
        until_ns=until_ns,
        read=flows,
        looked_at=flows,
        by_pair=FlowsByPair.of(flows),
        earlier=earlier_flows(),
        bursts=bursts,
        coarse=np.zeros(0, dtype=bool),
        timeouts=Timeouts((), *(np.empty(0),) * 3),
        exporters=ExporterStates.unknown(()),
        known=KnownJobs((), (), (), ()),
    )


#: For policies that look at nothing but the findings.
NO_CONTEXT = cast("JobContext", None)
