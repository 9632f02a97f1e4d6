"""Many clients at once, and clients that stall or vanish: nobody waits for them, and nothing is kept for them."""

from __future__ import annotations

import socket
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from prism_ch.store.client import connect
from prism_ch.store.migrate import migrate
from tests.e2e.service import until
from tests.serving import PASSWORD, OwnEndpoint, endpoint

ENDLESS = "SELECT number FROM system.numbers"
#: Sends nothing for a long while.
LONG = "SELECT sleepEachRow(1) FROM numbers(1000) SETTINGS max_block_size = 1"


@pytest.fixture(scope="module")
def impatient(engine_folder: Path) -> Iterator[OwnEndpoint]:
    """An endpoint with few places that waits for no client for long."""
    with connect(f"chdb://{engine_folder}?database=impatient") as store:
        migrate(store)
        settings = {"stall_s": 3.0, "queries_at_once": 4, "queries_per_user": 3, "queue_s": 0.5}
        with endpoint(store, engine_folder, **settings, requests_per_minute=50) as listening:
            yield listening


def begin(served: OwnEndpoint, statement: str, target: str = "/", **more: str) -> socket.socket:
    """Send a request and read nothing."""
    login = b64encode(f"operator:{PASSWORD}".encode()).decode()
    headers = {"Host": "x", "Authorization": f"Basic {login}", "Content-Length": str(len(statement)), **more}
    client = socket.create_connection(("127.0.0.1", served.port), timeout=60)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    head = f"POST {target} HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    client.sendall(f"{head}\r\n{statement}".encode())
    return client


def at_work(served: OwnEndpoint, what: str) -> int:
    """Count the statements that the engine has at work."""
    query = f"SELECT count() FROM system.processes WHERE position(query, '{what}') > 0 AND NOT is_cancelled"  # noqa: S608
    return int(served.ask(query + " AND position(query, 'processes') = 0").text)


def test_64_clients_at_once_are_all_answered(served: OwnEndpoint) -> None:
    def ask(number: int) -> bool:
        user = ("operator", "reader", "alpha", "bravo")[number % 4]
        question = f"SELECT count(), sum(cityHash64(number)) FROM numbers({number * 10_000 + 1})"  # noqa: S608 - of this test
        return all(served.ask(question, user).text.startswith(f"{number * 10_000 + 1}\t") for _ in range(5))

    with ThreadPoolExecutor(64) as clients:
        assert all(clients.map(ask, range(64)))


@pytest.mark.parametrize("statement", [ENDLESS, "SELECT sum(cityHash64(number)) FROM system.numbers"])
def test_a_client_that_vanishes_has_its_statement_cancelled(served: OwnEndpoint, statement: str) -> None:
    with begin(served, statement):
        until(lambda: at_work(served, statement) == 1)
    until(lambda: at_work(served, statement) == 0)
    until(lambda: not served.sql.engine.marks)
    assert served.ask("SELECT 1").body == b"1\n"


def test_a_client_that_reads_nothing_is_let_go(impatient: OwnEndpoint) -> None:
    with ExitStack() as clients:
        for _ in range(3):
            clients.enter_context(begin(impatient, ENDLESS))
        until(lambda: at_work_elsewhere(impatient) == 3)
        until(lambda: at_work_elsewhere(impatient) == 0)
    until(lambda: not impatient.sql.engine.marks)
    assert impatient.ask("SELECT 1").body == b"1\n"


def at_work_elsewhere(served: OwnEndpoint) -> int:
    """Count endless statements as a reader's neighbour would: over a connection of the test's own."""
    with connect(f"chdb://{served.sql.folder}?database={served.database}") as store:
        query = "SELECT count() FROM system.processes WHERE startsWith(query, {text:String}) AND NOT is_cancelled"
        return int(store.scalar(query, {"text": ENDLESS}))


def test_a_statement_without_a_slot_is_rejected(impatient: OwnEndpoint) -> None:
    until(lambda: not impatient.sql.engine.marks)  # a statement whose client left has a slot until it has ended
    with ExitStack() as clients:
        for _ in range(3):
            clients.enter_context(begin(impatient, LONG))
        until(lambda: len(impatient.sql.engine.marks) == 3)
        rejected = impatient.ask("SELECT 1")
        assert (rejected.status, rejected.code) == (503, "202")
        assert impatient.ask("SELECT 1", "reader").status == 200


def test_a_body_that_does_not_come_holds_nothing(impatient: OwnEndpoint) -> None:
    impatient.ask("CREATE TABLE IF NOT EXISTS slow (a UInt64) ENGINE = Memory")
    with begin(impatient, "INSERT INTO slow FORMAT TSV\n1\n2\n", **{"Content-Length": "1000000"}) as client:
        answer = b"".join(iter(lambda: client.recv(1 << 16), b""))
    assert b"408" in answer.splitlines()[0]
    assert b"connection: close" in answer.lower()
    assert b"SOCKET_TIMEOUT" in answer
    assert impatient.ask("SELECT count() FROM slow").body == b"0\n"


def test_an_insert_that_breaks_off_lands_nothing(served: OwnEndpoint) -> None:
    served.ask("CREATE TABLE broken_off (a UInt64) ENGINE = Memory")
    with begin(served, "INSERT INTO broken_off FORMAT TSV\n1\n2\n", **{"Content-Length": "1000000"}):
        pass
    assert served.ask("INSERT INTO broken_off VALUES (7)").status == 200
    assert served.ask("SELECT groupArray(a) FROM broken_off").body == b"[7]\n"
    served.ask("DROP TABLE broken_off")


def test_too_many_requests_a_minute_are_refused(impatient: OwnEndpoint) -> None:
    answers = [impatient.ask("SELECT 1", "alpha") for _ in range(60)]
    rejected = [answered for answered in answers if answered.status != 200]
    assert 0 < len(rejected) <= 10
    assert {(answered.status, answered.code) for answered in rejected} == {(429, "201")}
    assert impatient.ask("SELECT 1", "bravo").status == 200


def test_a_session_serves_one_request_at_a_time(served: OwnEndpoint) -> None:
    with begin(served, LONG, "/?session_id=locked"):
        until(lambda: served.ask("SELECT 1", session_id="locked").code == "373")
        assert served.ask("SELECT 1", "reader", session_id="locked").status == 200
    until(lambda: served.ask("SELECT 1", session_id="locked").status == 200)
