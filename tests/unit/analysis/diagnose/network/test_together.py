"""What several jobs together show of a network: the place that all slow rows cross and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.network.localise import NetworkView, look_at
from prism_ch.analysis.diagnose.network.queue_pairs import by_queue_pair
from prism_ch.analysis.diagnose.network.slow_network import find_slow_network
from prism_ch.analysis.diagnose.network.time_per_byte import measure_time_per_byte
from prism_ch.analysis.diagnose.network.together import _most_of_two
from prism_ch.analysis.observe.bursts import read_bursts
from prism_ch.model.finding import Finding
from prism_ch.model.params import ConfidenceParams, DiagnoseParams, Params
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import MS, Flow, batch, division, every, ordered, shaken, topology, typed

PARAMS, CONFIDENCE = DiagnoseParams(), ConfidenceParams()
STEPS = 24
ENDS = every(1000, STEPS, 1000)
#: Forty-eight endpoints, one a server, dealt to six leaves.
LEAVES = ("a", "b", "c", "d", "e", "f")
WHERE = topology(48, leaves=LEAVES)
SPINES = 4
#: Two jobs whose pairs all cross leaves; ways are dealt to them.
JOBS: Mapping[str, Sequence[tuple[int, int]]] = {
    "one": [(sender, (sender + 7) % 24) for sender in range(24)],
    "two": [(24 + sender, 24 + (sender + 5) % 24) for sender in range(24)],
}

Slow = Callable[[Flow], bool]


def way(src: int, dst: int, queue: int = 0) -> tuple[str, ...]:
    return LEAVES[src % 6], f"spine-{(src * 5 + dst * 3 + src // 6 + queue) % SPINES}", LEAVES[dst % 6]


def flows_of(pairs: Sequence[tuple[int, int]], slow: Slow, queues: int) -> list[Flow]:
    """A message of each pair in each step, which takes longer from step 10 on where it is slow."""
    flows = [
        Flow(src, dst, 1000 * step + 200, 5, port=50_000 + queue, way=way(src, dst, queue))
        for step in range(STEPS)
        for src, dst in pairs
        for queue in range(queues)
    ]
    late = [replace(flow, length_ms=15) if slow(flow) and flow.start_ms > 10_000 else flow for flow in flows]
    return shaken(late, 1, ms=0.02)


def view(job_id: str, slow: Slow, *, ways: bool, queues: int = 1) -> NetworkView:
    flows = flows_of(JOBS[job_id], slow, queues)
    return view_of(job_id, [flow if ways else replace(flow, way=()) for flow in flows], WHERE, JOBS[job_id])


def view_of(job_id: str, flows: Sequence[Flow], where: Topology, pp: Sequence[tuple[int, int]] = ()) -> NetworkView:
    seen = batch(flows)
    tick = seen.ticks_ns() * 0
    bursts = read_bursts(seen, tick, tick, Params().observe)
    kinds = typed(bursts, pp)
    divided = division(sorted({end for flow in flows for end in (flow.src, flow.dst)}), ENDS)
    groups = ordered(bursts, kinds, divided)
    divided_bursts, kinds, taken = by_queue_pair(bursts, kinds, seen, PARAMS.network)
    times = measure_time_per_byte(divided_bursts, kinds, divided, groups, where, PARAMS.network, taken)
    found = look_at(times, divided, (), Place(job_id, 0, PARAMS), where)
    assert found is not None
    return found


def told(slow: Slow, *, ways: bool = True, queues: int = 1) -> list[Finding]:
    views = [view(job_id, slow, ways=ways, queues=queues) for job_id in JOBS]
    return [one for found in find_slow_network(views, WHERE) for one in found]


def named(found: Sequence[Finding]) -> set[tuple[str, str, str]]:
    return {(one.kind, one.subject_type, one.subject) for one in found}


def through(*switches: str) -> Slow:
    """Flows that cross some switches one after the other."""

    def crosses(flow: Flow) -> bool:
        place = flow.way.index(switches[0]) if switches[0] in flow.way else len(flow.way)
        return flow.way[place : place + len(switches)] == switches

    return crosses


@pytest.mark.parametrize("queues", [1, 3])
def test_slow_spine_is_named_by_all_jobs_that_cross_it(queues: int) -> None:
    found = told(through("spine-2"), queues=queues)
    assert named(found) == {("slow_switch", "switch", "spine-2")}
    assert [one.jobs for one in found] == [("one",), ("two",)]
    assert {one.may_also_be for one in found} == {()}
    assert found[0].confidence == CONFIDENCE.switch


@pytest.mark.parametrize("queues", [1, 3])
def test_slow_uplink_is_a_link_of_two_switches(queues: int) -> None:
    crossed = through("c", way(2, 9)[1])
    found = told(crossed, queues=queues)
    assert named(found) == {("slow_link", "link", f"c->{way(2, 9)[1]}")}
    assert "check its ports" in found[0].summary


def test_a_spine_that_all_slow_rails_cross_is_named_alone() -> None:
    """Rails of two servers, whose links wait for one another: no link but those of one spine is of both slow ones."""
    ways = [("spine-2", "spine-1"), ("spine-1", "spine-2"), ("spine-1", "spine-3"), *[("spine-0", "spine-3")] * 5]
    where, flows = topology(2, gpus=8, leaves=("a", "b")), []
    for step in range(STEPS):
        for rail, (there, back) in enumerate(ways):
            for src, dst, passed in ((rail, 8 + rail, ("a", there, "b")), (8 + rail, rail, ("b", back, "a"))):
                length_ms = 60 if rail < 2 and step >= 10 else 20
                flows.append(Flow(src, dst, 1000 * step + 200, length_ms, way=passed))
    ((one,),) = find_slow_network([view_of("job", shaken(flows, 1, ms=0.02), where)], where)
    assert (one.subject, one.may_also_be) == ("spine-2", ())


def test_a_job_that_is_as_slow_all_along_clears_no_spine() -> None:
    """All that one job sends crosses the slow spine, from its first step on: it differs from nothing."""
    ways = {"one": ("spine-0",) * 3 + ("spine-1",) * 5, "two": ("spine-0",) * 8}
    where, views = topology(32, leaves=LEAVES), []
    for place, (job_id, spines) in enumerate(ways.items()):
        pairs = [(16 * place + 2 * number, 16 * place + 2 * number + 1) for number in range(8)]
        flows = [
            Flow(
                src,
                dst,
                1000 * step + 200,
                60 if spine == "spine-0" else 20,
                way=(LEAVES[src % 6], spine, LEAVES[dst % 6]),
            )
            for step in range(STEPS)
            for (src, dst), spine in zip(pairs, spines, strict=True)
        ]
        views.append(view_of(job_id, shaken(flows, 1, ms=0.02), where, pairs))
    ((one,), ()) = find_slow_network(views, where)
    assert (one.subject, one.may_also_be) == ("spine-0", ())


def test_slow_leaf_of_two_jobs_is_one_place() -> None:
    found = told(lambda flow: "d" in flow.way)
    assert named(found) == {("slow_switch", "switch", "d")}
    assert {one.jobs for one in found} == {("one",), ("two",)}


@pytest.mark.parametrize("queues", [1, 3])
def test_without_ways_a_slow_spine_accuses_no_leaf_nic_or_pair(queues: int) -> None:
    found = told(through("spine-2"), ways=False, queues=queues)
    assert named(found) == {("slow_switch", "switch", "spines")}
    assert "clears NICs and leaves" in found[0].summary


@pytest.mark.parametrize("ways", [True, False])
def test_slow_nic_is_named_whether_or_not_ways_are_known(ways: bool) -> None:
    found = told(lambda flow: 8 in {flow.src, flow.dst}, ways=ways)
    assert named(found) == {("slow_nic", "endpoint", "10.0.108.0")}
    assert found[0].jobs == ()


@pytest.mark.parametrize("ways", [True, False])
def test_slow_leaf_is_named_whether_or_not_ways_are_known(ways: bool) -> None:
    assert named(told(lambda flow: "d" in flow.way, ways=ways)) == {("slow_switch", "switch", "d")}


def test_two_steps_in_a_row_show_what_is_slow_for_a_time() -> None:
    """A step of a job with long ones lasts for many of another, of which some are slow."""
    nan = np.nan
    seen = [[0, 2, 3, 0, 0, 0], [0, 2, 0, 0, 2, 0], [0, nan, 3, 2, nan, 0], [1, nan, 2, nan, nan, 2]]
    assert _most_of_two(np.array(seen, dtype=np.float64)).tolist() == [2, 0, 2, 2]
    assert _most_of_two(np.array([[2.0], [nan]]))[0] == 2


def test_slow_link_lists_spines_where_its_way_is_unknown() -> None:
    seen = [
        view("one", lambda flow: (flow.src, flow.dst) == (3, 10), ways=False),
        view("two", lambda _: False, ways=True),
    ]
    found = find_slow_network(seen, WHERE)
    (one,) = found[0]
    assert (one.kind, one.subject) == ("slow_link", "10.0.103.0->10.0.110.0")
    assert set(one.may_also_be) == {f"spine-{number}" for number in range(SPINES)}
    assert found[1] == ()


def test_slow_link_is_told_from_its_way_by_others_on_it() -> None:
    found = told(lambda flow: (flow.src, flow.dst) == (3, 10))
    assert [(one.subject, one.may_also_be) for one in found] == [("10.0.103.0->10.0.110.0", ())]


def test_queue_pairs_are_divided_where_they_recur() -> None:
    flows = flows_of([(0, 1)], through(way(0, 1, 1)[1]), 3)
    seen = batch(flows)
    tick = seen.ticks_ns() * 0
    bursts = read_bursts(seen, tick, tick, Params().observe)
    made, kinds, taken = by_queue_pair(bursts, typed(bursts, [(0, 1)]), seen, PARAMS.network)
    assert (len(bursts), len(made), len(made.pair_src), len(kinds.burst)) == (STEPS, 3 * STEPS, 3, 3 * STEPS)
    assert [taken.names[number] for number in taken.way] == [way(0, 1, queue) for queue in range(3)]
    assert made.payload.sum() == pytest.approx(bursts.payload.sum(), rel=1e-6)
    assert (made.end_ns - made.start_ns).max() == pytest.approx(15 * MS, rel=1e-3)


def test_connections_that_come_once_are_no_queue_pairs() -> None:
    flows = [replace(flow, port=50_000 + number) for number, flow in enumerate(flows_of([(0, 1)], lambda _: False, 1))]
    seen = batch(flows)
    tick = seen.ticks_ns() * 0
    bursts = read_bursts(seen, tick, tick, Params().observe)
    made, _, taken = by_queue_pair(bursts, typed(bursts, [(0, 1)]), seen, PARAMS.network)
    assert (len(made), len(made.pair_src), len(taken.pair)) == (STEPS, 1, 1)


def test_acknowledgements_are_no_queue_pair() -> None:
    sent = flows_of([(0, 1)], lambda _: False, 2)
    answers = [replace(flow, port=60_000, size=flow.size // 64) for flow in sent if flow.port == sent[0].port]
    seen = batch([*sent, *answers])
    tick = seen.ticks_ns() * 0
    bursts = read_bursts(seen, tick, tick, Params().observe)
    made, _, _ = by_queue_pair(bursts, typed(bursts, [(0, 1)]), seen, PARAMS.network)
    assert (len(made), len(made.pair_src)) == (2 * STEPS, 2)
