"""Runs `prism-ch` commands: inside the test's process on its one engine, or as the processes that a user starts."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from prism_ch.cli import main


@dataclass(frozen=True, slots=True)
class Done:
    """How a command ended: its exit status and what it printed."""

    status: int
    out: str
    err: str

    @property
    def sentences(self) -> str:
        """What went to stdout, line breaks folded: sentences are laid out over several lines."""
        return " ".join(self.out.split())


def prism_ch(*arguments: str | Path, url: str = "", window_s: int | None = None) -> Done:
    """Run a command inside this process, which has the folder of its database open already."""
    at = ["--url", url] if url else []
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), configured(window_s):
            status = main([*map(str, arguments), *at])
        out.seek(0)
        err.seek(0)
        return Done(status, out.read(), err.read())


def command_line(*arguments: str | Path, folder: Path) -> list[str]:
    """Return what starts a process that works on the database in a folder."""
    return [sys.executable, "-m", "prism_ch", *map(str, arguments), "--url", f"chdb://{folder}"]


def prism_ch_process(*arguments: str | Path, folder: Path) -> Done:
    """Run a command as a process of its own, on the database in a folder."""
    done = subprocess.run(command_line(*arguments, folder=folder), capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


@contextlib.contextmanager
def configured(window_s: int | None) -> Iterator[None]:
    """Have commands, also those in processes of their own, work windows of another length than the default."""
    if window_s is None:
        yield
        return
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(f"window_s = {window_s}\n")
        file.flush()
        with mock.patch.dict(os.environ, PRISM_CH_CONFIG=file.name):
            yield
