"""Time per byte: which rows are of one communicator, and which step a burst is of."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.diagnose.network.time_per_byte import communicators, measure_time_per_byte
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import TimePerByteParams
from prism_ch.model.result import CP, DP, EP, OTHER
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, division, every, ordered, ring, topology, traffic, typed


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
    groups = ordered(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(4, rails), TimePerByteParams())
    expected = np.full((rails, steps), 0.1)
    expected[1, slow] = 0.9
    assert times.seconds[np.argsort(times.src[np.unique(times.row, return_index=True)[1]])] == pytest.approx(expected)


def test_one_pair_of_a_communicator_alone_is_not_measured() -> None:
    """Rings of context run on pairs that carry gradients, but for the one that closes each."""
    ends_ms = [1000.0 * step for step in range(1, 13)]
    waits = [Flow(last, last - 3, end - 500, 90, MB) for end in ends_ms for last in (3, 7)]
    bursts = traffic([*ring(range(8), ends_ms, length_ms=100), *waits])
    closes = bursts.pair_src - bursts.pair_dst == 3
    kind = np.where(closes, CP, DP).astype(np.uint8)
    kinds, divided = PairKinds(kind, np.ones(len(kind)), kind[bursts.pair]), division(range(8), ends_ms)
    groups = ordered(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(8), TimePerByteParams())
    assert {(src, dst) for src, dst in zip(times.src.tolist(), times.dst.tolist(), strict=True)} == {
        (rank, (rank + 1) % 8) for rank in range(8)
    }


def test_slow_pairs_lengthen_each_exchange_of_their_group() -> None:
    """Two groups of four exchange three times a step, all with all; from the fourth step on, a pair of each is slow."""
    ends_ms, slow_ms = [1000.0 * step for step in range(1, 9)], {(0, 3): 90.0, (5, 6): 30.0}
    flows = []
    for step, end in enumerate(ends_ms):
        for src, dst in ((src, dst) for src in range(8) for dst in range(8) if src != dst and src // 4 == dst // 4):
            length_ms = slow_ms.get((src, dst), 10.0) if step > 3 else 10.0
            flows += [Flow(src, dst, end - begin, length_ms, MB) for begin in (900, 600, 300)]
    bursts = traffic(flows)
    kind = np.full(len(bursts.pair_src), EP, np.uint8)
    kinds, divided = PairKinds(kind, np.ones(len(kind)), kind[bursts.pair]), division(range(8), ends_ms)
    groups = ordered(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(8), TimePerByteParams())
    assert times.exchanges.longer_s == pytest.approx([0.0] * 4 + [3 * 0.08] * 4)


def test_job_without_any_group_has_no_times() -> None:
    """What ranks send belongs to no group where no kind could be told."""
    ends_ms = [1000.0 * step for step in range(1, 13)]
    bursts = traffic(ring(range(4), ends_ms, length_ms=100))
    kind = np.full(len(bursts.pair_src), OTHER, np.uint8)
    kinds, divided = PairKinds(kind, np.ones(len(kind)), kind[bursts.pair]), division(range(4), ends_ms)
    groups = ordered(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(4), TimePerByteParams())
    assert times.seconds.shape == (0, 12)


def test_groups_that_move_as_much_are_alike_in_any_records() -> None:
    """Messages of a slow rail run into one record; those of the others stay two."""
    rails, ends = 4, every(1000, 12, 1000)
    flows = []
    for rail in range(rails):
        members = range(rail, 4 * rails, rails)
        if rail == 1:
            flows += ring(members, ends, length_ms=600, size=80 * MB)
        else:
            flows += ring(members, [end - 540 for end in ends], length_ms=20) + ring(members, ends, length_ms=20)
    bursts = traffic(flows)
    kinds, divided = typed(bursts), division(range(4 * rails), ends)
    groups = ordered(bursts, kinds, divided)
    times = measure_time_per_byte(bursts, kinds, divided, groups, topology(4, rails), TimePerByteParams())
    assert len(times.group) == rails
    assert len(set(times.like.tolist())) == 1
