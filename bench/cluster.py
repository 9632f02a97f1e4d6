"""What a Dask cluster gives and costs: the same windows here, on one worker and on two. Part of `make bench`.

Windows of 40 jobs are read once and then analysed by turns: in this process, and by `prism-ch worker` processes of two
schedulers, one of which has one worker and the other two. Printed are medians, their ratios, the CPU time of each
process, what is sent, and what larger clusters with such traffic would need, by arithmetic. On a machine with other
work the ratios say little: CPU time does.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from bench import processes
from bench.recordings import landed
from bench.throughput import note
from prism_ch import worker
from prism_ch.analysis.executor import Executor
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.analysis.window import analyse_window
from prism_ch.cluster.executor import DaskExecutor
from prism_ch.cluster.packed import Packed
from prism_ch.model.memory import WindowMemory
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.settings import Settings
from prism_ch.simulate import generate, textbook, write
from prism_ch.worker import analyse
from tests.spread import Cluster, cluster

_JOBS = 40
#: The first windows of a recording are of young jobs; those after them are as in a running service.
_MINUTES = 5
#: The sizes of cluster that the arithmetic is done for, in GPUs.
_LARGER = (640, 10_000, 100_000, 1_000_000)
#: What two workers should gain over one, and one worker cost over none.
_GAIN, _COST = 1.7, 1.1


class Window(NamedTuple):
    """What a window is analysed with."""

    flows: WindowFlows
    memory: WindowMemory
    topology: Topology
    params: Params

    @property
    def new(self) -> int:
        """How many of its flows are its own."""
        return int(np.count_nonzero(self.flows.flows.end_ns >= self.flows.window.start_ns))


@dataclass(frozen=True, slots=True)
class Costs:
    """What a window with new `flows` of `gpus` costs: CPU seconds of the two roles, and bytes that are shared."""

    window_s: float
    flows: float
    gpus: int
    coordinator_s: float
    worker_s: float
    shared_bytes: float

    def needs(self, gpus: int) -> tuple[float, int, int, float]:
        """Return flow records a second, coordinators, workers, and bytes of traffic that each worker holds.

        1. A coordinator has a window's length for what is not spread: `coordinator_s` grows with the flows.
        2. What workers do is shared out evenly.
        3. A worker holds the traffic of its coordinator's windows.
        """
        times = gpus / self.gpus
        coordinators = math.ceil(times * self.coordinator_s / self.window_s)
        workers = math.ceil(times * self.worker_s / self.window_s)
        return times * self.flows / self.window_s, coordinators, workers, times * self.shared_bytes / coordinators

    def table(self) -> str:
        """Write what clusters of several sizes need, as Markdown."""
        header = ("GPUs", "flow records/s", "coordinators", "workers", "GB on each worker")
        lines = [
            f"{gpus:,} | {rate:,.0f} | {first:,} | {second:,} | {size / 1e9:,.2f}"
            for gpus, (rate, first, second, size) in ((gpus, self.needs(gpus)) for gpus in _LARGER)
        ]
        return "\n".join(f"| {line} |" for line in (" | ".join(header), " | ".join(["---:"] * len(header)), *lines))


def main() -> None:
    """Make the windows, analyse them by turns, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.cluster", description=__doc__)
    parser.add_argument("--gpus", type=int, default=16, help="of each job (default: 16)")
    parser.add_argument("--repeats", type=int, default=3, help="of each window (default: 3)")
    chosen = parser.parse_args()
    windows, database_s = read_windows(chosen.gpus)
    windows = windows[2:]
    with ExitStack() as stack:
        clusters = {number: stack.enter_context(cluster(workers=number)) for number in (1, 2)}
        spread = {number: stack.enter_context(DaskExecutor(one.address)) for number, one in clusters.items()}
        executors: dict[str, Executor | None] = {
            "local": None,  # as windows are worked without a cluster
            "1 worker": spread[1],
            "2 workers": spread[2],
        }
        seconds, cpu_s = measure(windows, executors, clusters, chosen.repeats)
        sent = Counted(clusters[1].address)
        with sent:
            analyse_window(*windows[-1], sent)
    report(seconds, cpu_s, windows)
    print(f"\n{'sent in a window':<22}{'MB':>8}")
    for name, size in sent.bytes.items():
        print(f"{name:<22}{size / 1e6:>8.1f}")
    costs = Costs(
        60.0,
        statistics.fmean(one.new for one in windows),
        chosen.gpus * _JOBS,
        database_s + cpu_s["1 worker", "coordinator"] / len(seconds["1 worker"]),
        cpu_s["1 worker", "workers"] / len(seconds["1 worker"]),
        sent.bytes["shared traffic"],
    )
    print(f"\nA window is read and written in {database_s:.2f} s. What larger clusters with such traffic would need:")
    print(costs.table())


