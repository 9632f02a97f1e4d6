"""Answers to SQL from the real engine: right in every format, and nothing is ever written."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from prism_ch.errors import StoreError, UsageError
from prism_ch.query.answer import Answer, FileFormat, answer, answer_bytes, check_statement, run
from prism_ch.query.checked import CheckedStatement
from prism_ch.query.gate import SyntaxUsageError
from prism_ch.store.client import Store, connect

QUESTION = """
SELECT
    number AS n, toString(number) AS text, if(number = 1, NULL, number / 2) AS half,
    toDateTime64('2026-03-01 12:00:00.123456789', 9, 'UTC') AS time
FROM numbers(2)
"""


@pytest.fixture
def asked(store: Store, store_url: str) -> Iterator[Store]:
    """A second connection, as the command opens one."""
    assert store.embedded
    with connect(store_url) as asked:
        yield asked


def test_text_is_as_clickhouse_prints_it(asked: Store) -> None:
    assert answer(asked, QUESTION) == Answer(
        names=("n", "text", "half", "time"),
        types=("UInt64", "String", "Nullable(Float64)", "DateTime64(9, 'UTC')"),
        rows=(
            ("0", "0", "0", "2026-03-01 12:00:00.123456789"),
            ("1", "1", None, "2026-03-01 12:00:00.123456789"),
        ),
    )


def test_csv_has_a_header(asked: Store) -> None:
    lines = answer_bytes(asked, QUESTION, "csv").decode().splitlines()
    assert lines == [
        '"n","text","half","time"',
        '0,"0",0,"2026-03-01 12:00:00.123456789"',
        '1,"1",\\N,"2026-03-01 12:00:00.123456789"',
    ]


def test_json_is_an_object_a_line(asked: Store) -> None:
    first, second = map(json.loads, answer_bytes(asked, QUESTION, "json").decode().splitlines())
    assert first == {"n": 0, "text": "0", "half": 0, "time": "2026-03-01 12:00:00.123456789"}
    assert second["half"] is None


@pytest.mark.parametrize("file_format", ["arrow", "parquet"])
def test_files_hold_the_same_table(asked: Store, file_format: FileFormat) -> None:
    content = io.BytesIO(answer_bytes(asked, QUESTION, file_format))
    table = pa.ipc.open_file(content).read_all() if file_format == "arrow" else pa.parquet.read_table(content)
    assert table.column_names == ["n", "text", "half", "time"]
    assert table["n"].to_pylist() == [0, 1]
    assert table["half"].to_pylist() == [0.0, None]
    assert table["time"].cast(pa.int64()).to_pylist() == [1_772_366_400_123_456_789] * 2


@pytest.mark.parametrize(
    "statement", ["SHOW TABLES LIKE 'steps'", "DESCRIBE steps", "EXPLAIN SELECT count() FROM steps", "SELECT 1 WHERE 0"]
)
def test_every_kind_of_reading_statement_is_answered(asked: Store, statement: str) -> None:
    found = answer(asked, statement)
    assert len(found.names) == len(found.types) > 0
    assert (len(found.rows) > 0) is ("WHERE 0" not in statement)


def test_the_engine_refuses_writing_even_without_the_gate(asked: Store) -> None:
    settings = check_statement(asked, "SELECT 1").settings
    with pytest.raises(StoreError, match="readonly mode"):
        run(
            asked,
            CheckedStatement("CREATE TABLE t (n UInt8) ENGINE = Memory AS SELECT 1 AS n", settings, None, None),
            "CSV",
        )


def test_the_gate_stands_in_front_of_every_format(asked: Store) -> None:
    for file_format in ("csv", "json", "arrow", "parquet"):
        with pytest.raises(UsageError):
            answer_bytes(asked, "DROP TABLE schema_migrations", file_format)
    with pytest.raises(UsageError):
        answer(asked, "SELECT * FROM file('/etc/hostname', 'LineAsString')")
    assert answer(asked, "SELECT count() > 0 AS there FROM schema_migrations").rows == (("1",),)


def test_a_mistake_is_the_engines_own_words_on_one_line(asked: Store) -> None:
    with pytest.raises(StoreError, match="nowhere") as error:
        answer(asked, "SELECT nowhere FROM steps")
    assert "\n" not in str(error.value)


def test_lost_connection_is_no_syntax_error(asked: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise StoreError("the ClickHouse server can't be reached")

    monkeypatch.setattr(asked, "raw", refuse)
    with pytest.raises(StoreError, match="can't be reached"):
        answer(asked, "SELECT 1")


@pytest.mark.parametrize("sql", ["SELECT 1 FRM x", "SELECT (1"])
def test_unreadable_statement_is_syntax_error(asked: Store, sql: str) -> None:
    with pytest.raises(SyntaxUsageError, match=r"^the statement can't be read: "):
        answer(asked, sql)


@pytest.mark.parametrize(
    "way_in", ["SELECT * FROM `{}`", "SELECT * FROM default.`{}`", "SELECT 'x' IN `{}`", "SELECT file('{}')"]
)
def test_host_files_stay_out_of_reach(asked: Store, tmp_path: Path, way_in: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("hush\n", encoding="utf-8")
    with pytest.raises(UsageError):
        answer(asked, way_in.format(secret))
