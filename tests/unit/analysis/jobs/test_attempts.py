"""Attempts: a job stopped and begun anew is neither one that paused nor another that follows it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.jobs import attempts as stage
from prism_ch.analysis.jobs import job_traffic, presence
from prism_ch.analysis.jobs.attempts import Attempts, find_attempts
from prism_ch.analysis.jobs.presence import find_presences
from prism_ch.model.params import RecogniseParams
from tests.unit.analysis.build import MB, Flow, buckets, every, job, renamed, ring, shaken, shifted, topology, traffic

PARAMS = RecogniseParams()
WHERE = topology(8)
#: Ten steps of a second from the beginning on, and ten from 30 s on.
EARLY, LATE = every(1000, 10, 1000), every(1000, 10, 31_000)
GRID = ((0, 1), (2, 3))


def attempts(flows: Sequence[Flow]) -> Attempts:
    seen = traffic(flows)
    every_pair = np.ones(len(seen.pair_src), dtype=bool)
    return find_attempts(seen, every_pair, ~every_pair, WHERE, PARAMS)


def as_lists(found: Attempts) -> list[tuple[list[int], int]]:
    """Who is in each attempt, and what it follows, in the order of time."""
    order = np.argsort(found.first_ns, kind="stable").tolist()
    return [
        (found.members(attempt).tolist(), order.index(b) if (b := int(found.follows[attempt])) >= 0 else -1)
        for attempt in order
    ]


def test_attempts_of_which_none_joins_another_stay_as_they_are() -> None:
    found = attempts([*ring([0, 1, 2], EARLY), *ring([0, 1, 3], LATE), *ring([4, 5], EARLY)])
    same, turned = (rows.astype(np.int32) for rows in (np.arange(len(found)), np.arange(len(found))[::-1]))
    alone, again = found.joined(same), found.joined(turned).joined(turned)
    assert len(found) > 1
    assert alone.of_burst is found.of_burst
    for name in ("of_burst", "follows", "attempt", "endpoint", "first_ns", "last_ns"):
        assert getattr(alone, name).tolist() == getattr(again, name).tolist(), name


def mesh(members: Sequence[int], from_ms: float) -> list[Flow]:
    """Everybody meets everybody."""
    pairs = [(a, b) for a in members for b in members if a != b]
    return [Flow(a, b, from_ms + 10 * place, 1, 15_000) for place, (a, b) in enumerate(pairs)]


def test_bursts_looked_at_some_at_a_time_tell_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restart shows by what pairs usually move: however few of their bursts are looked at together."""
    before = shaken([*job(GRID, 10), *ring([4, 5, 6], EARLY)], 1)
    after = shifted(renamed(job(GRID, 10), [0, 1, 6, 7]), 30_000)
    whole = attempts([*before, *after])
    for module in (stage, presence, job_traffic):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", 1)
    parts = attempts([*before, *after])
    assert len(whole) > 1
    assert as_lists(parts) == as_lists(whole)
    assert parts.of_burst.tolist() == whole.of_burst.tolist()


@pytest.mark.parametrize("rows", [1, 7, 10**6])
def test_quartiles_are_those_of_each_place(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(stage, "ROWS_AT_ONCE", rows)
    seen = traffic(shaken([*job(GRID, 6), *buckets([4, 5, 6], EARLY, [30 * MB, 9 * MB], 50)], 1))
    every_pair = np.ones(len(seen.pair_src), dtype=bool)
    present = find_presences(seen, every_pair, ~every_pair, WHERE, PARAMS)
    assert len(present) > 3
    low, high = stage._quartiles(present, np.arange(len(present), dtype=np.int32)[::-1], len(present) + 1)
    of_each = [present.traffic.payload[present.of_burst == row] for row in range(len(present))][::-1]
    assert low[:-1].tolist() == [float(np.quantile(each, 0.25)) for each in of_each]
    assert high[:-1].tolist() == [float(np.quantile(each, 0.75)) for each in of_each]
    assert np.isnan([low[-1], high[-1]]).all()


class TestOneAttempt:
    def test_nothing_is_none(self) -> None:
        assert len(attempts([])) == 0
        assert len(attempts([Flow(0, 1, 0)])) == 0

    def test_a_job_that_goes_on(self) -> None:
        found = attempts(shaken(job(GRID, 20), 1))
        assert as_lists(found) == [([0, 1, 2, 3], -1)]
        assert len(found.traffic) == len(found.of_burst)

    @pytest.mark.parametrize("pause_ms", [3000, 20_000, 600_000])
    def test_a_job_that_pauses(self, pause_ms: float) -> None:
        flows = job(GRID, 10) + shifted(job(GRID, 10), 10_000 + pause_ms)
        assert as_lists(attempts(shaken(flows, 1))) == [([0, 1, 2, 3], -1)]

    def test_a_job_that_pauses_in_its_first_step(self) -> None:
        # What the pipelines and what the rings move in it does not overlap, and joins no endpoints of all.
        flows = job(GRID, 1) + shifted(job(GRID, 10), 8000)
        assert as_lists(attempts(shaken(flows, 1))) == [([0, 1, 2, 3], -1)]

    def test_a_rail_that_is_lost_for_a_while(self) -> None:
        flows = ring([0, 1, 2], every(1000, 30)) + ring([3, 4, 5], EARLY + LATE)
        assert as_lists(attempts(flows)) == [([0, 1, 2], -1), ([3, 4, 5], -1)]

    def test_a_pair_that_is_silent_while_its_endpoints_work_on(self) -> None:
        flows = ring([0, 1, 2], every(1000, 40)) + [Flow(0, 2, at - 500) for at in EARLY + LATE]
        found = attempts(flows)
        assert as_lists(found) == [([0, 1, 2], -1)]
        assert (0, 2) in set(zip(found.traffic.src.tolist(), found.traffic.dst.tolist(), strict=True))

    def test_a_member_that_joins_while_the_others_work_on(self) -> None:
        flows = ring([0, 1, 2], every(1000, 40)) + ring([2, 3], LATE)
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1)]

    def test_messages_of_varied_sizes_are_no_other_amounts(self) -> None:
        chance = np.random.default_rng(3)
        flows = [
            Flow(a, b, at, size=round(40 * MB * chance.lognormal(0, 0.3)))
            for at in EARLY + LATE
            for a in range(4)
            for b in range(4)
            if a != b
        ]
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1)]

    def test_buckets_of_several_sizes_are_no_other_amounts(self) -> None:
        flows = buckets([0, 1, 2], EARLY + LATE, [10 * MB, 40 * MB, 80 * MB], 200)
        assert as_lists(attempts(flows)) == [([0, 1, 2], -1)]


