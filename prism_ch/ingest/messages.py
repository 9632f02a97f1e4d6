"""Splits GoFlow2's length-delimited protobuf into messages, which the engine decodes.

The engine refuses all messages of a statement if one is damaged, so their structure is checked here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from importlib.resources import as_file
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from prism_ch.assets import asset
from prism_ch.errors import InputError
from prism_ch.ingest.columns import constant
from prism_ch.store.client import Store

TABLE = "goflow2_messages"
#: Messages sent in one statement, in bytes.
CHUNK_BYTES = 8 << 20
#: A longer message, in bytes, is no flow record.
_MESSAGE_BYTES_MAX = 1 << 16

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5
_WIDTHS = {_FIXED64: 8, _FIXED32: 4}
_VARINT_BYTES_MAX = 10
_LANDING, _SOURCE, _POSITION, _DIGEST = 100_001, 100_002, 100_003, 100_004
#: The encodings of the fields that are read, by their numbers in sql/formats/goflow2.proto; None for those added here.
_ENCODINGS = {
    **dict.fromkeys((1, 3, 9, 10, 20, 21, 22, 110, 111, 112), _VARINT),
    **dict.fromkeys((6, 7, 11), _DELIMITED),
    **dict.fromkeys((_LANDING, _SOURCE, _POSITION, _DIGEST), None),
}
_COLUMNS = (
    "landing", "source", "position", "digest", "type", "time_received_ns", "time_flow_start_ns", "time_flow_end_ns",
    "src_addr", "dst_addr", "src_port", "dst_port", "proto", "bytes", "packets", "sampler_address", "sampling_rate",
)  # fmt: skip


def read_messages(stream: BinaryIO, source: str) -> Iterator[tuple[str, pa.Table]]:
    """Split a stream into chunks of rows, without the columns that name the source.

    Yields the table and the rows of each chunk. Messages go to TABLE with their `position`, from 1; damaged ones go to
    flow_collected with their problem.
    Raises InputError if the length before a message is damaged, since what follows can't be split.
    """
    pending, done = b"", 0
    while data := stream.read(CHUNK_BYTES):
        messages, rest = _split(pending + data)
        yield from _rows(messages, done + 1)
        done += len(messages)
        if rest is None:
            raise InputError(f"{source}: message {done + 1} has no length before it; is the file damaged?")
        pending = rest
    if pending:
        raise InputError(f"{source}: message {done + 1} is cut off; is the file complete?")


def is_messages(head: bytes) -> bool:
    """Return whether most messages of a beginning are whole and start with GoFlow2's type."""
    messages, rest = _split(head)
    return rest is not None and 2 * sum(each[:1] == b"\x08" and _is_whole(each) for each in messages) > len(messages)


def insert_messages(store: Store, rows: pa.Table, settings: Mapping[str, Any]) -> None:
    """Insert messages, with the columns that name their source, in one statement."""
    columns = [rows[name].to_pylist() for name in ("landing", "source", "position", "message")]
    body = b"".join(_with_source(*row) for row in zip(*columns, strict=True))
    schema = asset("sql/formats/goflow2.proto")
    with as_file(schema) as file:
        # A server takes no file of ours. The embedded engine would cache a text as a file in the working directory.
        given = ("file", str(file)) if store.embedded else ("string", schema.read_text(encoding="utf-8"))
        named = dict(zip(("format_schema_source", "format_schema"), given, strict=True))
        encoded_as = {**settings, **named, "format_schema_message_name": "FlowMessage"}
        store.insert_encoded(TABLE, _COLUMNS, body, "Protobuf", settings=encoded_as)


def _with_source(landing: str, source: str, position: int, message: bytes) -> bytes:
    digest = hashlib.blake2b(message, digest_size=8).digest()
    parts = [message]
    for number, text in ((_LANDING, landing.encode()), (_SOURCE, source.encode("utf-8", "replace"))):
        parts += [varint(number << 3 | _DELIMITED), varint(len(text)), text]
    parts += [varint(_POSITION << 3), varint(position), varint(_DIGEST << 3 | _FIXED64), digest]
    whole = b"".join(parts)
    return varint(len(whole)) + whole


def _rows(messages: list[bytes], first: int) -> Iterator[tuple[str, pa.Table]]:
    is_whole = np.fromiter(map(_is_whole, messages), dtype=bool, count=len(messages))
    numbers = np.arange(len(messages), dtype=np.uint64) + np.uint64(first)
    content = pa.array(messages, pa.binary())
    if is_whole.any():
        yield TABLE, pa.table({"position": numbers, "message": content}).filter(pa.array(is_whole))
    if not is_whole.all():
        damaged = [message.hex() for message, good in zip(messages, is_whole, strict=True) if not good]
        problem = constant("not_protobuf", len(damaged))
        yield "flow_collected", pa.table({"position": numbers[~is_whole], "problem": problem, "record": damaged})


def _split(data: bytes) -> tuple[list[bytes], bytes | None]:
    """Return the whole messages and the rest, None if no length begins it."""
    messages: list[bytes] = []
    place, size = 0, len(data)
    while place < size:
        length, begin = _read_varint(data, place)
        if begin and length > _MESSAGE_BYTES_MAX:
            return messages, None
        if not begin or begin + length > size:
            # Ten bytes that are no length are damaged; fewer may go on in the next chunk.
            return messages, data[place:] if begin or size - place < _VARINT_BYTES_MAX else None
        messages.append(data[begin : begin + length])
        place = begin + length
    return messages, b""


def _is_whole(message: bytes) -> bool:
    place, size = 0, len(message)
    while place < size:
        key, place = _read_varint(message, place)
        encoding = key & 7
        if not place or not key >> 3 or _ENCODINGS.get(key >> 3, encoding) != encoding:
            return False
        if encoding in _WIDTHS:
            place += _WIDTHS[encoding]
            continue
        value, place = _read_varint(message, place)
        if not place or encoding not in (_VARINT, _DELIMITED):
            return False
        if encoding == _DELIMITED:
            place += value
    return place == size


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """Decode a number below 2^64. Returns it and where it ends, 0 if there is none."""
    value = shift = 0
    for end, byte in enumerate(data[place : place + _VARINT_BYTES_MAX], place + 1):
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value, end) if value < 1 << 64 else (0, 0)
        shift += 7
    return 0, 0


def varint(value: int) -> bytes:
    """Encode a number with variable length (LEB128)."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
