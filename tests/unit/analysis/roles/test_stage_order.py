"""Order: activations go forward first, and who shares gradients shares a stage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.roles.stage_order import number_after
from prism_ch.model.job import Division, GroupSet
from prism_ch.model.result import DP, PP, Group
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import (
    MB,
    Flow,
    division,
    every,
    job,
    links,
    ordered,
    pipeline,
    renamed,
    ring,
    shaken,
    topology,
    traffic,
    typed,
)

ENDS = every(2500, 8, 2500)


def found_in(
    flows: Sequence[Flow],
    pp: Sequence[tuple[int, int]],
    members: Sequence[int],
    steps: int = 8,
    where: Topology | None = None,
) -> GroupSet:
    seen = traffic(flows)
    return ordered(seen, typed(seen, pp), division(sorted(members), ENDS[:steps]), where)


def groups(found: GroupSet, kind: int) -> list[tuple[int, ...]]:
    return [group.members for group in found.groups if group.kind == kind]


class TestStages:
    @pytest.mark.parametrize("microbatches", [1, 2, 4, 16])
    @pytest.mark.parametrize("stages", [[0, 1], [1, 0], [3, 1, 0, 2]], ids=str)
    def test_a_pipeline_is_numbered_the_way_activations_go(self, stages: list[int], microbatches: int) -> None:
        flows = shaken(pipeline(stages, every(2500, 8), microbatches=microbatches), 1)
        found = found_in(flows, list(pairwise(stages)), stages)
        assert found.pp_stage[stages].tolist() == list(range(len(stages)))
        assert groups(found, PP) == [tuple(stages)]

    @pytest.mark.parametrize("microbatches", [1, 4, 16])
    def test_interleaved_pipeline_begins_at_the_opening_sender(self, microbatches: int) -> None:
        stages = [2, 0, 1]
        flows = pipeline(stages * 2, every(2500, 8), microbatches=microbatches)
        found = found_in(flows, [(0, 1), (1, 2), (0, 2)], stages)
        assert found.pp_stage[stages].tolist() == [0, 1, 2]

    @pytest.mark.parametrize("stages", [[0, 1, 2, 3], [2, 0, 3, 1]], ids=str)
    def test_the_links_of_a_chain_vote_together(self, stages: list[int]) -> None:
        begin = every(2500, 8)
        late = [Flow(stages[3], stages[2], start + 1, 2, 8 * MB) for start in begin]  # of the step before, as it seems
        found = found_in([*pipeline(stages, begin), *late], list(pairwise(stages)), stages)
        assert found.pp_stage[stages].tolist() == [0, 1, 2, 3]

    def test_what_forks_votes_link_by_link(self) -> None:
        begin = every(2500, 8)
        flows = [*pipeline([0, 1, 2], begin), *pipeline([0, 1, 3], [start + 600 for start in begin])]
        assert found_in(flows, [(0, 1), (1, 2), (1, 3)], range(4)).pp_stage.tolist() == [0, 1, 2, 2]

    def test_replicas_vote_together(self) -> None:
        grid = [[0, 1, 2], [3, 4, 5]]
        flows = job(grid, 8, 2500)
        # The clock of one replica is off: all its gradients seem to come before its activations.
        odd = [Flow(f.src, f.dst, f.start_ms - 400 * (f.src == 5), f.length_ms, f.size) for f in flows]
        found = found_in(odd, links(grid), range(6))
        assert found.pp_stage.tolist() == [0, 0, 0, 1, 1, 1]
        assert found.largest_role == 3
        assert groups(found, PP) == [(0, 3), (1, 4), (2, 5)]

    @pytest.mark.parametrize("microbatches", [1, 4])
    def test_a_message_without_length_may_close_a_step(self, microbatches: int) -> None:
        instant = [replace(flow, length_ms=0) for flow in pipeline([0, 1], every(2500, 8), microbatches=microbatches)]
        seen = traffic(instant)
        closing = [max(flow.start_ms for flow in instant if flow.start_ms < end) for end in ENDS]
        found = ordered(seen, typed(seen, [(0, 1)]), division([0, 1], closing))
        assert found.pp_stage.tolist() == [0, 1]

    @pytest.mark.parametrize("replicas", [1, 3])
    def test_gradients_exchanged_by_first_and_last_stage_say_nothing(self, replicas: int) -> None:
        # Tied embeddings: both stages send, the last a little earlier, when they have ended the step.
        grid = [list(range(replicas)), list(range(replicas, 2 * replicas))]
        flows = [flow for pair in links(grid) for flow in pipeline(pair, [end + 20 for end in ENDS])]
        for low, high in links(grid):
            flows += [Flow(high, low, end + 1, 8) for end in ENDS]
            flows += [Flow(low, high, end + 4, 8) for end in ENDS]
        assert found_in(flows, links(grid), range(2 * replicas)).pp_stage.tolist() == [0] * replicas + [1] * replicas

    def test_what_precedes_the_first_boundary_has_no_vote(self) -> None:
        # One whole step after a piece of one that begins with a gradient.
        flows = [Flow(1, 0, 2400), *pipeline([0, 1], [2500], microbatches=1)]
        found = found_in(flows, [(0, 1)], [0, 1], steps=1)
        assert found.pp_stage.tolist() == [0, 1]

    def test_parts_of_a_stage_are_no_chain(self) -> None:
        # Of the second stage's ring the network shows nothing: it runs inside a server.
        flows = [*ring([2, 3], ENDS), *pipeline([2, 0], every(2500, 8)), *pipeline([3, 1], every(2500, 8))]
        found = found_in(flows, [(0, 2), (1, 3)], range(4))
        assert found.pp_stage.tolist() == [1, 1, 0, 0]
        assert groups(found, PP) == [(2, 0), (3, 1)]

    def test_a_stage_without_predecessor_precedes_its_successor(self) -> None:
        # One replica's first two stages share a server.
        flows = [*ring([3, 4], ENDS), *pipeline([0, 1, 3], every(2500, 8)), *pipeline([2, 4], every(2500, 8))]
        assert found_in(flows, [(0, 1), (1, 3), (2, 4)], range(5)).pp_stage.tolist() == [0, 1, 1, 2, 2]

    @pytest.mark.parametrize(
        "chunks, width, visible", [(1, 1, [3, 4, 7, 8]), (2, 1, [0, 3, 4, 7, 8, 11]), (2, 2, [0, 1, 2, 3, 4, 5])]
    )
    def test_stages_that_share_a_server_are_numbered_through(self, chunks: int, width: int, visible: list[int]) -> None:
        # Three servers of four GPUs; the network shows what crosses from server to server.
        ranks = [range(stage * width, (stage + 1) * width) for stage in range(12 // width)] * chunks
        flows = [flow for rank in zip(*ranks, strict=True) for flow in pipeline(list(rank), every(2500, 8))]
        crossing = [flow for flow in flows if flow.src // 4 != flow.dst // 4]
        pp = sorted({(min(flow.src, flow.dst), max(flow.src, flow.dst)) for flow in crossing})
        members = sorted({end for pair in pp for end in pair})
        found = found_in(crossing, pp, members, where=topology(3, 4))
        assert found.pp_stage.tolist() == [member // width for member in members]
        assert [member // width for member in members] == sorted(visible * width)

    def test_several_pipelines_have_stages_of_their_own(self) -> None:
        flows = pipeline([0, 1, 2], every(2500, 8)) + pipeline([5, 4, 3], every(2500, 8))
        found = found_in(flows, [(0, 1), (1, 2), (3, 4), (4, 5)], range(6))
        assert found.pp_stage.tolist() == [0, 1, 2, 2, 1, 0]
        assert groups(found, PP) == [(0, 1, 2), (5, 4, 3)]


class TestGroups:
    GRID = ((0, 1), (2, 3))

    def test_groups_are_numbered_by_kind_stage_and_members(self) -> None:
        found = found_in(job(self.GRID, 8, 2500), links(self.GRID), range(4))
        described = [(group.group_id, group.kind, group.pp_stage, group.members) for group in found.groups]
        assert described == [(0, DP, 0, (0, 1)), (1, DP, 1, (2, 3)), (2, PP, 0, (0, 2)), (3, PP, 0, (1, 3))]
        assert found.dp_group.tolist() == [0, 0, 1, 1]

    def test_without_pipelines_all_are_of_the_first_stage(self) -> None:
        found = found_in(ring([0, 2, 1], ENDS), [], range(3))
        assert found.pp_stage.tolist() == [0, 0, 0]
        assert groups(found, DP) == [(0, 1, 2)]
        assert groups(found, PP) == []

    def test_without_collectives_everyone_has_a_group_of_its_own(self) -> None:
        found = found_in(pipeline([0, 1], every(2500, 8)), [(0, 1)], [0, 1])
        assert groups(found, DP) == []
        assert len({*found.dp_group.tolist(), *(group.group_id for group in found.groups)}) == 3

    def test_a_member_without_any_traffic_stands_alone(self) -> None:
        found = found_in(ring([0, 1], ENDS), [], [0, 1, 7])
        assert found.endpoints.tolist() == [0, 1, 7]
        assert found.dp_group[2] not in {group.group_id for group in found.groups}

    def test_nothing(self) -> None:
        nobody = traffic([])
        found = ordered(nobody, typed(nobody), Division.none(np.empty(0, np.int32)))
        assert len(found.endpoints) == len(found.groups) == 0

    def test_no_steps(self) -> None:
        seen = traffic(pipeline([0, 1], [0], microbatches=2))
        found = ordered(seen, typed(seen, [(0, 1)]), Division.none(np.array([0, 1], np.int32)))
        assert groups(found, PP) == [(0, 1)]


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)))
def test_stages_and_groups_do_not_depend_on_names(name: list[int]) -> None:
    grid = [[0, 1], [2, 3], [4, 5]]
    flows = shaken(job(grid, 8, 2500), 1)
    found = found_in(renamed(flows, name), [(name[a], name[b]) for a, b in links(grid)], range(6))
    assert found.pp_stage[name].tolist() == [0, 0, 1, 1, 2, 2]
    assert set(groups(found, DP)) == {tuple(sorted(name[e] for e in stage)) for stage in grid}
    assert set(groups(found, PP)) == {tuple(name[e] for e in chain) for chain in zip(*grid, strict=True)}


def test_groups_of_a_later_attempt_are_numbered_on() -> None:
    earlier = (Group(0, DP, 0, (0, 1)), Group(1, DP, 0, (2, 3)), Group(2, PP, 0, (0, 2)))
    found = (Group(0, DP, 0, (2, 3)), Group(1, DP, 1, (4, 5)), Group(2, PP, 0, (2, 4)))
    members = np.array([2, 3, 4, 5, 6], np.int32)
    now = GroupSet(members, np.array([0, 0, 1, 1, 3], np.int32), np.zeros(5, np.int32), found)
    numbered = number_after(now, earlier)
    assert [group.group_id for group in numbered.groups] == [1, 3, 4]
    assert numbered.dp_group.tolist() == [1, 1, 3, 3, 5]
    assert [group.group_id for group in number_after(now, ()).groups] == [0, 1, 2]
