"""The bytes of events are those that the package's own classes write."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from prism_ch.export import wire

_ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "sequence": st.integers(1, 1 << 27),
            "delta_ns": st.one_of(st.just(0), st.integers(0, (1 << 56) - 1)),
            "kind": st.sampled_from([wire.SLICE_BEGIN, wire.SLICE_END]),
            "name": st.integers(0, 127),
            "step": st.one_of(st.none(), st.integers(0, 2**64 - 1)),
            "leaving": st.lists(st.integers(0, 2**63 - 1), max_size=20),
            "entering": st.lists(st.integers(0, 2**63 - 1), max_size=3),
        }
    ),
    max_size=30,
)


@given(_ROWS, st.integers(1, 40))
def test_slices_are_written_as_the_classes_write_them(rows: list[dict[str, Any]], block: int) -> None:
    trace = proto.Trace()
    for row in rows:
        row["name"] = 0 if row["step"] is not None else row["name"]
        packet = trace.packet.add(timestamp=row["delta_ns"], trusted_packet_sequence_id=row["sequence"])
        packet.sequence_flags = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        packet.track_event.type = row["kind"]
        if row["name"]:
            packet.track_event.name_iid = row["name"]
        if row["step"] is not None:
            packet.track_event.name = f"step {row['step']}"
        packet.track_event.flow_ids.extend(row["leaving"])
        packet.track_event.terminating_flow_ids.extend(row["entering"])
    with mock.patch.object(wire, "_BLOCK_EVENTS", block):
        assert wire.encode(_events(rows), _fields(rows)) == trace.SerializeToString()


@given(st.lists(st.tuples(st.integers(0, (1 << 56) - 1), st.integers(0, (1 << 56) - 1)), max_size=50))
def test_counters_are_written_as_the_classes_write_them(rows: list[tuple[int, int]]) -> None:
    trace = proto.Trace()
    for delta_ns, value in rows:
        packet = trace.packet.add(timestamp=delta_ns, trusted_packet_sequence_id=300, sequence_flags=2)
        packet.track_event.type, packet.track_event.counter_value = wire.COUNTER, value
    times, values = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    same = np.full(len(rows), wire.COUNTER, dtype=np.uint8)
    events = wire.Events(np.full(len(rows), 300), times, same, np.zeros_like(same))
    assert wire.encode(events, wire.counter_fields(values)) == trace.SerializeToString()


@given(st.lists(st.integers(0, (1 << 56) - 1)))
def test_varints_are_read_back(values: list[int]) -> None:
    packed, length = wire.varints(np.array(values, dtype=np.int64))
    for value, word, size in zip(values, packed.tolist(), length.tolist(), strict=True):
        digits = word.to_bytes(8, "little")[:size]
        assert sum((digit & 0x7F) << 7 * place for place, digit in enumerate(digits)) == value
        assert [digit >= 0x80 for digit in digits] == [True] * (size - 1) + [False]
        assert word < 1 << 8 * size


@pytest.mark.parametrize("value", [-1, 1 << 56])
def test_what_no_short_varint_holds_is_refused(value: int) -> None:
    with pytest.raises(ValueError, match="negative or has more than 56 bits"):
        wire.varints(np.array([1, value]))


def test_a_time_that_goes_back_is_refused() -> None:
    one = np.ones(1, dtype=np.uint8)
    with pytest.raises(ValueError, match="negative"):
        wire.encode(wire.Events(np.ones(1, dtype=np.int64), np.array([-5]), one, one), wire.Fields.joined([]))


def test_an_event_that_is_too_large_is_refused() -> None:
    one = np.ones(1, dtype=np.uint8)
    events = wire.Events(np.array([1 << 28]), np.zeros(1, dtype=np.int64), one, one)
    with pytest.raises(ValueError, match="too large"):
        wire.encode(events, wire.Fields.joined([]))


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 127 bytes"):
        wire.name_fields(np.zeros(1, dtype=np.int64), ["x" * 128], np.zeros(1, dtype=np.int64))


def _events(rows: list[dict[str, Any]]) -> wire.Events:
    return wire.Events(*(np.array([row[name] for row in rows]) for name in ("sequence", "delta_ns", "kind", "name")))


def _fields(rows: list[dict[str, Any]]) -> wire.Fields:
    """Give the fields in another order than that of the rows, as parts."""
    steps = [(place, row["step"]) for place, row in enumerate(rows) if row["step"] is not None]
    names = [f"step {step}" for _, step in steps]
    parts = [wire.name_fields(_int64([place for place, _ in steps]), names, _int64(range(len(names))))]
    for tag, key in ((wire.FLOW_IDS, "leaving"), (wire.TERMINATING_FLOW_IDS, "entering")):
        flows = [(place, flow) for place, row in enumerate(rows) for flow in row[key]]
        flows.sort(key=lambda each: -each[0])  # which keeps the order inside an event
        parts.append(wire.flow_fields(_int64([place for place, _ in flows]), tag, _int64([flow for _, flow in flows])))
    return wire.Fields.joined(parts)


def _int64(values: Any) -> Any:
    return np.array(list(values), dtype=np.int64)
