"""Turns: since when an operation moves, where some pairs part operations that others run together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.diagnose.network.turns import find_turns
from prism_ch.model.columns import Float64
from prism_ch.model.params import TimePerByteParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, traffic

PAIRS = 4


def moves(*bursts: tuple[float, float, int]) -> list[tuple[float, float, int]]:
    """Bursts of one pair: when each begins and ends, in milliseconds, and its megabytes."""
    return list(bursts)


def seen(
    pairs: Sequence[Sequence[tuple[float, float, int]]], *, site: int = 0, steady: bool = True
) -> list[tuple[Float64, Float64]]:
    """For each pair since when its bursts move, in milliseconds, and how many megabytes of them."""
    flows = [
        Flow(2 * pair, 2 * pair + 1, begin, end - begin, size * MB)
        for pair, bursts in enumerate(pairs)
        for begin, end, size in bursts
    ]
    bursts = traffic(flows)
    of_pairs = np.zeros(len(pairs), np.int32)
    one_step, alike = np.zeros(len(bursts), np.int64), np.full(len(pairs), steady)
    turns = find_turns(bursts, one_step, of_pairs, of_pairs + site, alike, TimePerByteParams())
    rows = [bursts.pair == pair for pair in range(len(pairs))]
    return [((turns.begun_ns[mine] - BEGIN_NS) / MS, turns.payload[mine] / MB) for mine in rows]


#: Two operations of 10 ms each, for which the last pair is ready 30 ms and 20 ms after the first.
LATE = [moves((5 * pair, 40, 10), (100 + 5 * pair, 130, 10)) for pair in range(PAIRS - 1)]
LAST = moves((30, 40, 10), (120, 130, 10))


def test_all_move_since_the_last_one_began() -> None:
    for begun, payload in seen([*LATE, LAST]):
        assert begun.tolist() == [30, 120]
        assert payload.tolist() == [10, 10]


def test_what_is_run_together_rests_as_long_as_others_do() -> None:
    """Others rest from 40 ms to 120 ms."""
    *parted, (begun, payload) = seen([*LATE, LAST, moves((0, 130, 20))])
    assert (begun.tolist(), payload.tolist()) == ([110], [20])
    for begun, payload in parted:
        assert (begun.tolist(), payload.tolist()) == ([30, 120], [10, 10])


def test_a_rail_that_is_too_slow_to_part_them_is_seen() -> None:
    for begun, payload in seen([*LATE, LAST, moves((0, 230, 20))])[-1:]:
        assert (begun.tolist(), payload.tolist()) == ([110], [20])


def test_what_ends_where_most_have_no_end_is_not_seen() -> None:
    together = [moves((5 * pair, 130, 20)) for pair in range(PAIRS)]
    *joined, (begun, payload) = seen([*together, LAST])
    assert payload.tolist() == [0, 10]
    assert begun[1] == 120
    for begun, payload in joined:
        assert (begun.tolist(), payload.tolist()) == ([120], [10])


def test_a_pair_that_lost_a_record_says_nothing_of_others() -> None:
    lost = moves((120, 130, 10))
    whole = seen([*LATE, LAST, lost])[:-1]
    for begun, payload in whole:
        assert (begun.tolist(), payload.tolist()) == ([30, 120], [10, 10])


def test_pairs_that_move_by_themselves_do_since_they_begin() -> None:
    for (begun, payload), bursts in zip(seen([*LATE, LAST], site=-1), [*LATE, LAST], strict=True):
        assert begun.tolist() == [begin for begin, _, _ in bursts]
        assert payload.tolist() == [10, 10]


def test_bursts_that_depend_on_the_data_are_counted() -> None:
    uneven = [moves((5 * pair, 40, 10 + pair), (100 + 5 * pair, 130, 40 - 9 * pair)) for pair in range(PAIRS)]
    for begun, _ in seen(uneven, steady=False):
        assert begun.tolist() == [15, 115]


@pytest.mark.parametrize("pairs", [[], [moves()]])
def test_nothing_moves(pairs: Sequence[Sequence[tuple[float, float, int]]]) -> None:
    assert all(len(begun) == 0 for begun, _ in seen(pairs))
