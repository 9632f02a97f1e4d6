"""Divide: a step is what moves the same bytes every time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.steps.sequences import read_sequences
from prism_ch.analysis.steps.steps import divide
from prism_ch.model.job import Division
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    MS,
    Flow,
    buckets,
    division,
    every,
    job,
    links,
    pipeline,
    renamed,
    ring,
    shaken,
    shifted,
    traffic,
    typed,
)

PARAMS = DivideParams()


def divided(
    flows: Sequence[Flow],
    pp: Sequence[tuple[int, int]] = (),
    endpoints: Sequence[int] | None = None,
    known: Division | None = None,
) -> Division:
    seen = traffic(flows)
    members = sorted({e for flow in flows for e in (flow.src, flow.dst)}) if endpoints is None else endpoints
    return divide(seen, typed(seen, pp), np.array(members, np.int32), PARAMS, known)


def ends_ms(division: Division) -> list[float]:
    """When each step of the job ends."""
    return [(end - BEGIN_NS) / MS for end in division.job_end_ns().tolist()]


def aperiodic(steps: int, seed: int) -> list[float]:
    """Ends of steps of 0.6 to 1.8 s."""
    return list(accumulate(np.random.default_rng(seed).uniform(600, 1800, steps).tolist()))


class TestClosingBursts:
    def test_one_fused_burst_ends_each_step(self) -> None:
        ends = every(1000, 12, 1000)
        found = divided(ring([0, 1, 2], ends))
        assert ends_ms(found) == ends
        assert found.whole.all()
        assert (found.end_ns == found.end_ns[0]).all()

    @pytest.mark.parametrize("sizes", [(25, 25, 25), (25, 25, 12), (5, 10, 20, 40), (8,) * 12])
    def test_several_buckets_end_one_step(self, sizes: tuple[int, ...]) -> None:
        ends = aperiodic(20, seed=1)
        flows = buckets([0, 1, 2], ends, [size * MB for size in sizes], apart_ms=30)
        assert ends_ms(divided(flows)) == pytest.approx(ends, abs=1e-3)

    def test_steps_stay_whole_when_silences_inside_are_longest(self) -> None:
        # A reduce-scatter of 80 MB, 200 ms, an all-gather of 40 MB, 700 ms of computing, and again.
        ends = every(1000, 20, 1000)
        flows = ring([0, 1, 2], ends, size=80 * MB) + ring([0, 1, 2], [end + 240 for end in ends], size=40 * MB)
        found = ends_ms(divided(shaken(flows, 1, ms=0.2)))
        # Either burst may be taken to close the step, but always the same one.
        offsets = np.round(np.array(found) % 1000, -1)
        assert set(offsets) in ({0.0}, {240.0}, {0.0, 1000.0})
        assert 19 <= len(found) <= 20

    def test_silence_ends_equal_steps_not_a_change_of_gaps(self) -> None:
        """Three buckets of different sizes and a gather; the gap after the first is but a little longer than usual."""
        ends = every(1064, 40, 1064)
        places = ((126, 18), (67, 110), (9, 68), (0, 98))
        flows = [
            flow
            for before, size in places
            for flow in ring([0, 1, 2], [end - before for end in ends], length_ms=1, size=size * MB)
        ]
        assert ends_ms(divided(shaken(flows, 1, ms=0.2))) == pytest.approx(ends, abs=2)

    def test_steps_stay_apart_when_checkpoints_pause(self) -> None:
        ends = [1000 * (step + 1) + 5000 * (step // 25) for step in range(70)]
        assert ends_ms(divided(shaken(ring([0, 1, 2], ends), 1, ms=0.5))) == pytest.approx(ends, abs=3)

    def test_sharded_step_ends_with_gradients_after_gathers(self) -> None:
        # Eight layers gathered on the way there, gathered again and scattered on the way back.
        layers, starts = range(8), every(2000, 25)
        gathers = [start + 40 * layer for start in starts for layer in layers]
        gathers += [start + 400 + 100 * layer for start in starts for layer in layers]
        scatters = [start + 450 + 100 * layer for start in starts for layer in layers]
        flows = ring([0, 1, 2], gathers, length_ms=15, size=20 * MB) + ring([0, 1, 2], scatters, length_ms=25)
        found = ends_ms(divided(shaken(flows, 1, ms=0.2)))
        assert found == pytest.approx([start + 1150 for start in starts], abs=2)

    def test_groups_may_end_at_different_moments_of_a_step(self) -> None:
        ends = aperiodic(20, seed=2)
        early = ring([0, 1], [end - 100 for end in ends])
        found = divided(early + ring([2, 3], ends))
        assert ends_ms(found) == pytest.approx(ends, abs=1e-3)
        assert ((found.end_ns[2:] - found.end_ns[:2]) // MS == 100).all()

    def test_jitter_of_collectives_does_not_matter(self) -> None:
        ends = aperiodic(30, seed=3)
        flows = shaken([flow for g in range(4) for flow in ring([2 * g, 2 * g + 1], ends)], 1, ms=5)
        found = divided(flows)
        assert found.steps == 30
        np.testing.assert_allclose(ends_ms(found), ends, atol=25)

    @pytest.mark.parametrize("groups,delay_ms", [(1, 300), (4, 700)])
    def test_a_stage_that_is_late_for_a_while_ends_each_step_once(self, groups: int, delay_ms: int) -> None:
        # From step 10 to 14 the first stage ends so much later than the last, and the next steps begin later too.
        late = [delay_ms * (10 <= n < 15) for n in range(20)]
        ends = [float(1000 * (n + 1) + sum(late[: n + 1])) for n in range(20)]
        early = [end - delay - 50 for end, delay in zip(ends, late, strict=True)]
        flows = [
            flow
            for g in range(groups)
            for stage, moments in ((0, ends), (1, early))
            for flow in ring([4 * g + 2 * stage, 4 * g + 2 * stage + 1], moments)
        ]
        assert ends_ms(divided(flows)) == pytest.approx(ends)

    def test_a_stage_whose_bursts_last_ends_each_step_once(self) -> None:
        """From step 10 to 11 a slow NIC makes the bursts of the first stage last three steps; the last ends before."""
        ends = [float(1000 * (n + 1) + 3000 * min(max(n - 9, 0), 2)) for n in range(20)]
        early = [1000 * (n + 1) - 50 + 3000 * min(max(n - 10, 0), 2) for n in range(20)]
        length_ms = [3080 if n in (10, 11) else 40 for n in range(20)]
        lasting = [flow for n in range(20) for flow in ring([0, 1], [ends[n]], length_ms=length_ms[n])]
        assert ends_ms(divided(lasting + ring([2, 3], early))) == pytest.approx(ends)

    @pytest.mark.parametrize("quick, slow", [(3, 5), (20, 20), (6, 30)])
    def test_a_stage_slow_for_half_of_the_time_ends_each_step_once(self, quick: int, slow: int) -> None:
        """Of two stages the last one's bursts last for 5 s when its leaf is slow; both go on when it has ended."""
        last = [*every(2400, quick, 2400), *every(8000, slow, 2400 * quick + 8000)]
        first = [end - (5000 if n >= quick else -100) for n, end in enumerate(last)]
        lasting = [
            flow for n, end in enumerate(last) for flow in ring([2, 3], [end], length_ms=5200 if n >= quick else 40)
        ]
        found = divided(ring([0, 1], first) + lasting)
        assert ends_ms(found) == pytest.approx([max(pair) for pair in zip(first, last, strict=True)])

    @pytest.mark.parametrize("quick, slow", [(5, 12), (6, 30)])
    def test_a_stage_that_always_goes_on_earlier_ends_each_step_once(self, quick: int, slow: int) -> None:
        """The first stage begins to reduce 0.56 s before the last one, whose reduction lasts for 3.4 s when slow."""
        last = [*every(4300, quick, 4300), *every(7900, slow, 4300 * quick + 7900)]
        length_ms = [170] * quick + [3400] * slow
        first = [end - length - 560 + 170 for end, length in zip(last, length_ms, strict=True)]
        lasting = [
            flow for end, length in zip(last, length_ms, strict=True) for flow in ring([2, 3], [end], length_ms=length)
        ]
        assert ends_ms(divided(ring([0, 1], first, length_ms=170) + lasting)) == pytest.approx(last)

    def test_quick_groups_end_no_step_with_the_slow_ones_last(self) -> None:
        """All go on when the slow rail has ended a step; the others end the next one soon after, by slow steps."""
        quick = [*every(1000, 30, 1000), *every(4100, 20, 31_000)]
        slow = [*every(1000, 30, 1000), *every(4100, 20, 34_100)]
        flows = [flow for rail in range(3) for flow in ring([2 * rail, 2 * rail + 1], quick, length_ms=100)]
        lasting = ring([6, 7], slow[:30], length_ms=100) + ring([6, 7], slow[30:], length_ms=3200)
        found = divided(flows + lasting)
        assert ends_ms(found) == slow
        assert ((found.end_ns[0] - BEGIN_NS) / MS).tolist() == quick

    def test_a_slow_half_ends_a_step_that_others_ended_unseen(self) -> None:
        """The data begin amid a slow step: the others end the next one soon, and begin it together with the slow."""
        quick, slow = [7000.0, *every(1000, 10, 13_000)], [6000.0, 12_000.0, *every(1000, 10, 13_000)]
        flows = [flow for rail in range(2) for flow in ring([2 * rail, 2 * rail + 1], quick, length_ms=100)]
        lasting = [5900, 5100, *[100] * 10]
        for rail in (2, 3):
            for end, length in zip(slow, lasting, strict=True):
                flows += ring([2 * rail, 2 * rail + 1], [end], length_ms=length)
        assert ends_ms(divided(flows))[:3] == [6000.0, 12_000.0, 13_000.0]

    def test_quick_steps_stay_apart_where_most_are_slow(self) -> None:
        ends = [*every(1000, 6, 1000), *every(6000, 10, 12_000)]
        assert ends_ms(divided(ring([0, 1], ends))) == pytest.approx(ends)

    def test_few_quick_steps_stay_apart_before_many_slow_ones(self) -> None:
        ends = [*every(1000, 4, 1000), *every(6000, 20, 10_000)]
        assert ends_ms(divided(ring([0, 1], ends))) == pytest.approx(ends)

    def test_groups_that_change_their_distance_end_each_step_once(self) -> None:
        """A slow link delays the second group by half a step; then it ends well after the first, not shortly before."""
        early = [*every(1200, 4, 1200), *every(1500, 20, 6300)]
        late = [end + (600 if n > 2 else -150) for n, end in enumerate(early)]
        found = divided(ring([0, 1], early) + ring([2, 3], late))
        assert ends_ms(found) == pytest.approx([max(pair) for pair in zip(early, late, strict=True)])

    def test_buckets_that_run_together_on_a_slow_ring_are_no_steps(self) -> None:
        """Of two microbatches, and gathered again: the slow ring sends one burst of each, all of as many bytes."""
        begins = [3000.0 * n for n in range(20)]
        quick_ms = [
            (200, 12),
            (400, 12),
            (600, 12),
            (1150, 12),
            (1350, 12),
            (1550, 12),
            (1612, 12),
            (1625, 12),
            (1638, 12),
        ]
        slow_ms = [(720, 720), (1870, 920), (2620, 705)]
        flows = [
            flow
            for members, bursts in (([0, 1], slow_ms), ([2, 3], quick_ms), ([4, 5], quick_ms), ([6, 7], quick_ms))
            for end_ms, length_ms in bursts
            for flow in ring(
                members, [begin + end_ms for begin in begins], length_ms=length_ms, size=360 * MB // len(bursts)
            )
        ]
        assert ends_ms(divided(flows)) == pytest.approx([begin + 2620 for begin in begins])

    @pytest.mark.parametrize("until_ms", [13_500.0, 15_500.0])
    def test_one_group_that_all_others_wait_for_ends_the_step(self, until_ms: float) -> None:
        """In step 10 the last buckets of the first group take 2 s each; the others close the next one after it."""
        ends = [float(1000 * (n + 1) + 6000 * (n > 9)) for n in range(12)]
        others = [1000.0 * (n + 1) + 6000 * (n > 10) for n in range(12)]
        quick, slow = [n for n in range(12) if n != 10], [13_000.0, 15_000.0, 17_000.0]
        first = buckets([0, 1], [ends[n] for n in quick], [30 * MB] * 3, apart_ms=60) + ring([0, 1], slow, size=30 * MB)
        flows = first + [
            flow for g in range(1, 8) for flow in buckets([2 * g, 2 * g + 1], others, [30 * MB] * 3, apart_ms=60)
        ]
        assert ends_ms(divided(flows)) == pytest.approx(ends)
        assert ends_ms(divided([flow for flow in flows if flow.start_ms < until_ms])) == pytest.approx(ends[:10])


