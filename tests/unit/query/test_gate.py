"""The gate lets reading statements through untouched and refuses all else."""

import pytest

from prism_ch.errors import UsageError
from prism_ch.query.gate import check

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
    "SELECT file FROM (SELECT 1 AS file)",
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
    ("SELECT * FROM file('/etc/passwd', 'LineAsString')", "outside"),
    ("SELECT * FROM\nFile /* x */ ('/etc/passwd')", "outside"),
    ("SELECT `file`('/etc/passwd')", "outside"),
    ("SELECT \"file\"('/etc/passwd')", "outside"),
    ("SELECT 1 IN file('/etc/passwd')", "outside"),
    ("SELECT * FROM steps WHERE job_id IN (SELECT file('/etc/passwd'))", "outside"),
    ("SELECT * FROM steps, file('/etc/passwd')", "outside"),
    ("DESCRIBE file('/etc/passwd')", "outside"),
    ("DESCRIBE TABLE (SELECT * FROM url('http://x'))", "outside"),
    ("EXPLAIN SELECT * FROM s3('http://x')", "outside"),
    ("EXPLAIN PLAN actions = 1 SELECT * FROM remote('x', 'a', 'b')", "outside"),
    ("SELECT * FROM '/etc/passwd'", "can't name a table"),
    ("SELECT * FROM `/etc/passwd`", "slash"),
    ("SELECT * FROM default.`passwd`", "not in the database"),
    ("DESCRIBE default.passwd", "not in the database"),
    ("SELECT 1 IN default.passwd", "not in the database"),
    ("SELECT 1 GLOBAL IN (default.passwd)", "not in the database"),
    ("SELECT globalNotNullIn(1, default.passwd)", "outside"),
    ("SELECT * FROM a.prism.steps", "name a table as"),
    # tables from functions that are not known to be harmless
    ("SELECT * FROM somethingNew('x')", "not offered"),
    ("SELECT * FROM view(SELECT 1)", "not offered"),
    ("SELECT * FROM dictionary('x')", "expected"),
    ("SELECT * FROM {t:Identifier}", "expected"),
    ("SELECT * FROM steps, LATERAL view(1)", "only reading|can't be read"),
    # what would clash with --format or the read-only mode
    ("SELECT 1 FORMAT CSV", "--format"),
    ("SELECT 1 SETTINGS readonly = 0", "SETTINGS"),
    ("SELECT * FROM (SELECT 1 SETTINGS readonly = 0)", "SETTINGS"),
    ("DESCRIBE steps FORMAT CSV", "DESCRIBE|can't be read"),
]


@pytest.mark.parametrize("sql", READING)
def test_a_reading_statement_passes_as_written(sql: str) -> None:
    assert sql.startswith(check(sql, "prism"))
    assert check(f"\n {sql}\n;; ", "prism") == check(sql, "prism")


@pytest.mark.parametrize("sql,reason", REFUSED)
def test_anything_else_is_refused_with_a_reason(sql: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as refusal:
        check(sql, "prism")
    assert "\n" not in str(refusal.value)


def test_a_comment_behind_the_statement_is_left_out() -> None:
    assert check("SELECT 1 -- one", "prism") == "SELECT 1"


def test_deep_nesting_is_refused_not_a_crash() -> None:
    with pytest.raises(UsageError):
        check("SELECT " + "(" * 5000 + "1" + ")" * 5000, "prism")
