"""Of a tenant's conditions an index sees only comparisons of columns with constants."""

import pytest

from prism_ch.query.opaque import hidden_conditions

SEEN = [
    "SELECT 1 FROM steps WHERE (job_id = 'a') AND (step >= 5)",
    "SELECT 1 FROM steps WHERE step IN (1, 2)",
    "SELECT 1 FROM steps WHERE (-1 < step) AND (job_id LIKE 'a%')",
    "SELECT 1 FROM steps WHERE (job_id = 'a') OR ((step > 3) AND (step < 9))",
    "SELECT 1 FROM steps WHERE start_time >= (toDateTime64('2026-01-01', 9) - toIntervalHour(1))",
    "SELECT 1 FROM steps WHERE job_id IN (SELECT job_id FROM jobs)",
    "SELECT 1 FROM steps AS s WHERE s.step = {step:UInt64}",
    "SELECT g.step AS step FROM gpu_steps AS g WHERE step = 3",
    "WITH (SELECT max(step) FROM steps) AS m SELECT 1 FROM steps WHERE (step = m) AND (step > (m.1))",
    "SELECT 1 FROM steps AS a INNER JOIN jobs AS b ON a.job_id = b.job_id",
    "SELECT * EXCEPT step FROM steps WHERE step = 1",
    "SELECT 1 FROM steps AS a INNER JOIN (SELECT arrayJoin(jobs) AS job_id FROM incidents) AS b ON a.job_id = b.job_id",
    "SELECT 1 FROM a INNER JOIN (SELECT f(step) AS x FROM steps) AS b ON a.y = b.x WHERE a.job_id = 'a'",
]
HIDDEN = [
    (
        "SELECT 1 FROM steps WHERE (factorial(step) = 2) AND (job_id = 'a')",
        "SELECT 1 FROM steps WHERE (identity(factorial(step) = 2)) AND (job_id = 'a')",
    ),
    (
        "SELECT 1 FROM steps WHERE (start_time + toIntervalSecond(5)) > '2020-01-01'",
        "SELECT 1 FROM steps WHERE identity((start_time + toIntervalSecond(5)) > '2020-01-01')",
    ),
    (
        "SELECT x FROM (SELECT factorial(step) AS x FROM steps) WHERE x = 2",
        "SELECT x FROM (SELECT factorial(step) AS x FROM steps) WHERE identity(x = 2)",
    ),
    (
        "SELECT y FROM (SELECT x AS y FROM (SELECT f(step) AS x FROM steps)) WHERE y = 2",
        "SELECT y FROM (SELECT x AS y FROM (SELECT f(step) AS x FROM steps)) WHERE identity(y = 2)",
    ),
    (
        "WITH (factorial(step)) AS k SELECT 1 FROM steps WHERE k = 2",
        "WITH (factorial(step)) AS k SELECT 1 FROM steps WHERE identity(k = 2)",
    ),
    (
        "SELECT 1 FROM steps WHERE `factorial(step)` = 2",
        "SELECT 1 FROM steps WHERE identity(`factorial(step)` = 2)",
    ),
    (
        "SELECT 1 FROM jobs WHERE job_id IN (SELECT job_id FROM steps WHERE factorial(step) = 2)",
        "SELECT 1 FROM jobs WHERE job_id IN (SELECT job_id FROM steps WHERE identity(factorial(step) = 2))",
    ),
    (
        "SELECT 1 FROM a INNER JOIN b ON (a.x = b.x) AND (f(a.y) = 2)",
        "SELECT 1 FROM a INNER JOIN b ON (a.x = b.x) AND (identity(f(a.y) = 2))",
    ),
    (
        "SELECT 1 FROM steps GROUP BY step HAVING factorial(step) = 2 ORDER BY step",
        "SELECT 1 FROM steps GROUP BY step HAVING identity(factorial(step) = 2) ORDER BY step",
    ),
    (
        "SELECT 1 FROM steps WHERE CAST(step, 'UInt8') = 3",
        "SELECT 1 FROM steps WHERE identity(CAST(step, 'UInt8') = 3)",
    ),
    (
        "SELECT 1 FROM (SELECT f(step) AS x FROM steps) AS a INNER JOIN b ON a.x = b.y WHERE b.y = 2",
        "SELECT 1 FROM (SELECT f(step) AS x FROM steps) AS a INNER JOIN b ON a.x = b.y WHERE identity(b.y = 2)",
    ),
    (
        "SELECT a.z AS y FROM a INNER JOIN (SELECT f(step) AS x FROM steps) AS b ON y = b.x WHERE a.z = 2",
        "SELECT a.z AS y FROM a INNER JOIN (SELECT f(step) AS x FROM steps) AS b ON y = b.x WHERE identity(a.z = 2)",
    ),
    ("SELECT 1 FROM steps WHERE NOT f(step)", "SELECT 1 FROM steps WHERE identity(NOT f(step))"),
]
UNCLEAR = [
    "SELECT 1 FROM (SELECT factorial(step) FROM steps) AS t(x) WHERE x = 2",
    "WITH t(x) AS (SELECT factorial(step) FROM steps) SELECT 1 FROM t WHERE x = 2",
    "SELECT 1 FROM (SELECT step AS x FROM steps UNION ALL SELECT factorial(step) FROM steps) WHERE x = 2",
    "SELECT step AS x FROM steps EXCEPT SELECT factorial(step) FROM steps",
    "SELECT 1 FROM a INNER JOIN b ON f(a.x) = b.x",
]


@pytest.mark.parametrize("sql", SEEN)
def test_comparison_with_a_constant_is_seen(sql: str) -> None:
    assert hidden_conditions(sql) == sql


@pytest.mark.parametrize("sql,hidden", HIDDEN)
def test_condition_with_a_function_is_hidden(sql: str, hidden: str) -> None:
    assert hidden_conditions(sql) == hidden


@pytest.mark.parametrize("sql", UNCLEAR)
def test_no_index_where_columns_are_named_by_place(sql: str) -> None:
    assert hidden_conditions(sql) is None
