"""Rails: parts of one job that never meet in the network, told by their servers and by when they are active."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
from scipy import fft

from prism_ch.analysis.jobs.attempts import Attempts
from prism_ch.core.graph import components, overlap_matrix
from prism_ch.model.columns import Bool, Complex128, Float64, Int64
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Bins of the activity series: enough for some tens of steps with several bins each.
_ACTIVITY_BINS = 2048


#: Says how much alike the lives of each listed pair are, float64[pairs] in 0..1.
_Likeness = Callable[[Int64, Int64], Float64]


def merge_rails(
    attempts: Attempts, topology: Topology, known: Sequence[JobMemory], params: RecogniseParams
) -> Attempts:
    """Join lives of components into lives of jobs.

    Components on much the same servers are joined where they are active together, at whatever distance; what that
    gives, on whatever servers, where it is active at the same moments: rings of several channels may visit disjoint
    sets of servers. Merged pairs are active all the time: components of nothing else are joined by their volumes.
    """
    bins, overlap = _ACTIVITY_BINS, params.half

    def together(attempts: Attempts, lags: int) -> _Likeness:
        """Compare lives by their activity."""
        return lambda left, right: _co_activity(attempts, left, right, bins, lags)

    rails = attempts
    if attempts.merged.any():
        rails = _join(rails, topology, known, overlap, params.same_volume_min, _volume(rails, topology), params)
    rails = _join(rails, topology, known, overlap, params.co_activity_min, together(rails, bins // 8), params)
    return _join(rails, topology, known, 0.0, params.nearly_all, together(rails, 0), params)


def _join(
    attempts: Attempts,
    topology: Topology,
    known: Sequence[JobMemory],
    least_overlap: float,
    least_alike: float,
    likeness: _Likeness,
    params: RecogniseParams,
) -> Attempts:
    """Join lives of one tenant whose servers overlap and that are alike enough, while both last.

    What was told apart for long stays apart, though it may step alike for a while; what was one job for long stays one
    unless its parts are far from alike: a slow GPU delays its own part first.
    """
    count = len(attempts)
    similar = overlap_matrix(attempts.attempt, topology.server[attempts.endpoint])
    tenant = np.zeros(count, dtype=np.int32)
    tenant[attempts.attempt] = topology.tenant[attempts.endpoint]
    at_once = np.minimum.outer(attempts.last_ns, attempts.last_ns) > np.maximum.outer(
        attempts.first_ns, attempts.first_ns
    )
    together, apart = _told_before(attempts, known, params)
    may_join = (tenant[:, None] == tenant[None, :]) & at_once & ~apart
    left, right = np.nonzero(np.triu((similar >= least_overlap) & may_join, k=1))
    needed = np.where(together[left, right], params.half * least_alike, least_alike)
    alike = likeness(left, right) >= needed
    return attempts.joined(components(count, left[alike].astype(np.int32), right[alike].astype(np.int32)))


def _volume(attempts: Attempts, topology: Topology) -> _Likeness:
    """Compare lives by what each server sends a second in them, where one of the two shows no activity in time.

    Their likeness is what both have of it over what either has, 0 where both show activity.
    """
    servers, pairs = len(topology.server_names), len(attempts.traffic.pair_src)
    key = np.unique(attempts.of_burst * np.int64(pairs) + attempts.traffic.pair)
    attempt, pair = np.divmod(key, pairs)
    sent = attempt * servers + topology.server[attempts.traffic.pair_src[pair]]
    rate = attempts.traffic.rate_bytes_s()[pair]
    volume = np.bincount(sent, weights=rate, minlength=len(attempts) * servers).reshape(-1, servers)
    is_timed = np.bincount(attempt, weights=~attempts.merged[pair], minlength=len(attempts)) > 0

    def likeness(left: Int64, right: Int64) -> Float64:
        alike = np.zeros(len(left))
        for row in np.flatnonzero(~(is_timed[left] & is_timed[right])).tolist():
            one, other = volume[left[row]], volume[right[row]]
            alike[row] = np.minimum(one, other).sum() / np.maximum(one, other).sum()
        return alike

    return likeness


def _told_before(attempts: Attempts, known: Sequence[JobMemory], params: RecogniseParams) -> tuple[Bool, Bool]:
    """Say which lives were one settled job, and which were different jobs, one settled; bool[count, count] each.

    A life belongs to the job in which most of its endpoints were, where it began before the job was last seen.
    """
    size = np.bincount(attempts.attempt, minlength=len(attempts))
    job, settled = np.full(len(size), -1), np.zeros(len(size), dtype=bool)
    for row, memory in enumerate(known):
        inside = np.isin(attempts.endpoint, memory.members.endpoint)
        mine = np.bincount(attempts.attempt[inside], minlength=len(size)) > size / 2
        mine &= attempts.first_ns <= memory.job.last_seen_ns
        job[mine], settled[mine] = row, len(memory.steps) >= params.settled_steps
    told = (job[:, None] >= 0) & (job[None, :] >= 0) & (settled[:, None] | settled[None, :])
    same = job[:, None] == job[None, :]
    return told & same, told & ~same


def _co_activity(attempts: Attempts, left: Int64, right: Int64, bins: int, lags: int) -> Float64:
    """Return how much alike the payload of each listed pair of lives comes and goes, float64[pairs], at most 1.

    Parameters: `left`, `right`, the pairs; `lags`, in bins either way.
    It is their largest cross-correlation over the time that both are seen, at such lags: stages of a job may reduce
    their gradients at different moments of a step, but always at the same distance. 0 where a life has no burst that
    tells of time.
    """
    timed = np.flatnonzero(~attempts.merged[attempts.traffic.pair])
    order = timed[np.argsort(attempts.of_burst[timed], kind="stable")]
    edges = np.searchsorted(attempts.of_burst[order], np.arange(len(attempts) + 1))
    bursts = [attempts.traffic.take(order[low:high]) for low, high in pairwise(edges)]
    best = np.zeros(len(left))
    for row, (one, other) in enumerate((bursts[a], bursts[b]) for a, b in zip(left, right, strict=True)):
        if len(one) == 0 or len(other) == 0:
            continue
        begin = max(int(one.start_ns.min()), int(other.start_ns.min()))
        end = min(int(one.end_ns.max()), int(other.end_ns.max()))
        if begin < end:
            spectra = [_activity_spectrum(part, begin, end, bins) for part in (one, other)]
            correlation = fft.irfft(spectra[0] * np.conj(spectra[1]), n=2 * bins)
            best[row] = max(correlation[: lags + 1].max(), correlation[2 * bins - lags :].max(initial=-1.0))
    return best


def _activity_spectrum(bursts: Traffic, begin: int, end: int, bins: int) -> Complex128:
    """Return the Fourier transform of a component's activity in [begin, end), zero-padded."""
    spectrum: Complex128 = fft.rfft(_activity(bursts, begin, end, bins), n=2 * bins)
    return spectrum


def _activity(bursts: Traffic, begin: int, end: int, bins: int) -> Float64:
    """Return payload over time in [begin, end), its mean removed, of unit norm, float64[bins].

    A burst's payload is spread evenly over the bins from its start to its end, and a bin to either side.
    """
    inside = bursts.take((bursts.end_ns >= begin) & (bursts.start_ns <= end))
    first, last = (
        np.clip((edge - begin) * bins // (end - begin), 0, bins - 1) for edge in (inside.start_ns, inside.end_ns)
    )
    first, last = np.maximum(first - 1, 0), np.minimum(last + 1, bins - 1)
    rate = inside.payload / (last - first + 1)
    change = np.bincount(first, weights=rate, minlength=bins + 1) - np.bincount(
        last + 1, weights=rate, minlength=bins + 1
    )
    series = np.cumsum(change[:bins]).astype(np.float64)
    series -= series.mean()
    activity: Float64 = series / (np.linalg.norm(series) or 1.0)
    return activity
