"""An hour of a 256-GPU cluster through a service that is killed again and again, against one undisturbed batch.

Prints what was lost and what counted twice, whether the results are equal, the service's memory, and how long after a
window's last record its results are there when records come in real time.

    python -m bench.soak [--minutes 60] [--kills 8] [--live-minutes 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from prism_ch.simulate import Scenario, generate, textbook, write
from prism_ch.simulate.scenario import Observation
from prism_ch.store.client import Store, connect
from tests.contract import ADDED, PROMISED, VOLATILE
from tests.e2e.commands import prism_ch_process
from tests.e2e.service import Service

GPUS, STEP_S = 256, 4.0
END = "time_flow_end_ns"
#: Files that wait in the spool at most, while records are replayed as fast as they are taken.
_BACKLOG = 12
#: A service is killed after a time between these, in seconds.
_KILL_AFTER_S = (3.0, 20.0)
_LIVE_WINDOW_S = 15
#: Least number of samples of memory: half a minute of them, four a second.
_LEAST_SAMPLES = 120
_MIB = 1 << 20


def scenario(seconds: float, seed: int, observation: Observation) -> Scenario:
    """Describe two jobs of 128 GPUs, with one GPU slow for a while."""
    shape = textbook(GPUS, 4, 4, 8, jobs=2, step_s=STEP_S, duration_s=seconds, seed=seed, slow_gpu=(5, 2.0, 20, 30))
    return replace(shape, observation=observation, phases=False)


def with_defects() -> Observation:
    """Describe bad records: lost, doubled, late, by clocks that differ."""
    return Observation(path=True, skew_s=0.002, loss=0.001, loss_packet=8, duplicates=0.01, late=0.01, late_mean_s=20.0)


def in_files(flows: pa.Table, folder: Path, files: int) -> list[Path]:
    """Write records in the order of their arrival to several files."""
    folder.mkdir()
    names = [folder / f"{number:05}.parquet" for number in range(files)]
    for name, rows in zip(names, np.array_split(np.arange(len(flows)), files), strict=True):
        pq.write_table(flows.slice(rows[0], len(rows)), name)
    return names


def soak(service: Service, files: Sequence[Path], kills: int, rng: random.Random) -> list[int]:
    """Replay files through a service that is killed several times.

    Returns samples of its memory after the last kill, in bytes.
    """
    memory: list[int] = []
    left = list(files)
    next_kill_s = time.monotonic() + rng.uniform(*_KILL_AFTER_S)
    while left or kills or not service.is_done(len(files)):
        while left and len(service.waiting()) < _BACKLOG:
            service.drop(left[0], left.pop(0).name)
        time.sleep(0.25)
        if kills and time.monotonic() > next_kill_s:
            service.kill()
            service.start()
            kills -= 1
            next_kill_s = time.monotonic() + rng.uniform(*_KILL_AFTER_S)
        elif not kills:
            memory.append(service.memory_bytes())
    return memory


def digest(store: Store) -> dict[str, Any]:
    """Return rows and sum of hashes of each public table, and the delivery counters."""
    found = {}
    for table in PROMISED:
        kept = ", ".join(name for name in PROMISED[table] | ADDED[table] if name not in VOLATILE.get(table, ()))
        if table not in ("losses", "tenant_summary"):  # sums of floating-point numbers, in any order
            found[table] = list(store.rows(f"SELECT count(), sum(cityHash64({kept})) FROM {table}")[0])
    found["arrived"] = list(store.rows("SELECT sum(records), sum(fingerprint) FROM arrivals_log")[0])
    return found


def digest_of(folder: Path) -> dict[str, Any]:
    """Digest a database in a process of its own, since each can open only one."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.soak", "--digest", str(folder)], capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout))


def compare(files: Sequence[Path], folder: Path, home: Path, topology: Path) -> None:
    """Analyse the same files in one batch, and print how the service's results differ."""
    batch = home / "batch"
    landed = files[0].parent
    for command in (("migrate",), ("topology", topology), ("ingest", landed), ("analyse",)):
        done = prism_ch_process(*command, folder=batch)
        assert done.status == 0, done.err
    one, other = digest_of(batch), digest_of(folder)
    rows = sum(pq.read_metadata(file).num_rows for file in files)
    print(f"records       {rows:,} delivered, {other['flows'][0]:,} different ones in flows")
    print(f"lost          {one['flows'][0] - other['flows'][0]:,}")
    print(f"double        {other['arrived'][0] - one['arrived'][0]:,}")
    differing = [table for table in one if one[table] != other[table]]
    print(f"results       {'equal: ' + ', '.join(one) if not differing else 'NOT EQUAL: ' + ', '.join(differing)}")


