"""The commands of the common questions, on incidents of two tenants."""

import csv
import io
import json
from typing import Any

import pytest

from prism_ch.store.client import Store
from tests.e2e.commands import prism_ch
from tests.incidents import incident, of_job, part


@pytest.fixture
def two_tenants(store: Store) -> Store:
    """One incident at a spine under jobs of two tenants, a small one that is open, and a closed one."""
    of_job(store, "job-a", "alpha")
    of_job(store, "job-b", "bravo")
    both: dict[str, Any] = {"jobs": ["job-a", "job-b"], "tenants": ["alpha", "bravo"], "severity": "critical"}
    incident(store, "i-spine", "spine-7", kind="slow_switch", subject_type="switch", lost_gpu_h=9, **both)
    part(store, "i-spine", "alpha", "job-a", lost_gpu_h=5)
    part(store, "i-spine", "bravo", "job-b", lost_gpu_h=4)
    incident(store, "i-small", "10.0.0.1", severity="info", jobs=["job-a"], tenants=["alpha"])
    part(store, "i-small", "alpha", "job-a", subject="10.0.0.1", severity="info")
    incident(store, "i-over", "10.0.0.2", severity="critical", status="closed", jobs=["job-b"], tenants=["bravo"])
    part(store, "i-over", "bravo", "job-b", subject="10.0.0.2", status="closed")
    return store


def ask(store_url: str, *question: str) -> list[dict[str, str]]:
    done = prism_ch(*question, "--format", "csv", url=store_url)
    assert (done.status, done.err) == (0, "")
    return list(csv.DictReader(io.StringIO(done.out)))


def test_incidents_are_listed_open_first_then_the_worst(two_tenants: Store, store_url: str) -> None:
    assert [row["incident_id"] for row in ask(store_url, "incidents")] == ["i-spine", "i-small", "i-over"]


def test_a_tenant_sees_its_part_of_an_incident_only(two_tenants: Store, store_url: str) -> None:
    rows = {row["incident_id"]: row for row in ask(store_url, "incidents", "--tenant", "alpha")}
    assert rows.keys() == {"i-spine", "i-small"}
    assert rows["i-spine"]["lost_gpu_h"] == "5"
    assert rows["i-spine"]["subject"] == "the network between your servers"
    printed = prism_ch("incidents", "--tenant", "alpha", "--format", "json", url=store_url).out
    assert not [name for name in ("spine-7", "job-b", "bravo", "10.0.0.2") if name in printed]


def test_the_operator_sees_each_incident_once_and_whole(two_tenants: Store, store_url: str) -> None:
    (spine,) = [row for row in ask(store_url, "incidents") if row["incident_id"] == "i-spine"]
    assert (spine["subject"], spine["lost_gpu_h"]) == ("spine-7", "9")


def test_jobs_say_what_is_open_on_them(two_tenants: Store, store_url: str) -> None:
    rows = {row["job_id"]: row for row in ask(store_url, "jobs")}
    assert (rows["job-a"]["open_incidents"], rows["job-a"]["worst"]) == ("2", "critical")
    assert (rows["job-b"]["open_incidents"], rows["job-b"]["worst"]) == ("1", "critical")


def test_steps_name_the_incidents_on_them(two_tenants: Store, store_url: str) -> None:
    two_tenants.command(
        "INSERT INTO diagnoses_log (job_id, revision, diagnosis_id, tenant, kind, first_step, last_step, incident_id)"
        " VALUES ('job-a', 1, 'd-1', 'alpha', 'slow_step', 2, 3, 'i-spine'),"
        " ('job-a', 1, 'd-2', 'alpha', 'slow_group', 3, 3, 'i-spine'),"
        " ('job-a', 1, 'd-3', 'alpha', 'imbalance', 0, 9, '')"
    )
    rows = ask(store_url, "steps", "job-a", "--rows", "4", "--first-row", "1")
    assert [(row["step"], row["incidents"]) for row in rows] == [
        ("1", "[]"),
        ("2", "['slow_switch']"),
        ("3", "['slow_switch']"),
        ("4", "[]"),
    ]


def test_tables_of_a_tenant_are_those_that_it_may_ask(two_tenants: Store, store_url: str) -> None:
    own = {row["name"] for row in ask(store_url, "tables", "--tenant", "alpha")}
    assert {"incidents", "jobs", "steps"} <= own
    assert "exporters" not in own
    assert own < {row["name"] for row in ask(store_url, "tables")}


def test_questions_have_the_formats_of_sql(two_tenants: Store, store_url: str) -> None:
    first = json.loads(prism_ch("incidents", "--rows", "1", "--format", "json", url=store_url).out)
    assert first["incident_id"] == "i-spine"
    assert prism_ch("incidents", url=store_url).out.split()[:3] == ["severity", "status", "kind"]
