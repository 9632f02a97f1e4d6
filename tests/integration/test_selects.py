"""What ClickHouse's documentation teaches of SELECT passes the gate, and what can't be looked into does not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import cycle, islice, product
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from prism_ch.errors import StoreError, UsageError
from prism_ch.query.answer import answer, check_statement, run
from prism_ch.query.gate import SyntaxUsageError
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.sweeps import swept
from tests.two_tenants import ALPHA, fill

SELECTS = [
    line
    for line in (Path(__file__).parents[1] / "data/selects.sql").read_text(encoding="utf-8").splitlines()
    if not line.startswith("--")
]


@pytest.fixture(scope="module")
def filled(engine_folder: Path) -> Iterator[Store]:
    with connect(f"chdb://{engine_folder}?database=selects") as store:
        migrate(store)
        fill(store)
        yield store
        store.command("DROP DATABASE selects SYNC", use_database=False)


@pytest.mark.parametrize("tenant", [ALPHA.name, *swept(None)])
def test_no_select_is_refused_for_its_syntax(filled: Store, tenant: str | None) -> None:
    for line in SELECTS:
        sql = line.replace("{database}", filled.database)
        checked = check_statement(filled, sql, tenant=tenant)
        run(filled, checked, checked.format or "CSV")


def documented(store: Store) -> Iterator[str]:
    """Yield the SELECTs in the documentation that the engine holds of itself, as far as it can read them."""
    named = store.rows(
        "SELECT table, name FROM system.columns WHERE database = 'system' AND type = 'String'"
        " AND name IN ('description', 'examples', 'syntax') AND table NOT IN ('columns', 'errors', 'events', 'metrics')"
    )
    texts = {text for table, name in named for (text,) in store.rows(f"SELECT {name} FROM system.{table}")}  # noqa: S608
    blocks = (block for text in texts for block in re.findall(r"```\s*sql[^\n]*\n(.*?)```", text, re.DOTALL))
    pieces = {piece.strip() for block in blocks for piece in _STATEMENT.findall(block)}
    selects = sorted(piece for piece in pieces if re.match(r"(?:SELECT|WITH)\s", piece, re.IGNORECASE))
    for first in range(0, len(selects), 100):
        some = selects[first : first + 100]
        read = store.rows(
            "SELECT arrayJoin({texts:Array(String)}) AS text WHERE notEmpty(formatQueryOrNull(text))",
            {"texts": some},
        )
        yield from (text for (text,) in read)


_STATEMENT = re.compile(r"(?:[^;'\"-]|'(?:[^'\\]|\\.|'')*'|\"[^\"]*\"|--[^\n]*|-)+")


@pytest.mark.parametrize("every", [4, *swept(1)])
def test_no_documented_select_is_refused_for_its_syntax(filled: Store, every: int) -> None:
    """A tenant's statements are looked into as all others are, and further."""
    selects = list(documented(filled))
    assert len(selects) > 2000
    refused = []
    for sql in selects[::every]:
        try:
            check_statement(filled, sql, tenant=ALPHA.name)
        except SyntaxUsageError as error:
            refused.append((sql, str(error)))
        except (StoreError, UsageError):
            pass  # a function, table, setting or format that is not offered, or not without another setting
    assert not refused


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT 1 AS "jobs/x", job_id FROM "jobs/x"',
        'SELECT 1 AS "f.csv", 2 FROM jobs, "f.csv"',
        'SELECT job_id IN ("etc/passwd") FROM jobs',
        'SELECT uniq(1, 2, 3) AS "f/x" FROM jobs JOIN "f/x" ON 1',
        'WITH uniq(1, 2, 3) AS "f/x" SELECT 1 FROM jobs WHERE job_id IN "f/x"',
        'SELECT "f/x" AS y, uniq(1, 2, 3) FROM jobs, "f/x"',
        'SELECT uniq(1, 2, 3) AS a FROM (SELECT 1 AS "f/x") AS b, "f/x" AS c',
        "SELECT uniq(1, 2, 3) AS “f/x” FROM jobs, “f/x”",
        "SELECT 1 FROM “/etc/passwd”",
        "SELECT file(\u2018/etc/passwd\u2019)",
        "SELECT 1\u00a0FROM\u00a0file(1)",
        "SELECT\u20281 INTO\u2028OUTFILE\u2028'x'",
    ],
)
@pytest.mark.parametrize("tenant", [None, ALPHA.name])
def test_odd_names_and_letters_reach_nothing_else(filled: Store, sql: str, tenant: str | None) -> None:
    with pytest.raises(UsageError):
        check_statement(filled, sql, tenant=tenant)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT uniq(1, 2, 3) FROM steps_log",
        "SELECT uniq(1, 2, 3) FROM jobs WHERE job_id IN steps_log",
        "SELECT uniq(1, 2, 3) FROM jobs WHERE job_id IN (steps_log)",
        "SELECT uniq(1, 2, 3), job_id GLOBAL NOT IN steps_log FROM jobs",
        "SELECT COLUMNS('step') APPLY(x -> (SELECT count() FROM steps_log)) FROM steps",
        "SELECT COLUMNS('step') APPLY(x -> x IN (steps_log)) FROM steps",
        "SELECT COLUMNS('step') APPLY(quantile(0.9)) FROM (SELECT * FROM steps_log)",
        "WITH steps_log AS (SELECT 1 AS a) SELECT uniq(1, 2, 3) FROM steps_log",
        "SELECT uniq(1, 2, 3) FROM unknown",
        "SELECT uniq(1, 2, 3) FROM default.jobs",
        "SELECT uniq(1, 2, 3) FROM file('/etc/passwd')",
        "SELECT uniq(1, 2, 3), file('/etc/passwd')",
        "SELECT uniq(1, 2, 3) FROM merge('.*')",
        "SELECT uniq(1, 2, 3) FROM jobs INTO OUTFILE 'x'",
        "SELECT uniq(1, 2, 3) FROM (SELECT 1 SETTINGS readonly = 0)",
        "SELECT uniq(1, 2, 3) FROM jobs PREWHERE 1",
        "SELECT uniq(1, 2, 3) AS `a\nTableIdentifier jobs` FROM jobs",
        "FROM steps_log SELECT step",
        "SELECT TOP 1 * FROM steps_log",
        "INSERT INTO jobs SELECT uniq(1, 2, 3)",
        "SELECT $$a$$ FROM url('http://x')",
        "EXPLAIN SELECT uniq(1, 2, 3) FROM jobs",
    ],
)
def test_the_engines_tree_opens_nothing_to_a_tenant(filled: Store, sql: str) -> None:
    with pytest.raises(UsageError):
        check_statement(filled, sql, tenant=ALPHA.name)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count() FROM steps AS s JOIN jobs AS j ON s.job_id IN (j.job_id)",
        "SELECT count() FROM steps AS s WHERE s.step NOT IN (s.step) OR s.job_id IN s.job_id",
        "SELECT NULL IN t.a, 1 NOT IN (t.a), t.a IN t.a FROM (SELECT CAST(NULL, 'Nullable(UInt8)') AS a) AS t",
        "SELECT 1 IN t.a, 3 IN (t.b) FROM (SELECT materialize([1, 2]) AS a, (3, 4) AS b) AS t",
        "WITH t AS (SELECT 1 AS a) SELECT (1, 2) AS ids, 1 IN ids, 1 IN t, 3 IN (ids) FROM t",
    ],
)
def test_a_column_after_in_is_that_column(filled: Store, sql: str) -> None:
    assert run(filled, check_statement(filled, sql), "TSV") == filled.raw(sql, fmt="TSV")


