"""The service that is attacked: its users, a recorded run in its database, and a bound on its memory."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Self

from bench.processes import peak_bytes
from tests.damage import FLOWS, TOPOLOGY
from tests.e2e.commands import prism_ch_process
from tests.e2e.service import Service
from tests.records import csv_text, record
from tests.serving import Endpoint, users

#: Where Linux has groups of processes whose memory it bounds, and the file of the bound, of version 1 and 2.
_GROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))
_ASK_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class Held:
    """Whether something held, and the figures that show it."""

    what: str
    is_held: bool
    figures: str


@dataclass(slots=True)
class Target:
    """A service, how to ask it, and how many good files have been dropped into its spool."""

    service: Service
    bound: str
    good: int = 0

    @property
    def endpoint(self) -> Endpoint:
        """Its SQL."""
        return Endpoint(self.service.port, "prism")

    def start(self) -> None:
        """Start it."""
        self.service.start()

    def is_alive(self) -> bool:
        """Whether the process is there."""
        return self.service.process is not None and self.service.process.poll() is None

    def drop_good(self, name: str = "") -> Path:
        """Drop a good file into the spool; return where it is once it has landed."""
        name = name or f"good{self.good}.csv"
        part = self.service.spool / f".{name}"
        part.write_text(csv_text([record(self.good)]))
        part.rename(self.service.spool / name)
        self.good += 1
        return self.service.spool / "done" / name

    def lands_within(self, limit_s: float) -> float:
        """Return how long a good file takes to land, seconds; at most the limit."""
        landed, began_s = self.drop_good(), time.monotonic()
        while not landed.exists() and time.monotonic() - began_s < limit_s:
            time.sleep(0.1)
        return min(time.monotonic() - began_s, limit_s)

    def peak_bytes(self) -> int:
        """Return the most memory that it has had in use."""
        assert self.service.process is not None
        return peak_bytes(self.service.process.pid)


class Others:
    """Somebody who asks small questions all the while."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stopped = threading.Event()
        self.seconds: list[float] = []
        self.refusals: list[str] = []
        self._thread = threading.Thread(target=self._ask, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    @property
    def p95_s(self) -> float:
        """The 95th percentile of how long answers took, seconds; infinite without any."""
        ordered = sorted(self.seconds)
        return ordered[int(0.95 * (len(ordered) - 1))] if ordered else float("inf")

    @property
    def figures(self) -> str:
        """How they fared, in words."""
        refused = f": {self.refusals[0]}" if self.refusals else ""
        return f"{len(self.seconds):,} answers, p95 {self.p95_s:.2f} s, {self.refused} refused{refused}"

    @property
    def refused(self) -> int:
        """How many of their questions were not answered."""
        return len(self.refusals)

    def _ask(self) -> None:
        while not self._stopped.wait(_ASK_EVERY_S):
            began_s = time.monotonic()
            try:
                answer = self._target.endpoint.ask("SELECT count() FROM jobs", "operator")
                self.refusals += [] if answer.status == 200 else [answer.text.strip()]
            except (OSError, HTTPException) as error:
                self.refusals.append(repr(error))
            self.seconds.append(time.monotonic() - began_s)


@contextmanager
def attacked(home: Path, memory_bytes: int) -> Iterator[Target]:
    """Serve a recorded run while a block runs, with bounded memory where that can be."""
    tables = "".join(
        f"[serve.users.{name}]\n" + "".join(f'{key} = "{value}"\n' for key, value in user.items())
        for name, user in users().items()
    )
    service = Service(home, more=tables)
    assert prism_ch_process("run", FLOWS, "--topology", TOPOLOGY, folder=service.folder).status == 0
    with _group(memory_bytes) as group:
        bound = f"{memory_bytes / 2**30:.1f} GiB" if group else "not bounded: no control group can be made here"
        if group is not None:
            service.runner = ("sh", "-c", f'echo $$ > "{group}/cgroup.procs" && exec "$@"', "sh")
        target = Target(service, bound)
        target.start()
        try:
            yield target
        finally:
            if service.process is not None:
                service.kill()


@contextmanager
def _group(memory_bytes: int) -> Iterator[Path | None]:
    """Make a control group while a block runs; None where this user may not."""
    made = None
    for top, limit in _GROUPS:
        if not (Path(top) / limit).parent.is_dir() or not (Path(top) / "cgroup.procs").exists():
            continue
        group = Path(top) / f"prism-ch-attack-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
            made = group
            (group / limit).write_text(str(memory_bytes))
            break
    try:
        yield made
    finally:
        if made is not None:
            time.sleep(0.5)
            with contextlib.suppress(OSError):
                made.rmdir()
