"""The gate lets reading statements through untouched and refuses all else."""

import pytest

from prism_ch.errors import UsageError
from prism_ch.query.gate import scope

READING = [
    "SELECT 1",
    "select kind, subject, summary from diagnoses",
    "SELECT * FROM prism.steps FINAL WHERE duration_s > 0.5 ORDER BY step LIMIT 1 BY job_id",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
    "SELECT 1 UNION ALL SELECT 2",
    "(SELECT 1)",
    "SELECT quantileExact(0.95)(duration_s) AS p95, groupArrayIf(step, step > 3) FROM steps",
    "SELECT * EXCEPT (tenant) FROM jobs AS j JOIN steps AS s USING (job_id)",
    "SELECT job_id FROM steps WHERE job_id IN (SELECT job_id FROM jobs) AND step IN (1, 2) AND step NOT IN (7)",
    "SELECT job_id IN jobs FROM steps",
    "SELECT member FROM groups ARRAY JOIN members AS member",
    "SELECT arrayMap(x -> x + 1, [1, 2]), tuple(1).1, CAST('1' AS UInt8), '1'::UInt8",
    "SELECT number FROM numbers(10)",
    "SELECT count() FROM system.parts",
    "SELECT ';', 'INTO OUTFILE', 'file(x)' -- file('x');",
    "SELECT toStartOfInterval(start_time, INTERVAL 1 minute) AS t, avg(duration_s) FROM steps GROUP BY t WITH ROLLUP",
    "SELECT t.file FROM (SELECT 1 AS file) AS t",
    "SHOW TABLES",
    "SHOW FULL TABLES FROM prism LIKE '%steps%' LIMIT 3",
    "SHOW CREATE TABLE steps",
    "DESCRIBE steps",
    "DESCRIBE TABLE prism.steps",
    "DESCRIBE (SELECT 1)",
    "EXPLAIN SELECT * FROM steps",
    "EXPLAIN PLAN indexes = 1, actions = 1 SELECT * FROM steps",
]