def read_windows(gpus: int) -> tuple[list[Window], float]:
    """Analyse a recording once, and return what each of its windows was analysed with.

    Returns also the seconds that a window is read and written in, the median.
    """
    note(f"simulating {_MINUTES} minutes of {_JOBS} jobs")
    scenario = textbook(
        gpus * _JOBS, 2, 2, gpus // 4, jobs=_JOBS, microbatches=16, step_s=1.0, duration_s=60.0 * _MINUTES, seed=3
    )
    windows: list[Window] = []

    def noted(*arguments: Any) -> Any:
        windows.append(Window(*arguments[:4]))
        return analyse_window(*arguments)

    with tempfile.TemporaryDirectory() as folder, patch.object(worker, "analyse_window", noted):
        write(generate(scenario), Path(folder))
        with landed(Path(folder)) as store:
            note("reading the windows")
            done = analyse(store, Settings(url="chdb://-")).windows
    return windows, statistics.median(one.seconds["read"] + one.seconds["write"] for one in done)


def measure(
    windows: Sequence[Window], executors: Mapping[str, Executor | None], clusters: Mapping[int, Cluster], repeats: int
) -> tuple[dict[str, list[float]], dict[tuple[str, str], float]]:
    """Analyse windows with each executor in turn. Returns seconds by executor, and CPU seconds by role, too."""
    seconds: dict[str, list[float]] = {name: [] for name in executors}
    cpu_s: dict[tuple[str, str], float] = defaultdict(float)
    roles = {
        "coordinator": [os.getpid()],
        "schedulers": [one.scheduler.pid for one in clusters.values() if one.scheduler],
        "workers": [each.pid for one in clusters.values() for each in one.alive],
    }
    for executor in executors.values():  # which imports, and connects
        analyse_window(*windows[0], executor)
    for turn in range(repeats):
        note(f"turn {turn + 1} of {repeats}")
        for window in windows:
            for name, executor in executors.items():
                before = {role: sum(map(processes.cpu_s, numbers)) for role, numbers in roles.items()}
                began = time.perf_counter()
                analyse_window(*window, executor)
                seconds[name].append(time.perf_counter() - began)
                for role, numbers in roles.items():
                    cpu_s[name, role] += sum(map(processes.cpu_s, numbers)) - before[role]
    return seconds, cpu_s


def report(
    seconds: Mapping[str, list[float]], cpu_s: Mapping[tuple[str, str], float], windows: Sequence[Window]
) -> None:
    """Print medians, CPU seconds of a window, and the two ratios with their bounds."""
    flows = statistics.median(len(one.flows.flows) for one in windows)
    print(f"{_JOBS} jobs, {flows:,.0f} flows looked at in a window")
    print(f"{'':<12}{'seconds':>9}{'CPU s:':>8}{'coordinator':>13}{'scheduler':>11}{'workers':>9}")
    for name, each in seconds.items():
        used = [cpu_s[name, role] / len(each) for role in ("coordinator", "schedulers", "workers")]
        print(f"{name:<12}{statistics.median(each):>9.2f}{'':>8}{used[0]:>13.2f}{used[1]:>11.2f}{used[2]:>9.2f}")
    median = {name: statistics.median(each) for name, each in seconds.items()}
    gain, cost = median["1 worker"] / median["2 workers"], median["1 worker"] / median["local"]
    print(f"2 workers are {gain:.2f} times as fast as 1 (bound: at least {_GAIN})")
    print(f"1 worker takes {cost:.2f} times as long as no cluster (bound: at most {_COST})")


class Counted(DaskExecutor):
    """Counts the bytes of what it shares, calls and fetches."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.bytes: Counter[str] = Counter()

    def share(self, value: Any) -> Any:
        self.bytes["shared traffic"] += Packed.of(value).size_bytes
        return super().share(value)

    def start(self, work: Any, given: Any) -> Any:
        return super().start(work, self._counted(work, given))

    def _counted(self, work: Any, given: Any) -> Iterator[Any]:
        """Yield what calls are given, and count what of it travels with them."""
        for arguments in given:
            own = tuple(one for one in arguments if not _is_held(one))
            self.bytes["arguments of calls"] += Packed.of((work, own)).size_bytes
            yield arguments

    def results(self, held: Any) -> Any:
        found = super().results(held)
        self.bytes["results"] += sum(Packed.of(one).size_bytes for one in found)
        return found


def _is_held(argument: object) -> bool:
    return any(map(_is_held, argument)) if type(argument) is tuple else hasattr(argument, "future")


if __name__ == "__main__":
    main()
