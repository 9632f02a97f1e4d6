"""Rests: how long nothing ends in each step, what the step moves, and which rests are waits for storage or periodic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.habits import pause_is_due, periodic_pauses, repeated_pauses
from prism_ch.analysis.diagnose.stops.rests import (
    find_rests,
    longest_rests,
    unusual_background,
    wait_for_storage,
    with_endpoint_rests,
)
from prism_ch.model.columns import Bool
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.job import PairKinds
from prism_ch.model.params import StopParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Interval
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, batch, every, ring, steps_of, topology, traffic, typed

PARAMS = StopParams()


def ends(*moments_ms: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return BEGIN_NS + np.array([round(moment * MS) for moment in moments_ms], np.int64)


def test_rest_is_longest_time_in_which_nothing_ends() -> None:
    since, until = longest_rests(ends(100, 900, 950, 1000, 1100, 2000), ends(1000, 2000))
    assert [((s - BEGIN_NS) // MS, (u - BEGIN_NS) // MS) for s, u in zip(since, until, strict=True)] == [
        (100, 900),
        (1100, 2000),
    ]


def test_a_step_in_which_nothing_ends_rests_for_no_time() -> None:
    since, until = longest_rests(ends(1000, 3000), ends(1000, 2000, 3000))
    assert ((until - since) // MS).tolist() == [0, 0, 2000]


@pytest.mark.parametrize("other_begins_ms, rest_s", [(2960, 0.96), (2060, 0.06)])
def test_reduction_rests_until_all_have_begun(other_begins_ms: float, rest_s: float) -> None:
    last = [Flow(0, 1, 2050, 950), Flow(1, 0, other_begins_ms, 3000 - other_begins_ms)]
    bursts = traffic([*ring([0, 1], every(1000, 2, 1000)), *last, Flow(0, 2, 1200, 10)])
    found = find_rests(bursts, typed(bursts, other=[(0, 2)]), ends(1000, 2000, 3000))
    assert found.length_s.tolist() == pytest.approx([0.0, 0.96, rest_s])


def test_waiting_message_of_a_pipeline_is_at_rest() -> None:
    flows = [Flow(0, 1, 960, 40), Flow(0, 1, 1960, 40), Flow(0, 1, 2050, 950)]
    bursts = traffic(flows)
    found = find_rests(bursts, typed(bursts, pp=[(0, 1)]), ends(1000, 2000, 3000))
    assert found.length_s.tolist() == pytest.approx([0.0, 1.0, 1.0])


def test_payload_is_counted_by_kind() -> None:
    bursts = traffic([*ring([0, 1], [1000, 2000], size=7 * MB), Flow(0, 2, 1500, size=3 * MB), Flow(0, 3, 1500)])
    found = find_rests(bursts, typed(bursts, pp=[(0, 2)], other=[(0, 3)]), ends(1000, 2000))
    assert found.payload[:, [DP, PP, OTHER]].tolist() == [[14 * MB, 0, 0], [14 * MB, 3 * MB, 0]]


def test_a_rest_is_a_stop_beyond_what_slowness_makes() -> None:
    pipelined = [10.0 * number for number in range(1, 500)]
    found = find_rests(*_bursts(pipelined), ends(*every(1000, 5, 1000)))
    assert not found.too_long(1.0, PARAMS).any()
    late = [moment if moment < 3500 else moment + 600 for moment in pipelined]
    found = find_rests(*_bursts(late), ends(1000, 2000, 3000, 4600, 5600))
    assert found.too_long(1.0, PARAMS).tolist() == [False, False, False, True, False]


@pytest.mark.parametrize("times, stops", [(1.96, False), (2.1, True)])
def test_gpu_at_half_speed_is_no_stop_when_computing_in_one_go(times: float, stops: bool) -> None:
    moments = [1000.0, 2000, 3000, 3000 + 1000 * times, 4000 + 1000 * times]
    found = find_rests(*_bursts(moments), ends(*moments))
    assert found.too_long(1.0, PARAMS).tolist() == [False, False, False, stops, False]


def test_more_than_usual_of_a_kind_moves_more() -> None:
    evaluated = [Flow(0, 2, 2500 + 10 * number) for number in range(3)]
    flows = [*ring([0, 1], every(1000, 4, 1000)), *(Flow(0, 2, moment) for moment in every(1000, 4, 500)), *evaluated]
    bursts = traffic(flows)
    found = find_rests(bursts, typed(bursts, pp=[(0, 2)]), ends(*every(1000, 4, 1000)))
    assert found.move_more(PARAMS).tolist() == [False, False, True, False]


@pytest.mark.parametrize("third, more", [(2, False), (3, True)])
def test_what_the_next_step_lacks_is_no_more(third: int, more: bool) -> None:
    """Others have begun the fourth step before a straggler ends the third one."""
    messages = [
        Flow(0, 2, 1000 * step + 500 + 10 * turn)
        for step, count in enumerate([1, 1, third, 0, 1, 1])
        for turn in range(count)
    ]
    bursts = traffic([*ring([0, 1], every(1000, 6, 1000)), *messages])
    found = find_rests(bursts, typed(bursts, pp=[(0, 2)]), ends(*every(1000, 6, 1000)))
    assert found.move_more(PARAMS).tolist() == [False, False, more, False, False, False]


def test_without_steps_there_is_nothing() -> None:
    found = find_rests(*_bursts([1000.0]), ends())
    assert len(found) == 0
    assert np.isnan(found.usual_s())
    assert found.move_more(PARAMS).tolist() == []


def _bursts(moments_ms: list[float]) -> tuple[Traffic, PairKinds]:
    bursts = traffic(Flow(0, 1, moment - 5, 5) for moment in moments_ms)
    return bursts, typed(bursts)


@pytest.mark.parametrize("gradients_seen", [True, False])
def test_ranks_resting_one_after_another_stand_still(gradients_seen: bool) -> None:
    """Of two replicas the second waits for its data, while the first works on and then waits for it.

    Where gradients go inside servers, nothing of the first ends before the next step then.
    """
    ends_ms = [*every(1000, 8, 1000), 9900.0, 10_900.0]
    flows = []
    for end in ends_ms:
        begin = end - 1000 if end != 9900 else 8000
        flows += [Flow(0, 1, begin + at, 5) for at in every(80, 11, 40)]
        flows += [Flow(2, 3, end - 1000 + at, 5) for at in every(80, 11, 40)]
        if gradients_seen:
            flows += [*ring([0, 2], [end]), *ring([1, 3], [end])]
    bursts, job_end_ns = traffic(flows), ends(*ends_ms)
    kinds = typed(bursts, pp=[(0, 1), (2, 3)])
    found = find_rests(bursts, kinds, job_end_ns)
    assert not found.too_long(1.0, PARAMS).any()
    duration_s = np.append(np.nan, np.diff(job_end_ns) / 1e9)
    all_of_them = with_endpoint_rests(found, duration_s, bursts, kinds, job_end_ns, PARAMS)
    assert np.flatnonzero(all_of_them.too_long(1.0, PARAMS)).tolist() == [8]
    assert all_of_them.start_ns[8] == job_end_ns[7] - (0 if gradients_seen else 155_000_000)
    working = traffic([*flows, *(Flow(0, 1, at, 5) for at in every(80, 23, 8040))])
    kinds = typed(working, pp=[(0, 1), (2, 3)])
    found = find_rests(working, kinds, job_end_ns)
    assert not with_endpoint_rests(found, duration_s, working, kinds, job_end_ns, PARAMS).too_long(1.0, PARAMS).any()


def test_nobody_stands_still_where_one_works_on_and_many_wait() -> None:
    ends_ms = [*every(1000, 8, 1000), 9900.0, 10_900.0]
    waiting = [(2 * number, 2 * number + 1) for number in range(1, 20)]
    flows = []
    for end in ends_ms:
        begin = 8000 if end == 9900 else end - 1000
        flows += [Flow(*pair, begin + at, 5) for at in every(80, 11, 40) for pair in waiting]
        working = [*np.linspace(40, end - begin - 240, 11), end - begin - 40]
        flows += [Flow(0, 1, begin + float(at), 5) for at in working]
    bursts, job_end_ns = traffic(flows), ends(*ends_ms)
    kinds = typed(bursts, pp=[(0, 1), *waiting])
    duration_s = np.append(np.nan, np.diff(job_end_ns) / 1e9)
    found = find_rests(bursts, kinds, job_end_ns)
    assert not with_endpoint_rests(found, duration_s, bursts, kinds, job_end_ns, PARAMS).too_long(1.0, PARAMS).any()
    without = bursts.take(bursts.src >= 2)
    kinds = typed(without, pp=waiting)
    assert find_rests(without, kinds, job_end_ns).too_long(1.0, PARAMS).any()


MEMBERS = np.arange(4, dtype=np.int32)
STORAGE = 5
#: Ten steps of a second, of which the seventh takes two.
ENDS_MS = [*every(1000, 6, 1000), *every(1000, 4, 8000)]


def saved(background: Sequence[Flow]) -> Bool:
    bursts = traffic(ring(MEMBERS.tolist(), ENDS_MS))
    end_ns = BEGIN_NS + np.array([round(end * MS) for end in ENDS_MS], np.int64)
    rests = find_rests(bursts, typed(bursts), end_ns)
    duration_s = np.append(np.nan, np.diff(end_ns) / 1e9)
    return wait_for_storage(rests, duration_s, FlowsByPair.of(batch(background)), MEMBERS, PARAMS)


def test_a_longer_rest_in_which_much_is_saved_is_one_for_storage() -> None:
    assert np.flatnonzero(saved([Flow(rank, STORAGE, 6100, 300) for rank in range(4)])).tolist() == [6]


@pytest.mark.parametrize(
    "background",
    [
        [],
        [Flow(0, STORAGE, 6100, 300, size=MB // 100)],
        [Flow(0, STORAGE, 3100, 300), Flow(4, STORAGE, 6100, 300)],
        [Flow(STORAGE, rank, at, 100) for rank in range(4) for at in every(1000, 11, 100)],
    ],
    ids=["nothing", "a stray", "at another time or of others", "as much as ever"],
)
def test_longer_rest_with_usual_background_is_not_for_storage(background: Sequence[Flow]) -> None:
    assert not saved(background).any()


def test_machines_with_the_most_background_are_named() -> None:
    flows = FlowsByPair.of(batch([Flow(0, 4, 500, 100, size=MB), Flow(1, 5, 500, 100, size=9 * MB)]))
    span = Interval(BEGIN_NS + 400 * MS, BEGIN_NS + 900 * MS)
    assert list(unusual_background(flows, MEMBERS, span, topology(6), PARAMS)) == ["10.0.105.0", "10.0.104.0"]


def long_steps(durations_s: Sequence[float]) -> list[int]:
    return [row for row, usual in enumerate(periodic_pauses(steps_of(durations_s), PARAMS)) if usual]


def paused(count: int, period: int, pause_s: float = 2.0, first: int | None = None) -> list[float]:
    start = period if first is None else first
    return [1.0 + pause_s * (step >= start and (step - start) % period == 0) for step in range(count)]


@pytest.mark.parametrize("period", [3, 8, 17])
def test_three_pauses_at_equal_distance_are_periodic(period: int) -> None:
    assert long_steps(paused(3 * period + 1, period)) == [period, 2 * period, 3 * period]
    assert long_steps(paused(3 * period, period)) == []


def test_a_job_may_have_several_periodic_pauses() -> None:
    both = [max(pair) for pair in zip(paused(80, 10), paused(80, 24, 20.0, first=5), strict=True)]
    assert long_steps(both) == sorted([*range(10, 80, 10), *range(5, 80, 24)])


def test_other_pauses_may_lie_between_periodic_ones() -> None:
    durations = paused(60, 10)
    durations[25] = 4.0
    assert long_steps(durations) == [10, 20, 30, 40, 50]


def test_pauses_of_other_length_are_not_of_the_period() -> None:
    durations = paused(60, 10)
    durations[30] = 30.0
    assert long_steps(durations) == [10, 20, 40, 50]


def test_one_pause_may_lengthen_two_steps() -> None:
    durations = [seconds for step in range(4) for seconds in [*[1.0] * 7, 2.0, 2.0]]
    assert long_steps(durations) == [7, 8, 16, 17, 25, 26, 34, 35]


def test_pauses_may_come_by_the_clock() -> None:
    durations = [1.0 + 0.3 * (step % 2) for step in range(20)] + [0.9] * 60
    begun = 0.0
    for step in range(len(durations)):
        if begun // 20 != (begun + durations[step]) // 20:
            durations[step] += 3.0
        begun += durations[step]
    assert len(long_steps(durations)) >= 3


def test_a_slow_time_is_no_periodic_pause() -> None:
    assert long_steps([1.0] * 20 + [1.5] * 15 + [1.0] * 20) == []
    assert long_steps([1.0] * 40 + [1.5] * 2 + [1.0] * 5) == []


def test_two_pauses_of_one_length_are_repeated() -> None:
    durations = [1.0] * 40
    durations[9], durations[20], durations[33] = 3.0, 9.0, 3.2
    assert np.flatnonzero(repeated_pauses(steps_of(durations), PARAMS)).tolist() == [9, 33]


def test_without_steps_there_are_no_pauses() -> None:
    assert long_steps([]) == []
    assert not repeated_pauses(steps_of([1.0]), PARAMS).any()
    assert not pause_is_due(steps_of([1.0] * 3), 5.0, PARAMS)


def test_pause_is_due_at_its_next_turn_for_its_length() -> None:
    steps = steps_of(paused(40, 10))
    assert pause_is_due(steps, 5.0, PARAMS)
    assert not pause_is_due(steps, 7.0, PARAMS)
    assert not pause_is_due(steps_of(paused(37, 10)), 5.0, PARAMS)
