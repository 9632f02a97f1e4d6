"""Presence: stretches of time in which a pair of endpoints moves its steady traffic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.jobs.job_traffic import payload_spread_ns, weighty_pairs
from prism_ch.core import intervals, robust
from prism_ch.core.arrays import ROWS_AT_ONCE, blocks, last_rows, order_by, run_numbers, run_starts
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Presences:
    """Presences of pairs, sorted by (pair, time): `pair` int32[k], `first_ns` and `last_ns` int64[k].

    `traffic` are the bursts of all of them, n, and `of_burst` int32[n] the presence that each belongs to, rising.
    `merged` bool[pairs] masks the pairs whose records run on over many steps.
    """

    traffic: Traffic
    merged: Bool
    of_burst: Int32
    pair: Int32
    first_ns: Int64
    last_ns: Int64

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def ends(self) -> Int32:
        """The sources of all presences, then their destinations, int32[2 k]."""
        return np.concatenate([self.traffic.pair_src[self.pair], self.traffic.pair_dst[self.pair]])

    def blocks(self) -> Int64:
        """Return the stretch of presences that each of `ends` is in, int64[2 k]."""
        return intervals.merge(self.ends, np.tile(self.first_ns, 2), np.tile(self.last_ns, 2)).owner

    def keep(self, chosen: Bool) -> Presences:
        """Return the masked presences with their bursts."""
        if chosen.all():
            return self
        rows = chosen[self.of_burst]
        number = np.cumsum(chosen, dtype=np.int32) - 1
        kept = {name: getattr(self, name)[chosen] for name in ("pair", "first_ns", "last_ns")}
        return replace(self, traffic=self.traffic.take(rows), of_burst=number[self.of_burst[rows]], **kept)


def find_presences(
    traffic: Traffic, edge: Bool, merged: Bool, topology: Topology, params: RecogniseParams
) -> Presences:
    """Find the presences of the pairs that carry the steady traffic of jobs.

    Parameters as for `find_attempts`. A pair whose records run on over many steps is there from the first to the last.
    """
    chosen = (weighty_pairs(traffic, topology, params) & edge) | merged
    present = _cut(traffic.keep_pairs(chosen), merged[chosen], params)
    present = _unite(present.keep(_moves_data(present, params) | present.merged[present.pair]))
    return present.keep(_recurs(present, params) | present.merged[present.pair])


def _cut(traffic: Traffic, merged: Bool, params: RecogniseParams) -> Presences:
    """Cut each pair's bursts at unusual silences of its own or all around it."""
    opens = np.zeros(len(traffic), dtype=bool)
    opens[run_starts(traffic.pair)] = True
    gap_ns = traffic.start_ns.copy()
    gap_ns[1:] -= traffic.end_ns[:-1]
    gap_ns[opens] = 0
    away_ns = params.absence_silences * _usual_silence_ns(traffic, gap_ns, opens, params)
    away = _longer(gap_ns, away_ns, traffic.pair) | _after_common_silence(traffic, gap_ns, opens, away_ns, merged)
    opens |= away & ~merged[traffic.pair]
    first = np.flatnonzero(opens)
    first_ns, last_ns = traffic.start_ns[first], traffic.end_ns[last_rows(first, len(traffic))]
    return Presences(traffic, merged, np.cumsum(opens, dtype=np.int32) - 1, traffic.pair[first], first_ns, last_ns)


def _longer(gap_ns: Int64, limit_ns: Float64, pair: Int32) -> Bool:
    """Mask the gaps, int64[n], that are longer than a limit of their pair, bool[n].

    Parameters: `limit_ns` float64[pairs]. Some rows are looked at at a time: limits of all would be as large as gaps.
    """
    longer = np.empty(len(pair), dtype=bool)
    for begin in range(0, len(pair), ROWS_AT_ONCE):
        rows = slice(begin, begin + ROWS_AT_ONCE)
        longer[rows] = gap_ns[rows] > limit_ns[pair[rows]]
    return longer


