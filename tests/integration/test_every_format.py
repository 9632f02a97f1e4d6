"""No format that a statement may name ends the engine."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from tests.every_format import parted

SCRIPT = Path(__file__).parents[1] / "every_format.py"


@pytest.mark.sweep
def test_no_format_ends_the_engine(tmp_path: Path) -> None:
    """A fault of the engine may as well leave it hanging."""
    command = [sys.executable, "-m", "tests.every_format", str(tmp_path / "data")]
    asked_path = tmp_path / "asked"
    with asked_path.open("w") as asked:
        ended = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=asked, text=True, check=False, cwd=SCRIPT.parents[1], timeout=300
        )
    lines = asked_path.read_text().splitlines()
    assert ended.returncode == 0, lines[-2:]
    assert int(ended.stdout) > 0.9 * len(lines)


@pytest.mark.parametrize("number", [2, 3, 26])
def test_any_two_switches_are_parted(number: int) -> None:
    names = [str(one) for one in range(number)]
    for on, off in permutations(names, 2):
        assert any(on in part and off not in part for part in parted(names))