class TestEdges:
    def test_a_group_slow_from_the_first_step_on_ends_it(self) -> None:
        """Its bursts begin with those of others, and end closer to the next step's ends than to theirs."""
        begins = every(3000, 20, 1000)
        quick = [
            flow for g in range(3) for flow in ring([2 * g, 2 * g + 1], [at + 100 for at in begins], length_ms=100)
        ]
        slow = ring([6, 7], [at + 1700 for at in begins], length_ms=1700)
        found = divided(shaken(quick + slow, 1, ms=5))
        np.testing.assert_allclose(ends_ms(found), [at + 1700 for at in begins], atol=30)
        np.testing.assert_allclose((found.end_ns[6] - found.end_ns[0]) / MS, 1600, atol=30)

    def test_a_first_step_cut_by_the_edge_is_there_but_not_whole(self) -> None:
        ends = every(1000, 12, 1000)
        flows = [flow for flow in buckets([0, 1], ends, [30 * MB] * 3, apart_ms=100) if flow.start_ms > 850]
        found = divided(flows)
        assert ends_ms(found) == pytest.approx(ends)
        assert found.whole.tolist() == [False] + [True] * 11

    def test_a_last_step_that_is_not_whole_is_not_there(self) -> None:
        ends = every(1000, 12, 1000)
        flows = [flow for flow in buckets([0, 1], ends, [30 * MB] * 3, apart_ms=100) if flow.start_ms < 11_850]
        assert ends_ms(divided(flows)) == pytest.approx(ends[:-1])

    @pytest.mark.parametrize("until_ms", [12_000, 12_100])
    def test_last_step_is_left_when_half_the_groups_are_pending(self, until_ms: float) -> None:
        ends = every(1000, 12, 1000)
        early, late = ring([0, 1], ends), ring([2, 3], [end + 200 for end in ends])
        seen = [flow for flow in early + late if flow.start_ms + flow.length_ms <= until_ms]
        assert ends_ms(divided(seen)) == pytest.approx([end + 200 for end in ends[:-1]])
        assert divided(early + late).steps == 12

    def test_gone_group_is_not_waited_for_after_a_step(self) -> None:
        ends = every(1000, 12, 1000)
        gone = ring([2, 3], ends[:6])
        assert ends_ms(divided(ring([0, 1], ends) + gone)) == pytest.approx(ends[:-1])

    def test_a_lost_burst_in_one_of_several_groups_loses_no_step(self) -> None:
        ends = every(1000, 20, 1000)
        flows = [flow for g in range(3) for flow in ring([2 * g, 2 * g + 1], ends)]
        kept = [flow for flow in flows if not (flow.src in (0, 1) and 7_900 < flow.start_ms < 8_000)]
        found = divided(kept)
        assert ends_ms(found) == pytest.approx(ends)
        assert (found.end_ns == found.end_ns[0]).all()  # what was not seen ends with the others

    def test_steps_stay_apart_when_half_a_ring_is_not_seen(self) -> None:
        ends = every(1000, 24, 1000)
        kept = [flow for flow in ring(range(4), ends) if flow.src < 2 or flow.start_ms < 12_000]
        known = division(range(4), ends[:11])
        assert ends_ms(divided(kept, known=known)) == pytest.approx(ends)

    def test_group_without_burst_ends_at_its_usual_distance(self) -> None:
        ends = every(1000, 20, 1000)
        flows = ring([0, 1], [end - 100 for end in ends]) + ring([2, 3], ends)
        kept = [flow for flow in flows if not (flow.src in (2, 3) and 7_900 < flow.start_ms < 8_000)]
        assert ends_ms(divided(kept)) == pytest.approx(ends)

    def test_step_is_left_while_all_wait_for_one_of_many_groups(self) -> None:
        """Its last bursts last long: they have no record yet, when those of the others do."""
        ends = every(1000, 20, 1000)
        others = [flow for g in range(1, 8) for flow in ring([2 * g, 2 * g + 1], ends)]
        late = ring([0, 1], [end - 100 for end in ends[:19]])
        assert ends_ms(divided(others + late)) == pytest.approx(ends[:19])

    def test_one_group_that_all_wait_for_ends_the_last_step(self) -> None:
        ends = every(1000, 20, 1000)
        others = [flow for g in range(1, 8) for flow in ring([2 * g, 2 * g + 1], ends)]
        late = [*ends[:-1], ends[-1] + 5000]
        assert ends_ms(divided(others + ring([0, 1], late))) == pytest.approx(late)

    def test_step_is_left_when_one_group_has_not_ended_it(self) -> None:
        ends = every(1000, 20, 1000)
        flows = ring([0, 1], [end - 100 for end in ends]) + ring([2, 3], ends)
        early = [flow for flow in flows if flow.start_ms + flow.length_ms < 19_950]
        assert ends_ms(divided(early)) == pytest.approx(ends[:19])

    def test_a_group_that_is_late_for_once_still_ends_the_same_step(self) -> None:
        ends = every(1000, 20, 1000)
        late = [end + 350 * (10_000 < end < 14_000) for end in ends]
        found = divided(ring([0, 1], ends) + ring([2, 3], ends) + ring([4, 5], late) + ring([6, 7], late))
        assert ends_ms(found) == pytest.approx(late)

    @pytest.mark.parametrize("buckets_a_step", [1, 3, 8])
    @pytest.mark.parametrize("groups", [1, 4])
    def test_lost_records_do_not_turn_equal_buckets_into_steps(self, groups: int, buckets_a_step: int) -> None:
        ends = aperiodic(60, seed=5)
        flows = [
            flow
            for g in range(groups)
            for flow in buckets(range(4 * g, 4 * g + 4), ends, [25 * MB] * buckets_a_step, apart_ms=30)
        ]
        lost = np.random.default_rng(6).random(len(flows)) < 0.005
        found = divided(shaken([flow for flow, gone in zip(flows, lost, strict=True) if not gone], 7, ms=0.3))
        assert found.steps in (59, 60)  # a record lost at the very end makes the last step one for later
        np.testing.assert_allclose(ends_ms(found), ends[: found.steps], atol=35)

    def test_extra_bursts_of_one_group_in_three_are_no_steps(self) -> None:
        ends = every(1000, 20, 1000)
        flows = [flow for g in range(3) for flow in ring([2 * g, 2 * g + 1], ends)]
        assert ends_ms(divided([*flows, *ring([0, 1], [8_500])])) == pytest.approx(ends)


