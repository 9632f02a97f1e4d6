"""What an operator asks after the run, and what a second process on the same folder is told."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.e2e.analysed import Recorded
from tests.e2e.commands import prism_ch, prism_ch_process

QUESTION = "SELECT kind, subject, summary FROM incidents"


def test_sql_shows_the_incidents_as_a_table(recorded: Recorded) -> None:
    run = recorded("dp4_slow_rank")
    done = prism_ch("sql", QUESTION, url=run.url)
    assert (done.status, done.err) == (0, "")
    head, *rows = done.out.splitlines()
    assert head.split() == ["kind", "subject", "summary"]
    assert len(rows) == 1
    assert "1 thing slows it" in run.told.out
    assert any("the others waited for 10.66.0.13" in row for row in rows)


def test_sql_shows_the_same_in_every_format(recorded: Recorded) -> None:
    url = recorded("dp4_slow_rank").url
    as_csv = list(csv.DictReader(io.StringIO(prism_ch("sql", QUESTION, "--format", "csv", url=url).out)))
    as_json = [json.loads(line) for line in prism_ch("sql", QUESTION, "--format", "json", url=url).out.splitlines()]
    assert as_csv == as_json
    assert {row["kind"] for row in as_csv} == {"slow_gpu"}


@pytest.mark.parametrize(
    "statement,status",
    [
        ("DROP TABLE flows_log", 2),
        ("SELECT 1 +", 2),
        ("SELECT * FROM file('/etc/passwd')", 2),
        ("SELECT * FROM no_such_table", 1),
        ("SELECT nothing FROM jobs", 1),
    ],
)
def test_what_cannot_be_answered_is_one_line(recorded: Recorded, statement: str, status: int) -> None:
    done = prism_ch("sql", statement, url=recorded("dp4_slow_rank").url)
    assert (done.status, done.out) == (status, "")
    assert done.err.startswith("prism-ch: ")
    assert done.err.count("\n") == 1
    assert "unexpected" not in done.err


def test_a_second_process_on_the_folder_is_told_who_has_it(recorded: Recorded, engine_folder: Path) -> None:
    run = recorded("dp4_slow_rank")  # whose database this process has open
    done = prism_ch_process("analyse", folder=engine_folder)
    assert (done.status, done.out) == (1, "")
    assert done.err.startswith(f"prism-ch: {engine_folder}: process ")
    assert "has this database open" in done.err
    assert done.err.count("\n") == 1
    assert prism_ch("sql", "SELECT count() FROM jobs", url=run.url).out.split() == ["count()", "1"]
