"""Brings a database to this version's schema: numbered, checksummed, forward-only migrations."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache

from prism_ch import __version__
from prism_ch.assets import asset
from prism_ch.errors import StoreError
from prism_ch.store.client import Store
from prism_ch.store.cluster import for_cluster
from prism_ch.store.retention import settle
from prism_ch.store.statements import split_statements, statement

_FILE_NAME = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql")


@dataclass(frozen=True, slots=True)
class Migration:
    """One file of sql/migrations."""

    version: int
    name: str
    checksum: str
    text: str

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements, as written; split only when asked for, since most runs apply none."""
        return split_statements(self.text)


@cache
def migrations() -> tuple[Migration, ...]:
    """Return the migrations this version knows, oldest first."""
    found = [
        _read(int(match[1]), entry.name, entry.read_text(encoding="utf-8"))
        for entry in asset("sql/migrations").iterdir()
        if (match := _FILE_NAME.fullmatch(entry.name))
    ]
    return tuple(sorted(found, key=lambda migration: migration.version))


def migrate(store: Store) -> list[str]:
    """Apply what is missing, see to how long rows are kept, and return the names of what was applied, in order.

    Killed in the middle and run again, it completes.
    Raises StoreError, having changed nothing, where a newer version made the database or an applied migration differs.
    """
    applied = apply_migrations(store)
    settle(store)
    return applied


def apply_migrations(store: Store) -> list[str]:
    """Apply what is missing, in order, and return the names of what was applied; nothing where all is there.

    A migration is recorded after its last statement, and its statements may be repeated: killed in the middle and run
    again, it completes.
    Raises StoreError, having changed nothing, where a newer version made the database or an applied migration differs.
    """
    _create_database(store)
    applied = _applied(store)
    missing = [migration for migration in migrations() if migration.version not in applied]
    for migration in missing:
        for text in migration.statements:
            for one in for_cluster(text, store.cluster):
                store.command(one)
        store.command(
            statement("record_migration"),
            {
                "version": migration.version,
                "name": migration.name,
                "checksum": migration.checksum,
                "tool_version": __version__,
            },
        )
    return [migration.name for migration in missing]


def require_schema(store: Store) -> None:
    """Make sure that the database is neither older nor newer than this version.

    Raises StoreError, saying how to mend it, where it is.
    """
    applied = _applied(store)
    missing = [migration.name for migration in migrations() if migration.version not in applied]
    if missing:
        raise StoreError(
            f"{store} is not at this version's schema ({len(missing)} migrations missing, first {missing[0]});"
            " run `prism-ch migrate`"
        )


def _read(version: int, file_name: str, text: str) -> Migration:
    """Read one migration; white space at line ends and the kind of line end don't count as changes."""
    normal = "\n".join(line.rstrip() for line in text.splitlines()).strip()
    return Migration(
        version=version,
        name=file_name.removesuffix(".sql"),
        checksum=hashlib.sha256(normal.encode()).hexdigest(),
        text=text,
    )


def _create_database(store: Store) -> None:
    """Make the database where it is absent, without needing the right to do so where it is there."""
    there = "SELECT count() FROM system.databases WHERE name = {name:String}"
    name = {"name": store.database}
    if store.raw(there, name, fmt="TSV", use_database=False).strip() == b"0":
        (create,) = for_cluster("CREATE DATABASE IF NOT EXISTS {name:Identifier}", store.cluster)
        store.command(create, name, use_database=False)


def _applied(store: Store) -> frozenset[int]:
    """Return the versions that the database holds, having checked that all of them are known here and unchanged."""
    if not store.scalar("EXISTS TABLE schema_migrations"):
        return frozenset()
    known = {migration.version: migration for migration in migrations()}
    applied = store.rows(statement("applied_migrations"))
    for version, name, checksum, tool_version in applied:
        if version not in known:
            raise StoreError(
                f"{store} was made by prism-ch {tool_version} (it has {name}), which is newer than this {__version__};"
                " upgrade prism-ch or use another database; nothing was changed"
            )
        if checksum != known[version].checksum:
            raise StoreError(
                f"{store}: {known[version].name}.sql is not what prism-ch {tool_version} applied here as {name};"
                " a released migration is never edited: install an unmodified prism-ch, or start a new database"
            )
    return frozenset(row[0] for row in applied)
