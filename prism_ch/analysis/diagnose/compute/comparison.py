"""Comparison of compute times: which ranks compute longer than others of their role, or than before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.episodes import step_seconds
from prism_ch.core import robust
from prism_ch.core.significance import carried_back, corrected_score, spread_of, trailing_low_median
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.job import Division
from prism_ch.model.params import ComputeTimeParams

#: Seconds in 1,000 GPU-hours: what false alarms are counted by.
_COUNTED_S = 3.6e6


@dataclass(frozen=True, slots=True)
class Comparison:
    """Ranks compared: [m, k] each.

    `usual` seconds are those of the others, `excess` the share of the compute time that is too much, and `score` how
    surprising it is, corrected for all comparisons in 1,000 GPU-hours; 0 where it is not too much. `among` int32[m]
    numbers those that are compared with one another; `least` to `most` of them may be slow together. `reference`
    names what a rank was compared with. `by_others` bool[m]: that is not only the other steps looked at, of which a
    young job may not have enough.
    """

    times: ComputeTime
    among: Int32
    usual: Float64
    excess: Float64
    score: Float64
    least: Int64
    most: Int64
    reference: str
    by_others: Bool


def compare(
    measured: Sequence[ComputeTime], division: Division, expected_s: Mapping[int, float], params: ComputeTimeParams
) -> Iterator[Comparison]:
    """Compare ranks with peers, their own past, and the quicker half of their role.

    Parameters: `measured`, see `measure_compute_time`; `expected_s`, the usual compute time of an endpoint, in seconds,
    as known from before: slowness that lasts, or grows bit by bit, must not become the measure of itself.
    """
    if division.steps <= max(params.slow_steps, 1):
        return
    lasts_s = step_seconds(division)
    step_s = float(robust.median(lasts_s))
    for times in measured:
        yield _with_peers(times, np.append(np.nan, lasts_s), params)
        if times.absolute:
            before = np.array([expected_s.get(endpoint, np.nan) for endpoint in times.endpoints.tolist()])
            yield compare_with_past(times, step_s, before, params)
            hidden = np.zeros(len(before), dtype=bool) if times.hidden is None else times.hidden
            for ranks, evens_out in ((~hidden, True), (hidden, False)):
                if ranks.any():
                    yield _with_quicker(times, step_s, before, ranks, params, evens_out=evens_out)


def _with_peers(times: ComputeTime, lasts_s: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with the median of its role in each step.

    Parameters: `lasts_s` float64[k], how long steps last. No rank computes for longer than others by more than the
    step: there its steps were divided wrongly, and count for nothing. What ranks with `hidden` compute time differ by
    is not taken to even out over steps, as among the two halves of a role.
    """
    step_s = float(robust.median(lasts_s))
    usual = np.full(times.seconds.shape, np.nan)
    for stage in np.unique(times.role).tolist():
        rows = np.flatnonzero(times.role == stage)
        if len(rows) >= params.min_peers:
            usual[rows] = robust.median(times.seconds[rows], axis=0)[None]
    scale = np.where(usual > 0, usual, np.nan) if times.absolute else step_s
    too_long = times.seconds - usual > np.where(np.isnan(lasts_s), step_s, lasts_s)
    longer = np.where(too_long, np.nan, times.seconds - usual) / scale
    excess = _less_data(longer, times)
    score = _score(excess, longer, times.role, step_s, params)
    if times.hidden is not None and times.hidden.any():
        of_hidden = _score(excess, longer, times.role, step_s, params, evens_out=False)
        score = np.where(times.hidden[:, None], of_hidden, score)
    most = (np.bincount(times.role)[times.role] - 1) // 2  # of as many slow ranks as others nobody knows which are slow
    one, by_others = np.ones(len(most), dtype=np.int64), np.ones(len(most), dtype=bool)
    return Comparison(times, times.role, usual, excess, score, one, most, "the median of its role", by_others)


