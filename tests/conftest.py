"""What every test may ask for: the embedded engine, one a session, and a database of its own."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

_numbers = count(1)


@pytest.fixture(scope="session")
def engine_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folder of the session's one engine, held open until the end: chDB opens one folder a process."""
    folder = tmp_path_factory.mktemp("engine")
    with connect(f"chdb://{folder}"):
        yield folder


@pytest.fixture
def store_url(engine_folder: Path) -> str:
    """URL of a database that does not exist yet, in the session's engine."""
    return f"chdb://{engine_folder}?database=test_{next(_numbers)}"


@pytest.fixture
def empty_store(store_url: str) -> Iterator[Store]:
    """A connection to a database that does not exist yet; whatever the test makes of it is dropped."""
    with connect(store_url) as store:
        # A schema is some sixty files, and nobody will miss those of a test after a power cut.
        store.client.set_client_setting("fsync_metadata", 0)
        yield store
        store.command("DROP DATABASE IF EXISTS {name:Identifier}", {"name": store.database}, use_database=False)


@pytest.fixture
def store(empty_store: Store) -> Store:
    """A connection to a fresh database with this version's schema."""
    migrate(empty_store)
    return empty_store
