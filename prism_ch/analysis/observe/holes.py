"""Finds holes in the records: exporters that are silent while traffic of several sources should have come.

One job that stands still is silent alone. If two that have nothing to do with each other fall silent at one moment,
behind the same exporters, the records are missing: what they do meanwhile can't be known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import ROWS_AT_ONCE, distinct, rows_among, run_starts
from prism_ch.core.graph import components
from prism_ch.model.columns import Bool, Int32, Int64
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import StopParams
from prism_ch.model.window import Interval

#: Moments closer than this are one, in nanoseconds: no usual pause of a job is told by less.
_TICK_NS = 10**7
#: The source of what goes between a job and others.
_ASIDE = 1


@dataclass(frozen=True, slots=True)
class Hole:
    """A span in which exporters sent nothing.

    `exporters`, sorted; `is_total` if there are no others. `is_open`: nothing has come since. `is_sure`: several
    sources fell silent at once; else one, which may stand still. `was_known`: it was told of before.
    """

    exporters: tuple[str, ...]
    is_total: bool
    span: Interval
    is_open: bool
    is_sure: bool
    was_known: bool = False

    def hides(self, exporters: Sequence[str]) -> bool:
        """Return whether nothing that only these exporters see is seen in the hole."""
        return self.is_total or set(exporters) <= set(self.exporters)


def find_holes(read: FlowBatch, until_ns: int, jobs: Sequence[Int32], params: StopParams) -> tuple[Hole, ...]:
    """Find the holes in some records, those of all exporters first.

    Parameters: `read`, all observations; `until_ns`, up to when they have arrived; `jobs`, the members of each job,
    int32[m] each.

    1. Take all exporters, and the exporters that each job is seen by, each set once.
    2. Find the gaps between their records that are longer than `silence_s`.
    3. Count the sources that sent until the gap began, and are overdue at its end by their usual gaps.
    4. If there are several, it is a hole for sure; with one it may be one, unless that is as silent again later.
    """
    found: list[Hole] = []
    if len(read) == 0:
        return ()
    seen = _Seen.of(read, jobs)
    for mask in seen.scopes():
        mine = seen.rows_of(mask)
        gaps = _gaps(_moments(seen.moment_ns[mine]), until_ns, params)
        gaps = [gap for gap in gaps if not any(one.span.start_ns <= gap.start_ns < one.span.end_ns for one in found)]
        mine = mine[seen.source[mine] != _ASIDE]
        moments = _by_source(seen.moment_ns[mine], seen.source[mine]) if gaps and len(mine) else []
        holes: list[Interval] = []
        for gap in gaps:
            silent = [each for each in moments if _is_overdue(each, gap, holes, params)]
            is_sure = len(silent) > 1
            if is_sure or any(not _recurs(each, gap, params) for each in silent):
                holes.append(gap)
                found.append(seen.hole(mask, gap, is_open=gap.end_ns == until_ns, is_sure=is_sure))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Seen:
    """At which moments each exporter saw each source, once each, sorted by exporter.

    `exporter`, `source` int32[k] and `moment_ns` int64[k], whole ticks of the epoch, so that a hole begins at the same
    moment whatever else is read. `exporters` are the names. They are far fewer than records, which all that is looked
    at here would be asked of for each set of exporters again.
    """

    exporters: tuple[str, ...]
    exporter: Int32
    source: Int32
    moment_ns: Int64

    @classmethod
    def of(cls, read: FlowBatch, jobs: Sequence[Int32]) -> _Seen:
        """Read them from all observations. Jobs that share endpoints are one source; 0 is no job.

        What a job saves or loads is no source: that goes on where a job stands still, and because it does.
        """
        label = _labels(read, jobs)
        first, exporters = int(read.end_ns.min()) // _TICK_NS, len(read.exporters)
        ticks = int(read.end_ns.max()) // _TICK_NS - first + 1
        keys = [np.empty(0, dtype=np.int64)]
        for begin in range(0, len(read), ROWS_AT_ONCE):
            rows = slice(begin, begin + ROWS_AT_ONCE)
            sender, receiver = label[read.src[rows]].astype(np.int64), label[read.dst[rows]]
            sender[(sender > 0) != (receiver > 0)] = _ASIDE
            place = sender * exporters + read.exporter[rows]
            keys.append(distinct(place * ticks + read.end_ns[rows] // _TICK_NS - first))
        place, tick = np.divmod(distinct(np.concatenate(keys)), ticks)
        source, exporter = (part.astype(np.int32) for part in np.divmod(place, exporters))
        order = np.argsort(exporter, kind="stable")
        return cls(read.exporters, exporter[order], source[order], (first + tick[order]) * _TICK_NS)

    def rows_of(self, exporters: Bool) -> Int64:
        """Return the rows of some exporters, bool[exporters]."""
        return rows_among(self.exporter, np.flatnonzero(exporters))

    def scopes(self) -> Iterator[Bool]:
        """Yield sets of exporters, bool[exporters]: all, and those of each source, without repeats."""
        count = len(self.exporters)
        reached = distinct(self.source.astype(np.int64) * count + self.exporter)
        everything = np.zeros(count, dtype=bool)
        everything[reached % count] = True
        yield everything
        yielded = {everything.tobytes()}
        for number in np.unique(reached // count).tolist():
            mask = np.zeros(count, dtype=bool)
            mask[reached[reached // count == number] % count] = True
            if number > _ASIDE and mask.tobytes() not in yielded:
                yielded.add(mask.tobytes())
                yield mask

    def hole(self, mask: Bool, gap: Interval, *, is_open: bool, is_sure: bool) -> Hole:
        """Return the hole of some exporters."""
        exporters = tuple(sorted(self.exporters[code] for code in np.flatnonzero(mask).tolist()))
        return Hole(exporters, bool(mask[self.exporter].all()), gap, is_open, is_sure)


def _labels(read: FlowBatch, jobs: Sequence[Int32]) -> Int32:
    """Return the source of each endpoint, int32[endpoints], 0 if it is in no job."""
    size = 1 + max(int(each.max(initial=0)) for each in (read.src, read.dst, *jobs))
    chains = [members for members in jobs if len(members)]
    none = np.empty(0, dtype=np.int32)
    low, high = (np.concatenate([none, *(each[side] for each in chains)]) for side in (slice(-1), slice(1, None)))
    label = np.zeros(size, dtype=np.int32)
    members = np.concatenate([none, *chains])
    label[members] = components(size, low, high)[members] + 1 + _ASIDE
    return label


def _moments(moment_ns: Int64) -> Int64:
    """Return the moments of some sightings in order, each once, int64[k]."""
    first = int(moment_ns.min())
    seen = np.zeros((int(moment_ns.max()) - first) // _TICK_NS + 1, dtype=bool)
    seen[(moment_ns - first) // _TICK_NS] = True
    return first + np.flatnonzero(seen) * _TICK_NS


def _by_source(moment_ns: Int64, source: Int32) -> list[Int64]:
    """Return the moments of each source."""
    order = np.argsort(source, kind="stable")
    return [_moments(part) for part in np.split(moment_ns[order], run_starts(source[order])[1:])]


def _gaps(moments: Int64, until_ns: int, params: StopParams) -> list[Interval]:
    """List the spans in which nothing ended for `silence_s`, the last one up to `until_ns`."""
    after = np.append(moments[1:], max(until_ns, int(moments[-1])))
    return [
        Interval(int(moments[row]) + _TICK_NS, int(after[row]))
        for row in np.flatnonzero(after - moments > params.silence_s * 1e9).tolist()
    ]


def _is_overdue(moments: Int64, gap: Interval, holes: Sequence[Interval], params: StopParams) -> bool:
    """Return whether a source stopped as a gap began, and was due in it.

    Its longest gap before counts as usual, its pauses among them, but for `holes`. If the gap began later than that,
    the source had stopped already.
    """
    before = moments[moments < gap.start_ns]
    if len(before) < params.min_count:
        return False
    length_ns = np.diff(before)
    for one in holes:
        length_ns[(before[1:] >= one.end_ns) & (before[:-1] < one.start_ns)] = 0
    usual_ns, last_ns = int(length_ns.max()), int(before[-1])
    overdue = gap.end_ns - last_ns > max(params.silence_s * 1e9, params.twice * usual_ns)
    return bool(overdue and gap.start_ns - last_ns <= (1 + params.stray_share) * usual_ns + _TICK_NS)


def _recurs(moments: Int64, gap: Interval, params: StopParams) -> bool:
    """Return whether a source is about as silent again later, as in long steps."""
    later_ns = np.diff(moments[moments >= gap.end_ns])
    return bool(params.twice * later_ns.max(initial=0) >= gap.length_ns)


def hidden_by(read: FlowBatch, exporters: Sequence[str], span: Interval) -> tuple[Int32, Int32]:
    """Return the endpoints that only silent exporters saw send, and all that send."""
    mine = np.isin(read.exporter, [code for code, name in enumerate(read.exporters) if name in set(exporters)])
    until = read.end_ns < span.end_ns
    before, during = until & (read.end_ns <= span.start_ns), until & (read.end_ns > span.start_ns)
    return np.setdiff1d(read.src[before & mine], read.src[during]), distinct(read.src[until])


def unseen(start_ns: Int64, end_ns: Int64, holes: Sequence[Hole]) -> Bool:
    """Mask the spans that a hole cuts, bool[n]."""
    mask = np.zeros(len(end_ns), dtype=bool)
    for one in holes:
        mask |= (start_ns < one.span.end_ns) & (end_ns > one.span.start_ns)
    return mask
