"""Turns: since when an operation moves, where some pairs part operations that others run together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.diagnose.network.time_per_byte import communicators, find_turns, measure_time_per_byte
from prism_ch.analysis.roles.stage_order import order
from prism_ch.model.columns import Float64
from prism_ch.model.job import Division
from prism_ch.model.params import TimePerByteParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, ring, topology, traffic, typed

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


def test_of_what_is_run_together_the_last_operation_is_seen() -> None:
    *parted, (begun, payload) = seen([*LATE, LAST, moves((0, 130, 20))])
    assert (begun.tolist(), payload.tolist()) == ([120], [10])
    for begun, payload in parted:
        assert (begun.tolist(), payload.tolist()) == ([30, 120], [10, 10])


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


def site_of(*sets: int, noise: float = 0.0002, steps: int = 40) -> list[int]:
    """Return the sites found of rows on one site: each takes as long as its communicator of `sets` in each step."""
    rng = np.random.default_rng(3)
    logs = 0.002 * rng.standard_normal((max(sets) + 1, steps))[list(sets)] + noise * rng.standard_normal(
        (len(sets), steps)
    )
    logs[:, steps // 2 :] += 0.7  # something becomes slow that all of them cross
    one_site = np.zeros(len(sets), dtype=np.int32)
    found = communicators(one_site, 0.06 * np.exp(logs), np.full(logs.shape, 1e9), TimePerByteParams())
    return [int(site) for site in found]


def test_rows_that_vary_together_are_one_communicator() -> None:
    assert site_of(0, 0, 1, 1, 0, 1) == [0, 0, 1, 1, 0, 1]
    assert site_of(0, 0, 0, 0) == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "sets, changes", [((0, 1, 2, 3), {}), ((0, 0, 1, 1), {"noise": 0.02}), ((0, 0, 1, 1), {"steps": 12})]
)
def test_site_stays_one_where_rows_show_no_sets(sets: tuple[int, ...], changes: dict[str, int]) -> None:
    assert set(site_of(*sets, **changes)) == {0}


def test_a_burst_that_outlasts_others_is_of_the_step_it_began() -> None:
    """Four servers reduce on five rails; in one step one rail needs nine times as long."""
    rails, steps, slow = 5, 12, 5
    begins_ms = [1000.0 * step + 800.0 * (step > slow) for step in range(steps)]
    flows, ends_ns = [], np.zeros((4 * rails, steps), np.int64)
    for step, begin_ms in enumerate(begins_ms):
        for rail in range(rails):
            members = range(rail, 4 * rails, rails)
            length_ms = 900.0 if (rail, step) == (1, slow) else 100.0
            flows += ring(members, [begin_ms + length_ms], length_ms=length_ms)
            ends_ns[list(members), step] = BEGIN_NS + round((begin_ms + length_ms) * MS)
    bursts = traffic(flows)
    kinds, divided = typed(bursts), Division(np.arange(4 * rails, dtype=np.int32), ends_ns, np.ones(steps, np.bool_))
    groups = order(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(4, rails), TimePerByteParams())
    expected = np.full((rails, steps), 0.1)
    expected[1, slow] = 0.9
    assert times.seconds[np.argsort(times.src[np.unique(times.row, return_index=True)[1]])] == pytest.approx(expected)
