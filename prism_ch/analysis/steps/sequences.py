"""The closing bursts of each communicator or link, in time, and other traffic among them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from prism_ch.core import intervals, robust
from prism_ch.core.arrays import last_rows, run_lengths, run_starts
from prism_ch.core.graph import components
from prism_ch.core.pairs import links_of
from prism_ch.core.search import group_search
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import DivideParams
from prism_ch.model.traffic import Traffic

#: Both directions of a link move at once in a collective: one is enough to show the other.
_BOTH_WAYS = 2


@dataclass(frozen=True, slots=True)
class Sequences:
    """Bursts of closing traffic, one sequence a line: sequence i is rows offsets[i] to offsets[i + 1].

    A line is a communicator, or a link of a pipeline. `line` int32[n], sorted; `start_ns`, `end_ns` int64[n];
    `payload` float64[n] in bytes; `gap_s` float64[n], the silence after each burst, infinite after the last one;
    `followed_by` float64[n], bytes of other traffic of the same endpoints that begin to move between a burst and the
    next; `offsets` int64[k + 1].
    """

    line: Int32
    start_ns: Int64
    end_ns: Int64
    payload: Float64
    gap_s: Float64
    followed_by: Float64
    offsets: Int64

    def __len__(self) -> int:
        """Count the sequences."""
        return len(self.offsets) - 1

    @property
    def volume(self) -> Float64:
        """Bytes of each sequence, float64[k]."""
        return np.bincount(self.line, weights=self.payload, minlength=len(self)).astype(np.float64)

    def rows(self, line: int) -> slice:
        """Return the rows of one sequence."""
        return slice(int(self.offsets[line]), int(self.offsets[line + 1]))

    def pieces(self, ends: Bool) -> tuple[Bool, Int64]:
        """Cut every sequence after the masked bursts and after its last one.

        Returns the mask of the bursts that end a piece, bool[n], and the number of each burst's piece, int64[n].
        """
        closed = ends | np.isinf(self.gap_s)
        return closed, np.cumsum(closed) - closed


def communicators(traffic: Traffic) -> Int32:
    """Return the number of each pair's communicator, int32[pairs]: the endpoints that traffic joins."""
    size = int(max(traffic.pair_src.max(), traffic.pair_dst.max())) + 1
    label = components(size, traffic.pair_src, traffic.pair_dst)[traffic.pair_src]
    return np.unique(label, return_inverse=True)[1].astype(np.int32)


def links(traffic: Traffic) -> Int32:
    """Return the number of each pair's undirected link, int32[pairs]."""
    return links_of(traffic.pair_src, traffic.pair_dst).of_pair.astype(np.int32)


def read_sequences(traffic: Traffic, line_of_pair: Int32, params: DivideParams) -> Sequences:
    """Join the bursts of each line's pairs into one sequence of bursts in time."""
    joined = intervals.merge(line_of_pair[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns)
    payload = np.bincount(joined.owner, weights=traffic.payload, minlength=len(joined.group)).astype(np.float64)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(joined.group))])
    gap_s = np.full(len(joined.group), np.inf)
    gap_s[:-1] = (joined.start[1:] - joined.end[:-1]) / 1e9
    gap_s[offsets[1:] - 1] = np.inf
    return Sequences(joined.group, joined.start, joined.end, payload, gap_s, np.zeros(len(gap_s)), offsets)


def still_sent(traffic: Traffic, line_of_pair: Int32, params: DivideParams) -> Bool:
    """Mask the bursts on pairs that their line does not go on without, bool[bursts].

    Whoever takes no part keeps a collective waiting. If a line goes on, what a silent pair moves is no longer recorded:
    steps seem to carry less, and those before did so without it, too.
    """
    first = run_starts(traffic.pair)
    pair, length = traffic.pair[first], run_lengths(first, len(traffic))
    gap_ns = np.append(traffic.start_ns[1:] - traffic.end_ns[:-1], 0)
    last = last_rows(first, len(traffic))
    gap_ns[last] = 0
    last_ns = traffic.end_ns[last]
    line = line_of_pair[pair]
    newest_ns = np.zeros(int(line_of_pair.max()) + 1, dtype=np.int64)
    np.maximum.at(newest_ns, line, last_ns)
    silent = newest_ns[line] - last_ns > params.twice * np.maximum.reduceat(gap_ns, first)
    return ~np.repeat(silent & (length >= params.min_count), length)


