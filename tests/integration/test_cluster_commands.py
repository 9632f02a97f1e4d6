"""Workers and commands of a Dask cluster: they join, leave, and say in one line why they can't."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dask
import pytest

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.executor import Executor, LocalExecutor
from prism_ch.cluster import executor as module
from prism_ch.cluster.address import require_dask
from prism_ch.cluster.executor import DaskExecutor
from prism_ch.errors import ClusterError
from prism_ch.model.memory import JobFailure
from tests.e2e.commands import prism_ch
from tests.e2e.service import free_port
from tests.spread import Cluster, cluster

#: What a scheduler finds that runs in an environment with another version.
_OTHER = {
    "__init__.py": '__version__ = "9.9"\n',
    "cluster/__init__.py": "",
    "cluster/address.py": "from prism_ch import __version__\n\n\ndef installed_version():\n    return __version__\n",
}


@pytest.fixture(scope="module")
def idle() -> Iterator[Cluster]:
    """A scheduler without a worker."""
    with cluster() as made:
        yield made


def worker(address: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a worker until it ends by itself."""
    command = [sys.executable, "-m", "prism_ch", "worker", address, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def _sum(first: int, others: tuple[int, ...]) -> int:
    return first + sum(others)


def _process(_: object = None) -> int:
    return os.getpid()


def _fails(_: object) -> int:
    raise ValueError("no luck")


def outcomes(executor: Executor) -> tuple[list[int | None], tuple[JobFailure, ...]]:
    """Call functions in stages, one of which fails for a job."""
    apart = Apart(executor)
    shared = apart.share(100)
    first = apart.spread(_sum, ["a", "b"], [(shared, (1,)), (shared, (2, 3))])
    second = apart.spread(_sum, ["a", "b"], [(1, (one, shared)) for one in first])
    failed = apart.spread(_fails, ["c"], [(second[0],)])
    third = apart.tell(_sum, ["a", "c"], [(0, (*second,)), (0, (second[1], *failed))])
    return [*third, *apart.told(second)], apart.failures


@pytest.mark.slow
def test_stages_run_alike_and_where_their_state_is() -> None:
    with cluster(workers=2) as made, DaskExecutor(made.address) as spread:
        found = outcomes(spread)
        assert found == outcomes(LocalExecutor())
        assert found[0] == [408, None, 202, 206]
        assert [one.job_id for one in found[1]] == ["c"]
        state = spread.start(_process, [()] * 6)
        later = spread.start(_process, [(one,) for one in state])
        places = spread.results(state)
        assert spread.results(later) == places
        assert len(set(places)) == 2


@pytest.mark.slow
def test_stopped_worker_leaves_and_says_so() -> None:
    with cluster(workers=2) as made, DaskExecutor(made.address) as spread:
        held = spread.start(_sum, [(number, ()) for number in range(8)])
        spread.results(held)
        assert made.stop_worker() == 0
        assert spread.results(held) == list(range(8))
        lines = made.log_of(0).splitlines()
        assert [line.split(" ", 5)[4] for line in lines] == ["joined", "stopped"]
        assert all(line.startswith("time=") and "level=INFO" in line for line in lines)


def _dies(_: object = None) -> int:
    os._exit(1)


@pytest.mark.slow
def test_call_that_ends_every_worker_is_an_error() -> None:
    with cluster(workers=4) as made, DaskExecutor(made.address) as spread:
        with pytest.raises(ClusterError, match="at work on 4 workers that ended, one after the other"):
            spread.results(spread.start(_dies, [()]))
        # The scheduler misses a worker before the system has ended it.
        assert [one.wait(timeout=60) for one in made.workers] == [1] * 4


@pytest.mark.slow
def test_tls_is_that_of_dask_s_configuration(tmp_path: Path) -> None:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    certificate, key = str(tmp_path / "tls.pem"), str(tmp_path / "tls.key")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    tls = {"default-scheme": "tls", "require-encryption": "true", "tls.ca-file": certificate}
    for role in ("scheduler", "worker", "client"):
        tls |= {f"tls.{role}.cert": certificate, f"tls.{role}.key": key}
    environment = {
        f"DASK_DISTRIBUTED__COMM__{name.replace('.', '__').replace('-', '_').upper()}": value
        for name, value in tls.items()
    }
    made = Cluster(tmp_path)
    try:
        made.start_scheduler(**environment)
        made.add_workers(1, **environment)
        require_dask()  # its defaults come before what is set here for a while
        mine = {f"distributed.comm.{name}": value for name, value in tls.items()}
        with dask.config.set(mine), DaskExecutor(made.address) as spread:
            assert spread.results(spread.start(_sum, [(1, (2,))])) == [3]
        assert "worker=tls://" in made.log_of(0)
        with DaskExecutor(made.address) as plain, pytest.raises(ClusterError, match="no scheduler answers"):
            plain.share(1)
    finally:
        made.close()


def test_scheduler_without_workers_is_an_error(idle: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NO_WORKER_S", 0.3)
    with (
        DaskExecutor(idle.address) as spread,
        pytest.raises(ClusterError, match="the scheduler has no worker") as error,
    ):
        spread.start(_sum, [(1, ())])
    assert f"`prism-ch worker {idle.address}`" in str(error.value)


def test_address_nobody_answers_at_is_named(monkeypatch: pytest.MonkeyPatch, store_url: str) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.5)
    address = f"dask://127.0.0.1:{free_port()}"
    with DaskExecutor(address) as spread, pytest.raises(ClusterError, match="no scheduler answers") as error:
        spread.share(1)
    assert str(error.value).startswith(f"{address}: ")


def test_scheduler_of_another_version_is_refused(tmp_path: Path) -> None:
    for name, text in _OTHER.items():
        path = tmp_path / "prism_ch" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made = Cluster(tmp_path)
    try:
        made.start_scheduler(PYTHONPATH=str(tmp_path))
        with DaskExecutor(made.address) as spread, pytest.raises(ClusterError, match=r"runs prism-ch 9\.9, and this"):
            spread.share(1)
        ended = worker(made.address)
    finally:
        made.close()
    assert ended.returncode == 1
    assert "the scheduler runs prism-ch 9.9" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_worker_refuses_what_it_can_not_use() -> None:
    for arguments, words in (
        (("http://a:1",), "write dask://HOST:PORT"),
        (("dask://127.0.0.1:1", "--memory-limit", "much"), "--memory-limit takes auto or a size such as 4GiB"),
    ):
        ended = worker(*arguments)
        assert ended.returncode in (1, 2)
        assert words in ended.stderr
        assert ended.stderr.count("\n") == 1


def test_wrong_setting_is_refused_before_anything_runs(monkeypatch: pytest.MonkeyPatch, store_url: str) -> None:
    monkeypatch.setenv("PRISM_CH_EXECUTOR", "dask:scheduler")
    done = prism_ch("analyse", url=store_url)
    assert done.status == 2
    assert "analysis.executor: Value error, is local, or dask://HOST:PORT" in done.err
