"""Loads topology.csv: usable lines count, and each other one is reported with its number."""

from __future__ import annotations

import csv
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prism_ch.errors import InputError
from prism_ch.store.client import Store
from prism_ch.store.topology import EndpointRow, write_topology

REQUIRED = ("endpoint", "server", "gpu", "rail", "leaf", "pod", "tenant")
OPTIONAL = ("valid_from", "valid_to")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})")
_FIRST_YEAR, _LAST_YEAR = 1970, 2261
_IPV4_MAPPED = "::ffff:"


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """The result of loading a topology file.

    `endpoints` counts the distinct endpoints loaded. `problems` are numbers of lines, and why each can't be used.
    `changed` is false if the database has the same topology already, or no line can be used.
    """

    endpoints: int
    problems: list[tuple[int, str]]
    changed: bool


@dataclass(frozen=True, slots=True)
class TopologyFile:
    """The usable lines of a topology file, `numbers` their numbers, and why each other one can't be used."""

    rows: list[EndpointRow]
    numbers: list[int]
    problems: list[tuple[int, str]]


def load_topology(store: Store, path: str | Path) -> TopologyReport:
    """Replace the topology with a file's usable lines, if there are any.

    Raises InputError if the file can't be read or lacks a column.
    """
    file = read_topology_file(path)
    changed = bool(file.rows) and write_topology(store, file.rows, str(path))
    return TopologyReport(len({row.endpoint for row in file.rows}), file.problems, changed)


def read_topology_file(path: str | Path) -> TopologyFile:
    """Read a file's lines. Of those that place the same endpoint at the same time the first counts.

    Raises InputError if the file can't be read or lacks a column.
    """
    file = TopologyFile([], [], [])
    placed: dict[str, list[tuple[EndpointRow, int]]] = {}
    columns: list[str] = []
    for number, line in _lines(Path(path)):
        if not columns:
            columns = _columns(line, path)
            continue
        try:
            row = _parse_endpoint(_fields(line, columns))
            _refuse_overlap(row, placed.setdefault(row.endpoint, []))
        except ValueError as problem:
            file.problems.append((number, str(problem)))
            continue
        placed[row.endpoint].append((row, number))
        file.rows.append(row)
        file.numbers.append(number)
    if not columns:
        raise InputError(f"{path}: is empty; its first line must be {','.join(REQUIRED)}")
    return file


def canonical_address(text: str) -> str | None:
    """Write an IP address as landed flows have it; None if it is none.

    IPv4-mapped addresses become IPv4.
    """
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            name = socket.inet_ntop(family, socket.inet_pton(family, text))
        except (OSError, ValueError):
            continue
        return name.removeprefix(_IPV4_MAPPED) if "." in name else name
    return None


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, with their numbers."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            yield from ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error


def _split(line: str) -> list[str]:
    """Split one line, so that a bad quote spoils no other; raises ValueError."""
    if line.count('"') % 2:
        raise ValueError("has a quote without its other half")
    try:
        [values] = csv.reader([line.rstrip("\r\n")], skipinitialspace=True)
    except csv.Error as error:
        raise ValueError(f"is no CSV: {error}") from error
    return [value.strip() for value in values]


def _columns(line: str, path: str | Path) -> list[str]:
    """Read the names of the columns; raises InputError for missing and repeated ones."""
    try:
        names = [value.lower() for value in _split(line)]
    except ValueError:
        names = []
    missing = [name for name in REQUIRED if name not in names]
    if missing:
        raise InputError(
            f"{path}: has no column {', '.join(missing)}; its first line must be {','.join(REQUIRED)}"
            f" and may go on with {','.join(OPTIONAL)}"
        )
    twice = [name for name in (*REQUIRED, *OPTIONAL) if names.count(name) > 1]
    if twice:
        raise InputError(f"{path}: has more than one column {', '.join(twice)}")
    return names


def _fields(line: str, columns: list[str]) -> dict[str, str]:
    values = _split(line)
    if len(values) != len(columns):
        raise ValueError(f"has {len(values)} fields where the header has {len(columns)}")
    return dict.fromkeys(OPTIONAL, "") | dict(zip(columns, values, strict=True))


def _parse_endpoint(fields: dict[str, str]) -> EndpointRow:
    address = canonical_address(fields["endpoint"])
    if address is None:
        raise ValueError(f"endpoint {fields['endpoint']!r} is not an IPv4 or IPv6 address")
    if not fields["server"]:
        raise ValueError("server is empty")
    if not re.fullmatch(r"[0-9]{1,3}", fields["gpu"]) or int(fields["gpu"]) > 255:
        raise ValueError(f"gpu {fields['gpu']!r} is not a whole number from 0 to 255")
    valid_from_ns = _time_ns("valid_from", fields["valid_from"])
    valid_to_ns = _time_ns("valid_to", fields["valid_to"])
    if valid_from_ns is not None and valid_to_ns is not None and valid_to_ns <= valid_from_ns:
        raise ValueError(f"valid_to {fields['valid_to']} is not after valid_from {fields['valid_from']}")
    return EndpointRow(
        endpoint=address,
        valid_from_ns=valid_from_ns,
        valid_to_ns=valid_to_ns,
        server=fields["server"],
        gpu=int(fields["gpu"]),
        rail=fields["rail"],
        leaf=canonical_address(fields["leaf"]) or fields["leaf"],
        pod=fields["pod"],
        tenant=fields["tenant"],
    )


def _time_ns(name: str, text: str) -> int | None:
    """Parse an RFC 3339 time to nanoseconds since the epoch; None if it is empty."""
    if not text:
        return None
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{name} {text!r} is no RFC 3339 time with a zone, such as 2026-03-01T00:00:00Z")
    date, clock, fraction, zone = match.groups()
    try:
        whole = datetime.fromisoformat(f"{date}T{clock}{'+00:00' if zone in 'Zz' else zone}")
    except ValueError as error:
        raise ValueError(f"{name} {text!r} is no time: {error}") from error
    if not _FIRST_YEAR <= whole.year <= _LAST_YEAR:
        raise ValueError(f"{name} {text!r} is not within the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return (whole - _EPOCH) // timedelta(seconds=1) * 10**9 + int((fraction or "").ljust(9, "0"))


def _refuse_overlap(row: EndpointRow, others: list[tuple[EndpointRow, int]]) -> None:
    for other, number in others:
        if row.starts_ns < other.ends_ns and other.starts_ns < row.ends_ns:
            raise ValueError(f"endpoint {row.endpoint} has a place at that time already, on line {number}")
