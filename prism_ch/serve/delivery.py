"""What a collector may do: insert flow records into the landing tables, and nothing besides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from prism_ch.ingest.landing import LANDING_SETTINGS
from prism_ch.serve.refusal import access_denied
from prism_ch.serve.statement import Insert

#: Tables that records land in, whose views judge and count them.
LANDING_TABLES = frozenset({"flow_landing", "flow_json_lines", "goflow2_lines", "pmacct_lines"})

#: Columns that say when and with which file a record came; nobody outside can know.
_OURS = ("landing", "received_at")

#: Formats whose rows are nothing but data: `Values` evaluates expressions, those with a schema read it from a file.
_FORMATS = frozenset({
    "Arrow", "ArrowStream", "CSV", "CSVWithNames", "CSVWithNamesAndTypes", "JSONCompactEachRow",
    "JSONCompactEachRowWithNames", "JSONCompactEachRowWithNamesAndTypes", "JSONEachRow", "JSONLines", "LineAsString",
    "NDJSON", "Native", "Parquet", "RowBinary", "RowBinaryWithNames", "RowBinaryWithNamesAndTypes", "TSV",
    "TSVWithNames", "TSVWithNamesAndTypes", "TabSeparated", "TabSeparatedWithNames", "TabSeparatedWithNamesAndTypes",
})  # fmt: skip

_NAME = r"(?:`(\w+)`|\"(\w+)\"|(\w+))"
_DELIVERY = re.compile(
    rf"\s*INSERT\s+INTO\s+(?:TABLE\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}\s*(?:\(([\w\s,`\"]*)\))?\s*",
    re.IGNORECASE | re.ASCII,
)
_TOKEN = "insert_deduplication_token"  # noqa: S105 - the name of a setting


@dataclass(frozen=True, slots=True)
class Delivery:
    """An INSERT for a collector: its text, the format of its rows, and the settings to run it with."""

    text: str
    format: str
    settings: Mapping[str, str]


def delivery_of(insert: Insert | None, asked: Mapping[str, str], user: str, database: str) -> Delivery:
    """Write a collector's INSERT anew, from the names in it alone.

    Parameters: `asked`, settings of the URL; those that are not about a repeated delivery are left out of account.
    Raises Refusal for everything else than rows for a landing table.
    """
    found = _DELIVERY.fullmatch(insert.text) if insert else None
    if insert is None or found is None:
        raise access_denied("A collector may only INSERT rows INTO " + ", ".join(sorted(LANDING_TABLES)))
    *names, columns = found.groups()
    where, table = (next(filter(None, names[at : at + 3]), "") for at in (0, 3))
    if table not in LANDING_TABLES or where not in {"", database}:
        raise access_denied(
            f"A collector may not insert into {table[:80]}, only into " + ", ".join(sorted(LANDING_TABLES))
        )
    if insert.format not in _FORMATS:
        raise access_denied(f"Rows can't come as {insert.format[:40]}; use one of " + ", ".join(sorted(_FORMATS)))
    settings = {name: str(value) for name, value in LANDING_SETTINGS.items()}
    if asked.get(_TOKEN):
        # Under a name of its own, so that it never meets a token of a file or of another collector.
        settings[_TOKEN] = f"http {user} {asked[_TOKEN]}"
    return Delivery(f"INSERT INTO `{table}` ({_columns(columns)})", insert.format, settings)


def _columns(given: str | None) -> str:
    """Write the list of columns, without those that are not the collector's to fill."""
    if given is None or not given.strip():
        return f"* EXCEPT({', '.join(_OURS)})"
    names = [name.strip().strip('`"') for name in given.split(",")]
    for name in names:
        if name in _OURS or not re.fullmatch(r"\w+", name, re.ASCII):
            raise access_denied(f"A collector can't fill the column {name[:80]}")
    return ", ".join(f"`{name}`" for name in names)
