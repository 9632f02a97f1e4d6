"""Observe: each flow counts once, and only payload counts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.analysis.observe import bursts as stage
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import ObserveParams
from prism_ch.model.traffic import Traffic
from tests import naive
from tests.unit.analysis.build import BEGIN_NS, MB, MS, TCP, Flow, batch, every, ring, shaken

PARAMS = ObserveParams()


def elect(seen: FlowBatch, blur_ns: int = 0) -> FlowBatch:
    """The elected records, all exporters' times being blurred alike."""
    return stage.elect(seen, np.full(len(seen.exporters), blur_ns))


def observe(seen: FlowBatch, params: ObserveParams) -> Traffic:
    """The bursts of records with exact times."""
    nothing = np.zeros(len(seen.exporters), dtype=np.int64)
    return stage.read_bursts(seen, nothing, nothing, params)


def rows(bursts: Traffic) -> list[tuple[Any, ...]]:
    """Each burst as (src, dst, start ms, end ms, payload)."""
    start_ms, end_ms = ((column - BEGIN_NS) // MS for column in (bursts.start_ns, bursts.end_ns))
    return table(bursts.src, bursts.dst, start_ms, end_ms, bursts.payload)


def table(*columns: npt.NDArray[Any]) -> list[tuple[Any, ...]]:
    """The rows of columns."""
    return list(zip(*(column.tolist() for column in columns), strict=True))


def records(seen: FlowBatch) -> list[naive.Record]:
    """A batch as the slow version takes it."""
    columns = (seen.src, seen.dst, seen.src_port, seen.start_ns, seen.end_ns, seen.exporter, seen.bytes)
    return sorted(
        naive.Record((src, dst, port), start, end, seen.exporters[exporter], size)
        for src, dst, port, start, end, exporter, size in table(*columns)
    )


flows = st.lists(
    st.builds(
        Flow,
        src=st.integers(0, 2),
        dst=st.integers(3, 4),
        start_ms=st.integers(0, 30),
        length_ms=st.integers(0, 9),
        size=st.integers(1, 4).map(lambda n: n * MB),
        exporter=st.sampled_from(["leaf-a", "leaf-b", "leaf-c"]),
        port=st.sampled_from([1, 2]),
    ),
    max_size=12,
)


class TestElect:
    def test_what_one_exporter_saw_is_kept_as_it_is(self) -> None:
        seen = batch(ring([0, 1, 2], every(100, 3, 50)))
        assert elect(seen) is seen

    def test_exporters_that_never_saw_the_same_flow_all_count(self) -> None:
        seen = batch([Flow(0, 1, 0, exporter="leaf-a"), Flow(1, 0, 0, exporter="leaf-b")])
        assert len(elect(seen)) == 2

    def test_of_two_that_saw_a_flow_the_one_that_saw_more_is_elected(self) -> None:
        less = Flow(0, 1, 0, size=10_302_000, exporter="leaf-a")
        more = replace(less, size=10_304_000, exporter="leaf-b")
        elected = elect(batch([less, more]))
        assert [elected.exporters[row] for row in elected.exporter] == ["leaf-b"]

    def test_of_equals_the_first_by_name(self) -> None:
        elected = elect(batch([Flow(0, 1, 0, exporter="leaf-b"), Flow(0, 1, 0, exporter="leaf-a")]))
        assert [elected.exporters[row] for row in elected.exporter] == ["leaf-a"]

    def test_an_exporter_that_cut_the_flow_in_two_keeps_both_halves(self) -> None:
        whole = Flow(0, 1, 0, 20, 40 * MB, exporter="spine")
        halves = [Flow(0, 1, start, 10, 21 * MB, exporter="leaf") for start in (0, 10)]
        elected = elect(batch([whole, *halves]))
        assert elected.start_ns.tolist() == [flow.start_ns for flow in halves]

    def test_another_port_is_another_flow(self) -> None:
        assert len(elect(batch([Flow(0, 1, 0, exporter="a", port=1), Flow(0, 1, 0, exporter="b", port=2)]))) == 2

    def test_same_tuple_later_is_another_flow_with_its_own_vote(self) -> None:
        seen = [
            Flow(0, 1, 0, size=2 * MB, exporter="a"),
            Flow(0, 1, 0, size=1 * MB, exporter="b"),
            Flow(0, 1, 500, size=1 * MB, exporter="a"),
            Flow(0, 1, 500, size=2 * MB, exporter="b"),
        ]
        elected = elect(batch(seen))
        assert [elected.exporters[row] for row in elected.exporter] == ["a", "b"]

    def test_times_known_less_well_make_one_flow_of_what_lies_closer(self) -> None:
        apart = [Flow(0, 1, 0, 10, exporter="a"), Flow(0, 1, 10.5, 10, exporter="b")]
        assert (len(elect(batch(apart))), len(elect(batch(apart), blur_ns=MS // 2))) == (2, 1)

    def test_flows_of_other_tuples_are_kept_when_some_are_shared(self) -> None:
        alone = [Flow(0, 1, at, port=2, exporter="a") for at in (0, 5)] + [Flow(1, 0, 0, exporter="b")]
        both = [Flow(0, 1, 0, port=1, exporter=name) for name in "ab"]
        assert records(elect(batch([*alone, *both]))) == records(batch([*alone, both[0]]))

    @given(flows)
    def test_equals_the_slow_version(self, seen: list[Flow]) -> None:
        assert records(elect(batch(seen))) == naive.elect(records(batch(seen)))

    def test_nothing(self) -> None:
        assert len(elect(FlowBatch.empty())) == 0


class TestObserve:
    def test_payload_is_bytes_less_headers(self) -> None:
        udp, tcp = Flow(0, 1, 0, size=8 * MB), Flow(0, 1, 100, size=3 * MB, proto=TCP)
        assert rows(observe(batch([udp, tcp]), PARAMS)) == [
            (0, 1, 0, 10, 8 * MB),
            (0, 1, 100, 110, 3 * MB),
        ]

    def test_queue_pairs_and_timeouts_of_one_message_are_one_burst(self) -> None:
        parts = [
            Flow(0, 1, 0, 10, 20 * MB, port=1),
            Flow(0, 1, 0.5, 10, 20 * MB, port=2),
            Flow(0, 1, 11, 5, 10 * MB, port=1),  # half a millisecond after the second has ended
            Flow(0, 1, 18, 5, 10 * MB),  # two milliseconds later: another message
        ]
        assert rows(observe(batch(parts), PARAMS)) == [(0, 1, 0, 16, 50 * MB), (0, 1, 18, 23, 10 * MB)]

    def test_acknowledgements_are_left_out(self) -> None:
        data = [Flow(0, 1, at, size=40 * MB, proto=TCP) for at in every(100, 5)]
        acknowledgements = [Flow(1, 0, at, size=10, proto=TCP) for at in every(100, 5)]
        bursts = observe(batch(data + acknowledgements), PARAMS)
        assert (bursts.pair_src.tolist(), bursts.pair_dst.tolist()) == ([0], [1])
        assert len(bursts) == 5

    def test_thin_tree_shows_among_acknowledgements_of_a_ring(self) -> None:
        ring_one_way = [Flow(0, 1, at, size=700 * MB) for at in every(100, 5)]
        acknowledged = [Flow(1, 0, at, size=4) for at in every(100, 5)]
        tree = [Flow(1, 0, at, size=400_000) for at in every(100, 5, 50)]
        bursts = observe(batch([*ring_one_way, *acknowledged, *tree]), PARAMS)
        assert [row[-1] for row in rows(bursts)] == [700 * MB] * 5 + [400_000] * 5

    def test_acknowledgements_beside_data_lengthen_no_burst(self) -> None:
        # A pipeline's messages pass each other: each is acknowledged the way that the other goes.
        data = [Flow(src, dst, at + 3 * src) for at in every(100, 5) for src, dst in ((0, 1), (1, 0))]
        acknowledged = [Flow(flow.dst, flow.src, flow.start_ms + 1, flow.length_ms, size=8) for flow in data]
        assert rows(observe(batch([*data, *acknowledged]), PARAMS)) == rows(observe(batch(data), PARAMS))

    def test_direction_without_payload_is_left_out_when_unanswered(self) -> None:
        assert len(observe(batch([Flow(0, 1, 0, size=0)]), PARAMS)) == 0

    def test_both_directions_of_a_pipeline_stay(self) -> None:
        bursts = observe(batch([Flow(0, 1, 0), Flow(1, 0, 50)]), PARAMS)
        assert (bursts.pair_src.tolist(), bursts.pair_dst.tolist()) == ([0, 1], [1, 0])

    def test_control_messages_are_left_out_however_many(self) -> None:
        data = [Flow(0, 1, at, size=40 * MB) for at in every(100, 3)]
        control = [Flow(0, 1, at, 0, size=1000) for at in every(5, 60, 301)]
        assert [size for *_, size in rows(observe(batch(data + control), PARAMS))] == [40 * MB] * 3

    def test_what_is_as_large_as_data_stays_however_large_the_rest(self) -> None:
        gradients = [Flow(0, 1, at, size=2500 * MB) for at in every(100, 3)]
        tokens = [Flow(0, 1, at, size=8 * MB) for at in every(100, 3, 50)]
        assert (
            sorted(row[-1] for row in rows(observe(batch(gradients + tokens), PARAMS)))
            == [8 * MB] * 3 + [2500 * MB] * 3
        )

    def test_what_is_small_depends_on_the_pair(self) -> None:
        large = [Flow(0, 1, at, size=40 * MB) for at in every(100, 3)]
        small = [Flow(0, 2, at, size=100_000) for at in every(100, 3)] + [
            Flow(0, 2, at, 0, 400) for at in every(100, 3, 50)
        ]
        assert [row[-1] for row in rows(observe(batch(large + small), PARAMS))] == [40 * MB] * 3 + [100_000] * 3

    def test_messages_of_several_sizes_stay(self) -> None:
        bursts = observe(batch([Flow(0, 1, 0, size=40 * MB), Flow(0, 1, 100, size=1 * MB)]), PARAMS)
        assert [size for *_, size in rows(bursts)] == [40 * MB, 1 * MB]

    @given(flows, st.integers(0, 3))
    def test_bursts_equal_the_slow_version(self, seen: list[Flow], gap_ms: int) -> None:
        params = replace(PARAMS, burst_gap_ns=gap_ms * MS, control_share=0)
        pairs = defaultdict(list)
        for flow in set(seen):
            pairs[flow.src, flow.dst].append((flow.start_ns, flow.end_ns, flow.size))
        expected = [(*pair, *burst) for pair in sorted(pairs) for burst in naive.bursts(pairs[pair], gap_ms * MS)]
        found = observe(batch(seen), params)
        assert table(found.src, found.dst, found.start_ns, found.end_ns, found.payload) == expected

    @pytest.mark.parametrize("rows", [1, 2, 7])
    def test_records_looked_at_some_at_a_time(self, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
        seen = batch(shaken([*ring([0, 1, 2], [0, 100, 200]), *(Flow(3, 0, at, 1, 60) for at in (5, 6, 90))], 1))
        whole = observe(seen, PARAMS)
        monkeypatch.setattr(stage, "ROWS_AT_ONCE", rows)
        parts = observe(seen, PARAMS)
        assert len(whole) > 3
        for name in ("pair", "start_ns", "end_ns", "payload", "pair_src", "pair_dst", "pair_blur_ns"):
            assert getattr(parts, name).tolist() == getattr(whole, name).tolist(), name

    @pytest.mark.parametrize("payload", [0, 1, 10**12])
    def test_one_flow_of_any_size_and_no_length(self, payload: int) -> None:
        bursts = observe(batch([Flow(0, 1, 0, 0, payload)]), PARAMS)
        assert bursts.payload.tolist() == [payload] * (payload > 0)
        assert (bursts.start_ns == bursts.end_ns).all()

    def test_fewer_bytes_than_headers_are_no_payload(self) -> None:
        seen = batch([Flow(0, 1, 0), Flow(0, 1, 100)])
        odd = replace(seen, bytes=np.array([10, seen.bytes[1]]))
        assert observe(odd, PARAMS).payload.tolist() == [40 * MB]

    def test_a_pair_is_blurred_as_the_worst_of_its_exporters(self) -> None:
        seen = batch([Flow(0, 1, 0, exporter="a"), Flow(0, 1, 500, exporter="b"), Flow(2, 3, 0, exporter="a")])
        bursts = stage.read_bursts(seen, np.array([5, 7]), np.array([3, 4]), PARAMS)
        assert (bursts.pair_blur_ns.tolist(), bursts.pair_tick_ns.tolist()) == ([7, 5], [4, 3])

    def test_nothing(self) -> None:
        bursts = observe(FlowBatch.empty(), PARAMS)
        assert len(bursts) == len(bursts.pair_src) == 0
