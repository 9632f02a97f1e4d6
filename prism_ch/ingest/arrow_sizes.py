"""Reads how much memory the record batches of an Arrow file declare, before any buffer of them is unpacked.

A compressed buffer begins with the length of what it unpacks to, and a batch names its buffers in the flatbuffer of its
message (Arrow columnar format, "Encapsulated message format" and "Buffer compression"). The library gives the message
but not its buffers, so the few tables on the way to them are read here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pyarrow as pa

#: Places of fields in the tables Message and RecordBatch, and the type of header that a dictionary has.
_HEADER_TYPE, _HEADER, _DICTIONARY_BATCH = 1, 2, 2
_BUFFERS, _COMPRESSION = 2, 3
_DICTIONARY_DATA = 1
#: A buffer that says so is not compressed.
_PLAIN = -1


def largest_batch_bytes(file: pa.NativeFile) -> int:
    """Return the most memory that any message of a stream unpacks to, in bytes.

    Parameters: `file`, at the first message. Raises ValueError if a message is damaged.
    """
    largest = 0
    try:
        while (message := pa.ipc.read_message(file)) is not None:
            largest = max(largest, declared_bytes(message))
    except EOFError:
        return largest
    except pa.ArrowMemoryError as error:  # no allocation fails on Linux but one of a length that can't be
        raise ValueError("a message of it declares more than there is memory") from error
    return largest


def declared_bytes(message: pa.ipc.Message) -> int:
    """Return what the buffers of a message unpack to, in bytes. Raises ValueError if it is damaged."""
    if message.body is None or message.type not in ("record batch", "dictionary"):
        return 0
    try:
        return _declared(memoryview(message.metadata), memoryview(message.body))
    except (struct.error, IndexError) as error:
        raise ValueError("a message of it is damaged") from error


def _declared(metadata: memoryview, body: memoryview) -> int:
    root = struct.unpack_from("<I", metadata, 0)[0]
    batch = _table(metadata, root, _HEADER)
    kind = _field(metadata, root, _HEADER_TYPE)
    if kind and metadata[kind] == _DICTIONARY_BATCH:
        batch = _table(metadata, batch, _DICTIONARY_DATA)
    if not _field(metadata, batch, _COMPRESSION):
        return len(body)
    sizes = [struct.unpack_from("<q", body, start)[0] for start, length in _buffers(metadata, batch) if length]
    return sum(size for size in sizes if size != _PLAIN)


def _buffers(metadata: memoryview, batch: int) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each buffer in the body."""
    place = _table(metadata, batch, _BUFFERS)
    for number in range(struct.unpack_from("<I", metadata, place)[0]):
        yield struct.unpack_from("<qq", metadata, place + 4 + 16 * number)


def _field(metadata: memoryview, table: int, number: int) -> int:
    """Return where a field of a table is; 0 if it has its default."""
    fields = table - struct.unpack_from("<i", metadata, table)[0]
    size = struct.unpack_from("<H", metadata, fields)[0]
    place = fields + 4 + 2 * number
    offset = struct.unpack_from("<H", metadata, place)[0] if place + 2 <= fields + size else 0
    return table + offset if offset else 0


def _table(metadata: memoryview, table: int, number: int) -> int:
    """Return where the table or vector is that a field refers to. Raises IndexError without one."""
    field = _field(metadata, table, number)
    if not field:
        raise IndexError
    place: int = field + struct.unpack_from("<I", metadata, field)[0]
    return place
