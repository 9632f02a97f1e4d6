"""Where a window's time goes: run with `make profile`.

Two recordings are landed and analysed window by window, with the real engine: a job whose steps are long, so that it
stays young for many windows, and larger ones that settle in a minute or two. Printed are, for each recording, the rows
read, and those looked at, what is kept from the window before included, beside those that are new, of young and of
settled jobs, the statements that were sent, and where time goes by layer and function, from samples of the threads'
stacks; then what a row looked at, a job and a window cost, by least squares over recordings of 1 to 12 jobs.

Samples are taken every few milliseconds by a thread of its own. The innermost frame of this package names the layer;
what runs while a statement is under way is the engine.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import astuple, dataclass, field
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.recordings import landed, write_in_slices
from bench.throughput import note
from prism_ch import worker
from prism_ch.analysis.lookback import FlowSource, read_window
from prism_ch.analysis.observe.known_jobs import KnownJobs
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.assets import asset
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan
from prism_ch.settings import Settings
from prism_ch.simulate import Scenario, textbook
from prism_ch.store.client import Store
from prism_ch.store.kept_memory import KeptMemory
from prism_ch.store.statements import statement
from prism_ch.worker import DEFAULT_PARAMS, WindowReport, analyse

_PACKAGE = str(Path(sys.modules["prism_ch"].__path__[0])) + "/"
#: How often stacks are looked at, in seconds.
_EVERY_S = 0.004
#: Steps of the job with long ones: until it has settled, and some.
_LONG_STEPS = 144
#: What of a path of the package is a layer's name: `analysis/steps`, `store`.
_PARTS = 2


@dataclass(slots=True)
class Samples:
    """Samples of stacks by layer and by function, and the seconds that each kind of statement took, one by one."""

    layers: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    statements: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def calls(self) -> int:
        """How many statements were sent."""
        return sum(map(len, self.statements.values()))


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a window: `new` are its own, `read` came from the database, `looked_at` are made bursts of.

    Those looked at are these and those kept from windows before, but for what only shows whether records are missing.
    """

    new: int
    read: int
    looked_at: int


@dataclass(frozen=True, slots=True)
class Worked:
    """One window: its rows, those of `young` jobs among them, jobs, seconds of the clock and the CPU, statements.

    Young jobs are those all of which is still looked at again when their steps have doubled, or that were not known.
    """

    rows: Rows
    young: Rows
    jobs: int
    wall_s: float
    cpu_s: float
    statements: int


def main() -> None:
    """Make the recordings, analyse, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=__doc__)
    parser.add_argument("--minutes", type=int, default=12, help="of the jobs that settle (default: 12)")
    parser.add_argument("--gpus", type=int, default=256, help="of the jobs that settle (default: 256)")
    parser.add_argument("--step-s", type=float, default=14.0, help="of the young job, seconds (default: 14)")
    chosen = parser.parse_args()
    minutes_s = 60.0 * chosen.minutes
    long_s = _LONG_STEPS * chosen.step_s
    young = textbook(64, 4, 4, 4, step_s=chosen.step_s, microbatches=16, duration_s=long_s, seed=1)
    settled = textbook(
        chosen.gpus, 4, 4, 4, step_s=2.0, microbatches=16, duration_s=minutes_s, seed=2, jobs=chosen.gpus // 64
    )
    for title, scenario in ((f"a job of steps of {chosen.step_s:g} s", young), ("jobs of steps of 2 s", settled)):
        samples = Samples()
        windows = profile(scenario, samples)
        _print_windows(title, windows)
        _print_samples(samples, windows)
    costs = [
        window
        for jobs in (1, 4, 12)
        for microbatches in (4, 32)
        for window in profile(_many(jobs, microbatches), Samples())[2:]
    ]
    _print_costs(costs)


def _many(jobs: int, microbatches: int) -> Scenario:
    """Describe jobs of 16 GPUs with many or few flows a step."""
    return textbook(16 * jobs, 2, 2, 4, microbatches=microbatches, step_s=1.0, duration_s=300.0, seed=3, jobs=jobs)


def profile(scenario: Scenario, samples: Samples) -> list[Worked]:
    """Land a recording, and analyse it window by window. The first window's imports are left out of the samples."""
    note(f"profiling {scenario.name}, {scenario.duration_s:.0f} s")
    with tempfile.TemporaryDirectory() as folder:
        write_in_slices(scenario, Path(folder))
        note("landing")
        with landed(Path(folder)) as store, _counted(samples), _rows_read() as rows:
            return _work(store, samples, rows)


