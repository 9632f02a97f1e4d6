"""Rests: how long nothing ends in each step, and what the step moves."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.diagnose.stops.rests import find_rests, longest_rests, rests_of_all
from prism_ch.model.job import PairKinds
from prism_ch.model.params import StopParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, every, ring, traffic, typed

PARAMS = StopParams()


def ends(*moments_ms: float) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return BEGIN_NS + np.array([round(moment * MS) for moment in moments_ms], np.int64)


def test_the_longest_time_in_which_nothing_ends_is_the_rest_of_a_step() -> None:
    since, until = longest_rests(ends(100, 900, 950, 1000, 1100, 2000), ends(1000, 2000))
    assert [((s - BEGIN_NS) // MS, (u - BEGIN_NS) // MS) for s, u in zip(since, until, strict=True)] == [
        (100, 900),
        (1100, 2000),
    ]


def test_a_step_in_which_nothing_ends_rests_for_no_time() -> None:
    since, until = longest_rests(ends(1000, 3000), ends(1000, 2000, 3000))
    assert ((until - since) // MS).tolist() == [0, 0, 2000]


def test_a_flow_that_waits_is_at_rest_and_other_traffic_does_not_count() -> None:
    flows = [*ring([0, 1], every(1000, 3, 1000)), Flow(0, 2, 1200, 10), Flow(0, 1, 2050, 900)]
    bursts = traffic(flows)
    found = find_rests(bursts, typed(bursts, other=[(0, 2)]), ends(1000, 2000, 3000))
    assert found.length_s.tolist() == pytest.approx([0.0, 1.0, 0.95])


def test_payload_is_told_by_kind() -> None:
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
def test_of_a_job_that_computes_in_one_go_a_gpu_at_half_its_speed_is_no_stop(times: float, stops: bool) -> None:
    moments = [1000.0, 2000, 3000, 3000 + 1000 * times, 4000 + 1000 * times]
    found = find_rests(*_bursts(moments), ends(*moments))
    assert found.too_long(1.0, PARAMS).tolist() == [False, False, False, stops, False]


def test_more_than_usual_of_a_kind_is_other_work() -> None:
    evaluated = [Flow(0, 2, 2500 + 10 * number) for number in range(3)]
    flows = [*ring([0, 1], every(1000, 4, 1000)), *(Flow(0, 2, moment) for moment in every(1000, 4, 500)), *evaluated]
    bursts = traffic(flows)
    found = find_rests(bursts, typed(bursts, pp=[(0, 2)]), ends(*every(1000, 4, 1000)))
    assert found.more_work(PARAMS).tolist() == [False, False, True, False]


def test_without_steps_there_is_nothing() -> None:
    found = find_rests(*_bursts([1000.0]), ends())
    assert len(found) == 0
    assert np.isnan(found.usual_s())
    assert found.more_work(PARAMS).tolist() == []


def _bursts(moments_ms: list[float]) -> tuple[Traffic, PairKinds]:
    bursts = traffic(Flow(0, 1, moment - 5, 5) for moment in moments_ms)
    return bursts, typed(bursts)


@pytest.mark.parametrize("gradients_seen", [True, False])
def test_ranks_that_rest_one_after_the_other_stand_still_all_the_same(gradients_seen: bool) -> None:
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
    all_of_them = rests_of_all(found, duration_s, bursts, kinds, job_end_ns, PARAMS)
    assert np.flatnonzero(all_of_them.too_long(1.0, PARAMS)).tolist() == [8]
    assert all_of_them.start_ns[8] == job_end_ns[7] - (0 if gradients_seen else 155_000_000)
    working = traffic([*flows, *(Flow(0, 1, at, 5) for at in every(80, 23, 8040))])
    kinds = typed(working, pp=[(0, 1), (2, 3)])
    found = find_rests(working, kinds, job_end_ns)
    assert not rests_of_all(found, duration_s, working, kinds, job_end_ns, PARAMS).too_long(1.0, PARAMS).any()


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
    assert not rests_of_all(found, duration_s, bursts, kinds, job_end_ns, PARAMS).too_long(1.0, PARAMS).any()
    without = bursts.take(bursts.src >= 2)
    kinds = typed(without, pp=waiting)
    assert find_rests(without, kinds, job_end_ns).too_long(1.0, PARAMS).any()
