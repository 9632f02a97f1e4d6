"""Encodes track events as the bytes of Perfetto's protobuf, a million at once.

Everything else in a trace is written by the classes of the package `perfetto`; building a message in Python for each of
millions of events would take most of an export's time. Source of the layout: trace_packet.proto and track_event.proto
of Perfetto, https://github.com/google/perfetto, and https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from prism_ch.core.arrays import order_by
from prism_ch.model.columns import Int64, UInt8, UInt64, freeze

#: Values of TrackEvent.Type.
SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4

#: Tags of repeated fixed64 fields of a TrackEvent, numbers 47 and 48.
FLOW_IDS, TERMINATING_FLOW_IDS = b"\xf9\x02", b"\x81\x03"
#: Tags of the fields `name`, number 23, and `counter_value`, number 30.
_NAME, _COUNTER_VALUE = b"\xba\x01", b"\xf0\x01"

#: `sequence_flags: SEQ_NEEDS_INCREMENTAL_STATE`, which ends each packet.
_TAIL = b"\x68\x02"
#: Larger varints are refused: 56 bits of nanoseconds are two years.
_MAX_VARINT = 1 << 56
_MAX_SIZE = 1 << 28
#: Events encoded at once: few enough for the processor's cache, enough for numpy.
_BLOCK_EVENTS = 1 << 16

#: The parts of a packet up to its fields of several values, each a word as long as its longest varint in a batch.
#: It begins with the end of the packet before it, so that what is always written lies together.
_HEAD = (
    "tail", "packet_tag", "packet_size", "time_tag", "time", "sequence_tag", "sequence", "event_tag", "event_size",
    "kind_tag", "kind", "name_tag", "name",
)  # fmt: skip
_CONSTANT = {
    "tail": int.from_bytes(_TAIL, "little"),
    "packet_tag": 0x0A,
    "time_tag": 0x40,
    "sequence_tag": 0x50,
    "event_tag": 0x5A,
    "kind_tag": 0x48,
    "name_tag": 0x50,
}
#: Bytes of a head that are there in each packet: tags and one-byte values, without those of a name.
_ALWAYS = ("tail", "packet_tag", "time_tag", "sequence_tag", "event_tag", "kind_tag", "kind")

#: By the length of a varint: its bytes as ones, and the bits that tell that another byte follows.
_ONES = np.array([sum(1 << 8 * place for place in range(length)) for length in range(9)], dtype=np.uint64)
_GOES_ON = np.array([0, *(sum(0x80 << 8 * place for place in range(length)) for length in range(8))], dtype=np.uint64)


@dataclass(frozen=True, slots=True)
class Events:
    """Track events, one a row, in the order of the file.

    `sequence` is the packet sequence, `delta_ns` the time since the event before it on that sequence, `kind` a value of
    TrackEvent.Type. `name` is the number of an interned name below 128, 0 without one.
    """

    sequence: Int64
    delta_ns: Int64
    kind: UInt8
    name: UInt8

    def __post_init__(self) -> None:
        freeze(self, sequence=np.int64, delta_ns=np.int64, kind=np.uint8, name=np.uint8)

    def __len__(self) -> int:
        return len(self.kind)

    def part(self, first: int, behind: int) -> Events:
        """Return the rows from one up to another."""
        rows = slice(first, behind)
        return Events(self.sequence[rows], self.delta_ns[rows], self.kind[rows], self.name[rows])


@dataclass(frozen=True, slots=True)
class Fields:
    """Further fields of some events, already encoded, sorted by event.

    `event` int64[m] is a row of Events; of `data` uint8[m, width] the first `length` int64[m] bytes count.
    """

    event: Int64
    data: npt.NDArray[np.uint8]
    length: Int64

    @classmethod
    def joined(cls, parts: Sequence[Fields]) -> Fields:
        """Join fields; those of one event keep the order of the parts."""
        width = max((part.data.shape[1] for part in parts), default=0)
        data = [np.pad(part.data, ((0, 0), (0, width - part.data.shape[1]))) for part in parts]
        event = np.concatenate([np.zeros(0, dtype=np.int64), *(part.event for part in parts)])
        length = np.concatenate([np.zeros(0, dtype=np.int64), *(part.length for part in parts)])
        order = order_by(event)
        return cls(event[order], np.concatenate([np.zeros((0, width), dtype=np.uint8), *data])[order], length[order])


def flow_fields(event: Int64, tag: bytes, flow: Int64) -> Fields:
    """Encode one flow id for each event, with the tag FLOW_IDS or TERMINATING_FLOW_IDS."""
    data = np.empty((len(flow), 10), dtype=np.uint8)
    data[:, :2] = np.frombuffer(tag, dtype=np.uint8)
    data[:, 2:] = flow.astype("<u8").view(np.uint8).reshape(-1, 8)
    return Fields(event, data, np.full(len(flow), 10))


def counter_fields(value: Int64) -> Fields:
    """Encode a counter's value for each event."""
    packed, length = varints(value)
    data = np.empty((len(value), 10), dtype=np.uint8)
    data[:, :2] = np.frombuffer(_COUNTER_VALUE, dtype=np.uint8)
    data[:, 2:] = packed.astype("<u8").view(np.uint8).reshape(-1, 8)
    return Fields(np.arange(len(value)), data, 2 + length.astype(np.int64))