def _with_quicker(
    times: ComputeTime, step_s: float, before: Float64, ranks: Bool, params: ComputeTimeParams, *, evens_out: bool
) -> Comparison:
    """Compare each rank with the quicker half of its role in each step.

    Of a role on two servers, half of the ranks are slow with one of them. The median does not show which half, and what
    gets slower bit by bit doesn't show against its own steps just before; but a job waits for the slower half, and GPUs
    do not become quicker than they are made: where the quicker half takes less than it usually does, more of its
    compute time is hidden, as behind an exchange that waits for one of them.

    Parameters: `ranks` bool[m], those that are compared. Of ranks with `hidden` compute time, two halves differ in what
    shows of it, in some steps more than in others, and all the time: they are looked at by themselves, when nobody else
    is, and what they differ by is not taken to even out over steps (`evens_out`).
    """
    usual = np.full(times.seconds.shape, np.nan)
    quicker = np.zeros(len(times.role), dtype=bool)
    each_s = robust.median(times.seconds, axis=1)
    for stage in np.unique(times.role).tolist():
        rows = np.flatnonzero((times.role == stage) & ranks)
        if len(rows) > params.min_peers and len(rows) % 2 == 0 and not np.isnan(each_s[rows]).any():
            half = rows[np.argsort(each_s[rows], kind="stable")[: len(rows) // 2]]
            quicker[half] = True
            now_s = robust.median(times.seconds[half], axis=0)
            usually_s = np.fmax(robust.median(now_s), robust.median(before[half]))
            usual[rows] = np.maximum(now_s, robust.known_or(usually_s))[None]
    excess = _beyond(times.seconds, usual)
    score = _score(excess, excess, times.role, step_s, params, quicker, evens_out=evens_out)
    half_of_role, by_others = np.bincount(times.role)[times.role] // 2, np.ones(len(times.role), dtype=bool)
    reference = "the quicker half of its role"
    return Comparison(times, times.role, usual, excess, score, half_of_role, half_of_role, reference, by_others)


def compare_with_past(times: ComputeTime, step_s: float, before: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with its better steps, less what changed for most ranks.

    Parameters: `before` float64[m], the compute time that is known from before, in seconds, NaN where none is.
    What three quarters of the ranks have in common has changed for all: those of one server may be half of a job.
    """
    own = np.fmin(times.usual_s(params), before)
    own = np.where(own > 0, own, np.nan)  # nothing is a share of no compute time
    change = times.seconds / own[:, None]
    low, high = (robust.quantile_of_rows(change.T, q) for q in (0.25, 0.75))
    usual = own[:, None] * np.clip(1.0, low, high)[None]
    longer = _beyond(times.seconds, usual)
    among = np.zeros(len(times.endpoints), dtype=np.int32)
    # What is compared with its better steps exceeds them by jitter alone. As many as half may be slow all the time: the
    # others show the null model.
    always = np.nan_to_num(robust.median(longer, axis=1))
    jitter = always.clip(0, params.compute_jitter)[:, None]
    excess = _less_data(longer, times)
    score = _score(excess - jitter, longer - jitter, among, step_s, params, always <= robust.median(always))
    one, most = np.ones(len(among), dtype=np.int64), np.full(len(among), len(among) // 2)
    return Comparison(times, among, usual, excess, score, one, most, "its own work before", ~np.isnan(before))


def _beyond(seconds: Float64, usual: Float64) -> Float64:
    """Return what exceeds the usual as a share of it, NaN of no time."""
    return np.asarray((seconds - usual) / np.where(usual > 0, usual, np.nan))


def _less_data(excess: Float64, times: ComputeTime) -> Float64:
    """Take away the excess that other stages of the pipeline share, float64[m, k].

    Longer sequences take all stages longer that they pass through, on whatever GPUs.
    """
    if not times.absolute:
        return excess
    less = excess.copy()
    for mine, others in times.stages_of_chains:
        less[mine] -= np.nan_to_num(robust.median(excess[others], axis=1)).clip(min=0)[:, None]
    return less


def of_their_own(excess: Float64, role: Int32, params: ComputeTimeParams) -> Float64:
    """Take away the excess that ranks of a role share, where some exceed that, float64[m].

    Before the first output of a first stage all of its ranks may wait for one that still computes its last gradients:
    their replicas agree on them inside the server, unseen. Those that don't exceed what is shared are left with 0.
    """
    own = excess.copy()
    for rows in (np.flatnonzero(role == stage) for stage in np.unique(role)):
        alone = excess[rows] - max(float(excess[rows].min()), 0.0)
        stands_out = alone >= params.small_excess
        if stands_out.any():
            own[rows] = np.where(stands_out, alone, 0.0)
    return own


def _score(
    excess: Float64,
    longer: Float64,
    among: Int32,
    step_s: float,
    params: ComputeTimeParams,
    calm: Bool | None = None,
    *,
    evens_out: bool = True,
) -> Float64:
    """Return how surprising each excess is, float64[m, k], 0 if it is not.

    Parameters: `longer` float64[m, k], how much longer ranks compute for whatever reason, of which the null model is
    made; `calm` bool[m], the ranks that it is made of, by default all; `evens_out`, whether what steps vary by is less
    over several. If not, it may be there in all of them, and they are one comparison.
    """
    best = np.zeros(excess.shape)
    each_s = step_s if evens_out else step_s * excess.shape[1]
    comparisons = max(len(params.widths) * _COUNTED_S / each_s, 1.0)
    # A median is no larger than the largest value, and what is too small counts for nothing: it needs no null model.
    high: Bool = np.asarray((excess >= params.small_excess).any(axis=1))
    for group in np.unique(among[high]).tolist():
        rows = np.flatnonzero(among == group)
        looked_at = rows[high[rows]]
        still = longer[rows if calm is None else rows[calm[rows]]]
        single = spread_of(still, params.compute_jitter)
        for width in params.widths:
            smooth = trailing_low_median(excess[looked_at], width)
            if not (smooth >= params.small_excess).any():
                continue
            spread = spread_of(trailing_low_median(still, width), single / np.sqrt(width)) if evens_out else single
            score = corrected_score(np.nan_to_num(smooth / spread, nan=-1.0), comparisons)
            hit = np.where((score >= params.corrected_score) & (smooth >= params.small_excess), score, 0)
            best[looked_at] = np.maximum(best[looked_at], carried_back(hit, excess[looked_at], smooth, width))
    return best