@dataclass(frozen=True, slots=True)
class Background:
    """Bursts of a job's other traffic, one row for each sequence whose endpoints they touch.

    `line` int32[m]; `after` int64[m], the last burst of the sequence that was over when one began, or the row before
    its first; `payload` float64[m] in bytes. Forward and backward passes come after all of a step's closing traffic:
    where an endpoint sends nothing else before its next closing burst, the step is not over.
    """

    line: Int32
    after: Int64
    payload: Float64

    def follow(self, sequences: Sequences) -> Sequences:
        """Return the sequences with the bytes that follow each burst."""
        inside = self.after >= sequences.offsets[self.line]
        moved = np.bincount(self.after[inside], weights=self.payload[inside], minlength=len(sequences.line))
        return replace(sequences, followed_by=moved.astype(np.float64))


def read_background(sequences: Sequences, line_of_endpoint: Int32, traffic: Traffic) -> Background:
    """Place other bursts among the closing ones; `line_of_endpoint` int32[e], -1 without a sequence."""
    line = np.concatenate([line_of_endpoint[traffic.src], line_of_endpoint[traffic.dst]])
    touched = line >= 0
    start_ns, payload = np.tile(traffic.start_ns, 2)[touched], np.tile(traffic.payload, 2)[touched]
    after = group_search(sequences.line, sequences.end_ns, line[touched], start_ns) - 1
    return Background(line[touched], after, payload.astype(np.float64))


def whole_payload(traffic: Traffic, communicator: Int32, params: DivideParams) -> Float64:
    """Impute what each burst of a communicator moved, lost records included, float64[bursts].

    Parameters: `traffic`, closing bursts; `communicator` int32[pairs]. Bursts are those of `read_sequences`.
    Pairs of one communicator that move about as much are a class: they do so in the same bursts.

    1. Sum what each pair moves in each burst.
    2. Find the classes of pairs by what they move in all.
    3. Where most of a class take part in a burst, all have moved what the middle one did. Not next to a burst in which
       few take part: those are late or early, and not lost.
    """
    pairs = len(traffic.pair_src)
    burst = intervals.merge(communicator[traffic.pair], traffic.start_ns, traffic.end_ns, params.burst_gap_ns).owner
    cells, cell = np.unique(burst * pairs + traffic.pair, return_inverse=True)
    moved = np.bincount(cell, weights=traffic.payload)
    total = np.bincount(traffic.pair, weights=traffic.payload, minlength=pairs)
    alike = robust.size_classes(total, params.same_volume, communicator)
    of_burst, of_class = cells // pairs, alike[cells % pairs]
    order = np.lexsort((moved, of_burst, of_class))
    moved, of_burst, of_class = moved[order], of_burst[order], of_class[order]
    first = run_starts(of_class, of_burst)
    taking_part = run_lengths(first, len(order))
    of_burst, of_class = of_burst[first], of_class[first]
    members = np.bincount(alike)[of_class]
    most = (2 * taking_part > members) | (members == _BOTH_WAYS)
    adjacent = (of_class[1:] == of_class[:-1]) & (of_burst[1:] == of_burst[:-1] + 1)
    on_time = most.copy()
    on_time[:-1] &= ~(adjacent & ~most[1:])
    on_time[1:] &= ~(adjacent & ~most[:-1])
    whole = np.where(on_time, members * moved[first + taking_part // 2], np.add.reduceat(moved, first))
    return np.bincount(of_burst, weights=whole).astype(np.float64)
