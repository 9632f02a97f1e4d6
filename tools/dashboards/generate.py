"""Writes the dashboards' JSON, and the alert rules as a provisioning file: `python -m tools.dashboards.generate`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from prism_ch.grafana.alerts import ALERT_FOLDER, duration, rule_groups
from tools.dashboards.boards import fleet, incident, job, tenant
from tools.dashboards.places import host, network, service
from tools.dashboards.runbook import runbook
from tools.dashboards.written import as_json

_RULES_HEADER = """\
# The alert rules of the operators' organisation, for file provisioning. Made by `make dashboards` from sql/alerts and
# prism_ch/grafana/alerts.py, which gives the reason for each number; don't edit.
"""


#: The organisation of file provisioning, by its id in Grafana.
_FIRST = 1


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines, which are SQL, as blocks."""


_Dumper.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None),
)


def dashboards() -> dict[str, str]:
    """Return the JSON of every dashboard, by uid."""
    built = [make().build() for make in (fleet, tenant, job, incident, host, network, service, runbook)]
    for each in built:
        # Rows have numbers too, and panels inside them.
        inner = (one for panel in each.panels or () for one in (panel, *(getattr(panel, "panels", None) or ())))
        for number, panel in enumerate(inner, start=1):
            panel.id_val = number
    return {str(each.uid): json.dumps(as_json(each), indent=2, sort_keys=True) + "\n" for each in built}


def rules_file(boards: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the operators' alert rules as a provisioning file.

    Parameters: `boards`, the dashboards by uid.
    """
    groups = [
        {
            "orgId": _FIRST,
            "name": group["title"],
            "folder": ALERT_FOLDER[1],
            "interval": duration(group["interval"]),
            "rules": [_rule(rule) for rule in group["rules"]],
        }
        for group in rule_groups(boards, _FIRST, is_tenants=False)
    ]
    return _RULES_HEADER + yaml.dump({"apiVersion": 1, "groups": groups}, Dumper=_Dumper, sort_keys=False, width=120)


def write(folder: Path) -> None:
    """Bring a folder's prism-*.json and provisioning/alerting/prism.yaml up to date."""
    made = dashboards()
    for path in folder.glob("prism-*.json"):
        if path.stem not in made:
            path.unlink()
    for uid, text in made.items():
        (folder / f"{uid}.json").write_text(text, encoding="utf-8")
    rules = folder / "provisioning" / "alerting" / "prism.yaml"
    rules.parent.mkdir(parents=True, exist_ok=True)
    rules.write_text(rules_file({uid: json.loads(text) for uid, text in made.items()}), encoding="utf-8")


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule in the file's form, without group."""
    return {name: value for name, value in rule.items() if name not in {"folderUID", "ruleGroup"}}


if __name__ == "__main__":
    write(Path(sys.argv[1]))
