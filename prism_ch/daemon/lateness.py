"""How late records come, learned from those that did, and so up to when they have arrived.

The records are counted of the flows that ended in each of the last seconds. Those that are new since the count before
came as late as their second is old. Most of what ended before that time has arrived, and who has sent nothing since is
silent, also where nothing arrives from anybody.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_SECOND = 10**9
#: Counts with new records that show how late they come, and how many of the last ones do.
_ENOUGH, _REMEMBERED = 8, 64
#: Records that come later than this after their flows, in seconds, are of the past, as files are.
_PAST_S = 60
#: This share of the records comes sooner than what is taken for how late they come. A few stragglers would delay what
#: the others show; a job all of whose records are among them is rare.
_SHARE = 0.95


@dataclass(frozen=True, slots=True)
class ArrivedSecond:
    """How many records have come of flows that ended in a second, and in which second the last of them came.

    Nanoseconds since the epoch.
    """

    second_ns: int
    records: int
    written_ns: int
    now_ns: int

    @property
    def late_s(self) -> int:
        """How late the last one came, in whole seconds.

        It is rounded up as often as the part of a second is large, so that most of many are not less.
        """
        return max((self.written_ns - self.second_ns) // _SECOND, 0)


class Lateness:
    """What was seen of arrivals. One for each service."""

    def __init__(self) -> None:
        self._records: Mapping[int, int] | None = None
        self._late_s: deque[Counter[int]] = deque(maxlen=_REMEMBERED)

    def arrived_until_ns(self, seconds: Sequence[ArrivedSecond]) -> int | None:
        """Return up to when records have arrived, None while too little is known.

        `seconds` are those of the last minutes that have records, as counted now. What the first count finds may be of
        any age.
        """
        if not seconds:
            return None
        before, self._records = self._records, {one.second_ns: one.records for one in seconds}
        if before is not None:
            new = Counter[int]()
            for one in seconds:
                new[one.late_s] += max(one.records - before.get(one.second_ns, 0), 0)
            if new.total():
                self._late_s.append(new)
        if len(self._late_s) < _ENOUGH:
            return None
        late_s = _quantile(sum(self._late_s, Counter[int]()), _SHARE)
        return None if late_s > _PAST_S else seconds[0].now_ns - late_s * _SECOND


def _quantile(counts: Counter[int], share: float) -> int:
    """Return the lowest value that this share of the counted ones doesn't exceed."""
    left = share * counts.total()
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            break
    return value
