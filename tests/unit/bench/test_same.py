"""Which differences between two versions are found, and which are exempt."""

import json
from dataclasses import replace

import pyarrow as pa
import pytest

from bench.same_inputs import all_datasets
from bench.same_tables import COLUMNS, Dump, differences, dump_statement, public, read_dump
from prism_ch.simulate.families import CONDITIONS, FAMILIES

VIEWS = {"jobs": ("job_id", "steps", "profile"), "diagnoses": ("job_id", "evidence"), "losses": ("lost_s",)}


def dump(**rows: list[list[object]]) -> Dump:
    """Return what a version found, as rows of each view."""
    columns = [
        (COLUMNS, json.dumps([view, place, name, "String"]))
        for view, names in VIEWS.items()
        for place, name in enumerate(names, start=1)
    ]
    found = [(view, json.dumps(row)) for view, each in rows.items() for row in each]
    views, texts = zip(*columns, *found, strict=True)
    return read_dump(pa.table({"view": views, "row": texts}), (*VIEWS, *(rows.keys() - VIEWS.keys())))


def test_rows_in_another_order_are_same() -> None:
    rows: list[list[object]] = [["a", 1, ""], ["b", 2, ""]]
    assert differences(dump(jobs=rows), dump(jobs=rows[::-1])) == []


def test_changed_byte_is_found_with_its_column() -> None:
    found = differences(dump(jobs=[["a", 1, ""], ["b", 2, ""]]), dump(jobs=[["a", 1, ""], ["b", 3, ""]]))
    assert found == ["jobs: 2 rows, 1 of them changed or lost, 1 other ones; first: job_id b: steps 2 -> 3"]


def test_lost_and_doubled_rows_are_found() -> None:
    one, two = dump(jobs=[["a", 1, ""]]), dump(jobs=[["a", 1, ""]] * 2)
    assert differences(two, one) == [
        'jobs: 2 rows, 1 of them changed or lost, 0 other ones; first: only in BASE: ["a", 1]'
    ]
    assert differences(one, two) == [
        'jobs: 1 rows, 0 of them changed or lost, 1 other ones; first: only in HEAD: ["a", 1]'
    ]


def test_view_of_one_version_only_is_found() -> None:
    assert differences(dump(), dump(more=[])) == ["more: only in HEAD"]
    assert differences(dump(more=[]), dump()) == ["more: only in BASE"]


def test_exempt_column_may_change() -> None:
    assert differences(dump(jobs=[["a", 1, "x"]]), dump(jobs=[["a", 1, "y"]])) == []


def test_exempt_column_may_go() -> None:
    gone = dump(jobs=[["a", 1]])
    listed = [row for row in gone.rows[COLUMNS] if "profile" not in row]
    gone = replace(gone, rows={**gone.rows, COLUMNS: listed}, columns={**gone.columns, "jobs": ["job_id", "steps"]})
    assert differences(dump(jobs=[["a", 1, "x"]]), gone) == []


def test_evidence_is_compared_key_by_key(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = dump(diagnoses=[["a", '{"share": 0.5, "peers": 3}']])
    theirs = dump(diagnoses=[["a", '{"peers":4,"share":0.5}']])
    [found] = differences(ours, theirs)
    assert found.endswith("evidence.peers 3 -> 4")
    monkeypatch.setattr("bench.same_tables.EXEMPT_EVIDENCE", frozenset({"peers"}))
    assert differences(ours, theirs) == []


def test_sums_may_differ_in_their_last_digit_only() -> None:
    assert differences(dump(losses=[[0.1 + 0.2]]), dump(losses=[[0.3]])) == []
    assert differences(dump(losses=[[0.3000001]]), dump(losses=[[0.3]])) != []


def test_statement_reads_public_views_only() -> None:
    statement = dump_statement(public(["jobs", "published", "gpu_time"]))
    assert "FROM jobs" in statement
    assert "published" not in statement
    assert "gpu_time(from_time" in statement


def test_datasets_cover_families_conditions_and_faults() -> None:
    names = [dataset.name for dataset in all_datasets()]
    assert len(set(names)) == len(names)
    text = " | ".join(names)
    kinds = ("slow_gpu", "slow_nic", "slow_link", "slow_switch", "slow_step", "slow_drift", "stall", "hang", "restart")
    for wanted in (*FAMILIES, *CONDITIONS, *kinds, "recorded", "collected", "soak"):
        assert wanted in text
