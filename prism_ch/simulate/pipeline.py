"""One training step of a pipeline in time: every operation starts when its stage is free and its input has arrived."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Float64, Int32
from prism_ch.simulate.link import EFFICIENCY_SPREAD, NETWORK_LATENCY_S, Links
from prism_ch.simulate.ranks import RankGrid
from prism_ch.simulate.scenario import Compute, Pipeline
from prism_ch.simulate.schedule import FORWARD, Program, compile_program

#: How far the lanes of a tensor group are apart when they send.
LANE_SPREAD_S = 30e-6


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds since the recording began: operations float64[ops, lanes], messages float64[messages, lanes, tp]."""

    op_start_s: Float64
    op_end_s: Float64
    message_start_s: Float64
    message_end_s: Float64


class PipelineEngine:
    """Works one job's pipeline, step by step; holds what no step changes."""

    def __init__(self, pipeline: Pipeline, compute: Compute, grid: RankGrid, links: Links) -> None:
        self.program: Program = compile_program(pipeline, grid.stages)
        self._grid = grid
        self._links = links
        self._compute = compute
        self._microbatches = pipeline.microbatches
        ranks = grid.numbers()
        self.message_src: Int32 = grid.endpoint[ranks[self.program.stage[self.program.sender]]]
        self.message_dst: Int32 = grid.endpoint[ranks[self.program.stage[self.program.receiver]]]
        self._message_s = pipeline.message_bytes * links.byte_s(self.message_src, self.message_dst, grid.share)
        self._nominal_s = _nominal_durations(self.program, pipeline, compute, grid.stages)
        self._first = np.zeros(len(self.program.stage), dtype=bool)
        self._first[np.unique(self.program.stage, return_index=True)[1]] = True

    def run(self, begin_s: Float64, hold_s: Float64, slow: Float64, rng: np.random.Generator) -> StepTimes:
        """Work one step.

        Parameters, all float64[stages, lanes]: `begin_s`, when each tensor group may start; `hold_s`, before which
        its first operation can't end (parameters still being gathered); `slow`, how many times longer it computes.
        """
        program = self.program
        durations_s = self._durations(slow, rng)
        scatter = rng.uniform(1 - EFFICIENCY_SPREAD, 1 + EFFICIENCY_SPREAD, self._message_s.shape)
        message_s = NETWORK_LATENCY_S + self._message_s * scatter
        offset_s = rng.uniform(0.0, LANE_SPREAD_S, self._message_s.shape)
        free_s = begin_s.copy()
        nic_free_s = np.full((*begin_s.shape, self._grid.tp), -np.inf)
        arrival_s = np.full((len(program.sender) + 1, self._grid.lanes), -np.inf)  # the last row: no input needed
        op_start_s, op_end_s = np.empty_like(durations_s), np.empty_like(durations_s)
        start_s, end_s = np.empty_like(message_s), np.empty_like(message_s)
        for (low, high), (first, last) in zip(program.levels, program.sends, strict=True):
            stage = program.stage[low:high]
            start = np.maximum(free_s[stage], arrival_s[program.incoming[low:high]])
            end = start + durations_s[low:high]
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
        return StepTimes(op_start_s, op_end_s, start_s, end_s)

    def _durations(self, slow: Float64, rng: np.random.Generator) -> Float64:
        """Draw how long each operation takes on each tensor group, float64[operations, lanes]."""
        program, compute = self.program, self._compute
        jitter = np.maximum(1 + compute.jitter * rng.standard_normal((len(program.stage), self._grid.lanes)), 0.5)
        durations_s = self._nominal_s[:, None] * jitter * slow[program.stage]
        if compute.sequence_spread:
            data, expert, context = self._grid.shape
            lengths = rng.lognormal(0.0, compute.sequence_spread, (self._microbatches, data * expert))
            durations_s *= np.repeat(lengths, context, axis=1)[program.microbatch]
        return durations_s


def _nominal_durations(program: Program, pipeline: Pipeline, compute: Compute, stages: int) -> Float64:
    """Return each operation's nominal seconds; zero-bubble halves the backward between input and weights."""
    backward = compute.backward_ratio * (0.5 if pipeline.schedule == "zero-bubble" else 1.0)
    by_kind = np.where(program.kind == FORWARD, 1.0, backward)
    weights = np.asarray(compute.stage_weights or (1.0,) * stages)
    return np.asarray(compute.forward_s / pipeline.chunks * by_kind * weights[program.stage], dtype=np.float64)
