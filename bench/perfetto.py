"""How long `prism-ch export perfetto` takes for a job of 1,024 GPUs, and how large its trace is.

Part of `make bench`. A job is simulated, landed and analysed; 100 of its steps are exported, packed, beside what
ClickHouse alone takes to hand over the same rows. The trace is then decoded by the package's own classes, and the
seconds of each phase are compared with the table timeline.
"""

from __future__ import annotations

import argparse
import gzip
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from bench.throughput import duration_s, note
from prism_ch.export.output import replaced
from prism_ch.export.perfetto import Exported, export_trace
from prism_ch.export.reader import Source
from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import load_topology
from prism_ch.settings import Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from prism_ch.worker import analyse
from tests import traces

#: Bounds: seconds to export, bytes of the packed trace, and seconds that a phase may differ from the table.
EXPORT_S, PACKED_BYTES, DIFFERENCE_S = 10.0, 60e6, 1e-6

_STEPS_BEYOND = 4
#: Runs `prism-ch` and prints its peak of memory; what getrusage() has of a child counts its parent, too.
_COMMAND = """
import sys
from prism_ch.cli import main
main(sys.argv[1:])
print(*(line for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""
_TIMELINE = """
SELECT endpoint, step, phase, start_time, end_time
FROM timeline
WHERE job_id = {job_id:String} AND step < {steps:UInt64}
"""
_FLOWS = """
WITH
(
    SELECT toUnixTimestamp64Nano(max(end_time))
    FROM steps
    WHERE job_id = {job_id:String} AND step < {steps:UInt64}
) AS end_ns
SELECT src_addr, dst_addr, time_flow_start_ns, time_flow_end_ns, bytes
FROM flows
WHERE time_flow_end_ns < end_ns
"""
_SECONDS = """
SELECT toString(phase), sum(toUnixTimestamp64Nano(end_time) - toUnixTimestamp64Nano(start_time)) FROM timeline
WHERE job_id = {job_id:String} AND step < {steps:UInt64} GROUP BY phase
"""


def main() -> None:
    """Fill a database in a temporary folder, export, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=1024, help="a multiple of 32 (default: 1024)")
    parser.add_argument("--steps", type=int, default=100, help="that are exported (default: 100)")
    parser.add_argument(
        "--repeats", type=int, default=3, help="how often each is timed; medians are printed (default: 3)"
    )
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder:
        with connect(f"chdb://{folder}/data") as store:
            _fill(store, Path(folder), chosen.gpus, chosen.steps)
            job_id = str(store.scalar("SELECT job_id FROM jobs"))
            _measure(store, job_id, Path(folder) / "trace.pftrace.gz", chosen.steps, chosen.repeats)
        _memory(Path(folder), job_id, chosen.steps)


def _fill(store: Store, folder: Path, gpus: int, steps: int) -> None:
    note(f"simulating and analysing {gpus:,} GPUs")
    write(generate(textbook(gpus, 8, 4, gpus // 32, steps=steps + _STEPS_BEYOND, seed=1)), folder)
    migrate(store)
    load_topology(store, str(folder / "topology.csv"))
    land_files(store, [str(folder / "flows" / "*.parquet")])
    analyse(store, Settings(url="chdb://-"))


def _measure(store: Store, job_id: str, file: Path, steps: int, repeats: int) -> None:
    made: list[Exported] = []

    def export() -> None:
        with replaced(file) as output:
            made.append(export_trace(Source.of_store(store), job_id, output.write, last_step=steps - 1))

    def read() -> None:
        for sql in (_TIMELINE, _FLOWS):
            store.raw(sql, {"job_id": job_id, "steps": steps}, fmt="ArrowStream")

    times: dict[str, list[float]] = {"read": [], "export": []}
    for turn in range(repeats):
        note(f"turn {turn + 1} of {repeats}")
        times["read"].append(duration_s(read))
        times["export"].append(duration_s(export))
    read_s, export_s = (statistics.median(times[name]) for name in ("read", "export"))
    size, phases = file.stat().st_size, made[0].phases
    print(f"\n{made[0].endpoints:,} GPUs, {made[0].span.steps} steps: {phases:,} phases, {made[0].messages:,} messages")
    print(f"{'':44}{'seconds':>9}  ratio")
    print(f"{'ClickHouse alone, the same rows':44}{read_s:9.2f}")
    print(
        f"{'export perfetto, packed':44}{export_s:9.2f}  {read_s / export_s:.2f} of it (wanted: at most {EXPORT_S:g} s)"
    )
    print(f"{size / 1e6:.1f} MB packed, {size / phases:.1f} bytes a phase (wanted: at most {PACKED_BYTES / 1e6:g} MB)")
    note("decoding the trace")
    data = gzip.decompress(file.read_bytes())
    print(f"{len(data) / 1e6:.1f} MB unpacked, {len(data) / phases:.1f} bytes a phase")
    difference_s = _difference_s(_seconds(data), dict(store.rows(_SECONDS, {"job_id": job_id, "steps": steps})))
    print(f"seconds of a phase differ from timeline by {difference_s:g} s (wanted: at most {DIFFERENCE_S:g} s)")


def _seconds(data: bytes) -> dict[str, int]:
    """Add up the nanoseconds of all slices by name."""
    sums: defaultdict[str, int] = defaultdict(int)
    begun: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for time_ns, track, kind, name, _ in traces.Decoder().events(data):
        if kind == traces.BEGIN:
            begun[track].append((name, time_ns))
        elif kind == traces.END:
            of, since_ns = begun[track].pop()
            sums[of] += time_ns - since_ns
    return sums


def _difference_s(found: dict[str, int], wanted: dict[str, int]) -> float:
    return max(abs(found.get(phase, 0) - length_ns) for phase, length_ns in wanted.items()) / 1e9


def _memory(folder: Path, job_id: str, steps: int) -> None:
    """Print the command's peak of memory for half of the steps, and for all."""
    for last in (max(steps // 2, 1) - 1, steps - 1):
        command = ["export", "perfetto", job_id, "--steps", f":{last}", "-o", str(folder / "again.pftrace.gz")]
        started = [sys.executable, "-c", _COMMAND, *command, "--url", f"chdb://{folder}/data"]
        done = subprocess.run(started, check=True, capture_output=True, text=True)
        print(f"{int(done.stdout.split()[-2]) / 1e3:,.0f} MB of memory at most for {last + 1} steps")


if __name__ == "__main__":
    main()
