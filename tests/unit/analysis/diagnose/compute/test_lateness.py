"""Lateness in exchanges of all with all: who is late, and who only waits at the other end of a flow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.lateness import measure_lateness
from prism_ch.model.columns import Float64
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import MB, Flow, division, every, traffic

PARAMS = DiagnoseParams().compute
STEPS, ROUNDS, LATE_S = 8, 5, 0.03
#: Two servers of two ranks: 0 and 1, 2 and 3. Each exchanges with one of the other server.
SERVER = np.array([0, 0, 1, 1], dtype=np.int32)
BOTH_WAYS = ((0, 2), (2, 0), (1, 3), (3, 1))


def lateness(late_ms: Mapping[tuple[int, int], float], lost: Sequence[tuple[int, int]] = ()) -> Float64:
    """The lateness of four ranks, of whose flows some begin late in step 5; the first of pairs may have no record."""
    flows = []
    for step, end in enumerate(every(1000, STEPS, 1000)):
        for turn in range(ROUNDS):
            at = end - 900 + 150 * turn
            for place, pair in enumerate(BOTH_WAYS):
                if pair in lost and turn == 0:
                    continue
                begin = at + 0.01 * place + (late_ms.get(pair, 0) if step == 5 else 0)
                flows.append(Flow(*pair, begin, at + 60 - begin))
    seen = traffic(flows)
    return measure_lateness(seen, division(range(4), every(1000, STEPS, 1000)), SERVER, PARAMS, all_with_all=True)


def late_ones(seconds: Float64, step: int = 5) -> list[int]:
    return np.flatnonzero(seconds[:, step] > LATE_S).tolist()


def test_who_is_sent_to_ahead_of_time_is_the_late_one() -> None:
    seconds = lateness({(3, 1): 20})
    assert late_ones(seconds) == [3]
    assert seconds[3, 5] == pytest.approx(ROUNDS * 0.020, rel=0.05)


def test_what_crosses_anothers_nic_waits_for_the_late_one() -> None:
    """Rank 2 is late: what goes to its server over the NIC of rank 3 waits as well; rank 3 itself sends in time."""
    seconds = lateness({(0, 2): 20, (2, 0): 20, (1, 3): 20})
    assert late_ones(seconds) == [2]
    assert np.abs(seconds[[1, 3], 5]).max() < 0.001


def test_two_ends_that_are_alike_are_late_together() -> None:
    seconds = lateness({(0, 2): 20, (2, 0): 20})
    assert late_ones(seconds) == [0, 2]


def test_a_lost_record_shifts_no_round() -> None:
    assert late_ones(lateness({(3, 1): 20}, lost=[(3, 1)])) == [3]


def test_late_rank_named_where_half_of_pairs_have_a_round_less() -> None:
    """Their first message runs into gradients, say, and is of another kind."""
    seconds = lateness({(0, 2): 20, (2, 0): 20, (1, 3): 20}, lost=[(0, 2), (1, 3)])
    assert late_ones(seconds) == [2]


def test_lateness_in_each_round_counts_as_often_as_it_comes() -> None:
    """All wait for all: whoever is late in several rounds, as those of one operation, is late anew in each."""
    chance, flows, ends = np.random.default_rng(4), [], every(1000, STEPS, 1000)
    for end in ends:
        of_operation = dict(zip(BOTH_WAYS, chance.uniform(0, 2, 4).tolist(), strict=True))
        for turn in range(ROUNDS):
            at = end - 900 + 150 * turn
            for pair, ms in of_operation.items():
                late_ms = ms + (0 if pair == (3, 1) else 20)
                flows.append(Flow(*pair, at + late_ms, 60 - late_ms))
    seconds = measure_lateness(traffic(flows), division(range(4), ends), SERVER, PARAMS, all_with_all=True)
    assert late_ones(seconds) == [2]
    assert np.median(seconds[2]) == pytest.approx(ROUNDS * 0.020, rel=0.1)


def test_nobody_is_late_where_all_are() -> None:
    assert np.abs(lateness(dict.fromkeys(BOTH_WAYS, 20.0))).max() < 0.002


@pytest.mark.parametrize("slow_from", [0, 2, 12], ids=["from the first step on", "nearly always", "half of the time"])
def test_rounds_that_run_together_show_the_late_rank(slow_from: int) -> None:
    """Rank 2 of a ring computes longer before each round but the first: others wait, and theirs run together."""
    flows, ends = [], every(1000, 24, 1000)
    for step, end in enumerate(ends):
        for src, dst in ((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)):
            if step < slow_from:
                flows += [Flow(src, dst, end - 700 + 100 * turn, 60) for turn in range(3)]
            elif 2 in (src, dst):
                flows += [Flow(src, dst, end - 690 + 295 * turn, 60) for turn in range(3)]
            else:
                flows.append(Flow(src, dst, end - 700, 660, 120 * MB))
    server = np.arange(6, dtype=np.int32)
    seconds = measure_lateness(traffic(flows), division(range(6), ends), server, PARAMS, all_with_all=False)
    assert late_ones(seconds, 20) == [2]
