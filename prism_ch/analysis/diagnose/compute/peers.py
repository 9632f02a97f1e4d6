"""Peers: ranks compared in what they do with others of their role, or with what they did themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime
from prism_ch.analysis.diagnose.cost import step_seconds
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

    `usual` seconds are those of the others, `excess` the share of the work that is too much, and `score` says how
    surprising it is, corrected for all comparisons in 1,000 GPU-hours; 0 where it is not too much. `among` int32[m]
    numbers those that are compared with one another, and `least` to `most` of them can be told to be slow. `reference`
    says in words what a rank was compared with. `by_others` bool[m]: that is not only the other steps looked at, of
    which a young job may not have enough to say what is usual.
    """

    work: ComputeTime
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
    """Compare the ranks of a job in each way that tells something, the one that tells most first.

    Parameters: `measured`, see `measure_work`; `expected_s`, what is known of before to be the usual work of an
    endpoint: what has been slow for long, or became so bit by bit, must not become the measure of itself.
    """
    if division.steps <= max(params.slow_steps, 1):
        return
    lasts_s = step_seconds(division)
    step_s = float(np.median(lasts_s))
    for work in measured:
        yield _with_peers(work, np.append(np.nan, lasts_s), params)
        if work.absolute:
            yield _with_past(work, step_s, expected_s, params)
            yield _with_quicker(work, step_s, expected_s, params)


def _with_peers(work: ComputeTime, lasts_s: Float64, params: ComputeTimeParams) -> Comparison:
    """Compare each rank with the median of its role in each step.

    Parameters: `lasts_s` float64[k], how long steps last. No rank works for longer than others by more than the step:
    there its steps were told wrongly, and say nothing.
    """
    step_s = float(robust.median(lasts_s))
    usual = np.full(work.seconds.shape, np.nan)
    for stage in np.unique(work.role).tolist():
        rows = np.flatnonzero(work.role == stage)
        if len(rows) >= params.min_peers:
            usual[rows] = robust.median(work.seconds[rows], axis=0)[None]
    scale = np.where(usual > 0, usual, np.nan) if work.absolute else step_s
    too_long = work.seconds - usual > np.where(np.isnan(lasts_s), step_s, lasts_s)
    longer = np.where(too_long, np.nan, work.seconds - usual) / scale
    excess = _less_data(longer, work)
    score = _score(excess, longer, work.role, step_s, params)
    most = (np.bincount(work.role)[work.role] - 1) // 2  # of as many that are slow as are not, nobody knows which
    one, by_others = np.ones(len(most), dtype=np.int64), np.ones(len(most), dtype=bool)
    return Comparison(work, work.role, usual, excess, score, one, most, "the median of its role", by_others)


