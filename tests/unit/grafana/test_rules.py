"""Alert rules hold what Grafana needs, link to panels that there are, and are the same in files."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from prism_ch.errors import GrafanaError
from prism_ch.grafana.alerts import ALERTS
from prism_ch.grafana.files import alert_file
from prism_ch.grafana.rules import duration, panel_id, rule_groups
from prism_ch.grafana.wanted import shipped_dashboards

PROVISIONING = Path(__file__).parents[3] / "dashboards" / "provisioning"


def rules(*, tenant: bool = False) -> list[dict[str, Any]]:
    return [rule for group in rule_groups(shipped_dashboards(), tenant=tenant) for rule in group["rules"]]


def test_every_alert_is_a_rule_and_tenants_have_theirs_on_dashboards_of_theirs() -> None:
    assert {rule["uid"] for rule in rules()} == {alert.uid for alert in ALERTS}
    for rule in rules(tenant=True):
        assert "tenants" in shipped_dashboards()[rule["annotations"]["__dashboardUid__"]]["tags"]


def test_a_rule_judges_the_number_of_its_query() -> None:
    for alert, rule in zip(ALERTS, rules(), strict=True):
        query, condition = rule["data"]
        assert query["model"]["rawSql"] == alert.sql
        assert not alert.sql.startswith("--")
        assert query["relativeTimeRange"]["from"] == alert.range_s
        assert condition["model"]["expression"] == query["refId"]
        assert condition["model"]["conditions"][0]["evaluator"] == {"type": "gt", "params": [alert.above]}
        assert rule["condition"] == condition["refId"]
        assert rule["labels"]["severity"] == alert.severity


@pytest.mark.parametrize("panels", [[], [{"id": 1, "title": "x"}, {"id": 2, "title": "x"}], [{"title": "x"}]])
def test_a_panel_that_is_not_there_once_with_a_number_is_an_error(panels: list[dict[str, Any]]) -> None:
    with pytest.raises(GrafanaError, match="no single, numbered panel titled x"):
        panel_id({"d": {"panels": panels}}, "d", "x")


def test_a_panel_in_a_row_is_found() -> None:
    assert panel_id({"d": {"panels": [{"id": 1, "panels": [{"id": 7, "title": "x"}]}]}}, "d", "x") == 7


@pytest.mark.parametrize("seconds, text", [(0, "0s"), (30, "30s"), (90, "90s"), (120, "2m"), (3600, "1h")])
def test_durations(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_the_readme_tells_of_every_rule_whether_it_fires_without_data() -> None:
    readme = (PROVISIONING.parents[1] / "README.md").read_text(encoding="utf-8")
    for alert in ALERTS:
        (row,) = re.findall(rf"^\| {alert.title} \|.*\| (.*) \|$", readme, re.MULTILINE)
        assert row.startswith("fires") == (alert.no_data == "Alerting")


def test_the_file_of_rules_is_up_to_date() -> None:
    text = (PROVISIONING / "alerting" / "prism.yaml").read_text(encoding="utf-8")
    assert text == alert_file(shipped_dashboards()), "run `make dashboards`"


def test_the_file_says_the_same_as_the_api() -> None:
    groups = yaml.safe_load((PROVISIONING / "alerting" / "prism.yaml").read_text(encoding="utf-8"))["groups"]
    by_title = {group["title"]: group for group in rule_groups(shipped_dashboards(), tenant=False)}
    assert [group["name"] for group in groups] == list(by_title)
    for group in groups:
        assert group["interval"] == duration(by_title[group["name"]]["interval"])
        for written, rule in zip(group["rules"], by_title[group["name"]]["rules"], strict=True):
            assert {name: rule[name] for name in rule if name not in {"folderUID", "ruleGroup"}} == {
                name: written[name] for name in written if name not in {"dashboardUid", "panelId"}
            }
            assert written["dashboardUid"] == rule["annotations"]["__dashboardUid__"]
            assert str(written["panelId"]) == rule["annotations"]["__panelId__"]


def test_the_data_source_in_the_file_is_that_of_the_api() -> None:
    (written,) = yaml.safe_load((PROVISIONING / "datasources" / "prism.yaml").read_text(encoding="utf-8"))[
        "datasources"
    ]
    rule = rules()[0]
    assert written["uid"] == rule["data"][0]["datasourceUid"]
    assert written["type"] == rule["data"][0]["model"]["datasource"]["type"]
    assert written["secureJsonData"]["password"].startswith("$")
