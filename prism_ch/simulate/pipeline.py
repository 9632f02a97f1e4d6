"""One training step of a pipeline in time: every operation starts when its stage is free and its input has arrived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.result import CP, EP, PP, TP
from prism_ch.simulate.exchange import Exchange, ExchangeTimes
from prism_ch.simulate.link import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Links
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.schedule import FORWARD, WEIGHT, Program, compile_program
from prism_ch.simulate.transfers import PLAIN, FlowPlan
from prism_ch.simulate.workload import Compute, Job

#: How far the lanes of a tensor group are apart when they send.
LANE_SPREAD_S = 30e-6


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds since the recording began: operations float64[ops, lanes], messages float64[messages, lanes, tp].

    `exchanges` holds the traffic inside operations, one entry a kind.
    """

    op_start_s: Float64
    op_end_s: Float64
    message_start_s: Float64
    message_end_s: Float64
    exchanges: tuple[ExchangeTimes, ...]


class PipelineEngine:
    """Works one job's pipeline, step by step; holds what no step changes."""

    def __init__(self, job: Job, grid: RankGrid, links: Links, *, forward_only: bool = False) -> None:
        pipeline, compute = job.pipeline, job.compute
        self.program: Program = compile_program(pipeline, grid.stages, forward_only=forward_only)
        self._grid, self._links, self._compute = grid, links, compute
        self._microbatches = pipeline.microbatches
        ranks = grid.numbers()
        self.message_src: Int32 = grid.endpoint[ranks[self.program.stage[self.program.sender]]]
        self.message_dst: Int32 = grid.endpoint[ranks[self.program.stage[self.program.receiver]]]
        self._message_bytes = pipeline.message_bytes
        self._message_s = pipeline.message_bytes * links.byte_s(self.message_src, self.message_dst, grid.share)
        self._nominal_s = _nominal_durations(self.program, job, grid.stages)
        self._first = np.zeros(len(self.program.stage), dtype=bool)
        self._first[np.unique(self.program.stage, return_index=True)[1]] = True
        inner = ((CP, job.context, grid.shape[2]), (TP, job.tensor, grid.tp), (EP, job.experts, grid.shape[1]))
        self._inner = [
            (Exchange(kind, traffic, grid, links, self.program), traffic)
            for kind, traffic, members in inner
            if traffic is not None and members > 1
        ]
        self.plan, self.keep = self._plan()

    def _plan(self) -> tuple[FlowPlan, Bool]:
        """Return the flows of a step, messages first, and which of the rows are flows at all."""
        size = np.full(self.message_src.shape, self._message_bytes)
        queue = np.zeros(1, dtype=np.int64)
        messages = FlowPlan.of(self.message_src, self.message_dst, size, kind=PP, role=PLAIN, queue=queue)
        kept = [np.ones(len(messages), dtype=bool), *(exchange.keep for exchange, _ in self._inner)]
        plan = FlowPlan.concatenate([messages, *(exchange.plan() for exchange, _ in self._inner)])
        return plan, np.concatenate(kept)

    def flows(self, times: StepTimes) -> tuple[Float64, Float64, Int64]:
        """Return start, end and payload of a step's flows, in the order of the plan."""
        exchanged = list(zip((exchange for exchange, _ in self._inner), times.exchanges, strict=True))
        start = [times.message_start_s.reshape(-1), *(part.start_s.reshape(-1) for _, part in exchanged)]
        end = [times.message_end_s.reshape(-1), *(part.end_s.reshape(-1) for _, part in exchanged)]
        messages = self.plan.payload_bytes[: times.message_start_s.size]
        size = [messages, *(exchange.merged_bytes(part).reshape(-1) for exchange, part in exchanged)]
        return np.concatenate(start), np.concatenate(end), np.concatenate(size)

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepTimes:
        """Work one step.

        Parameters, all float64[stages, lanes]: `begin_s`, when each tensor group may start; `hold_s`, before which its
        first operation can't end (parameters still being gathered); `slow`, how many times longer it computes.
        """
        program = self.program
        durations_s = self._durations(slow, rng)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, self._message_s.shape)
        message_s = NETWORK_LATENCY_S + self._message_s * scatter
        offset_s = rng.uniform(0.0, LANE_SPREAD_S, self._message_s.shape)
        exchanges = tuple(exchange.draw(rng) for exchange, _ in self._inner)
        free_s = begin_s.copy()
        nic_free_s = np.full((*begin_s.shape, self._grid.tp), -np.inf)
        arrival_s = np.full((len(program.sender) + 1, self._grid.lanes), -np.inf)  # the last row: no input needed
        op_start_s, op_end_s = np.empty_like(durations_s), np.empty_like(durations_s)
        start_s, end_s = np.empty_like(message_s), np.empty_like(message_s)
        for (low, high), (first, last) in zip(program.levels, program.sends, strict=True):
            stage = program.stage[low:high]
            start = np.maximum(free_s[stage], arrival_s[program.incoming[low:high]])
            end = self._work((low, high), start, durations_s[low:high], exchanges, rng)
            opening = self._first[low:high]
            if opening.any():
                end[opening] = np.maximum(end[opening], hold_s[stage[opening]])
            op_start_s[low:high], op_end_s[low:high], free_s[stage] = start, end, end
            if last > first:
                sender = program.sender[first:last]
                source = program.stage[sender]
                send = np.maximum(op_end_s[sender][:, :, None] + offset_s[first:last], nic_free_s[source])
                took = message_s[first:last]
                if not self._links.healthy:
                    took = took * self._links.slowdown(self.message_src[first:last], self.message_dst[first:last], send)
                start_s[first:last], end_s[first:last] = send, send + took
                nic_free_s[source] = end_s[first:last]
                arrival_s[first:last] = end_s[first:last].max(axis=2)
        return StepTimes(op_start_s, op_end_s, start_s, end_s, exchanges)

    def _work(
        self,
        level: tuple[int, int],
        start_s: Float64,
        durations_s: Float64,
        exchanges: Sequence[ExchangeTimes],
        rng: np.random.Generator,
    ) -> Float64:
        """Return when each operation of a level ends, the exchanges inside it included: float64[operations, lanes]."""
        if not self._inner:
            return np.asarray(start_s + durations_s, dtype=np.float64)
        rows = np.arange(*level)
        talks = np.flatnonzero(self.program.kind[rows] != WEIGHT)
        pieces = max(traffic.bursts for _, traffic in self._inner)
        now = start_s
        for piece in range(pieces):
            begun, now = now, now + durations_s / pieces
            for (exchange, traffic), times in zip(self._inner, exchanges, strict=True):
                burst = piece * traffic.bursts // pieces
                due = piece == 0 or burst != (piece - 1) * traffic.bursts // pieces
                if due and len(talks):
                    ready = begun[talks] if traffic.overlapped else now[talks]
                    through = exchange.run(rows[talks], burst, ready, times, rng)
                    now[talks] = np.maximum(now[talks], through)
        return now

    def _durations(self, slow: Float64, rng: np.random.Generator) -> Float64:
        """Draw how long each operation takes on each tensor group, float64[operations, lanes]."""
        program, compute = self.program, self._compute
        shape = (len(program.stage), self._grid.lanes)
        jitter = np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        durations_s = self._nominal_s[:, None] * jitter * slow[program.stage]
        if compute.sequence_spread:
            data, expert, context = self._grid.shape
            lengths = rng.lognormal(0.0, compute.sequence_spread, (self._microbatches, data * expert))
            durations_s *= np.repeat(lengths, context, axis=1)[program.microbatch]
        if compute.hiccup_rate:
            struck = rng.random(shape) < compute.hiccup_rate
            durations_s += np.where(struck, rng.exponential(compute.hiccup_s, shape), 0.0)
        return durations_s


def _nominal_durations(program: Program, job: Job, stages: int) -> Float64:
    """Return each operation's nominal seconds; zero-bubble halves the backward between input and weights."""
    compute: Compute = job.compute
    backward = compute.backward_ratio * (0.5 if (program.kind == WEIGHT).any() else 1.0)
    by_kind = np.where(program.kind == FORWARD, 1.0, backward)
    weights = np.asarray(compute.stage_weights or (1.0,) * stages)
    return np.asarray(compute.forward_s / job.pipeline.chunks * by_kind * weights[program.stage], dtype=np.float64)
