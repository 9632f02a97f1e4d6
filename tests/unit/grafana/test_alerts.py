"""Alert rules hold what Grafana needs, and link to existing panels."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from prism_ch.errors import GrafanaError
from prism_ch.grafana.alerts import ALERTS, duration, rule_groups
from prism_ch.grafana.annotations import TEXTS, Page, if_rows, pages_in, runbook_url
from prism_ch.grafana.organisations import shipped_dashboards

PROVISIONING = Path(__file__).parents[3] / "dashboards" / "provisioning"


def rules(*, tenant: bool = False) -> list[dict[str, Any]]:
    return [rule for group in rule_groups(shipped_dashboards(), 1, is_tenants=tenant) for rule in group["rules"]]


def test_tenants_rules_link_to_tenants_dashboards() -> None:
    assert {rule["uid"] for rule in rules()} == {alert.uid for alert in ALERTS}
    assert {rule["uid"] for rule in rules(tenant=True)} == {alert.uid for alert in ALERTS if alert.is_for_tenants}
    for alert in ALERTS:
        assert {page.dashboard for page in alert.pages} <= shipped_dashboards().keys()


def test_rule_compares_the_number_of_its_query() -> None:
    for alert, rule in zip(ALERTS, rules(), strict=True):
        query, *more, condition = rule["data"]
        assert query["refId"] == "A"
        assert [each["refId"] for each in more] == [TEXTS]
        assert more[0]["model"]["rawSql"] == alert.sql
        assert query["model"]["rawSql"] == alert.queries["A"]
        assert not alert.sql.startswith("--")
        assert query["relativeTimeRange"]["from"] == alert.range_s
        assert condition["model"]["expression"] == query["refId"]
        assert condition["model"]["conditions"][0]["evaluator"] == {"type": "gt", "params": [alert.above]}
        assert rule["condition"] == condition["refId"]
        assert rule["labels"].get("severity", "") == alert.severity


def test_page_without_dashboard_or_variable_refused() -> None:
    with pytest.raises(GrafanaError, match="no dashboard d, to which an alert links"):
        pages_in([Page("d")], {})
    with pytest.raises(GrafanaError, match="dashboard d has no variable x"):
        pages_in([Page("d", {"x": "label"})], {"d": {"templating": {"list": [{"name": "y"}]}}})


def test_pages_of_an_organisation_end_without_variable() -> None:
    host, network, tenant = Page("host", {"host": "host"}), Page("network"), Page("tenant")
    boards = {"host": {"templating": {"list": [{"name": "host"}]}}, "network": {}, "tenant": {}}
    assert pages_in([host, network, tenant], boards) == [host, network]
    assert pages_in([host, network, tenant], {"tenant": {}}) == [tenant]


def test_text_that_needs_no_row_stays_without_rows() -> None:
    assert if_rows("The analysis is behind") == "The analysis is behind"
    assert if_rows("{{ .Labels.job }}") == "{{ if .Values.A }}{{ .Labels.job }}{{ end }}"


def test_text_of_a_column_is_replaced_where_it_is_missing() -> None:
    column, otherwise = "{{ .Values.texts.Labels.it }}", "{{ .Labels.job }}"
    assert if_rows(column, otherwise) == (
        "{{ if .Values.texts }}" + column + "{{ else }}{{ if .Values.A }}" + otherwise + "{{ end }}{{ end }}"
    )


def test_rule_without_a_panel_in_the_runbook_refused() -> None:
    boards = {"prism-runbook": {"panels": [{"id": 1, "title": "Another"}]}}
    with pytest.raises(GrafanaError, match="dashboard prism-runbook has no panel 'Mine', to which an alert links"):
        runbook_url("Mine", boards, 1)
    with pytest.raises(GrafanaError, match="has no panel 'Mine'"):
        runbook_url("Mine", {}, 1)


@pytest.mark.parametrize("seconds, text", [(0, "0s"), (30, "30s"), (90, "90s"), (120, "2m"), (3600, "1h")])
def test_duration_written_in_largest_fitting_unit(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_page_says_which_rules_fire_without_data() -> None:
    page = (PROVISIONING.parents[1] / "docs/howto/alerts.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        (row,) = re.findall(rf"^\| {alert.title} \|.*\| (.*) \|$", page, re.MULTILINE)
        assert row.startswith("fires") == (alert.no_data == "Alerting")


def test_data_source_file_agrees_with_the_api() -> None:
    (written,) = yaml.safe_load((PROVISIONING / "datasources" / "prism.yaml").read_text(encoding="utf-8"))[
        "datasources"
    ]
    rule = rules()[0]
    assert written["uid"] == rule["data"][0]["datasourceUid"]
    assert written["type"] == rule["data"][0]["model"]["datasource"]["type"]
    assert written["secureJsonData"]["password"].startswith("$")
