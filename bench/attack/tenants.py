"""Asks as a tenant who wants to learn of others, or to end the engine."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time

from bench.attack.target import Held, Target


def interference(target: Target, until_s: float) -> list[Held]:
    """Compare a tenant's answers over databases that differ in others' rows."""
    minutes = max(until_s - time.monotonic(), 1.0) / 60
    command = [sys.executable, "-m", "bench.interference", "--minutes", str(minutes)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines() or done.stderr.splitlines() or ["it printed nothing"]
    return [
        Held(
            "a tenant's answers do not depend on others' rows", done.returncode == 0, "; ".join(lines[:1] + lines[-1:])
        )
    ]


def formats(_: Target, __: float) -> list[Held]:
    """Ask an engine beside the service for every format, with any two switches parted."""
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder:
        command = [sys.executable, "-m", "tests.every_format", f"{folder}/data", "--parted"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    answers, last = done.stdout.strip(), "".join(done.stderr.splitlines()[-1:])
    return [
        Held(
            "no format ends the engine", done.returncode == 0, f"{answers} answers" if answers else f"ended at: {last}"
        )
    ]
