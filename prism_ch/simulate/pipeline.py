"""A job's pipeline in time: operations, what they exchange inside, and the messages between stages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int64
from prism_ch.model.result import CP, EP, PP, TP
from prism_ch.simulate.communication import Exchange
from prism_ch.simulate.job import Job
from prism_ch.simulate.network import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Flows, FlowTimes, Links, RankGrid
from prism_ch.simulate.schedule import FORWARD, WEIGHT, compile_program

#: How far the lanes of a tensor group are apart when they send.
LANE_SPREAD_S = 30e-6


@dataclass(frozen=True, slots=True)
class PipelineTimes:
    """One step's operations and flows, in seconds since the recording began.

    float64[operations, lanes]: `op_start_s`, `op_end_s`; `free_s`, when the stage had done what came before, and waited
    for its input. `messages` pass between stages, `exchanges` inside operations.
    """

    op_start_s: Float64
    op_end_s: Float64
    messages: FlowTimes
    exchanges: tuple[FlowTimes, ...]
    free_s: Float64


class PipelineEngine:
    """Runs a job's pipeline; `plan` holds the flows of a step, messages first."""

    def __init__(self, job: Job, grid: RankGrid, links: Links, *, forward_only: bool = False) -> None:
        self._compute, self._pipeline, self._grid, self._links = job.compute, job.pipeline, grid, links
        program = self.program = compile_program(job.pipeline, grid.stages, forward_only=forward_only)
        ranks = grid.numbers()
        self.message_src = grid.endpoint[ranks[program.stage[program.sender]]]
        self.message_dst = grid.endpoint[ranks[program.stage[program.receiver]]]
        size = job.pipeline.message_bytes
        self._message_s = size * links.byte_s(self.message_src, self.message_dst, grid.share)
        self._is_first = np.zeros(len(program.stage), dtype=bool)
        self._is_first[np.unique(program.stage, return_index=True)[1]] = True
        # zero-bubble halves the backward between input and weights
        backward = job.compute.backward_ratio * (0.5 if (program.kind == WEIGHT).any() else 1.0)
        by_kind = np.where(program.kind == FORWARD, 1.0, backward)
        weights = np.array(job.compute.stage_weights or (1.0,) * grid.stages)
        self._nominal_s: Float64 = job.compute.forward_s / job.pipeline.chunks * by_kind * weights[program.stage]
        # kinds of traffic inside operations, in the order they take place
        inner = ((CP, job.context, grid.shape[2]), (TP, job.tensor, grid.tp), (EP, job.experts, grid.shape[1]))
        self._exchanges = [
            Exchange(kind, traffic, grid, links, program)
            for kind, traffic, members in inner
            if traffic is not None and members > 1
        ]
        messages = Flows.of(self.message_src, self.message_dst, size, kind=PP)
        self.plan = Flows.concatenate([messages, *(exchange.plan() for exchange in self._exchanges)])

    def flows(self, times: PipelineTimes) -> FlowTimes:
        """Return when the flows of the plan begin and end."""
        exchanged = zip(self._exchanges, times.exchanges, strict=True)
        return FlowTimes.concatenate([times.messages.flat(), *(exchange.flows(part) for exchange, part in exchanged)])

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> PipelineTimes:
        """Run one step.

        An operation starts when its stage is free and its input has arrived. Levels are run one by one: operations,
        the exchanges inside them, then the messages they send.

        Parameters, all float64[stages, lanes]: `begin_s`, when each tensor group may start; `hold_s`, before which its
        first operation can't end (parameters still being gathered); `slow`, how many times longer it computes.
        """
        program = self.program
        durations_s = self._durations(slow, rng)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, self._message_s.shape)
        message_s = NETWORK_LATENCY_S + self._message_s * scatter
        offset_s = rng.uniform(0.0, LANE_SPREAD_S, self._message_s.shape)
        exchanges = tuple(exchange.draw(rng) for exchange in self._exchanges)
        free_s = begin_s.copy()
        nic_free_s = np.full((*begin_s.shape, self._grid.tp), -np.inf)
        arrival_s = np.full((len(program.sender) + 1, self._grid.lanes), -np.inf)  # the last row: no input needed
        op_start_s, op_end_s = np.empty_like(durations_s), np.empty_like(durations_s)
        start_s, end_s = np.empty_like(message_s), np.empty_like(message_s)
        was_free_s = np.empty_like(durations_s)
        for level, sends in zip(program.levels, program.sends, strict=True):
            rows, sent = np.arange(*level), slice(*sends)
            stage = program.stage[rows]
            was_free_s[rows] = free_s[stage]
            start = np.maximum(free_s[stage], arrival_s[program.incoming[rows]])
            end = self._compute_level(rows, start, durations_s[rows], exchanges, rng)
            first = self._is_first[rows]
            end[first] = np.maximum(end[first], hold_s[stage[first]])
            op_start_s[rows], op_end_s[rows], free_s[stage] = start, end, end
            sender = program.sender[sent]
            source = program.stage[sender]
            start_s[sent] = np.maximum(op_end_s[sender][:, :, None] + offset_s[sent], nic_free_s[source])
            slowdown = self._links.slowdown(self.message_src[sent], self.message_dst[sent], start_s[sent])
            end_s[sent] = start_s[sent] + message_s[sent] * slowdown
            nic_free_s[source] = end_s[sent]
            arrival_s[sent] = end_s[sent].max(axis=2)
        messages = FlowTimes(start_s, end_s, np.full(start_s.shape, self._pipeline.message_bytes))
        return PipelineTimes(op_start_s, op_end_s, messages, exchanges, was_free_s)

    def _compute_level(
        self,
        rows: Int64,
        start_s: Float64,
        durations_s: Float64,
        exchanges: tuple[FlowTimes, ...],
        rng: np.random.Generator,
    ) -> Float64:
        """Return when each operation of a level ends, the exchanges inside it included: float64[operations, lanes].

        An operation is computed in as many pieces as there are bursts of its most frequent exchange; the bursts of each
        kind follow the pieces they fall on.
        """
        pieces = max((exchange.traffic.bursts for exchange in self._exchanges), default=1)
        talks = np.flatnonzero(self.program.kind[rows] != WEIGHT)
        now = start_s
        for piece in range(pieces):
            begun, now = now, now + durations_s / pieces
            for exchange, times in zip(self._exchanges, exchanges, strict=True):
                bursts = exchange.traffic.bursts
                burst = piece * bursts // pieces
                if len(talks) and (piece == 0 or burst != (piece - 1) * bursts // pieces):
                    ready = begun[talks] if exchange.traffic.overlapped else now[talks]
                    now[talks] = np.maximum(now[talks], exchange.run(rows[talks], burst, ready, times, rng))
        return now

    def _durations(self, slow: Float64, rng: np.random.Generator) -> Float64:
        """Draw how long each operation takes on each tensor group, float64[operations, lanes]."""
        program, compute = self.program, self._compute
        shape = (len(program.stage), self._grid.lanes)
        jitter = np.maximum(1 + compute.jitter * rng.standard_normal(shape), 0.5)
        durations_s = self._nominal_s[:, None] * jitter * slow[program.stage]
        if compute.sequence_spread:
            data, expert, context = self._grid.shape
            lengths = rng.lognormal(0.0, compute.sequence_spread, (self._pipeline.microbatches, data * expert))
            durations_s *= np.repeat(lengths, context, axis=1)[program.microbatch]
        if compute.hiccup_rate:
            delayed = rng.random(shape) < compute.hiccup_rate
            durations_s += np.where(delayed, rng.exponential(compute.hiccup_s, shape), 0.0)
        return durations_s
