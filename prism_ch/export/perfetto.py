"""Writes a job's timeline as a trace for Perfetto, https://ui.perfetto.dev.

1. The trace itself and the incidents that concern the job.
2. Chunk by chunk of steps: the phases of every endpoint, and the records of that time.
3. Arrows from messages to the phases that they join, those of the chunk before too, which is then written.
4. What the servers sent in the time that is written.

No more than two chunks are held, however many steps there are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from prism_ch.core.arrays import last_rows, run_starts
from prism_ch.errors import UsageError
from prism_ch.export import wire
from prism_ch.export.arrows import Arrows, Chunk
from prism_ch.export.messages import RecordReader
from prism_ch.export.rates import Rates
from prism_ch.export.reader import JobReader, Phases, Source, Span
from prism_ch.export.tracks import Tracks
from prism_ch.model.columns import Int64
from prism_ch.model.window import Interval

#: Takes a trace in pieces.
Write = Callable[[bytes], object]
#: Called with how many steps are written, and how many there are.
Report = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Exported:
    """What a trace holds.

    `cut` counts the phases that began before the end of the one before, and are shorter for it. `with_records` is False
    if flow records may not be read: there are no arrows and no counters then.
    """

    span: Span
    endpoints: int
    phases: int
    cut: int
    messages: int
    incidents: int
    with_records: bool


def export_trace(
    source: Source,
    job_id: str,
    write: Write,
    *,
    first_step: int | None = None,
    last_step: int | None = None,
    report: Report | None = None,
) -> Exported:
    """Write the trace of a job.

    Parameters: `write`, takes the trace in pieces; `first_step` and `last_step`, both included, None for no bound;
    `report`, called after each piece.
    Raises UsageError if the job has none of these steps, and what the source raises if the engine fails.
    """
    reader = JobReader(source, job_id)
    span = reader.span(first_step, last_step)
    incidents = reader.incidents(span.time)
    tracks = Tracks(reader.places())
    trace: _Trace | None = None
    for next_step, phases in reader.phases(span):
        if len(phases):
            if trace is None:
                start_ns = int(phases.start_ns.min())
                write(tracks.opening(job_id, min([start_ns, *(each["start_ns"] for each in incidents)])))
                write(tracks.incidents(incidents))
                trace = _Trace(reader, span, tracks, write, start_ns)
            trace.add(phases)
        if report is not None:
            report(next_step - span.first_step, span.last_step + 1 - span.first_step)
    if trace is None:
        raise UsageError(f"the phases of these steps of job {job_id} are no longer kept; see `prism-ch retention`")
    trace.finish()
    drawn, with_records = trace.arrows.drawn, trace.records.is_open
    return Exported(span, len(reader.endpoints), trace.phases, trace.cut, drawn, len(incidents), with_records)


class _Trace:
    """Writes phases, arrows and counters chunk by chunk, each chunk once the next one is known."""

    def __init__(self, reader: JobReader, span: Span, tracks: Tracks, write: Write, start_ns: int) -> None:
        self.records = RecordReader(reader)
        self.arrows = Arrows()
        self.phases = self.cut = 0
        self._rates = Rates(start_ns, span.step_s)
        self._reader = reader
        self._tracks = tracks
        self._write = write
        self._held = Chunk(Phases.empty())
        self._end_ns = start_ns
        self._read_ns = self.records.around(Interval(start_ns, start_ns)).start_ns

    def add(self, phases: Phases) -> None:
        """Write the chunk before, and hold this one."""
        self._write(self._tracks.describe_threads(self._reader.endpoints, int(phases.start_ns.min())))
        self._end_ns = max(self._end_ns, int(phases.end_ns.max()))
        self._advance(Chunk(phases), self._end_ns)
        self.phases += len(phases)

    def finish(self) -> None:
        """Write the last chunk, also with messages that exporters' clocks date behind it."""
        until_ns = self.records.around(Interval(self._end_ns, self._end_ns)).end_ns
        self._advance(Chunk(Phases.empty()), until_ns + 1)
        self._write_rates(None)

    def _advance(self, new: Chunk, until_ns: int) -> None:
        """Attach the messages that end before a time, and write the chunk that is held."""
        until_ns = max(until_ns, self._read_ns)
        messages, sent = self.records.read(Interval(self._read_ns, until_ns))
        self.arrows.attach(messages, self._held, new)
        self._rates.add(sent, self._tracks.servers)
        self.cut += _write_phases(self._held, self._tracks, self._write)
        self._write_rates(self._read_ns)
        self._held, self._read_ns = new, until_ns

    def _write_rates(self, until_ns: int | None) -> None:
        """Write the counters up to a time, all that is left if it is None."""
        server, time_ns, value = self._rates.close(until_ns)
        if len(server):
            self._write(self._tracks.describe_counters(np.unique(server).tolist(), int(time_ns.min())))
            sequence = self._tracks.counters(server)
            delta_ns, kind = self._tracks.advance(sequence, time_ns), np.full(len(server), wire.COUNTER, dtype=np.uint8)
            events = wire.Events(sequence, delta_ns, kind, np.zeros(len(server), dtype=np.uint8))
            self._write(wire.encode(events, wire.counter_fields(value)))