def print_memory(memory: Sequence[int]) -> None:
    """Print the service's memory since its last start, and whether it still grows."""
    if len(memory) < _LEAST_SAMPLES:
        print(f"memory        {len(memory)} samples since the last start: too few to say whether it grows; replay more")
        return
    third = len(memory) // 3
    before, last = (statistics.median(part) for part in (memory[-2 * third : -third], memory[-third:]))
    start, middle, most = (value / _MIB for value in (memory[0], statistics.median(memory), max(memory)))
    flat = "flat" if last < 1.1 * before else "NOT FLAT"
    print(f"memory        start {start:,.0f}, median {middle:,.0f}, max {most:,.0f} MiB; last third against the one")
    print(f"              before {last / before:.2f}: {flat}")


def by_second(flows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the records that end in each second, by its number."""
    second = flows[END].to_numpy() // 10**9
    order = np.argsort(second, kind="stable")
    starts = np.flatnonzero(np.diff(second[order], prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(order)], strict=True):
        yield int(second[order[begin]]), flows.take(order[begin:end])


def live(home: Path, minutes: float, seed: int) -> None:
    """Deliver records in real time, and print the delay to readable results.

    The delay is from the arrival of a window's last record; records come as a file a second.
    """
    shape = replace(scenario(minutes * 60, seed, Observation(path=True)), start_ns=(int(time.time()) + 60) * 10**9)
    made = generate(shape)
    home.mkdir()
    write(made, home / "sim")
    service = Service(home, window_s=_LIVE_WINDOW_S, silent_after_s=20, lateness_s=2)
    service.prepare(home / "sim" / "topology.csv")
    service.start()
    for second, rows in by_second(made.flows):
        part = home / "part.parquet"
        pq.write_table(rows, part)
        time.sleep(max(0.0, second + 1 - time.time()))
        service.drop(part, f"{second}.parquet")
    while not service.is_done(1) or service.waiting():
        time.sleep(0.5)
    service.stop()
    with connect(f"chdb://{service.folder}") as store:
        seconds = sorted(row[0] for row in store.rows(_LATENCY, {"window_s": _LIVE_WINDOW_S}))
    middle, late = np.quantile(seconds[:-1] or seconds, (0.5, 0.95))  # the last one waits for silence
    print(f"live          {len(seconds)} windows of {_LIVE_WINDOW_S} s, lateness 2 s: last record landed to results")
    print(f"              readable median {middle:.1f} s, 95th percentile {late:.1f} s")


#: From the arrival of a window's last record to the first publication of its results.
_LATENCY = """
SELECT (toUnixTimestamp64Milli(published) - toUnixTimestamp64Milli(arrived)) / 1000
FROM (SELECT window_start, min(published_at) AS published FROM revisions GROUP BY window_start) AS r
INNER JOIN
(
    SELECT toStartOfInterval(second, toIntervalSecond({window_s:UInt32})) AS start, max(last_received_at) AS arrived
    FROM arrivals
    GROUP BY start
) AS a ON toDateTime(r.window_start, 'UTC') = a.start
"""


def main() -> None:
    """Soak, compare, and measure live."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0, help="how much time of the cluster is replayed")
    parser.add_argument("--kills", type=int, default=8, help="how often the service is killed")
    parser.add_argument("--live-minutes", type=float, default=0.0, help="how long records are delivered in real time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--digest", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.digest:
        with connect(f"chdb://{chosen.digest}") as store:
            print(json.dumps(digest(store)))
        return
    rng = random.Random(chosen.seed)  # noqa: S311 - moments, no secrets
    with tempfile.TemporaryDirectory(prefix="prism-soak-") as name:
        home = Path(name)
        if chosen.minutes:
            made = generate(scenario(chosen.minutes * 60, chosen.seed, with_defects()))
            write(made, home / "sim")
            files = in_files(made.flows, home / "files", max(int(chosen.minutes * 6), 1))
            service = Service(home, silent_after_s=5)
            service.prepare(home / "sim" / "topology.csv")
            began = time.monotonic()
            service.start()
            memory = soak(service, files, chosen.kills, rng)
            wall_s = time.monotonic() - began
            service.stop()
            print(
                f"replayed      {chosen.minutes:.0f} min of {GPUS} GPUs in {wall_s:.0f} s, killed {chosen.kills} times"
            )
            compare(files, service.folder, home, home / "sim" / "topology.csv")
            print_memory(memory)
        if chosen.live_minutes:
            live(home / "live", chosen.live_minutes, chosen.seed)


if __name__ == "__main__":
    main()