class TestAnotherAttempt:
    def test_half_of_the_servers_are_others(self) -> None:
        flows = job(GRID, 10) + shifted(renamed(job(GRID, 10), [2, 3, 4, 5]), 30_000)
        assert as_lists(attempts(shaken(flows, 1))) == [([0, 1, 2, 3], -1), ([2, 3, 4, 5], 0)]

    def test_a_server_is_lost_and_comes_back(self) -> None:
        flows = ring([0, 1, 2, 3], EARLY) + ring([0, 1, 3], LATE) + ring([0, 1, 2, 3], every(1000, 10, 61_000))
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1), ([0, 1, 3], 0), ([0, 1, 2, 3], 1)]

    def test_restart_is_seen_when_pairs_lost_two_steps(self) -> None:
        whole = ring([0, 1, 2, 3], every(1000, 10)) + ring([0, 1, 3], every(1000, 10, 11_500))
        lost = {(0, 1, 2960), (0, 1, 5960), (0, 1, 14_460)}
        flows = [flow for flow in whole if (flow.src, flow.dst, flow.start_ms) not in lost]
        assert len(flows) == len(whole) - len(lost)
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1), ([0, 1, 3], 0)]

    def test_the_same_servers_move_other_amounts(self) -> None:
        flows = ring([0, 1, 2], EARLY) + ring([0, 1, 2], LATE, size=60 * MB)
        assert as_lists(attempts(flows)) == [([0, 1, 2], -1), ([0, 1, 2], 0)]

    def test_all_meet_before_they_go_on_as_before(self) -> None:
        flows = ring(range(6), EARLY) + mesh(range(6), 25_000) + ring(range(6), LATE)
        assert as_lists(attempts(flows)) == [(list(range(6)), -1), (list(range(6)), 0)]

    def test_few_that_meet_make_no_other_attempt(self) -> None:
        flows = ring(range(6), EARLY) + mesh([0, 3], 25_000) + ring(range(6), LATE)
        assert as_lists(attempts(flows)) == [(list(range(6)), -1)]

    def test_small_messages_by_which_ranks_connect_belong_to_none(self) -> None:
        hello = [Flow(a, b, 25_000, 1, 300_000) for a, b in ((0, 1), (1, 4), (4, 3))]
        (before, _), (after, _) = as_lists(
            found := attempts(ring([0, 1, 2, 3], EARLY) + hello + ring([0, 1, 4, 3], LATE))
        )
        assert (before, after) == ([0, 1, 2, 3], [0, 1, 3, 4])
        assert int(found.last_ns.min()) < int(traffic(hello).start_ns.min()) < int(found.first_ns.max())

    def test_one_takes_over_from_two_that_ended_at_different_times(self) -> None:
        flows = ring([0, 1, 2], EARLY) + ring([3, 4, 5], every(1000, 15)) + ring([1, 2, 3, 4], LATE)
        assert as_lists(attempts(flows)) == [([3, 4, 5], -1), ([0, 1, 2], -1), ([1, 2, 3, 4], 0)]

    def test_two_take_over_from_one(self) -> None:
        flows = ring([0, 1, 2, 3], EARLY) + ring([0, 1], LATE) + ring([2, 3], [at + 2000 for at in LATE])
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1), ([0, 1], 0), ([2, 3], 0)]

    @pytest.mark.parametrize("come", [[], every(100, 2, 1500)])
    def test_what_has_come_and_does_not_yet_recur_is_left_for_later(self, come: list[float]) -> None:
        again = ring([0, 1, 3], LATE[:2])
        flows = [*ring([0, 1, 2, 3], EARLY), *(Flow(1, 3, at) for at in come), *again]
        found = attempts(flows)
        assert as_lists(found) == [([0, 1, 2, 3], -1)]
        assert int(found.last_ns[0]) < int(traffic(again).start_ns.min())

    def test_preparation_of_a_job_is_no_attempt_of_it(self) -> None:
        broadcast = [Flow(0, 3, 10 * place, 8, 40 * MB) for place in range(30)]
        flows = broadcast + shifted(ring([0, 1, 2, 3], EARLY), 2000)
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1)]

    def test_preparation_between_two_attempts_is_none(self) -> None:
        broadcast = [Flow(0, 4, 25_000 + 10 * place, 8, 40 * MB) for place in range(30)]
        flows = ring([0, 1, 2, 3], EARLY) + broadcast + ring([0, 1, 4, 3], LATE)
        assert as_lists(attempts(flows)) == [([0, 1, 2, 3], -1), ([0, 1, 3, 4], 0)]