def _work(store: Store, samples: Samples, rows: list[tuple[Rows, Rows]]) -> list[Worked]:
    """Analyse all windows, and measure each."""
    found: list[Worked] = []
    clock = [time.perf_counter(), time.process_time()]
    before = samples.calls

    def measured(report: WindowReport) -> None:
        nonlocal before, clock
        now = [time.perf_counter(), time.process_time()]
        wall_s, cpu_s = np.subtract(now, clock).tolist()
        found.append(Worked(*rows.pop(), report.jobs, wall_s, cpu_s, samples.calls - before))
        before, clock = samples.calls, now

    kept = KeptMemory()
    with _sampled(samples):
        while True:
            report = analyse(store, Settings(url="chdb://-"), stop=lambda: True, kept=kept)
            if not report.windows:
                return found
            measured(report.windows[0])


@dataclass(frozen=True, slots=True)
class _Source:
    """A source of flows that notes what is read from it."""

    source: FlowSource
    read_flows: list[FlowBatch] = field(default_factory=list)

    def read(self, span: FlowSpan) -> FlowBatch:
        self.read_flows.append(self.source.read(span))
        return self.read_flows[-1]


@contextmanager
def _rows_read() -> Iterator[list[tuple[Rows, Rows]]]:
    """Count the rows of each window, and those of young jobs among them."""
    noted: list[tuple[Rows, Rows]] = []

    def read(source: FlowSource, *arguments: Any, **more: Any) -> WindowFlows:
        noting = _Source(source)
        seen = read_window(noting, *arguments, **more)
        [new, *earlier], young = noting.read_flows, partial(_young_rows, seen.known)
        looked_at = seen.looked_at(seen.moving(), DEFAULT_PARAMS)
        count = Rows(len(new), len(new) + sum(map(len, earlier)), len(looked_at))
        noted.append((count, Rows(young(new), young(new) + sum(map(young, earlier)), young(looked_at))))
        return seen

    with patch.object(worker, "read_window", read):
        yield noted


def _young_rows(known: KnownJobs, flows: FlowBatch) -> int:
    """Count the flows that are of young jobs, or of none."""
    young = np.ones(len(flows), dtype=bool)
    for job in known.jobs:
        if not job.attempt.is_young(DEFAULT_PARAMS.going_on):
            young[flows.rows_between(job.members.endpoint)] = False
    return int(np.count_nonzero(young))


#: The methods of a store that send one statement each.
_SENDING = ("raw", "rows", "command", "insert_encoded")


@contextmanager
def _counted(samples: Samples) -> Iterator[None]:
    """Time the statements that stores send, by file or table that they fill."""
    originals = {name: getattr(Store, name) for name in _SENDING}
    names = [path.name.removesuffix(".sql") for path in asset("sql/queries").iterdir()]
    named = {statement(name): name for name in names}

    def counting(name: str) -> None:
        original = originals[name]

        def sending(self: Store, text: str, *rest: object, **more: object) -> object:
            begin = time.perf_counter()
            try:
                return original(self, text, *rest, **more)
            finally:
                what = f"into {text}" if name == "insert_encoded" else named.get(text, " ".join(text.split())[:60])
                samples.statements[what].append(time.perf_counter() - begin)

        setattr(Store, name, sending)

    for name in _SENDING:
        counting(name)
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(Store, name, original)


@contextmanager
def _sampled(samples: Samples) -> Iterator[None]:
    """Sample the stacks of all other threads until the block ends."""
    ended = threading.Event()
    sending = {getattr(Store, name).__code__ for name in _SENDING}

    def run() -> None:
        while not ended.wait(_EVERY_S):
            for thread, frame in sys._current_frames().items():
                if thread != threading.get_ident():
                    _sample(samples, frame, sending)

    sampler = threading.Thread(target=run, name="sampler", daemon=True)
    sampler.start()
    try:
        yield
    finally:
        ended.set()
        sampler.join()