def _usual_silence_ns(traffic: Traffic, gap_ns: Int64, opens: Bool, params: RecogniseParams) -> Float64:
    """Return the longest silence that each pair repeats, float64[pairs]: rarer ones are pauses or absences."""
    first = np.flatnonzero(opens)  # of each pair; the silence of 0 before its first burst sorts last
    edges = np.append(first, len(traffic))
    place = np.clip(np.diff(edges) - 1, 1, params.enough) - 1
    usual_ns = np.zeros(len(first))
    for low, high in blocks(first, ROWS_AT_ONCE):
        rows = slice(edges[low], edges[high])
        order = order_by(traffic.pair[rows], -gap_ns[rows])
        usual_ns[low:high] = gap_ns[rows][order[first[low:high] - first[low] + place[low:high]]]
    return usual_ns


def _after_common_silence(traffic: Traffic, gap_ns: Int64, opens: Bool, away_ns: Float64, merged: Bool) -> Bool:
    """Mask the bursts after an unusual silence of all joined to their pair, bool[n].

    Parameters: `away_ns` float64[pairs], what is too long a silence for each pair by itself. A pair that lost records
    repeats silences of two steps, which most of the others do not.
    """
    src, dst = traffic.pair_src, traffic.pair_dst
    joined = components(int(max(src.max(initial=0), dst.max(initial=0))) + 1, src, dst)[src]
    usual_ns = robust.median_by(joined[~merged], away_ns[~merged], int(joined.max(initial=0)) + 1)
    # Bursts of a pair with less between them are one stretch: few of those are left to look at.
    first = np.flatnonzero(opens | _longer(gap_ns, usual_ns[joined], traffic.pair))
    last = last_rows(first, len(traffic))
    timed = ~merged[traffic.pair[first]]
    first, last = first[timed], last[timed]
    pair = traffic.pair[first]
    active = intervals.merge(joined[pair], traffic.start_ns[first], traffic.end_ns[last])
    silent = np.ones(len(active.group), dtype=bool)
    silent[1:] = active.start[1:] - active.end[:-1] > usual_ns[active.group[1:]]
    silent[run_starts(active.group)] = True
    spell = np.cumsum(silent)[active.owner]
    after = np.zeros(len(traffic), dtype=bool)
    after[first[1:]] = (pair[1:] == pair[:-1]) & (spell[1:] != spell[:-1])
    return after


def _moves_data(present: Presences, params: RecogniseParams) -> Bool:
    """Mask the presences that move as much as a usual burst of their pair, bool[k].

    Less is a stray: what ranks exchange when they connect.
    """
    traffic = present.traffic
    bursts = traffic.counts_of_pairs()
    usual = traffic.sums_of_pairs(traffic.payload) / np.maximum(bursts, 1)
    moved = np.add.reduceat(traffic.payload, run_starts(present.of_burst))
    return np.asarray(moved >= params.half * usual[present.pair])


def _unite(present: Presences) -> Presences:
    """Join the presences of a pair between which neither of its endpoints falls silent."""
    source, destination = np.split(present.blocks(), 2)
    keys = (present.pair, source, destination)
    first = run_starts(*keys)
    return replace(
        present,
        of_burst=run_numbers(*keys).astype(np.int32)[present.of_burst],
        pair=present.pair[first],
        first_ns=present.first_ns[first],
        last_ns=present.last_ns[last_rows(first, len(present))],
    )


def _recurs(present: Presences, params: RecogniseParams) -> Bool:
    spread = payload_spread_ns(present.traffic, present.of_burst, len(present), params.payload_tail)
    block = present.blocks()
    lifetime = np.zeros(int(block.max(initial=-1)) + 1)
    np.maximum.at(lifetime, block, np.tile(spread, 2))
    source, destination = np.split(block, 2)
    return np.asarray(spread >= params.half * np.minimum(lifetime[source], lifetime[destination]))