def name_fields(event: Int64, names: Sequence[str], which: npt.NDArray[np.integer[Any]]) -> Fields:
    """Encode a short name for each event: names[which]. None may take more than 127 bytes."""
    texts = [name.encode() for name in names]
    if any(len(text) > 127 for text in texts):
        raise ValueError("a name of more than 127 bytes")
    fields = [_NAME + bytes([len(text)]) + text for text in texts]
    width = max(map(len, fields), default=0)
    data = np.frombuffer(b"".join(field.ljust(width, b"\0") for field in fields), dtype=np.uint8)
    length = np.array([len(field) for field in fields], dtype=np.int64)
    return Fields(event, data.reshape(len(fields), width)[which], length[which])


def varints(values: npt.NDArray[np.integer[Any]]) -> tuple[UInt64, UInt8]:
    """Encode numbers as varints.

    Returns the bytes of each as one little-endian uint64[n], and how many there are, uint8[n].
    Raises ValueError if a number is negative or takes more than 8 bytes.
    """
    if len(values) and not 0 <= int(values.min()) <= int(values.max()) < _MAX_VARINT:
        raise ValueError("a number that is negative or has more than 56 bits")
    left = values.astype(np.uint64)
    length = np.ones(len(left), dtype=np.uint8)
    packed = left & np.uint64(0x7F)
    for place in range(1, 8):
        left >>= np.uint64(7)
        if not left.any():
            break
        length += left > 0
        packed |= (left & np.uint64(0x7F)) << np.uint64(8 * place)
    packed |= _GOES_ON[length]
    return packed, length


def encode(events: Events, fields: Fields) -> bytes:
    """Encode events as packets of a trace, as the package `perfetto` would write them.

    Parameters: `fields`, of these events, in the order of their numbers.
    Raises ValueError if a time goes back, or if a number is too large.
    """
    blocks = []
    for first in range(0, len(events), _BLOCK_EVENTS):
        behind = min(first + _BLOCK_EVENTS, len(events))
        low, high = np.searchsorted(fields.event, (first, behind))
        own = Fields(fields.event[low:high] - first, fields.data[low:high], fields.length[low:high])
        blocks.append(_encode_block(events.part(first, behind), own))
    return b"".join(blocks)


def _encode_block(events: Events, fields: Fields) -> bytes:
    """Encode a block of events, as encode() does.

    1. How long the event is, then its packet, which holds it.
    2. All heads as rows of one width, of which the bytes in use are kept.
    3. The fields of several values put in where each belongs.
    """
    named = events.name > 0
    of_fields = np.bincount(fields.event, weights=fields.length, minlength=len(events)).astype(np.int64)
    event_size = 2 + 2 * named + of_fields
    words = {"time": varints(events.delta_ns), "sequence": varints(events.sequence), "event_size": varints(event_size)}
    around = 3 + len(_TAIL) + sum(length.astype(np.int64) for _, length in words.values())
    words["packet_size"] = varints(around + event_size)
    if int(event_size.max()) >= _MAX_SIZE or int(events.sequence.max()) >= _MAX_SIZE:
        raise ValueError("an event that is too large")
    width = {name: 1 << (int(length.max()) - 1).bit_length() for name, (_, length) in words.items()} | {"tail": 2}
    head = np.dtype([(name, f"<u{width.get(name, 1)}") for name in _HEAD])
    heads, kept = np.empty(len(events), dtype=head), np.zeros(len(events), dtype=head)
    for name, value in _CONSTANT.items():
        heads[name] = value
    for name in _ALWAYS:
        kept[name] = 0x0101 if name == "tail" else 1
    for name, (packed, length) in words.items():
        heads[name], kept[name] = packed, _ONES[length]
    heads["kind"], heads["name"] = events.kind, events.name
    kept["name_tag"] = kept["name"] = named
    body = heads.view(np.uint8)[kept.view(np.bool_)]
    if len(fields.event):
        head_size = 1 + words["packet_size"][1] + around + event_size - of_fields
        body = _with_fields(body, np.cumsum(head_size), fields)
    return body[len(_TAIL) :].tobytes() + _TAIL


def _with_fields(body: UInt8, ends: Int64, fields: Fields) -> UInt8:
    """Put fields behind the heads of their events; `ends` int64[events] is where each head ends."""
    before = np.diff(ends[fields.event], prepend=0)
    lengths = np.append(np.stack([before, fields.length], axis=1).ravel(), len(body) - int(ends[fields.event[-1]]))
    is_field = np.repeat(np.arange(len(lengths)) % 2 == 1, lengths)
    whole = np.empty(len(is_field), dtype=np.uint8)
    whole[is_field] = fields.data[np.arange(fields.data.shape[1]) < fields.length[:, None]]
    whole[~is_field] = body
    return whole
