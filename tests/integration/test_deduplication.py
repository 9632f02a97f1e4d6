"""A process that is killed between a block's line in the log and the block itself: the statement can be repeated."""

import ast
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from prism_ch.store.deduplication import forget_unwritten_blocks

LAND = """
import os, signal, sys
from prism_ch.store.client import connect

url, *tokens = sys.argv[1:]
with connect(url) as store:
    store.command("CREATE DATABASE IF NOT EXISTS prism", use_database=False)
    store.command(
        "CREATE TABLE IF NOT EXISTS blocks (day UInt8, token String) ENGINE = MergeTree PARTITION BY day ORDER BY token"
        " SETTINGS non_replicated_deduplication_window = 10"
    )
    for token in tokens:
        if token == "merge":
            store.command("OPTIMIZE TABLE blocks FINAL")
        else:
            settings = {"insert_deduplication_token": token}
            store.insert("blocks", {"day": [1, 2], "token": [token, token]}, settings=settings)
    print(store.rows("SELECT day, token FROM blocks ORDER BY ALL"), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def land(folder: Path, *tokens: str) -> list[tuple[int, str]]:
    """Insert a row into each of two partitions, for each token, in a process that is killed; return all rows."""
    command = [sys.executable, "-c", LAND, f"chdb://{folder}", *tokens]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])
    assert done.returncode == -signal.SIGKILL, done.stderr
    rows: list[tuple[int, str]] = ast.literal_eval(done.stdout)
    return rows


def lines(folder: Path) -> list[list[str]]:
    [log] = folder.glob("store/*/*/deduplication_logs/*.txt")
    return [line.split("\t") for line in log.read_text().splitlines()]


def part(folder: Path, number: int) -> Path:
    """Return the folder of the part that a line of the log names."""
    [log] = folder.glob("store/*/*/deduplication_logs/*.txt")
    return log.parents[1] / lines(folder)[number][1]


def test_a_block_without_its_part_lands_when_it_comes_again(tmp_path: Path) -> None:
    both = [(1, "a"), (1, "b"), (2, "a"), (2, "b")]
    assert land(tmp_path, "a", "b") == both
    shutil.rmtree(part(tmp_path, -1))
    assert land(tmp_path, "a", "b") == both, "nothing is lost, and nothing doubled"
    assert len(lines(tmp_path)) == 4


def test_blocks_that_were_merged_or_dropped_stay_known(tmp_path: Path) -> None:
    rows = land(tmp_path, "a", "b", "merge")
    shutil.rmtree(part(tmp_path, -1), ignore_errors=True)
    before = lines(tmp_path)
    assert land(tmp_path, "a", "b") == rows
    assert lines(tmp_path) == before


@pytest.mark.parametrize(
    "log, kept",
    [
        ("1\tall_1_1_0\tx\n1\tall_2_2_0\ty\n", 1),
        ("1\tall_1_1_0\tx\n1\tall_2_2_0\ty\n1\tall_3_3_0\tz\n", 1),
        ("1\tall_1_1_0\tx\n1\tall_2_", 1),
        ("1\tall_1_1_0\tx\n\0\0\0\0", 1),
        ("1\tall_2_2_0\ty\n1\tall_1_1_0\tx\n", 2),
        ("1\tall_2_2_0\ty\n2\tall_2_2_0\ty\n", 2),
        ("1\tother_1_1_0\ty\n", 0),
        ("", 0),
    ],
)
def test_lines_at_the_end_without_a_part_are_cut(tmp_path: Path, log: str, kept: int) -> None:
    """The newest log may have been begun just now, and be empty."""
    logs = tmp_path / "store/abc/abc-1/deduplication_logs"
    logs.mkdir(parents=True)
    for name in ("all_1_1_0", "tmp_insert_all_2_2_0", "detached"):
        (logs.parent / name).mkdir()
    (logs / "deduplication_log_9.txt").write_text(log)
    (logs / "deduplication_log_10.txt").touch()
    assert forget_unwritten_blocks(tmp_path) == len(log.splitlines()) - kept
    assert (logs / "deduplication_log_9.txt").read_text() == "".join(log.splitlines(keepends=True)[:kept])
    assert forget_unwritten_blocks(tmp_path) == 0
