"""ClickHouse's clients work with the endpoint as they come, and so does curl."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import clickhouse_connect
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sqlalchemy
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from prism_ch.query.allowed import PARAMETERISED_VIEWS
from tests.serving import PASSWORD, OwnEndpoint
from tests.sweeps import swept

ROLES = ["operator", "reader", "alpha"]
FIVE_MILLION = "SELECT number AS n, number % 7 AS day, toString(number) AS text FROM numbers(5000000)"


def client(served: OwnEndpoint, user: str, **options: Any) -> Client:
    return clickhouse_connect.get_client(
        host="127.0.0.1", port=served.port, username=user, password=PASSWORD, database=served.database, **options
    )


@pytest.fixture(scope="module", params=["lz4", "zstd", "gzip", False])
def operator(served: OwnEndpoint, request: pytest.FixtureRequest) -> Iterator[Client]:
    with client(served, "operator", compress=request.param) as connected:
        yield connected


@pytest.mark.parametrize("role", ROLES)
def test_clickhouse_connect_reads(served: OwnEndpoint, role: str) -> None:
    with client(served, role) as connected:
        assert connected.ping()
        rows = connected.query("SELECT number, toString(number) FROM numbers(3)").result_rows
        assert rows == [(0, "0"), (1, "1"), (2, "2")]
        assert connected.query("SELECT {a:Int8}, {b:String}", parameters={"a": 5, "b": "it's"}).first_row == (5, "it's")
        empty = connected.query("SELECT 1 AS one, [toDateTime64(0, 3)] AS two WHERE 0")
        assert (empty.result_rows, empty.column_names) == ([], ("one", "two"))
        assert connected.query("SELECT job_id FROM jobs").column_names == ("job_id",)
        assert "steps" in {row[0] for row in connected.query("SHOW TABLES").result_rows}


def test_clickhouse_connect_writes(operator: Client) -> None:
    operator.command("CREATE TABLE written (a UInt64, b String, c DateTime64(9), d Array(Float64)) ENGINE = Memory")
    operator.insert("written", [[1, "x", 5, [0.5]], [2, "y", 6, []]], column_names=["a", "b", "c", "d"])
    frame = pd.DataFrame({"a": np.arange(100_000, dtype=np.uint64), "b": ["z"] * 100_000})
    operator.insert_df("written", frame)
    operator.insert_arrow("written", pa.table({"a": pa.array([7], pa.uint64()), "b": ["arrow"]}))
    assert operator.command("SELECT count() FROM written") == 100_003
    assert operator.query_df("SELECT b, count() AS n FROM written GROUP BY b ORDER BY b")["n"].tolist() == [
        1,
        1,
        1,
        100_000,
    ]
    operator.command("DROP TABLE written")


def test_clickhouse_connect_inserts_as_a_collector(served: OwnEndpoint) -> None:
    with client(served, "collector") as collector:
        collector.insert("flow_json_lines", [['{"of": "a collector"}']], column_names=["line"])
        names = [column[0] for column in collector.query("DESCRIBE TABLE flow_landing").result_rows]
        assert "src_addr" in names
        assert "received_at" not in names
        for statement in ("DESCRIBE flows", "DESCRIBE jobs_log", "DESCRIBE (SELECT 1)", "SELECT 1", "SHOW TABLES"):
            with pytest.raises(DatabaseError, match="ACCESS_DENIED"):
                collector.query(statement)


def test_clickhouse_connect_keeps_a_session(operator: Client) -> None:
    operator.command("CREATE TEMPORARY TABLE of_session (a UInt8)")
    operator.command("INSERT INTO of_session VALUES (3)")
    assert operator.query("SELECT a FROM of_session").first_row == (3,)
    operator.command("DROP TABLE of_session")


def test_clickhouse_connect_raises_the_engines_errors(operator: Client) -> None:
    with pytest.raises(DatabaseError, match=r"UNKNOWN_TABLE") as raised:
        operator.query("SELECT * FROM nowhere")
    assert raised.value.code == 60
    with pytest.raises(DatabaseError, match="far") as raised:
        operator.query("SELECT number, throwIf(number = 3000000, 'far') FROM numbers(4000000) SETTINGS max_threads = 1")


def test_clickhouse_connect_streams_five_million_rows(operator: Client) -> None:
    rows = total = 0
    with operator.query_column_block_stream(FIVE_MILLION) as stream:
        for numbers, _, _ in stream:
            rows += len(numbers)
            total += int(np.sum(numbers))
    assert (rows, total) == (5_000_000, 5_000_000 * 4_999_999 // 2)


@pytest.mark.parametrize("role", ["operator", "reader"])
def test_pandas_reads(served: OwnEndpoint, role: str) -> None:
    with client(served, role) as connected:
        frame = connected.query_df("SELECT number AS n, toDateTime(number, 'UTC') AS t FROM numbers(1000)")
        assert frame.shape == (1000, 2)
        assert frame["n"].sum() == 499_500
        table = connected.query_arrow("SELECT number AS n FROM numbers(1000)")
        assert table.column("n").to_pylist() == list(range(1000))


@pytest.mark.parametrize("role", ROLES)
def test_sqlalchemy_reads(served: OwnEndpoint, role: str) -> None:
    engine = sqlalchemy.create_engine(f"clickhousedb://{role}:{PASSWORD}@127.0.0.1:{served.port}/{served.database}")
    with engine.connect() as connection:
        found = connection.execute(sqlalchemy.text("SELECT number FROM numbers(:n)"), {"n": 3}).all()
        assert [row[0] for row in found] == [0, 1, 2]
        assert pd.read_sql(sqlalchemy.text("SELECT 1 AS one"), connection)["one"].tolist() == [1]
    engine.dispose()


@pytest.mark.parametrize("role", ROLES)
def test_sqlalchemy_inspects(served: OwnEndpoint, role: str) -> None:
    engine = sqlalchemy.create_engine(f"clickhousedb://{role}:{PASSWORD}@127.0.0.1:{served.port}/{served.database}")
    inspector = sqlalchemy.inspect(engine)
    assert inspector.default_schema_name == served.database
    assert served.database in inspector.get_schema_names()
    assert inspector.has_table("steps")
    assert inspector.has_table("steps", schema=served.database)
    assert not inspector.has_table("nowhere")
    assert inspector.has_table("flows_log") is (role != "alpha")
    assert "steps" in inspector.get_table_names(schema=served.database)
    assert ("flows" in inspector.get_view_names(schema=served.database)) is (role != "alpha")
    assert {"job_id", "step"} <= {column["name"] for column in inspector.get_columns("steps", served.database)}
    assert inspector.get_table_comment("steps", served.database)["text"]
    assert inspector.get_pk_constraint("steps", served.database)["constrained_columns"] == []
    steps = sqlalchemy.Table("steps", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        assert connection.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(steps)).scalar() == 0
    engine.dispose()


#: What Superset, DBeaver, Metabase and Power BI ask when they look at a database.
EXPLORERS = [
    "SELECT 1",
    "SHOW DATABASES",
    "SELECT currentDatabase()",
    "SELECT version()",
    "SELECT name FROM system.databases ORDER BY name",
    "SHOW TABLES FROM `served`",
    "SELECT name, database FROM system.tables WHERE database = 'served'",
    "SELECT name FROM system.tables WHERE engine LIKE '%View' AND database = 'served'",
    "SELECT * FROM `served`.`steps` LIMIT 100",
    "DESCRIBE TABLE `served`.`steps`",
    "SELECT * FROM (SELECT * FROM steps) AS virtual_table LIMIT 1000",
    (
        "SELECT toStartOfDay(toDateTime(`start_time`)) AS `__timestamp`, COUNT(*) AS `count` FROM `served`.`steps`"
        " WHERE `start_time` >= toDateTime('2026-01-01 00:00:00') AND `start_time` < toDateTime('2026-02-01 00:00:00')"
        " GROUP BY toStartOfDay(toDateTime(`start_time`)) ORDER BY `count` DESC LIMIT 10000"
    ),
    "SELECT schema_name, catalog_name FROM information_schema.schemata",
    "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE table_schema = 'served'",
    "SELECT column_name, data_type, is_nullable FROM INFORMATION_SCHEMA.COLUMNS WHERE TABLE_NAME = 'steps'",
    "SELECT table_name FROM information_schema.views",
    "SELECT database, name, engine, comment FROM system.tables WHERE database = 'served' AND name LIKE '%'",
    "SELECT database, table, name, type, default_kind, comment FROM system.columns WHERE database = 'served'",
    "SELECT name, alias_to FROM system.functions LIMIT 5",
    "SELECT name FROM system.data_type_families",
    "SELECT name FROM system.table_engines",
    "SELECT currentUser() AS user, timezone() AS timezone, version() AS version FORMAT RowBinaryWithNamesAndTypes",
    (
        "SELECT name as TABLE_NAME, engine as TABLE_TYPE, database as TABLE_SCHEM,comment as REMARKS, * FROM"
        " system.tables\nWHERE database = 'served' and name='steps'"
    ),
    "SELECT name, alias_to, case_insensitive FROM system.data_type_families",
    "SELECT name, comment, engine LIKE '%View' FROM system.tables WHERE is_temporary = 0 AND database = database()",
    "DESCRIBE TABLE served.steps FORMAT TabSeparatedWithNamesAndTypes",
    (
        "SELECT toStartOfInterval(toDateTime(`start_time`), INTERVAL 5 minute) AS `__timestamp`, `job_id` AS `job_id`,"
        " sum(`duration_s`) AS `SUM(duration_s)` FROM (SELECT * FROM served.steps) AS `virtual_table` WHERE `job_id` IN"
        " ('a', 'b') AND ((`duration_s` > 1)) GROUP BY `job_id`, toStartOfInterval(toDateTime(`start_time`),"
        " INTERVAL 5 minute) ORDER BY `SUM(duration_s)` DESC LIMIT 50000"
    ),
    "EXISTS TABLE served.steps",
    "EXISTS DATABASE served",
    "SELECT name FROM system.functions UNION ALL SELECT name FROM system.table_functions LIMIT 10000",
    "SELECT name FROM system.formats",
    "SELECT keyword FROM system.keywords",
    "SELECT constraint_name, column_name FROM information_schema.key_column_usage WHERE table_name = 'steps'",
    "SELECT table_name FROM INFORMATION_SCHEMA.REFERENTIAL_CONSTRAINTS",
    "SELECT index_name FROM information_schema.statistics",
    (
        "SELECT t.database AS TABLE_SCHEM, t.name AS TABLE_NAME, d.engine AS TYPE_SCHEM FROM system.tables AS t"
        " JOIN system.databases d ON system.tables.database = system.databases.name WHERE t.database LIKE '%'"
        " AND ((t.engine IN ('View')) OR (t.engine NOT IN ('Log') AND NOT t.engine LIKE 'System%'))"
    ),
    (
        "SELECT trim(c.1) AS COLUMN_NAME, CAST(c.2 AS Int16) AS KEY_SEQ FROM system.tables ARRAY JOIN"
        " arrayZip(splitByChar(',', primary_key), arrayEnumerate(splitByChar(',', primary_key))) AS c"
        " WHERE system.tables.primary_key <> '' AND system.tables.name ILIKE 'steps' ORDER BY COLUMN_NAME"
    ),
    (
        "SELECT name, attrs.c2::Nullable(Int32) AS PRECISION FROM system.data_type_families dt LEFT JOIN"
        " (SELECT * FROM VALUES (('Bool', 1), ('Int8', 3))) AS attrs ON (dt.name = attrs.c1) WHERE alias_to == ''"
    ),
    "SELECT toInt32(position(type, 'Nullable(') >= 1 ? 1 : 0) AS NULLABLE FROM system.columns WHERE table = 'steps'",
]


@pytest.mark.parametrize("role", ROLES)
def test_what_explorers_ask_is_answered(served: OwnEndpoint, role: str) -> None:
    for statement in EXPLORERS:
        answered = served.ask(statement, role, default_format="JSONCompact")
        assert answered.status == 200, (statement, answered.text)
        assert role != "alpha" or "flows_log" not in answered.text, statement
        assert role != "alpha" or "windows" not in answered.text, statement


@pytest.mark.parametrize("role", ["alpha", *swept("operator", "reader")])
def test_every_table_is_reflected_with_its_columns(served: OwnEndpoint, role: str) -> None:
    engine = sqlalchemy.create_engine(f"clickhousedb://{role}:{PASSWORD}@127.0.0.1:{served.port}/{served.database}")
    everything = sqlalchemy.MetaData()
    everything.reflect(engine, views=True)
    engine.dispose()
    tables = {
        name for (name,) in json.loads(served.ask("SHOW TABLES", role, default_format="JSONCompact").text)["data"]
    }
    assert tables <= everything.tables.keys()
    assert {"gpu_time", "steps"} <= tables
    assert {"tenant", "lost_gpu_s"} <= set(everything.tables["gpu_time"].columns.keys())


def test_views_with_parameters_are_described(served: OwnEndpoint) -> None:
    asked = "SELECT name, parameterized_view_parameters.1 FROM system.tables"
    asked += " WHERE database = currentDatabase() AND notEmpty(parameterized_view_parameters) ORDER BY name"
    views = json.loads(served.ask(asked, default_format="JSONCompact").text)["data"]
    assert [name for name, _ in views] == sorted(PARAMETERISED_VIEWS)
    for name, parameters in views:
        assert re.findall(r"(\w+) = ", PARAMETERISED_VIEWS[name]) == parameters
        for described in (
            f"DESCRIBE TABLE {name}",
            f"desc `{served.database}`.`{name}`",
            f"DESCRIBE {name} FORMAT TSV",
        ):
            answered = served.ask(described, "reader")
            assert answered.text.count("\n") > 3, answered.text


def test_a_reader_may_give_explain_a_format(served: OwnEndpoint) -> None:
    answered = served.ask("EXPLAIN SELECT job_id FROM steps FORMAT JSONCompact", "reader")
    assert json.loads(answered.text)["meta"] == [{"name": "explain", "type": "String"}]


def test_enumerations_are_text_to_pandas(served: OwnEndpoint) -> None:
    question = "SELECT CAST('DP', 'Enum8(\\'DP\\' = 1)') AS kind, number FROM numbers(2)"
    for role in ROLES:
        with client(served, role) as connected:
            assert connected.query_arrow(question).to_pandas()["kind"].tolist() == ["DP", "DP"]
        answered = served.ask(f"{question} FORMAT Parquet", role)
        frame = pd.read_parquet(io.BytesIO(answered.body))
        assert len(frame[frame.kind == "DP"]) == 2


def test_csv_tells_whether_it_has_a_header(served: OwnEndpoint) -> None:
    for role in ROLES:
        assert served.ask("SELECT 1 FORMAT CSV", role).headers["content-type"].endswith("header=absent")
        assert served.ask("SELECT 1 FORMAT CSVWithNames", role).headers["content-type"].endswith("header=present")


def test_an_error_is_compressed_as_asked_for(served: OwnEndpoint) -> None:
    accepting = {"Accept-Encoding": "gzip"}
    answered = served.ask("SELECT nothing", "reader", headers=accepting, enable_http_compression=1)
    assert answered.headers["content-encoding"] == "gzip"
    assert b"UNKNOWN_IDENTIFIER" in gzip.decompress(answered.body)
    assert "UNKNOWN_IDENTIFIER" in served.ask("SELECT nothing", "reader", headers=accepting).text


def test_an_insert_answers_as_a_statement_without_result(served: OwnEndpoint) -> None:
    served.ask("CREATE TABLE IF NOT EXISTS of_formats (a UInt8) ENGINE = Memory")
    for rows in (
        'JSONEachRow\n{"a": 1}',
        'JSON {"meta": [{"name": "a", "type": "UInt8"}], "data": [{"a": 1}]}',
        "CSV\n1",
    ):
        answered = served.ask(f"INSERT INTO of_formats FORMAT {rows}")
        assert (answered.status, answered.headers["content-type"][:5]) == (200, "text/"), answered.text


def test_curl_reads_and_writes(served: OwnEndpoint, tmp_path: Path) -> None:
    def curl(*arguments: str) -> str:
        url = f"http://127.0.0.1:{served.port}/"
        done = subprocess.run(
            ["curl", "-sS", "--user", f"operator:{PASSWORD}", *arguments, url], capture_output=True, check=True
        )
        return done.stdout.decode()

    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    assert curl("--data-binary", "SELECT 1 FORMAT CSV") == "1\n"
    assert curl("-G", "--data-urlencode", "query=SELECT {x:UInt8}", "--data-urlencode", "param_x=9") == "9\n"
    assert curl("--compressed", "--data-binary", "SELECT 2") == "2\n"
    curl("--data-binary", "CREATE TABLE curled (a UInt64) ENGINE = Memory")
    rows = tmp_path / "rows.csv"
    rows.write_text("INSERT INTO curled FORMAT CSV\n" + "\n".join(map(str, range(200_000))))
    curl("-H", "Transfer-Encoding: chunked", "--data-binary", f"@{rows}")
    assert curl("--data-binary", "SELECT count(), max(a) FROM curled") == "200000\t199999\n"
    assert "UNKNOWN_TABLE" in curl("--data-binary", "SELECT * FROM nowhere")
    curl("--data-binary", "DROP TABLE curled")


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where Node finds @clickhouse/client."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("Node.js and npm are not installed")
    folder = tmp_path_factory.mktemp("javascript")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "@clickhouse/client@1"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    if installed.returncode:
        pytest.skip(f"npm can't install @clickhouse/client: {installed.stderr.strip().splitlines()[-1:]}")
    return folder


@pytest.mark.parametrize("role", ROLES)
def test_the_javascript_client_works(served: OwnEndpoint, javascript: Path, role: str) -> None:
    script = javascript / "works.mjs"
    script.write_bytes((Path(__file__).parent / "http_client.mjs").read_bytes())
    environment = os.environ | {
        "PORT": str(served.port), "ROLE": role, "PASSWORD": PASSWORD, "DATABASE": served.database
    }  # fmt: skip
    done = subprocess.run(
        ["node", str(script)], capture_output=True, text=True, timeout=180, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    answer = json.loads(done.stdout)
    assert answer["ping"] is True
    assert answer["rows"] == [{"n": 0}, {"n": 1}, {"n": 2}]
    assert answer["parameters"] == [{"a": 5, "b": "it's"}]
    assert answer["streamed"] == 200_000
    assert answer["error"] == ("497" if role == "alpha" else "60")
    if role == "operator":
        assert answer["inserted"] == [{"number": 3, "s": 6}]
        assert answer["session"] == [{"a": 8}]
