"""How much the HTTP endpoint costs beside the same queries in process.

Run with `make bench`. A table of steps of GPUs is read by a client in a process of its own, over HTTP, and in the
process that has the engine, turn by turn: 10,000 rows, where latency counts, and 5 million, where throughput does. Both
take ClickHouse's Native format and don't look into it.
"""

from __future__ import annotations

import argparse
import http.client
import io
import statistics
import subprocess
import sys
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from prism_ch.serve.http import application, listening
from prism_ch.serve.sql import SqlEndpoint
from prism_ch.serve.users import hash_password
from prism_ch.settings import ServeSettings
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate

#: Bounds on the ratios of time over HTTP to time in process, and of the throughputs.
LATENCY_MOST, THROUGHPUT_LEAST = 1.3, 0.7

_ROWS = 5_000_000
_TABLE = f"""
CREATE OR REPLACE TABLE bench_steps ENGINE = MergeTree ORDER BY (step, endpoint) AS
SELECT
    intDiv(number, 256) AS step,
    toLowCardinality(concat('10.0.', toString(intDiv(number % 256, 8)), '.', toString(number % 8))) AS endpoint,
    fromUnixTimestamp64Nano(toInt64(17e17 + step * 2e9 + cityHash64(number) % 1000000)) AS end_time,
    2 + (cityHash64(number, 1) % 1000) / 10000 AS duration_s,
    1 + (cityHash64(number, 2) % 1000) / 10000 AS compute_s,
    0.5 + (cityHash64(number, 3) % 1000) / 10000 AS dp_s
FROM numbers({_ROWS})
"""
_FEW = "SELECT * FROM bench_steps WHERE step >= 1000 ORDER BY step, endpoint LIMIT 10000"
_ALL = "SELECT * FROM bench_steps"
_PASSWORD = "of-the-bench"  # noqa: S105 - of a server that ends with this process


def main() -> None:
    """Make the table, measure, print; with a port, be the client."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200, help="how often the few rows are asked (default: 200)")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.port:
        _be_client(chosen.port)
        return
    with tempfile.TemporaryDirectory(prefix="prism-ch-bench-") as folder, connect(f"chdb://{folder}") as store:
        migrate(store)
        store.command(_TABLE)
        users = {"bench": {"password": hash_password(_PASSWORD), "role": "reader"}}
        settings = ServeSettings.model_validate({"users": users, "requests_per_minute": 1_000_000})
        with (
            closing(SqlEndpoint(store, Path(folder), settings)) as sql,
            listening(application(list, list, sql), "127.0.0.1", 0) as port,
        ):
            measure(store, port, chosen.repeats)


def measure(store: Store, port: int, repeats: int) -> None:
    """Time both ways, turn by turn, and print the ratios with their bounds."""
    client = subprocess.Popen(
        [sys.executable, "-m", "bench.endpoint", "--port", str(port)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with client:

        def over_http(name: str) -> float:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(f"{name}\n")
            client.stdin.flush()
            return float(client.stdout.readline())

        few = [(_duration_s(lambda: store.raw(_FEW, fmt="Native")), over_http("few")) for _ in range(repeats)][5:]
        everything = [(_duration_s(lambda: _read_in_process(store)), over_http("all")) for _ in range(7)][1:]
        assert client.stdin is not None
        client.stdin.close()
    inside_s, outside_s = (statistics.median(side) for side in zip(*few, strict=True))
    latency = outside_s / inside_s
    print(f"10,000 rows: {inside_s * 1e3:.2f} ms in process, {outside_s * 1e3:.2f} ms over HTTP")
    print(f"  latency ratio {latency:.2f}, bound {LATENCY_MOST}: {'ok' if latency <= LATENCY_MOST else 'MISSED'}")
    inside_s, outside_s = (statistics.median(side) for side in zip(*everything, strict=True))
    throughput = inside_s / outside_s
    speeds = f"{_ROWS / inside_s / 1e6:.1f} M rows/s in process, {_ROWS / outside_s / 1e6:.1f} M over HTTP"
    print(f"{_ROWS:,} rows: {speeds}")
    result = "ok" if throughput >= THROUGHPUT_LEAST else "MISSED"
    print(f"  throughput ratio {throughput:.2f}, bound {THROUGHPUT_LEAST}: {result}")


def _read_in_process(store: Store) -> None:
    """Take all rows as they come."""
    stream = store.client.raw_stream(_ALL, fmt="Native")
    assert isinstance(stream, io.RawIOBase)
    with stream:
        while stream.read(1 << 20):
            pass


def _duration_s(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def _be_client(port: int) -> None:
    """Ask the statements that stdin names over one connection; print each duration in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    login = {"Authorization": "Basic " + b64encode(f"bench:{_PASSWORD}".encode()).decode()}
    buffer = bytearray(1 << 20)

    def ask(statement: str) -> None:
        connection.request("POST", "/?default_format=Native", statement, login)
        with connection.getresponse() as answer:
            assert answer.status == 200
            while answer.readinto(buffer):
                pass

    for line in sys.stdin:
        statement = {"few": _FEW, "all": _ALL}[line.strip()]
        print(_duration_s(partial(ask, statement)), flush=True)


if __name__ == "__main__":
    main()
