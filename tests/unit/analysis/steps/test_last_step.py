"""The last step: it has ended where nothing but lost records is missing, and is left for later where more may come."""

from __future__ import annotations

import numpy as np
import pytest

from prism_ch.analysis.steps.steps import divide
from prism_ch.model.params import DivideParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, buckets, every, pipeline, ring, traffic, typed

PARAMS = DivideParams()
GROUP = range(8)
ENDS = every(1000, 20, 1000)


def ends_ms(flows: list[Flow]) -> list[float]:
    seen = traffic(flows)
    members = np.array(sorted({end for flow in flows for end in (flow.src, flow.dst)}), np.int32)
    # Messages of a pipeline show how far the job was looked at; they are no part of what closes a step.
    found = divide(seen, typed(seen, other=[(8, 9)]), members, PARAMS)
    return [(end - BEGIN_NS) / MS for end in found.job_end_ns().tolist()]


def in_buckets(count: int) -> list[Flow]:
    return buckets(GROUP, ENDS, [30 * MB] * count, apart_ms=60)


def without_last_of_first(flows: list[Flow]) -> list[Flow]:
    """All but the last record from endpoint 0 to endpoint 1."""
    last = max((flow for flow in flows if flow.src == 0), key=lambda flow: flow.start_ms)
    return [flow for flow in flows if flow != last]


@pytest.mark.parametrize("count", [2, 4])
def test_a_last_step_that_lacks_a_record_has_ended_once_silence_has_lasted(count: int) -> None:
    flows = without_last_of_first(in_buckets(count))
    assert ends_ms(flows) == pytest.approx(ENDS[:-1])
    assert ends_ms([*flows, Flow(8, 9, 20_010)]) == pytest.approx(ENDS[:-1])
    assert ends_ms([*flows, Flow(8, 9, 20_200)]) == pytest.approx(ENDS)


def test_a_last_step_that_lacks_a_bucket_is_left_for_later() -> None:
    flows = [flow for flow in in_buckets(4) if flow.start_ms < 19_900]
    assert ends_ms([*flows, Flow(8, 9, 20_200)]) == pytest.approx(ENDS[:-1])


@pytest.mark.parametrize("short", [3, 7, 9])
def test_groups_that_lost_half_of_a_last_burst_have_ended_with_the_others(short: int) -> None:
    groups = [ring([2 * g, 2 * g + 1], ENDS) for g in range(10)]
    kept = [flow for g, flows in enumerate(groups) for flow in (flows[:-1] if g < short else flows)]
    assert ends_ms(kept) == pytest.approx(ENDS)


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
def test_a_gradient_that_has_reached_the_first_stage_has_passed_the_links_before(lost: list[tuple[int, int]]) -> None:
    assert ends_of_pipelines_ms(lost) == pytest.approx(ends_of_pipelines_ms([]))


def test_gradients_that_have_not_reached_the_first_stage_are_waited_for() -> None:
    assert ends_of_pipelines_ms([(1, 0), (5, 4)]) == pytest.approx(ends_of_pipelines_ms([])[:-1])
