"""Slow GPUs: the rank that makes the others wait is found, named and let go of again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest

from prism_ch.analysis.diagnose.compute.comparison import compare
from prism_ch.analysis.diagnose.compute.compute_time import ComputeTime, measure_compute_time
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import CP
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import (
    MB,
    Flow,
    division,
    every,
    links,
    ordered,
    pipeline,
    ring,
    shaken,
    topology,
    traffic,
    typed,
)
from tests.unit.analysis.diagnose.compute.accused import accused

PARAMS = DiagnoseParams()
STEPS, STEP_MS = 24, 1000.0
MORE_MS = 100.0


def ends(slow: Collection[int], more_ms: float) -> list[float]:
    """When each step ends, of which some take so much longer."""
    return list(accumulate(STEP_MS + (more_ms if step in slow else 0) for step in range(STEPS)))


def measured(
    flows: Sequence[Flow], ends_ms: Sequence[float], kinds: PairKinds | None = None, pp: Sequence[tuple[int, int]] = ()
) -> tuple[tuple[ComputeTime, ...], Division]:
    """The work of all ranks that the flows show."""
    seen = traffic(flows)
    divided = division(sorted({flow.src for flow in flows}), ends_ms)
    kinds = typed(seen, pp) if kinds is None else kinds
    return measure_compute_time(
        seen, kinds, divided, ordered(seen, kinds, divided), topology(len(divided.endpoints)), PARAMS.compute
    ), divided


def found(
    flows: Sequence[Flow],
    ends_ms: Sequence[float],
    where: Topology,
    pp: Sequence[tuple[int, int]] = (),
    known: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    work, divided = measured(flows, ends_ms, pp=pp)
    return accused(work, divided, where, known)


def late_ring(members: Sequence[int], late: int, steps: Collection[int], late_ms: float = 150) -> list[Flow]:
    """A ring that all enter 300 ms before a step's usual end; who is late, and whoever meets it, enters later."""
    hops = list(zip(members, [*members[1:], members[0]], strict=True))
    flows = []
    for step, end in enumerate(ends(steps, late_ms)):
        more = late_ms if step in steps else 0
        waits = {hop: 290 + more * (late not in hop) for hop in hops}  # over 10 ms before the step is
        flows += [Flow(*hop, end - 10 - wait, wait) for hop, wait in waits.items()]
    return flows


def replicas(depth: int, count: int, slow: tuple[int, int] | None, steps: Collection[int]) -> list[Flow]:
    """Pipelines `stage * count + replica`; one stage of one replica is 10 ms later with each output in some steps."""
    flows = []
    begins = [0.0, *ends(steps, MORE_MS)]
    for replica in range(count):
        stages = [stage * count + replica for stage in range(depth)]
        for step in range(STEPS):
            passed = pipeline(stages, [begins[step]])
            harmed = slow is not None and slow[1] == replica and step in steps
            flows += _slowed(passed, stages[slow[0]]) if harmed and slow is not None else passed
    if count > 1:
        for stage in range(depth):
            flows += ring(range(stage * count, (stage + 1) * count), begins[1:])
    return flows


def _slowed(flows: Sequence[Flow], rank: int) -> list[Flow]:
    """The messages of one pass, where the n-th output of a rank comes n x 10 ms late, and so does what follows it."""
    outputs = sorted(flow.start_ms for flow in flows if flow.src == rank)
    return [replace(one, start_ms=one.start_ms + 10 * sum(at <= one.start_ms for at in outputs)) for one in flows]


def _of_gpu(flows: Sequence[Flow], gpu: int) -> list[Flow]:
    """The flows between ranks `n` as those between ranks `2 n + gpu`."""
    return [replace(one, src=2 * one.src + gpu, dst=2 * one.dst + gpu) for one in flows]