def _write_phases(chunk: Chunk, tracks: Tracks, write: Write) -> int:
    """Write a chunk: a slice for each step, in it one for each phase. Returns the number of phases cut."""
    phases = chunk.phases
    if not len(phases):
        return 0
    first = run_starts(phases.endpoint, phases.step)
    last = last_rows(first, len(phases))
    opens, closes = np.zeros((2, len(phases)), dtype=np.int64)
    opens[first] = closes[last] = 1
    begin = 2 * np.arange(len(phases)) + np.cumsum(opens) + np.cumsum(closes) - closes
    events = 2 * len(phases) + 2 * len(first)
    time_ns, name = np.empty(events, dtype=np.int64), np.zeros(events, dtype=np.uint8)
    kind = np.full(events, wire.SLICE_END, dtype=np.uint8)
    time_ns[begin], time_ns[begin + 1] = phases.start_ns, phases.end_ns
    time_ns[begin[first] - 1], time_ns[begin[last] + 2] = phases.start_ns[first], phases.end_ns[last]
    kind[begin] = kind[begin[first] - 1] = wire.SLICE_BEGIN
    name[begin] = phases.phase
    sequence = np.repeat(tracks.threads[phases.endpoint], 2 + opens + closes)
    time_ns, cut = _in_order(sequence, time_ns, tracks)
    steps, which = np.unique(phases.step[first], return_inverse=True)
    fields = [wire.name_fields(begin[first] - 1, [f"step {step}" for step in steps.tolist()], which)]
    for tag, parts in ((wire.FLOW_IDS, chunk.leaving), (wire.TERMINATING_FLOW_IDS, chunk.entering)):
        fields += [wire.flow_fields(begin[row], tag, flow) for row, flow in parts]
    delta_ns = tracks.advance(sequence, time_ns)
    write(wire.encode(wire.Events(sequence, delta_ns, kind, name), wire.Fields.joined(fields)))
    return int(cut[begin].sum())


def _in_order(sequence: Int64, time_ns: Int64, tracks: Tracks) -> tuple[Int64, Int64]:
    """Return times that never go back, and 1 where they were moved for that."""
    first = run_starts(sequence)
    begun_ns = np.full(len(sequence), np.iinfo(np.int64).min)
    begun_ns[first] = tracks.clock_ns(sequence[first])
    later_ns = np.maximum(time_ns, begun_ns)
    goes_back = np.append(False, later_ns[1:] < later_ns[:-1])
    goes_back[first] = False
    if goes_back.any():
        for start, end in zip(first, np.append(first[1:], len(sequence)), strict=True):
            later_ns[start:end] = np.maximum.accumulate(later_ns[start:end])
    return later_ns, (later_ns > time_ns).astype(np.int64)
