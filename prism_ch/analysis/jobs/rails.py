"""Rails: parts of one job that never meet in the network, joined by their servers and by when they are active."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy import fft

from prism_ch.analysis.jobs.attempts import Attempts
from prism_ch.core.arrays import distinct, is_among, ranges, run_lengths, run_starts
from prism_ch.core.graph import components, overlaps, pairs_within
from prism_ch.model.columns import Bool, Complex128, Float64, Int64
from prism_ch.model.job import ALWAYS_NS, FOREVER_NS
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic

#: Bins of the activity series: enough for some tens of steps with several bins each.
_BINS = 2048

#: As many onsets at least tell whether attempts begin anew together.
_ONSETS = 3


def merge_rails(
    attempts: Attempts, topology: Topology, known: Sequence[JobMemory], params: RecogniseParams
) -> Attempts:
    """Join attempts of components into attempts of jobs.

    1. Merged pairs are active all the time: components of nothing else are joined by their volumes.
    2. Components on much the same servers are joined if they begin anew together after their pauses.
    3. Those are, too, that are active together, at whatever distance.
    4. What that gives is joined, on whatever servers, if it is active at the same moments: rings of several channels
       may visit disjoint sets of servers.
    Rails of a job begin together, and a slow one ends later, when the others have long paused; or one begins later, as
    it has the rank that all others wait for, and they end together.
    """
    join = partial(_join, topology=topology, known=known, params=params)
    if attempts.merged.any():
        volume = partial(_common_volume, attempts, topology)
        attempts = join(attempts, volume, overlap_min=params.half, alike_min=params.same_volume_min)
    bursts = _TimedBursts.of(attempts)
    near, anywhere = (params.half, params.co_activity_min), (0.0, params.nearly_all)
    looks: tuple[tuple[Callable[[_TimedBursts, Int64, Int64], Float64], float, float], ...] = (
        (_common_onsets, *near),
        (partial(_co_activity, lags=_BINS // 8, by_end=False), *near),
        (partial(_co_activity, lags=_BINS // 8, by_end=True), *near),
        (partial(_co_activity, lags=0, by_end=False), *anywhere),
        (partial(_co_activity, lags=0, by_end=True), *anywhere),
    )
    for likeness, overlap_min, alike_min in looks:
        joined = join(attempts, partial(likeness, bursts), overlap_min=overlap_min, alike_min=alike_min)
        if joined.of_burst is not attempts.of_burst:
            bursts = _TimedBursts.of(joined)
        attempts = joined
    return attempts


def _join(
    attempts: Attempts,
    likeness: Callable[[Int64, Int64], Float64],
    *,
    overlap_min: float,
    alike_min: float,
    topology: Topology,
    known: Sequence[JobMemory],
    params: RecogniseParams,
) -> Attempts:
    """Join attempts of one tenant and time whose servers overlap and that are alike.

    Parameters: `likeness` of listed pairs of attempts, float64[pairs] in 0..1.
    What was apart for long stays apart, though it may step alike for a while; what was one job for long stays one
    unless its parts are far from alike: a slow GPU delays its own part first.
    """
    count = len(attempts)
    left, right = _at_once(attempts, overlap_min, topology)
    together, apart = _known_before(attempts, known, left, right, params)
    left, right, together = left[~apart], right[~apart], together[~apart]
    needed = np.where(together, params.half * alike_min, alike_min)
    alike = np.zeros(len(left), dtype=bool)
    open_rows = np.arange(len(left))
    while True:
        part = components(count, left[alike], right[alike])
        open_rows = open_rows[part[left[open_rows]] != part[right[open_rows]]]
        if not len(open_rows):
            return attempts.joined(part)
        # Of what each part may be joined to, the first is compared: what it joins need not be compared again.
        rows = np.unique(part[right[open_rows]], return_index=True)[1]
        chosen = open_rows[rows]
        alike[chosen] = likeness(left[chosen], right[chosen]) >= needed[chosen]
        open_rows = np.delete(open_rows, rows)


def _at_once(attempts: Attempts, overlap_min: float, topology: Topology) -> tuple[Int64, Int64]:
    """List attempts of one tenant and time, int64[pairs] each, whose servers overlap.

    Parameters: `overlap_min`, by how much at least; where they need not, every two of a tenant's are compared.
    """
    tenant = np.zeros(len(attempts), dtype=np.int32)
    tenant[attempts.attempt] = topology.tenant[attempts.endpoint]
    if overlap_min > 0:
        left, right, overlap = overlaps(attempts.attempt, topology.server[attempts.endpoint])
        kept = (overlap >= overlap_min) & (tenant[left] == tenant[right])
        left, right = left[kept], right[kept]
    else:
        left, right = pairs_within(tenant)
    first_ns, last_ns = attempts.first_ns, attempts.last_ns
    at_once = np.minimum(last_ns[left], last_ns[right]) > np.maximum(first_ns[left], first_ns[right])
    return left[at_once], right[at_once]


def _common_volume(attempts: Attempts, topology: Topology, left: Int64, right: Int64) -> Float64:
    """Compare the volumes of listed attempts server by server, float64[pairs].

    It is what both send a second over what either sends, or 0 if both show activity in time.
    """
    servers, pairs = len(topology.server_names), len(attempts.traffic.pair_src)
    key = distinct(attempts.of_burst * np.int64(pairs) + attempts.traffic.pair)
    attempt, pair = np.divmod(key, pairs)
    sent = attempt * servers + topology.server[attempts.traffic.pair_src[pair]]
    rate = attempts.traffic.rate_bytes_s()[pair]
    volume = np.bincount(sent, weights=rate, minlength=len(attempts) * servers).reshape(-1, servers)
    is_timed = np.bincount(attempt, weights=~attempts.merged[pair], minlength=len(attempts)) > 0
    alike = np.zeros(len(left))
    for row in np.flatnonzero(~(is_timed[left] & is_timed[right])).tolist():
        one, other = volume[left[row]], volume[right[row]]
        alike[row] = np.minimum(one, other).sum() / np.maximum(one, other).sum()
    return alike


def _known_before(
    attempts: Attempts, known: Sequence[JobMemory], left: Int64, right: Int64, params: RecogniseParams
) -> tuple[Bool, Bool]:
    """Mask listed attempts that were one job, and that were different jobs, bool[pairs] each.

    An attempt belongs to the job in which most of its endpoints were, if it began before the job was last seen. The
    job, or one of the different jobs, has to keep its members.
    """
    size = np.bincount(attempts.attempt, minlength=len(attempts))
    job, settled = np.full(len(size), -1), np.zeros(len(size), dtype=bool)
    for row, memory in enumerate(known):
        inside = is_among(attempts.endpoint, memory.members.endpoint)
        mine = np.bincount(attempts.attempt[inside], minlength=len(size)) > size / 2
        mine &= attempts.first_ns <= memory.job.last_seen_ns
        job[mine], settled[mine] = row, memory.keeps_members(params)
    known_both = (job[left] >= 0) & (job[right] >= 0) & (settled[left] | settled[right])
    same = job[left] == job[right]
    return known_both & same, known_both & ~same


@dataclass(frozen=True, slots=True)
class _TimedBursts:
    """The bursts of each attempt that show time, cut out when they are looked at.

    An attempt's are runs of rows of all bursts: `first` and `count` int64[runs], sorted by attempt, those of each from
    `edges` int64[attempts + 1] on.
    """

    traffic: Traffic
    first: Int64
    count: Int64
    edges: Int64

    @classmethod
    def of(cls, attempts: Attempts) -> _TimedBursts:
        traffic, of_burst = attempts.traffic, attempts.of_burst
        first = run_starts(traffic.pair, of_burst)
        count = run_lengths(first, len(traffic))
        timed = np.flatnonzero(~attempts.merged[traffic.pair[first]])
        timed = timed[np.argsort(of_burst[first[timed]], kind="stable")]
        edges = np.searchsorted(of_burst[first[timed]], np.arange(len(attempts) + 1))
        return cls(traffic, first[timed], count[timed], edges)

    def __getitem__(self, attempt: int) -> _Timed:
        runs = slice(*self.edges[attempt : attempt + 2])
        return _Timed.of(self.traffic, ranges(self.first[runs], self.count[runs]))


def _co_activity(bursts: _TimedBursts, left: Int64, right: Int64, *, lags: int, by_end: bool) -> Float64:
    """Correlate the activity of listed attempts while both are seen, float64[pairs], at most 1.

    Parameters: `bursts` of each attempt; `lags`, in bins either way, of which the best counts: stages of a job may
    reduce their gradients at different moments of a step, but always at the same distance; `by_end`, see `_spectrum`.
    0 if an attempt has no burst that shows time.
    """
    best = np.zeros(len(left))
    usual = cache(lambda attempt: bursts[attempt].usual)
    for row, one, other, begin, end in _seen_together(bursts, left, right):
        quicker = min(usual(int(left[row])), usual(int(right[row])))
        spectra = [_spectrum(part, begin, end, quicker, by_end=by_end) for part in (one, other)]
        correlation = fft.irfft(spectra[0] * np.conj(spectra[1]), n=2 * _BINS)
        best[row] = max(correlation[: lags + 1].max(), correlation[2 * _BINS - lags :].max(initial=-1.0))
    return best


def _common_onsets(bursts: _TimedBursts, left: Int64, right: Int64) -> Float64:
    """Compare when listed attempts begin anew after pauses, float64[pairs], at most 1."""
    alike = np.zeros(len(left))
    for row, one, other, begin, end in _seen_together(bursts, left, right):
        alike[row] = float(_onsets(one, begin, end) @ _onsets(other, begin, end))
    return alike


def _seen_together(bursts: _TimedBursts, left: Int64, right: Int64) -> Iterator[tuple[int, _Timed, _Timed, int, int]]:
    """Yield listed attempts that are seen at once: row, bursts, begin and end."""
    for row, pair in enumerate(zip(left.tolist(), right.tolist(), strict=True)):
        one, other = (bursts[attempt] for attempt in pair)
        begin, end = max(one.first_ns, other.first_ns), min(one.last_ns, other.last_ns)
        if begin < end:
            yield row, one, other, begin, end


def _onsets(bursts: _Timed, begin: int, end: int) -> Float64:
    """Return when bursts begin after pauses in [begin, end), float64[bins].

    Each weighs what its pause lasts, and all together are of unit norm. A pause counts as no longer than the
    third-longest one: what stops once, others may share.
    """
    order = np.argsort(bursts.start_ns, kind="stable")
    start_ns, until_ns = bursts.start_ns[order], np.maximum.accumulate(bursts.end_ns[order])
    pause_ns, onset_ns = np.maximum(start_ns[1:] - until_ns[:-1], 0), start_ns[1:]
    inside = (onset_ns >= begin) & (onset_ns < end)
    pause_ns, onset_ns = pause_ns[inside], onset_ns[inside]
    series = np.zeros(_BINS + 2)
    if len(pause_ns) < _ONSETS:
        return series
    weight = np.minimum(pause_ns, np.partition(pause_ns, -_ONSETS)[-_ONSETS]).astype(np.float64)
    place = (onset_ns - begin) * _BINS // (end - begin)
    for near in range(3):
        np.maximum.at(series, place + near, weight)
    return series / (np.linalg.norm(series) or 1.0)


@dataclass(frozen=True, slots=True)
class _Timed:
    """Bursts of an attempt that show time, int64[n] each, and when the first begins and the last ends.

    Without any, they end before they begin.
    """

    start_ns: Int64
    end_ns: Int64
    payload: Int64
    first_ns: int
    last_ns: int

    @classmethod
    def of(cls, traffic: Traffic, rows: Int64) -> _Timed:
        start_ns, end_ns = traffic.start_ns[rows], traffic.end_ns[rows]
        first_ns, last_ns = int(start_ns.min(initial=FOREVER_NS)), int(end_ns.max(initial=ALWAYS_NS))
        return cls(start_ns, end_ns, traffic.payload[rows], first_ns, last_ns)

    @property
    def usual(self) -> tuple[int, int]:
        """How long bursts last in the median byte, in ns, and their payload."""
        lasts_ns = self.end_ns - self.start_ns
        order = np.argsort(lasts_ns)
        moved = np.cumsum(self.payload[order])
        middle = order[np.searchsorted(moved, moved[-1] / 2)]
        return int(lasts_ns[middle]), int(self.payload[middle])


def _spectrum(bursts: _Timed, begin: int, end: int, quicker: tuple[int, int], *, by_end: bool) -> Complex128:
    """Transform the payload over time in [begin, end), of mean 0 and unit norm, zero-padded.

    A burst's payload is spread evenly over the bins from its start to its end, and a bin to either side. It counts as
    no longer than `quicker` ones, of so many ns and bytes, are, or as many of them as have its payload, from its start
    on or to its end: of rails that are together in the one or the other, the slow or waiting one takes longer, where
    several bursts become one.
    """
    inside = (bursts.end_ns >= begin) & (bursts.start_ns <= end)
    start_ns = bursts.start_ns[inside]
    longest_ns = (quicker[0] * np.maximum(bursts.payload[inside] / quicker[1], 1.0)).astype(np.int64)
    end_ns = bursts.end_ns[inside]
    if by_end:
        start_ns = np.maximum(start_ns, end_ns - longest_ns)
    else:
        end_ns = np.minimum(end_ns, start_ns + longest_ns)
    first, last = (np.clip((edge - begin) * _BINS // (end - begin), 0, _BINS - 1) for edge in (start_ns, end_ns))
    first, last = np.maximum(first - 1, 0), np.minimum(last + 1, _BINS - 1)
    rate = bursts.payload[inside] / (last - first + 1)
    change = np.bincount(first, rate, _BINS + 1) - np.bincount(last + 1, rate, _BINS + 1)
    series = np.cumsum(change[:_BINS]).astype(np.float64)
    series -= series.mean()
    spectrum: Complex128 = fft.rfft(series / (np.linalg.norm(series) or 1.0), n=2 * _BINS)
    return spectrum