class TestPipelinesAlone:
    @pytest.mark.parametrize("microbatches", [1, 2, 3, 4, 8, 16])
    @pytest.mark.parametrize("stages", [[0, 1], [3, 1, 0, 2]], ids=["two", "four"])
    def test_a_step_ends_with_the_last_gradient(self, stages: list[int], microbatches: int) -> None:
        starts = every(2500, 12)
        flows = pipeline(stages, starts, microbatches=microbatches)
        last_ms = max(flow.start_ms + flow.length_ms for flow in flows if flow.start_ms < 2500)
        found = divided(flows, pp=list(pairwise(stages)))
        assert ends_ms(found) == pytest.approx([start + last_ms for start in starts])

    @pytest.mark.parametrize("microbatches", [1, 4, 16])
    def test_an_interleaved_pipeline_steps_too(self, microbatches: int) -> None:
        starts = every(2500, 12)
        flows = pipeline([0, 1, 2, 0, 1, 2], starts, microbatches=microbatches)
        found = np.array(ends_ms(divided(flows, pp=[(0, 1), (1, 2), (0, 2)])))
        np.testing.assert_allclose(np.diff(found), 2500, atol=50)
        last_ms = max(flow.start_ms + flow.length_ms for flow in flows if flow.start_ms < 2500)
        assert last_ms - 100 < found[0] <= last_ms

    @pytest.mark.parametrize("idle_ms", [0, 300, 3000])
    def test_however_long_the_optimizer_takes(self, idle_ms: int) -> None:
        pass_ms = max(flow.start_ms + flow.length_ms for flow in pipeline([0, 1, 2], [0]))
        starts = every(pass_ms + 60 + idle_ms, 12)
        found = divided(shaken(pipeline([0, 1, 2], starts), 1, ms=0.5), pp=[(0, 1), (1, 2)])
        np.testing.assert_allclose(ends_ms(found), [start + pass_ms for start in starts], atol=3)

    def test_each_endpoint_ends_with_its_own_last_message(self) -> None:
        flows = pipeline([0, 1, 2], every(1000, 12))
        found = divided(flows, pp=[(0, 1), (1, 2)])
        for row in range(3):
            mine = [flow for flow in flows if row in (flow.src, flow.dst)]
            last = [max(f.end_ns for f in mine if 1000 * step <= f.start_ms < 1000 * step + 1000) for step in range(12)]
            assert found.end_ns[row].tolist() == last

    def test_a_pipeline_beside_collectives_does_not_end_steps(self) -> None:
        grid = [[0, 1], [2, 3]]
        ends = every(1000, 12, 1000)
        assert ends_ms(divided(job(grid, 12), pp=links(grid))) == ends


