"""Brings a database to this version's schema: numbered, checksummed, forward-only migrations, and Kafka streams.

From release 0.1.0 on a migration is never edited or renamed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from prism_ch import __version__
from prism_ch.assets import asset
from prism_ch.errors import StoreError, UsageError
from prism_ch.store.client import Store
from prism_ch.store.integrity import pack_again
from prism_ch.store.retention import apply_retention
from prism_ch.store.statements import split_statements, statement

#: Kafka topics that a server can consume, each a file of sql/kafka.
STREAMS = ("flows", "goflow2", "pmacct")

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")
_VIEW = re.compile(r"^CREATE VIEW IF NOT EXISTS (\w+)\n.*?^AS\n(.*?);", re.MULTILINE | re.DOTALL)
_IN_PLACE = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of sql/migrations."""

    version: int
    name: str
    checksum: str
    text: str

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements, split on each call, since most runs apply none.

        A view's name in braces stands for its SELECT: to plan a view within a view takes the engine as long as all the
        rest of most statements.
        """
        return split_statements(_IN_PLACE.sub(lambda name: f"({_selects()[name[1]]})", self.text))


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version, oldest first."""
    found = [
        _read(int(match[1]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in asset("sql/migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(entry.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


@cache
def _selects() -> dict[str, str]:
    """Return what views select, by name."""
    return {name: select for one in migrations() for name, select in _VIEW.findall(one.text)}


def migrate(store: Store) -> list[str]:
    """Bring a database to this version's schema, with retention.

    Returns the names of what was applied, in order. An empty database gets what all migrations add up to. Tables and
    views that are gone are made anew, and blocks of steps filled from steps. Raises StoreError as apply_migrations()
    does.
    """
    _make_database(store)
    missing = _missing(store)
    if not _tables(store):
        _make_tables(store)
        _record(store, missing)
    else:
        _apply(store, missing)
    applied = [migration.name for migration in missing]
    lost = _lost_tables(store)
    if lost:
        _make_tables(store)
        applied += [f"{name}, which was gone" for name in lost]
    apply_retention(store)
    if lost:
        pack_again(store)
    return applied


def apply_migrations(store: Store) -> None:
    """Apply missing migrations, one by one.

    A migration is recorded after its last statement, and its statements may be repeated: killed in the middle and run
    again, it completes.
    Raises StoreError, having changed nothing, where a newer version or one before the first release made the database,
    or an applied migration differs.
    """
    _make_database(store)
    _apply(store, _missing(store))


def _make_database(store: Store) -> None:
    name = {"name": store.database}
    if store.raw(statement("count_databases"), name, fmt="TSV", use_database=False).strip() == b"0":
        store.ddl(statement("create_database"), name, use_database=False)


def _make_tables(store: Store) -> None:
    """Make the tables and views of this version that are not there."""
    for text in split_statements(asset("sql/schema.sql").read_text(encoding="utf-8")):
        store.ddl(text)


def _apply(store: Store, missing: Sequence[Migration]) -> None:
    for migration in missing:
        for text in migration.statements:
            store.ddl(text)
        _record(store, [migration])


def _record(store: Store, applied: Sequence[Migration]) -> None:
    """Note that migrations were applied in full."""
    columns = {
        "versions": [migration.version for migration in applied],
        "names": [migration.name for migration in applied],
        "checksums": [migration.checksum for migration in applied],
    }
    store.command(statement("record_migrations"), {**columns, "tool_version": __version__})


def require_schema(store: Store) -> None:
    """Raise StoreError, with the remedy, if the database is older or newer than this version."""
    missing = _missing(store)
    if missing:
        raise StoreError(
            f"{store} is not at this version's schema ({len(missing)} migrations missing, first {missing[0].name});"
            " run `prism-ch migrate`"
        )
    lost = _lost_tables(store)
    if lost:
        raise StoreError(
            f"{store} has lost {', '.join(lost)}; `prism-ch migrate` makes them anew; then `prism-ch doctor`"
        )


def connect_stream(store: Store, name: str) -> None:
    """Make the server consume one of STREAMS; safe to repeat.

    Raises UsageError on the embedded engine, which consumes no topic, and StoreError where the server refuses, as one
    without the named collection `prism_kafka` does.
    """
    if store.embedded:
        raise UsageError(
            f"the stream {name} needs a ClickHouse server: the embedded engine consumes no Kafka topic;"
            " give a server with --url, or let `prism-ch serve` watch a spool directory"
        )
    for text in split_statements(asset(f"sql/kafka/{name}.sql").read_text(encoding="utf-8")):
        store.ddl(text)


def _read(version: int, file_name: str, text: str) -> Migration:
    """Read one migration. White space at line ends and the kind of line end don't count as changes."""
    normal = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    checksum = hashlib.sha256(normal.encode()).hexdigest()
    return Migration(version, file_name.removesuffix(".sql"), checksum, text)


@cache
def _made() -> frozenset[str]:
    """Return the names of the tables and views of this version."""
    text = asset("sql/schema.sql").read_text(encoding="utf-8")
    return frozenset(re.findall(r"^CREATE (?:TABLE|VIEW|MATERIALIZED VIEW) IF NOT EXISTS (\w+)", text, re.MULTILINE))


def _lost_tables(store: Store) -> list[str]:
    """Return the tables and views of this version that the database does not have."""
    return sorted(_made() - _tables(store))


def _tables(store: Store) -> set[str]:
    """Return the names of the tables and views of the database."""
    return {name for (name,) in store.rows(statement("all_tables"))}


def _missing(store: Store) -> list[Migration]:
    """Return what is yet to be applied. Raises StoreError if what was applied is unknown here or has changed."""
    if not store.scalar(statement("has_migrations")):
        return list(migrations())
    known = {migration.version: migration for migration in migrations()}
    for version, name, checksum, tool_version in store.rows(statement("applied_migrations")):
        own = known.pop(version, None)
        if own is None:
            raise StoreError(
                f"{store} was made by prism-ch {tool_version} (it has {name}), which is newer than this {__version__};"
                " upgrade prism-ch or use another database; nothing was changed"
            )
        if name != own.name:
            raise StoreError(
                f"{store} was made by a version before the first release (it has {name}) and can't be migrated:"
                " make it anew, by another folder or database in --url, and ingest again; nothing was changed"
            )
        if checksum != own.checksum:
            raise StoreError(
                f"{store}: {own.name}.sql is not what prism-ch {tool_version} applied here as {name};"
                " a released migration is never edited: install an unmodified prism-ch, or start a new database"
            )
    return list(known.values())
