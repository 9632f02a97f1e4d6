"""Account: counts add up, each once, and silence is news once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.continuity.continuity import ContinuedJob, RebuiltAttempt
from prism_ch.analysis.continuity.publish import absorbed, job_revision, silent_jobs, unchanged
from prism_ch.model.flow_cut import FlowCut
from prism_ch.model.job import PairKinds
from prism_ch.model.memory import Attempt, JobMemory, JobRevision, UsualComputeTime
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import DP, OTHER, PP, Group, JobStatus, Pairs, Steps
from tests.unit.analysis.build import (
    BEGIN_NS,
    MB,
    MS,
    Flow,
    batch,
    continued_job,
    division,
    earlier_flows,
    every,
    job,
    job_traffic,
    known_job,
    links,
    rebuilt_attempt,
    renamed,
    ring,
    shifted,
    traffic,
    typed,
)

SECOND = 10**9
PARAMS = ContinueParams()
GRID = ((0, 1), (2, 3))


def examined(
    flows: Sequence[Flow],
    ends_ms: Sequence[float],
    memory: JobMemory | None = None,
    settled: bool = False,
) -> ContinuedJob:
    """What a working would find of a job of two stages on two replicas whose steps end at the given moments."""
    attempt = examined_attempt(flows, ends_ms, len(memory.steps) if memory is not None and settled else 0)
    found = continued_job([attempt], memory)
    seen = job_traffic(attempt.bursts, batch(flows))
    found = replace(found, flows=seen.flows)
    if memory is None or not settled:
        return found
    return replace(found, before=memory, steps=Steps.concat([memory.steps, found.steps]))


def examined_attempt(flows: Sequence[Flow], ends_ms: Sequence[float], first_step: int = 0) -> RebuiltAttempt:
    """What a working would find of one attempt of such a job."""
    seen = traffic(flows)
    kinds = typed(seen, links(GRID), other=[(0, 3)])
    steps = division(sorted({e for flow in flows for e in (flow.src, flow.dst)}), ends_ms)
    return rebuilt_attempt(seen, kinds, steps, first_step)


def published(found: ContinuedJob, earlier: Sequence[Flow] = ()) -> JobRevision:
    """The rows of a job of which nothing is found to be wrong, some flows of which are counted already."""
    return job_revision(found, earlier_flows(batch(earlier)), (), UsualComputeTime())


def pairs_of(revision: JobRevision) -> dict[tuple[int, int], tuple[int, int]]:
    """Kind and count of flows of each pair."""
    pairs = revision.pairs
    counted = zip(pairs.kind.tolist(), pairs.flows.tolist(), strict=True)
    return dict(zip(zip(pairs.src.tolist(), pairs.dst.tolist(), strict=True), counted, strict=True))


class TestNewJob:
    FLOWS = (*job(GRID, 10), Flow(0, 3, 5000, size=MB))

    def revision(self, memory: JobMemory | None = None) -> JobRevision:
        return published(examined(self.FLOWS, every(1000, 10, 1000), memory))

    def test_the_job_in_short(self) -> None:
        record = self.revision().job
        assert (record.job_id, record.tenant, record.status) == ("job", "acme", "running")
        assert (record.dp_size, record.pp_size, record.steps) == (2, 2, 10)
        assert record.step_s_median == pytest.approx(1.0)
        assert record.first_seen_ns == min(flow.start_ns for flow in self.FLOWS)
        assert record.last_seen_ns == max(flow.end_ns for flow in self.FLOWS)

    def test_sizes_are_those_of_its_groups(self) -> None:
        alone = published(examined(ring([0, 1, 2], every(1000, 10, 1000)), every(1000, 10, 1000)))
        assert (alone.job.dp_size, alone.job.pp_size) == (3, 1)

    def test_pairs_without_bursts_are_counted_as_other(self) -> None:
        found = examined(self.FLOWS, every(1000, 10, 1000))
        flows = batch([*self.FLOWS, Flow(3, 9, 100, size=0)])
        more = replace(found, flows=FlowCut(flows))
        assert pairs_of(published(more))[3, 9] == (OTHER, 1)

    def test_everything_is_said_from_the_beginning(self) -> None:
        revision = self.revision()
        assert (revision.from_step, revision.from_time_ns) == (0, 0)
        assert revision.steps.step.tolist() == list(range(10))

    def test_every_pair_is_counted_and_named(self) -> None:
        pairs = pairs_of(self.revision())
        assert pairs[0, 1] == (DP, 10)
        assert pairs[0, 2] == (PP, 40)
        assert pairs[0, 3] == (OTHER, 1)
        assert len(pairs) == 9

    def test_bytes_are_those_on_the_wire(self) -> None:
        assert int(self.revision().pairs.bytes.sum()) == int(batch(self.FLOWS).bytes.sum())

    def test_little_is_believed_of_pairs_that_could_not_be_named(self) -> None:
        pairs = self.revision().pairs
        assert pairs.confidence[pairs.kind == OTHER].tolist() == [0.5]
        assert (pairs.confidence[pairs.kind != OTHER] == 1.0).all()

    def test_members_are_seen_from_their_first_to_their_last_flow(self) -> None:
        members = self.revision().members
        assert members.endpoint.tolist() == [0, 1, 2, 3]
        assert members.pp_stage.tolist() == [0, 0, 1, 1]
        mine = [flow for flow in self.FLOWS if 2 in (flow.src, flow.dst)]
        assert members.first_seen_ns[2] == min(flow.start_ns for flow in mine)
        assert members.last_seen_ns[2] == max(flow.end_ns for flow in mine)

    def test_unsettled_job_is_published_anew_and_keeps_its_age(self) -> None:
        old = known_job("job", [0, 1, 2, 3], steps=2)
        earlier = replace(old, job=replace(old.job, first_seen_ns=BEGIN_NS - SECOND))
        revision = self.revision(earlier)
        assert revision.from_step == 0
        assert revision.job.first_seen_ns == BEGIN_NS - SECOND
        assert pairs_of(revision) == pairs_of(self.revision())

    def test_the_median_is_of_whole_steps_and_zero_without_one(self) -> None:
        alone = published(examined(ring([0, 1], [1000]), [1000]))
        assert alone.steps.complete.tolist() == [0]
        assert (alone.job.steps, alone.job.step_s_median) == (1, 0.0)


class TestSettledJob:
    """Ten steps of a second are known; the window begins after them, the traffic looked at three steps before."""

    FLOWS = tuple(ring([0, 1], every(1000, 6, 8000), length_ms=40))
    STATE = known_job("job", [0, 1, 7], steps=10)

    def revision(self, pairs: Pairs | None = None) -> JobRevision:
        memory = self.STATE if pairs is None else replace(self.STATE, pairs=pairs)
        return published(examined(self.FLOWS, every(1000, 3, 11_000), memory, settled=True), earlier=self.FLOWS[:4])

    def test_new_steps_are_added(self) -> None:
        revision = self.revision()
        assert (revision.from_step, revision.steps.step.tolist(), revision.job.steps) == (10, [10, 11, 12], 13)
        assert revision.from_time_ns == BEGIN_NS + 10 * SECOND

    def test_flows_counted_before_the_window_count_once(self) -> None:
        earlier = published(examined(self.FLOWS[:4], [8000, 9000]))
        both = self.revision(earlier.pairs)
        # Those that end at 8 and 9 s were counted then, those at 10 to 13 s are now.
        assert pairs_of(earlier) == {(0, 1): (DP, 2), (1, 0): (DP, 2)}
        assert pairs_of(both) == {(0, 1): (DP, 6), (1, 0): (DP, 6)}
        assert both.job.first_seen_ns == BEGIN_NS
        assert both.pairs.first_seen_ns.tolist() == [flow.start_ns for flow in self.FLOWS[:2]]
        assert both.pairs.last_seen_ns.tolist() == [flow.end_ns for flow in self.FLOWS[-2:]]

    def test_kinds_found_now_win_and_pairs_of_old_stay(self) -> None:
        one = np.ones(2, np.int64)
        old = Pairs(
            np.array([0, 0], np.int32),
            np.array([1, 7], np.int32),
            np.array([PP, PP], np.uint8),
            np.full(2, 0.9),
            5 * one,
            100 * one,
            one,
            2 * one,
        )
        assert pairs_of(self.revision(old)) == {(0, 1): (DP, 9), (0, 7): (PP, 5), (1, 0): (DP, 6)}

    def test_the_median_is_of_all_known_steps(self) -> None:
        assert self.revision().job.step_s_median == 1.0


def test_where_all_flows_are_counted_already_counts_stay() -> None:
    flows = TestSettledJob.FLOWS
    first = published(examined(flows, [8000]))
    record = replace(TestSettledJob.STATE.job, last_seen_ns=first.job.last_seen_ns)
    memory = replace(TestSettledJob.STATE, job=record, pairs=first.pairs)
    revision = published(examined(flows, [11_000], memory, settled=True), earlier=flows)
    np.testing.assert_array_equal(revision.pairs.flows, memory.pairs.flows)


class TestLives:
    """Two stages on four endpoints make ten steps; then the second stage is on two others and makes five."""

    FIRST, SECOND_LIFE = job(GRID, 10), shifted(renamed(job(GRID, 5), [0, 1, 4, 5]), 30_000)

    def revision(self, memory: JobMemory | None = None) -> JobRevision:
        one = examined_attempt(self.FIRST, every(1000, 10, 1000))
        seen = traffic(self.SECOND_LIFE)
        kinds, steps = typed(seen, [(0, 4), (1, 5)]), division([0, 1, 4, 5], every(1000, 5, 31_000))
        start_ns = np.full(4, BEGIN_NS + 10 * SECOND)
        other = rebuilt_attempt(seen, kinds, steps, 10, start_ns, one.groups.groups)
        found = continued_job([one, other], memory, before=memory, newest=Attempt(10, BEGIN_NS, 4))
        flows = FlowCut(batch([*self.FIRST, *self.SECOND_LIFE]))
        return published(replace(found, flows=flows, steps=one.rebuilt.steps))

    def test_steps_follow_on_one_another(self) -> None:
        revision = self.revision()
        assert revision.steps.step.tolist() == list(range(15))
        gpu = revision.gpu_steps
        assert gpu.step[gpu.endpoint == 2].tolist() == list(range(10))
        assert gpu.step[gpu.endpoint == 0].tolist() == list(range(15))
        phases = revision.timeline.rows()
        np.testing.assert_array_equal(np.lexsort((phases.start_ns, phases.endpoint)), np.arange(len(phases)))

    def test_groups_are_listed_once_and_keep_their_numbers(self) -> None:
        found = [(group.group_id, group.kind, group.members) for group in self.revision().groups]
        assert found == [
            (0, DP, (0, 1)),
            (1, DP, (2, 3)),
            (2, PP, (0, 2)),
            (3, PP, (1, 3)),
            (4, DP, (4, 5)),
            (5, PP, (0, 4)),
            (6, PP, (1, 5)),
        ]

    def test_members_have_the_place_of_their_newest_attempt(self) -> None:
        members = self.revision().members
        assert members.endpoint.tolist() == list(range(6))
        assert members.dp_group.tolist() == [0, 0, 1, 1, 4, 4]
        assert members.pp_stage.tolist() == [0, 0, 1, 1, 1, 1]

    def test_earlier_attempts_stay_as_published(self) -> None:
        known = known_job("job", [0, 1, 6, 7], steps=10)
        members = replace(known.members, dp_group=np.array([0, 0, 1, 9], np.int32))
        memory = replace(known, members=members, groups=(Group(0, DP, 0, (0, 1)), Group(1, DP, 0, (6, 8))))
        revision = self.revision(memory)
        assert [group.members for group in revision.groups[:2]] == [(0, 1), (6, 8)]
        where = dict(zip(revision.members.endpoint.tolist(), revision.members.dp_group.tolist(), strict=True))
        # 7 had no group, and has a number of its own beyond those of all groups.
        assert (where[0], where[7] >= len(revision.groups)) == (0, True)

    def test_pair_kind_is_of_the_newest_attempt_with_training(self) -> None:
        pairs = pairs_of(self.revision())
        assert pairs[2, 3] == (DP, 10)
        assert pairs[0, 1] == (DP, 15)
        assert pairs[0, 4] == (PP, 20)

    def test_an_attempt_that_is_not_read_again_names_no_pair(self) -> None:
        flows = FlowCut(batch(self.FIRST))
        read = examined_attempt(self.FIRST, every(1000, 10, 1000))
        nothing = read.bursts.keep_pairs(np.zeros(len(read.bursts.pair_src), dtype=bool))
        kinds = PairKinds(read.kinds.kind[:0], read.kinds.confidence[:0], read.kinds.burst[:0])
        old = replace(read, traffic=replace(read.traffic, bursts=nothing), kinds=kinds)
        for attempts in ([read], [old, read]):
            found = replace(continued_job(attempts, None, newest=Attempt()), flows=flows, steps=read.rebuilt.steps)
            assert pairs_of(published(found))[0, 1] == (DP, 10)

    def test_a_pair_that_trains_no_more_is_called_as_before(self) -> None:
        one = np.ones(1, np.int64)
        ends, kind = np.array([[0], [3]], np.int32), np.array([PP], np.uint8)
        old = Pairs(ends[0], ends[1], kind, np.array([0.9]), one, one, one, one)
        memory = replace(known_job("job", [0, 3], steps=10), pairs=old)
        flows = [*ring([0, 1], every(1000, 3, 11_000)), Flow(0, 3, 12_000)]
        found = replace(examined(flows, every(1000, 3, 11_000), memory, settled=True), newest=Attempt(5, BEGIN_NS, 0))
        assert pairs_of(published(found))[0, 3] == (PP, 2)
        young = replace(found, newest=Attempt(5, 0, 0))
        assert pairs_of(published(young))[0, 3] == (OTHER, 2)

    def test_pair_counts_from_its_beginning_when_new_to_the_job(self) -> None:
        flows = ring([0, 1], every(1000, 6, 8000))
        memory = replace(TestSettledJob.STATE, pairs=published(examined(ring([2, 3], [9000]), [9000])).pairs)
        found = examined(flows, every(1000, 3, 11_000), memory, settled=True)
        assert pairs_of(published(found, earlier=flows[:4]))[0, 1] == (DP, 6)


class TestSilence:
    """A job that made ten steps of two seconds and was last seen at 20 s."""

    def status_after(self, silent_s: float, **known: float | str) -> JobStatus | None:
        memory = known_job("job", [0, 1], steps=10, step_s=2.0)
        if known:
            memory = replace(memory, job=replace(memory.job, **known))  # type: ignore[arg-type]
        changed = silent_jobs([memory], BEGIN_NS + round((20 + silent_s) * SECOND), {}, PARAMS)
        return changed[0].job.status if changed else None

    @pytest.mark.parametrize(
        "silent_s, status", [(0, None), (5.9, None), (6.1, "stalled"), (599, "stalled"), (601, "ended")]
    )
    def test_silence_is_a_stall_after_steps_and_the_end_later(self, silent_s: float, status: JobStatus | None) -> None:
        assert self.status_after(silent_s) == status

    def test_what_was_said_before_is_no_news(self) -> None:
        assert self.status_after(100, status="stalled") is None
        assert self.status_after(700, status="stalled") == "ended"
        assert self.status_after(9000, status="ended") is None

    def test_quick_steps_are_given_some_seconds(self) -> None:
        assert self.status_after(2.5, step_s_median=0.2) is None
        assert self.status_after(3.5, step_s_median=0.2) == "stalled"

    def test_steps_of_minutes_are_given_minutes(self) -> None:
        assert self.status_after(890, step_s_median=300.0) is None
        assert self.status_after(910, step_s_median=300.0) == "ended"

    def test_a_job_without_a_whole_step_may_be_inside_a_long_one(self) -> None:
        assert self.status_after(500, step_s_median=0.0) is None
        assert self.status_after(601, step_s_median=0.0) == "ended"

    def test_all_else_stays_as_it_was(self) -> None:
        memory = known_job("job", [0, 1], steps=10, step_s=2.0)
        (published,) = silent_jobs([memory], BEGIN_NS + 100 * SECOND, {}, PARAMS)
        assert replace(published.job, status="running") == memory.job
        assert (published.from_step, published.from_time_ns) == (10, BEGIN_NS + 20 * SECOND)
        assert (published.members, published.pairs) == (memory.members, memory.pairs)


def test_unchanged_says_no_new_step_and_withdraws_later_ones() -> None:
    memory = known_job("job", [0, 1], steps=10)
    published = unchanged(memory)
    assert (published.from_step, published.from_time_ns) == (10, BEGIN_NS + 10 * SECOND)
    assert len(published.steps) == len(published.gpu_steps) == len(published.timeline) == 0
    assert (published.job, published.members) == (memory.job, memory.members)


class TestAbsorbed:
    """A pipeline was seen before the gradients that make it a part of a job on endpoints 0 to 3."""

    WHOLE = published(examined(TestNewJob.FLOWS, every(1000, 10, 1000)))

    def part(self, endpoints: Sequence[int], job_id: str = "part", since_ms: float = 1000) -> JobMemory:
        memory = known_job(job_id, endpoints, steps=1)
        return replace(memory, job=replace(memory.job, first_seen_ns=BEGIN_NS + round(since_ms * MS)))

    def test_a_part_of_a_job_said_anew_is_absorbed(self) -> None:
        assert absorbed([self.part([0, 2])], [self.WHOLE]) == ("part",)

    def test_the_job_itself_is_not(self) -> None:
        assert absorbed([self.part([0, 2], job_id="job")], [self.WHOLE]) == ()

    def test_nor_what_has_an_endpoint_elsewhere(self) -> None:
        assert absorbed([self.part([0, 9])], [self.WHOLE]) == ()

    def test_nor_what_was_seen_before_the_whole(self) -> None:
        assert absorbed([self.part([0, 2], since_ms=-1)], [self.WHOLE]) == ()

    def test_nor_what_a_settled_job_has_grown_over(self) -> None:
        grown = replace(self.WHOLE, from_step=64, from_time_ns=BEGIN_NS + 64 * SECOND)
        assert absorbed([self.part([0, 2])], [grown]) == ()
