"""The whole pipeline over HTTP against the service's endpoint, and clients beside a service that lands and analyses."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

import pytest

from prism_ch.errors import SettingsError
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.contract import snapshot
from tests.e2e.analysed import RECORDED, Recorded, run
from tests.e2e.commands import prism_ch
from tests.e2e.service import Service, serving, until
from tests.serving import PASSWORD, Endpoint, endpoint, users

RUN = RECORDED / "dp4_slow_rank"
CLIENTS = 64


def test_the_pipeline_finds_the_same_over_http(engine_folder: Path, recorded: Recorded) -> None:
    embedded = recorded(RUN.name)
    with connect(f"chdb://{engine_folder}?database=over_http") as store:
        migrate(store)
        with endpoint(store, engine_folder) as served:
            over_http = run(RUN, "flows.parquet", served.url().replace("clickhouse://", "http://"))
            assert over_http.told.out == embedded.told.out
            for command in (("analyse", "--force"), ("retention",), ("sql", "SELECT count() FROM steps")):
                assert prism_ch(*command, url=served.url()).status == 0
            rejected = prism_ch("analyse", "--force", url=served.url("reader"))
            assert rejected.status == 1
            assert "Only reading statements are allowed" in rejected.err
            with connect(served.url()) as remote, connect(embedded.url) as local:
                assert snapshot(remote) == snapshot(local)
        store.command("DROP DATABASE over_http SYNC", use_database=False)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with users, as an operator starts it."""
    with serving(tmp_path_factory.mktemp("over_http"), RUN / "topology.csv", more=user_tables()) as started:
        yield started


def user_tables() -> str:
    """Write the users of a settings file."""
    return "".join(
        f"[serve.users.{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in user.items())
        for name, user in users().items()
    )


@pytest.mark.slow
def test_clients_read_while_the_service_lands_and_analyses(service: Service) -> None:
    endpoint = Endpoint(service.port, "prism")
    assert endpoint.ask("SELECT 1").body == b"1\n"
    before = service.memory_bytes()
    deadline = time.monotonic() + 6

    def ask(number: int) -> int:
        user = ("operator", "reader", "alpha", "bravo")[number % 4]
        answered = 0
        while time.monotonic() < deadline:
            for statement in ("SELECT count() FROM steps", "SELECT number FROM numbers(200000) FORMAT Native"):
                assert endpoint.ask(statement, user).status == 200
            answered += 1
        return answered

    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = clients.map(ask, range(CLIENTS))
        service.drop(RUN / "flows.parquet", "flows.parquet")
        assert min(answers) >= 1
    until(lambda: service.is_done(1, windows=2), service.process)
    assert service.memory_bytes() - before < 1 << 30
    assert endpoint.ask("SELECT steps FROM jobs").body == b"70\n"
    health = service.health()
    assert health is not None
    assert health["status"] == "ok"


@pytest.mark.slow
def test_it_answers_beside_an_analysis_that_works_over_it(service: Service) -> None:
    endpoint = Endpoint(service.port, "prism")
    command = [sys.executable, "-m", "prism_ch", "analyse", "--force", "--url", endpoint.url()]

    def analyse() -> bool:
        # The service may be at a window itself; then the command says so, and is given again.
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    with ThreadPoolExecutor(1) as worker:
        forced = worker.submit(until, analyse)
        answered = [endpoint.ask("SELECT count() FROM steps", "reader").status]
        while not forced.done():
            time.sleep(0.1)  # more of them would only hold up the analysis
            answered.append(endpoint.ask("SELECT count() FROM steps", "reader").status)
        forced.result()
    assert set(answered) == {200}


def test_without_users_only_this_machine_may_ask_and_only_read(store: Store, engine_folder: Path) -> None:
    with endpoint(store, engine_folder, users={}) as served:
        assert served.ask("SELECT 1", "").body == b"1\n"
        assert served.ask("CREATE TABLE t (a UInt8) ENGINE = Memory", "").code == "497"
    with endpoint(store, engine_folder, users={}, host="0.0.0.0") as served:  # noqa: S104 - it listens on loopback
        assert served.ask("SELECT 1", "").code == "516"


def test_tls_by_certificate_and_key(store: Store, engine_folder: Path, tmp_path: Path) -> None:
    certificate, key = tmp_path / "tls.pem", tmp_path / "tls.key"
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    with endpoint(store, engine_folder, tls_certificate=certificate, tls_key=key) as served:
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = HTTPSConnection("localhost", served.port, context=trusted, timeout=60)
        connection.request("POST", "/", "SELECT 1", {"X-ClickHouse-User": "reader", "X-ClickHouse-Key": PASSWORD})
        assert connection.getresponse().read() == b"1\n"
        connection.close()
        with pytest.raises((ConnectionError, HTTPException)):
            served.ask("SELECT 1")
    certificate.write_text("none")
    with (
        pytest.raises(SettingsError, match="can't be used for TLS"),
        endpoint(store, engine_folder, tls_certificate=certificate, tls_key=key),
    ):
        pass
