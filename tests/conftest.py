"""What every test may ask for: the embedded engine, one a session, and a database of its own."""

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import settings

from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.store.retention import apply_retention

# How long an example takes says more of the machine and its load than of the code.
settings.register_profile("many", deadline=None, max_examples=100)
# Few are always the same ones, so that a commit passes or fails as its code does; many are new ones each time.
settings.register_profile("few", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("few")

_numbers = count(1)
#: Tables in which migrate() notes what it did.
_KEPT = ["schema_migrations", "retention_log"]


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the session's one engine, held open until the end: chDB opens one folder a process."""
    folder = tmp_path_factory.mktemp("engine")
    with connect(f"chdb://{folder}"):
        yield folder


@pytest.fixture(scope="session")
def spare_databases() -> list[str]:
    """Names of migrated databases that earlier tests are done with: emptying one is much quicker than making one."""
    return []


@pytest.fixture(scope="session")
def spare_retained() -> list[str]:
    """Names of migrated databases whose tables have their times to live, and that earlier tests are done with."""
    return []


@pytest.fixture
def store_url(engine_folder: Path, spare_databases: list[str], request: pytest.FixtureRequest) -> str:
    """URL of the test's database; one that does not exist yet where the test does not ask for `store`."""
    handed_on = "store" in request.fixturenames and bool(spare_databases)
    name = spare_databases.pop() if handed_on else f"test_{next(_numbers)}"
    return f"chdb://{engine_folder}?database={name}"


@pytest.fixture
def empty_store(store_url: str) -> Iterator[Store]:
    """A connection to a database that does not exist yet; whatever the test makes of it is dropped."""
    with connect(store_url) as store:
        yield store
        _drop(store)


@pytest.fixture
def store(store_url: str, engine_folder: Path, spare_databases: list[str]) -> Iterator[Store]:
    """A connection to an empty database with this version's schema; handed on unless the test changes the schema."""
    with connect(store_url) as store:
        # A schema is some sixty files, and nobody will miss those of a test after a power cut.
        store.client.set_client_setting("fsync_metadata", 0)
        if not _exists(store):
            migrate(store)
        schema = _schema(engine_folder, store.database)
        yield store
        if _schema(engine_folder, store.database) == schema:
            _empty(store, _KEPT)
            spare_databases.append(store.database)
        else:
            _drop(store)


@pytest.fixture
def retained(engine_folder: Path, spare_retained: list[str]) -> Iterator[Store]:
    """As `store`, with retention applied: that changes the schema, so that `store` would be made anew for each test."""
    name = spare_retained.pop() if spare_retained else f"test_{next(_numbers)}"
    with connect(f"chdb://{engine_folder}?database={name}") as store:
        store.client.set_client_setting("fsync_metadata", 0)
        if not _exists(store):
            migrate(store)
        apply_retention(store)
        tables = _tables(engine_folder, name)
        yield store
        if _tables(engine_folder, name) == tables:
            _empty(store, _KEPT[:1])
            spare_retained.append(name)
        else:
            _drop(store)


def _exists(store: Store) -> bool:
    answer = store.raw("EXISTS DATABASE {name:Identifier}", {"name": store.database}, fmt="TSV", use_database=False)
    return answer.strip() == b"1"


# Both look at the engine's files: each statement that asked it would take longer than all of this.


def _schema(folder: Path, database: str) -> object:
    """Describe the migrations that the database had, the days that it keeps, and its tables and views."""
    # A row that is written, or gone, is a folder more or less.
    noted = [(folder / "data" / database / table).stat().st_mtime_ns for table in _KEPT]
    return noted, _tables(folder, database)


def _tables(folder: Path, database: str) -> object:
    """Describe the files of tables and views, which the engine replaces when it changes one."""
    files = {entry.name: entry.stat() for entry in os.scandir(folder / "metadata" / database)}
    return {name: (state.st_ino, state.st_mtime_ns) for name, state in files.items()}


def _empty(store: Store, kept: list[str]) -> None:
    """Remove all rows but those of some tables, and with them the memory of deduplication tokens."""
    # Also a table whose rows are all gone has parts, that were replaced.
    written = (
        "SELECT DISTINCT table FROM system.parts WHERE database = {name:String} AND table NOT IN {kept:Array(String)}"
    )
    for (name,) in store.rows(written, {"name": store.database, "kept": kept}):
        store.command("TRUNCATE TABLE {name:Identifier}", {"name": name})


def _drop(store: Store) -> None:
    """Drop the database, where it is there."""
    store.command("DROP DATABASE IF EXISTS {name:Identifier}", {"name": store.database}, use_database=False)
