"""`prism-ch serve` as an operator meets it: commands run through it, a signal ends it, and kills change nothing."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from prism_ch.store.client import connect
from tests.contract import Snapshot, snapshot
from tests.e2e.analysed import RECORDED, NewUrl, run
from tests.e2e.commands import Done, command_line, prism_ch_process
from tests.e2e.service import Service, serving, until
from tests.e2e.test_killed import read

pytestmark = pytest.mark.slow

RUN = RECORDED / "dp4_slow_rank"
#: So often the service is killed while it lands and analyses.
KILLS = 4
FILES, WINDOW_S = 40, 20


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service to which the recorded run was given through its spool."""
    with serving(tmp_path_factory.mktemp("service"), RUN / "topology.csv") as started:
        started.drop(RUN / "flows.parquet", "flows.parquet")
        until(lambda: started.is_done(1, windows=2), started.process)
        yield started


def ask(service: Service, *arguments: str | Path) -> Done:
    return prism_ch_process(*arguments, folder=service.folder)


def pipe(service: Service, data: bytes, *arguments: str, cwd: Path | None = None) -> tuple[int, bytes]:
    command = command_line(*arguments, folder=service.folder)
    done = subprocess.run(command, input=data, stdout=subprocess.PIPE, cwd=cwd, check=False)
    return done.returncode, done.stdout


def test_what_was_dropped_is_analysed_by_itself(service: Service) -> None:
    assert ask(service, "sql", "SELECT steps FROM jobs", "--format", "csv").out == '"steps"\n70\n'
    health = service.health()
    assert health is not None
    assert (health["status"], health["reasons"]) == ("ok", [])


def test_a_statement_runs_through_the_service_in_every_format(service: Service, tmp_path: Path) -> None:
    done = ask(service, "sql", "SELECT 1 AS one, 'x' AS x")
    assert (done.status, done.out.split(), done.err) == (0, ["one", "x", "1", "x"], "")
    status, body = pipe(service, b"", "sql", "SELECT number FROM numbers(1000)", "--format", "parquet")
    (tmp_path / "piped.parquet").write_bytes(body)
    assert (status, len(pq.read_table(tmp_path / "piped.parquet"))) == (0, 1000)
    assert pipe(service, b"", "sql", "SELECT 7", "--format", "csv", "--output", "seven.csv", cwd=tmp_path) == (0, b"")
    assert (tmp_path / "seven.csv").read_text() == '"7"\n7\n'
    assert pipe(service, b"SELECT 8 AS n", "sql", "-", "--format", "csv") == (0, b'"n"\n8\n')


def test_what_is_refused_is_refused_there_too(service: Service) -> None:
    done = ask(service, "sql", "DROP TABLE flows_log")
    assert (done.status, done.out) == (2, "")
    assert done.err.startswith("prism-ch: ")
    assert ask(service, "ingest", "none.parquet").status == 1
    assert ask(service, "analyse", "--from", "yesterday").status == 2


def test_files_are_found_where_the_command_was_given(service: Service) -> None:
    status, out = pipe(service, b"", "ingest", "flows.parquet", cwd=RUN)
    assert (status, out.startswith(b"skipped ")) == (0, True)
    status, out = pipe(service, (RUN / "flows.parquet").read_bytes(), "ingest", "-")
    assert (status, out.startswith(b"skipped stdin: its content has landed before, as ")) == (0, True)
    assert ask(service, "topology", RUN / "topology.csv").status == 0


def attempts(service: Service) -> np.ndarray:
    """Count how often each window has been worked, int64[windows]."""
    lines = ask(service, "sql", "SELECT attempts FROM windows ORDER BY window_start", "--format", "csv").out.split()
    return np.array(lines[1:], dtype=np.int64)


def test_windows_are_worked_again_beside_the_service(service: Service) -> None:
    before = attempts(service)
    done = ask(service, "analyse", "--force")
    assert (done.status, done.out.startswith("worked 2 windows, read ")) == (0, True)
    assert ask(service, "analyse").out == "nothing to work\n"
    # The service itself may take up the second window once the first is new: then that one is worked twice.
    assert len(before) == 2
    assert (attempts(service) > before).all()


def test_the_doctor_is_let_in(service: Service) -> None:
    done = ask(service, "doctor")
    assert done.status == 1  # exporters are silent: the run is over
    assert "ok    windows: 2 worked, none failed\n" in done.out
    assert "bad " not in done.out


def test_somebody_who_stops_reading_harms_nobody(service: Service) -> None:
    command = command_line("sql", "SELECT number FROM numbers(3000000)", "--format", "csv", folder=service.folder)
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b'"number"\n'
        process.stdout.close()
        assert process.wait() == 128 + 13
    assert ask(service, "sql", "SELECT 1").status == 0


def test_a_second_service_is_told_who_holds_the_database(service: Service, tmp_path: Path) -> None:
    done = ask(service, "serve", "--spool", tmp_path / "other", "--listen", "127.0.0.1:0")
    assert done.status == 1
    assert "has this database open" in done.err


def test_only_its_user_can_ask(service: Service) -> None:
    assert (service.folder / "serve.json").stat().st_mode & 0o077 == 0


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
        for piece in pieces:
            service.drop(piece, piece.name)
        until(lambda: service.measures()["windows_worked"] > 2, service.process)
        assert service.stop() == 0
    assert "Traceback" not in service.log.read_text()