REFUSED = [
    # not one statement
    ("", "no statement"),
    ("  ; ", "no statement"),
    ("-- nothing", "no statement"),
    ("SELECT 1; SELECT 2", "one statement"),
    ("SELECT 1; DROP TABLE steps", "one statement"),
    # not parsed, so not run
    ("SELEC 1", "only reading|can't be read"),
    ("SELECT (1", "can't be read"),
    ("SELECT 'a", "can't be read"),
    ("SELECT \u2018'\u2019, file('x') , '\u2019", "quotes are straight"),
    ("SELECT '\x1b[2J'", "U\\+001B"),
    # writing
    ("INSERT INTO jobs VALUES (1)", "only reading"),
    ("INSERT INTO jobs SELECT * FROM jobs", "only reading"),
    ("WITH x AS (SELECT 1) INSERT INTO jobs SELECT * FROM x", "reading|can't be read"),
    ("DROP TABLE steps", "only reading"),
    ("TRUNCATE TABLE steps", "only reading"),
    ("ALTER TABLE steps DELETE WHERE 1", "only reading"),
    ("CREATE TABLE t ENGINE Memory AS SELECT 1", "only reading"),
    ("OPTIMIZE TABLE steps", "only reading"),
    ("SYSTEM SHUTDOWN", "only reading"),
    ("SET readonly = 0", "only reading"),
    ("USE default", "only reading"),
    ("KILL QUERY WHERE 1", "only reading"),
    ("TABLE steps", "only reading"),
    ("EXPLAIN INSERT INTO jobs SELECT 1", "only reading"),
    ("EXPLAIN EXPLAIN SELECT 1", "only reading"),
    ("EXPLAIN", "no statement"),
    ("EXPLAIN PLAN indexes = 1", "only reading"),
    # files and the network, by any spelling
    ("SELECT 1 INTO OUTFILE '/tmp/x'", "can't be read"),
    ("SHOW TABLES INTO OUTFILE '/tmp/x'", "INTO"),
    ("SHOW TABLES FORMAT CSV", "FORMAT"),
    ("SHOW TABLES FROM system WHERE file('/etc/passwd') != ''", "can't stand"),
    ("SHOW PROCESSLIST", "not offered"),
    ("SHOW", "no statement"),
    ("SELECT * FROM file('/etc/passwd', 'LineAsString')", "not offered"),
    ("SELECT * FROM\nFile /* x */ ('/etc/passwd')", "not offered"),
    ("SELECT `file`('/etc/passwd')", "not offered"),
    ("SELECT \"file\"('/etc/passwd')", "not offered"),
    ("SELECT 1 IN file('/etc/passwd')", "not offered"),
    ("SELECT * FROM steps WHERE job_id IN (SELECT file('/etc/passwd'))", "not offered"),
    ("SELECT * FROM steps, file('/etc/passwd')", "not offered"),
    ("DESCRIBE file('/etc/passwd')", "not offered"),
    ("DESCRIBE TABLE (SELECT * FROM url('http://x'))", "not offered"),
    ("EXPLAIN SELECT * FROM s3('http://x')", "not offered"),
    ("EXPLAIN PLAN actions = 1 SELECT * FROM remote('x', 'a', 'b')", "not offered"),
    ("SELECT * FROM '/etc/passwd'", "can't name a table"),
    ("SELECT * FROM `/etc/passwd`", "slash"),
    ("SELECT * FROM default.`passwd`", "not in the database"),
    ("DESCRIBE default.passwd", "not in the database"),
    ("SELECT 1 IN default.passwd", "not in the database"),
    ("SELECT 1 GLOBAL IN (default.passwd)", "not in the database"),
    ("SELECT globalNotNullIn(1, default.passwd)", "not offered"),
    ("SELECT * FROM a.prism.steps", "name a table as"),
    # tables from functions that are not known to be harmless
    ("SELECT * FROM somethingNew('x')", "not offered"),
    ("SELECT * FROM view(SELECT 1)", "not offered"),
    ("SELECT * FROM dictionary('x')", "not offered"),
    ("SELECT * FROM {t:Identifier}", "parameter"),
    ("SELECT * FROM steps, LATERAL view(1)", "not offered"),
    # settings and formats that reach further than the look of the result
    ("SELECT 1 FORMAT Template", "Template"),
    ("SELECT 1 FORMAT Native SETTINGS format_schema = '/etc/passwd:x'", "format_schema"),
    ("SELECT 1 SETTINGS readonly = 0", "readonly"),
    ("SELECT 1 SETTINGS max_threads = 'all'", "doesn't take"),
    ("SELECT 1 SETTINGS max_threads = 1, max_threads = 2", "twice"),
    ("SELECT * FROM (SELECT 1 SETTINGS readonly = 0)", "SETTINGS"),
]


@pytest.mark.parametrize("sql", READING)
def test_a_reading_statement_passes_as_written(sql: str) -> None:
    assert sql.startswith(scope(sql, "prism").text)
    assert scope(f"\n {sql}\n;; ", "prism") == scope(sql, "prism")


@pytest.mark.parametrize("sql,reason", REFUSED)
def test_anything_else_is_refused_with_a_reason(sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refusal:
        scope(sql, "prism")
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    "sql,ran",
    [
        ("EXISTS steps", "EXISTS `steps`"),
        ("exists table prism.steps", "EXISTS TABLE `prism`.`steps`"),
        ("EXISTS TEMPORARY TABLE `table`", "SELECT 0 AS result"),
        ("EXISTS steps_log", "SELECT 0 AS result"),
        ("EXISTS VIEW other.steps", "SELECT 0 AS result"),
        ("EXISTS DATABASE prism", "EXISTS DATABASE `prism`"),
        ("EXISTS DATABASE other", "SELECT 0 AS result"),
    ],
)
def test_what_a_tenant_may_not_read_does_not_exist(sql: str, ran: str) -> None:
    assert scope(sql, "prism", tenant="research").text == ran


