"""Hostile statements, written and generated: each is refused, or shows a tenant its own rows and no file of the host."""

# ruff: noqa: E501 - statements are not broken

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_ch.errors import PrismError
from prism_ch.query.answer import check_statement, run
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.two_tenants import ALPHA, BRAVO, fill

SECRET = "host-secret-canary"  # noqa: S105 - the contents of a file that no statement may show

# What stands where a table stands; {secret} and {written} are paths, {db} the database.
TABLES = [
    "flows", "flows_log", "windows", "exporters", "jobs_log", "steps_log", "revisions", "published", "topology_log", "health",
    "{db}.flows_log", "{db}.jobs_log", "`{db}`.`steps_log`", '"{db}"."steps_log"', "{db} . steps_log", "jobs_log FINAL",
    "steps_log AS steps", "steps_log steps", "(steps_log)", "((SELECT * FROM steps_log))",
    "system.parts", "system.parts_columns", "system.processes", "system.query_log", "system.users", "system.grants",
    "system.row_policies", "system.named_collections", "system.settings", "system.merges", "system.mutations",
    "system.errors", "system.dictionaries", "system.disks", "system.tables", "system.columns", "SYSTEM.parts",
    "information_schema.tables", "INFORMATION_SCHEMA.TABLES", "default.jobs", "default.`{secret}`", "`{secret}`",
    "'{secret}'", "{db}.jobs.tenant", "a.b.c.d",
    "file('{secret}', 'LineAsString')", "FILE('{secret}')", "fileCluster('c', '{secret}')", "`file`('{secret}')",
    "url('file://{secret}', 'LineAsString')", "url('http://127.0.0.1:1/', 'CSV')", "urlCluster('c', 'http://127.0.0.1:1/')",
    "s3('http://127.0.0.1:1/x')", "s3Cluster('c', 'http://127.0.0.1:1/x')", "gcs('http://127.0.0.1:1/x')",
    "hdfs('hdfs://127.0.0.1:1/x', 'CSV')", "azureBlobStorage('x', 'y', 'z')", "iceberg('http://127.0.0.1:1/')",
    "icebergLocal('{secret}')", "deltaLakeLocal('{secret}')", "paimonLocal('{secret}')", "hudi('http://127.0.0.1:1/')",
    "remote('127.0.0.1', '{db}', 'steps_log')", "remoteSecure('127.0.0.1', {db}.steps_log)",
    "cluster('default', {db}.steps_log)", "clusterAllReplicas('default', {db}, steps_log)",
    "mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')", "postgresql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
    "mongodb('127.0.0.1:1', 'a', 'b', 'c', 'd')", "redis('127.0.0.1:1', 'k', 'k String')", "sqlite('{secret}', 't')",
    "odbc('DSN=x', 'a', 'b')", "jdbc('x', 'a', 'b')", "executable('cat {secret}', 'LineAsString', 'x String')",
    "python('x')", "input('x String')", "filesystem('{secret}')", "fuzzJSON('{secret}')", "eval('SELECT 1')",
    "merge('{db}', '.*_log')", "merge('.*_log')", "Merge(REGEXP('.*'), 'steps_log')", "loop({db}, steps_log)",
    "mergeTreeIndex('{db}', 'steps_log')", "mergeTreeProjection('{db}', 'steps_log', 'p')",
    "mergeTreeAnalyzeIndexes('{db}', 'steps_log')", "mergeTreeTextIndex('{db}', 'steps_log', 'i')",
    "dictionary('{db}.d')", "view(SELECT * FROM steps_log)", "viewIfPermitted(SELECT * FROM steps_log ELSE null('x Int8'))",
    "viewExplain('EXPLAIN', '', (SELECT * FROM steps_log))", "generateRandom('x String')", "null('x Int8')",
    "format(LineAsString, '{secret}')", "timeSeriesData('{db}', 't')", "prometheusQuery('{db}', 't', 'up', now())",
    "pair_traffic(from_time = '2026-01-01', to_time = '2040-01-01', points = 9)",
    "switch_traffic(from_time = '2026-01-01', to_time = '2040-01-01', points = 9)",
    "{{t:Identifier}}", "steps, steps_log", "steps JOIN steps_log USING (job_id)", "steps CROSS JOIN steps_log",
    "steps ANY LEFT JOIN {db}.jobs_log AS j USING (job_id)", "steps PREWHERE tenant = 'br' || 'avo'", "steps SAMPLE 1 / 2",
]  # fmt: skip