class TestOnset:
    """Parameters gathered at the beginning of a step, messages, gradients scattered at its end, 60 ms; and again."""

    GRID = ([0, 1], [2, 3])
    PP = links(GRID)
    STARTS = tuple(every(1000, 20))
    GATHERED = tuple(start + 40 for start in STARTS)
    SCATTERED = tuple(start + 940 for start in STARTS)

    def flows(self, *, messages: bool = True) -> list[Flow]:
        extra = [flow for ends in self.PP for flow in pipeline(ends, [start + 60 for start in self.STARTS]) if messages]
        return extra + [
            flow
            for stage in self.GRID
            for flow in (*ring(stage, self.GATHERED, size=20 * MB), *ring(stage, self.SCATTERED, size=40 * MB))
        ]

    def after(self, since_ms: float) -> list[Flow]:
        return [flow for flow in self.flows() if flow.start_ms >= since_ms]

    def test_data_that_begin_with_a_gathering_begin_with_a_step(self) -> None:
        found = divided(self.flows(), pp=self.PP)
        assert ends_ms(found) == list(self.SCATTERED)
        assert found.whole.all()

    def test_lost_records_and_jitter_do_not_hide_it(self) -> None:
        kept = np.random.default_rng(1).random(len(self.flows())) > 0.01
        flows = [flow for flow, keep in zip(self.flows(), kept, strict=True) if keep or flow.start_ms < 1000]
        found = divided(shaken(flows, 2, ms=0.3), pp=self.PP)
        np.testing.assert_allclose(ends_ms(found), self.SCATTERED, atol=3)

    @pytest.mark.parametrize("since_ms", [50, 500, 890])
    def test_last_closing_burst_ends_steps_when_data_begin_amid(self, since_ms: float) -> None:
        assert ends_ms(divided(self.after(since_ms), pp=self.PP)) == list(self.GATHERED[1:])

    def test_data_that_begin_between_ends_of_stages_begin_no_step(self) -> None:
        sooner = ring(self.GRID[0], [start + 880 for start in self.STARTS], size=40 * MB)
        flows = [flow for flow in self.flows() if flow.size != 40 * MB or flow.src not in self.GRID[0]] + sooner
        found = divided([flow for flow in flows if flow.start_ms >= 890], pp=self.PP)
        assert ends_ms(found) == list(self.GATHERED[1:])

    def test_rest_of_a_step_that_not_all_stages_show_opens_none(self) -> None:
        """Gradients are scattered after each microbatch, and parameters gathered; the second stage is done sooner."""
        flows = [flow for ends in self.PP for flow in pipeline(ends, [start + 30 for start in self.STARTS])]
        ends = []
        for members, before in zip(self.GRID, (0, 100), strict=True):
            for turn in range(4):
                flows += ring(members, [start + 390 + 150 * turn - before for start in self.STARTS], size=40 * MB)
            ends = [start + 900 - before for start in self.STARTS]
            flows += ring(members, ends, size=20 * MB)
        found = divided([flow for flow in flows if flow.start_ms >= 790], pp=self.PP)
        assert ends_ms(found) == [end + 100 for end in ends]

    def test_first_burst_may_be_a_rest_without_other_traffic(self) -> None:
        assert ends_ms(divided(self.flows(messages=False))) == list(self.GATHERED)

    def test_what_comes_first_and_never_again_opens_no_step(self) -> None:
        flows = [flow for stage in self.GRID for flow in ring(stage, self.SCATTERED, size=40 * MB)]
        flows += [flow for ends in self.PP for flow in pipeline(ends, [start + 60 for start in self.STARTS])]
        spread = [flow for stage in self.GRID for flow in ring(stage, [40], size=20 * MB)]
        assert ends_ms(divided(flows + spread, pp=self.PP))[-19:] == list(self.SCATTERED[1:])

    @pytest.mark.parametrize("since_ms", [920, 3000, 3500])
    @pytest.mark.parametrize("series", [GATHERED, SCATTERED], ids=["gathered", "scattered"])
    def test_steps_go_on_to_end_where_published_ones_did(self, series: tuple[float, ...], since_ms: float) -> None:
        known = division([0, 1, 2, 3], series[4:9])
        found = ends_ms(divided(self.after(since_ms), pp=self.PP, known=known))
        assert found == [end for end in series if end >= found[0]]
        assert found[0] <= series[4]

    def test_known_steps_elsewhere_change_nothing(self) -> None:
        for known in (division([7, 8], self.SCATTERED[4:9]), division([0, 1, 2, 3], self.SCATTERED[:2])):
            for endpoints in ([0, 1, 2, 3, 7, 8], [0, 1, 2, 3]):
                found = ends_ms(divided(self.after(3500), pp=self.PP, known=known, endpoints=endpoints))
                assert found == list(self.GATHERED[4:])


