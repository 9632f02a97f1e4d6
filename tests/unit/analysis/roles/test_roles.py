"""Roles: a pipeline and a collective differ in who waits for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.roles.links import find_links
from prism_ch.analysis.roles.roles import identify
from prism_ch.model.columns import Bool
from prism_ch.model.params import IdentifyParams
from prism_ch.model.result import PAIR_KINDS
from tests.unit.analysis.build import MB, Flow, buckets, every, job, pipeline, renamed, ring, shaken, traffic

PARAMS = IdentifyParams()
STEPS = every(2000, 12, 1900)

Kinds = dict[tuple[int, int], str]


def kinds(flows: Sequence[Flow], steady: Bool | None = None) -> Kinds:
    seen = traffic(flows)
    every_pair = np.ones(len(seen.pair_src), dtype=bool)
    found = identify(seen, every_pair if steady is None else steady, PARAMS)
    pairs = zip(seen.pair_src.tolist(), seen.pair_dst.tolist(), strict=True)
    return dict(zip(pairs, [PAIR_KINDS[kind] for kind in found.kind], strict=True))


def of_kind(found: Kinds, kind: str) -> set[tuple[int, int]]:
    return {pair for pair, name in found.items() if name == kind}


class TestLinks:
    def test_both_directions_are_one_link(self) -> None:
        links = find_links(traffic([Flow(2, 5, 0, size=MB), Flow(5, 2, 50, size=3 * MB), Flow(5, 2, 90, size=3 * MB)]))
        assert (links.low.tolist(), links.high.tolist(), links.of_pair.tolist()) == ([2], [5], [0, 0])
        assert links.payload.tolist() == [[MB], [6 * MB]]
        assert links.bursts.tolist() == [[1], [2]]

    def test_burst_is_answered_when_the_other_way_moves_meanwhile(self) -> None:
        flows = [Flow(0, 1, 0, 10), Flow(1, 0, 5, 10), Flow(0, 1, 100, 10), Flow(1, 0, 110, 10)]
        assert find_links(traffic(flows)).unanswered.tolist() == [0.5]  # the last two only touch

    def test_what_coarse_clocks_show_apart_may_have_moved_at_once(self) -> None:
        at_once = [Flow(0, 1, 0, 0), Flow(1, 0, 1, 0), Flow(0, 1, 100, 0), Flow(1, 0, 100, 0)]
        assert find_links(traffic(at_once)).unanswered.tolist() == [1.0]
        assert find_links(traffic(at_once, blur_ms=1.1)).unanswered.tolist() == [0.0]
        answered = [Flow(0, 1, 0, 0), Flow(1, 0, 2, 0)]
        assert find_links(traffic(answered, blur_ms=1.1)).unanswered.tolist() == [1.0]

    def test_small_messages_at_the_start_hardly_count(self) -> None:
        barrier = [Flow(0, 1, -500, 1, MB), Flow(1, 0, -400, 1, MB)]
        assert find_links(traffic(barrier + ring([0, 1], STEPS))).unanswered[0] < 0.01
        assert set(kinds(barrier + ring([0, 1], STEPS)).values()) == {"DP"}

    def test_a_one_way_link_is_never_answered(self) -> None:
        assert find_links(traffic(ring([0, 1, 2], STEPS))).unanswered.tolist() == [1.0] * 3


class TestCollectives:
    @pytest.mark.parametrize("members", [[0, 1], [0, 1, 2], [3, 1, 2, 0]], ids=["two", "three", "four"])
    def test_a_ring_is_data_parallel(self, members: list[int]) -> None:
        assert set(kinds(shaken(ring(members, STEPS), 1, ms=0.5)).values()) == {"DP"}

    def test_ring_of_two_is_no_pipeline_when_both_ways_move_at_once(self) -> None:
        assert kinds(ring([0, 1], STEPS)) == {(0, 1): "DP", (1, 0): "DP"}

    def test_gradients_in_buckets_are_data_parallel(self) -> None:
        flows = buckets([0, 1], STEPS, [25 * MB, 25 * MB, 12 * MB], apart_ms=120)
        assert set(kinds(shaken(flows, 1, ms=0.5)).values()) == {"DP"}


class TestPipelines:
    @pytest.mark.parametrize("microbatches", [1, 2, 3, 4, 8, 16])
    @pytest.mark.parametrize("stages", [[0, 1], [2, 0, 1, 3]], ids=["two stages", "four stages"])
    def test_a_pipeline_is_pipeline_parallel(self, stages: list[int], microbatches: int) -> None:
        flows = pipeline(stages, every(2000, 12), microbatches=microbatches)
        assert set(kinds(shaken(flows, 1)).values()) == {"PP"}

    @pytest.mark.parametrize("microbatches", [4, 8])
    def test_interleaved_pipeline_is_one_though_it_closes_a_ring(self, microbatches: int) -> None:
        found = kinds(shaken(pipeline([0, 1, 2, 0, 1, 2], every(3000, 12), microbatches=microbatches), 1))
        assert of_kind(found, "PP") == {(a, b) for a in range(3) for b in range(3) if a != b}

    @pytest.mark.parametrize("microbatches", [1, 2, 4, 16])
    @pytest.mark.parametrize("replicas", [2, 3, 4])
    def test_both_kinds_in_one_job(self, microbatches: int, replicas: int) -> None:
        grid = [[stage * replicas + replica for replica in range(replicas)] for stage in range(2)]
        found = kinds(shaken(job(grid, 12, 2000, microbatches=microbatches), 1, ms=0.5))
        chains = {pair for pair in found if abs(pair[0] - pair[1]) == replicas}
        assert of_kind(found, "PP") == chains
        assert of_kind(found, "DP") == set(found) - chains

    def test_replicas_are_judged_together(self) -> None:
        clear = [flow for pair in ([0, 2], [1, 3]) for flow in pipeline(pair, every(2000, 12))]
        # Clocks that disagree make the third replica's answers meet what they answer.
        forward = [flow for flow in pipeline([4, 5], every(2000, 12)) if flow.src == 4]
        blurred = forward + [replace(flow, src=5, dst=4) for flow in forward]
        assert set(kinds(blurred).values()) == {"DP"}
        assert set(kinds(clear + blurred).values()) == {"PP"}

    def test_link_of_few_records_is_judged_with_its_class_when_lossy(self) -> None:
        flows = shaken([flow for pair in range(0, 16, 2) for flow in ring([pair, pair + 1], STEPS[:6])], 1, ms=0.5)
        answers = sorted((flow for flow in flows if (flow.src, flow.dst) == (1, 0)), key=lambda flow: flow.start_ms)
        calls = sorted((flow for flow in flows if (flow.src, flow.dst) == (0, 1)), key=lambda flow: flow.start_ms)
        left = [flow for flow in flows if flow not in (calls[1], answers[4])]
        assert set(kinds(left).values()) == {"DP"}


class TestInnerCollectives:
    """Two groups of two that share gradients, (0, 2) and (1, 3), and something that goes on all through a step."""

    CLOSING = ring([0, 2], STEPS, length_ms=80) + ring([1, 3], STEPS, length_ms=80)

    def throughout(self, pair: Sequence[int], sizes: Sequence[int], step_ms: float = 2000) -> list[Flow]:
        """Exchanges of the given sizes from the beginning of every step to its closing, evenly."""
        apart = (step_ms - 200) / len(sizes)
        starts = [(end + 100 + place * apart, size) for end in STEPS for place, size in enumerate(sizes)]
        return [Flow(src, dst, at, 10, size) for at, size in starts for src, dst in (pair, pair[::-1])]

    def bucket(self, before_ms: float, size: int) -> list[Flow]:
        """A bucket of all gradients, or of parameters, so long before each step closes."""
        starts = [end - before_ms for end in STEPS]
        return [
            Flow(src, dst, at, 20, size)
            for at in starts
            for pair in ([0, 1], [2, 3])
            for src, dst in (pair, pair[::-1])
        ]

    def inside(self, *sizes: int) -> Kinds:
        flows = self.throughout([0, 1], sizes) + self.throughout([2, 3], sizes)
        return kinds(self.CLOSING + flows)

    def test_one_size_all_the_time_is_tensor_parallel(self) -> None:
        found = self.inside(*[5 * MB] * 24)
        assert of_kind(found, "TP") == {(0, 1), (1, 0), (2, 3), (3, 2)}
        assert of_kind(found, "DP") == {(0, 2), (2, 0), (1, 3), (3, 1)}

    def test_two_sizes_are_a_context_ring(self) -> None:
        found = self.inside(*[5 * MB] * 12, *[10 * MB] * 12)
        assert of_kind(found, "CP") == {(0, 1), (1, 0), (2, 3), (3, 2)}

    def test_sizes_that_vary_are_experts(self) -> None:
        chance = np.random.default_rng(1)
        even = self.throughout([0, 1], [5 * MB] * 24) + self.throughout([2, 3], [5 * MB] * 24)
        exchanged = [replace(flow, size=int(flow.size * chance.uniform(0.5, 1.5))) for flow in even]
        assert of_kind(kinds(self.CLOSING + exchanged), "EP") == {(0, 1), (1, 0), (2, 3), (3, 2)}

    def test_buckets_on_pairs_of_experts_are_known_by_others(self) -> None:
        chance = np.random.default_rng(3)
        exchanged = [
            replace(flow, size=int(flow.size * chance.uniform(0.7, 1.4)))
            for pair in ([0, 1], [2, 3])
            for flow in self.throughout(pair, [5 * MB] * 24)
        ]
        reduced = [
            Flow(src, dst, end - 150 - 100 * bucket, 60, 60 * MB)
            for end in STEPS
            for bucket in range(1, 5)
            for src, dst in ((0, 1), (1, 2), (2, 3), (3, 0))
        ]
        seen = traffic(self.CLOSING + exchanged + reduced)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        assert {PAIR_KINDS[kind] for kind in found.burst[seen.payload == 60 * MB]} == {"DP"}
        assert {PAIR_KINDS[kind] for kind in found.burst[seen.payload < 8 * MB]} == {"EP"}

    def test_buckets_gathered_early_and_scattered_late_are_gradients(self) -> None:
        gathered = [flow for place in range(3) for flow in self.bucket(1950 - 60 * place, 10 * MB)]
        scattered = [flow for place in range(3) for flow in self.bucket(150 + 60 * place, 5 * MB)]
        assert set(kinds(self.CLOSING + gathered + scattered).values()) == {"DP"}

    @pytest.mark.parametrize("exchanges", [6, 24, 200])
    def test_sizes_that_vary_are_experts_however_many_there_are(self, exchanges: int) -> None:
        chance = np.random.default_rng(2)
        sizes = [int(5 * MB * chance.lognormal(0, 0.3)) for _ in range(exchanges)]
        steps = [
            replace(flow, size=int(flow.size * chance.lognormal(0, 0.3)))
            for pair in ([0, 1], [2, 3])
            for flow in self.throughout(pair, sizes)
        ]
        assert of_kind(kinds(self.CLOSING + steps), "EP") == {(0, 1), (1, 0), (2, 3), (3, 2)}

    @pytest.mark.parametrize("times", [8, 60])
    def test_experts_on_gradient_pairs_are_found_by_size(self, times: int) -> None:
        chance = np.random.default_rng(3)
        apart = [
            replace(flow, size=int(flow.size * chance.uniform(0.7, 1.4)))
            for pair in ([0, 2], [1, 3])
            for flow in self.throughout(pair, [5 * MB] * 24)
        ]
        closing = [replace(flow, size=times * 5 * MB) for flow in self.CLOSING]
        seen = traffic(closing + apart)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        assert {PAIR_KINDS[kind] for kind in found.burst[seen.payload < 8 * MB]} == {"EP"}
        assert [PAIR_KINDS[kind] for kind in found.burst[seen.payload > 8 * MB]] == ["DP"] * len(closing)

    def test_buckets_of_two_sizes_are_of_one_collective(self) -> None:
        sizes = [40 * MB] * 2 + [5 * MB] * 8
        assert set(kinds(buckets([0, 1], STEPS, sizes, apart_ms=100)).values()) == {"DP"}

    @pytest.mark.parametrize(
        "sizes, kind",
        [
            ([5 * MB, 10 * MB, 15 * MB], "DP"),
            ([5 * MB, 10 * MB, 15 * MB] * 6, "DP"),
            ([5 * MB] * 18, "DP"),
            (range(4 * MB, 14 * MB, MB), "DP"),
            ([5 * MB, 10 * MB] * 9, "CP"),
        ],
        ids=["once", "six times", "of one size", "of ten sizes", "one twice the other"],
    )
    def test_small_sizes_on_closing_pairs_are_buckets_unless_a_ring(self, sizes: Sequence[int], kind: str) -> None:
        large = [flow for pair in ([0, 1], [2, 3]) for flow in ring(pair, STEPS, size=90 * MB)]
        small = [flow for pair in ([0, 1], [2, 3]) for flow in self.throughout(pair, sizes)]
        seen = traffic(large + small)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        assert {PAIR_KINDS[one] for one in found.burst[seen.payload < 90 * MB]} == {kind}

    @pytest.mark.parametrize("strays", [1, 2])
    def test_exchange_in_a_closing_is_no_gradient_of_its_own_size(self, strays: int) -> None:
        chance = np.random.default_rng(3)
        even = self.throughout([0, 1], [5 * MB] * 24) + self.throughout([2, 3], [5 * MB] * 24)
        exchanged = [replace(flow, size=int(flow.size * chance.uniform(0.5, 1.5))) for flow in even]
        extra = [Flow(0, 1, STEPS[3 + number] - 40, 10, (9 + number) * MB) for number in range(strays)]
        seen = traffic([*self.CLOSING, *exchanged, *extra])
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        mine = (seen.src == 0) & (seen.dst == 1)
        assert {PAIR_KINDS[kind] for kind in found.burst[mine]} == {"EP"}

    def test_bursts_shorter_than_a_tick_fill_a_step_as_well(self) -> None:
        flows = self.throughout([0, 1], [5 * MB] * 24) + self.throughout([2, 3], [5 * MB] * 24)
        seen = traffic(self.CLOSING + [replace(flow, length_ms=0) for flow in flows], blur_ms=1.1)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        assert [PAIR_KINDS[kind] for kind in found.kind] == ["TP", "DP", "TP", "DP", "DP", "TP", "DP", "TP"]

    def test_buckets_reduced_during_the_backward_are_data_parallel(self) -> None:
        flows = [flow for pair in ([0, 1], [2, 3]) for flow in buckets(pair, STEPS, [5 * MB] * 24, apart_ms=40)]
        late = [flow for pair in ([0, 2], [1, 3]) for flow in ring(pair, STEPS)]
        assert set(kinds(flows + late).values()) == {"DP"}

    def test_mixed_pair_is_named_by_its_payload_and_bursts_by_kind(self) -> None:
        flows = ring([0, 1, 2, 3], STEPS, length_ms=80, size=60 * MB) + self.throughout([0, 1], [5 * MB] * 24)
        seen = traffic(flows)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        mine = (seen.src == 0) & (seen.dst == 1)
        named = [PAIR_KINDS[kind] for kind in found.burst[mine]]
        assert [name for name, size in zip(named, seen.payload[mine], strict=True) if size > 5 * MB] == ["DP"] * 12
        assert {name for name, size in zip(named, seen.payload[mine], strict=True) if size == 5 * MB} == {"TP"}
        assert kinds(flows)[0, 1] == "TP"

    def test_mixed_pairs_named_by_majority_when_bursts_lost(
        self,
    ) -> None:
        inner = [self.throughout(pair, [5 * MB] * 24) for pair in ([0, 1], [2, 3], [4, 5], [6, 7])]
        closing = ring(range(8), STEPS, length_ms=80, size=126 * MB)
        lost = [flow for flow in closing if (flow.src, flow.dst) == (2, 3)][4]
        found = kinds([flow for flow in (*closing, *(one for pair in inner for one in pair)) if flow != lost])
        assert of_kind(found, "DP") == {(member, (member + 1) % 8) for member in range(8)}

    def test_message_run_into_gradients_is_not_counted_as_them(self) -> None:
        closing = [
            replace(flow, start_ms=flow.start_ms - 10, length_ms=flow.length_ms + 10, size=flow.size + 5 * MB)
            if flow.src % 2 == 0
            else flow
            for flow in ring(range(8), STEPS, length_ms=80, size=116 * MB)
        ]
        inner = [flow for low in range(0, 8, 2) for flow in self.throughout([low, low + 1], [5 * MB] * 24)]
        found = kinds([*closing, *inner])
        assert of_kind(found, "DP") == {(member, (member + 1) % 8) for member in range(1, 8, 2)}


class TestWhatIsLeft:
    def test_pairs_that_do_not_recur_are_other_without_confidence(self) -> None:
        seen = traffic([*ring([0, 1, 2], STEPS), Flow(0, 2, 0)])
        steady = (seen.pair_src != 0) | (seen.pair_dst != 2)
        found = identify(seen, steady, PARAMS)
        assert [PAIR_KINDS[kind] for kind in found.kind[~steady]] == ["other"]
        assert found.confidence[~steady].tolist() == [0.0]
        assert (found.confidence[steady] > 0.99).all()

    def test_members_of_one_collective_are_no_pipeline_less_surely(self) -> None:
        there, back = (every(2000, 12, at) for at in (1300, 1500))
        across = [Flow(0, 2, at, size=8 * MB) for at in there] + [Flow(2, 0, at, size=8 * MB) for at in back]
        seen = traffic(ring([0, 1, 2, 3], STEPS) + across)
        found = identify(seen, np.ones(len(seen.pair_src), dtype=bool), PARAMS)
        pairs = zip(seen.pair_src.tolist(), seen.pair_dst.tolist(), strict=True)
        confidence = dict(zip(pairs, found.confidence.tolist(), strict=True))
        assert {PAIR_KINDS[kind] for kind in found.kind} == {"DP"}
        assert 0.5 < confidence[0, 2] == confidence[2, 0] < confidence[0, 1]

    def test_ends_of_a_pipeline_share_an_embedding_but_no_stage(self) -> None:
        chain = pipeline([0, 1, 2], every(2000, 12))
        found = kinds(shaken(chain + ring([0, 2], STEPS), 1, ms=0.2))
        assert of_kind(found, "PP") == {(0, 1), (1, 0), (1, 2), (2, 1)}
        assert of_kind(found, "other") == {(0, 2), (2, 0)}

    def test_nothing(self) -> None:
        found = identify(traffic([]), np.empty(0, dtype=bool), PARAMS)
        assert len(found.kind) == 0

    def test_nothing_that_recurs(self) -> None:
        assert kinds([Flow(0, 1, 0), Flow(1, 0, 50)], np.zeros(2, dtype=bool)) == {(0, 1): "other", (1, 0): "other"}


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)))
def test_kinds_do_not_depend_on_names(name: list[int]) -> None:
    flows = shaken(job([[0, 1, 2], [3, 4, 5]], 12, 2000), 1, ms=0.5)
    expected = {(name[src], name[dst]): kind for (src, dst), kind in kinds(flows).items()}
    assert kinds(renamed(flows, name)) == expected