class TestCollectives:
    def test_rank_that_neither_sends_nor_receives_is_the_slow_one(self) -> None:
        steps = range(10, 18)
        (one,) = found(shaken(late_ring(range(6), 2, steps), 1), ends(steps, 150), topology(6))
        assert (one.kind, one.subject_type, one.subject) == ("slow_gpu", "endpoint", "10.0.102.0")
        assert (one.first_step, one.last_step, one.status) == (10, 17, "closed")
        assert one.summary.startswith("10.0.102.0 (host-02, GPU 0) works 15% longer a step")
        assert one.evidence["measure"] == "lateness in collectives"
        assert one.slowdown == pytest.approx(0.15 / 1.15, rel=0.02)
        assert one.score > PARAMS.compute.corrected_score

    def test_it_is_open_while_it_lasts(self) -> None:
        (one,) = found(late_ring(range(6), 2, range(18, 24)), ends(range(18, 24), 150), topology(6))
        assert one.status == "open"

    def test_slow_from_the_first_step_on_it_shows_against_its_peers(self) -> None:
        (one,) = found(late_ring(range(6), 2, range(24)), ends(range(24), 150), topology(6))
        assert (one.subject, one.first_step, one.status) == ("10.0.102.0", 0, "open")

    def test_ranks_late_together_in_one_server_are_one_finding(self) -> None:
        rings = [late_ring(range(gpu, 12, 2), 4 + gpu, range(8, 24)) for gpu in (0, 1)]
        (one,) = found([*rings[0], *rings[1]], ends(range(8, 24), 150), topology(6, 2))
        assert (one.subject_type, one.subject) == ("server", "host-02")
        assert "GPUs 0, 1 of host-02" in one.summary
        assert one.evidence["endpoints"] == ["10.0.102.0", "10.0.102.1"]

    @pytest.mark.parametrize("steps", [range(0), [7]])
    def test_nobody_is_accused_of_nothing_or_of_one_hiccup(self, steps: Collection[int]) -> None:
        assert found(shaken(late_ring(range(6), 2, steps), 2), ends(steps, 150), topology(6)) == ()

    def test_of_two_nobody_can_tell_which_is_late(self) -> None:
        assert found(late_ring(range(2), 1, range(8, 24)), ends(range(8, 24), 150), topology(2)) == ()

    def test_who_hides_behind_others_costs_nothing(self) -> None:
        assert found(late_ring(range(6), 2, range(8, 24)), ends((), 0), topology(6)) == ()

    def test_one_step_says_nothing(self) -> None:
        work, divided = measured(ring(range(4), [1000.0]), [1000.0])
        assert accused(work, divided, topology(4)) == ()

    def test_without_steps_there_is_no_work(self) -> None:
        seen = traffic(ring(range(4), [1000.0]))
        divided = Division.none(np.arange(4, dtype=np.int32))
        assert (
            measure_compute_time(
                seen,
                typed(seen),
                divided,
                ordered(seen, typed(seen), divided),
                topology(len(divided.endpoints)),
                PARAMS.compute,
            )
            == ()
        )

    def test_where_bursts_ran_together_only_the_first_tells(self) -> None:
        even = [
            Flow(a, b, 1000 * step + at, 5, MB)
            for step in range(STEPS)
            for at in (100, 200)
            for a, b in ((0, 1), (1, 2))
        ]
        joined = [Flow(2, 0, 1000 * step + 100, 105, MB) for step in range(STEPS)]
        seen = traffic([*even, *joined])
        kind = np.full(3, CP, np.uint8)
        (work,), _ = measured([*even, *joined], ends((), 0), PairKinds(kind, np.ones(3), kind[seen.pair]))
        assert np.abs(work.seconds).max() < 1e-6

    def test_late_rank_found_where_rounds_run_together(self) -> None:
        slow, late, members = range(10, 18), 2, range(6)
        flows = []
        for step, end in enumerate(ends(slow, 60)):
            for a, b in zip(members, [*members[1:], members[0]], strict=True):
                closes = [end - 10 - 100 * back for back in (2, 1, 0)]
                if step in slow and late not in (a, b):
                    flows.append(Flow(a, b, closes[0] - 60, 260, 3 * MB))
                else:
                    flows += [Flow(a, b, close - 40, 40, MB) for close in closes]
        (one,) = found(shaken(flows, 6), ends(slow, 60), topology(6))
        assert (one.subject, one.first_step, one.last_step) == ("10.0.102.0", 10, 17)

    def test_mates_waiting_across_servers_are_one_finding(self) -> None:
        rings = [late_ring(range(0, 12, 2), 4, range(8, 24)), late_ring(range(1, 12, 2), 7, range(8, 24))]
        flows, ends_ms = [*rings[0], *rings[1]], ends(range(8, 24), 150)
        (work,), divided = measured(flows, ends_ms)
        mates = np.arange(12, dtype=np.int32)
        mates[7] = mates[4]
        (one,) = accused((replace(work, mates=mates),), divided, topology(6, 2))
        assert "GPUs 0 of host-02 and 1 of host-03" in one.summary