class TestSlowRanks:
    """Layers are gathered and reduced one by one, until a rank is slow: while all wait for it, these run together."""

    QUICK: Sequence[tuple[int, int, int]] = (
        *((10, 20, 1), (40, 20, 1), (300, 20, 1), (600, 20, 1), (1150, 20, 1)),
        *((2100, 40, 2), (2700, 40, 2), (3300, 40, 2), (4300, 40, 1)),
    )
    SLOW = ((10, 10, 2), (360, 1000, 2), (1710, 6640, 8))
    STARTS = (*every(4400, 5), *every(8460, 5, 22_000))
    ENDS = (*every(4400, 5, 4340), *every(8460, 5, 30_350))

    def flows(self) -> list[Flow]:
        return [
            Flow(rank, (rank + 1) % 4, start + at, length, parts * 13 * MB)
            for number, start in enumerate(self.STARTS)
            for at, length, parts in (self.QUICK if number < 5 else self.SLOW)
            for rank in range(4)
        ]

    def test_known_volume_divides_bursts_that_run_together(self) -> None:
        found = divided(self.flows()[36:], known=division(range(4), self.ENDS[1:5]))
        assert ends_ms(found) == list(self.ENDS[1:])


class TestThinEvidence:
    def test_no_closing_traffic_no_steps(self) -> None:
        seen = traffic(ring([0, 1], every(1000, 12)))
        found = divide(seen, typed(seen, other=[(0, 1)]), np.array([0, 1], np.int32), PARAMS)
        assert found.end_ns.shape == (2, 0)

    def test_nothing(self) -> None:
        assert divided([]).steps == 0

    @pytest.mark.parametrize("steps", [1, 2])
    def test_what_has_not_repeated_yet_is_no_step_made_up(self, steps: int) -> None:
        assert divided(ring([0, 1], every(1000, steps, 1000))).steps <= steps

    def test_one_giant_flow(self) -> None:
        assert divided([Flow(0, 1, 0, 10_000_000, 10**15)]).steps <= 1

    def test_everything_at_one_instant(self) -> None:
        assert divided([Flow(a, b, 0, 0) for a in range(3) for b in range(3) if a != b]).steps <= 1

    def test_members_without_closing_traffic_end_with_the_job(self) -> None:
        found = divided(ring([0, 1], every(1000, 12, 1000)), endpoints=[0, 1, 5])
        assert (found.end_ns[2] == found.job_end_ns()).all()


