"""What tests of the HTTP endpoint share: one that listens, on a database with rows of two tenants."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from tests.serving import OwnEndpoint, endpoint


@pytest.fixture(scope="session")
def served(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint with its own database, for tests that leave the tables of the schema as they are."""
    with connect(f"chdb://{engine_folder}?database=served") as store:
        migrate(store)
        with endpoint(store, engine_folder) as listening:
            yield listening