# What stands where a value stands.
VALUES = [
    "file('{secret}')", "`file`('{secret}')", "\"file\"('{secret}')", "File('{secret}')", "file/**/('{secret}')",
    "arrayMap(file, ['{secret}'])", "arrayMap(`file`, ['{secret}'])", "arrayMap(x -> file(x), ['{secret}'])",
    "arrayFirst(file, ['{secret}'])", "arrayFold(file, ['{secret}'], '')", "mapApply(file, map('a', '{secret}'))",
    "catboostEvaluate('{secret}', 1)", "joinGet('{db}.steps_log', 'tenant', 1)", "joinGetOrNull('{db}.x', 'y', 1)",
    "dictGet('{db}.d', 'tenant', 1)", "dictGetOrDefault('{db}.d', 'a', 1, 2)", "dictHas('{db}.d', 1)",
    "getSetting('additional_table_filters')", "getServerSetting('max_connections')", "getMacro('x')", "hostName()",
    "FQDN()", "currentUser()", "currentRoles()", "serverUUID()", "filesystemAvailable()", "tcpPort()", "uptime()",
    "getClientHTTPHeader('Authorization')", "queryID()", "connectionId()", "showCertificate()", "user()", "sleep(1)",
    "sleepEachRow(1)", "throwIf(1)", "hasColumnInTable('{db}', 'steps_log', 'tenant')", "globalIn(1, steps_log)",
    "in('br' || 'avo', jobs_log)", "`in`('br' || 'avo', jobs_log)", "notIn(1, {db}.jobs_log)", "addressToLine(1)", "demangle('x')",
    "aiGenerate('x')", "executable('cat {secret}')", "evalMLMethod(1)", "formatRow('CSV', 1)", "blockNumber()",
    "rowNumberInAllBlocks()", "runningDifference(1)", "neighbor(1, 1)", "mergeTreePartInfo('x')", "zookeeperSessionUptime()",
    "transactionID()", "normalizeQuery('x')", "obfuscateQuery('x')", "chdb()", "initialQueryID()", "globalVariable('x')",
    "(SELECT any(tenant) FROM steps_log)", "(SELECT groupArray(tenant) FROM {db}.jobs_log)",
    "EXISTS(SELECT 1 FROM jobs_log WHERE tenant = 'br' || 'avo')", "'br' || 'avo' IN (SELECT tenant FROM jobs_log)",
    "'br' || 'avo' IN jobs_log", "'br' || 'avo' IN (jobs_log)", "('x', 1) NOT IN {db}.jobs_log", "1 GLOBAL IN ({db}.steps_log)",
    "(SELECT count() FROM system.parts)", "(SELECT sum(rows) FROM system.parts WHERE table = 'steps_log')",
    "(WITH x AS (SELECT * FROM jobs_log) SELECT count() FROM x)", "(SELECT 1 FROM steps SETTINGS max_threads = 1)",
    "{{f:Identifier}}", "arrayMap({{f:Identifier}}, ['{secret}'])", "untuple((SELECT any(tuple(*)) FROM jobs_log))",
    "$$x$$", "N'x'", "\u2018x\u2019", "x'41'", "1\u2212file('{secret}')", "_part", "_table", "_database", "_part_offset",
]  # fmt: skip