def test_bursts_of_one_communicator_are_one_sequence() -> None:
    flows = [
        Flow(0, 1, 0, 10, 3 * MB),
        Flow(1, 0, 5, 10, 4 * MB),
        Flow(0, 1, 100, 10, 5 * MB),
        Flow(2, 3, 0, 10, 6 * MB),
    ]
    sequences = read_sequences(traffic(flows), np.array([0, 0, 1], np.int32), PARAMS)
    assert len(sequences) == 2
    assert sequences.offsets.tolist() == [0, 2, 3]
    assert sequences.payload.tolist() == [7 * MB, 5 * MB, 6 * MB]
    assert sequences.gap_s.tolist() == [0.085, np.inf, np.inf]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_steps_follow_shifted_time_and_renamed_endpoints(shift_ms: int, name: list[int]) -> None:
    flows = shaken(buckets([0, 1, 2, 3], aperiodic(15, seed=4), [20 * MB, 10 * MB], apart_ms=40), 1, ms=0.2)
    plain, moved = divided(flows), divided(shifted(renamed(flows, name), shift_ms))
    np.testing.assert_array_equal(moved.end_ns[name], plain.end_ns + shift_ms * MS)
    np.testing.assert_array_equal(moved.whole, plain.whole)


LAST_GROUP = range(8)
LAST_ENDS = every(1000, 20, 1000)


