"""Bursts of payload between endpoints: what the stages after `observe` look at."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core.arrays import last_rows, rows_among, run_lengths, run_numbers, run_starts
from prism_ch.model.columns import Bool, Float64, Int32, Int64, freeze


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bursts of data, one a row, sorted by (pair, start_ns); bursts of a pair do not overlap.

    `pair` is a row of the pair table below: directed pairs of endpoints that carry data, sorted by (src, dst).
    `payload` is bytes without packet headers. `pair_blur_ns` int64[pairs] is how far apart bursts of a pair and of
    others may lie that move at the same moment, `pair_tick_ns` int64[pairs] what their times are cut to.
    """

    pair: Int32
    start_ns: Int64
    end_ns: Int64
    payload: Int64
    pair_src: Int32
    pair_dst: Int32
    pair_blur_ns: Int64
    pair_tick_ns: Int64

    def __post_init__(self) -> None:
        freeze(self, pair=np.int32, start_ns=np.int64, end_ns=np.int64, payload=np.int64)
        freeze(self, pair_src=np.int32, pair_dst=np.int32, pair_blur_ns=np.int64, pair_tick_ns=np.int64)

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def src(self) -> Int32:
        """Sender of each burst, int32[n]."""
        return self.pair_src[self.pair]

    @property
    def dst(self) -> Int32:
        """Receiver of each burst, int32[n]."""
        return self.pair_dst[self.pair]

    @property
    def tick_s(self) -> float:
        """The coarsest time resolution, in seconds; 0 without a pair."""
        return float(self.pair_tick_ns.max(initial=0)) / 1e9

    def moving(self) -> Bool:
        """Mask the pairs that have a burst, bool[pairs]; after `take` some may have none left."""
        return self.counts_of_pairs() > 0

    def rows_of(self, pairs: Int64) -> Int64:
        """Return the rows of the bursts of some pairs, int64[k] for rising int64[m]."""
        return rows_among(self.pair, pairs)

    def span_ns(self) -> Int64:
        """Return each pair's time from first to last moment, int64[pairs]; 0 without a burst."""
        span_ns, first = np.zeros(len(self.pair_src), dtype=np.int64), run_starts(self.pair)
        span_ns[self.pair[first]] = self.end_ns[last_rows(first, len(self))] - self.start_ns[first]
        return span_ns

    def counts_of_pairs(self) -> Int64:
        """Count each pair's bursts, int64[pairs]; np.bincount would make a copy of their pairs."""
        count, first = np.zeros(len(self.pair_src), dtype=np.int64), run_starts(self.pair)
        count[self.pair[first]] = run_lengths(first, len(self))
        return count

    def sums_of_pairs(self, values: Int64) -> Int64:
        """Add up what each pair's bursts have, int64[pairs], of int64[n].

        np.bincount would make a copy of it as floats.
        """
        total, first = np.zeros(len(self.pair_src), dtype=np.int64), run_starts(self.pair)
        total[self.pair[first]] = np.add.reduceat(values, first)
        return total

    def rate_bytes_s(self) -> Float64:
        """Return the mean rate of each pair from first to last moment, float64[pairs]."""
        span_s = self.span_ns() / 1e9
        return np.divide(self.sums_of_pairs(self.payload), span_s, out=np.zeros(len(span_s)), where=span_s > 0)

    def keep_pairs(self, keep: Bool) -> Traffic:
        """Return the bursts of some pairs, with the pair table cut down to them."""
        if keep.all():
            return self
        number = np.cumsum(keep) - 1
        kept = self.take(keep[self.pair])
        return _numbered(kept, number[kept.pair], keep)

    def moving_pairs(self) -> Int64:
        """Return the pairs that have a burst, int64[k], rising."""
        return self.pair[run_starts(self.pair)].astype(np.int64)

    def with_pairs_in_parts(self, second: Bool) -> Traffic:
        """Return it with two pairs for each, the second of the masked bursts.

        Parameters: `second` bool[n], the last ones of each pair.
        """
        twice = np.arange(len(self.pair_src)).repeat(2)
        return _numbered(self, 2 * self.pair + second, twice)

    def without_silent_pairs(self) -> Traffic:
        """Return it with the pair table cut down to the pairs that have a burst."""
        pairs = self.moving_pairs()
        if len(pairs) == len(self.pair_src):
            return self
        return _numbered(self, run_numbers(self.pair), pairs)

    def take(self, rows: Bool | Int64) -> Traffic:
        """Return the bursts of a mask or an index, with the whole pair table."""
        if rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)
        return replace(
            self,
            pair=self.pair[rows],
            start_ns=self.start_ns[rows],
            end_ns=self.end_ns[rows],
            payload=self.payload[rows],
        )


def _numbered(traffic: Traffic, pair: Int32 | Int64, pairs: Bool | Int64) -> Traffic:
    """Return bursts with some of the pairs, by which they are numbered anew."""
    return replace(
        traffic,
        pair=pair.astype(np.int32),
        pair_src=traffic.pair_src[pairs],
        pair_dst=traffic.pair_dst[pairs],
        pair_blur_ns=traffic.pair_blur_ns[pairs],
        pair_tick_ns=traffic.pair_tick_ns[pairs],
    )
