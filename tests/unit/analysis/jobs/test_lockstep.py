"""Lockstep: parts whose steps keep their distance are one job, as jobs that run by themselves do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from prism_ch.analysis.jobs.lockstep import join_lockstep
from prism_ch.model.columns import Int64
from prism_ch.model.job import RecognisedJob
from prism_ch.model.memory import JobMemory
from prism_ch.model.params import RecogniseParams
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, known_job, topology, traffic

PARAMS = RecogniseParams()
STEPS = 32
#: Two servers of two GPUs: a part has one of each.
WHERE = topology(2, 2)
PARTS = ([0, 3], [1, 2])


def ends(seed: int, steps: int = STEPS, step_ms: float = 1000, part: int = 0) -> Int64:
    """When steps end whose durations vary by a hundredth by chance, and as each part sees it, by a thousandth."""
    shared, own = np.random.default_rng(seed), np.random.default_rng([seed, part])
    moments = np.cumsum(shared.normal(step_ms, step_ms / 100, steps)) + own.normal(0, step_ms / 1000, steps)
    return BEGIN_NS + np.round(moments * 1e6).astype(np.int64)


def joined(
    end_ns: Sequence[Int64],
    known: Sequence[JobMemory] = (),
    where: Topology = WHERE,
    parts: Sequence[Sequence[int]] = PARTS,
    follows: str = "",
) -> list[tuple[list[int], str]]:
    """The endpoints and the name of each job, of parts that are called a, b, and so on."""
    names = {memory.job.job_id for memory in known}
    attempts = [
        RecognisedJob(
            name, where.tenant_names[where.tenant[each[0]]], np.array(each, np.int32), name in names, follows=follows
        )
        for name, each in zip("abcd", parts, strict=False)
    ]
    return [(one.endpoints.tolist(), one.job_id) for one in join_lockstep(attempts, end_ns, known, where, PARAMS)[0]]


APART = [(part, name) for part, name in zip(PARTS, "ab", strict=True)]


def test_nobody_is_in_lockstep() -> None:
    assert joined([], parts=()) == []


@pytest.mark.parametrize("seed", range(8))
def test_steps_that_keep_their_distance_are_one_jobs(seed: int) -> None:
    late = ends(seed, part=1) + 400_000_000
    assert joined([ends(seed), late]) == [([0, 1, 2, 3], "a")]


@pytest.mark.parametrize("seed", range(8))
def test_jobs_that_run_by_themselves_drift_apart(seed: int) -> None:
    assert joined([ends(seed), ends(100 + seed)]) == APART


def test_fewer_steps_show_what_keeps_a_steadier_distance() -> None:
    steps = PARAMS.lockstep_steps // 2
    near, far = ends(1, steps, part=1), ends(1, steps, part=1) + np.arange(steps) % 2 * 20_000_000
    assert joined([ends(1, steps), near]) == [([0, 1, 2, 3], "a")]
    assert joined([ends(1, steps), far]) == APART


def test_few_steps_say_nothing() -> None:
    few = PARAMS.judged_steps - 1
    assert joined([ends(1, few), ends(1, few, part=1)]) == APART
    assert joined([ends(1, 0), ends(1)]) == APART
    later = ends(1, part=1) + (STEPS - few) * 10**9
    assert joined([ends(1), later]) == APART


def test_a_step_more_at_either_end_does_no_harm() -> None:
    assert joined([ends(1)[1:], ends(1, part=1)[:-1]]) == [([0, 1, 2, 3], "a")]


def test_steps_without_any_spread_say_nothing() -> None:
    even = BEGIN_NS + np.arange(STEPS) * 10**9
    assert joined([even, even]) == APART


def test_other_tenants_and_other_servers_are_others() -> None:
    in_step = [ends(1), ends(1, part=1)]
    assert len(joined(in_step, where=topology(2, 2, tenants=("acme", "other")), parts=([0, 1], [2, 3]))) == 2
    assert len(joined(in_step, parts=([0, 1], [2, 3]))) == 2


def test_what_was_apart_for_long_stays_apart() -> None:
    for steps, jobs in ((PARAMS.settled_steps - 1, 1), (PARAMS.settled_steps, 2)):
        known = [known_job("a", PARTS[0], steps=steps, examined=0), known_job("b", PARTS[1], steps=5)]
        assert len(joined([ends(1), ends(1, part=1)], known)) == jobs


def test_what_is_apart_stays_so_until_it_is_looked_at_again() -> None:
    for steps, jobs in ((31, 2), (32, 1)):
        known = [known_job(name, part, steps=steps, examined=16) for name, part in zip("ab", PARTS, strict=True)]
        assert len(joined([ends(1), ends(1, part=1)], known)) == jobs


def test_the_part_that_is_known_gives_its_name() -> None:
    assert joined([ends(1), ends(1, part=1)], [known_job("b", PARTS[1], steps=5)]) == [([0, 1, 2, 3], "b")]


@pytest.mark.parametrize("since, until", [(10, STEPS), (26, STEPS), (10, 20)])
def test_what_slows_one_part_moves_its_ends_and_parts_no_job(since: int, until: int) -> None:
    # For a while steps are 12 % longer, and the second part ends them at another place.
    is_slow = np.isin(np.arange(STEPS), np.arange(since, until))
    slow = np.cumsum(is_slow)
    first, second = ends(1), ends(1, part=1)
    moved = [first + slow * 120_000_000, second + slow * 120_000_000 - is_slow * 160_000_000]
    whole = [known_job("a", [0, 1, 2, 3], steps=26)]
    assert joined(moved) == [([0, 1, 2, 3], "a")]
    assert joined(moved, whole) == [([0, 1, 2, 3], "a")]


@pytest.mark.parametrize("seed", range(8))
def test_a_stop_of_one_of_two_like_jobs_joins_them_not(seed: int) -> None:
    stopped = ends(seed) + np.where(np.arange(STEPS) > 15, 7 * 10**9, 0)
    assert joined([stopped, ends(100 + seed)]) == APART


def test_what_follows_a_part_follows_the_whole() -> None:
    where = topology(2, 3)
    parts, in_step = ([0, 4], [1, 3], [2, 5]), [ends(1), ends(1, part=1), ends(9)]
    names = [
        RecognisedJob(name, "acme", np.array(each, np.int32), False) for name, each in zip("abc", parts, strict=True)
    ]
    names[2] = RecognisedJob("c", "acme", np.array(parts[2], np.int32), False, follows="b")
    attempts, of_parts = join_lockstep(names, in_step, (), where, PARAMS)
    assert [(one.job_id, one.follows) for one in attempts] == [("a", ""), ("c", "a")]
    assert of_parts == [[0, 1], [2]]


def test_parts_that_follow_one_job_are_joined_after_few_steps() -> None:
    """The first server is replaced by the third: both parts go on elsewhere, for a few steps only."""
    where = topology(3, 2)
    places = {"a": [0, 3], "b": [1, 2], "c": [3, 4], "d": [2, 5]}
    before = [ends(1), ends(1, part=1)]

    def found(steps: int, follows: str, known: Sequence[JobMemory] = ()) -> list[list[int]]:
        since = 10**9 * (STEPS + 20)
        after = [ends(2, steps) + since, ends(2, steps, part=1) + since]
        attempts = [
            RecognisedJob(name, "acme", np.array(each, np.int32), name == "a", follows=then)
            for (name, each), then in zip(places.items(), ["", "", *follows], strict=True)
        ]
        return [one.endpoints.tolist() for one in join_lockstep(attempts, [*before, *after], known, where, PARAMS)[0]]

    few = PARAMS.repeats + 1  # the first of one may end before that of the other
    assert found(few, "ab") == [[0, 1, 2, 3], [2, 3, 4, 5]]
    assert found(few - 2, "ab") == [[0, 1, 2, 3], [3, 4], [2, 5]]
    assert found(few, "a ") == [[0, 1, 2, 3], [3, 4], [2, 5]]
    assert found(few, "  ", [known_job("a", range(6), steps=STEPS + few)]) == [[0, 1, 2, 3], [2, 3, 4, 5]]


@pytest.mark.parametrize("slow_from", [0, 8, 12])
def test_part_that_others_wait_for_is_theirs_since_it_is_slow(slow_from: int) -> None:
    """A straggler's part never rests: its bursts seem to be steps. The other rests longer once it is slow."""
    chance = np.random.default_rng(1)
    begin_s = np.cumsum(np.where(np.arange(24) < slow_from, 1.0, 2.0) * chance.normal(1, 0.01, 24))
    busy_s = np.concatenate(
        [
            begin
            - (0.002 if step in (4, 9) else 0.15 if step < slow_from else 0.3)
            - chance.normal(0, 0.001)
            - np.arange(8) * np.where(step < slow_from, 0.1, 0.2)
            for step, begin in enumerate(begin_s)
        ]
    )
    busy_ns = BEGIN_NS + np.sort(np.round(busy_s * 1e9).astype(np.int64))
    end_ns = BEGIN_NS + np.round((begin_s - 0.2) * 1e9).astype(np.int64)
    begin_ns = BEGIN_NS + np.round(begin_s * 1e9).astype(np.int64)
    bursts = {
        row: traffic([Flow(part[0], part[1], (at - BEGIN_NS) / MS, 1) for at in moments.tolist()])
        for row, part, moments in ((0, PARTS[0], begin_ns), (1, PARTS[1], busy_ns))
    }
    attempts = [
        RecognisedJob(name, "", np.array(each, np.int32), False) for name, each in zip("ab", PARTS, strict=True)
    ]
    _, of_parts = join_lockstep(attempts, [end_ns, busy_ns], (), WHERE, PARAMS, bursts)
    assert of_parts == [[0, 1]]