def last_ends_ms(flows: list[Flow]) -> list[float]:
    seen = traffic(flows)
    members = np.array(sorted({end for flow in flows for end in (flow.src, flow.dst)}), np.int32)
    # Messages of a pipeline show how far the job was looked at; they are no part of what closes a step.
    found = divide(seen, typed(seen, other=[(8, 9)]), members, PARAMS)
    return [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]


def in_buckets(count: int) -> list[Flow]:
    return buckets(LAST_GROUP, LAST_ENDS, [30 * MB] * count, apart_ms=60)


def without_last_of_first(flows: list[Flow]) -> list[Flow]:
    """All but the last record from endpoint 0 to endpoint 1."""
    last = max((flow for flow in flows if flow.src == 0), key=lambda flow: flow.start_ms)
    return [flow for flow in flows if flow != last]


@pytest.mark.parametrize("count", [2, 4])
def test_last_step_without_a_record_ends_after_silence(count: int) -> None:
    flows = without_last_of_first(in_buckets(count))
    assert last_ends_ms(flows) == pytest.approx(LAST_ENDS[:-1])
    assert last_ends_ms([*flows, Flow(8, 9, 20_010)]) == pytest.approx(LAST_ENDS[:-1])
    assert last_ends_ms([*flows, Flow(8, 9, 20_200)]) == pytest.approx(LAST_ENDS)


