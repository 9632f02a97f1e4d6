"""Answers what clients ask on connecting, where the embedded engine or a tenant's gate would answer otherwise."""

from __future__ import annotations

import re
from dataclasses import dataclass

from prism_ch.serve.request import Asked
from prism_ch.serve.statement import without_format

#: clickhouse-go asks this first and reads the answer as Native of revision 54460, later ones as the revision told: 0.
_GO = re.compile(r"select\s+displayname\(\)\s*,\s*version\(\)\s*,\s*revision\(\)\s*,\s*timezone\(\)", re.IGNORECASE)
#: clickhouse-connect asks this first, and sends only settings that are not read-only. `readonly` is 1 for those who may
#: not change it.
_CONNECT = re.compile(
    r"select\s+name,\s*value,\s*readonly(?:\s+as\s+readonly)?\s+from\s+system\.settings(\s+limit\s+\d+)?", re.IGNORECASE
)

_BLOCK_INFO = bytes.fromhex("010002ffffffff00")
_GO_REVISION = 54_460


@dataclass(frozen=True, slots=True)
class Server:
    """What the endpoint says of itself."""

    name: str
    version: str
    timezone: str = "UTC"


def go_handshake(text: str, asked: Asked, server: Server) -> bytes | None:
    """Answer clickhouse-go's first question; None where it is another one.

    Its revision is answered 0, so that it reads plain blocks from then on: the embedded engine writes no others.
    """
    body, result_format, _ = without_format(text)
    is_native = (result_format or asked.format) == "Native" and asked.protocol_version >= _GO_REVISION
    if not is_native or not _GO.fullmatch(body.strip()):
        return None
    columns = [
        ("displayName()", "String", _string(server.name)),
        ("version()", "String", _string(server.version)),
        ("revision()", "UInt32", bytes(4)),
        ("timezone()", "String", _string(server.timezone)),
    ]
    block = b"".join(_string(name) + _string(kind) + b"\x00" + value for name, kind, value in columns)
    return _BLOCK_INFO + bytes([len(columns), 1]) + block


def asks_for_settings(statement: str) -> bool:
    """Tell whether a statement is clickhouse-connect's first question, which everyone may ask."""
    return bool(_CONNECT.fullmatch(statement.strip().rstrip(";")))


def empty_block(description: list[tuple[str, str]]) -> bytes:
    """Write a Native block without rows, by names and types; the embedded engine leaves it out."""
    head = bytes([*_length(len(description)), 0])
    return head + b"".join(_string(name) + _string(kind) for name, kind in description)


def _string(text: str) -> bytes:
    """Write a String."""
    data = text.encode()
    return _length(len(data)) + data


def _length(number: int) -> bytes:
    """Write a number as LEB128."""
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)
