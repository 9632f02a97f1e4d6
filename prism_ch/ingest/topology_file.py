"""Loads topology.csv: good lines count, each bad one is reported with its number."""

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
_INSTANT = re.compile(r"(\d{4}-\d{2}-\d{2})[Tt ](\d{2}:\d{2}:\d{2})(?:\.(\d{1,9}))?([Zz]|[+-]\d{2}:\d{2})")
_FIRST_YEAR, _LAST_YEAR = 1970, 2261
_MAPPED_PREFIX = "::ffff:"


@dataclass(frozen=True, slots=True)
class TopologyReport:
    """What became of a topology file.

    `endpoints` counts the distinct endpoints loaded; `problems` are numbers of lines and why each could not be used;
    `changed` is false where the same topology was there already, or no line could be used.
    """

    endpoints: int
    problems: list[tuple[int, str]]
    changed: bool


def load_topology(store: Store, path: str | Path) -> TopologyReport:
    """Replace the topology with a file's usable lines; where there is none, the topology stays as it is.

    Of lines that give the same endpoint at the same time the first counts.
    Raises InputError where the file can't be read or lacks a column.
    """
    rows: list[EndpointRow] = []
    problems: list[tuple[int, str]] = []
    places: dict[str, list[tuple[EndpointRow, int]]] = {}
    for line, fields in _read(Path(path)):
        if isinstance(fields, str):
            problems.append((line, fields))
            continue
        try:
            row = parse_endpoint(fields)
            _refuse_overlap(row, places.setdefault(row.endpoint, []))
        except ValueError as problem:
            problems.append((line, str(problem)))
            continue
        places[row.endpoint].append((row, line))
        rows.append(row)
    changed = bool(rows) and write_topology(store, rows, str(path))
    return TopologyReport(len({row.endpoint for row in rows}), problems, changed)


def parse_endpoint(fields: dict[str, str]) -> EndpointRow:
    """Read one line's fields by column name.

    Raises ValueError, saying which field and why, where one can't be used.
    """
    address = canonical_address(fields["endpoint"])
    if address is None:
        raise ValueError(f"endpoint {fields['endpoint']!r} is not an IPv4 or IPv6 address")
    if not fields["server"]:
        raise ValueError("server is empty")
    if not re.fullmatch(r"[0-9]{1,3}", fields["gpu"]) or int(fields["gpu"]) > 255:
        raise ValueError(f"gpu {fields['gpu']!r} is not a whole number from 0 to 255")
    valid_from_ns = _instant_ns("valid_from", fields["valid_from"])
    valid_to_ns = _instant_ns("valid_to", fields["valid_to"])
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


def canonical_address(text: str) -> str | None:
    """Return an IPv4 or IPv6 address as landed flows have it, IPv4-mapped ones as IPv4; None where it is none."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            name = socket.inet_ntop(family, socket.inet_pton(family, text))
        except (OSError, ValueError):
            continue
        return name.removeprefix(_MAPPED_PREFIX) if "." in name else name
    return None


def _read(path: Path) -> Iterator[tuple[int, dict[str, str] | str]]:
    """Yield, with its number, each line that is not blank: its fields by column name, or why it has none."""
    try:
        with path.open(encoding="utf-8-sig", errors="replace", newline="\n") as file:
            header: list[str] | None = None
            for number, line in enumerate(file, start=1):
                if not line.strip():
                    continue
                values = _split(line)
                if header is None:
                    header = _header(values, path)
                elif isinstance(values, str):
                    yield number, values
                elif len(values) != len(header):
                    yield number, f"has {len(values)} fields where the header has {len(header)}"
                else:
                    yield number, dict.fromkeys(OPTIONAL, "") | dict(zip(header, values, strict=True))
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror}") from error
    if header is None:
        raise InputError(f"{path}: is empty; its first line must be {','.join(REQUIRED)}")


def _split(line: str) -> list[str] | str:
    """Return one line's fields without blanks around them, or why there are none; a bad quote spoils only its line."""
    if line.count('"') % 2:
        return "has a quote without its other half"
    try:
        [values] = csv.reader([line.rstrip("\r\n")], skipinitialspace=True)
    except csv.Error as error:
        return f"is no CSV: {error}"
    return [value.strip() for value in values]


def _header(values: list[str] | str, path: Path) -> list[str]:
    """Return the names of the columns, having checked that all that is needed is there, and once."""
    names = [value.lower() for value in values] if isinstance(values, list) else []
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


def _instant_ns(name: str, text: str) -> int | None:
    """Read an RFC 3339 time as nanoseconds since the epoch; an empty one is None."""
    if not text:
        return None
    match = _INSTANT.fullmatch(text)
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
    """Raise ValueError where an endpoint is given a second place at the same time."""
    for other, line in others:
        if row.starts_ns < other.ends_ns and other.starts_ns < row.ends_ns:
            raise ValueError(f"endpoint {row.endpoint} has a place at that time already, on line {line}")
