"""How costs grow with time and with the cluster: `python -m bench.growth`, of `make bench`.

An hour of a cluster whose jobs differ in family and have steps of 0.3 to 90 s is analysed window by window, as a worker
does that goes on: printed are the rows read and looked at for each new one, of young and of settled jobs, the slowest
window against the median one, and how CPU time adds up with the minutes. Then one minute of clusters of rising size is
landed and analysed, each in a process of its own: printed are CPU time, memory, and how both grow.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from bench.processes import peak_bytes
from bench.profile import Samples, Worked, profile
from bench.recordings import landed, write_in_slices
from bench.throughput import note
from prism_ch.model.columns import Float64
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario
from prism_ch.simulate.draws import MIB, Draws, textbook_job
from prism_ch.simulate.job import GradientSync, Job, Layout
from prism_ch.simulate.scenario import Cluster
from prism_ch.worker import analyse

#: Servers of a job, and the ways to move gradients, taken in turn.
_JOB_SERVERS = (8, 4, 16, 2, 12, 8, 6, 4)
_SYNCS = (
    GradientSync(),
    GradientSync(mode="distributed_optimizer"),
    GradientSync(mode="zero2", buckets=3),
    GradientSync(mode="zero3", layers=4, unit_bytes=(134 * MIB,), channels=8),
    GradientSync(buckets=4, overlap=True),
)
#: The shortest and the longest steps, in seconds.
_STEPS_S = (0.3, 90.0)
#: How many GPUs send a file of records in a minute; more of them in less time.
_FILE_GPUS = 2_880


@dataclass(frozen=True, slots=True)
class Minute:
    """What a minute of a cluster took: flow records, CPU seconds of the analysis, and the most memory in GiB."""

    gpus: int
    flows: int
    cpu_s: float
    memory_gib: float


def main() -> None:
    """Simulate, analyse, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.growth", description=__doc__)
    parser.add_argument("--minutes", type=int, default=60, help="of the mixed cluster (default: 60)")
    parser.add_argument("--gpus", type=int, default=2880, help="of the mixed cluster (default: 2,880)")
    parser.add_argument(
        "--sizes", type=int, nargs="*", default=[288, 864, 2880, 8640], help="clusters of one minute, in GPUs"
    )
    parser.add_argument("--window-s", type=int, default=60, help="of such a minute, in seconds (default: 60)")
    chosen = parser.parse_args()
    if chosen.minutes:
        _print_hour(chosen.gpus, profile(mixed(chosen.gpus // 8, 60.0 * chosen.minutes), Samples()))
    if chosen.sizes:
        _print_sizes([_minute(gpus, chosen.window_s) for gpus in chosen.sizes])


def mixed(servers: int, duration_s: float, seed: int = 5) -> Scenario:
    """Describe a cluster full of jobs of several families and lengths of steps."""
    draws, jobs, first = Draws("mixed", seed, servers), list[Job](), 0
    counts: list[int] = []
    while sum(counts) < servers:
        counts.append(min(_JOB_SERVERS[len(counts) % len(_JOB_SERVERS)], servers - sum(counts)))
    steps_s = np.geomspace(*_STEPS_S, len(counts))[draws.shuffled(range(len(counts)))].tolist()
    for number, (count, step_s) in enumerate(zip(counts, steps_s, strict=True)):
        sync = _SYNCS[number % len(_SYNCS)]
        piped = sync.mode in ("allreduce", "distributed_optimizer") and count % 2 == 0
        layout = Layout(tp=8, pp=2, dp=count // 2) if piped else Layout(tp=8, dp=count)
        if sync.mode == "zero3":
            layout = Layout(dp=8 * count)
        gpus = range(8 * first, 8 * (first + count))
        buffer_bytes = draws.reduction(step_s).buffer_bytes
        pipeline = draws.pipeline(layout, microbatches=(4, 8))
        job = draws.job(
            number, layout, step_s, gpus=gpus, pipeline=pipeline, sync=replace(sync, buffer_bytes=buffer_bytes)
        )
        jobs.append(job)
        first += count
    return draws.scenario(jobs, max(steps_s), duration_s=duration_s, phases=False)


def sized(gpus: int) -> Scenario:
    """Describe a minute of a cluster of jobs of 288 GPUs."""
    layout = Layout(tp=8, pp=4, dp=9)
    jobs = [
        textbook_job(number, layout, 288 * number, 3.8 * 1.05 ** (number % 5), microbatches=32, overlap=number % 2 == 1)
        for number in range(gpus // 288)
    ]
    cluster = Cluster(servers=gpus // 8, pod_servers=32, spines=16)
    return Scenario(name="sized", cluster=cluster, jobs=tuple(jobs), duration_s=60.0, seed=1, phases=False)


def _print_hour(gpus: int, windows: Sequence[Worked]) -> None:
    """Print what the windows of an hour cost."""
    whole, young = np.array([(astuple(one.rows), astuple(one.young)) for one in windows]).sum(axis=0)
    print(f"{len(windows)} minutes of {gpus:,} GPUs, up to {max(one.jobs for one in windows)} jobs")
    for whose, (new, read, looked_at) in (("young", young), ("settled", whole - young)):
        each = max(new, 1)
        print(
            f"{whose:>8}: {new:,} flows; for each {read / each:.2f} rows read, {looked_at / each:.2f} looked at"
            " (bounds: 3 and 1.2)"
        )
    wall_s, cpu_s = (np.array([getattr(one, name) for one in windows]) for name in ("wall_s", "cpu_s"))
    print(f"slowest window over the median one: {wall_s.max() / np.median(wall_s):.2f} (bound: 3)")
    print(f"sustained: {whole[0] / wall_s.sum():,.0f} flows/s (bound: 800,000)")
    minutes = np.arange(1.0, len(windows) + 1)
    print(f"CPU time grows with minutes to the power of {exponent(minutes, np.cumsum(cpu_s)):.2f} (bound: 1)\n")


def exponent(sizes: Sequence[float] | Float64, costs: Sequence[float] | Float64) -> float:
    """Fit the power of the size that costs grow by. It is the slope of logarithms, by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(costs), 1)[0])


def _minute(gpus: int, window_s: int) -> Minute:
    """Measure a minute of a cluster, in another process than it is simulated in."""
    note(f"a minute of {gpus:,} GPUs")
    with tempfile.TemporaryDirectory() as folder:
        _simulate(gpus, folder)
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(_measure, gpus, folder, window_s).result()


def _simulate(gpus: int, folder: str) -> None:
    write_in_slices(sized(gpus), Path(folder), min(60.0, 60.0 * _FILE_GPUS / gpus))


def _measure(gpus: int, folder: str, window_s: int) -> Minute:
    with landed(Path(folder)) as store:
        begin_s = time.process_time()
        report = analyse(store, Settings(url="chdb://-", window_s=window_s))
        cpu_s = time.process_time() - begin_s
    return Minute(gpus, sum(one.flows for one in report.windows), cpu_s, peak_bytes(os.getpid()) / 2**30)


def _print_sizes(minutes: Sequence[Minute]) -> None:
    """Print what a minute of each cluster cost."""
    print(f"{'GPUs':>9}{'flows':>13}{'CPU s':>8}{'GiB':>7}")
    for one in minutes:
        print(f"{one.gpus:>9,}{one.flows:>13,}{one.cpu_s:>8.2f}{one.memory_gib:>7.2f}")
    if len(minutes) > 1:
        power = exponent([float(one.gpus) for one in minutes], [one.cpu_s for one in minutes])
        print(f"CPU time grows with GPUs to the power of {power:.2f} (bound: 1.05)")


if __name__ == "__main__":
    main()
