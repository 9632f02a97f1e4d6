"""Slow groups: a group that needs longer for its bytes than its peers do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import pytest

from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.network.slow_groups import find_slow_groups
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.params import DiagnoseParams
from tests.unit.analysis.build import BEGIN_NS, MB, MS, Flow, division, every, ordered, ring, topology, traffic, typed

PARAMS = DiagnoseParams()
WHERE = topology(24)
ENDS = every(1000, 20, 1000)


def groups(count: int, slow_steps: Collection[int] = (), *, times: float = 2.0, members: int = 2) -> list[Flow]:
    """Groups of some members that reduce for 100 ms a step; the second one for longer in some steps."""
    flows = []
    for number in range(count):
        for step, end in enumerate(ENDS):
            length_ms = 100 * (times if number == 1 and step in slow_steps else 1)
            flows += ring(range(members * number, members * (number + 1)), [end], length_ms=length_ms)
    return flows


def found(flows: Sequence[Flow], first_step: int = 0, steps: Division | None = None) -> tuple[Finding, ...]:
    seen = traffic(flows)
    kinds = typed(seen)
    divided = division(sorted({flow.src for flow in flows}), ENDS) if steps is None else steps
    place = Place("job", first_step, PARAMS)
    return find_slow_groups(seen, kinds, divided, ordered(seen, kinds, divided), place, WHERE)


def test_group_found_in_the_steps_it_is_twice_as_slow() -> None:
    (one,) = found(groups(5, range(6, 12)))
    assert (one.kind, one.subject_type, one.subject, one.confidence) == ("slow_group", "group", "1", 0.62)
    assert (one.first_step, one.last_step, one.status) == (6, 11, "closed")
    assert (one.start_ns, one.end_ns) == (BEGIN_NS + 6000 * MS, BEGIN_NS + 12_000 * MS)
    assert [one.observed, one.expected] == pytest.approx([0.2, 0.1])
    assert one.slowdown == pytest.approx(0.1)  # a tenth of a second is lost in every second
    assert one.severity == "warning"


def test_step_that_all_wait_in_costs_no_more_than_others() -> None:
    slow = groups(5, range(6, 12), times=1.3)
    waiting = [
        replace(flow, start_ms=flow.start_ms - 7 * flow.length_ms, length_ms=8 * flow.length_ms)
        if 8000 < flow.start_ms < 9000
        else flow
        for flow in slow
    ]
    (one,) = found(waiting)
    assert one.evidence["lost_s"] == pytest.approx(6 * 0.03)
    assert one.severity == "info"


def test_it_says_which_endpoints_and_what_to_check() -> None:
    (one,) = found(groups(5, range(6, 12)))
    assert one.summary == (
        "Data-parallel group 1 (10.0.102.0, 10.0.103.0) needs 2 times as long for its bytes as its peers: "
        "check the links between these endpoints."
    )
    (large,) = found(groups(4, range(6, 12), members=5))
    assert "(10.0.105.0, 10.0.106.0, 10.0.107.0 and 2 more)" in large.summary
    assert one.evidence["members"] == ["10.0.102.0", "10.0.103.0"]
    assert one.evidence["ratio_to_peers"] == [2.0] * 6
    assert one.evidence["lost_s"] == pytest.approx(0.6)


def test_steps_are_counted_from_the_number_of_the_first() -> None:
    (one,) = found(groups(5, range(6, 12)), first_step=100)
    assert (one.first_step, one.last_step) == (106, 111)


def test_one_that_goes_on_at_the_end_is_open() -> None:
    (one,) = found(groups(5, range(15, 20)))
    assert one.status == "open"


def test_groups_of_unlike_size_but_equal_speed_are_healthy() -> None:
    flows = [
        flow for n in range(5) for flow in ring([2 * n, 2 * n + 1], ENDS, length_ms=20 + 20 * n, size=(n + 1) * 20 * MB)
    ]
    assert found(flows) == ()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_with_too_few_peers_nothing_is_found(count: int) -> None:
    assert found(groups(count, range(6, 12))) == ()


def test_a_little_slower_is_no_finding() -> None:
    assert found(groups(5, range(6, 12), times=1.2)) == ()


def test_two_slow_steps_are_no_finding_and_three_are() -> None:
    assert found(groups(5, range(6, 8))) == ()
    assert len(found(groups(5, range(6, 9)))) == 1


def test_group_slow_as_often_as_its_peers_is_healthy() -> None:
    """One of many ranks is late now and then, in each group; some of these steps lie close together."""
    often = {2: (1, 9, 14, 18), 3: (0, 5, 11, 17), 4: (3, 8, 15, 19)}
    flows = groups(5, (6, 7, 9))
    assert len(found(flows)) == 1
    late = [
        replace(flow, start_ms=flow.start_ms - flow.length_ms, length_ms=2 * flow.length_ms)
        if int(flow.start_ms // 1000) in often.get(flow.src // 2, ())
        else flow
        for flow in flows
    ]
    assert found(late) == ()


def test_where_all_are_slow_none_stands_out() -> None:
    assert found(ring(range(8), ENDS, length_ms=400)) == ()


def test_group_not_judged_in_steps_it_moves_nothing() -> None:
    silent = [flow for flow in groups(5) if not (flow.src in (2, 3) and 6000 < flow.start_ms < 12_000)]
    assert found(silent) == ()


def test_group_not_judged_where_one_record_joins_steps() -> None:
    """Every third step of one group arrives with the two after it, as one record over all three."""
    joined = [
        replace(flow, length_ms=flow.length_ms + 2000, size=3 * flow.size)
        for flow in groups(5)
        if flow.src in (2, 3) and round(flow.start_ms) % 3000 == 900
    ]
    others = [flow for flow in groups(5) if flow.src not in (2, 3) or flow.start_ms < 3000]
    assert found([*others, *(flow for flow in joined if flow.start_ms > 6000)]) == ()


def test_bursts_after_the_last_step_are_left_for_later() -> None:
    flows = groups(5, range(15, 20))
    early = division(range(10), ENDS[:15])
    assert found(flows, steps=early) == ()


def test_no_steps() -> None:
    flows = groups(5, range(6, 12))
    assert found(flows, steps=division(range(10), [])) == ()
