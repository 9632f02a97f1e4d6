"""Reads traces as a trace processor does, by the classes of the package `perfetto`, and holds them to its rules."""

from __future__ import annotations

import gzip
import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

BEGIN, END, COUNTER = 1, 2, 4
_CLEARED, _NEEDED = 1, 2
#: Packets parsed at once.
_PARSED_BYTES = 1 << 24


class Event(NamedTuple):
    """A track event: when, on which track, what, and the message itself."""

    time_ns: int
    track: int
    kind: int
    name: str
    event: Any


@dataclass(slots=True)
class Slice:
    """A slice of a track; `parent` is the one around it."""

    track: int
    name: str
    start_ns: int
    end_ns: int
    parent: Slice | None
    leaving: list[int]
    entering: list[int]
    notes: dict[str, object]

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(slots=True)
class _Sequence:
    """What a packet sequence has defined so far."""

    clock: int = 0
    time_ns: int = 0
    track: int = 0
    names: dict[int, str] = field(default_factory=dict)


class Decoder:
    """Decodes packets; `tracks` are the descriptors met so far, `zero_ns` is the time that the trace begins with."""

    def __init__(self) -> None:
        self.tracks: dict[int, Any] = {}
        self.zero_ns = 0
        self._sequences: dict[int, _Sequence] = {}

    def events(self, data: bytes) -> Iterator[Event]:
        """Yield the events in the order of the file."""
        for part in _parts(data):
            for packet in proto.Trace.FromString(part).packet:
                yield from self._packet(packet)

    def _packet(self, packet: Any) -> Iterator[Event]:
        number = packet.trusted_packet_sequence_id
        if packet.sequence_flags & _CLEARED:
            assert number
            self._sequences[number] = _Sequence()
        if packet.HasField("track_descriptor"):
            uuid = packet.track_descriptor.uuid
            assert uuid not in self.tracks
            self.tracks[uuid] = packet.track_descriptor
        elif packet.HasField("track_event"):
            yield self._event(packet, self._sequences[number])
        elif number in self._sequences:
            self._define(packet, self._sequences[number])
        else:
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            assert clocks[packet.clock_snapshot.primary_trace_clock] == clocks[1]
            self.zero_ns = clocks[1]

    def _define(self, packet: Any, sequence: _Sequence) -> None:
        sequence.clock = packet.trace_packet_defaults.timestamp_clock_id
        sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        own, of_trace = packet.clock_snapshot.clocks
        assert 64 <= own.clock_id == sequence.clock <= 127
        assert own.is_incremental
        assert of_trace.timestamp >= self.zero_ns
        sequence.time_ns = of_trace.timestamp
        for name in packet.interned_data.event_names:
            assert name.iid not in sequence.names
            sequence.names[name.iid] = name.name

    def _event(self, packet: Any, sequence: _Sequence) -> Event:
        assert packet.sequence_flags == _NEEDED
        assert packet.timestamp_clock_id == 0  # that of the defaults
        sequence.time_ns += packet.timestamp
        event = packet.track_event
        assert sequence.track in self.tracks
        name = sequence.names[event.name_iid] if event.name_iid else event.name
        return Event(sequence.time_ns, sequence.track, event.type, name, event)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A trace as it is shown: tracks by their identity, slices by track in order, and counters' values."""

    tracks: dict[int, Any]
    slices: dict[int, list[Slice]]
    counters: dict[int, list[tuple[int, int]]]
    zero_ns: int

    def all_slices(self) -> list[Slice]:
        return list(itertools.chain.from_iterable(self.slices.values()))

    def process(self, track: int) -> str:
        """Name of the process that a track is of."""
        pid = self.tracks[track].thread.pid
        (found,) = [each for each in self.tracks.values() if each.HasField("process") and each.process.pid == pid]
        return str(found.process.process_name)

    def thread(self, track: int) -> str:
        return str(self.tracks[track].thread.thread_name)

    def threads(self) -> dict[str, int]:
        """Tracks of threads by their names."""
        return {self.thread(uuid): uuid for uuid, each in self.tracks.items() if each.HasField("thread")}

    def seconds(self) -> dict[str, float]:
        """Sum of the seconds of all slices of a name."""
        sums: defaultdict[str, int] = defaultdict(int)
        for each in self.all_slices():
            sums[each.name] += each.end_ns - each.start_ns
        return {name: total / 1e9 for name, total in sums.items()}

    def named(self, *names: str) -> list[Slice]:
        return [each for each in self.all_slices() if each.name in names]

    def incidents(self) -> list[Slice]:
        return [each for each in self.all_slices() if self.tracks[each.track].name == "incidents"]


def read(path: Path) -> Decoded:
    """Read a trace, packed or not."""
    data = path.read_bytes()
    return decode(gzip.decompress(data) if path.suffix == ".gz" else data)


def decode(data: bytes) -> Decoded:
    """Put the events together: each begin must have its end, in order, on its track."""
    decoder = Decoder()
    open_slices: defaultdict[int, list[Slice]] = defaultdict(list)
    slices: defaultdict[int, list[Slice]] = defaultdict(list)
    counters: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for time_ns, track, kind, name, event in decoder.events(data):
        around = open_slices[track]
        if kind == BEGIN:
            parent = around[-1] if around else None
            notes = {note.name: _value(note) for note in event.debug_annotations}
            leaving, entering = list(event.flow_ids), list(event.terminating_flow_ids)
            begun = Slice(track, name, time_ns, -1, parent, leaving, entering, notes)
            slices[track].append(begun)
            around.append(begun)
        elif kind == END:
            assert not event.flow_ids
            assert not event.terminating_flow_ids
            around.pop().end_ns = time_ns
        else:
            assert kind == COUNTER
            counters[track].append((time_ns, event.counter_value))
    assert not any(open_slices.values())
    return Decoded(decoder.tracks, slices, counters, decoder.zero_ns)


def arrows(slices: Sequence[Slice]) -> list[tuple[Slice, Slice]]:
    """Match the ends of arrows. A trace processor takes the slice that begins first for the source."""
    sources = {flow: each for each in slices for flow in each.leaving}
    targets = {flow: each for each in slices for flow in each.entering}
    assert len(sources) == sum(len(each.leaving) for each in slices)
    assert len(targets) == sum(len(each.entering) for each in slices)
    assert sources.keys() == targets.keys()
    return [(sources[flow], targets[flow]) for flow in sources]


def _value(note: Any) -> object:
    return getattr(note, note.WhichOneof("value"))


def _parts(data: bytes) -> Iterator[bytes]:
    """Cut a trace into traces of whole packets."""
    begin = place = 0
    while place < len(data):
        assert data[place] == 0x0A
        size = shift = 0
        place += 1
        while True:
            byte = data[place]
            size |= (byte & 0x7F) << shift
            shift += 7
            place += 1
            if byte < 0x80:
                break
        place += size
        if place - begin >= _PARSED_BYTES:
            yield data[begin:place]
            begin = place
    yield data[begin:]