def _with_quicker(
    work: ComputeTime, step_s: float, expected_s: Mapping[int, float], params: ComputeTimeParams
) -> Comparison:
    """Compare each rank with the quicker half of its role in each step, where just the other half may be slow.

    Of a role on two servers, half of the ranks are slow with one of them. By the median nobody could tell which half
    it is, and what gets slower bit by bit doesn't show against its own steps just before; but a job waits for the
    slower half, and GPUs do not become quicker than they are made: where the quicker half takes less than it usually
    does, more of its work is hidden, as behind an exchange that waits for one of them. Of ranks whose work is partly
    hidden, two halves may differ in what shows of it.
    """
    usual = np.full(work.seconds.shape, np.nan)
    before = _before(work, expected_s)
    quicker = np.zeros(len(work.role), dtype=bool)
    each_s = robust.median(work.seconds, axis=1)
    for stage in np.unique(work.role).tolist():
        rows = np.flatnonzero(work.role == stage)
        if work.hidden is not None and work.hidden[rows].any():
            continue
        if len(rows) > params.min_peers and len(rows) % 2 == 0 and not np.isnan(each_s[rows]).any():
            half = rows[np.argsort(each_s[rows], kind="stable")[: len(rows) // 2]]
            quicker[half] = True
            now_s = robust.median(work.seconds[half], axis=0)
            usually_s = np.fmax(robust.median(now_s), robust.median(before[half]))
            usual[rows] = np.maximum(now_s, np.nan_to_num(usually_s))[None]
    excess = (work.seconds - usual) / np.where(usual > 0, usual, np.nan)
    score = _score(excess, excess, work.role, step_s, params, quicker)
    half_of_role = np.bincount(work.role)[work.role] // 2
    by_others = np.ones(len(half_of_role), dtype=bool)
    reference = "the quicker half of its role"
    return Comparison(work, work.role, usual, excess, score, half_of_role, half_of_role, reference, by_others)


def _with_past(
    work: ComputeTime, step_s: float, expected_s: Mapping[int, float], params: ComputeTimeParams
) -> Comparison:
    """Compare each rank with itself in its better steps, less what has changed for most ranks of the job alike.

    What three quarters of the ranks have in common has changed for all: those of one server may be half of a job.
    """
    before = _before(work, expected_s)
    own = np.fmin(work.usual_s(), before)
    own = np.where(own > 0, own, np.nan)  # of no work at all nothing is a share
    change = work.seconds / own[:, None]
    low, high = (robust.quantile_of_rows(change.T, q) for q in (0.25, 0.75))
    common = np.clip(1.0, low, high)
    usual = own[:, None] * common[None]
    longer = (work.seconds - usual) / usual
    among = np.zeros(len(work.endpoints), dtype=np.int32)
    # What is compared with its better steps exceeds them by jitter alone. As many as half may be slow all the time: the
    # others say what is chance.
    always = np.nan_to_num(robust.median(longer, axis=1))
    jitter = always.clip(0, params.compute_jitter)[:, None]
    excess = _less_data(longer, work)
    score = _score(excess - jitter, longer - jitter, among, step_s, params, always <= np.median(always))
    one, most = np.ones(len(among), dtype=np.int64), np.full(len(among), len(among) // 2)
    return Comparison(work, among, usual, excess, score, one, most, "its own work before", ~np.isnan(before))


def _before(work: ComputeTime, expected_s: Mapping[int, float]) -> Float64:
    """Return what each rank is known to have worked in a step before, in seconds, float64[m], NaN where it is not."""
    return np.array([expected_s.get(endpoint, np.nan) for endpoint in work.endpoints.tolist()])


def _less_data(excess: Float64, work: ComputeTime) -> Float64:
    """Take from the excess of each rank what the other stages of its pipeline have of it too, float64[m, k].

    Longer sequences take all stages longer that they pass through, on whatever GPUs.
    """
    if not work.absolute:
        return excess
    less = excess.copy()
    for chain in np.unique(work.chain).tolist():
        rows = np.flatnonzero(work.chain == chain)
        for row in rows.tolist():
            others = excess[rows[work.role[rows] != work.role[row]]]
            less[row] -= np.nan_to_num(robust.median(others, axis=0)).clip(min=0)
    return less


def _score(
    excess: Float64, longer: Float64, among: Int32, step_s: float, params: ComputeTimeParams, calm: Bool | None = None
) -> Float64:
    """Return how surprising each excess is, with those of the steps around it: float64[m, k], 0 where it is not.

    Parameters: `longer` float64[m, k], how much longer ranks work for whatever reason: that says how wide an excess
    spreads by chance; `calm` bool[m], the ranks whose does, by default all.
    """
    best = np.zeros(excess.shape)
    comparisons = max(len(params.widths) * _COUNTED_S / step_s, 1.0)
    for group in np.unique(among).tolist():
        rows = np.flatnonzero(among == group)
        still = longer[rows if calm is None else rows[calm[rows]]]
        single = spread_of(still, params.compute_jitter)
        for width in params.widths:
            smooth = trailing_low_median(excess[rows], width)
            spread = spread_of(trailing_low_median(still, width), single / np.sqrt(width))
            told = corrected_score(np.nan_to_num(smooth / spread, nan=-1.0), comparisons)
            hit = np.where((told >= params.corrected_score) & (smooth >= params.small_excess), told, 0)
            best[rows] = np.maximum(best[rows], carried_back(hit, excess[rows], smooth, width))
    return best
