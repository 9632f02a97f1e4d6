"""Runs `prism-ch serve` as the process that an operator starts, and asks it how it stands."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.e2e.commands import command_line, prism_ch_process

#: Nothing takes so long unless it hangs, in seconds.
PATIENCE_S = 180.0


def free_port() -> int:
    """Find a port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def until(
    what: Callable[[], object], process: subprocess.Popen[Any] | None = None, patience_s: float = PATIENCE_S
) -> None:
    """Wait until something holds; fails where it never does, or the process it depends on has ended.

    It is asked less and less often: an answer of a service costs dozens of statements.
    """
    deadline = time.monotonic() + patience_s
    pause_s = 0.05
    while not what():
        assert process is None or process.poll() is None, "the service has ended"
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, 0.5)


class Service:
    """A service on an embedded database in a folder, with a spool beside it."""

    def __init__(
        self, home: Path, *, window_s: int = 60, silent_after_s: int = 1, lateness_s: int = 1, more: str = ""
    ) -> None:
        """Prepare its folders and settings; `more` is TOML for the end of the table [serve]."""
        self.folder = home / "data"
        self.spool = home / "spool"
        self.config = home / "prism.toml"
        self.config.write_text(
            f"window_s = {window_s}\nlateness_s = {lateness_s}\n"
            f"[serve]\nsilent_after_s = {silent_after_s}\ngrace_s = 5\n{more}"
        )
        self.log = home / "serve.log"
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        #: A command that runs the service's, as one does that bounds its memory.
        self.runner: tuple[str, ...] = ()

    def prepare(self, topology: Path) -> None:
        """Make the schema and load a topology."""
        for command in (("migrate",), ("topology", topology)):
            assert prism_ch_process(*command, folder=self.folder).status == 0

    def start(self) -> None:
        """Start it, and wait until it serves."""
        options = ("--spool", self.spool, "--listen", f"127.0.0.1:{self.port}", "--schedule", self._schedule())
        with self.log.open("ab") as log:
            environment = os.environ | {"PRISM_CH_CONFIG": str(self.config)}
            command = command_line("serve", *options, folder=self.folder)
            self.process = subprocess.Popen([*self.runner, *command], stderr=log, env=environment)
        until(lambda: self.health() is not None, self.process)

    def kill(self) -> None:
        """Kill it at once."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def stop(self) -> int:
        """Ask it to stop, and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(timeout=PATIENCE_S)
        self.process = None
        return status

    def drop(self, source: Path, name: str) -> None:
        """Let a file appear in the spool under that name."""
        part = self.spool / f".{name}"
        part.write_bytes(source.read_bytes())
        part.rename(self.spool / name)

    def health(self) -> dict[str, Any] | None:
        """Ask how it stands; None where it does not listen."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/healthz", timeout=PATIENCE_S) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            with error:
                return dict(json.load(error))
        except OSError:
            return None

    def measures(self) -> dict[str, float]:
        """Ask for its measures without labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=PATIENCE_S) as answer:
            lines = [line.split() for line in answer.read().decode().splitlines() if line and line[0] != "#"]
        return {name.removeprefix("prism_ch_"): float(value) for name, value in lines if "{" not in name}

    def waiting(self) -> list[Path]:
        """List the files that wait in the spool."""
        return [entry for entry in self.spool.iterdir() if entry.is_file() and not entry.name.startswith(".")]

    def memory_bytes(self) -> int:
        """Return the memory that it has in use."""
        assert self.process is not None
        pages = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii").split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def is_done(self, files: int, windows: int = 1) -> bool:
        """Return whether that many files were moved aside, and every closed window was worked, at least `windows`.

        The last window of a recording closes only once all exporters are silent.
        """
        if len(list((self.spool / "done").iterdir())) < files:
            return False
        measures = self.measures()
        return measures["windows_worked"] >= windows and measures["windows_behind"] == 0

    def _schedule(self) -> Path:
        """Write a schedule that is woken more often than the shipped one."""
        path = self.config.with_name("schedule.toml")
        tasks = {"land_spool": 0.2, "analyse": 0.5, "reanalyse": 2, "clean_spool": 3600, "note_health": 5}
        head = "misfire_grace_s = 3600\nretry_first_s = 0.5\nretry_most_s = 5\n"
        plans = [f"[task.{name}]\nevery_s = {every_s}\nhung_after_s = 600\n" for name, every_s in tasks.items()]
        path.write_text(head + "".join(plans))
        return path


@contextmanager
def serving(home: Path, topology: Path, **options: Any) -> Iterator[Service]:
    """Have a service run while a block does."""
    service = Service(home, **options)
    service.prepare(topology)
    service.start()
    try:
        yield service
    finally:
        if service.process is not None:
            service.kill()