class TestPipelines:
    GRID = ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
    PAIRS = ([0, 1], [2, 3], [4, 5])

    @pytest.mark.parametrize("stage", [0, 1, 2])
    def test_slow_stage_found_against_its_replicas(self, stage: int) -> None:
        flows = shaken(replicas(3, 4, (stage, 2), range(8, 24)), 3, ms=0.2)
        (one,) = found(flows, ends(range(8, 24), MORE_MS), topology(12), links(self.GRID))
        assert (one.subject, one.first_step, one.status) == (f"10.0.{100 + 4 * stage + 2}.0", 8, "open")
        assert one.evidence["measure"] == "work between messages"
        assert one.observed > 1.1 * one.expected

    def test_stages_of_equal_length_work_equally_long_turn_by_turn(self) -> None:
        (work,), _ = measured(replicas(3, 4, None, ()), ends((), 0), pp=links(self.GRID))
        assert work.turn_s is not None
        assert np.isnan(work.turn_s[:4]).all()  # no message tells when a first stage is given work
        assert work.turn_s[4:, 1:] == pytest.approx(4 * 0.060, abs=1e-6)

    def test_a_healthy_pipeline_accuses_nobody(self) -> None:
        flows = shaken(replicas(3, 4, None, ()), 4)
        assert found(flows, ends((), 0), topology(12), links(self.GRID)) == ()

    def test_a_stage_of_its_own_length_accuses_nobody(self) -> None:
        flows = [
            flow for replica in range(4) for flow in replicas(3, 4, (1, replica), range(24)) if flow.src % 4 == replica
        ]
        assert found(flows, ends(range(24), MORE_MS), topology(12), links(self.GRID)) == ()

    @pytest.mark.parametrize("others_s, told", [(0.0, ["10.0.105.0"]), (0.04, [])])
    def test_longer_sequences_slow_all_stages_and_no_gpu(self, others_s: float, told: list[str]) -> None:
        """The second of four replicas works for longer in some steps, at its second stage or at all."""
        seconds = np.random.default_rng(8).normal(1, 0.005, (12, STEPS))
        seconds[1::4, 10:18] += others_s
        seconds[5, 10:18] += 0.08 - others_s
        each = np.arange(12, dtype=np.int32)
        work = ComputeTime(each, each // 4, seconds, each, each % 4, absolute=True)
        divided = division(range(12), ends(range(10, 18), 100))
        found_slow = accused((work,), divided, topology(12))
        assert [one.subject for one in found_slow] == told

    def test_without_peers_a_rank_is_compared_with_its_own_past(self) -> None:
        flows = shaken(replicas(3, 1, (1, 0), range(16, 24)), 5, ms=0.2)
        (one,) = found(flows, ends(range(16, 24), MORE_MS), topology(3), links(([0], [1], [2])))
        assert (one.subject, one.first_step) == ("10.0.101.0", 16)
        assert "its own work before" in one.summary

    def test_a_step_in_which_nobody_computes_accuses_nobody(self) -> None:
        seconds = np.random.default_rng(8).normal(1, 0.005, (3, STEPS))
        seconds[:, 10] = 0
        each = np.arange(3, dtype=np.int32)
        work = ComputeTime(each, each, seconds, each, each, absolute=True)
        assert accused((work,), division(range(3), ends((), 0)), topology(3)) == ()

    def test_lost_steps_do_not_make_larger_batches_usual(self) -> None:
        """Of the few steps before the batch grew, some ranks lost half: all have the same ones for their better."""
        seconds = np.random.default_rng(8).normal(1, 0.005, (16, STEPS))
        seconds[:, 4:] += 1.0
        seconds[:8, 1:3] = np.nan
        each = np.arange(16, dtype=np.int32)
        work = ComputeTime(each, each % 4, seconds, each, each // 4, absolute=True)
        np.testing.assert_allclose(work.usual_s(PARAMS.compute), 1.0, atol=0.02)
        divided = division(range(16), ends(range(4, STEPS), 1000))
        assert accused((work,), divided, topology(4, 4)) == ()

    @pytest.mark.parametrize("own, told", [(0.0, []), (0.3, ["10.0.105.0"])])
    def test_a_larger_batch_that_stages_share_unequally_slows_no_gpu(self, own: float, told: list[str]) -> None:
        """The first of four stages gets less of it, and what a rank's pipeline has in common is lost."""
        seconds = np.random.default_rng(8).normal(1, 0.005, (16, STEPS))
        seconds[:4, 12:] *= 1.8
        seconds[4:, 12:] *= 2.0
        seconds[[9, 13], 12:] = np.nan
        seconds[5, 12:] += own
        each = np.arange(16, dtype=np.int32)
        work = ComputeTime(each, each // 4, seconds, each, each % 4, absolute=True)
        divided = division(range(16), ends(range(12, STEPS), 1000))
        assert [one.subject for one in accused((work,), divided, topology(16))] == told

    @pytest.mark.parametrize(
        "slow, told", [((0, 1, 2, 3), "host-00"), ((0, 1, 4, 5), None), ((0, 1), None)], ids=["half", "both", "some"]
    )
    def test_slower_half_of_a_role_is_an_always_slow_server(self, slow: Sequence[int], told: str | None) -> None:
        seconds = np.random.default_rng(8).normal(1, 0.005, (8, STEPS))
        seconds[list(slow)] += 0.1
        each = np.arange(8, dtype=np.int32)
        work = ComputeTime(each, np.zeros(8, dtype=np.int32), seconds, each, each, absolute=True)
        named = accused((work,), division(range(8), ends((), 0)), topology(2, 4))
        if len(slow) > 2:
            assert [one.subject for one in named] == ([told] if told else [])
        else:
            assert all("quicker half" not in one.summary for one in named)

    @pytest.mark.parametrize("own_s, told", [(0.0, 8), (0.09, 4)], ids=["all wait", "one group"])
    def test_what_a_first_stage_waits_for_accuses_no_other_group(self, own_s: float, told: int) -> None:
        """Both tensor groups of its server wait for the last gradients of one of them."""
        seconds = np.random.default_rng(8).normal(1, 0.005, (24, STEPS))
        seconds[:8, 8:] += 0.18
        seconds[:4, 8:] += own_s
        each = np.arange(24, dtype=np.int32)
        work = ComputeTime(each, each // 8, seconds, each // 4, each % 8 // 4, absolute=True)
        divided = division(range(24), ends(range(8, STEPS), 200))
        (one,) = accused((work,), divided, topology(3, 8))
        assert one.about == tuple(f"10.0.100.{gpu}" for gpu in range(told))

    @pytest.mark.parametrize("others, told", [((), "host-00"), ((8, 9, 10, 11), "host-02")], ids=["alone", "others"])
    def test_halves_of_which_not_all_work_shows_come_last(self, others: Sequence[int], told: str) -> None:
        """Where others are slow, halves of the ends of a ring of stages differ in what shows of their work."""
        seconds = np.random.default_rng(8).normal(1, 0.005, (16, STEPS))
        seconds[[0, 1, 2, 3, *others]] += 0.15
        each, role = np.arange(16, dtype=np.int32), np.repeat(np.arange(2, dtype=np.int32), 8)
        work = ComputeTime(each, role, seconds, each, each, absolute=True, hidden=role == 0)
        (one,) = accused((work,), division(range(16), ends((), 0)), topology(4, 4))
        assert one.subject == told

    @pytest.mark.parametrize("more_s, told", [(0.2, []), (0.5, ["host-00"])])
    def test_ends_of_a_ring_differ_all_the_time_in_what_shows(self, more_s: float, told: list[str]) -> None:
        """Steps differ in it by as much, but it does not even out over them."""
        seconds = np.random.default_rng(8).normal(1, 0.03, (16, STEPS))
        seconds[:4] += more_s
        each, role = np.arange(16, dtype=np.int32), np.zeros(16, dtype=np.int32)
        work = ComputeTime(each, role, seconds, each, each, absolute=True, hidden=role == 0)
        named = accused((work,), division(range(16), ends((), 0)), topology(4, 4))
        assert [one.subject for one in named] == told
        assert accused((replace(work, hidden=None),), division(range(16), ends((), 0)), topology(4, 4))

    @pytest.mark.parametrize("quicker", [True, False])
    def test_what_seems_to_become_quicker_makes_nobody_slow(self, quicker: bool) -> None:
        seconds = np.random.default_rng(8).normal(1, 0.005, (8, STEPS))
        if quicker:
            seconds[4:, 16:] -= 0.1
        else:
            seconds[:4, 16:] += 0.1
        each = np.arange(8, dtype=np.int32)
        work = ComputeTime(each, np.zeros(8, dtype=np.int32), seconds, each, each, absolute=True)
        divided = division(range(8), ends((), 0))
        for expected_s in ({}, dict.fromkeys(range(8), 1.0)):
            *_, halves = compare((work,), divided, expected_s, PARAMS.compute)
            assert bool(halves.score.any()) != quicker
        # Nothing is known of the time when all was well but what is remembered.
        *_, halves = compare(
            (replace(work, seconds=seconds[:, 12:]),), division(range(8), ends((), 0)[12:]), {}, PARAMS.compute
        )
        assert halves.score.any()

    @pytest.mark.parametrize("wraps", [False, True])
    def test_the_ends_of_a_ring_of_stages_work_unseen(self, wraps: bool) -> None:
        stages = [0, 1, 2, 0, 1, 2] if wraps else [0, 1, 2]
        flows = pipeline(stages, every(1000, STEPS))
        ways = [(0, 1), (1, 2), *([(0, 2)] if wraps else [])]
        seen = traffic(flows)
        kinds, divided = typed(seen, ways), division(range(3), every(1000, STEPS, 1000))
        (work,) = measure_compute_time(
            seen, kinds, divided, ordered(seen, kinds, divided), topology(len(divided.endpoints)), PARAMS.compute
        )
        assert work.hidden is not None
        assert work.hidden.tolist() == [wraps, False, wraps]

    @pytest.mark.parametrize("first, told", [(3, True), (2, False)])
    def test_a_young_job_has_no_past_to_compare_with(self, first: int, told: bool) -> None:
        seconds = np.random.default_rng(7).normal(1, 0.005, (3, 12))
        seconds[1, first:] += 0.2
        each = np.arange(3, dtype=np.int32)
        divided = division(range(3), ends((), 0)[:12])
        work = ComputeTime(each, each, seconds, each, each, absolute=True)
        assert bool(accused((work,), divided, topology(3))) == told

    def test_a_server_that_holds_half_of_a_job_can_be_the_slow_one(self) -> None:
        flows = [
            flow for gpu in (0, 1) for flow in shaken(_of_gpu(replicas(2, 1, (1, 0), range(16, 24)), gpu), 5, ms=0.2)
        ]
        (one,) = found(flows, ends(range(16, 24), MORE_MS), topology(2, 2), links(([0, 1], [2, 3])))
        assert (one.subject, one.first_step) == ("host-01", 16)

    def test_waiting_inside_a_server_is_no_compute_time(self) -> None:
        slow = range(16, 24)
        flows = [flow for flow in replicas(3, 2, (2, 0), slow) if abs(flow.src - flow.dst) > 1]
        over = ends(slow, MORE_MS)
        last_seen = [end - MORE_MS * (step in slow) for step, end in enumerate(over)]
        seen = traffic(flows)
        kinds, divided = typed(seen, links(self.PAIRS)), division(range(6), [over, last_seen] * 3)
        (work,) = measure_compute_time(
            seen, kinds, divided, ordered(seen, kinds, divided), topology(len(divided.endpoints)), PARAMS.compute
        )
        assert work.seconds[1, 17:] == pytest.approx(work.seconds[1, 1:8], abs=1e-6)
        assert (work.seconds[4, 17:] > 1.1 * work.seconds[4, 1:8]).all()

    def test_what_is_slow_for_long_does_not_become_its_own_past(self) -> None:
        seconds = np.random.default_rng(7).normal(1, 0.005, (3, STEPS))
        seconds[1, 2:] += 0.2
        each = np.arange(3, dtype=np.int32)
        work = ComputeTime(each, each, seconds, each, each, absolute=True)
        divided = division(range(3), ends((), 0))
        _, alone, _ = compare((work,), divided, {}, PARAMS.compute)
        assert not alone.score.any()
        _, remembered, _ = compare((work,), divided, {1: 1.0}, PARAMS.compute)
        assert np.flatnonzero(remembered.score[1]).tolist() == list(range(2, STEPS))
        assert not remembered.score[[0, 2]].any()

    def test_of_whom_no_work_is_seen_nothing_is_too_much(self) -> None:
        seconds = np.random.default_rng(7).normal(1, 0.005, (3, STEPS))
        seconds[1] = np.where(np.arange(STEPS) < STEPS // 2, 0.0, 1e-9)
        each = np.arange(3, dtype=np.int32)
        work = ComputeTime(each, each, seconds, each, each, absolute=True)
        _, past, _ = compare((work,), division(range(3), ends((), 0)), {}, PARAMS.compute)
        assert np.isnan(past.excess[1]).all()
        assert not past.score.any()

    def exchanging(self, length_ms: float) -> tuple[ComputeTime, ...]:
        """The work of four replicas of two stages, whose ranks of a stage exchange data inside each step."""
        grid = ([0, 1, 2, 3], [4, 5, 6, 7])
        flows = replicas(2, 4, None, ())
        inner = [
            Flow(a, b, 1000 * step + 30, length_ms, MB)
            for step in range(STEPS)
            for stage in grid
            for a, b in ((stage[0], stage[2]), (stage[1], stage[3]))
        ]
        seen = traffic([*flows, *inner])
        kinds = typed(seen, links(grid))
        kind = np.where(np.isin(seen.pair_src % 4, (0, 1)) & (seen.pair_dst - seen.pair_src == 2), CP, kinds.kind)
        kind = kind.astype(np.uint8)
        return measured([*flows, *inner], ends((), 0), PairKinds(kind, np.ones(len(kind)), kind[seen.pair]))[0]

    def test_time_of_exchanges_inside_is_not_work(self) -> None:
        (*_, plain), (*_, longer) = self.exchanging(10), self.exchanging(20)
        assert plain.absolute
        assert np.nanmedian(plain.seconds - longer.seconds) == pytest.approx(0.01, abs=1e-6)

    def test_exchanges_beside_the_work_take_nothing_from_it(self) -> None:
        (*_, much), (*_, more) = self.exchanging(300), self.exchanging(400)
        assert np.nanmedian(much.seconds - more.seconds) == 0

    def test_two_that_are_late_at_once_are_not_told_apart(self) -> None:
        steps = range(8, 24)
        both = [*late_ring(range(6), 2, steps), *late_ring(range(6, 12), 8, steps)]
        assert found(both, ends(steps, 150), topology(12)) == ()


def test_lateness_beyond_a_step_is_ignored() -> None:
    """Of eight ranks whose last one is late in eight steps of a second, or seems to be by three of them."""

    def scores(late_s: float) -> list[bool]:
        seconds = np.random.default_rng(5).normal(0, 0.002, (8, 16))
        seconds[7, 4:12] += late_s
        nobody = np.arange(8, dtype=np.int32)
        work = ComputeTime(nobody, np.zeros(8, dtype=np.int32), seconds, nobody, nobody, absolute=False)
        divided = division(range(8), [STEP_MS * step for step in range(1, 17)])
        (compared,) = compare([work], divided, {}, PARAMS.compute)
        return [bool((row > 0).any()) for row in compared.score]

    assert scores(0.8) == [False] * 7 + [True]
    assert scores(3.0) == [False] * 8


@pytest.mark.parametrize(
    "carried, blur_ms",
    [(True, 0.0), (True, 3.0), (False, 0.0)],
    ids=["carried on", "carried on, by blurred clocks", "caught up with"],
)
def test_lateness_that_is_carried_on_counts_once(carried: bool, blur_ms: float) -> None:
    """Two rings of four, of which one rank works 10 ms longer before each of eight rounds, in every step."""
    chance = np.random.default_rng(9)
    flows = []
    for step in range(STEPS):
        late = np.zeros(8)
        for turn in range(8):
            fresh = chance.normal(0, 2, 8)
            fresh[2] += 10
            late = np.maximum(late * carried + fresh, -20)
            for rank in range(8):
                other = rank // 4 * 4 + (rank + 1) % 4
                begin = 1000 * step + 115 * turn
                at = begin + 20 + max(late[rank], late[other]) + (chance.normal(0, blur_ms) if blur_ms else 0)
                flows.append(Flow(rank, other, at, begin + 112 - at, MB))
    seen = traffic(flows)
    kind = np.full(8, CP, np.uint8)
    (work,), _ = measured(flows, ends((), 0), PairKinds(kind, np.ones(8), kind[seen.pair]))
    assert 0.07 < np.nanmedian(work.seconds[2]) < 0.15  # added up, what is carried on comes to 0.36 s
    assert np.abs(np.nanmedian(work.seconds[4:], axis=1)).max() < 0.02


def test_a_slow_rank_parts_rounds_that_run_together() -> None:
    """Three buckets are reduced one right after the other, but for those of a rank that takes its time with each."""
    slow = range(12, 20)
    flows = []
    for step, end in enumerate(ends(slow, MORE_MS)):
        for rank in range(8):
            hop, late = (rank, (rank + 1) % 8), step in slow and 3 in (rank, (rank + 1) % 8)
            waits = MORE_MS if step in slow else 0
            parts = [(110, 30), (70, 20), (30, 20)] if late else [(110 + waits, 100 + waits)]
            flows += [Flow(*hop, end - before, ms, 60 * MB // len(parts)) for before, ms in parts]
    one, *others = found(flows, ends(slow, MORE_MS), topology(8, 1))
    assert not others
    assert (one.kind, one.subject, one.first_step, one.last_step) == ("slow_gpu", "10.0.103.0", 12, 19)
