"""A Dask scheduler and workers of prism-ch, as the processes that an operator starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from prism_ch.cluster.executor import DaskExecutor
from tests.e2e.service import free_port, until

_ROOT = Path(__file__).parents[1]
#: Nothing takes so long unless it hangs, in seconds.
_PATIENCE_S = 60.0


class Cluster:
    """A scheduler and its workers; each writes a log into a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.address = f"dask://127.0.0.1:{self.port}"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []

    def start_scheduler(self, **environment: str) -> None:
        """Start a scheduler, on the same port as any before it."""
        options = ("--host", "127.0.0.1", "--port", str(self.port), "--no-dashboard")
        command = [sys.executable, "-m", "dask", "scheduler", *options]
        self.scheduler = self._process(command, "scheduler.log", **environment)
        until(lambda: "Scheduler at" in self._log("scheduler.log"), self.scheduler, _PATIENCE_S)

    def add_workers(self, number: int, **environment: str) -> None:
        """Start workers, and wait until they have joined."""
        for _ in range(number):
            command = [sys.executable, "-m", "prism_ch", "worker", self.address]
            self.workers.append(self._process(command, f"worker-{len(self.workers)}.log", **environment))
        for one in range(len(self.workers) - number, len(self.workers)):
            until(partial(self._has_joined, one), self.workers[one], _PATIENCE_S)

    @property
    def alive(self) -> list[subprocess.Popen[bytes]]:
        """The workers that have not ended."""
        return [one for one in self.workers if one.poll() is None]

    def kill_worker(self, number: int = 0) -> None:
        """Kill one of the workers that are alive."""
        _kill(self.alive[number])

    def kill_scheduler(self) -> None:
        """Kill the scheduler."""
        assert self.scheduler is not None
        _kill(self.scheduler)

    def stop_worker(self) -> int:
        """Ask a worker to stop, and return its exit status."""
        worker = self.alive[0]
        worker.send_signal(signal.SIGTERM)
        return worker.wait(timeout=_PATIENCE_S)

    def log_of(self, worker: int) -> str:
        """Return what a worker has logged."""
        return self._log(f"worker-{worker}.log")

    def close(self) -> None:
        """Kill all of them."""
        for one in (*self.workers, self.scheduler):
            if one is not None and one.poll() is None:
                _kill(one)

    def _has_joined(self, worker: int) -> bool:
        return "joined scheduler" in self.log_of(worker)

    def _process(self, command: list[str], log: str, **environment: str) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as file:
            path = {"PYTHONPATH": str(_ROOT)}  # for functions of tests
            return subprocess.Popen(
                command, stdout=file, stderr=file, cwd=self.folder, env=os.environ | path | environment
            )

    def _log(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(encoding="utf-8") if path.exists() else ""


def _kill(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()


@contextmanager
def cluster(workers: int = 0) -> Iterator[Cluster]:
    """Have a scheduler with some workers while a block runs."""
    with tempfile.TemporaryDirectory() as folder:
        made = Cluster(Path(folder))
        try:
            made.start_scheduler()
            made.add_workers(workers)
            yield made
        finally:
            made.close()


class Disturbed(DaskExecutor):
    """Lets something happen right after some of its calls have been handed out, counted from 0."""

    def __init__(self, address: str, happens: Callable[[], object], at: set[int]) -> None:
        super().__init__(address)
        self._happens, self._at, self._starts = happens, at, 0

    @property
    def is_over(self) -> bool:
        """Whether all has happened."""
        return not self._at

    def start(self, work: Any, given: Any) -> Any:
        held = super().start(work, given)
        if held:
            if self._starts in self._at:
                self._at.remove(self._starts)
                self._happens()
            self._starts += 1
        return held
