"""A restart moves the same bytes a step, on whatever servers; another job does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.continuity.same_job import Load, goes_on, is_too_early, join_attempts, measure_load
from prism_ch.model.job import FOREVER_NS, RecognisedJob
from prism_ch.model.params import ContinueParams
from tests.unit.analysis.build import MB, Flow, division, every, job, links, ring, traffic, typed

PARAMS = ContinueParams()
GRID = ((0, 1, 2), (3, 4, 5))


def load(flows: Sequence[Flow], steps: int = 10, grid: Sequence[Sequence[int]] = GRID) -> Load | None:
    """What flows of a job with steps of a second from the beginning on are measured to move."""
    seen = traffic(flows)
    members = sorted({end for flow in flows for end in (flow.src, flow.dst)})
    return measure_load(seen, typed(seen, links(grid)), division(members, every(1000, steps, 1000)))


def measured(flows: Sequence[Flow]) -> Load:
    found = load(flows)
    assert found is not None
    return found


class TestLoad:
    def test_of_a_pipelined_job(self) -> None:
        found = measured(job(GRID, 10))
        assert found.endpoints.tolist() == list(range(6))
        assert (found.message, found.relayed, found.reduced) == (8 * MB, 4 * 8 * MB, 40 * MB)
        assert (found.replicas, found.step_s) == (3, 1.0)
        assert found.seen_s == pytest.approx(10.0, abs=0.1)

    def test_of_replicas_and_of_a_pipeline_alone(self) -> None:
        replicas, pipeline = measured(ring([0, 1, 2], every(1000, 10, 1000))), measured(job([[0], [3]], 10))
        assert (replicas.message, replicas.relayed, replicas.reduced) == (0, 0, 40 * MB)
        assert (pipeline.message, pipeline.reduced, pipeline.replicas) == (8 * MB, 0, 1)

    def test_is_that_of_the_median_step(self) -> None:
        more = [Flow(src, dst, 4500 + at) for src, dst in ((0, 3), (3, 0)) for at in range(100, 400, 50)]
        assert measured([*job(GRID, 10), *more]).relayed == 4 * 8 * MB

    def test_records_that_are_lost_here_and_there_leave_it_as_it_is(self) -> None:
        flows = job(GRID, 10)
        assert measured([flow for place, flow in enumerate(flows) if place % 13]).relayed == measured(flows).relayed
        assert measured([flow for place, flow in enumerate(flows) if place % 13]).reduced == measured(flows).reduced

    def test_takes_two_steps_after_the_first(self) -> None:
        assert load(job(GRID, 3), 3) is not None
        assert load(job(GRID, 3), 2) is None


class TestGoingOn:
    BEFORE = measured(job(GRID, 10))

    def goes_on(self, **other: float) -> bool:
        return goes_on(self.BEFORE, replace(self.BEFORE, **other), 0.5, PARAMS)  # type: ignore[arg-type]

    def test_the_same_load_does(self) -> None:
        assert self.goes_on()
        assert self.goes_on(reduced=40.5 * MB, step_s=3.0)

    @pytest.mark.parametrize(
        "other", [{"message": 16 * MB}, {"message": 0, "relayed": 0}, {"relayed": 64 * MB}, {"reduced": 60 * MB}]
    )
    def test_another_load_does_not(self, other: dict[str, float]) -> None:
        assert not self.goes_on(**other)

    def test_replicas_may_come_and_go(self) -> None:
        # A ring of three passes 4/3 of the gradients along an edge, one of two 1.
        assert self.goes_on(replicas=2, reduced=30 * MB)
        assert not self.goes_on(replicas=2, reduced=20 * MB)
        assert self.goes_on(replicas=1, reduced=0)

    def test_fewer_replicas_may_share_out_all_microbatches(self) -> None:
        assert self.goes_on(replicas=2, reduced=30 * MB, relayed=48 * MB)
        assert not self.goes_on(replicas=2, reduced=30 * MB, relayed=64 * MB)

    def test_steps_may_be_cut_in_equal_parts_while_few_are_seen(self) -> None:
        halves = {"step_s": 0.5, "relayed": 16 * MB, "reduced": 20 * MB}
        assert self.goes_on(**halves)
        assert not self.goes_on(**halves | {"reduced": 40 * MB})
        assert not self.goes_on(**halves | {"step_s": 1.0})
        other = replace(self.BEFORE, bursts=self.BEFORE.bursts * 1.5, step_s=0.5, relayed=16.0 * MB, reduced=20.0 * MB)
        assert not goes_on(self.BEFORE, other, 0.5, PARAMS)

    @pytest.mark.parametrize("shift, same", [(3, True), (4, False)])
    def test_half_of_the_endpoints_may_be_others(self, shift: int, same: bool) -> None:
        after = replace(self.BEFORE, endpoints=self.BEFORE.endpoints + shift)
        assert goes_on(self.BEFORE, after, 0.5, PARAMS) == same


class TestEarlyDays:
    BEFORE = measured(job(GRID, 10))
    OTHER = replace(BEFORE, reduced=0.0, bursts=BEFORE.bursts * 1.5)

    @pytest.mark.parametrize("seen_s, early", [(2.9, True), (3.0, False)])
    def test_attempt_is_open_when_shorter_than_three_steps(self, seen_s: float, early: bool) -> None:
        assert is_too_early(self.BEFORE, replace(self.OTHER, seen_s=seen_s), PARAMS) == early

    @pytest.mark.parametrize("steps, early", [(63, True), (64, False)])
    def test_so_may_what_moves_the_same_bursts(self, steps: int, early: bool) -> None:
        after = replace(self.OTHER, bursts=self.BEFORE.bursts * 1.01, steps=steps)
        assert is_too_early(self.BEFORE, after, PARAMS) == early

    @pytest.mark.parametrize("seen_s, early", [(5.9, True), (6.0, False)])
    @pytest.mark.parametrize("moved", [{"step_s": 0.3, "reduced": 13.0 * MB}, {"relayed": 48.0 * MB}])
    def test_so_may_what_moves_them_in_few_steps(self, moved: dict[str, float], seen_s: float, early: bool) -> None:
        after = replace(self.BEFORE, seen_s=seen_s, **moved)  # type: ignore[arg-type]
        assert not goes_on(self.BEFORE, after, 0.5, PARAMS)
        assert is_too_early(self.BEFORE, after, PARAMS) == early

    def test_so_may_replicas_that_are_fewer_and_pass_on_as_much_less(self) -> None:
        assert self.BEFORE.replicas == 3
        shared = np.where(self.BEFORE.bursts == 8 * MB, 8 * MB, 40 * MB * (1 / 2) / (2 / 3))
        after = replace(self.OTHER, bursts=shared, replicas=2.0, steps=10)
        assert is_too_early(self.BEFORE, after, PARAMS)
        assert not is_too_early(self.BEFORE, replace(after, replicas=3.0), PARAMS)

    def test_pairs_of_which_one_in_three_moves_other_bursts_do_not(self) -> None:
        assert sorted(set(self.BEFORE.bursts.tolist())) == [8 * MB, 40 * MB]
        bursts = np.where(self.BEFORE.bursts == 8 * MB, 8 * MB, 50 * MB)
        assert not is_too_early(self.BEFORE, replace(self.OTHER, bursts=bursts), PARAMS)


class TestAttemptsOfOneJob:
    """Attempts that take over endpoints from one another, a minute each."""

    LOAD = measured(job(GRID, 10))
    #: Of the same gradients in steps so long that three of the others' take less than three of its own.
    SLOW = replace(LOAD, step_s=5.0, seen_s=50.0)
    OTHER = replace(LOAD, message=16 * MB, steps=100)

    def joined(self, *loads: Load | None, known: str = "") -> list[str]:
        """The names of the attempts of each job; each follows the one before it."""
        names = "abcdef"[: len(loads)]
        attempts = [
            RecognisedJob(
                job_id=name,
                tenant="acme",
                endpoints=self.LOAD.endpoints,
                known=name in known,
                begin_ns=60 * place,
                end_ns=60 * place + 60 if place + 1 < len(loads) else FOREVER_NS,
                follows=names[place - 1] if place else "",
            )
            for place, name in enumerate(names)
        ]
        jobs = join_attempts(attempts[::-1], loads[::-1], 0.5, PARAMS)
        return ["".join(names[::-1][row] for row in job) for job in jobs]

    def test_the_same_load_is_one_job(self) -> None:
        assert self.joined(self.LOAD, self.LOAD, self.LOAD) == ["abc"]

    def test_another_load_is_another_job(self) -> None:
        assert self.joined(self.LOAD, self.OTHER, self.OTHER) == ["a", "bc"]

    def test_an_attempt_too_short_is_passed_over(self) -> None:
        assert self.joined(self.LOAD, None, self.LOAD) == ["ac"]

    def test_one_that_has_just_begun_is_left_for_later(self) -> None:
        assert self.joined(self.LOAD, None) == ["a"]
        assert self.joined(self.SLOW, self.OTHER) == ["a"]

    def test_known_job_goes_on_when_too_short_to_compare(self) -> None:
        assert self.joined(None, self.LOAD, known="a") == ["ab"]

    def test_attempt_is_compared_with_the_last_one_not_left(self) -> None:
        """The passes of a pipeline, each of which looks like an attempt, begin no job of their own."""
        assert self.joined(self.SLOW, self.OTHER, self.OTHER) == ["a"]
        assert self.joined(self.SLOW, self.OTHER, self.SLOW) == ["ac"]
