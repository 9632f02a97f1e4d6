"""Resume: what is published stays as it is, and new steps go on from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.continuity.resume import (
    begin_anew,
    confirms,
    evenness,
    go_on,
    is_slow,
    keep_known_kinds,
    known_kinds,
    known_steps,
    what_stays,
)
from prism_ch.analysis.observe.known_jobs import active_jobs, of_past_attempts
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.memory import Attempt, JobMemory
from prism_ch.model.params import ContinueParams
from prism_ch.model.result import DP, EP, OTHER, PP, GpuSteps, Group, Pairs, Steps
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, batch, division, every, known_job, traffic

PARAMS = ContinueParams(settled_steps=10, recent_steps=4, judged_steps=3)
SETTLED = known_job("job", [0, 1], steps=10)  # ten steps of a second each


@pytest.mark.parametrize(
    "steps, examined, settled",
    [(10, 10, True), (20, 10, True), (9, 0, False), (3, 3, False), (4, 4, True), (7, 5, True), (8, 5, False)],
    ids=["all seen", "for good", "not sure", "too few", "four", "not yet doubled", "doubled"],
)
def test_a_job_is_settled_until_its_steps_have_doubled(steps: int, examined: int, settled: bool) -> None:
    assert known_job("job", [0, 1], steps=steps, examined=examined).is_settled(PARAMS) == settled


def test_a_settled_job_is_looked_at_from_some_steps_back() -> None:
    assert SETTLED.context_start_ns(PARAMS) == BEGIN_NS + 6 * 1000 * MS


def restarted(steps: int, first_step: int = 6, examined: int | None = None) -> JobMemory:
    """A job whose second attempt began with a given step, a group of the first one, and steps of a second."""
    memory = known_job("job", [0, 1], steps=steps)
    seen = steps - first_step if examined is None else examined
    attempt = Attempt(first_step, BEGIN_NS + first_step * 1000 * MS, 1, examined=seen)
    groups = (Group(0, DP, 0, (0, 1)), Group(1, DP, 0, (0, 2)))
    return replace(memory, attempt=attempt, groups=groups)


def slow_step(first_step: int) -> Finding:
    """A slow step of a second that begins when so many have ended."""
    begin_ns = BEGIN_NS + first_step * 1000 * MS
    return Finding(
        str(first_step),
        "slow_step",
        "job",
        "job",
        first_step,
        first_step,
        begin_ns,
        begin_ns + 1000 * MS,
        "open",
        "info",
        *(0.0,) * 4,
        summary="",
    )


class TestAttempts:
    def test_job_settles_when_its_newest_attempt_has_steps(self) -> None:
        assert not restarted(9).is_settled(PARAMS)
        assert restarted(10).is_settled(PARAMS)

    def test_a_young_attempt_is_read_from_its_beginning(self) -> None:
        assert restarted(15).read_from_ns(PARAMS) == BEGIN_NS + 6000 * MS
        assert restarted(16).read_from_ns(PARAMS) == BEGIN_NS + 12_000 * MS
        assert known_job("job", [0, 1], steps=9).read_from_ns(PARAMS) == BEGIN_NS

    def test_of_a_job_that_is_looked_at_again_nothing_stays(self) -> None:
        assert what_stays(None, PARAMS) is None
        assert what_stays(known_job("job", [0, 1], steps=9, examined=5), PARAMS) is None

    def test_settled_job_stays_but_for_its_newest_groups(self) -> None:
        assert what_stays(SETTLED, PARAMS) == SETTLED
        stays = what_stays(restarted(16), PARAMS)
        assert stays is not None
        assert (len(stays.steps), len(stays.gpu_steps), len(stays.groups)) == (16, 32, 1)

    def test_of_a_young_attempt_what_was_before_it_stays(self) -> None:
        early, late = (slow_step(first_step) for first_step in (2, 7))
        stays = what_stays(replace(restarted(15, examined=0), findings=(early, late)), PARAMS)
        assert stays is not None
        assert (len(stays.steps), len(stays.gpu_steps), len(stays.groups)) == (6, 12, 1)
        assert stays.findings == (early,)

    def test_steps_follow_those_before_and_the_first_is_cut(self) -> None:
        known = SETTLED
        found = begin_anew(division([1, 5], [21_000, 22_000]), known.steps, known.gpu_steps)
        assert (found.first_step, found.division.whole.tolist()) == (10, [False, True])
        assert found.start_ns is not None
        assert found.start_ns.tolist() == [BEGIN_NS + 10_000 * MS] * 2

    def test_steps_that_ended_by_then_are_known(self) -> None:
        known = SETTLED
        found = begin_anew(division([1, 5], [9000, 10_000, 11_000, 12_000]), known.steps, known.gpu_steps)
        assert (found.division.job_end_ns() - BEGIN_NS).tolist() == [11_000 * MS, 12_000 * MS]
        assert found.division.whole.tolist() == [False, True]

    def test_the_first_attempt_follows_nothing(self) -> None:
        found = begin_anew(division([0, 1], [1000, 2000]), Steps.empty(), GpuSteps.empty())
        assert (found.first_step, found.start_ns, found.division.whole.tolist()) == (0, None, [True, True])


class TestEndpointsThatChangeHands:
    """Endpoints 0 to 3 worked for one job until 10 s, 2 to 5 for another until 20 s."""

    OLD, NEW = known_job("old", [0, 1, 2, 3], steps=10), known_job("new", [2, 3, 4, 5], steps=20)

    @pytest.mark.parametrize(
        "active, working", [([2, 3], ["new"]), ([0, 2], ["old", "new"]), ([1], ["old"]), ([9], []), ([], [])]
    )
    def test_they_work_for_the_job_that_was_there_last(self, active: list[int], working: list[str]) -> None:
        flows = batch([Flow(end, 8, 21_000) for end in active])
        assert [memory.job.job_id for memory in active_jobs([self.OLD, self.NEW], flows)] == working

    def test_what_a_job_that_is_over_moved_is_told(self) -> None:
        flows = [Flow(2, 3, at) for at in (9000, 10_500, 11_500, 21_000)] + [Flow(4, 5, 9000)]
        past = of_past_attempts(batch(flows), [self.OLD, self.NEW], [self.NEW])
        assert past.tolist() == [True, False, False, False, False]

    def test_the_step_that_it_may_have_begun_is_told_too(self) -> None:
        old = replace(self.OLD, job=replace(self.OLD.job, last_seen_ns=BEGIN_NS + 30_000 * MS))
        flows = [Flow(2, 3, at) for at in (9000, 10_500, 11_500, 21_000)]
        assert of_past_attempts(batch(flows), [old, self.NEW], [self.NEW]).tolist() == [True, True, False, False]

    def test_of_a_job_without_steps_all_that_was_seen_is_told(self) -> None:
        old = replace(self.OLD, steps=Steps.empty())
        assert of_past_attempts(batch([Flow(2, 3, 9000), Flow(2, 3, 10_500)]), [old], []).tolist() == [True, False]

    def test_what_an_earlier_attempt_moved_is_told(self) -> None:
        flows = [Flow(0, 1, at) for at in (5900, 6100, 7000)]
        twice = restarted(15)
        assert of_past_attempts(batch(flows), [twice], [twice]).tolist() == [True, False, False]


class TestSteps:
    def test_steps_are_new_when_they_end_after_published_ones(self) -> None:
        found = go_on(division([0, 1], [7000, 8000, 9000, 10_000, 11_000, 12_000]), SETTLED, PARAMS)
        assert found.first_step == 10
        assert found.division.job_end_ns().tolist() == [BEGIN_NS + 11_000 * MS, BEGIN_NS + 12_000 * MS]

    @pytest.mark.parametrize("again_ms", [9_800, 10_000, 10_200])
    def test_published_boundary_found_a_little_off_is_not_new(self, again_ms: float) -> None:
        found = go_on(division([0, 1], [again_ms, 11_000]), SETTLED, PARAMS)
        assert found.division.job_end_ns().tolist() == [BEGIN_NS + 11_000 * MS]

    def test_new_steps_begin_where_each_endpoint_ended(self) -> None:
        gpu_steps = SETTLED.gpu_steps
        ends = gpu_steps.end_ns.copy()
        ends[gpu_steps.endpoint == 1] -= 30 * MS
        skewed = replace(SETTLED, gpu_steps=replace(gpu_steps, end_ns=ends))
        found = go_on(division([0, 1], [11_000]), skewed, PARAMS)
        assert found.start_ns is not None
        assert found.start_ns.tolist() == [BEGIN_NS + 10_000 * MS, BEGIN_NS + 9_970 * MS]

    def test_new_endpoint_begins_with_the_job_and_old_is_gone(self) -> None:
        found = go_on(division([1, 5], [11_000]), SETTLED, PARAMS)
        assert found.division.endpoints.tolist() == [1, 5]
        assert found.start_ns is not None
        assert found.start_ns.tolist() == [BEGIN_NS + 10_000 * MS] * 2

    def test_endpoints_go_on_when_the_last_by_number_left(self) -> None:
        found = go_on(division([0], [11_000]), SETTLED, PARAMS)
        assert found.start_ns is not None
        assert found.start_ns.tolist() == [BEGIN_NS + 10_000 * MS]

    def test_first_new_step_is_whole_when_context_is_cut(self) -> None:
        looked_at = division([0, 1], [11_000, 12_000])
        cut = Division(looked_at.endpoints.copy(), looked_at.end_ns.copy(), np.array([False, True]))
        assert go_on(cut, SETTLED, PARAMS).division.whole.tolist() == [True, True]

    def test_known_steps_of_a_settled_job_are_the_newest_ones(self) -> None:
        mine = SETTLED.gpu_steps
        ends = mine.end_ns - 30 * MS * (mine.endpoint == 1)
        late = (mine.endpoint == 1) & (mine.step < 8)  # joined with step 8
        memory = replace(SETTLED, gpu_steps=replace(mine, end_ns=ends).take(~late))
        found = known_steps(memory, PARAMS)
        assert found is not None
        assert found.endpoints.tolist() == [0, 1]
        assert ((found.end_ns - BEGIN_NS) // MS).tolist() == [[7000, 8000, 9000, 10_000], [7000, 8000, 8970, 9970]]

    def test_nothing_new(self) -> None:
        found = go_on(division([0, 1], [9000, 10_000]), SETTLED, PARAMS)
        assert (found.division.steps, found.first_step) == (0, 10)
        assert go_on(Division.none(np.array([0, 1], np.int32)), SETTLED, PARAMS).division.steps == 0


class TestKnownSteps:
    YOUNG = ContinueParams(settled_steps=64, recent_steps=6)

    def ended(self, *ends_s: float) -> Division:
        """A division into steps that end so long after the job began."""
        return division([0, 1], [1000 * end for end in ends_s])

    def test_of_a_young_job_all_steps_are_known_once_they_are_enough(self) -> None:
        found = known_steps(known_job("job", [0, 1], steps=4, examined=0), self.YOUNG)
        assert found is not None
        assert found.steps == 4
        assert known_steps(known_job("job", [0, 1], steps=3, examined=0), self.YOUNG) is None
        assert known_steps(None, self.YOUNG) is None

    def test_known_steps_end_where_a_young_job_became_slow(self) -> None:
        memory = restarted(20, first_step=4, examined=0)
        attempt = replace(memory.attempt, even_until=9)
        found = known_steps(replace(memory, attempt=attempt), self.YOUNG)
        assert found is not None
        assert ((found.job_end_ns() - BEGIN_NS) // 10**9).tolist() == list(range(5, 14))

    def test_division_confirms_known_steps_a_little_off(self) -> None:
        known = self.ended(*range(1, 9))
        assert confirms(self.ended(1, 2.1, 2.9, *range(4, 12)), known, self.YOUNG)

    @pytest.mark.parametrize(
        "ends_s",
        [
            [2, 4, 6, 8, 10],
            [1 + half / 2 for half in range(16)],
            [4, 5, 6, 7, 8, 9],
            [1.5 + step for step in range(9)],
            [],
        ],
        ids=["every other", "halves", "later ones only", "other edges", "none"],
    )
    def test_other_steps_do_not(self, ends_s: list[float]) -> None:
        assert not confirms(self.ended(*ends_s), self.ended(*range(1, 9)), self.YOUNG)

    @pytest.mark.parametrize(
        "newest_s, slow",
        [
            ([1.3, 1.3], True),
            ([1.3, 1.3, 0.5], True),
            ([1.05, 1.05], False),
            ([1.3], False),
            ([1.0, 1.0, 1.0, 5.0], False),
            ([*[2.5] * 4, *[1.0] * 8], True),
        ],
        ids=["two", "and a part of one", "by little", "one", "a single one", "and quick again"],
    )
    def test_job_is_slow_when_steps_since_the_known_ones_are(self, newest_s: list[float], slow: bool) -> None:
        assert self.is_slow([0.97, 0.99, 1.01, 1.03] * 2, newest_s) is slow

    @pytest.mark.parametrize("jitter_s, slow", [(0.002, True), (0.02, False)], ids=["even ones", "uneven ones"])
    def test_steps_are_slow_by_little_if_they_vary_by_less(self, jitter_s: float, slow: bool) -> None:
        known_s = [1 + jitter_s * share for share in (-1, -0.5, 0, 0.5, 1)] * 3
        assert self.is_slow(known_s, [1.05] * 4) is slow

    def is_slow(self, known_s: list[float], newest_s: list[float]) -> bool:
        known = self.ended(*np.cumsum(known_s).tolist())
        return is_slow(self.ended(*np.cumsum([*known_s, *newest_s]).tolist()), known, known.steps, self.YOUNG)

    @pytest.mark.parametrize(
        "ends_s, even",
        [(range(9), 1.0), ([0, 1, 2, 3, 5, 7, 9], 0.8), ([0, 1, 4, 5, 7, 10], 0.0), ([0, 1], 0.0)],
        ids=["even", "slow from some step on", "joined at random", "one step"],
    )
    def test_steps_are_as_even_as_neighbours_are_alike(self, ends_s: Sequence[float], even: float) -> None:
        assert evenness(self.ended(*ends_s), self.YOUNG) == even

    def test_slow_steps_count_since_all_were_looked_at(self) -> None:
        known = self.ended(*range(1, 9), 10, 12, *range(13, 23))
        assert is_slow(self.ended(*range(1, 9), 10, 12, *range(13, 25)), known, 8, self.YOUNG)
        assert not is_slow(self.ended(*range(1, 9), 10, 12, *range(13, 25)), known, 20, self.YOUNG)


class TestKinds:
    SEEN = traffic([Flow(a, b, at) for a, b in ((0, 1), (1, 0), (2, 3)) for at in every(100, 2)])

    def found(self, *kinds: int) -> PairKinds:
        """Kinds of the three pairs as they are found now, without much confidence."""
        kind = np.array(kinds, np.uint8)
        return PairKinds(kind, np.full(3, 0.6), kind[self.SEEN.pair])

    def known(self, pairs: Sequence[tuple[int, int, int]]) -> Pairs:
        """Pairs known of before as (src, dst, kind), with great confidence."""
        src, dst, kind = np.array(pairs).reshape(-1, 3).T
        one, certain = np.ones(len(src), np.int64), np.full(len(src), 0.99)
        return Pairs(src.astype(np.int32), dst.astype(np.int32), kind.astype(np.uint8), certain, one, one, one, one)

    def kept(self, now: PairKinds, known: Sequence[tuple[int, int, int]]) -> PairKinds:
        return keep_known_kinds(now, self.SEEN, replace(SETTLED, pairs=self.known(known)), PARAMS)

    def test_pair_keeps_its_kind_and_a_new_one_gets_todays(self) -> None:
        found = self.kept(self.found(DP, PP, PP), [(1, 0, DP), (0, 1, DP)])
        assert found.kind.tolist() == [DP, DP, PP]
        assert found.confidence.tolist() == [0.99, 0.99, 0.6]
        assert found.burst.tolist() == [DP, DP, DP, DP, PP, PP]

    def test_a_pair_that_was_other_may_turn_out_to_be_something(self) -> None:
        found = self.kept(self.found(DP, DP, DP), [(0, 1, DP), (2, 3, OTHER)])
        assert found.kind.tolist() == [DP, DP, DP]
        assert found.confidence.tolist() == [0.99, 0.6, 0.6]

    def test_where_both_agree_bursts_keep_kinds_of_their_own(self) -> None:
        mixed = replace(self.found(DP, DP, DP), burst=np.array([DP, PP, DP, DP, DP, PP], np.uint8))
        assert self.kept(mixed, [(0, 1, DP), (2, 3, DP)]).burst.tolist() == [DP, PP, DP, DP, DP, PP]

    def test_pair_of_two_kinds_keeps_both_when_the_larger_changes(self) -> None:
        # A larger batch: the exchange of experts moves more than the gradients on the same pair now.
        mixed = replace(self.found(EP, EP, EP), burst=np.array([DP, EP, EP, EP, EP, EP], np.uint8))
        found = self.kept(mixed, [(0, 1, DP), (1, 0, DP), (2, 3, EP)])
        assert found.kind.tolist() == [DP, DP, EP]
        assert found.burst.tolist() == [DP, EP, DP, DP, EP, EP]

    def test_pairs_that_carried_one_kind_get_no_second_one(self) -> None:
        # While somebody waits, messages run into one another: the larger bursts look like another collective.
        plain = replace(SETTLED, attempt=replace(SETTLED.attempt, is_plain=True), pairs=self.known([(0, 1, DP)]))
        merged = replace(self.found(EP, DP, DP), burst=np.array([EP, DP, DP, EP, DP, EP], np.uint8))
        found = keep_known_kinds(merged, self.SEEN, plain, PARAMS)
        of_known = found.burst[self.SEEN.pair == 0]
        assert found.kind.tolist() == [DP, DP, DP]
        assert set(of_known.tolist()) == {DP}
        assert EP in found.burst[self.SEEN.pair > 0]

    @pytest.mark.parametrize(
        "known, is_plain",
        [([(0, 1, DP), (1, 0, PP), (2, 3, EP)], True), ([(0, 1, DP), (1, 0, PP), (2, 3, EP)], False)]
        + [(known, True) for known in ([(0, 1, DP), (1, 0, PP)], [(0, 1, DP), (1, 0, PP), (2, 3, OTHER)], [])],
    )
    def test_what_all_pairs_were_needs_no_look(self, known: list[tuple[int, int, int]], is_plain: bool) -> None:
        memory = replace(SETTLED, attempt=replace(SETTLED.attempt, is_plain=is_plain), pairs=self.known(known))
        found = known_kinds(self.SEEN, memory)
        assert (found is not None) == (is_plain and len(known) == 3 and known[2][2] == EP)
        if found is not None:
            kept = keep_known_kinds(self.found(OTHER, DP, DP), self.SEEN, memory, PARAMS)
            for name in ("kind", "confidence", "burst"):
                np.testing.assert_array_equal(getattr(found, name), getattr(kept, name))

    def test_nothing_known_changes_nothing(self) -> None:
        now = self.found(DP, PP, OTHER)
        assert self.kept(now, []) is now
