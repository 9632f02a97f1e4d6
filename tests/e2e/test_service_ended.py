"""`prism-ch serve` that is ended in the middle of its work: a signal is heeded, and kills change nothing."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from prism_ch.store.client import connect
from tests.contract import Snapshot, snapshot
from tests.e2e.analysed import NewUrl, run
from tests.e2e.service import Service, serving, until
from tests.e2e.test_killed import read

pytestmark = pytest.mark.slow

#: So often the service is killed while it lands and analyses.
KILLS = 2
FILES, WINDOW_S = 40, 20


@pytest.fixture(scope="module")
def pieces(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The records of a minute of 32 GPUs in many files, one in ten records late."""
    flows = pq.read_table(cluster / "flows" / "part-00000.parquet")
    chance = np.random.default_rng(11)
    end_s = flows["time_flow_end_ns"].to_numpy() / 1e9
    arrival = np.argsort(end_s + np.where(chance.random(len(flows)) < 0.1, chance.exponential(10.0, len(flows)), 0))
    folder = tmp_path_factory.mktemp("pieces")
    files = []
    for number, rows in enumerate(np.array_split(arrival, FILES)):
        files.append(folder / f"{number:03}.parquet")
        pq.write_table(flows.take(rows), files[-1])
    return files


@pytest.fixture(scope="module")
def undisturbed(cluster: Path, new_url: NewUrl) -> Snapshot:
    """What one batch says of the same records."""
    analysed = run(cluster, "flows/*.parquet", new_url(), WINDOW_S)
    with connect(analysed.url) as store:
        return snapshot(store)


def test_killed_at_any_moment_it_ends_where_one_batch_does(
    pieces: list[Path], cluster: Path, undisturbed: Snapshot, tmp_path: Path
) -> None:
    chance = random.Random(5)  # noqa: S311 - moments, no secrets
    service = Service(tmp_path, window_s=WINDOW_S)
    service.prepare(cluster / "topology.csv")
    service.start()
    left = list(pieces)
    for _ in range(KILLS):
        for _ in range(len(pieces) // KILLS):
            service.drop(left[0], left.pop(0).name)
            time.sleep(chance.uniform(0, 0.1))
        time.sleep(chance.uniform(0, 1.5))
        service.kill()
        service.start()
    for piece in left:
        service.drop(piece, piece.name)
    until(lambda: service.is_done(len(pieces)), service.process)
    assert service.stop() == 0
    assert not list((service.spool / "failed").iterdir())
    assert read(service.folder) == undisturbed


def test_a_signal_ends_it_in_the_middle_of_its_work(pieces: list[Path], cluster: Path, tmp_path: Path) -> None:
    with serving(tmp_path, cluster / "topology.csv", window_s=1) as service:
        for piece in pieces[:10]:
            service.drop(piece, piece.name)
        until(lambda: service.measures()["windows_worked"] > 2, service.process)
        assert service.stop() == 0
    assert "Traceback" not in service.log.read_text()
