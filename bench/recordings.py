"""Databases of recordings that `prism-ch simulate` makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate


@contextmanager
def landed(folder: Path) -> Iterator[Store]:
    """Land a recording in a database beside it, while a block runs."""
    with connect(f"chdb://{folder}/data") as store:
        migrate(store)
        load_topology(store, str(folder / "topology.csv"))
        land_files(store, [str(folder / "flows" / "*.parquet")])
        yield store
