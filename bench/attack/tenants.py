"""Asks as a tenant who wants to learn of others."""

from __future__ import annotations

import subprocess
import sys
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
