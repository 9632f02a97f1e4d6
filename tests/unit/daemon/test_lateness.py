"""Records have arrived up to as long ago as most of the last ones took to come."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from prism_ch.daemon.lateness import ArrivedSecond, Lateness

SECOND = 10**9
T0_S = 1_800_000_000


def arrived_until_s(
    late_s: Callable[[int], list[int]], *, until_s: int = 100, now_s: int | None = None
) -> float | None:
    """Count arrivals each second, then at `now_s`; `late_s` is how late each of a second's records lands.

    None land after `until_s`.
    """
    lateness = Lateness()
    found = None
    for at in [*range(until_s + 1), *([] if now_s is None else [now_s])]:
        seconds = []
        for second in range(max(at - 180, 0), at + 1):
            landed = [second + late for late in late_s(second) if second + late <= min(at, until_s)]
            if landed:
                times = (T0_S + second, len(landed), T0_S + max(landed), T0_S + at)
                seconds.append(ArrivedSecond(times[0] * SECOND, times[1], times[2] * SECOND, times[3] * SECOND))
        found = lateness.arrived_until_ns(seconds)
    return None if found is None else found / SECOND - T0_S


def test_nothing_is_known_until_records_came_for_a_while() -> None:
    assert Lateness().arrived_until_ns([]) is None
    assert arrived_until_s(lambda _: [1], until_s=8) is None
    assert arrived_until_s(lambda _: [1], until_s=9) == 8


@pytest.mark.parametrize("every_s, late_s, expected", [(1, 1, 99), (7, 1, 99), (1, 8, 92)])
def test_records_come_as_late_as_before(every_s: int, late_s: int, expected: int) -> None:
    """Also where they come seldom, in the rhythm of a job."""
    assert arrived_until_s(lambda second: [late_s] if second % every_s == 0 else []) == expected


def test_silence_of_all_counts_from_when_records_were_due() -> None:
    assert arrived_until_s(lambda second: [1] if second % 7 == 0 else [], until_s=100, now_s=130) == 129


def test_records_that_come_in_batches_are_waited_for() -> None:
    """All that ended since the batch before lands each ten seconds."""
    assert arrived_until_s(lambda second: [10 - second % 10]) == 90


@pytest.mark.parametrize("stragglers, expected", [(4, 99), (8, 71)])
def test_few_stragglers_are_not_waited_for(stragglers: int, expected: int) -> None:
    """So many of a hundred records of each second land 29 s late."""
    assert arrived_until_s(lambda _: [1] * (100 - stragglers) + [29] * stragglers, until_s=200) == expected + 100


def test_records_of_the_past_show_nothing_of_the_present() -> None:
    assert arrived_until_s(lambda _: [100], until_s=300) is None


def test_records_that_were_there_before_count_for_nothing() -> None:
    """The service begins to look while a file of the last minute lies there."""
    lateness = Lateness()
    old = [(at, 1_000, 60) for at in range(60)]
    found = []
    for now in range(60, 71):
        seconds = [*old, *((at, 1, at + 1) for at in range(60, now))]
        times = [
            ((T0_S + at) * SECOND, n, (T0_S + written) * SECOND, (T0_S + now) * SECOND) for at, n, written in seconds
        ]
        found.append(lateness.arrived_until_ns([ArrivedSecond(*one) for one in times]))
    assert found[-1] == (T0_S + 69) * SECOND
