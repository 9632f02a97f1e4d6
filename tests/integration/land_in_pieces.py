"""Lands files in small chunks, a printed line each, so that a test can kill it in the middle; ends with the sums."""

import json
import sys

from prism_ch.ingest import columnar, files, lines
from prism_ch.ingest.files import land_files
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

CHUNK_ROWS = 100
CHUNK_BYTES = 10_000

#: All that landing writes; times of arrival apart.
SUMS = {
    "flows": "SELECT count(), sum(bytes), sum(cityHash64(* EXCEPT received_at)) FROM flows",
    "stored": "SELECT count() FROM flows_log",
    "rejected": "SELECT count(), sum(position), sum(cityHash64(source, reason, record)) FROM flows_rejected_log",
    "pairs": "SELECT sum(flows), sum(bytes), sum(packets) FROM flow_pair_1m",
    "switches": "SELECT sum(flows), sum(bytes), sum(packets) FROM switch_1m",
    "arrivals": "SELECT sum(records), sum(fingerprint) FROM arrivals",
    "counts": "SELECT reason, sum(records) FROM landing_counts_log GROUP BY ALL ORDER BY ALL",
    "landings": "SELECT source, status, records, landed FROM landings ORDER BY source",
}


def sums(store: Store) -> dict[str, list[list[object]]]:
    """Return what is in the database after a landing, for comparison."""
    return {name: [list(row) for row in store.rows(query)] for name, query in SUMS.items()}


def main(url: str, *paths: str) -> None:
    """Land the files, telling of every chunk that has landed."""
    columnar.CHUNK_ROWS = CHUNK_ROWS
    lines.CHUNK_BYTES = CHUNK_BYTES
    files.SMALL_BYTES = -1
    with connect(url) as store:
        # What a killed process has written stays in the system's memory; only a power cut would take it.
        store.client.set_client_setting("fsync_metadata", 0)
        migrate(store)
        print("ready", flush=True)  # noqa: T201 (the test reads it)
        land_files(store, paths, progress=lambda done, _: print(done, flush=True))  # noqa: T201
        print(json.dumps(sums(store)), flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
