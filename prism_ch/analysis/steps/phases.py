"""Reconstruct: every GPU's steps and the phases inside them (LLMPrism, section IV-D).

A step of an endpoint begins where the one before it ended. Inside it, time with data-parallel traffic at the endpoint
is DP, other time with pipeline traffic is PP, and what is left is compute: the network is all that can be seen.
"""

from __future__ import annotations

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.result import DP, OTHER, PAIR_KINDS, PHASES, PP, GpuSteps, Reconstruction, Steps, Timeline
from prism_ch.model.traffic import Traffic

_PHASE_OF_KIND = np.array([PHASES.index(kind) if kind in PHASES else 0 for kind in PAIR_KINDS], dtype=np.int32)
_COMPUTE = PHASES.index("compute")


def reconstruct(
    traffic: Traffic,
    kinds: PairKinds,
    division: Division,
    first_step: int,
    start_ns: Int64 | None,
    lateness: Float64,
) -> Reconstruction:
    """Rebuild the steps of a division and their phases.

    Parameters: `traffic`, the job's bursts; `kinds`, of its pairs; `division`, k steps on m endpoints; `first_step`,
    the number of the division's first step; `start_ns` int64[m], where the first step begins on each endpoint (the
    end of the step before), or None where nothing came before: then it is where the job's step begins by
    `_first_start`; `lateness` float64[m, k], see `lateness_s`: the slowest endpoint is the latest one.
    """
    if division.steps == 0:
        return Reconstruction(Steps.empty(), GpuSteps.empty(), Timeline.empty())
    m, k = division.end_ns.shape
    begin, begin_seen = _first_start(traffic, division) if start_ns is None else (start_ns, True)
    start, end = _spans(begin, division)
    pieces = _phases(traffic, kinds, division, start.ravel(), end.ravel())
    line = pieces.group.astype(np.int64)
    spent = np.bincount(
        line * len(PHASES) + pieces.label, weights=(pieces.end - pieces.start) / 1e9, minlength=m * k * len(PHASES)
    ).astype(np.float64)
    spent = spent.reshape(m, k, len(PHASES))
    number = first_step + np.arange(k)
    complete = division.whole.astype(np.uint8)
    complete[0] &= begin_seen
    gpu_steps = GpuSteps(
        np.repeat(division.endpoints, k),
        np.tile(number, m),
        start.ravel(),
        end.ravel(),
        spent[:, :, _COMPUTE].ravel(),
        spent[:, :, _PHASE_OF_KIND[PP]].ravel(),
        spent[:, :, _PHASE_OF_KIND[DP]].ravel(),
        np.tile(complete, m),
    )
    job_end = end.max(axis=0)
    steps = Steps(
        number,
        np.concatenate([[begin.min()] if start_ns is None else [begin.max()], job_end[:-1]]),
        job_end,
        spent[:, :, _COMPUTE].mean(axis=0),
        spent[:, :, _PHASE_OF_KIND[PP]].mean(axis=0),
        spent[:, :, _PHASE_OF_KIND[DP]].mean(axis=0),
        division.endpoints[_latest(lateness, first_step, traffic.tick_s)],
        complete,
    )
    timeline = Timeline(
        division.endpoints[line // k], number[line % k], pieces.label.astype(np.uint8), pieces.start, pieces.end
    )
    return Reconstruction(steps, gpu_steps, timeline)


def _latest(lateness: Float64, first_step: int, tick_s: float) -> Int64:
    """Return the row of the endpoint that is the latest in each step, int64[k].

    Times that are cut to ticks tell no difference of less than one: then it is each of them in turn, or whoever comes
    first in the order of addresses would seem to keep the others waiting.
    """
    last = lateness >= lateness.max(axis=0) - tick_s
    turn = (first_step + np.arange(lateness.shape[1])) % last.sum(axis=0)
    return np.asarray(np.argmax(np.cumsum(last, axis=0) > turn, axis=0))


def _first_start(traffic: Traffic, division: Division) -> tuple[Int64, bool]:
    """Return where the first step begins on each endpoint, where no step before it is known, int64[m].

    A typical step before its end, where the traffic reaches back that far; else the first traffic, and the second
    value is False: the beginning was not seen.
    """
    first_traffic = int(traffic.start_ns.min())
    ends = division.end_ns
    typical = np.median(np.diff(ends, axis=1)) if division.steps > 1 else np.iinfo(np.int64).max / 4
    usual = ends[:, 0] - int(typical)
    return np.maximum(usual, min(first_traffic, int(ends[:, 0].min()))), bool((usual >= first_traffic).all())


def _spans(begin_ns: Int64, division: Division) -> tuple[Int64, Int64]:
    """Return where each step starts and ends on each endpoint, int64[m, k], the first at `begin_ns` int64[m].

    An endpoint's last flow of a step can't end before the step began: a lost record may make it look so.
    """
    end = np.maximum.accumulate(np.maximum(division.end_ns, begin_ns[:, None]), axis=1)
    return np.concatenate([begin_ns[:, None], end[:, :-1]], axis=1), end


def _phases(traffic: Traffic, kinds: PairKinds, division: Division, start: Int64, end: Int64) -> intervals.Pieces:
    """Tile each endpoint's steps with phases; a piece's group is row * k + step."""
    m, k = division.end_ns.shape
    typed = traffic.take(kinds.burst != OTHER)
    label = _PHASE_OF_KIND[kinds.burst[kinds.burst != OTHER]]
    row = np.concatenate([np.searchsorted(division.endpoints, end_) for end_ in (typed.src, typed.dst)]).astype(
        np.int32
    )
    spans = np.repeat(np.arange(m, dtype=np.int32), k)
    parts = intervals.cut(row, np.tile(typed.start_ns, 2), np.tile(typed.end_ns, 2), spans, start, end)
    return intervals.tile(
        start,
        end,
        parts.span.astype(np.int32),
        parts.start,
        parts.end,
        np.tile(label, 2)[parts.row],
        strongest=[PHASES.index(name) for name in ("DP", "PP", "EP", "CP", "TP")],
        fill=_COMPUTE,
    )


def lateness_s(traffic: Traffic, kinds: PairKinds, division: Division) -> Float64:
    """Return how long into a step closing traffic first touches each endpoint, less what is usual, float64[m, k].

    A collective needs both its neighbours: the rank that computes for longest neither sends nor is sent to until it
    is ready, while the others have begun with one another. The one that makes the others wait is the one that does
    not wait. Usual is the median over the division: of a few new steps alone, it would be what they are themselves.
    """
    m, k = division.end_ns.shape
    if k == 0:
        return np.zeros((m, 0))
    closing = kinds.of_kind(traffic, kinds.closing)
    row = np.concatenate([np.searchsorted(division.endpoints, side) for side in (closing.src, closing.dst)])
    start, end = _spans(_first_start(traffic, division)[0], division)
    spans = np.repeat(np.arange(m, dtype=np.int32), k)
    parts = intervals.cut(
        row.astype(np.int32),
        np.tile(closing.start_ns, 2),
        np.tile(closing.end_ns, 2),
        spans,
        start.ravel(),
        end.ravel(),
    )
    first = np.full(m * k, np.iinfo(np.int64).max)
    np.minimum.at(first, parts.span, parts.start)
    seen = first < np.iinfo(np.int64).max
    silence = np.where(seen, first - start.ravel(), np.nan).reshape(m, k) / 1e9
    return np.asarray(np.nan_to_num(silence - robust.median(silence, axis=1)[:, None]))
