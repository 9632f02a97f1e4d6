"""Alert rules hold what Grafana needs, and link to existing panels."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from prism_ch.errors import GrafanaError
from prism_ch.grafana.alerts import ALERTS, duration, panel_id, rule_groups
from prism_ch.grafana.organisations import shipped_dashboards

PROVISIONING = Path(__file__).parents[3] / "dashboards" / "provisioning"


def rules(*, tenant: bool = False) -> list[dict[str, Any]]:
    return [rule for group in rule_groups(shipped_dashboards(), tenant=tenant) for rule in group["rules"]]


def test_tenants_rules_link_to_tenants_dashboards() -> None:
    assert {rule["uid"] for rule in rules()} == {alert.uid for alert in ALERTS}
    for rule in rules(tenant=True):
        assert "tenants" in shipped_dashboards()[rule["annotations"]["__dashboardUid__"]]["tags"]


def test_rule_compares_the_number_of_its_query() -> None:
    for alert, rule in zip(ALERTS, rules(), strict=True):
        query, condition = rule["data"]
        assert query["model"]["rawSql"] == alert.sql
        assert not alert.sql.startswith("--")
        assert query["relativeTimeRange"]["from"] == alert.range_s
        assert condition["model"]["expression"] == query["refId"]
        assert condition["model"]["conditions"][0]["evaluator"] == {"type": "gt", "params": [alert.above]}
        assert rule["condition"] == condition["refId"]
        assert rule["labels"].get("severity", "") == alert.severity


@pytest.mark.parametrize("panels", [[], [{"id": 1, "title": "x"}, {"id": 2, "title": "x"}], [{"title": "x"}]])
def test_panel_id_refused_unless_exactly_one_panel_has_it(panels: list[dict[str, Any]]) -> None:
    with pytest.raises(GrafanaError, match="no single, numbered panel titled x"):
        panel_id({"d": {"panels": panels}}, "d", "x")


def test_panel_id_found_for_panel_in_a_row() -> None:
    assert panel_id({"d": {"panels": [{"id": 1, "panels": [{"id": 7, "title": "x"}]}]}}, "d", "x") == 7


@pytest.mark.parametrize("seconds, text", [(0, "0s"), (30, "30s"), (90, "90s"), (120, "2m"), (3600, "1h")])
def test_duration_written_in_largest_fitting_unit(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_page_says_which_rules_fire_without_data() -> None:
    page = (PROVISIONING.parents[1] / "docs/howto/grafana.md").read_text(encoding="utf-8")
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