@pytest.fixture
def notes(filled: Store) -> Iterator[list[str]]:
    """Make a table that belongs to no tenant; yield how it could be named."""
    filled.command("CREATE DATABASE IF NOT EXISTS other", use_database=False)
    for name in ("notes", "other.notes"):
        filled.command(f"CREATE OR REPLACE TABLE {name} ENGINE = Memory AS SELECT 'bravo-job' AS text")
    own = filled.database
    yield ["notes", '"notes"', "j.notes", f"{own}.notes", f"`{own}`.`notes`", "other.notes", "`other`.notes"]
    filled.command("DROP TABLE notes")
    filled.command("DROP DATABASE other SYNC", use_database=False)


@pytest.mark.parametrize("tenant", [None, ALPHA.name])
def test_a_name_after_in_reaches_no_table_of_others(filled: Store, notes: list[str], tenant: str | None) -> None:
    own = filled.database
    # Without a tenant all tables of the own database may be read.
    names = [name for name in notes if tenant is not None or name.startswith(("j", "other", "`other"))]
    written = product(names, ("{}", "({})", "(({}))", "( ( ( {} ) ) )", "(/**/{})"), ("IN", "GLOBAL NOT IN"))
    # Each name is written in each way beside some of all that may stand around it, and meets all of that.
    around = cycle(product(("", ", uniq(1, 2, 3)", ", 1 IN (j.steps)"), ("j", own, "notes", "other")))
    texts = [
        f"SELECT 'bravo-job' {word} {brackets.format(name)}{more} FROM jobs AS {alias}"  # noqa: S608 - of this test
        for name, brackets, word in written
        for more, alias in islice(around, 5)
    ]
    for text in texts:
        with pytest.raises((StoreError, UsageError)):  # noqa: PT012 - whichever of both refuses it
            run(filled, check_statement(filled, text, tenant=tenant), "TSV")
            pytest.fail(text)


def test_a_parameter_is_bound_where_sqlglot_can_not_parse(filled: Store) -> None:
    found = answer(filled, "SELECT uniq(1, 2, 3), {a:String} AS a, {b:UInt8}", parameters={"a": "NULL", "b": 7})
    assert found.rows == (("1", "NULL", "7"),)


@pytest.mark.parametrize("engine_format", ["Arrow", "ArrowStream", "Parquet"])
def test_enumerations_are_text_in_files(filled: Store, engine_format: str) -> None:
    sql = (
        "SELECT kind, [kind] AS several, map('k', kind) AS m, job_id, number"
        " FROM pairs, numbers(3) AS n ORDER BY number DESC"
    )
    body = run(filled, check_statement(filled, sql, settings={"limit": "2"}), engine_format)
    table = {
        "Arrow": lambda: pa.ipc.open_file(body).read_all(),
        "ArrowStream": lambda: pa.ipc.open_stream(body).read_all(),
        "Parquet": lambda: pa.parquet.read_table(pa.BufferReader(body)),
    }[engine_format]()
    frame = table.to_pandas()
    assert list(frame.columns) == ["kind", "several", "m", "job_id", "number"]
    assert len(frame[frame.kind == "DP"]) == 2
    assert table["several"].to_pylist() == [["DP"]] * 2
    assert table["m"].to_pylist() == [[("k", "DP")]] * 2
    assert table["number"].to_pylist() == [2, 2]
