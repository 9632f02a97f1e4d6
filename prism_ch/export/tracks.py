"""The tracks of a trace: a process for each server, a thread for each GPU, counters, incidents.

Each track has a packet sequence of its own, whose number is its identity too: its events then need neither name their
track nor their clock, and their times are short differences.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as proto

from prism_ch.export.reader import Place
from prism_ch.export.wire import SLICE_BEGIN, SLICE_END
from prism_ch.model.columns import Int32, Int64
from prism_ch.model.result import PHASES

_DIGITS = re.compile(r"(\d+)")

#: The interned names of a sequence: those of the database, by its numbers.
NAMES = tuple(enumerate(PHASES, start=1))

#: The clock of all times in the end, and that of the time of day: both are nanoseconds since the epoch here.
_TRACE_CLOCK, _DAY_CLOCK = 6, 1
#: The clock of a sequence, whose times are differences; numbers from 64 to 127 are for those.
_SEQUENCE_CLOCK = 64
#: Identities of processes begin here, behind those of all sequences.
_PROCESSES = 1 << 32
#: Numbers of threads begin here: one with the number of its process would be its main thread.
_THREADS = 1_000_000
_FRESH = proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED | proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
_NEEDS_STATE = proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
#: An endpoint that neither the job's members nor the topology know.
_UNKNOWN = Place("", 0, -1)


class Tracks:
    """Describes tracks when their first event comes, and knows the time of the last event of each.

    `describe_threads` and `describe_counters` return the bytes that introduce tracks, empty for those known already.
    """

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._places = places
        ranked = sorted((_natural(place.server), place.gpu, endpoint) for endpoint, place in places.items())
        self._rank = {endpoint: rank for rank, (*_, endpoint) in enumerate(ranked)}
        self._servers: dict[str, int] = {}
        self._thread_servers: list[int] = []
        self._threads: list[int] = []
        self._counters: dict[int, int] = {}
        self._sequences = 0
        self._clock = np.zeros(1, dtype=np.int64)

    @property
    def threads(self) -> Int64:
        """Sequence of each endpoint, int64[endpoints]."""
        return np.array(self._threads, dtype=np.int64)

    @property
    def servers(self) -> Int32:
        """Number of the server of each endpoint, int32[endpoints]."""
        return np.array(self._thread_servers, dtype=np.int32)

    def counters(self, server: Int64) -> Int64:
        """Return the sequence of each server's counter."""
        sequences = np.zeros(max(self._counters, default=-1) + 1, dtype=np.int64)
        for number, sequence in self._counters.items():
            sequences[number] = sequence
        return sequences[server]

    def advance(self, sequence: Int64, time_ns: Int64) -> Int64:
        """Return the time of each event since the one before it on its sequence.

        The last ones are remembered. Parameters: the events, sequence by sequence, each in order of time.
        """
        begins = np.ones(len(sequence), dtype=bool)
        begins[1:] = sequence[1:] != sequence[:-1]
        delta_ns = np.diff(time_ns, prepend=0)
        delta_ns[begins] = time_ns[begins] - self._clock[sequence[begins]]
        ends = np.append(begins[1:], True)[: len(sequence)]
        self._clock[sequence[ends]] = time_ns[ends]
        return delta_ns

    def clock_ns(self, sequence: Int64) -> Int64:
        """Return the time of the last event of each sequence."""
        return self._clock[sequence]

    def describe_threads(self, endpoints: Sequence[str], start_ns: int) -> bytes:
        """Introduce the endpoints that have no track yet. `endpoints` are those met so far, in their order."""
        trace = proto.Trace()
        for endpoint in endpoints[len(self._threads) :]:
            place = self._places.get(endpoint, _UNKNOWN)
            server = self._server(trace, place, endpoint)
            sequence = self._sequence(trace, start_ns, NAMES)
            track = self._descriptor(trace, sequence)
            track.thread.pid, track.thread.tid = 1 + server, _THREADS + sequence
            track.thread.thread_name = _thread_name(endpoint, place)
            track.sibling_order_rank = self._rank.get(endpoint, len(self._rank))
            self._threads.append(sequence)
            self._thread_servers.append(server)
        return bytes(trace.SerializeToString())

    def describe_counters(self, servers: Sequence[int], start_ns: int) -> bytes:
        """Introduce the counters of servers that have none yet."""
        trace = proto.Trace()
        for server in servers:
            if server not in self._counters:
                sequence = self._sequence(trace, start_ns, ())
                track = self._descriptor(trace, sequence)
                track.parent_uuid, track.name = _PROCESSES + server, "sent to other servers of the job"
                track.counter.unit_name = "B/s"
                self._counters[server] = sequence
        return bytes(trace.SerializeToString())

    def opening(self, job_id: str, start_ns: int) -> bytes:
        """Introduce the trace itself: its clocks, and that tracks come in our order."""
        trace = proto.Trace()
        packet = trace.packet.add(trusted_packet_sequence_id=self._new_sequence(start_ns))
        packet.clock_snapshot.primary_trace_clock = _TRACE_CLOCK
        for clock in (_TRACE_CLOCK, _DAY_CLOCK):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=start_ns)
        root = trace.packet.add(trusted_packet_sequence_id=packet.trusted_packet_sequence_id).track_descriptor
        root.uuid, root.name = 0, job_id
        root.process_ordering = proto.TrackDescriptor.PROCESS_ORDERING_EXPLICIT
        root.thread_ordering = proto.TrackDescriptor.THREAD_ORDERING_EXPLICIT
        return bytes(trace.SerializeToString())

    def incidents(self, incidents: Sequence[Mapping[str, Any]]) -> bytes:
        """Write the incidents, sorted by their start.

        Those that overlap in time lie on tracks of their own, one below the other.
        """
        trace = proto.Trace()
        lanes: list[tuple[int, int]] = []
        for incident in incidents:
            start_ns, end_ns = incident["start_ns"], max(incident["end_ns"], incident["start_ns"])
            lane = next((lane for lane, (_, free_ns) in enumerate(lanes) if free_ns <= start_ns), len(lanes))
            if lane == len(lanes):
                sequence = self._sequence(trace, start_ns, ())
                self._descriptor(trace, sequence).name = "incidents"
                lanes.append((sequence, start_ns))
            sequence, _ = lanes[lane]
            lanes[lane] = sequence, end_ns
            for kind, time_ns in ((SLICE_BEGIN, start_ns), (SLICE_END, end_ns)):
                packet = trace.packet.add(trusted_packet_sequence_id=sequence, sequence_flags=_NEEDS_STATE)
                packet.timestamp = time_ns - int(self._clock[sequence])
                packet.track_event.type = kind
                self._clock[sequence] = time_ns
                if kind == SLICE_BEGIN:
                    _annotate(packet.track_event, incident)
        return bytes(trace.SerializeToString())

    def _server(self, trace: Any, place: Place, endpoint: str) -> int:
        """Return the number of a server, which is introduced if it is new."""
        if place.server not in self._servers:
            server = self._servers[place.server] = len(self._servers)
            track = trace.packet.add().track_descriptor
            track.uuid, track.process.pid = _PROCESSES + server, 1 + server
            track.process.process_name = place.server or "unknown server"
            track.sibling_order_rank = self._rank.get(endpoint, len(self._rank))
        return self._servers[place.server]

    def _sequence(self, trace: Any, start_ns: int, names: Sequence[tuple[int, str]]) -> int:
        """Begin a sequence.

        With it come its clock, what its events have in common, and its interned names.
        """
        sequence = self._new_sequence(start_ns)
        packet = trace.packet.add(
            trusted_packet_sequence_id=sequence, sequence_flags=_FRESH, first_packet_on_sequence=True
        )
        packet.clock_snapshot.clocks.add(clock_id=_SEQUENCE_CLOCK, timestamp=start_ns, is_incremental=True)
        packet.clock_snapshot.clocks.add(clock_id=_TRACE_CLOCK, timestamp=start_ns)
        packet.trace_packet_defaults.timestamp_clock_id = _SEQUENCE_CLOCK
        packet.trace_packet_defaults.track_event_defaults.track_uuid = sequence
        for number, name in names:
            packet.interned_data.event_names.add(iid=number, name=name)
        return sequence

    def _new_sequence(self, start_ns: int) -> int:
        self._sequences += 1
        if self._sequences == len(self._clock):
            self._clock = np.pad(self._clock, (0, len(self._clock)))
        self._clock[self._sequences] = start_ns
        return self._sequences

    @staticmethod
    def _descriptor(trace: Any, sequence: int) -> Any:
        track = trace.packet.add(trusted_packet_sequence_id=sequence).track_descriptor
        track.uuid = sequence
        return track


def _thread_name(endpoint: str, place: Place) -> str:
    if place is _UNKNOWN:
        return endpoint
    stage = "" if place.stage < 0 else f", stage {place.stage}"
    return f"GPU {place.gpu} ({endpoint}{stage})"


def _annotate(event: Any, incident: Mapping[str, Any]) -> None:
    """Name an incident, and note what is known of it."""
    event.name = f"{incident['severity']}: {incident['kind']} {incident['subject']}"
    for key in ("summary", "action", "incident_id", "subject_type", "status"):
        event.debug_annotations.add(name=key, string_value=incident[key])
    event.debug_annotations.add(name="may_also_be", string_value=", ".join(incident["may_also_be"]))
    for key in ("confidence", "lost_gpu_h", "slowdown"):
        event.debug_annotations.add(name=key, double_value=incident[key])


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a key that sorts host-2 before host-10."""
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(_DIGITS.split(text))]
