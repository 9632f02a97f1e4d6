"""`prism-ch serve` as an operator meets it: what is dropped is analysed, and commands run through it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.e2e.analysed import RECORDED
from tests.e2e.commands import Done, command_line, prism_ch_process
from tests.e2e.service import Service, serving, until

pytestmark = pytest.mark.slow

RUN = RECORDED / "dp4_slow_rank"


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
