"""Routed traffic: what a router sends differs from pair to pair, and what a collective moves does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.roles.roles import identify
from prism_ch.analysis.roles.routed import routed_bursts
from prism_ch.model.columns import Bool
from prism_ch.model.params import IdentifyParams
from prism_ch.model.result import PAIR_KINDS
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import MB, Flow, every, ring, traffic

PARAMS = IdentifyParams()
STEPS = every(2000, 12, 1900)
#: Two groups of experts, in one group of replicas.
GROUPS = (range(4), range(4, 8))
GRADIENTS = 60 * MB


def exchanges(times: int) -> list[Flow]:
    """What the experts of each group exchange so often in a step, with every member something else."""
    chance = np.random.default_rng(1)
    return [
        Flow(src, dst, end - 1700 + 1500 * number / times, 15, int(20 * MB * chance.uniform(0.7, 1.3)))
        for end in STEPS
        for number in range(times)
        for group in GROUPS
        for src in group
        for dst in group
        if src != dst
    ]


def gradients(*before_ms: float, size: int = GRADIENTS) -> list[Flow]:
    """What all replicas reduce so long before each step ends, around a ring."""
    return [flow for apart in before_ms for flow in ring(range(8), [end - apart for end in STEPS], size=size)]


def routed(flows: Sequence[Flow]) -> Bool:
    seen = traffic(flows)
    return routed_bursts(seen, np.zeros(len(seen), dtype=np.int32), PARAMS)


def named(flows: Sequence[Flow]) -> tuple[Traffic, list[str]]:
    seen = traffic(flows)
    found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
    return seen, [PAIR_KINDS[kind] for kind in found.burst]


def kinds_by_size(flows: Sequence[Flow]) -> dict[str, set[str]]:
    """The kinds of bursts that are small, as those between experts, and of all larger ones."""
    seen, kinds = named(flows)
    is_small = (seen.payload < 30 * MB).tolist()
    pairs = list(zip(kinds, is_small, strict=True))
    return {"small": {kind for kind, small in pairs if small}, "large": {kind for kind, small in pairs if not small}}


@pytest.mark.parametrize("times", [1, 2, 4, 24])
def test_experts_are_known_however_seldom_they_exchange(times: int) -> None:
    assert kinds_by_size(gradients(0, 100) + exchanges(times)) == {"small": {"EP"}, "large": {"DP"}}


def test_experts_that_are_all_replicas_are_known_by_sizes() -> None:
    """Every pair carries both; the exchanges fill less than the time of a step, and some are like others by chance."""
    chance = np.random.default_rng(3)
    exchanged = [
        Flow(src, (src + 1) % 8, end - before_ms + 60 * number, 15, int(20 * MB * chance.normal(1, 0.1)))
        for end in STEPS
        for before_ms in (1700, 600)
        for number in range(4)
        for src in range(8)
    ]
    flows = gradients(0, size=4000 * MB) + exchanged
    assert kinds_by_size(flows) == {"small": {"EP"}, "large": {"DP"}}


def test_exchange_that_runs_into_gradients_is_part_of_them() -> None:
    chance = np.random.default_rng(4)
    joined = [
        replace(flow, size=flow.size + int(20 * MB * chance.uniform(0.2, 3.0))) if flow.dst % 4 else flow
        for flow in gradients(0, 100)
    ]
    assert kinds_by_size(joined + exchanges(2)) == {"small": {"EP"}, "large": {"DP"}}


def test_bucket_as_small_as_an_exchange_is_known_by_its_like() -> None:
    seen, kinds = named(gradients(0) + gradients(150, size=22 * MB) + exchanges(2))
    of_bucket = {kind for kind, size in zip(kinds, seen.payload.tolist(), strict=True) if size == 22 * MB}
    assert of_bucket == {"DP"}
    assert kinds.count("EP") > 0.95 * len(exchanges(2))


def test_small_gradients_of_a_few_steps_are_not_routed() -> None:
    flows = [flow for flow in gradients(0, 100, size=32 * MB) + exchanges(2) if flow.start_ms < 6000]
    assert kinds_by_size(flows) == {"small": {"EP"}, "large": {"DP"}}


def test_size_that_is_another_s_by_accident_is_routed() -> None:
    seen, kinds = named(
        gradients(0)
        + [replace(flow, size=20 * MB) if flow.src < 2 and flow.start_ms < 4000 else flow for flow in exchanges(2)]
    )
    assert {kind for kind, size in zip(kinds, seen.payload.tolist(), strict=True) if size < 30 * MB} == {"EP"}


def test_gradients_cut_otherwise_on_some_pairs_are_not_routed() -> None:
    chance = np.random.default_rng(5)
    pieces = [
        replace(
            flow,
            start_ms=flow.start_ms + begin * flow.length_ms,
            length_ms=(end - begin) * flow.length_ms,
            size=int((end - begin) * flow.size),
        )
        for flow in gradients(0, 500, 1000)
        for cut in [chance.uniform(0.1, 0.9)]
        for begin, end in ((0.0, cut), (cut, 1.0))
    ]
    whole = [flow for flow in gradients(0, 500, 1000) if flow.src % 4]
    assert not routed([*whole, *(piece for piece in pieces if piece.src % 4 == 0)]).any()


def test_stray_bursts_beside_gradients_are_not_routed() -> None:
    """Sampled: sizes are known to some percent. One burst of some pairs is several that ran into one another."""
    chance = np.random.default_rng(8)
    flows = [flow for before, size in ((0, 60), (400, 130)) for flow in gradients(before, size=size * MB)]
    sampled = [replace(flow, size=int(flow.size * chance.normal(1, 0.06))) for flow in flows]
    for row, size in ((0, 900), (1, 900), (2, 900), (3, 1400)):
        sampled[row] = replace(sampled[row], size=size * MB)
    assert not routed(sampled).any()


@pytest.mark.parametrize("seed", range(8))
def test_sampled_sizes_that_are_like_any_other_are_not_routed(seed: int) -> None:
    chance = np.random.default_rng(seed)
    sampled = [replace(flow, size=int(flow.size * chance.normal(1, 0.022))) for flow in gradients(0, 500, 1000, 1500)]
    assert not routed(sampled).any()


def test_what_no_other_pair_moves_anything_beside_is_not_routed() -> None:
    chance = np.random.default_rng(9)
    assert not routed([Flow(0, 1, at, 40, int(MB * chance.uniform(1, 9))) for at in every(100, 40)]).any()


def test_gradients_of_lost_packets_are_not_routed() -> None:
    """Two replicas more have more channels, and a good part of what those move is lost."""
    chance = np.random.default_rng(7)
    lossy = [
        replace(flow, size=int(flow.size * min(1.0, chance.uniform(0.7, 1.15))))
        for apart in (0, 100)
        for flow in ring([8, 9], [end - apart for end in STEPS], size=2 * GRADIENTS)
    ]
    assert not routed(gradients(0, 100) + lossy).any()


def test_nothing_is_routed_where_records_show_no_like() -> None:
    chance = np.random.default_rng(6)
    flows = gradients(0, 100) + exchanges(2)
    assert routed(flows).any()
    sampled = [replace(flow, size=int(flow.size * chance.uniform(0.7, 1.3))) for flow in flows]
    assert not routed(sampled).any()


def test_gradients_of_experts_make_no_others_inner() -> None:
    """Gradients of experts are reduced once a step, by fewer ranks than those of all, which are in many buckets."""
    of_experts = [flow for one in range(4) for flow in ring([one, one + 4], STEPS, size=90 * MB)]
    of_all = gradients(*range(200, 1900, 200))
    found = kinds_by_size(of_experts + of_all + exchanges(8))
    assert found == {"small": {"EP"}, "large": {"DP"}}


def test_no_bursts() -> None:
    assert len(named([])[1]) == 0
