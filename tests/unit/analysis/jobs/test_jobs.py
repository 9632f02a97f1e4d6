"""Recognise: who trains together, and under which name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.jobs.job_traffic import recurring_pairs
from prism_ch.analysis.jobs.jobs import recognise
from prism_ch.model.job import RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import (
    MB,
    Flow,
    every,
    job,
    job_traffic,
    known_job,
    pipeline,
    renamed,
    ring,
    shaken,
    shifted,
    topology,
    traffic,
)

PARAMS = RecogniseParams()
STEPS = every(1000, 12, 900)


def found(flows: Sequence[Flow], where: Topology, known: Sequence[JobMemory] = ()) -> list[RecognisedJob]:
    seen = traffic(flows)
    return recognise(job_traffic(seen, coarse=~recurring_pairs(seen, where, PARAMS)), known, where, PARAMS)


def members(jobs: Sequence[RecognisedJob]) -> list[list[int]]:
    return [one.endpoints.tolist() for one in jobs]


class TestEdges:
    """Which directed pairs carry the steady traffic of a job."""

    def pairs(self, flows: Sequence[Flow], where: Topology) -> set[tuple[int, int]]:
        seen = traffic(flows)
        steady = recurring_pairs(seen, where, PARAMS)
        return set(zip(seen.pair_src[steady].tolist(), seen.pair_dst[steady].tolist(), strict=True))

    def test_what_recurs_all_along_is_an_edge_in_its_own_direction(self) -> None:
        assert self.pairs(ring([0, 1, 2], STEPS), topology(3)) == {(0, 1), (1, 2), (2, 0)}

    def test_a_mesh_at_the_start_is_none(self) -> None:
        mesh = [Flow(a, b, 10 * n) for n in range(4) for a in range(4) for b in range(4) if a != b]
        assert self.pairs(mesh + ring([0, 1, 2, 3], STEPS), topology(4)) == {(0, 1), (1, 2), (2, 3), (3, 0)}

    def test_broadcast_is_no_edge_when_a_barrier_ends_it(self) -> None:
        broadcast = [Flow(1, 0, 5 * n, 4, 80 * MB) for n in range(5)] + [Flow(1, 0, 11_900, 4, 4 * MB)]
        assert self.pairs(broadcast + ring([0, 1, 2], STEPS), topology(3)) == {(0, 1), (1, 2), (2, 0)}

    def test_bookkeeping_all_along_is_none(self) -> None:
        bookkeeping = [Flow(0, 2, end - 500, 1, 1000) for end in STEPS]
        assert self.pairs(bookkeeping + ring([0, 1, 2], STEPS), topology(3)) == {(0, 1), (1, 2), (2, 0)}

    def test_traffic_inside_a_server_or_across_tenants_is_none(self) -> None:
        assert self.pairs(ring([0, 1], STEPS), topology(1, gpus=2)) == set()
        assert self.pairs(ring([0, 1], STEPS), topology(2, tenants=("acme", "initech"))) == set()

    def test_little_for_one_end_may_be_the_main_of_the_other(self) -> None:
        thin = [Flow(2, 3, end - 500, 1, 1000) for end in STEPS]
        assert (2, 3) in self.pairs(thin + ring([0, 1, 2], STEPS), topology(4))

    def test_two_bursts_are_none_and_three_are(self) -> None:
        assert self.pairs(ring([0, 1], STEPS[:2]), topology(2)) == set()
        assert self.pairs(ring([0, 1], STEPS[:3]), topology(2)) == {(0, 1), (1, 0)}


#: Ends of a rail of two servers of two GPUs, both ways.
BOTH = ((0, 2), (2, 0))


class TestComponents:
    def test_a_ring_is_one_job_and_strangers_are_none(self) -> None:
        (one,) = found([*ring([0, 1, 3], STEPS), Flow(2, 4, 500)], topology(5))
        assert one.endpoints.tolist() == [0, 1, 3]
        assert (one.tenant, one.known) == ("acme", False)

    def test_jobs_on_different_servers_come_with_the_largest_first(self) -> None:
        flows = ring([0, 1], STEPS) + ring([2, 3, 4], every(700, 17, 300))
        assert members(found(flows, topology(5))) == [[2, 3, 4], [0, 1]]

    def test_pipelines_and_rings_join(self) -> None:
        assert members(found(job([[0, 1], [2, 3]], 12), topology(4))) == [[0, 1, 2, 3]]

    def test_rails_that_never_meet_are_one_job_when_in_step(self) -> None:
        rails = ring([0, 2, 4], STEPS) + ring([1, 3, 5], STEPS)
        assert members(found(shaken(rails, 1), topology(3, gpus=2))) == [list(range(6))]

    def test_stages_that_reduce_at_different_moments_are_one_job(self) -> None:
        early, late = ring([0, 2], STEPS), ring([1, 3], [end + 400 for end in STEPS])
        assert members(found(shaken(early + late, 1), topology(2, gpus=2))) == [[0, 1, 2, 3]]

    @pytest.mark.parametrize("other_ms", [730, 870, 1130, 1700])
    def test_jobs_on_the_same_servers_stay_apart_when_not_in_step(self, other_ms: int) -> None:
        one, other = ring([0, 2, 4], every(1000, 60)), ring([1, 3, 5], every(other_ms, 60_000 // other_ms))
        jobs = found(shaken(one + other, 1), topology(3, gpus=2))
        assert sorted(members(jobs)) == [[0, 2, 4], [1, 3, 5]]

    @pytest.mark.parametrize("seed", range(5))
    def test_few_steps_are_enough_to_see_that_rails_move_together(self, seed: int) -> None:
        rails = [flow for rail in range(4) for flow in ring([rail, 4 + rail], every(3000, 4), length_ms=200)]
        assert len(found(shaken(rails, seed, ms=20), topology(2, gpus=4))) == 1

    def test_rails_are_one_job_though_half_of_them_are_slow(self) -> None:
        """Their ranks pass on activations together, but some take six times as long for their gradients."""
        ends, rails = every(3000, 8, 3000), []
        for rail in range(4):
            slow_ms = 2000 * (rail > 1)
            rails += ring([rail, 4 + rail], [end + slow_ms for end in ends], length_ms=400 + slow_ms)
            rails += [Flow(rail, 4 + rail, end - 2000 + 200 * n, 20, MB) for end in ends for n in range(4)]
        assert members(found(shaken(rails, 1), topology(2, gpus=4))) == [list(range(8))]

    def test_a_slow_rail_whose_bursts_are_joined_is_of_its_job(self) -> None:
        """It takes four times as long, and its bursts run into one another."""
        ends = every(3000, 8, 3000)
        quick = [Flow(a, b, end - 2700 + 300 * n, 220, 9 * MB) for end in ends for n in range(4) for a, b in BOTH]
        slow = [Flow(a + 1, b + 1, end - 2700, 2500, 36 * MB) for end in ends for a, b in BOTH]
        assert members(found(shaken([*quick, *slow], 1), topology(2, gpus=2))) == [list(range(4))]

    def test_a_rail_that_is_slow_all_the_time_begins_with_the_others(self) -> None:
        """They send what each microbatch leaves, and wait for it from the last one on."""
        ends = every(10_000, 6, 10_000)
        quick = [Flow(a, b, end - 9500 + 1500 * n, 20, 9 * MB) for end in ends for n in range(4) for a, b in BOTH]
        slow = [Flow(a + 1, b + 1, end - 9500, 9000, 36 * MB) for end in ends for a, b in BOTH]
        assert members(found(shaken([*quick, *slow], 1), topology(2, gpus=2))) == [list(range(4))]

    def test_jobs_that_stop_once_together_are_no_less_apart(self) -> None:
        one, other = (
            ring(ends, [*every(step_ms, 30, step_ms), *every(step_ms, 30, 90_000)], length_ms=20)
            for ends, step_ms in (([0, 2], 1000), ([1, 3], 870))
        )
        assert sorted(members(found(shaken(one + other, 1), topology(2, gpus=2)))) == [[0, 2], [1, 3]]

    def test_a_rail_whose_rank_all_others_wait_for_is_of_their_job(self) -> None:
        """The others begin to send when they are ready, and go on until it has joined in, layer by layer."""
        layers = [(end - 900 * n, wait_ms) for end in every(3000, 8, 3000) for n, wait_ms in enumerate((60, 700, 350))]
        slow = [Flow(a, b, end, 20) for end, _ in layers for a, b in BOTH]
        others = [Flow(a + 1, b + 1, end - ms, 20 + ms) for end, ms in layers for a, b in BOTH]
        assert members(found(shaken(slow + others, 1), topology(2, gpus=2))) == [list(range(4))]

    def test_rails_are_compared_over_their_common_time(self) -> None:
        one, other = ring([0, 2, 4], every(1000, 60)), ring([1, 3, 5], every(730, 82))
        long = ring([6, 9], every(100_000, 13, -1_200_000))
        jobs = found(shaken(one + other + long, 1), topology(5, gpus=2))
        assert sorted(members(jobs)) == [[0, 2, 4], [1, 3, 5], [6, 9]]

    def test_a_rail_that_joined_late_is_a_rail(self) -> None:
        early, late = every(1000, 100), every(1000, 20, 80_000)
        assert len(found(shaken(ring([0, 2], early) + ring([1, 3], late), 1), topology(2, gpus=2))) == 1

    @pytest.mark.parametrize("steps", [(64, 64), (64, 3), (3, 64)])
    def test_settled_jobs_stay_apart_when_alike_for_a_while(self, steps: tuple[int, int]) -> None:
        flows, where = ring([0, 2], STEPS) + ring([1, 3], STEPS), topology(2, gpus=2)
        known = [known_job("one", [0, 2], steps=steps[0]), known_job("other", [1, 3], steps=steps[1])]
        jobs = found(flows, where, known)
        assert {one.job_id: one.endpoints.tolist() for one in jobs} == {"one": [0, 2], "other": [1, 3]}

    def test_what_was_known_apart_for_a_short_time_may_join(self) -> None:
        flows, where = ring([0, 2], STEPS) + ring([1, 3], STEPS), topology(2, gpus=2)
        known = [known_job("one", [0, 2], steps=3), known_job("other", [1, 3], steps=3)]
        assert members(found(flows, where, known)) == [[0, 1, 2, 3]]

    def test_settled_job_stays_one_when_a_part_falls_behind(self) -> None:
        behind = [moment + 300 * (n >= 6) for n, moment in enumerate(STEPS)]
        flows, where = ring([0, 2], STEPS) + ring([1, 3], behind), topology(2, gpus=2)
        assert len(found(flows, where)) == 2
        assert len(found(flows, where, [known_job("one", range(4), steps=63, examined=0)])) == 2
        assert members(found(flows, where, [known_job("one", range(4), steps=64)])) == [[0, 1, 2, 3]]

    def test_parts_with_different_step_times_are_own_jobs(self) -> None:
        flows, where = ring([0, 2], STEPS) + ring([1, 3], every(730, 16, 900)), topology(2, gpus=2)
        assert len(found(flows, where, [known_job("one", range(4), steps=64)])) == 2

    def test_a_new_rail_joins_a_job_known_for_long(self) -> None:
        flows, where = ring([0, 2], STEPS) + ring([1, 3], STEPS), topology(2, gpus=2)
        (one,) = found(flows, where, [known_job("one", [0, 2], steps=64)])
        assert one.endpoints.tolist() == [0, 1, 2, 3]

    def test_tenants_share_a_server_but_never_a_job(self) -> None:
        where = topology(2, gpus=2)
        split = replace(where, tenant=np.array([0, 1, 0, 1], np.int32), tenant_names=("acme", "initech"))
        jobs = found(ring([0, 2], STEPS) + ring([1, 3], STEPS), split)
        assert sorted((one.tenant, one.endpoints.tolist()) for one in jobs) == [("acme", [0, 2]), ("initech", [1, 3])]

    def test_parts_on_other_servers_are_one_job_when_simultaneous(self) -> None:
        assert members(found(ring([0, 1], STEPS) + ring([2, 3], STEPS), topology(4))) == [[0, 1, 2, 3]]

    def test_jobs_on_other_servers_with_equal_steps_stay_apart(self) -> None:
        apart = [moment + 400 for moment in STEPS]
        assert len(found(ring([0, 1], STEPS) + ring([2, 3], apart), topology(4))) == 2

    @pytest.mark.parametrize(
        "flows",
        [
            [],
            [Flow(0, 1, 0)],
            [Flow(a, b, 0) for a in range(4) for b in range(4) if a != b],
            [Flow(0, 1, 0, length_ms=1e7, size=10**13)],
        ],
        ids=["nothing", "one flow", "all at one instant", "one giant flow"],
    )
    def test_nothing_that_recurs_is_no_job(self, flows: list[Flow]) -> None:
        assert found(flows, topology(4)) == []

    @settings(max_examples=25, deadline=None)
    @given(st.permutations(range(8)))
    def test_who_is_with_whom_does_not_depend_on_names(self, name: list[int]) -> None:
        flows = job([[0, 1], [2, 3]], 12) + ring([4, 5, 6], every(700, 17))
        expected = [sorted(name[e] for e in one) for one in members(found(flows, topology(8)))]
        assert members(found(renamed(flows, name), topology(8))) == expected


class TestIdentity:
    FLOWS = ring([0, 1, 2, 3], STEPS)
    WHERE = topology(6)

    def test_same_flows_give_the_same_name_and_later_ones_another(self) -> None:
        (one,), (again,), (later,) = (
            found(flows, self.WHERE) for flows in (self.FLOWS, self.FLOWS, shifted(self.FLOWS, 5))
        )
        assert one.job_id == again.job_id
        assert one.job_id != later.job_id

    def test_a_job_known_before_keeps_its_name(self) -> None:
        (one,) = found(self.FLOWS, self.WHERE, [known_job("old", [0, 1, 2, 3])])
        assert (one.job_id, one.known) == ("old", True)

    def test_half_of_the_endpoints_may_be_replaced_but_no_more(self) -> None:
        (one,) = found(self.FLOWS, self.WHERE, [known_job("old", [2, 3, 4, 5])])
        assert one.job_id == "old"
        (other,) = found(self.FLOWS, self.WHERE, [known_job("old", [3, 4, 5])])
        assert not other.known

    def test_a_job_that_grows_or_shrinks_keeps_its_name(self) -> None:
        assert found(self.FLOWS, self.WHERE, [known_job("old", [0, 1])])[0].job_id == "old"
        assert found(self.FLOWS, self.WHERE, [known_job("old", range(6))])[0].job_id == "old"

    def test_merged_job_is_named_by_the_one_that_shares_more(self) -> None:
        (one,) = found(self.FLOWS, self.WHERE, [known_job("small", [3]), known_job("large", [0, 1, 2])])
        assert one.job_id == "large"

    def test_of_two_parts_of_a_known_job_one_keeps_the_name(self) -> None:
        flows = ring([0, 1, 2], STEPS) + ring([3, 4], every(700, 17))
        large, small = found(flows, self.WHERE, [known_job("old", range(5))])
        assert (large.job_id, large.known) == ("old", True)
        assert not small.known

    def test_part_that_named_a_job_is_renamed_when_the_job_goes_on(self) -> None:
        part = ring([3, 4], every(700, 17))
        (named,) = found(part, self.WHERE)
        large, small = found(ring([0, 1, 2], STEPS) + part, self.WHERE, [known_job(named.job_id, range(5))])
        assert (large.job_id, large.known) == (named.job_id, True)
        assert small.job_id != named.job_id

    def test_same_endpoints_of_another_tenant_are_another_job(self) -> None:
        (one,) = found(self.FLOWS, self.WHERE, [known_job("theirs", [0, 1, 2, 3], tenant="initech")])
        assert not one.known

    def test_known_job_outside_the_topology_claims_nothing(self) -> None:
        (one,) = found(self.FLOWS, self.WHERE, [known_job("gone", [])])
        assert not one.known


class TestMerged:
    """Parts whose records run on over many steps: no activity in time, only volumes."""

    def jobs(self, flows: Sequence[Flow], where: Topology) -> list[list[int]]:
        """The jobs, where records of a minute and more are merged ones."""
        seen = traffic(flows)
        merged = np.zeros(len(seen.pair_src), dtype=bool)
        merged[seen.pair[seen.end_ns - seen.start_ns >= 60 * 10**9]] = True
        coarse = merged | ~recurring_pairs(seen, where, PARAMS)
        return members(recognise(job_traffic(seen, coarse=coarse, merged=merged), (), where, PARAMS))

    def rail(self, gpu: int, servers: Sequence[int], size: int = 900 * MB, gpus: int = 2) -> list[Flow]:
        hops = zip(servers, [*servers[1:], servers[0]], strict=True)
        return [Flow(a * gpus + gpu, b * gpus + gpu, 11.0 * a, 60_000, size) for a, b in hops]

    def test_rails_of_one_volume_on_the_same_servers_are_one_job(self) -> None:
        flows = self.rail(0, range(4)) + self.rail(1, range(4), 930 * MB)
        assert self.jobs(flows, topology(4, gpus=2)) == [list(range(8))]

    def test_rails_of_different_volume_are_not(self) -> None:
        flows = self.rail(0, range(4)) + self.rail(1, range(4), 1500 * MB)
        assert len(self.jobs(flows, topology(4, gpus=2))) == 2

    def test_rails_on_other_servers_are_not(self) -> None:
        flows = self.rail(0, range(4)) + self.rail(1, range(4, 8))
        assert len(self.jobs(flows, topology(8, gpus=2))) == 2

    def test_a_rail_that_shows_its_steps_joins_one_that_does_not(self) -> None:
        steps = every(1000, 60, 1000)
        hops = [(4 * a + rail, 4 * ((a + 1) % 4) + rail) for a in range(4) for rail in range(2)]
        fine = [Flow(a, b, end - 40, 40, 15 * MB) for end in steps for a, b in hops]
        coarse = self.rail(2, range(4), gpus=4) + self.rail(3, range(4), gpus=4)
        assert self.jobs(fine + coarse, topology(4, gpus=4)) == [list(range(16))]


def test_a_pipeline_alone_is_a_job() -> None:
    assert members(found(pipeline([2, 0, 1], every(1000, 5)), topology(3))) == [[0, 1, 2]]
