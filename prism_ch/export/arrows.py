"""Finds the slices that an arrow joins: one for each pipeline message.

An arrow leaves the slice in which its message began at the sender. It enters the slice in which the message ended at
the receiver, which most often begins at that moment. If that slice had begun before the sender's, the arrow enters the
next one, as Perfetto draws arrows from the slice that begins first.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from prism_ch.core.arrays import order_by, run_numbers, run_starts
from prism_ch.core.search import group_search
from prism_ch.export.messages import Sent
from prism_ch.export.reader import Phases
from prism_ch.model.columns import Bool, Int32, Int64

#: A flow is (number of its pair << this) + number of the message: both directions of a pair are pairs of their own.
_MESSAGE_BITS = 32


@dataclass(slots=True)
class Chunk:
    """Phases that are not written yet, and the arrows that leave and enter them.

    `leaving` and `entering` have the row of a phase and the flow, in parts.
    """

    phases: Phases
    leaving: list[tuple[Int64, Int64]] = field(default_factory=list)
    entering: list[tuple[Int64, Int64]] = field(default_factory=list)

    def attach(self, source: Int64, target: Int64, flow: Int64, first_row: int) -> int:
        """Keep the arrows at phases of this chunk.

        Parameters: `source` and `target`, rows of phases; those from `first_row` on are of this chunk.
        Returns the row behind this chunk.
        """
        behind = first_row + len(self.phases)
        for row, part in ((source, self.leaving), (target, self.entering)):
            here = (row >= first_row) & (row < behind)
            part.append((row[here] - first_row, flow[here]))
        return behind


class Arrows:
    """Attaches messages to the phases that they join; `drawn` counts them.

    A message joins phases of at most two chunks that follow one another.
    """

    def __init__(self) -> None:
        self.drawn = 0
        self._waiting = Sent.empty()
        self._pairs: dict[tuple[int, int], int] = {}
        self._messages = np.zeros(0, dtype=np.int64)

    def attach(self, found: Sent, held: Chunk, new: Chunk) -> None:
        """Attach messages to the phases of two chunks.

        Parameters: `found`, messages that were read with the chunk `new`; `held`, the chunk before it.
        """
        messages = Sent.concat([self._waiting, found])
        is_new = np.arange(len(messages)) >= len(self._waiting)
        source, target = _ends(messages, held.phases, new.phases)
        drawn = (source >= 0) & (target >= 0)
        self._waiting = messages.take(is_new & ~drawn)
        messages, source, target = messages.take(drawn), source[drawn], target[drawn]
        order = order_by(messages.src, messages.dst, messages.start_ns)
        flow = self._number(messages.take(order))
        behind = held.attach(source[order], target[order], flow, 0)
        new.attach(source[order], target[order], flow, behind)
        self.drawn += len(flow)

    def _number(self, messages: Sent) -> Int64:
        """Give each message a number.

        Those of a pair follow one another, which packs well. `messages` are sorted by pair.
        """
        first, run = run_starts(messages.src, messages.dst), run_numbers(messages.src, messages.dst)
        ends = zip(messages.src[first].tolist(), messages.dst[first].tolist(), strict=True)
        pair = np.array([self._pairs.setdefault(each, len(self._pairs)) for each in ends], dtype=np.int64)
        self._messages = np.pad(self._messages, (0, len(self._pairs) - len(self._messages)))
        nth = np.arange(len(messages)) - first[run] + self._messages[pair[run]]
        self._messages[pair] += np.bincount(run, minlength=len(first))
        return ((pair[run] + 1) << _MESSAGE_BITS) + nth


def _ends(messages: Sent, held: Phases, new: Phases) -> tuple[Int64, Int64]:
    """Find the two phases that each message joins.

    Returns their rows, which count on from `held` to `new`; -1 if there is none.
    """
    start_ns = np.concatenate([held.start_ns, new.start_ns])
    source = _at(messages.src, messages.start_ns, held, new)
    target = _at(messages.dst, messages.end_ns, held, new)
    known = (source >= 0) & (target >= 0)
    late = known.copy()
    late[known] = start_ns[target[known]] <= start_ns[source[known]]
    target[late] = _next(target[late], held, new)
    return source, target


def _at(endpoint: Int32, time_ns: Int64, held: Phases, new: Phases) -> Int64:
    """Find the phase of an endpoint at a time; -1 if there is none."""
    row, is_there = _within(endpoint, time_ns, held)
    later, is_later = _within(endpoint, time_ns, new)
    return np.where(is_there, row, np.where(is_later, len(held) + later, -1))


def _within(endpoint: Int32, time_ns: Int64, phases: Phases) -> tuple[Int64, Bool]:
    if not len(phases):
        return np.zeros(len(endpoint), dtype=np.int64), np.zeros(len(endpoint), dtype=bool)
    row = np.maximum(group_search(phases.endpoint, phases.start_ns, endpoint, time_ns) - 1, 0)
    begun = (phases.endpoint[row] == endpoint) & (phases.start_ns[row] <= time_ns)
    return row, begun & (time_ns < phases.end_ns[row])


def _next(row: Int64, held: Phases, new: Phases) -> Int64:
    """Find the phase that follows on the same endpoint; -1 if there is none."""
    endpoint = np.concatenate([held.endpoint, new.endpoint])
    follower = np.minimum(row + 1, len(endpoint) - 1)
    same = (follower > row) & (endpoint[follower] == endpoint[row]) & (follower != len(held))
    if not len(new):
        return np.where(same, follower, -1)
    first = np.searchsorted(new.endpoint, endpoint[row])
    joins = (row < len(held)) & (new.endpoint[np.minimum(first, len(new) - 1)] == endpoint[row])
    return np.where(same, follower, np.where(joins, len(held) + first, -1))
