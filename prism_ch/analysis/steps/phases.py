"""Rebuild every GPU's steps and the phases inside them (LLMPrism, section IV-D).

A step of an endpoint begins where the one before it ended. Inside it, time with data-parallel traffic at the endpoint
is DP, other time with pipeline traffic is PP, and what is left is compute: the network is all that can be seen.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import run_starts
from prism_ch.model.columns import Float64, Int32, Int64, ragged
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params.shared import SharedParams
from prism_ch.model.result import DP, OTHER, PAIR_KINDS, PHASES, PP, GpuSteps, PackedTimeline, Reconstruction, Steps
from prism_ch.model.traffic import Traffic

_PHASE_OF_KIND = np.array([PHASES.index(kind) if kind in PHASES else 0 for kind in PAIR_KINDS], dtype=np.int32)
_COMPUTE = PHASES.index("compute")
#: Steps that tell how long the one before them was.
_NEXT_STEPS = SharedParams().repeats
_STRONGEST = [PHASES.index(name) for name in ("DP", "PP", "EP", "CP", "TP")]


def reconstruct(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    first_step: int,
    start_ns: Int64 | None,
) -> Reconstruction:
    """Rebuild the steps of a division and their phases.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `division`, k steps on m endpoints; `first_step`,
    the number of its first step; `start_ns` int64[m], where that begins on each endpoint, None if nothing came before
    it. Who was slowest, the diagnosis tells.
    """
    if division.steps == 0:
        return Reconstruction(Steps.empty(), GpuSteps.empty(), PackedTimeline.empty())
    m, k = division.end_ns.shape
    begin, begin_seen = _first_start(traffic, division) if start_ns is None else (start_ns, True)
    start, end = _spans(begin, division)
    typed = kinds.burst != OTHER
    parts = _cut_to_steps(traffic.take(typed), division, start, end)
    label, span = np.tile(_PHASE_OF_KIND[kinds.burst[typed]], 2)[parts.row], parts.span.astype(np.int32)
    pieces = intervals.tile(
        start.ravel(), end.ravel(), span, parts.start, parts.end, label, strongest=_STRONGEST, fill=_COMPUTE
    )
    line = pieces.group.astype(np.int64)
    spent_s = np.bincount(
        line * len(PHASES) + pieces.label, weights=(pieces.end - pieces.start) / 1e9, minlength=m * k * len(PHASES)
    ).astype(np.float64)
    by_phase = np.moveaxis(spent_s.reshape(m, k, len(PHASES)), 2, 0)
    compute_s, pp_s, dp_s = (by_phase[phase] for phase in (_COMPUTE, _PHASE_OF_KIND[PP], _PHASE_OF_KIND[DP]))
    number, job_end = first_step + np.arange(k), end.max(axis=0)
    # Endpoints begin a step apart, as they ended the one before it; that one is over with the last of them.
    job_start = np.append(begin.max() if begin_seen else begin.min(), job_end[:-1])
    complete = division.whole.astype(np.uint8)
    complete[0] &= begin_seen
    # What ends together with the step before it has no beginning of its own.
    complete &= job_end > job_start
    of_job = compute_s.mean(axis=0), pp_s.mean(axis=0), dp_s.mean(axis=0)
    of_gpu = compute_s.ravel(), pp_s.ravel(), dp_s.ravel()
    endpoint, step = np.repeat(division.endpoints, k), np.tile(number, m)
    return Reconstruction(
        Steps(number, job_start, job_end, *of_job, ragged([()] * k), complete),
        GpuSteps(endpoint, step, start.ravel(), end.ravel(), *of_gpu, np.tile(complete, m)),
        _packed(pieces, endpoint, step),
    )


def _packed(pieces: intervals.Pieces, endpoint: Int32, step: Int64) -> PackedTimeline:
    """Pack the phases of GPU-steps, whose endpoints and steps are int32[n] and int64[n]."""
    first = run_starts(pieces.group)
    line = pieces.group[first]
    of_step = endpoint[line], step[line], pieces.start[first]
    length_ns = pieces.end - pieces.start
    return PackedTimeline(*of_step, np.append(first, len(pieces.group)), pieces.label.astype(np.uint8), length_ns)


def lateness_s(traffic: Traffic, kinds: PairKinds, division: Division) -> Float64:
    """Measure how late in a step closing traffic first touches each endpoint, float64[m, k].

    Less what is usual, the median over the division. A collective needs both its neighbours: the rank that computes for
    longest neither sends nor is sent to until it is ready, while the others have begun with one another.
    """
    m, k = division.end_ns.shape
    if k == 0:
        return np.zeros((m, 0))
    start, end = _spans(_first_start(traffic, division)[0], division)
    parts = _cut_to_steps(kinds.of_kind(traffic, kinds.closing), division, start, end)
    first = np.full(m * k, np.iinfo(np.int64).max)
    np.minimum.at(first, parts.span, parts.start)
    silence_s = np.where(first < np.iinfo(np.int64).max, first - start.ravel(), np.nan).reshape(m, k) / 1e9
    return np.asarray(np.nan_to_num(silence_s - robust.median(silence_s, axis=1)[:, None]))


def _first_start(traffic: Traffic, division: Division) -> tuple[Int64, bool]:
    """Find where a first step begins on each endpoint, int64[m], and whether that was seen.

    As long before its end as the steps after it take, where the traffic reaches back that far and carries a whole step;
    else with the first traffic. Later steps may take longer or shorter: what slows a job may end soon.
    """
    first_traffic = int(traffic.start_ns.min())
    ends = division.end_ns
    next_ns = np.diff(ends[:, : _NEXT_STEPS + 1], axis=1)
    typical = np.median(next_ns) if division.steps > 1 else np.iinfo(np.int64).max / 4
    usual = ends[:, 0] - int(typical)
    seen_from = np.full(len(ends), min(first_traffic, int(ends[:, 0].min())))
    if not division.whole[0]:
        return seen_from, False
    return np.maximum(usual, seen_from), bool((usual >= first_traffic).all())


def _spans(begin_ns: Int64, division: Division) -> tuple[Int64, Int64]:
    """Return the start and the end of each step on each endpoint, int64[m, k].

    An endpoint's last flow of a step can't end before the step began: a lost record may make it look so.
    """
    end = np.maximum.accumulate(np.maximum(division.end_ns, begin_ns[:, None]), axis=1)
    return np.concatenate([begin_ns[:, None], end[:, :-1]], axis=1), end


def _cut_to_steps(traffic: Traffic, division: Division, start: Int64, end: Int64) -> intervals.Cuts:
    """Cut bursts to steps of both their ends; span is row * k + step."""
    row = division.rows_of(np.concatenate([traffic.src, traffic.dst])).astype(np.int32)
    span_row = np.repeat(np.arange(len(start), dtype=np.int32), division.steps)
    return intervals.cut(
        row, np.tile(traffic.start_ns, 2), np.tile(traffic.end_ns, 2), span_row, start.ravel(), end.ravel()
    )
