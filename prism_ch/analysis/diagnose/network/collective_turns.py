"""Turns: which bursts of a communicator's pairs end one operation, and since when its data can move.

A flow that has begun waits for a rank that is late, so an operation moves since the last of its flows began. Which
flows are of one operation their place tells: the share of the step's bytes that they end with. Where ranks are ready
early some pairs run operations together into one burst, and others of the same communicator part them: of such a burst
the last operation only is seen, and what ends where most others have no end is not seen at all.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.core import robust
from prism_ch.core.arrays import order_by, run_starts
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True, slots=True)
class Turns:
    """Since when each burst moves what it ends with, `begun_ns` int64[n], and the bytes of that, `payload` float64[n].

    The latter is 0 where it is not seen since when.
    """

    begun_ns: Int64
    payload: Float64


def find_turns(
    bursts: Traffic, step: Int64, amount: Int32, site: Int32, steady: Bool, params: TimePerByteParams
) -> Turns:
    """Find since when bursts move what they end with; those of pairs that move by themselves do since they begin.

    Parameters: `step` int64[n], sorted within a pair; of pairs, `amount` int32[pairs] numbers them by what they move,
    `site` int32[pairs] by the communicator, -1 of those that move by themselves, and `steady` bool[pairs] are those
    that move the same in every step: of others bursts are counted, whatever their bytes, where pairs have as many.
    """
    begun_ns, payload = bursts.start_ns.copy(), bursts.payload.astype(np.float64)
    joint = np.flatnonzero(site[bursts.pair] >= 0)
    if len(joint) == 0:
        return Turns(begun_ns, payload)
    pair, step = bursts.pair[joint], step[joint]
    moved = np.where(steady[pair], payload[joint], 1.0)
    opens = run_starts(pair, step)
    count = np.diff(np.append(opens, len(pair)))
    total = np.repeat(np.add.reduceat(moved, opens), count)
    after = np.cumsum(moved)
    after = (after - np.repeat(after[opens] - moved[opens], count)) / total
    count = np.repeat(count, count)
    alike = (site[pair], amount[pair], step, np.where(steady[pair], 0, count))
    order = order_by(*alike, after)
    together = _group(order, *alike)
    turn, shared = _number(order, together, after, count, params)
    # A pair of which a record is lost ends elsewhere from then on.
    whole = total >= (1 - 0.5 / count) * robust.median_by(together, total)[together]
    last_ns, before = np.full(len(shared), np.iinfo(np.int64).min), np.zeros(len(shared))
    np.maximum.at(last_ns, turn[whole], begun_ns[joint][whole])
    np.maximum.at(before, turn[whole], (after - moved / total)[whole])
    seen = shared & (last_ns > np.iinfo(np.int64).min)
    waited = seen[turn] & (last_ns[turn] < bursts.end_ns[joint])
    begun_ns[joint] = np.where(waited, np.maximum(last_ns[turn], begun_ns[joint]), begun_ns[joint])
    share = np.where(waited, np.clip((after - before[turn]) * total / moved, 0, 1), 1)
    payload[joint] *= np.where(seen[turn], share, 0)
    return Turns(begun_ns, payload)


def _group(order: Int64, *keys: Int32 | Int64) -> Int32:
    """Return a number for all rows that are alike in keys, which `order` sorts by, int32[n]."""
    group = np.zeros(len(order), dtype=np.int32)
    group[order[run_starts(*(key[order] for key in keys))]] = 1
    group[order] = np.cumsum(group[order]) - 1
    return group


def _number(
    order: Int64, together: Int32, after: Float64, count: Int64, params: TimePerByteParams
) -> tuple[Int64, Bool]:
    """Return the number of each burst's turn, int64[n], and which turns most of the pairs there share, bool[turns].

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
