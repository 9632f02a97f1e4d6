"""Ways in which a database is damaged, and somebody who does what the doctor says."""

from __future__ import annotations

import multiprocessing
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any
from unittest import mock

from prism_ch.store import integrity
from prism_ch.store.client import connect
from tests.e2e.commands import Done, prism_ch, prism_ch_process

RUN = Path(__file__).parent / "data/real_training/dp4_slow_rank"
FLOWS, TOPOLOGY = RUN / "flows.parquet", RUN / "topology.csv"
RESULTS = ("jobs", "job_members", "pairs", "groups", "steps", "gpu_steps", "timeline", "diagnoses", "incidents")
#: Steps as blocks have them.
PACKED = (
    "SELECT 'packed', toString(tuple(job_id, tenant, step, start_at, end_at, took_s, whole)) FROM (SELECT * FROM"
    " step_blocks) AS b ARRAY JOIN b.steps AS step, b.start_times AS start_at, b.end_times AS end_at,"
    " b.durations_s AS took_s, b.complete AS whole WHERE step < until_step"
)
#: What of a doctor's lines says how the database stands, not when flows came.
CHECKED = ("database", "files of the database", "parts", "rows of", "topology", "windows")
#: Rounds of reading the doctor and doing what he says.
ROUNDS = 5


def results(url: str) -> list[str]:
    """Return every row of the results, and every step in blocks, sorted."""
    of_tables = map("SELECT '{0}', toString(tuple(*)) FROM {0}".format, RESULTS)
    done = prism_ch("sql", " UNION ALL ".join([*of_tables, PACKED]), url=url)
    assert done.status == 0, done.err
    return sorted(done.out.splitlines())


def parts(folder: Path, table: str) -> list[Path]:
    definition = (folder / f"metadata/prism/{table}.sql").read_text()
    [uuid] = re.findall(r"UUID '([^']+)'", definition)
    below = folder / "store" / uuid[:3] / uuid
    return sorted(path.parent for path in below.glob("*/checksums.txt"))


def flip(part: Path) -> None:
    content = bytearray((part / "data.bin").read_bytes())
    content[len(content) // 2] ^= 0xFF
    (part / "data.bin").write_bytes(content)


def cut(part: Path) -> None:
    content = (part / "data.bin").read_bytes()
    (part / "data.bin").write_bytes(content[: len(content) // 2])


def rot(part: Path) -> None:
    (part / "checksums.txt").write_bytes(b"rot")


def detach(part: Path) -> None:
    part.rename(part.parent / "detached" / part.name)


def to_parts(table: str, harm: Callable[[Path], None]) -> Callable[[Path], None]:
    """Return what harms every part of a table of the database in a folder."""

    def damage(folder: Path) -> None:
        for part in parts(folder, table):
            harm(part)

    return damage


def damaged_definition(table: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        path = folder / f"metadata/prism/{table}.sql"
        path.write_text(path.read_text()[:200])

    return damage


DAMAGE = {
    "data of flows": to_parts("flows_log", flip),
    "data of results": to_parts("steps_log", flip),
    "data of the topology": to_parts("topology_log", flip),
    "data of the ledger of files": to_parts("landings_log", flip),
    "data of the ledger of windows": to_parts("windows_log", flip),
    "power cut in flows": to_parts("flows_log", cut),
    "power cut in results": to_parts("gpu_steps_log", rot),
    "detached part of flows": to_parts("flows_log", detach),
    "deleted part of flows": to_parts("flows_log", shutil.rmtree),
    "deleted part of results": to_parts("timeline_log", shutil.rmtree),
    "emptied topology": to_parts("topology_log", shutil.rmtree),
    "emptied revisions": to_parts("revisions", shutil.rmtree),
    "emptied arrivals": to_parts("arrivals_log", shutil.rmtree),
    "emptied counts of files": to_parts("landing_counts_log", shutil.rmtree),
    "emptied sums": to_parts("flow_pair_1m_log", shutil.rmtree),
    "data of blocks of steps": to_parts("step_blocks_log", flip),
    "power cut in blocks of steps": to_parts("step_blocks_log", cut),
    "detached part of blocks of steps": to_parts("step_blocks_log", detach),
    "emptied blocks of steps": to_parts("step_blocks_log", shutil.rmtree),
    "definition of blocks of steps": damaged_definition("step_blocks_log"),
    "definition of the view that makes blocks": damaged_definition("step_blocks_mv"),
    "definition of results": damaged_definition("steps_log"),
    "definition of flows": damaged_definition("flows_log"),
}


#: Runs a command on the database of a URL.
Run = Callable[..., Done]


def in_own_process(*arguments: str | Path, url: str) -> Done:
    """Run a command as the process that an operator starts."""
    return prism_ch_process(*arguments, folder=Path(url.removeprefix("chdb://")))


def wrong(url: str, run: Run = prism_ch) -> list[str]:
    """Return the doctor's lines about what is wrong in the database, each with what mends it."""
    found = re.findall(r"^(?:warn|bad ) +(.*)\n +mend: (.*)$", run("doctor", url=url).out, re.MULTILINE)
    return [f"{what} -> {mend}" for what, mend in found if what.startswith(CHECKED)]


def move_out(line: str) -> None:
    """Move out the file of a damaged definition, where a line of the doctor names one."""
    moved = re.search(r"the definition in (\S+) is damaged; move that file out", line)
    if moved:
        Path(moved[1]).rename(Path(moved[1]).parents[3] / "damaged.sql")


def follow(line: str, url: str, run: Run = prism_ch, files: Sequence[Path] = (FLOWS,)) -> None:
    """Run the commands that a line of the doctor says; `files` are those that have landed."""
    for command in re.findall(r"`prism-ch ([^`]+)`", line):
        given = {"FILE...": files, "FILE": [TOPOLOGY], "topology.csv": [TOPOLOGY]}
        run(*chain.from_iterable(given.get(word, [word]) for word in shlex.split(command)), url=url)


@contextmanager
def nothing_lands() -> Iterator[None]:
    """Have nobody wait for records that might be landing: two seconds, each time that flows are missed."""
    with mock.patch.object(integrity, "_LANDING_S", 0.0):
        yield


@nothing_lands()
def follow_the_doctor(url: str, files: Sequence[Path] = (FLOWS,)) -> tuple[list[str], list[str], list[str]]:
    """Do what the doctor says until nothing is wrong; return what he said first and last, and the results."""
    first = lines = wrong(url)
    for line in lines:
        move_out(line)
    with connect(url):  # a start of the engine takes longer than most commands
        for _ in range(ROUNDS):
            for line in lines:
                follow(line, url, files=files)
            lines = wrong(url)
            if not lines:
                break
    return first, lines, results(url)


@contextmanager
def in_process() -> Iterator[Callable[[Callable[[str], Any], str], Any]]:
    """Yield what calls functions in a process of its own: the embedded engine opens one folder at a time."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield lambda call, url: pool.submit(call, url).result()
