"""The shipped dashboards and rules file are what the code makes; every query is used and described."""

import json
import re
from pathlib import Path

import pytest
import yaml

from prism_ch.assets import asset
from prism_ch.errors import PrismError
from prism_ch.grafana.alerts import DATASOURCE_UID, duration, rule_groups
from prism_ch.grafana.organisations import panels_of, shipped_dashboards
from tools.dashboards.generate import dashboards, rules_file, write
from tools.dashboards.query import about, sql

TENANTS = {"prism-tenant", "prism-job", "prism-incident", "prism-host", "prism-runbook"}
NAMES = {"fleet", "tenant", "job", "incident", "host", "network", "service", "runbook"}


def test_shipped_dashboards_are_those_that_code_makes() -> None:
    made = dashboards()
    assert made.keys() == {f"prism-{name}" for name in NAMES}
    for uid, text in made.items():
        assert (uid, asset(f"dashboards/{uid}.json").read_text(encoding="utf-8") == text) == (uid, True)


def test_folder_written_holds_this_versions_files_and_others(tmp_path: Path) -> None:
    (tmp_path / "prism-gone.json").write_text("{}")
    (tmp_path / "prism-job.json").write_text("{}")
    (tmp_path / "mine.json").write_text("{}")
    write(tmp_path)
    written = {f"prism-{name}.json" for name in NAMES}
    assert {path.name for path in tmp_path.iterdir()} == {"mine.json", "provisioning", *written}
    rules = Path("provisioning", "alerting", "prism.yaml")
    assert (tmp_path / rules).read_text() == asset(f"dashboards/{rules}").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "prism-job.json").read_text())["uid"] == "prism-job"


def test_tenants_dashboards_are_tagged() -> None:
    tags = {uid: set(dashboard["tags"]) for uid, dashboard in shipped_dashboards().items()}
    assert {uid for uid, of in tags.items() if "tenants" in of} == TENANTS


def test_nothing_is_written_that_a_grafana_draws_wrongly() -> None:
    for text in dashboards().values():
        assert '"placement": "inControlsMenu"' not in text
        assert '"repeatDirection"' not in text
        assert '"timezone": "utc"' in text


def test_sentences_are_wrapped() -> None:
    wrapped = [
        (override["matcher"]["options"], [each["id"] for each in override["properties"]])
        for board in shipped_dashboards().values()
        for panel in panels_of(board)
        for override in panel.get("fieldConfig", {}).get("overrides", ())
        if override["matcher"]["options"] in {"What is wrong", "What to do", "What was found"}
    ]
    assert wrapped
    assert all("custom.wrapText" in properties for _, properties in wrapped)


def test_the_data_source_is_prisms_own_at_first() -> None:
    for board in shipped_dashboards().values():
        if not any(panel.get("targets") for panel in panels_of(board)):
            assert board["templating"]["list"] == []
            continue
        (source,) = [each for each in board["templating"]["list"] if each["type"] == "datasource"]
        assert source["current"]["value"] == DATASOURCE_UID


def test_every_query_file_is_used_and_described() -> None:
    shipped = json.dumps(list(shipped_dashboards().values()))
    for folder in asset("sql/dashboards").iterdir():
        for entry in folder.iterdir():
            name = f"{folder.name}/{entry.name.removesuffix('.sql')}"
            text = "\n".join(entry.read_text(encoding="utf-8").splitlines())
            parts = re.split(r"\$__(?:whose\w*|of_incident|kind_text\([\w.]+\))", text)
            parts[0] = re.sub(r"(?m)\A(--.*\n)+", "", parts[0])
            used = all(json.dumps(part)[1:-1] in shipped for part in parts)
            assert (name, about(name).endswith("."), used) == (name, True, True)


def test_shared_queries_get_the_condition_of_their_dashboard() -> None:
    assert "AND tenant = ${tenant:sqlstring}\n" in sql("tenant/jobs")
    assert "AND $__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)\n" in sql("fleet/jobs")
    assert "AND has(tenants, ${tenant:sqlstring})\n" in sql("tenant/incidents")
    with pytest.raises(PrismError, match=r"sql/dashboards/shared/chosen\.sql is missing"):
        sql("fleet/chosen")


def test_shipped_rules_file_is_the_one_that_code_makes() -> None:
    text = asset("dashboards/provisioning/alerting/prism.yaml").read_text(encoding="utf-8")
    assert text == rules_file(shipped_dashboards()), "run `make dashboards`"


def test_rules_file_holds_the_same_rules_as_the_api() -> None:
    groups = yaml.safe_load(rules_file(shipped_dashboards()))["groups"]
    by_title = {group["title"]: group for group in rule_groups(shipped_dashboards(), 1, is_tenants=False)}
    assert [group["name"] for group in groups] == list(by_title)
    for group in groups:
        assert group["interval"] == duration(by_title[group["name"]]["interval"])
        for written, rule in zip(group["rules"], by_title[group["name"]]["rules"], strict=True):
            assert written == {name: rule[name] for name in rule if name not in {"folderUID", "ruleGroup"}}
