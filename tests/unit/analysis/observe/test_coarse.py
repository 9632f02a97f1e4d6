"""Merged: records that run on over many steps, and which of them show training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.observe.timeouts import coarse_pairs, merged_training
from prism_ch.model.params import MergedParams
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import MB, Flow, every, ring, topology, traffic

PARAMS = MergedParams()
MINUTE = 60_000
GB = 1000 * MB


def long(hops: Sequence[tuple[int, int]], size: int = 3 * GB, minutes: float = 3) -> list[Flow]:
    """One record an exporter that joins all of a flow would make: `size` bytes a minute."""
    return [Flow(src, dst, 7.0 * row, minutes * MINUTE, round(size * minutes)) for row, (src, dst) in enumerate(hops)]


def both_ways(hops: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    return [*hops, *((dst, src) for src, dst in hops)]


def circle(members: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(members, [*members[1:], members[0]], strict=True))


def names(seen: Traffic, mask: np.ndarray) -> set[tuple[int, int]]:
    return set(zip(seen.pair_src[mask].tolist(), seen.pair_dst[mask].tolist(), strict=True))


def training(flows: Sequence[Flow], where: Topology) -> set[tuple[int, int]]:
    """The pairs whose records run on and show training."""
    seen = traffic(flows)
    merged = coarse_pairs(seen, PARAMS)
    return names(seen, merged_training(seen, where, merged, ~merged, PARAMS))


class TestMerged:
    """Which pairs' records run on."""

    def merged(self, flows: Sequence[Flow]) -> set[tuple[int, int]]:
        seen = traffic(flows)
        return names(seen, coarse_pairs(seen, PARAMS))

    def test_one_record_of_minutes_does(self) -> None:
        assert self.merged(long([(0, 1)])) == {(0, 1)}

    def test_so_do_records_that_follow_one_another_after_short_pauses(self) -> None:
        assert self.merged([Flow(0, 1, start, 59_000) for start in every(MINUTE, 5)]) == {(0, 1)}

    def test_bursts_with_silence_between_them_do_not(self) -> None:
        assert self.merged([Flow(0, 1, start, 40_000) for start in every(MINUTE, 5)]) == set()

    def test_a_transfer_of_some_seconds_does_not(self) -> None:
        assert self.merged([Flow(0, 1, 0, 20_000, 100 * GB)]) == set()

    def test_bursts_of_a_job_that_mostly_communicates_do_not(self) -> None:
        assert self.merged([Flow(0, 1, start, 950) for start in every(1000, 100)]) == set()


class TestTraining:
    """Which of them show training."""

    def test_a_ring_does(self) -> None:
        hops = circle(range(6))
        assert training(long(hops), topology(6)) == set(hops)

    def test_a_pipeline_does(self) -> None:
        hops = both_ways([(0, 1), (1, 2), (2, 3)])
        assert training(long(hops), topology(4)) == set(hops)

    def test_rings_of_several_rails_do_that_leave_a_server_by_another_than_they_came_in(self) -> None:
        hops = [(2 * server + server % 2, 2 * ((server + 1) % 4) + server % 2) for server in range(4)]
        assert training(long(hops), topology(4, gpus=2)) == set(hops)

    def test_rings_of_two_kinds_on_some_of_the_same_pairs_do_together(self) -> None:
        """On each rail a ring over all servers, and two over half of them each: what both use carries more."""
        volume = dict.fromkeys(circle(range(8)), 3 * GB)
        for hop in [*circle(range(4)), *circle(range(4, 8))]:
            volume[hop] = volume.get(hop, 0) + 7 * GB
        rails = {(2 * a + rail, 2 * b + rail): size for (a, b), size in volume.items() for rail in range(2)}
        flows = [flow for hop, size in rails.items() for flow in long([hop], size)]
        assert training(flows, topology(8, gpus=2)) == set(rails)

    def test_a_link_does_of_which_another_exporter_shows_the_answers(self) -> None:
        """Each way along the chain is a class of its own only together with the other."""
        there = [(stage, stage + 1) for stage in range(4)]
        answers = [Flow(dst, src, moment, 10, 75 * MB) for src, dst in there for moment in every(1500, 120)]
        assert training([*long(there), *answers], topology(5)) == set(there)
        assert training(long(there), topology(5)) == set()

    @pytest.mark.parametrize("share", [0.03, 1.0])
    def test_reading_from_storage_does_not(self, share: float) -> None:
        """All read equally much, all the time, and write some of it back."""
        reads = long([(0, reader) for reader in range(1, 9)])
        writes = long([(reader, 0) for reader in range(1, 9)], round(3 * GB * share / 2))
        assert training([*reads, *writes], topology(9)) == set()

    def test_serving_does_not(self) -> None:
        """Key-value caches go from prefill to decoding, as clients ask for them."""
        chance = np.random.default_rng(4)
        sizes = chance.lognormal(0, 1, 16) * GB
        hops = [(prefill, 4 + decode) for prefill in range(4) for decode in range(4)]
        flows = [replace(long([hop])[0], size=round(size)) for hop, size in zip(hops, sizes, strict=True)]
        assert training(flows, topology(8)) == set()

    def test_a_broadcast_along_a_chain_does_not(self) -> None:
        assert training(long([(server, server + 1) for server in range(7)]), topology(8)) == set()

    def test_a_mesh_does_not(self) -> None:
        """A shuffle, or a store that keeps copies: everyone sends everyone as much."""
        mesh = [(a, b) for a in range(8) for b in range(8) if a != b]
        assert training(long(mesh), topology(8)) == set()

    def test_heartbeats_round_a_ring_do_not(self) -> None:
        assert training(long(circle(range(6)), 60_000), topology(6)) == set()

    def test_two_streams_that_happen_to_be_equal_do_not(self) -> None:
        assert training(long(both_ways([(0, 1)])), topology(2)) == set()

    def test_a_ring_of_unequal_volumes_does_not(self) -> None:
        flows = [replace(flow, size=flow.size * (1 + row)) for row, flow in enumerate(long(circle(range(6))))]
        assert training(flows, topology(6)) == set()

    def test_nothing_crosses_tenants_or_stays_in_a_server(self) -> None:
        assert training(long(circle(range(6))), topology(6, tenants=("red", "blue"))) == set()
        assert training(long(circle(range(6))), topology(1, gpus=6)) == set()

    def test_a_lost_pair_in_a_rail_of_many_does_not_matter(self) -> None:
        hops = [(8 * a + rail, 8 * b + rail) for rail in range(8) for a, b in circle(range(4))]
        assert training(long(hops[1:]), topology(4, gpus=8)) == set(hops[1:])

    def test_bursts_of_steps_are_not_merged(self) -> None:
        assert training(ring(range(4), every(1000, 60)), topology(4)) == set()
