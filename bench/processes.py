"""What a process has taken of memory and of the processor, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path


def peak_bytes(process: int) -> int:
    """Return the most memory in use so far. What getrusage() returns counts that of a parent, too."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    [peak_kib] = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
    return int(peak_kib) * 1024


def cpu_s(process: int) -> float:
    """Return the time of the processor, in seconds."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
