"""Reconstruct: steps follow on one another, phases tile them, and the last to be ready is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from prism_ch.analysis.steps.phases import lateness_s, reconstruct
from prism_ch.model.columns import Float64, Int64
from prism_ch.model.job import Division
from prism_ch.model.result import PHASES, PackedTimeline, Reconstruction
from tests import naive
from tests.unit.analysis.build import BEGIN_NS, MS, Flow, division, every, pipeline, ring, traffic, typed

PHASE = {name: code for code, name in enumerate(PHASES)}


def rebuilt(
    flows: Sequence[Flow],
    steps: Division,
    *,
    pp: Sequence[tuple[int, int]] = (),
    other: Sequence[tuple[int, int]] = (),
    first_step: int = 0,
    start_ns: Int64 | None = None,
    tick_ms: float = 0,
) -> Reconstruction:
    seen = traffic(flows, tick_ms=tick_ms)
    return reconstruct(seen, typed(seen, pp, other), steps, first_step, start_ns)


def at(*moments_ms: float) -> Int64:
    return np.array([BEGIN_NS + round(moment * MS) for moment in moments_ms])


def phases(packed: PackedTimeline, endpoint: int) -> list[tuple[int, str, int, int]]:
    """One endpoint's phases as (step, name, start ms, end ms)."""
    timeline = packed.rows()
    mine = timeline.take(timeline.endpoint == endpoint)
    start, end = ((column - BEGIN_NS) // MS for column in (mine.start_ns, mine.end_ns))
    names = [PHASES[code] for code in mine.phase]
    return list(zip(mine.step.tolist(), names, start.tolist(), end.tolist(), strict=True))


class TestPhases:
    def test_phases_are_collectives_pipelines_and_the_rest_compute(self) -> None:
        flows = [Flow(0, 1, 100, 50), Flow(1, 0, 200, 50), Flow(0, 2, 400, 100)]
        found = rebuilt(flows, division([0, 1, 2], [500]), pp=[(0, 1)], start_ns=at(0, 0, 0))
        assert phases(found.timeline, 0) == [
            (0, "compute", 0, 100),
            (0, "PP", 100, 150),
            (0, "compute", 150, 200),
            (0, "PP", 200, 250),
            (0, "compute", 250, 400),
            (0, "DP", 400, 500),
        ]
        assert phases(found.timeline, 2) == [(0, "compute", 0, 400), (0, "DP", 400, 500)]

    def test_where_both_move_it_is_dp(self) -> None:
        flows = [Flow(0, 1, 100, 200), Flow(0, 2, 200, 300)]
        found = rebuilt(flows, division([0, 1, 2], [500]), pp=[(0, 1)], start_ns=at(0, 0, 0))
        assert phases(found.timeline, 0) == [(0, "compute", 0, 100), (0, "PP", 100, 200), (0, "DP", 200, 500)]

    def test_a_flow_across_a_boundary_counts_in_both_steps(self) -> None:
        found = rebuilt([Flow(0, 1, 50, 100)], division([0, 1], [100, 200]), start_ns=at(0, 0))
        assert phases(found.timeline, 0) == [
            (0, "compute", 0, 50),
            (0, "DP", 50, 100),
            (1, "DP", 100, 150),
            (1, "compute", 150, 200),
        ]

    def test_other_traffic_is_compute(self) -> None:
        found = rebuilt(
            [Flow(0, 1, 50, 100), Flow(0, 2, 0, 40)], division([0, 1], [200]), other=[(0, 2)], start_ns=at(0, 0)
        )
        assert phases(found.timeline, 0) == [(0, "compute", 0, 50), (0, "DP", 50, 150), (0, "compute", 150, 200)]

    def test_seconds_are_of_phases_and_of_jobs_their_means(self) -> None:
        flows = [Flow(0, 1, 100, 50), Flow(0, 2, 400, 100)]
        found = rebuilt(flows, division([0, 1, 2], [500]), pp=[(0, 1)], start_ns=at(0, 0, 0))
        assert found.gpu_steps.compute_s.tolist() == pytest.approx([0.35, 0.45, 0.4])
        assert found.gpu_steps.pp_s.tolist() == pytest.approx([0.05, 0.05, 0.0])
        assert found.gpu_steps.dp_s.tolist() == pytest.approx([0.1, 0.0, 0.1])
        assert found.steps.compute_s.tolist() == pytest.approx([0.4])
        assert found.steps.pp_s.tolist() == pytest.approx([0.1 / 3])
        assert found.steps.dp_s.tolist() == pytest.approx([0.2 / 3])


class TestSteps:
    def test_a_step_begins_where_the_one_before_it_ended(self) -> None:
        found = rebuilt(
            ring([0, 1], [100, 200, 350]), division([0, 1], [100, 200, 350]), start_ns=at(10, 20), first_step=7
        )
        assert found.steps.step.tolist() == [7, 8, 9]
        assert found.steps.start_ns.tolist() == at(20, 100, 200).tolist()
        assert found.steps.end_ns.tolist() == at(100, 200, 350).tolist()
        assert found.gpu_steps.endpoint.tolist() == [0, 0, 0, 1, 1, 1]
        assert found.gpu_steps.start_ns.tolist() == at(10, 100, 200, 20, 100, 200).tolist()

    def test_a_job_ends_a_step_with_its_last_endpoint(self) -> None:
        found = rebuilt(ring([0, 1], [100, 200]), division([0, 1], [[90, 190], [100, 200]]), start_ns=at(0, 0))
        assert found.steps.end_ns.tolist() == at(100, 200).tolist()
        assert found.gpu_steps.end_ns.tolist() == at(90, 190, 100, 200).tolist()

    def test_an_end_before_the_beginning_makes_a_step_without_length(self) -> None:
        # On endpoint 0 a step was said to end at 100; now the next seems to end at 90, and the one after at 80.
        found = rebuilt(ring([0, 1], [300]), division([0, 1], [[90, 80, 300], [150, 200, 300]]), start_ns=at(100, 100))
        mine = found.gpu_steps.take(found.gpu_steps.endpoint == 0)
        assert mine.start_ns.tolist() == at(100, 100, 100).tolist()
        assert mine.end_ns.tolist() == at(100, 100, 300).tolist()

    def test_a_step_of_the_job_without_length_is_not_complete(self) -> None:
        steps = division([0, 1], [[100, 400, 200, 500], [100, 150, 250, 500]])
        found = rebuilt(ring([0, 1], [500]), steps, start_ns=at(0, 0))
        assert found.steps.end_ns.tolist() == at(100, 400, 400, 500).tolist()
        assert found.steps.complete.tolist() == [1, 1, 0, 1]

    def test_first_step_has_typical_length_if_traffic_reaches_back(self) -> None:
        flows = [Flow(0, 1, -5000), *ring([0, 1], every(1000, 5, 1000))]
        found = rebuilt(flows, division([0, 1], every(1000, 5, 1000)))
        assert found.steps.start_ns[0] == BEGIN_NS
        assert found.steps.complete.tolist() == [1] * 5

    def test_first_step_is_as_long_as_the_next_ones(self) -> None:
        # What slowed the first steps ends after four of them.
        ends = [3000, 6000, 9000, 12000, *every(1000, 20, 13000)]
        found = rebuilt([Flow(0, 1, -5000), *ring([0, 1], ends)], division([0, 1], ends))
        assert found.steps.start_ns[0] == BEGIN_NS
        cut = rebuilt([Flow(0, 1, 1500), *ring([0, 1], ends)], division([0, 1], ends))
        assert cut.steps.start_ns[0] == BEGIN_NS + 1500 * MS
        assert cut.steps.complete.tolist()[:2] == [0, 1]

    def test_the_job_begins_a_step_when_the_last_has_ended_one(self) -> None:
        """As it does any later one, however long before others ended theirs."""
        flows = [Flow(0, 1, -5000), *ring([0, 1], every(1000, 5, 1000))]
        found = rebuilt(flows, division([0, 1], [every(1000, 5, 600), every(1000, 5, 1000)]))
        assert found.steps.start_ns.tolist() == at(*every(1000, 5)).tolist()
        assert found.gpu_steps.start_ns[0] == BEGIN_NS - 400 * MS

    def test_first_step_begins_unseen_with_the_traffic_otherwise(self) -> None:
        flows = [Flow(0, 1, 300), *ring([0, 1], every(1000, 5, 1000))]
        found = rebuilt(flows, division([0, 1], every(1000, 5, 1000)))
        assert found.steps.start_ns[0] == BEGIN_NS + 300 * MS
        assert found.steps.complete.tolist() == [0, 1, 1, 1, 1]
        assert found.gpu_steps.complete.tolist() == [0, 1, 1, 1, 1] * 2

    def test_a_first_step_of_little_began_before_the_traffic(self) -> None:
        """However long that reaches back: something slows the step that data begin amid, and ends with it."""
        ends = every(1000, 5, 4000)
        cut = replace(division([0, 1], ends), whole=np.array([False, True, True, True, True]))
        found = rebuilt([Flow(0, 1, 200), *ring([0, 1], ends)], cut)
        assert found.steps.start_ns[0] == BEGIN_NS + 200 * MS
        assert found.steps.complete.tolist() == [0, 1, 1, 1, 1]

    def test_what_the_division_did_not_see_whole_is_not_complete(self) -> None:
        whole = division([0, 1], every(1000, 3, 1000))
        cut = Division(whole.endpoints.copy(), whole.end_ns.copy(), np.array([False, True, True]))
        found = rebuilt([Flow(0, 1, -5000), *ring([0, 1], every(1000, 3, 1000))], cut)
        assert found.steps.complete.tolist() == [0, 1, 1]

    def test_one_step_alone_begins_with_the_traffic(self) -> None:
        found = rebuilt(ring([0, 1], [1000]), division([0, 1], [1000]))
        assert found.steps.start_ns.tolist() == at(960).tolist()
        assert found.steps.complete.tolist() == [0]

    def test_no_steps_nothing(self) -> None:
        found = rebuilt(ring([0, 1], [1000]), Division.none(np.array([0, 1], np.int32)))
        assert len(found.steps) == len(found.gpu_steps) == len(found.timeline) == 0


class TestLateness:
    ENDS = every(1000, 9, 1000)

    def late(self, flows: Sequence[Flow], steps: Division, pp: Sequence[tuple[int, int]] = ()) -> Float64:
        seen = traffic(flows)
        return lateness_s(seen, typed(seen, pp), steps)

    def test_who_begins_as_usual_is_not_late(self) -> None:
        # The stages begin to reduce at different moments, but always at the same ones.
        flows = ring([0, 1], self.ENDS, length_ms=100) + ring([2, 3], self.ENDS, length_ms=40)
        late = self.late(flows, division(range(4), self.ENDS))
        assert late[:, 1:].tolist() == [[0.0] * 8] * 4  # when the first step began is not known

    def test_who_is_touched_last_made_the_others_wait(self) -> None:
        # In the fifth step the neighbours of endpoint 2 begin with one another, and with 2 only 300 ms later.
        usual = ring([0, 1, 2, 3], [end for end in self.ENDS if end != 5000], length_ms=100)
        waiting = [Flow(0, 1, 4600, 400), Flow(3, 0, 4600, 400), Flow(1, 2, 4900, 100), Flow(2, 3, 4900, 100)]
        late = self.late(usual + waiting, division(range(4), self.ENDS))
        assert np.argmax(late[:, 4]) == 2
        assert late[2, 4] == 0.0
        assert late[0, 4] == pytest.approx(-0.3)

    def test_pipelines_tell_where_there_are_no_collectives(self) -> None:
        flows = pipeline([0, 1], every(1000, 9), microbatches=1)
        ends = [end + 300 for end in every(1000, 9)]
        assert self.late(flows, division([0, 1], ends), pp=[(0, 1)])[:, 1:].tolist() == [[0.0] * 8] * 2

    def test_an_endpoint_without_closing_traffic_is_never_late(self) -> None:
        late = self.late(ring([0, 1], self.ENDS), division([0, 1, 2], self.ENDS))
        assert late[2].tolist() == [0.0] * 9

    def test_no_steps(self) -> None:
        assert self.late(ring([0, 1], self.ENDS), Division.none(np.array([0, 1], np.int32))).shape == (2, 0)


message = st.builds(
    Flow,
    src=st.just(0),
    dst=st.sampled_from([1, 2]),
    start_ms=st.integers(0, 60).map(lambda ns: ns / MS),
    length_ms=st.integers(0, 20).map(lambda ns: ns / MS),
)


@settings(deadline=None)
@given(st.lists(message, max_size=8), st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_phases_tile_steps_as_a_naive_look_at_every_ns(flows: list[Flow], lengths_ns: list[int]) -> None:
    edges = np.cumsum([0, *lengths_ns]).tolist()
    steps = division([0, 1, 2], [edge / MS for edge in edges[1:]])
    found = rebuilt(disjoint(flows), steps, pp=[(0, 2)], start_ns=at(0, 0, 0)).timeline.rows()
    for endpoint in range(3):
        labelled = [
            (flow.start_ns, flow.end_ns, PHASE["PP" if flow.dst == 2 else "DP"])
            for flow in flows
            if endpoint in (flow.src, flow.dst)
        ]
        expected = [
            (step, *piece)
            for step, (begin, end) in enumerate(pairwise(edges))
            for piece in naive.tile(
                (BEGIN_NS + begin, BEGIN_NS + end), labelled, (PHASE["DP"], PHASE["PP"]), PHASE["compute"]
            )
        ]
        mine = found.take(found.endpoint == endpoint)
        columns = (mine.step, mine.start_ns, mine.end_ns, mine.phase)
        assert list(zip(*(column.tolist() for column in columns), strict=True)) == expected


def disjoint(flows: list[Flow]) -> list[Flow]:
    """The flows with those of one pair that meet joined: bursts of a pair never overlap."""
    return [
        Flow(0, dst, (start - BEGIN_NS) / MS, (end - start) / MS)
        for dst in (1, 2)
        for start, end in naive.merge([(flow.start_ns, flow.end_ns) for flow in flows if flow.dst == dst])
    ]