@pytest.mark.parametrize("sql", ["EXISTS a.b.c", "EXISTS a b", "EXISTS TABLE steps INTO OUTFILE 'x'"])
def test_exists_takes_one_name(sql: str) -> None:
    with pytest.raises(UsageError, match="EXISTS takes"):
        scope(sql, "prism")


def test_a_comment_behind_the_statement_is_left_out() -> None:
    assert scope("SELECT 1 -- one", "prism").text == "SELECT 1"


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(UsageError):
        scope("SELECT " + "(" * 5000 + "1" + ")" * 5000, "prism")


OWN = [
    "SELECT * FROM steps",
    "SELECT * FROM prism.steps AS s JOIN jobs USING (job_id)",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
    "WITH x AS (SELECT 1 AS a), y AS (SELECT * FROM x) SELECT * FROM y",
    "WITH steps AS (SELECT 1 AS a) SELECT * FROM steps",
    "SELECT * FROM jobs WHERE job_id IN (SELECT job_id FROM diagnoses)",
    "SELECT name FROM system.tables",
    "DESCRIBE steps",
    "SHOW TABLES",
    "SHOW DATABASES",
    "SELECT * FROM information_schema.tables",
    "SELECT {n:UInt8}",
]

OTHERS = [
    ("SELECT * FROM steps_log", "the table steps_log is not offered; a tenant can read diagnosed_steps"),
    ("SELECT * FROM flows", "flows is not offered"),
    ("SELECT * FROM switch_traffic(points = 1)", "switch_traffic is not offered"),
    ("SELECT * FROM system.parts", "system.parts is not offered"),
    ("SELECT * FROM information_schema.character_sets", "is not offered"),
    ("SELECT 1 IN flows", "flows is not offered"),
    ("SELECT 1 IN (flows)", "flows is not offered"),
    ("WITH flows AS (SELECT 1) SELECT * FROM flows", "is the name of a table"),
    ("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a", "b is not offered"),
    ("WITH a AS (SELECT * FROM a) SELECT * FROM a", "a is not offered"),
    ("SELECT * FROM (WITH a AS (SELECT 1) SELECT * FROM a) JOIN a USING (x)", "a is not offered"),
    ("SELECT * FROM steps PREWHERE step = 1", "WHERE instead"),
    ("EXPLAIN SELECT * FROM steps", "for operators"),
    ("SHOW CREATE TABLE steps", "not offered"),
    ("DESCRIBE flows", "flows is not offered"),
]


@pytest.mark.parametrize("sql", OWN)
def test_a_tenants_statement_runs_behind_its_row_filters(sql: str) -> None:
    question = scope(sql, "prism", tenant="research")
    assert sql.startswith(question.text)
    assert "'prism.steps_log': 'tenant = unhex(" in question.settings["additional_table_filters"]
    assert question.settings["optimize_move_to_prewhere"] == "0"
    assert list(question.settings)[-1] == "readonly"
    assert "additional_table_filters" not in scope(sql, "prism").settings


@pytest.mark.parametrize("sql,reason", OTHERS)
def test_a_tenant_is_refused_what_is_not_its_own(sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        scope(sql, "prism", tenant="research")


@pytest.mark.parametrize(
    "sql,reason",
    [
        ("SELECT 1 /* /* */ , 2 -- */\n, 3", "comment"),
        ("SELECT 1 # 2\n, 3", "comment|can't be read"),
        ("SELECT $$a$$", "single quotes"),
        ("SELECT 1 FROM a$b", "strings only|can't be read"),
        ("SELECT 'a' FROM `a\\`b`", "slash|can't be read"),
        ("SELECT arrayMap(file, ['x'])", "name of a function"),
        ("SELECT * APPLY(file) FROM jobs", "name of a function"),
        ("SELECT x + 'y' FROM " + "x" * 300_000, "longer than"),
        ("SELECT 1\u00a0, 2", r"U\+00A0"),
    ],
)
def test_text_that_clickhouse_may_read_otherwise_is_refused(sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        scope(sql, "prism")
