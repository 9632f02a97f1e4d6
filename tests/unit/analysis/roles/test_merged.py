"""Identify where the messages of many steps are one record: kinds by whom the links join."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np

from prism_ch.analysis.roles.merged import either_way, hidden_answers, name_merged
from prism_ch.analysis.roles.roles import identify
from prism_ch.model.job import PairKinds
from prism_ch.model.params import IdentifyParams, MergedParams
from prism_ch.model.result import DP, OTHER, PP
from prism_ch.model.traffic import Traffic
from tests.unit.analysis.build import MB, Flow, every, pipeline, ring, traffic

PARAMS = MergedParams()
STEPS = every(4000, 15)
Hops = Sequence[tuple[int, int]]


def long(links: Iterable[tuple[int, int]], size: int = 600 * MB) -> list[Flow]:
    """One record of a minute each way of every link."""
    return [Flow(src, dst, 0, 60_000, size) for low, high in links for src, dst in ((low, high), (high, low))]


def rings(*groups: Sequence[int]) -> list[Flow]:
    return [flow for group in groups for flow in ring(group, STEPS)]


def mask(seen: Traffic, pairs: Iterable[tuple[int, int]]) -> np.ndarray:
    wanted = set(pairs)
    hops = zip(seen.pair_src.tolist(), seen.pair_dst.tolist(), strict=True)
    return np.array([hop in wanted for hop in hops])


def named(flows: Sequence[Flow], merged: Iterable[tuple[int, int]]) -> tuple[dict[tuple[int, int], int], PairKinds]:
    """The kinds of the merged pairs, and of all."""
    seen = traffic(flows)
    hidden = either_way(seen, mask(seen, merged))
    found = identify(seen, ~hidden, IdentifyParams())
    kinds = name_merged(found, seen, hidden, PARAMS)
    assert (kinds.burst[hidden[seen.pair]] == OTHER).all()
    assert (kinds.kind[~hidden] == found.kind[~hidden]).all()
    rows = np.flatnonzero(hidden).tolist()
    return {(int(seen.pair_src[row]), int(seen.pair_dst[row])): int(kinds.kind[row]) for row in rows}, kinds


def chain(replicas: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    return [link for stages in replicas for link in pairwise(stages)]


def test_a_chain_that_joins_data_parallel_groups_is_a_pipeline() -> None:
    links = chain([(0, 1, 2), (3, 4, 5), (6, 7, 8)])
    kinds, found = named([*rings((0, 3, 6), (1, 4, 7), (2, 5, 8)), *long(links)], links)
    assert set(kinds.values()) == {PP}
    assert found.confidence.min() > 0.5


def test_one_link_between_two_groups_is_one_with_less_confidence() -> None:
    links = [(0, 3), (1, 4), (2, 5)]
    kinds, found = named([*rings((0, 1, 2), (3, 4, 5)), *long(links)], links)
    assert set(kinds.values()) == {PP}
    assert np.isclose(found.confidence.min(), PARAMS.lone_link_confidence)


def test_links_of_two_volumes_at_an_endpoint_may_be_either() -> None:
    links, other = [(0, 3), (1, 4), (2, 5)], [(0, 6), (1, 7), (2, 8)]
    flows = [*rings((0, 1, 2), (3, 4, 5), (6, 7, 8)), *long(links), *long(other, 6000 * MB)]
    kinds, found = named(flows, [*links, *other])
    assert set(kinds.values()) == {OTHER}
    assert np.isclose(found.confidence.min(), PARAMS.unknown_confidence)


def test_a_closed_ring_that_joins_groups_is_no_pipeline() -> None:
    links = [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)]
    assert set(named([*rings((0, 3), (1, 4), (2, 5)), *long(links)], links)[0].values()) == {OTHER}


def test_a_link_known_to_be_of_a_pipeline_makes_the_chain_longer() -> None:
    links = [(1, 2), (4, 5)]
    flows = [*rings((0, 3), (1, 4), (2, 5)), *long(links)]
    flows += [flow for stages in ((0, 1), (3, 4)) for flow in pipeline(stages, [moment - 900 for moment in STEPS])]
    kinds, found = named(flows, links)
    assert set(kinds.values()) == {PP}
    assert (found.confidence >= PARAMS.nearly_all).all()


def test_a_pair_within_a_group_is_of_the_group() -> None:
    flows = [flow for flow in rings((0, 1, 2, 3)) if (flow.src, flow.dst) != (3, 0)]
    kinds, _ = named([*flows, Flow(3, 0, 0, 60_000, 600 * MB)], [(3, 0)])
    assert kinds == {(3, 0): DP}


def test_what_goes_one_way_between_groups_is_not_named() -> None:
    flows = [*rings((0, 1, 2), (3, 4, 5)), *(Flow(a, a + 3, 0, 60_000, 600 * MB) for a in range(3))]
    assert set(named(flows, [(0, 3), (1, 4), (2, 5)])[0].values()) == {OTHER}


def test_nothing_is_named_where_nothing_else_shows_a_group() -> None:
    links = chain([(0, 1, 2), (3, 4, 5)])
    kinds, found = named(long(links), links)
    assert set(kinds.values()) == {OTHER}
    assert (found.confidence == PARAMS.unknown_confidence).all()


def test_of_a_link_merged_one_way_the_other_way_is_not_judged() -> None:
    """The answers alone seem to go one way, as a ring's data does."""
    links = chain([(0, 1, 2), (3, 4, 5), (6, 7, 8)])
    there = [flow for flow in long(links) if flow.src < flow.dst]
    back = [Flow(high, low, moment - 500, 10, 40 * MB) for low, high in links for moment in STEPS]
    kinds, _ = named([*rings((0, 3, 6), (1, 4, 7), (2, 5, 8)), *there, *back], links)
    assert set(kinds.values()) == {PP}
    assert len(kinds) == 2 * len(links)


