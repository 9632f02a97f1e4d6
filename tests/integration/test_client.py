"""Connecting and talking: what works, and that each way to fail is one clear line without passwords."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from clickhouse_connect.driver.exceptions import Error

from prism_ch.errors import StoreError, StoreLockedError
from prism_ch.query.api import columns as columns_of
from prism_ch.store import client
from prism_ch.store.client import Store, connect
from prism_ch.store.url import ServerLocation

CONNECT = """
import sys
from prism_ch.errors import PrismError
from prism_ch.store.client import connect
try:
    with connect(sys.argv[1]) as store:
        print(store.scalar("SELECT currentDatabase()"), store.embedded)
except PrismError as error:
    print(type(error).__name__, error)
"""


def run_python(code: str, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def table(store: Store) -> Store:
    store.command(
        "CREATE TABLE t (n UInt8, t DateTime64(9), k Enum8('a' = 1, 'b' = 2), s String, v Array(String))"
        " ENGINE = MergeTree ORDER BY n"
    )
    return store


def test_columns_go_in_and_come_back_with_their_types(table: Store) -> None:
    times = np.array([1_700_000_000_123_456_789, -1], dtype=np.int64)
    columns = {
        "t": pa.array(times).cast(pa.timestamp("ns")),
        "n": np.array([7, 8], dtype=np.uint8),
        "k": pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array(["a", "b"])),
        "s": ["x'y\\z", ""],
        "v": [["p", "q"], []],
    }
    table.insert("t", columns)
    table.insert("t", {name: column[:0] for name, column in columns.items()})
    found = columns_of(table.arrow("SELECT n, toUnixTimestamp64Nano(t) AS ns, k, s, v FROM t ORDER BY n"))
    assert found["n"].dtype == np.uint8
    assert found["ns"].tolist() == times.tolist()
    assert found["k"].tolist() == [2, 1]
    assert found["s"].tolist() == ["x'y\\z", ""]
    assert [list(value) for value in found["v"]] == [["p", "q"], []]
    assert table.rows("SELECT k, s FROM t WHERE n = {n:UInt8}", {"n": 7}) == [("b", "x'y\\z")]
    assert table.scalar("SELECT count() FROM t") == 2
    assert table.raw("SELECT n FROM t ORDER BY n", fmt="CSV") == b"7\n8\n"


def test_statements_run_at_once_and_the_first_error_is_raised(table: Store) -> None:
    together = threading.Barrier(4, timeout=60)

    def insert(connection: Store, number: int) -> None:
        together.wait()  # breaks where fewer run at once
        connection.insert("t" if number % 3 else f"missing{number}", {"n": np.array([number], dtype=np.uint8)})

    with pytest.raises(StoreError, match="missing3"):
        table.at_once(partial(insert, number=number) for number in range(1, 5))
    assert table.rows("SELECT n FROM t ORDER BY n") == [(1,), (2,), (4,)]
    table.at_once([lambda connection: connection.command("TRUNCATE TABLE t")])
    assert table.scalar("SELECT count() FROM t") == 0


def test_parameters_are_never_pasted(table: Store) -> None:
    nasty = "'; DROP TABLE t; --\t\n\\"
    assert table.scalar("SELECT {x:String}", {"x": nasty}) == nasty
    assert table.rows("SELECT {x:Array(String)}", {"x": [nasty, "y"]}) == [([nasty, "y"],)]
    table.command("INSERT INTO t (n, s) SELECT 1, {x:String}", {"x": nasty})
    assert table.scalar("SELECT s FROM t") == nasty


def test_text_without_a_zone_is_utc(store: Store) -> None:
    assert store.scalar("SELECT toUnixTimestamp(toDateTime64('1970-01-01 00:00:01', 3))") == 1


def test_a_refusal_is_one_line(store: Store) -> None:
    for refused in (store.arrow, store.rows, store.command):
        with pytest.raises(StoreError) as raised:
            refused("SELECT nothing FROM nowhere")
        assert "UNKNOWN_TABLE" in str(raised.value)
        assert raised.value.code == 60
        assert str(raised.value) == f"{store.location}: {raised.value.reason}"
        assert "\n" not in str(raised.value)
        assert "version" not in str(raised.value)
    with pytest.raises(StoreError, match="expected one value, got 2 rows"):
        store.scalar("SELECT number FROM numbers(2)")


@pytest.mark.parametrize(
    "code, advice",
    [
        (243, "the database's disk is full; make room, what was under way is done again"),
        (241, "the engine has no memory left; give it more, or let less run at once"),
        (252, "files come in faster than the engine merges them; land fewer and larger ones"),
    ],
)
def test_what_no_statement_is_to_blame_for_comes_with_advice(store: Store, code: int, advice: str) -> None:
    with pytest.raises(StoreError) as raised:
        store.scalar(
            "SELECT throwIf(1, 'no more', {code:Int16}) SETTINGS allow_custom_error_code_in_throwif = 1", {"code": code}
        )
    assert str(raised.value).endswith(f"; {advice}")


def test_a_full_disk_is_told_whichever_call_meets_it() -> None:
    location = ServerLocation("host", 8123, False, "me", "", "prism")
    error = Error("Code: 1001. DB::Exception: filesystem error: cannot write: No space left on device (STD_EXCEPTION)")
    assert str(client._store_error(error, location)).endswith(
        "; the database's disk is full; make room, what was under way is done again"
    )


def test_a_result_that_breaks_off(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "raw", lambda *_, **__: b"Code: 241. DB::Exception: Memory limit exceeded")
    with pytest.raises(StoreError, match="the result broke off"):
        store.arrow("SELECT 1")


def test_a_password_in_an_error_of_the_driver_is_masked() -> None:
    location = ServerLocation("h", 8123, secure=False, user="u", password="hunter2", database="prism")  # noqa: S106
    error = client._store_error(Error("DB::Exception: no (hunter2) here"), location)
    assert str(error) == "u@h:8123: no (***) here"


def test_a_database_that_is_not_there(engine_folder: Path) -> None:
    with connect(f"chdb://{engine_folder}?database=never_made") as store:
        with pytest.raises(StoreError, match="no database never_made yet; `prism-ch migrate` makes it"):
            store.arrow("SELECT 1")
        assert str(store) == f"database never_made at {engine_folder}"


def test_a_second_folder_in_one_process(engine_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"this process has .* open, and the embedded engine opens one folder"):
        connect(f"chdb://{tmp_path}")


def test_a_second_process_gets_one_line_naming_folder_and_holder(engine_folder: Path, tmp_path: Path) -> None:
    ran = run_python(CONNECT, f"chdb://{engine_folder}", cwd=tmp_path)
    assert ran.stdout.startswith(
        f"StoreLockedError {engine_folder}: process {os.getpid()} has this database open, and the embedded engine"
    )
    assert "give another folder with --url" in ran.stdout
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "")
    assert issubclass(StoreLockedError, StoreError)


@pytest.mark.parametrize(
    "config",
    [
        "<html>not ClickHouse's</html",
        "<clickhouse><default_database>elsewhere</default_database></clickhouse>",
        "<clickhouse><path>{cwd}/stolen</path><timezone>Asia/Tokyo</timezone></clickhouse>",
    ],
)
def test_foreign_config_xml_in_working_directory_is_ignored(tmp_path: Path, config: str) -> None:
    (tmp_path / "config.xml").write_text(config.format(cwd=tmp_path))
    ran = run_python(CONNECT, "chdb://./data?database=default", cwd=tmp_path)
    assert (ran.stdout, ran.stderr) == ("default True\n", "")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["config.xml", "data"]


def test_folders_that_can_not_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        with pytest.raises(StoreError, match=f"can't be used as the database's folder: {reason}"):
            connect(f"chdb://{tmp_path}/{folder}")


class Refusing(BaseHTTPRequestHandler):
    """Answers every request as a server does that knows no such user."""

    def do_POST(self) -> None:
        body = (
            b"Code: 516. DB::Exception: u: Authentication failed: password is incorrect, or there is no user with such"
            b" name. (AUTHENTICATION_FAILED) (version 26.1.1.1 (official build))\n"
        )
        self.send_response(403)
        self.send_header("X-ClickHouse-Exception-Code", "516")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is http.server's
        """Keep quiet."""


@pytest.fixture
def refusing_port() -> Iterator[int]:
    with HTTPServer(("127.0.0.1", 0), Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def test_a_refused_user(refusing_port: int) -> None:
    with pytest.raises(StoreError) as raised:
        connect(f"clickhouse://u:hunter2@127.0.0.1:{refusing_port}/prism")
    assert str(raised.value).startswith(f"u@127.0.0.1:{refusing_port}: the server refuses this user and password")
    assert "hunter2" not in str(raised.value)


def test_a_server_that_does_not_speak_tls(refusing_port: int) -> None:
    with pytest.raises(StoreError, match=r"can't be reached: .*SSL") as raised:
        connect(f"clickhouses://u:hunter2@127.0.0.1:{refusing_port}/prism")
    assert "hunter2" not in str(raised.value)


def test_an_unreachable_server_prints_one_line(tmp_path: Path) -> None:
    ran = run_python(CONNECT, "clickhouse://u:hunter2@127.0.0.1:1/prism", cwd=tmp_path)
    assert ran.stdout.startswith("StoreError u@127.0.0.1:1: the ClickHouse server can't be reached: ")
    assert "Connection refused" in ran.stdout
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "")
