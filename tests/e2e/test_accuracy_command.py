"""The command that rates results: its tables, on one recorded run."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.sweep
def test_recorded_run_rated_against_bounds_and_other_methods() -> None:
    command = [sys.executable, "-m", "bench.accuracy", "--only", "dp4_clean", "--seeds", "1", "--workers", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = {line.split("  ")[0]: line for line in done.stdout.splitlines() if line}
    assert lines["recorded dp4_clean"].split()[2:5] == ["100%", "100%", "0"]
    assert lines["DP pairs, recall"].split()[-2:] == ["100%", "yes"]
    assert lines["scenarios that failed"].split()[-3:] == ["0", "0", "yes"]
    ours, bocd_alone = (lines[name].split()[-8:] for name in ("ours", "BOCD alone, an endpoint at a time"))
    assert (ours[3], ours[4], ours[-1]) == ("100%", "100%", "1.00")
    assert float(ours[0].rstrip("%")) < float(bocd_alone[0].rstrip("%")) + float(bocd_alone[1].rstrip("%"))
    assert "ruptures PELT l2" in lines