def test_kinds_stay_as_they_are_where_nothing_is_merged() -> None:
    seen = traffic(rings((0, 1, 2)))
    found = identify(seen, np.ones(3, dtype=bool), IdentifyParams())
    assert name_merged(found, seen, np.zeros(3, dtype=bool), PARAMS) is found


class TestHidden:
    """Bursts that are mostly silence hide who answers whom."""

    def hidden(self, flows: Sequence[Flow]) -> set[tuple[int, int]]:
        seen = traffic(flows)
        found = hidden_answers(seen, np.ones(len(seen.pair_src), dtype=bool), IdentifyParams())
        return set(zip(seen.pair_src[found].tolist(), seen.pair_dst[found].tolist(), strict=True))

    def merged_pipeline(self, links: Iterable[tuple[int, int]], apart_ms: float = 0) -> list[Flow]:
        """One record a step and direction, of most of the step."""
        return [
            Flow(src, dst, moment - 3500 + apart_ms * (src > dst), 2500, 40 * MB)
            for low, high in links
            for src, dst in ((low, high), (high, low))
            for moment in STEPS
        ]

    def test_a_pipeline_of_one_record_a_step_is_hidden(self) -> None:
        links = [(0, 3), (1, 4), (2, 5)]
        both = {hop for low, high in links for hop in ((low, high), (high, low))}
        assert self.hidden([*rings((0, 1, 2), (3, 4, 5)), *self.merged_pipeline(links)]) == both

    def test_one_whose_directions_take_turns_is_not(self) -> None:
        flows = [Flow(a, b, moment + 1500 * (a > b), 1400, 40 * MB) for a, b in ((0, 3), (3, 0)) for moment in STEPS]
        assert self.hidden([*rings((0, 1, 2), (3, 4, 5)), *flows]) == set()

    def test_small_messages_are_not(self) -> None:
        small = [Flow(a, b, moment - 700, 0.1, 1000) for a, b in ((0, 3), (3, 0)) for moment in STEPS]
        assert self.hidden([*rings((0, 1, 2), (3, 4, 5)), *small]) == set()

    def test_the_slow_collective_of_a_job_that_has_no_other_is_not(self) -> None:
        slow = [Flow(a, b, moment - 3500, 2500, 40 * MB) for a, b in ((0, 1), (1, 0)) for moment in STEPS]
        assert self.hidden(slow) == set()

    def test_nothing_is_where_nothing_recurs(self) -> None:
        seen = traffic(rings((0, 1, 2)))
        assert not hidden_answers(seen, np.zeros(3, dtype=bool), IdentifyParams()).any()