def test_a_last_step_that_lacks_a_bucket_is_left_for_later() -> None:
    flows = [flow for flow in in_buckets(4) if flow.start_ms < 19_900]
    assert last_ends_ms([*flows, Flow(8, 9, 20_200)]) == pytest.approx(LAST_ENDS[:-1])


@pytest.mark.parametrize("short", [3, 7, 9])
def test_groups_end_with_others_when_half_a_burst_is_lost(short: int) -> None:
    groups = [ring([2 * g, 2 * g + 1], LAST_ENDS) for g in range(10)]
    kept = [flow for g, flows in enumerate(groups) for flow in (flows[:-1] if g < short else flows)]
    assert last_ends_ms(kept) == pytest.approx(LAST_ENDS)


#: Pipelines of four stages without replicas, on as many rails.
PIPELINES = [range(4 * rail, 4 * rail + 4) for rail in range(4)]


def ends_of_pipelines_ms(lost: list[tuple[int, int]]) -> list[float]:
    """When steps end without the last message from one member to another of some pairs."""
    flows = [flow for stages in PIPELINES for flow in pipeline(stages, every(1000, 20), microbatches=4)]
    last = {(flow.src, flow.dst): flow for flow in sorted(flows, key=lambda flow: flow.start_ms)}
    seen = traffic([flow for flow in flows if (flow.src, flow.dst) not in lost or flow != last[flow.src, flow.dst]])
    links = [(flow.src, flow.dst) for flow in flows]
    found = divide(seen, typed(seen, pp=links), np.arange(16, dtype=np.int32), PARAMS)
    return [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]


@pytest.mark.parametrize("lost", [[(2, 1), (6, 5)], [(3, 2), (7, 6), (11, 10)]])
def test_links_end_when_gradient_has_reached_first_stage(lost: list[tuple[int, int]]) -> None:
    assert ends_of_pipelines_ms(lost) == pytest.approx(ends_of_pipelines_ms([]))


def test_gradients_short_of_the_first_stage_are_waited_for() -> None:
    assert ends_of_pipelines_ms([(1, 0), (5, 4)]) == pytest.approx(ends_of_pipelines_ms([])[:-1])


def test_a_pipeline_that_is_late_by_steps_is_waited_for() -> None:
    """One of four begins the last step four steps late, and has not ended it."""
    starts = every(1000, 20)
    late = pipeline(PIPELINES[3], [*starts[:-1], starts[-1] + 4000], microbatches=4)
    others = [flow for stages in PIPELINES[:3] for flow in pipeline(stages, starts, microbatches=4)]
    flows = others + [flow for flow in late if flow.start_ms < starts[-1] + 4150]
    seen = traffic(flows)
    kinds = typed(seen, pp=[(flow.src, flow.dst) for flow in flows])
    found = divide(seen, kinds, np.arange(16, dtype=np.int32), PARAMS)
    ends = [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]
    assert ends == pytest.approx(ends_of_pipelines_ms([])[:-1])
