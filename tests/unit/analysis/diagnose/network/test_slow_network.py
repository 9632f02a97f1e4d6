"""Slow NICs, links and switches: what explains most is to blame, and what can't be told apart is said so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from prism_ch.analysis.diagnose.context import JobContext
from prism_ch.analysis.diagnose.diagnose import slow_gpus, slow_groups, slow_network
from prism_ch.analysis.diagnose.findings import Place, confidence_in
from prism_ch.analysis.diagnose.network.delay import over_peers
from prism_ch.analysis.diagnose.network.exchanges import measure_exchanges
from prism_ch.analysis.diagnose.network.localise import look_at
from prism_ch.analysis.diagnose.network.slow_network import find_slow_network
from prism_ch.analysis.diagnose.network.time_per_byte import TimePerByte, measure_time_per_byte
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, PairKinds
from prism_ch.model.params import DiagnoseParams, Params
from prism_ch.model.result import DP, EP
from prism_ch.model.topology import Topology
from tests.unit.analysis.build import (
    MB,
    Flow,
    batch,
    continued_job,
    division,
    every,
    job,
    links,
    observed,
    ordered,
    rebuilt_attempt,
    ring,
    shaken,
    topology,
    traffic,
    typed,
)

PARAMS = DiagnoseParams()
PLACE = Place("job", 0, PARAMS)
STEPS = 24
ENDS = every(1000, STEPS, 1000)
#: Two stages of eight replicas, one endpoint a server, behind four leaves.
GRID = (list(range(8)), list(range(8, 16)))
WHERE = topology(16, leaves=("a", "b", "c", "d"))


def slowed(
    flows: Sequence[Flow], crosses: Callable[[Flow], bool], times: float = 2.0, steps: range = range(10, 24)
) -> list[Flow]:
    """The flows, of which some that begin in some steps take longer."""
    return [
        replace(flow, length_ms=times * flow.length_ms)
        if crosses(flow) and int(flow.start_ms // 1000) in steps
        else flow
        for flow in flows
    ]


def paced(
    flows: Sequence[Flow], pp: Sequence[tuple[int, int]] = (), where: Topology = WHERE, tick_ms: float = 0
) -> tuple[TimePerByte, Division]:
    seen = traffic(shaken(flows, 1, ms=0.1), tick_ms=tick_ms)
    kinds = typed(seen, pp)
    divided = division(sorted({flow.src for flow in flows}), [end + 5 for end in ENDS])
    return measure_time_per_byte(seen, kinds, divided, ordered(seen, kinds, divided), where, PARAMS.network), divided


def found(
    flows: Sequence[Flow],
    pp: Sequence[tuple[int, int]] = (),
    where: Topology = WHERE,
    known: Sequence[Finding] = (),
) -> tuple[Finding, ...]:
    return localised(*paced(flows, pp, where), where, known)


def localised(
    pace: TimePerByte, divided: Division, where: Topology = WHERE, known: Sequence[Finding] = ()
) -> tuple[Finding, ...]:
    view = look_at(pace, divided, known, PLACE, where)
    return () if view is None else find_slow_network([view], where)[0]


def pipelines() -> list[Flow]:
    """A job of two stages whose gradients are reduced in a ring a stage, by the end of each step."""
    return [replace(flow, start_ms=flow.start_ms - 1) for flow in job(GRID, STEPS)]


def rings(count: int, members: int = 4) -> list[Flow]:
    """Rings of their own, side by side."""
    return [
        flow
        for number in range(count)
        for flow in ring(range(members * number, members * (number + 1)), [end - 100 for end in ENDS])
    ]


class TestTicks:
    """Times that are cut to ticks: messages of 4 ms seem to take 5 ms, or 10, for as long as they begin alike."""

    @pytest.mark.parametrize("tick_ms, times, told", [(0, 1.5, True), (1, 1.5, False), (1, 3.0, True), (4, 2.0, False)])
    def test_what_ticks_explain_is_not_slow(self, tick_ms: float, times: float, told: bool) -> None:
        flows = slowed(pipelines(), lambda flow: (flow.src, flow.dst) == (3, 11), times)
        pace, divided = paced(flows, links(GRID), tick_ms=tick_ms)
        assert [one.subject for one in localised(pace, divided)] == (["10.0.103.0->10.0.111.0"] if told else [])

    def test_what_is_longer_or_shorter_by_more_is_so_by_the_rest(self) -> None:
        pace, _ = paced(pipelines(), links(GRID), tick_ms=1)
        usual = np.broadcast_to(np.nanmedian(pace.log_s_per_byte, axis=1)[:, None], pace.log_s_per_byte.shape)
        assert np.nanmax(np.abs(pace.beyond(usual))) == 0
        usual_s = np.exp(usual) * pace.payload
        for times in (3.0, 1 / 3):
            moved = replace(pace, seconds=times * usual_s).beyond(usual)
            sign = 1 if times > 1 else -1
            bound = (times * usual_s - sign * pace.blur_s) / (usual_s + sign * pace.blur_s)
            np.testing.assert_allclose(moved[pace.payload > 0], np.log(bound[pace.payload > 0]))


class TestWhoIsToBlame:
    def test_a_healthy_network_is_not_spoken_of(self) -> None:
        assert found(pipelines(), links(GRID)) == ()

    def test_a_hot_cell_is_a_link(self) -> None:
        (one,) = found(slowed(pipelines(), lambda flow: (flow.src, flow.dst) == (3, 11)), links(GRID))
        assert (one.kind, one.subject_type, one.subject) == ("slow_link", "link", "10.0.103.0->10.0.111.0")
        assert (one.first_step, one.last_step, one.status) == (10, 23, "open")
        assert one.observed == pytest.approx(2.0, rel=0.1)
        assert one.score > PARAMS.network.corrected_score
        assert one.evidence["compared_with"] == "others of the same size"

    def test_a_hot_row_and_column_are_a_nic(self) -> None:
        grid = ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11])
        flows = [replace(flow, start_ms=flow.start_ms - 1) for flow in job(grid, STEPS)]
        (one,) = found(slowed(flows, lambda flow: 5 in {flow.src, flow.dst} and flow.length_ms < 10), links(grid))
        assert (one.kind, one.subject_type, one.subject) == ("slow_nic", "endpoint", "10.0.105.0")
        assert "10.0.105.0 (host-05, GPU 0)" in one.summary

    def test_hot_rows_and_columns_of_its_endpoints_are_a_switch(self) -> None:
        (one,) = found(slowed(pipelines(), lambda flow: flow.length_ms > 10 or flow.src % 4 == 1), links(GRID))
        assert (one.kind, one.subject_type, one.subject) == ("slow_switch", "switch", "b")

    def test_exchanges_inside_operations_tell_the_link_of_a_ring(self) -> None:
        """Members of each ring exchange in each step, all with all, and one pair of the slow ring is slow in that."""
        exchange = [
            Flow(src, dst, end - 600, 15 if (src, dst) == (4, 5) else 5, MB)
            for end in ENDS
            for ring in (range(4), range(4, 8), range(8, 12))
            for src in ring
            for dst in ring
            if src != dst
        ]
        reduced = [
            replace(flow, length_ms=3 * flow.length_ms) if flow.src in range(4, 8) else flow for flow in rings(3)
        ]
        seen = traffic(shaken([*exchange, *reduced], 1, ms=0.1))
        of_ring = {(one.src, one.dst) for one in reduced}
        is_ring = [pair in of_ring for pair in zip(seen.pair_src.tolist(), seen.pair_dst.tolist(), strict=True)]
        burst = np.where(seen.payload > 2 * MB, DP, EP).astype(np.uint8)
        kinds = PairKinds(np.where(is_ring, DP, EP).astype(np.uint8), np.ones(len(is_ring)), burst)
        divided = division(range(12), [end + 5 for end in ENDS])
        pace = measure_time_per_byte(seen, kinds, divided, ordered(seen, kinds, divided), WHERE, PARAMS.network)
        (one,) = localised(pace, divided)
        assert (one.kind, one.subject, one.may_also_be) == ("slow_link", "10.0.104.0->10.0.105.0", ())

    def test_exchanges_of_less_than_a_tick_show_nothing(self) -> None:
        seen = traffic([Flow(src, 1 - src, end - 600, 0, MB) for end in ENDS for src in (0, 1)])
        kinds = PairKinds(np.full(2, EP, dtype=np.uint8), np.ones(2), np.full(len(seen), EP, dtype=np.uint8))
        exchanges = measure_exchanges(seen, kinds, division(range(2), [end + 5 for end in ENDS]), PARAMS.network)
        assert np.isnan(exchanges.excess).all()
        assert not exchanges.longer_s.any()

    def test_of_a_ring_no_more_can_be_told_than_the_ring(self) -> None:
        (one,) = found(slowed(rings(4), lambda flow: flow.src in range(4, 8)))
        assert (one.kind, one.subject_type, one.subject) == ("slow_group", "group", "1")
        assert all(f"10.0.10{member}.0" in one.summary for member in range(4, 8))
        assert one.confidence == confidence_in("group")

    def test_leaf_behind_each_nic_of_a_slow_ring_may_be_it(self) -> None:
        where = topology(16, leaves=[f"leaf-{number:02}" for number in range(16)])
        (one,) = found(slowed(rings(4), lambda flow: flow.src in range(4, 8)), where=where)
        leaves = {f"leaf-{number:02}" for number in range(4, 8)}
        assert one.kind == "slow_group"
        assert leaves == {name for name in one.may_also_be if name in where.leaf_names}

    def test_what_goes_round_among_some_of_a_group_is_slow_by_itself(self) -> None:
        """Gradients of all in rings of four, then those of the experts that each two of them hold, in three groups."""
        flows = []
        for first in (0, 4, 8):
            flows += ring(range(first, first + 4), [end - 500 for end in ENDS])
            for low in (first, first + 1):
                flows += ring((low, low + 2), [end - 100 for end in ENDS], length_ms=20, size=20 * MB)
        (one,) = found(slowed(flows, lambda flow: {flow.src, flow.dst} == {0, 2}), where=topology(12))
        assert (one.kind, one.subject) == ("slow_link", "10.0.100.0->10.0.102.0")
        assert one.evidence["may_also_be"] == ["10.0.102.0->10.0.100.0"]

    def test_short_messages_tell_nothing_of_the_pace(self) -> None:
        """Beside a ring, a tree moves little: in the first steps its last flow begins as the others are nearly over."""
        tree = [(0, 1), (1, 0), (1, 2), (2, 1), (1, 3), (3, 1)]
        flows = rings(1)
        for step, end in enumerate(ENDS):
            late_ms = 2.5 if step < 10 else 0
            for way in tree:
                begins_late = late_ms if way == (3, 1) else 0
                flows.append(Flow(*way, end - 50 + begins_late, 3 - begins_late, 3 * MB))
        assert found(flows, where=topology(4)) == ()

    def test_a_lone_ring_is_compared_with_its_past(self) -> None:
        (one,) = found(slowed(rings(1), lambda _: True))
        assert (one.kind, one.first_step, one.status) == ("slow_group", 10, "open")
        assert one.evidence["compared_with"] == "before"

    def test_rings_of_one_communicator_are_one_finding(self) -> None:
        # Two GPUs a server: the rings of both rails of servers 0 to 3 wait for one another, as one communicator does.
        where = topology(16, 2)
        members = [range(first + rail, first + 8, 2) for first in range(0, 32, 8) for rail in (0, 1)]
        flows = [flow for each in members for flow in ring(list(each), [end - 100 for end in ENDS])]
        (one,) = found(slowed(flows, lambda flow: flow.src < 8), where=where)
        assert (one.kind, one.subject) == ("slow_group", "0")
        assert all(where.endpoints[member] in one.summary for member in range(8))
        # Half of those that may be it are no members of the one that is named.
        assert one.confidence == pytest.approx(confidence_in("group") / 2)

    def test_rings_across_many_leaves_accuse_their_members_too(self) -> None:
        """Both rings of servers 0 to 3 cross four leaves that no other does: as slow is a communicator of one link."""
        where = replace(topology(16, 2, leaves=("a", "b", "c", "d", "e")), leaf=np.minimum(np.arange(32) // 2, 4))
        members = [range(first + rail, first + 8, 2) for first in range(0, 32, 8) for rail in (0, 1)]
        flows = [flow for each in members for flow in ring(list(each), [end - 100 for end in ENDS])]
        (one,) = found(slowed(flows, lambda flow: flow.src < 8), where=where)
        assert one.kind == "slow_group"
        assert {*where.endpoints[:8], "a", "b", "c", "d"} <= set(one.may_also_be)

    def test_rings_in_several_server_orders_are_one_finding(self) -> None:
        where = topology(16, 2)
        members = [range(first + gpu, first + 6, 2) for first in range(0, 32, 8) for gpu in (0, 3)]
        flows = [flow for each in members for flow in ring([*each, each[-1] + 2], [end - 100 for end in ENDS])]
        (one,) = found(slowed(flows, lambda flow: flow.src < 8), where=where)
        assert (one.kind, one.subject) == ("slow_group", "0")

    def test_the_ring_of_one_end_tells_it_from_the_other(self) -> None:
        harmed = slowed(
            pipelines(), lambda flow: 3 in {flow.src, flow.dst} or (flow.length_ms > 10 and flow.src in GRID[0])
        )
        (one,) = found(harmed, links(GRID))
        assert (one.kind, one.subject) == ("slow_nic", "10.0.103.0")
        assert one.evidence["may_also_be"] == []

    @pytest.mark.parametrize("behind, told", [((2, 3), True), ((2,), True), ((2, 3, 4, 5), False)])
    def test_switch_of_just_the_same_flows_is_listed_as_well(self, behind: Sequence[int], told: bool) -> None:
        where = replace(topology(16, leaves=("a", "b")), leaf=np.isin(np.arange(16), behind).astype(np.int32))
        (one,) = found(slowed(rings(8, members=2), lambda flow: flow.src in {2, 3}), where=where)
        assert (one.kind, "b" in one.evidence["may_also_be"]) == ("slow_link", told)
        assert ("b, which the same flows cross" in one.summary) == told

    @pytest.mark.parametrize("count, slow, usual", [(2, 1, 0), (8, 4, 0), (8, 6, 0), (8, 7, np.log(2))])
    def test_rings_slow_all_along_show_by_the_others(self, count: int, slow: int, usual: float) -> None:
        """A single one that is quicker than most shows nothing of these."""
        harmed = slowed(rings(count), lambda flow: flow.src < 4 * slow, steps=range(STEPS))
        pace, _ = paced(harmed, where=topology(4 * count))
        delay = over_peers(pace, PARAMS.network)
        expected = np.where(np.arange(count) < slow, np.log(2), 0) - usual
        assert np.median(delay.excess, axis=1) == pytest.approx(expected, abs=0.05)
        assert delay.spread == pytest.approx(PARAMS.network.network_jitter)

    def test_rings_slow_most_of_the_time_are_quick_before(self) -> None:
        """Two rings of eight go on as ever: those that are not slow yet are as quick as they are."""
        pace, _ = paced(slowed(rings(8), lambda flow: flow.src < 24, steps=range(8, STEPS)), where=topology(32))
        excess = over_peers(pace, PARAMS.network).excess
        assert excess[:, 1:8] == pytest.approx(0, abs=0.05)
        assert np.median(excess[:, 9:], axis=1) == pytest.approx([np.log(2)] * 6 + [0, 0], abs=0.05)

    def test_switch_slowing_half_of_all_found_against_the_past(self) -> None:
        grid = TestOneRootCause.GRID
        where = replace(topology(16, leaves=("a", "b")), leaf=np.repeat(np.arange(2, dtype=np.int32), 8))
        flows = [replace(flow, start_ms=flow.start_ms - 100) for flow in job(grid, STEPS)]
        (one,) = found(slowed(flows, lambda flow: min(flow.src, flow.dst) < 8), links(grid), where)
        assert (one.kind, one.subject) == ("slow_switch", "a")
        assert one.evidence["compared_with"] == "before"

    @pytest.mark.parametrize("name", ["a", "b"])
    def test_switch_cleared_by_other_flows_that_are_not_slow(self, name: str) -> None:
        """All messages of the pipeline cross both switches, the ring of each stage one."""
        grid = (list(range(16)), list(range(16, 32)))
        where = replace(topology(32, leaves=("a", "b")), leaf=np.repeat(np.arange(2, dtype=np.int32), 16))
        flows = [replace(flow, start_ms=flow.start_ms - 1) for flow in job(grid, STEPS)]
        leaf = "ab".index(name)
        slow = slowed(flows, lambda flow: bool((where.leaf[[flow.src, flow.dst]] == leaf).any()))
        (one,) = found(slow, links(grid), where)
        assert (one.kind, one.subject, one.evidence["may_also_be"]) == ("slow_switch", name, [])

    def test_waiting_for_a_late_rank_is_not_slowness_of_the_network(self) -> None:
        flows = [
            replace(flow, start_ms=flow.start_ms - 200, length_ms=flow.length_ms + 200)
            if flow.src < 4 and 2 not in {flow.src, flow.dst} and flow.start_ms > 10_000
            else flow
            for flow in rings(4)
        ]
        assert found(flows) == ()

    def test_records_of_several_steps_are_not_compared(self) -> None:
        joined = [
            replace(flow, length_ms=2 * flow.length_ms, size=2 * flow.size)
            if flow.src < 4 and flow.start_ms > 15_000
            else flow
            for flow in rings(4)
        ]
        assert found(joined) == ()

    def test_a_step_or_two_say_nothing(self) -> None:
        seen = traffic(ring(range(4), [900.0]))
        divided = division(range(4), [1000.0])
        pace = measure_time_per_byte(
            seen, typed(seen), divided, ordered(seen, typed(seen), divided), WHERE, PARAMS.network
        )
        assert localised(pace, divided) == ()


class TestWhileItLasts:
    def test_what_is_slow_for_long_does_not_become_its_own_past(self) -> None:
        (before,) = found(slowed(rings(1), lambda _: True))
        still = slowed(rings(1), lambda _: True, steps=range(STEPS))
        assert found(still) == ()
        (one,) = found(still, known=(before,))
        assert (one.subject, one.first_step, one.last_step) == (before.subject, 0, STEPS - 1)

    def test_it_is_closed_when_it_is_over(self) -> None:
        (one,) = found(slowed(rings(4), lambda flow: flow.src < 4, steps=range(8, 14)))
        assert (one.first_step, one.last_step, one.status) == (8, 13, "closed")

    def test_the_cost_is_that_of_the_steps_that_it_lengthens(self) -> None:
        (one,) = found(slowed(rings(4), lambda flow: flow.src < 4))
        assert (one.slowdown, one.severity) == (0.0, "info")  # all steps are of one length

    def test_it_is_no_more_than_what_is_slow_loses_itself(self) -> None:
        steps = range(12, 18)
        pace, divided = paced(slowed(rings(4), lambda flow: flow.src < 4, steps=steps))
        longer_ns = 500_000_000 * np.cumsum(np.isin(np.arange(STEPS), steps))
        slower = Division(divided.endpoints, divided.end_ns + longer_ns, divided.whole)
        (one,) = localised(pace, slower)
        extra_s = float(pace.seconds[0, 12] - pace.seconds[0, 11])
        assert one.slowdown == pytest.approx(extra_s / 1.5, rel=0.05)
        assert 0 < one.slowdown < PARAMS.warning_slowdown < 0.5 / 1.5

    def test_a_first_step_that_is_seen_in_part_does_not_lessen_it(self) -> None:
        """The recording begins when one of two slow rings has ended it."""
        steps = range(6)
        where = replace(topology(16, leaves=("a", "b")), leaf=np.repeat(np.arange(2, dtype=np.int32), 8))
        slow = slowed(rings(4), lambda flow: flow.src < 8, steps=steps)
        pace, divided = paced([flow for flow in slow if flow.src not in range(4, 8) or flow.start_ms >= 1000])
        longer_ns = 500_000_000 * (np.cumsum(np.isin(np.arange(STEPS), steps)) - 1)
        (one,) = localised(pace, Division(divided.endpoints, divided.end_ns + longer_ns, divided.whole), where)
        assert one.first_step == 0
        extra_s = float((pace.seconds[:2, 3] - pace.seconds[:2, 12]).sum())
        assert one.slowdown == pytest.approx(extra_s / 1.5, rel=0.05)


class TestOneRootCause:
    GRID = ([0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15])

    def found(self, flows: Sequence[Flow]) -> list[Finding]:
        """What the detectors of groups and of the network find."""
        seen = traffic(shaken(flows, 1, ms=0.1))
        kinds, divided = typed(seen, links(self.GRID)), division(range(16), [end + 5 for end in ENDS])
        context = JobContext.of(
            continued_job([rebuilt_attempt(seen, kinds, divided)]), observed(batch([])), WHERE, Params()
        )
        views = [view for one in context.attempts if (view := one.look_at_network()) is not None]
        context = context.with_network(find_slow_network(views, WHERE))
        return [*slow_network(context), *slow_groups(context)]

    def test_group_behind_slow_nic_is_left_out(self) -> None:
        flows = [replace(flow, start_ms=flow.start_ms - 100) for flow in job(self.GRID, STEPS)]
        harmed = slowed(
            flows, lambda flow: 5 in {flow.src, flow.dst} or (flow.length_ms > 10 and flow.src in range(4, 8))
        )
        assert [(one.kind, one.subject) for one in self.found(harmed)] == [("slow_nic", "10.0.105.0")]

    def test_nic_slow_all_along_is_told_by_the_ring_of_its_stage(self) -> None:
        grid = (list(range(4)), list(range(4, 8)))
        flows = [replace(flow, start_ms=flow.start_ms - 100) for flow in job(grid, STEPS)]
        crosses = [flow for flow in flows if 2 in {flow.src, flow.dst} or (flow.length_ms > 10 and flow.src < 4)]
        (one,) = found(slowed(flows, crosses.__contains__, steps=range(STEPS)), links(grid))
        assert (one.kind, one.subject, one.may_also_be) == ("slow_nic", "10.0.102.0", ())

    def test_leaf_slow_all_along_is_told_by_all_messages_as_slow(self) -> None:
        """All messages of the pipeline cross it, so that none differs from the others, and one stage's ring does."""
        grid = (list(range(4)), list(range(4, 8)))
        where = replace(topology(8, leaves=("a", "b")), leaf=np.repeat(np.arange(2, dtype=np.int32), 4))
        flows = [replace(flow, start_ms=flow.start_ms - 100) for flow in job(grid, STEPS)]
        ring_ms = next(flow.length_ms / flow.size for flow in flows if flow.length_ms > 10)
        slow = [
            replace(flow, length_ms=3 * ring_ms * flow.size) if flow.src < 4 or flow.dst < 4 else flow for flow in flows
        ]
        (one,) = found(slow, links(grid), where)
        assert (one.kind, one.subject, one.may_also_be) == ("slow_switch", "a", ())

    def test_ring_slow_all_along_costs_more_than_messages_show(self) -> None:
        """It is the only one that leaves its leaf, so that none shows how quick it should be."""
        grid = (list(range(4)), list(range(4, 8)))
        where = replace(topology(8, leaves=("a", "b", "c")), leaf=np.array([0, 0, 2, 2, 1, 1, 1, 1], dtype=np.int32))
        flows = [replace(flow, start_ms=flow.start_ms - 200) for flow in job(grid, STEPS)]
        ring_ms = next(flow.length_ms / flow.size for flow in flows if flow.length_ms > 10)

        def crosses(flow: Flow) -> bool:
            return 2 in {flow.src, flow.dst} or {flow.src, flow.dst} <= set(grid[0])

        slow = [
            replace(flow, length_ms=ring_ms * flow.size * (4 if crosses(flow) else 1)) if flow.length_ms else flow
            for flow in flows
        ]
        (one,) = found(slow, links(grid), where)
        assert (one.kind, one.subject) == ("slow_nic", "10.0.102.0")
        longest_ms = max(flow.length_ms for flow in slow)
        assert one.slowdown == pytest.approx(0.75 * longest_ms / 1000, rel=0.05)

    def test_slow_ring_whose_nics_are_cleared_names_its_links(self) -> None:
        # Their pipeline's messages are as fast as ever.
        flows = [replace(flow, start_ms=flow.start_ms - 100) for flow in job(self.GRID, STEPS)]
        harmed = slowed(flows, lambda flow: flow.length_ms > 10 and flow.src in range(4, 8))
        (one,) = self.found(harmed)
        assert one.kind == "slow_link"
        ring = {f"10.0.{100 + a}.0->10.0.{100 + b}.0" for a, b in ((4, 5), (5, 6), (6, 7), (7, 4))}
        assert {one.subject, *one.may_also_be} == ring

    def test_nothing_is_slow_without_steps(self) -> None:
        seen = traffic(job(self.GRID, STEPS))
        kinds, divided = typed(seen, links(self.GRID)), Division.none(np.arange(16, dtype=np.int32))
        attempt = rebuilt_attempt(seen, kinds, divided)
        context = JobContext.of(continued_job([attempt]), observed(batch([])), WHERE, Params())
        assert (slow_network(context), slow_gpus(context), slow_groups(context)) == ((), (), ())
