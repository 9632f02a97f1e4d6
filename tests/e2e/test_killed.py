"""Killed at any moment and run again, the results are those of an undisturbed run."""

import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from prism_ch.settings import Settings
from prism_ch.store.client import Store, connect
from prism_ch.worker import analyse
from tests.contract import RESULTS, Snapshot, snapshot
from tests.e2e.analysed import RECORDED, NewUrl, Recorded
from tests.e2e.commands import command_line, prism_ch, prism_ch_process

#: It spans two windows.
NAME = "dp4_slow_rank"
FLOWS, TOPOLOGY = RECORDED / NAME / "flows.parquet", RECORDED / NAME / "topology.csv"
RUN = ("run", FLOWS, "--topology", TOPOLOGY)

#: So many runs, one after another on one folder, are killed.
KILLS = 3


@pytest.fixture(scope="module")
def undisturbed(recorded: Recorded) -> Snapshot:
    """What the public tables say after a run that nothing disturbs."""
    with connect(recorded(NAME).url) as store:
        return snapshot(store)


def read(folder: Path) -> Snapshot:
    """Read the public tables of a database that another process made; this one has its own folder open."""
    command = [sys.executable, "-m", "tests.contract", f"chdb://{folder}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Snapshot = json.loads(done.stdout)
    return found


@pytest.mark.sweep
def test_a_run_killed_repeatedly_ends_as_an_undisturbed_one(undisturbed: Snapshot, tmp_path: Path) -> None:
    chance = random.Random(7)  # noqa: S311 (moments, no secrets)
    folder = tmp_path / "data"
    killed = 0
    began = time.monotonic()
    subprocess.run(command_line(*RUN, folder=tmp_path / "undisturbed"), capture_output=True, check=True)
    length_s = time.monotonic() - began
    # Later and later, so that the first comes in time even where the machine has become faster meanwhile.
    for share in np.linspace(0.2, 0.9, KILLS):
        with subprocess.Popen(command_line(*RUN, folder=folder), stdout=subprocess.DEVNULL) as process:
            try:
                process.wait(timeout=chance.uniform(0.8, 1.0) * share * length_s)
            except subprocess.TimeoutExpired:
                process.kill()
                killed += 1
    finished = prism_ch_process(*RUN, folder=folder)
    assert killed > 0
    assert (finished.status, finished.err) == (0, "")
    assert read(folder) == undisturbed


class Killed(BaseException):
    """Ends an analysis as a kill does: nobody catches it."""


@dataclass(slots=True)
class Fuse:
    """Lets so many writing statements through, and ends the analysis at the next."""

    left: int
    noting: threading.Lock = field(default_factory=threading.Lock)

    def burn(self) -> None:
        """Take note of one statement."""
        with self.noting:
            if self.left == 0:
                raise Killed
            self.left -= 1


@pytest.fixture
def fuse(monkeypatch: pytest.MonkeyPatch) -> Fuse:
    """Put a fuse before all that writes."""
    made = Fuse(-1)  # which never reaches 0
    for name in ("insert", "command"):
        monkeypatch.setattr(Store, name, _fused(getattr(Store, name), made))
    return made


def _fused(write: Callable[..., None], fuse: Fuse) -> Callable[..., None]:
    def fused(self: Store, *arguments: Any, **options: Any) -> None:
        fuse.burn()
        write(self, *arguments, **options)

    return fused


def land(url: str) -> None:
    """Land the records, ready to be analysed."""
    for command in (("migrate",), ("topology", TOPOLOGY), ("ingest", FLOWS)):
        assert prism_ch(*command, url=url).status == 0


@pytest.mark.slow
def test_readers_see_whole_windows_wherever_a_run_is_cut_short(
    store: Store, store_url: str, new_url: NewUrl, undisturbed: Snapshot, fuse: Fuse
) -> None:
    states: list[Snapshot] = []
    url = new_url()
    land(url)
    with connect(url) as other:
        report = analyse(other, Settings(), progress=lambda done, due: states.append(snapshot(other, *RESULTS)))
    assert states[-1] == {name: undisturbed[name] for name in RESULTS}
    assert len(report.windows) == 2
    land(store_url)
    for worked, (before, after) in zip(report.windows, pairwise(states), strict=True):
        assert before != after
        seen = []
        for statements in count():
            fuse.left = statements
            try:
                analyse(store, Settings(), to_ns=worked.window.end_ns)
            except Killed:
                seen.append(snapshot(store, *RESULTS))
            else:
                break
            finally:
                fuse.left = -1
        # One statement publishes, and all that comes before it is seen by nobody.
        published = seen.index(after)
        assert published >= len(RESULTS)
        assert seen == [before] * published + [after] * (len(seen) - published)
        assert snapshot(store, *RESULTS) == after
    assert store.scalar("SELECT count() FROM steps_log") > store.scalar("SELECT count() FROM steps")
