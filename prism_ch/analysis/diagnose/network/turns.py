"""Turns: since when an operation of a communicator moves data, where pairs run several together into one burst."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import order_by, run_lengths, run_starts
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Turns:
    """Since when bursts move what they end with, `begun_ns` int64[n], and its bytes, `payload` float64[n].

    `payload` is 0 where the beginning is not seen.
    """

    begun_ns: Int64
    payload: Float64


def find_turns(
    bursts: Traffic, step: Int64, amount: Int32, site: Int32, steady: Bool, params: TimePerByteParams
) -> Turns:
    """Find since when bursts move what they end with.

    Those of pairs that move by themselves do since they begin.
    Parameters: `step` int64[n], sorted within a pair; of pairs, `amount` int32[pairs] numbers them by what they move,
    `site` int32[pairs] by the communicator, -1 of those that move by themselves, and `steady` bool[pairs] are those
    that move the same in every step: of others bursts are counted, whatever their bytes, where pairs have as many.

    An operation of a communicator moves since the last of its flows began, since a flow that has begun waits for a
    rank that is late. Where ranks are ready early, or a rail is slow, pairs run operations together into one burst, and
    others part them.

    1. Place each burst by the share of the step's bytes that it ends with: bursts at one place are of one operation.
    2. Keep the operations that most pairs share; what ends elsewhere is not seen.
    3. Let each burst begin with the last one of the first operation that it runs together, and take off what others
       rest between these operations.
    """
    begun_ns, payload = bursts.start_ns.copy(), bursts.payload.astype(np.float64)
    joint = np.flatnonzero(site[bursts.pair] >= 0)
    if len(joint) == 0:
        return Turns(begun_ns, payload)
    pair, step = bursts.pair[joint], step[joint]
    moved = np.where(steady[pair], payload[joint], 1.0)
    opens = run_starts(pair, step)
    count = run_lengths(opens, len(pair))
    total = np.repeat(np.add.reduceat(moved, opens), count)
    after = np.cumsum(moved)
    after = (after - np.repeat(after[opens] - moved[opens], count)) / total
    begins = after - moved / total
    count = np.repeat(count, count)
    alike = (site[pair], amount[pair], step, np.where(steady[pair], 0, count))
    order = order_by(*alike, after)
    opens_group = np.zeros(len(order), dtype=np.int32)
    opens_group[run_starts(*(key[order] for key in alike))] = 1
    together = np.empty(len(order), dtype=np.int32)
    together[order] = np.cumsum(opens_group) - 1
    turn, shared = _number_turns(order, together, after, count, params)
    # A pair with a lost record ends elsewhere from then on.
    whole = total >= (1 - 0.5 / count) * robust.median_by(together, total)[together]
    times = _TurnTimes.of(turn[whole], shared, begun_ns[joint][whole], bursts.end_ns[joint][whole])
    before, group, place = np.zeros(len(shared)), np.zeros(len(shared), dtype=np.int32), np.zeros(len(shared))
    np.maximum.at(before, turn[whole], begins[whole])
    group[turn], place[turn] = together, after
    first = _first_turns(turn, begins + params.same_turn_share, group, np.where(times.seen, place, -1))
    moves_ns = times.begun_ns(first, turn, group)
    waited = times.seen[turn] & (moves_ns < bursts.end_ns[joint])
    begun_ns[joint] = np.where(waited, np.maximum(moves_ns, begun_ns[joint]), begun_ns[joint])
    share = np.where(waited, np.clip((after - before[first]) * total / moved, 0, 1), 1)
    payload[joint] *= np.where(times.seen[turn], share, 0)
    return Turns(begun_ns, payload)


@dataclass(frozen=True, slots=True)
class _TurnTimes:
    """When the last flow of each operation begins and ends, int64[operations], and whether that is seen."""

    seen: Bool
    last_ns: Int64
    ended_ns: Int64

    @classmethod
    def of(cls, turn: Int64, shared: Bool, start_ns: Int64, end_ns: Int64) -> _TurnTimes:
        """Read them from bursts, whose operation is `turn` int64[n]."""
        last_ns, ended_ns = (np.full(len(shared), np.iinfo(np.int64).min) for _ in range(2))
        np.maximum.at(last_ns, turn, start_ns)
        np.maximum.at(ended_ns, turn, end_ns)
        return cls(shared & (last_ns > np.iinfo(np.int64).min), last_ns, ended_ns)

    def begun_ns(self, first: Int64, turn: Int64, group: Int32) -> Int64:
        """Return since when bursts move that run operations together, int64[n].

        Parameters: `first` and `turn` int64[n], the operations that a burst begins and ends with; `group`
        int32[operations], what moves in one step on one site.
        """
        seen = np.flatnonzero(self.seen)
        rest_ns = np.zeros(len(self.seen), dtype=np.int64)
        next_one = seen[1:][group[seen[1:]] == group[seen[:-1]]]
        before = seen[:-1][group[seen[1:]] == group[seen[:-1]]]
        rest_ns[next_one] = np.maximum(self.last_ns[next_one] - self.ended_ns[before], 0)
        rested_ns = np.cumsum(rest_ns)
        return np.asarray(self.last_ns[first] + rested_ns[turn] - rested_ns[first])


def _first_turns(turn: Int64, begins: Float64, group: Int32, place: Float64) -> Int64:
    """Return the first operation that each burst covers, int64[n].

    Parameters: `turn` int64[n], that which it ends with; `begins` float64[n], the share of a step's bytes after which
    it begins; `group` int32[operations], rising, and `place` float64[operations], where they end, -1 if not seen.
    """
    seen = np.flatnonzero(place >= 0)
    key = group[seen] * 2.0 + place[seen]
    found = np.searchsorted(key, group[turn] * 2.0 + begins, side="right")
    return np.asarray(np.minimum(np.append(seen, len(place) - 1)[found], turn))


def _number_turns(
    order: Int64, together: Int32, after: Float64, count: Int64, params: TimePerByteParams
) -> tuple[Int64, Bool]:
    """Return the operation of each burst, int64[n], and the mask of shared ones, bool[operations].

    Parameters: `order` int64[n] sorts bursts by `together` int32[n], which numbers what moves in one step on one site,
    and by `after` float64[n], the share of a step's bytes that a burst of a pair ends with; `count` int64[n], how many
    bursts the pair has in the step.
    """
    pairs, bursts = np.bincount(together, weights=1 / count), np.bincount(together)
    near = np.minimum(params.same_turn_share, params.same_turn_part * pairs / bursts)
    group, place = together[order], after[order]
    first = np.ones(len(order), dtype=bool)
    first[1:] = (np.diff(group) > 0) | (np.diff(place) > near[group[1:]])
    turn = np.empty(len(order), dtype=np.int64)
    turn[order] = np.cumsum(first) - 1
    return turn, 2 * np.bincount(turn) > pairs[group[first]]