def _sample(samples: Samples, frame: FrameType, sending: set[CodeType]) -> None:
    """Note where a stack is in the package. A thread that waits for others is left out."""
    if frame.f_code.co_filename.endswith(("threading.py", "concurrent/futures/thread.py", "_base.py", "selectors.py")):
        return
    inner: FrameType | None = None
    at: FrameType | None = frame
    engine = False
    while at is not None:
        engine = engine or at.f_code in sending
        if inner is None and at.f_code.co_filename.startswith(_PACKAGE):
            inner = at
        at = at.f_back
    if inner is None:
        return
    place = inner.f_code.co_filename.removeprefix(_PACKAGE)
    samples.layers["the engine" if engine else "/".join(place.split("/")[:_PARTS]).removesuffix(".py")] += 1
    if not engine:
        samples.functions[f"{place.removesuffix('.py')}: {inner.f_code.co_name}"] += 1


def _print_windows(title: str, windows: Sequence[Worked]) -> None:
    print(f"\n{title}: {len(windows)} windows")
    whole, young = np.array([(astuple(one.rows), astuple(one.young)) for one in windows]).sum(axis=0)
    for whose, (new, read, looked_at) in (("all", whole), ("young", young), ("settled", whole - young)):
        print(
            f"{whose:>8}: {new:,} flows, {read:,} rows read: {read / max(new, 1):.1f} of what is new,"
            f" {looked_at:,} looked at: {looked_at / max(new, 1):.1f}"
        )
    print(
        f"{'window':>8}{'new':>10}{'read':>10}{'looked at':>11}{'ratio':>7}{'young':>10}{'jobs':>6}{'seconds':>9}"
        f"{'CPU s':>8}{'sent':>6}"
    )
    for number, one in enumerate(windows):
        rows, ratio = one.rows, one.rows.looked_at / max(one.rows.new, 1)
        print(
            f"{number:>8}{rows.new:>10,}{rows.read:>10,}{rows.looked_at:>11,}{ratio:>7.1f}{one.young.looked_at:>10,}"
            f"{one.jobs:>6}{one.wall_s:>9.2f}{one.cpu_s:>8.2f}{one.statements:>6}"
        )


def _print_samples(samples: Samples, windows: Sequence[Worked]) -> None:
    whole, seconds = sum(samples.layers.values()), sum(one.wall_s for one in windows)
    print(f"\n{'layer':<34}{'share':>7}{'ms a window':>13}")
    for name, count in samples.layers.most_common():
        print(f"{name:<34}{count / whole:>7.1%}{1e3 * seconds * count / whole / len(windows):>13.1f}")
    print("\nbusiest functions")
    for name, count in samples.functions.most_common(12):
        print(f"  {count / whole:>6.1%}  {name}")
    print(f"\n{'statement':<34}{'a window':>9}{'median ms':>11}")
    spent = {name: float(np.median(each)) * len(each) for name, each in samples.statements.items()}
    for name in sorted(spent, key=spent.__getitem__, reverse=True):
        each = samples.statements[name]
        print(f"{name:<34}{len(each) / len(windows):>9.1f}{1e3 * float(np.median(each)):>11.1f}")


def _print_costs(windows: Sequence[Worked]) -> None:
    """Print what a row, a job and a window cost, by clock and CPU."""
    print(f"\nseconds a window, by least squares over {len(windows)} windows of 1, 4 and 12 jobs of 16 GPUs")
    for name, seconds in (("clock", [one.wall_s for one in windows]), ("CPU", [one.cpu_s for one in windows])):
        row_s, job_s, window_s = fit_costs(windows, seconds)
        print(f"{name:>6}: {1e6 * row_s:.2f} us a row + {1e3 * job_s:.1f} ms a job + {1e3 * window_s:.0f} ms a window")


def fit_costs(windows: Sequence[Worked], seconds: Sequence[float]) -> tuple[float, float, float]:
    """Fit seconds = a rows + b jobs + c by least squares. Returns a, b and c."""
    terms = np.array([(one.rows.looked_at, one.jobs, 1.0) for one in windows])
    row_s, job_s, window_s = np.linalg.lstsq(terms, np.array(seconds), rcond=None)[0].tolist()
    return row_s, job_s, window_s


if __name__ == "__main__":
    main()
