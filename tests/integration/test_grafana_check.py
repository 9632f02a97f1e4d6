"""`grafana check` asks every query of this database, as operator and as tenants, and looks into Grafana if it may."""

import json
import time
from collections.abc import Mapping
from typing import Any

import pytest

from prism_ch.cli import main
from prism_ch.grafana import organisations
from prism_ch.grafana import queries as grafana_queries
from prism_ch.grafana.alerts import ALERTS
from prism_ch.grafana.queries import QueryResult, check_queries, queries
from prism_ch.store.client import Store
from prism_ch.store.topology import EndpointRow, write_topology
from tests.grafana.server import PASSWORD, fake_grafana

SHIPPED = organisations.shipped_dashboards
NOT_IN_GRAFANA = "not checked in Grafana: no PRISM_CH_GRAFANA_PASSWORD and no PRISM_CH_GRAFANA_TOKEN is set"


@pytest.fixture
def database(store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A database of one tenant without any job, which the commands find by themselves."""
    rows = [EndpointRow(f"10.0.0.{n}", None, None, f"s{n}", 0, "0", "leaf", "", "alpha") for n in (1, 2)]
    write_topology(store, rows, "test")
    monkeypatch.setenv("PRISM_CH_URL", store_url)
    monkeypatch.delenv("PRISM_CH_GRAFANA_PASSWORD", raising=False)
    return store


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main(["grafana", "check", *arguments])
    out, err = capsys.readouterr()
    return status, (out + err).splitlines()


def changed_in(uid: str, change: str, to: str) -> Mapping[str, Mapping[str, Any]]:
    """Return the shipped dashboards with something replaced in one."""
    return {**SHIPPED(), uid: json.loads(json.dumps(SHIPPED()[uid]).replace(change, to))}


@pytest.mark.sweep
def test_every_query_asked_as_operator_and_as_tenant(database: Store, capsys: pytest.CaptureFixture[str]) -> None:
    status, (operators, tenant, last) = run(capsys)
    number = sum(1 for uid, board in SHIPPED().items() for _ in queries(uid, board)) + len(ALERTS)
    assert operators.startswith(f"prism: {len(SHIPPED())} dashboards, {number} queries, slowest ")
    assert tenant.startswith("prism alpha: 5 dashboards, ")
    assert (status, last) == (0, NOT_IN_GRAFANA)


def test_query_that_fails_reported_with_its_place(
    database: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        organisations, "shipped_dashboards", lambda: changed_in("prism-job", "FROM gpu_steps", "FROM gone")
    )
    status, lines = run(capsys, "--tenant", "alpha")
    (problem, *_) = [line for line in lines if line.startswith("! prism alpha: prism-job: panel")]
    assert "gone" in problem
    assert status == 1
    assert "the dashboards have" in lines[-1]


def test_macro_that_nothing_expands_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organisations, "shipped_dashboards", lambda: changed_in("prism-job", "$__toTime", "$__until"))
    results = check_queries(lambda sql, tenant: b"", None, int(time.time()))
    assert {result.problem for result in results} == {"", "holds $__until, which nothing expands"}


def test_tenant_asked_its_own_dashboards_and_rules_only() -> None:
    def ask(sql: str, tenant: str | None) -> bytes:
        assert tenant == "alpha"
        return b""

    results = list(check_queries(ask, "alpha", int(time.time())))
    asked = {result.place.partition(":")[0] for result in results if not result.place.startswith("alert rule")}
    assert asked == {"prism-tenant", "prism-job", "prism-incident", "prism-host"}
    rules = [result.place for result in results if result.place.startswith("alert rule")]
    assert rules == [f"alert rule {alert.title!r}" for alert in ALERTS if alert.is_for_tenants]


def test_first_value_of_a_variable_selected_or_all() -> None:
    asked = []

    def ask(sql: str, tenant: str | None) -> bytes:
        asked.append(sql)
        return b'{"value":"first"}\n{"value":"another"}\n'

    list(check_queries(ask, None, 1_000_000))
    assert any("job_id = 'first'" in sql for sql in asked)
    assert any("AND 1=1" in sql for sql in asked)
    assert not any("another" in sql for sql in asked)


def test_grafana_checked_if_a_password_is_set(
    database: Store, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grafana_queries, "check_queries", lambda *_: iter([QueryResult("somewhere", 0.1)]))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("PRISM_CH_GRAFANA_PASSWORD", PASSWORD)
    with fake_grafana() as grafana:
        monkeypatch.setenv("PRISM_CH_GRAFANA_URL", grafana.url)
        status, lines = run(capsys, "--operators")
        assert status == 1
        assert "! prism: 18 differences from this version; see `prism-ch grafana diff`" in lines
        assert any(line.startswith("! prism: the data source does not answer: ") for line in lines)
        assert grafana.writes == []
        assert main(["grafana", "apply", "--operators"]) == 0
        capsys.readouterr()
        status, lines = run(capsys, "--operators")
        assert (status, lines[-1]) == (0, "prism: Grafana holds this version, and the data source answers")
        grafana.edit_dashboard("prism", "prism-job", title="Mine")
        grafana.server.datasource_answers = False
        status, lines = run(capsys, "--operators")
        assert "! prism: 1 difference from this version; see `prism-ch grafana diff`" in lines
        assert (status, lines[-1]) == (1, "prism-ch: the dashboards have 2 problems, listed above")