# Ways to say it.
AROUND_TABLE = [
    "SELECT * FROM {x}",
    "SELECT count() FROM {x}",
    "select/**/count(*)from{x}".replace("from", "from "),
    "SELECT * FROM (SELECT * FROM (SELECT * FROM {x}))",
    "WITH steps AS (SELECT * FROM {x}) SELECT * FROM steps",
    "WITH (SELECT count() FROM {x}) AS n SELECT n FROM jobs",
    "SELECT 1 FROM jobs WHERE 1 IN (SELECT count() FROM {x})",
    "SELECT * FROM jobs AS j, {x}",
    "SELECT 'x' FROM jobs UNION ALL SELECT toString(count()) FROM {x}",
    "SELECT * FROM jobs WHERE job_id IN (SELECT job_id FROM jobs WHERE 0 < (SELECT count() FROM {x}))",
    "DESCRIBE {x}",
    "DESCRIBE TABLE {x}",
    "SHOW CREATE TABLE {x}",
    "SHOW COLUMNS FROM {x}",
    "EXPLAIN SELECT * FROM {x}",
    "EXPLAIN ESTIMATE SELECT * FROM {x}",
    "SELECT 1 /* /* */ , (SELECT count() FROM {x}) -- */\n, 2",
    "SELECT 1 FROM jobs -- \n UNION ALL SELECT count() FROM {x}",
    "\ufeffSELECT * FROM {x}",
]
AROUND_VALUE = [
    "SELECT {x}",
    "SELECT {x} FROM jobs",
    "SELECT 1 FROM steps WHERE toString({x}) != ''",
    "SELECT count() FROM jobs GROUP BY {x}",
    "SELECT 1 FROM jobs ORDER BY {x}",
    "WITH {x} AS v SELECT v",
    "SELECT if(1, {x}, {x})",
    "SELECT arrayMap(y -> {x}, [1])",
    "EXPLAIN SELECT {x}",
    "SELECT 1 /* /* */ , {x} -- */\n, 2",
]
WHOLE = [
    "SELECT 1; SELECT * FROM jobs_log", "SELECT 1;DROP TABLE jobs", "DROP TABLE jobs", "TRUNCATE jobs_log", "SET readonly = 0",
    "SELECT * FROM jobs INTO OUTFILE '{written}'", "SELECT * FROM jobs INTO OUTFILE '{written}' FORMAT CSV",
    "SELECT 1 FORMAT CSV INTO OUTFILE '{written}'", "SHOW TABLES INTO OUTFILE '{written}'",
    "SELECT * FROM jobs INTO/**/OUTFILE '{written}'", "EXPLAIN SELECT 1 INTO OUTFILE '{written}'",
    "INSERT INTO FUNCTION file('{written}') SELECT 1", "INSERT INTO jobs_log (job_id) VALUES ('x')",
    "CREATE TABLE x ENGINE = File(CSV, '{written}') AS SELECT 1", "CREATE VIEW x AS SELECT 1", "ATTACH TABLE x",
    "BACKUP TABLE jobs_log TO File('{written}')", "RESTORE TABLE jobs_log FROM File('{written}')", "SYSTEM FLUSH LOGS",
    "GRANT ALL ON *.* TO x", "CREATE USER x", "ALTER TABLE jobs_log UPDATE tenant = 'alpha' WHERE 1", "OPTIMIZE TABLE steps_log",
    "KILL QUERY WHERE 1", "EXCHANGE TABLES jobs_log AND steps_log", "RENAME TABLE jobs_log TO x", "USE default",
    "SELECT * FROM jobs SETTINGS additional_table_filters = {{}}", "SELECT * FROM steps SETTINGS readonly = 0",
    "SELECT * FROM jobs SETTINGS query_plan_merge_filters = 1", "SELECT 1 SETTINGS format_schema = '{secret}:x'",
    "SELECT 1 SETTINGS output_format_schema = '{written}'", "SELECT 1 SETTINGS max_threads = 1, readonly = 0",
    "SELECT 1 FORMAT Template", "SELECT 1 FORMAT Protobuf", "SELECT 1 FORMAT CustomSeparated", "SELECT 1 FORMAT Avro",
    "SELECT * APPLY(file) FROM (SELECT '{secret}' AS x)", "SELECT * APPLY file FROM (SELECT '{secret}' AS x)",
    "SELECT COLUMNS('x') APPLY(file) FROM (SELECT '{secret}' AS x)", "SELECT * APPLY(x -> file(x)) FROM (SELECT '{secret}')",
    "SELECT * REPLACE(file('{secret}') AS job_id) FROM jobs", "SELECT x.file FROM (SELECT '{secret}' AS file) AS x",
    "WITH file AS (SELECT 1) SELECT arrayMap(file, ['{secret}']) FROM file", "WITH x -> file(x) AS f SELECT f('{secret}')",
    "WITH jobs_log AS (SELECT 1) SELECT * FROM (SELECT * FROM jobs_log)",
    "WITH flows AS (SELECT * FROM flows) SELECT * FROM flows", "WITH RECURSIVE r AS (SELECT * FROM r) SELECT * FROM r",
    "WITH x AS (SELECT 1) SELECT * FROM y, x", "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
    "SELECT tenant, count() FROM {db}.jobs GROUP BY tenant WITH TOTALS", "SELECT * FROM jobs FINAL",
    "SELECT * FROM jobs WHERE tenant = 'br' || 'avo' OR 1 = 1", "SELECT * FROM jobs WHERE 1 UNION ALL SELECT * FROM jobs",
    "SELECT * FROM steps WHERE toUInt8(tenant) = 0", "SELECT 1 / (tenant = 'br' || 'avo') FROM jobs",
    "SELECT uniq(tenant), max(step), sum(duration_s) FROM steps", "SELECT max(rows) FROM system.tables",
    "SELECT total_rows, total_bytes FROM system.tables", "SELECT data_compressed_bytes FROM system.columns",
    "SHOW DATABASES", "SHOW PROCESSLIST", "SHOW SETTINGS LIKE 'additional%'", "SHOW GRANTS", "SHOW USERS", "SHOW POLICIES",
    "SHOW TABLES FROM system", "SHOW TABLES FROM default", "SHOW INDEXES FROM steps_log", "EXISTS TABLE jobs_log", "CHECK TABLE jobs_log",
    "SELECT '\x00'", "SELECT 1\x00; DROP TABLE jobs", "SELECT 'a' || \"b\" FROM jobs_log", "((((", "SELECT",
    "WITH", "EXPLAIN", "SHOW", "DESCRIBE", ";", "--", "/*", "SELECT /*", "SELECT 'a", "SELECT `a", "SELECT 1 --\x0b, 2", "(SELECT 1",
    "SELECT " + "(" * 3000 + "1" + ")" * 3000, "SELECT " + "[" * 3000 + "]" * 3000, "SELECT " + "f(" * 3000 + ")" * 3000,
    "SELECT * FROM " + "(SELECT * FROM " * 500 + "jobs_log" + ")" * 500, "SELECT " + "-" * 2001 + "1", "SELECT " + "NOT " * 3000 + "1",
    "SELECT " + "CASE WHEN 1 THEN " * 800 + "1" + " END" * 800, "SELECT 1" + " UNION ALL SELECT 1" * 1000, "SELECT '" + "x" * 300_000 + "'",
]  # fmt: skip
HOSTILE = [
    *(
        AROUND_TABLE[(n + m) % len(AROUND_TABLE)].replace("{x}", table)
        for n, table in enumerate(TABLES)
        for m in range(8)
    ),
    *(
        AROUND_VALUE[(n + m) % len(AROUND_VALUE)].replace("{x}", value)
        for n, value in enumerate(VALUES)
        for m in range(5)
    ),
    *WHOLE,
]


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared(engine_folder: Path) -> Iterator[Store]:
    """A database in which two tenants have rows."""
    with connect(f"chdb://{engine_folder}?database=hostile") as store:
        migrate(store)
        fill(store)
        yield store
        store.command("DROP DATABASE hostile SYNC", use_database=False)


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of the host with something to hide."""
    path = tmp_path_factory.mktemp("host") / "secret"
    path.write_text(SECRET)
    return path


def told(store: Store, sql: str, tenant: str | None) -> str | None:
    """Return what a statement shows, also by way of an error of the engine; None where the gate refuses it."""
    asked = None
    try:
        asked = check_statement(store, sql, tenant=tenant)
        return run(store, asked, asked.format or "JSONEachRow").decode(errors="replace")
    except PrismError as error:
        refusal = str(error)
    assert "\n" not in refusal, sql
    return None if asked is None else refusal


def spelled(sql: str, store: Store, secret: Path) -> str:
    """Fill in where things are."""
    places = {"{db}": store.database, "{secret}": str(secret), "{written}": str(secret.with_name("written"))}
    for place, path in places.items():
        sql = sql.replace(place, path)
    return sql.replace("{{", "{").replace("}}", "}")


def test_there_are_enough_of_them() -> None:
    assert len(set(HOSTILE)) >= 1000


def test_a_tenant_gets_its_own_rows_or_nothing(shared: Store, secret: Path) -> None:
    passed = 0
    for hostile in HOSTILE:
        sql = spelled(hostile, shared, secret)
        shown = told(shared, sql, ALPHA.name)
        if shown is not None:
            passed += 1
            for mark in (*BRAVO.marks, SECRET):
                assert mark not in shown, (sql[:300], shown[:300])
    assert not secret.with_name("written").exists()
    assert passed < len(HOSTILE) / 5


def test_an_operator_reaches_nothing_of_the_host(shared: Store, secret: Path) -> None:
    for hostile in HOSTILE:
        sql = spelled(hostile, shared, secret)
        # An operator may read all that is in the database, so of what passes only what names the host can do harm.
        if str(secret.parent) in sql:
            shown = told(shared, sql, None)
            assert shown is None or SECRET not in shown, sql[:300]
        else:
            with suppress(PrismError):
                check_statement(shared, sql)
    assert not secret.with_name("written").exists()
    assert shared.scalar("SELECT uniqExact(tenant) FROM jobs") == 2


# What could count, or be made to count, rows that are hidden.
COUNTING = [
    "SELECT count() FROM jobs", "SELECT uniqExact(tenant), count() FROM steps", "SELECT count() FROM jobs AS a, jobs AS b",
    "SELECT (SELECT count() FROM jobs AS b WHERE b.tenant != a.tenant) FROM jobs AS a", "SELECT count() FROM topology",
    "SELECT count() FROM jobs AS a ASOF JOIN steps AS b ON a.job_id = b.job_id AND a.first_seen < b.start_time",
    "SELECT count() FROM jobs FULL JOIN (SELECT * FROM diagnoses) AS d ON 1 = 1", "SELECT count() FROM steps SAMPLE 1 / 2",
    "SELECT count() FROM steps AS a LEFT ANTI JOIN jobs AS b ON a.job_id = b.job_id", "SELECT count() FROM steps FINAL",
    "SELECT count() FROM jobs WHERE job_id NOT IN (SELECT job_id FROM steps)", "SELECT countIf(tenant != 'alpha') FROM jobs",
    "SELECT count() FROM jobs WHERE (tenant) GLOBAL NOT IN (SELECT 'alpha')", "SELECT tenant, count() FROM jobs GROUP BY ALL WITH CUBE",
    "SELECT count() FROM jobs QUALIFY row_number() OVER () < 100", "SELECT step FROM steps ORDER BY 1 LIMIT 1 WITH TIES",
    "SELECT max(row_number) FROM (SELECT row_number() OVER () AS row_number FROM steps)", "SELECT * FROM tenant_summary",
    "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t WHERE n < (SELECT count() FROM jobs)) SELECT max(n) FROM t",
    "SELECT sum(total_rows), sum(total_bytes) FROM system.tables", "SELECT sum(data_compressed_bytes), sum(marks_bytes) FROM system.columns",
    "WITH jobs AS (SELECT * FROM jobs) SELECT count() FROM jobs", "SELECT count() FROM `jobs` AS `steps_log` WHERE `steps_log`.tenant != 'alpha'",
    "SELECT count() FROM jobs INTERSECT SELECT count() FROM steps", "SELECT length(groupArray(tenant)) FROM (SELECT * FROM timeline AS t JOIN jobs USING (job_id))",
    "SELECT topK(10)(tenant), sumMap(map(tenant, 1)) FROM steps", "SELECT estimateCompressionRatio(tenant) FROM steps",
    "SELECT * FROM jobs SETTINGS max_rows_to_read = 10", "SELECT * FROM jobs SETTINGS max_memory_usage = 100000",
    "SELECT * FROM jobs FORMAT JSONEachRowWithProgress", "SELECT job_id FROM jobs SETTINGS extremes = 1 FORMAT JSON",
    "SELECT job_id FROM jobs SETTINGS output_format_write_statistics = 1 FORMAT JSON", "SELECT * FROM losses",
]  # fmt: skip


def test_nothing_counts_the_others_rows(shared: Store) -> None:
    others = re.compile(rf"\b({BRAVO.rows}|{ALPHA.rows + BRAVO.rows}|{2 * BRAVO.rows}|{BRAVO.rows * BRAVO.rows})\b")
    seen = told(shared, "SELECT count() FROM jobs", BRAVO.name)
    assert seen is not None
    assert others.search(seen)
    for sql in COUNTING:
        shown = told(shared, sql, ALPHA.name)
        if shown is not None:
            assert not others.search(re.sub(r'"elapsed": [0-9.e-]+|<elapsed>[^<]*', "", shown)), (sql, shown[:300])
            assert "rows_read" not in shown, sql


_TEXT = (
    "SELECT FROM WHERE WITH AS IN NOT ( ) ( ) , . * + = 'x' 1 UNION ALL JOIN ON USING ARRAY GROUP BY ORDER LIMIT HAVING"
    " FORMAT SETTINGS INTO OUTFILE EXPLAIN DESCRIBE SHOW TABLES jobs steps steps_log jobs_log flows system parts file url"
    " tenant 'x' job_id count() any(tenant) numbers(3) -- /* */ ; ` \" $$ -> :: [ ] { } : CSV CASE WHEN THEN END"
)
_WORDS = _TEXT.split()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.sampled_from(_WORDS), min_size=1, max_size=14), glue=st.sampled_from([" ", "\n", "", "/**/"]))
def test_no_soup_of_words_shows_the_others_rows(shared: Store, words: list[str], glue: str) -> None:
    for sql in (glue.join(words), "SELECT * FROM jobs " + glue.join(words), "SELECT tenant" + glue + glue.join(words)):  # noqa: S608
        shown = told(shared, sql, ALPHA.name)
        assert shown is None or BRAVO.name not in shown, (sql, shown)


@settings(max_examples=100)
@given(sql=st.text(max_size=60))
def test_any_text_is_refused_in_one_line_or_harmless(shared: Store, sql: str) -> None:
    shown = told(shared, sql, ALPHA.name)
    assert shown is None or BRAVO.name not in shown
