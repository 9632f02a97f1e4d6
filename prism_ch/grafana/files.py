"""Writes the alert rules for file provisioning, as `python -m prism_ch.grafana.files`; needs PyYAML, as tests do."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import yaml

from prism_ch.grafana.rules import ALERT_FOLDER, duration, rule_groups
from prism_ch.grafana.wanted import shipped_dashboards

_HEADER = """\
# The alert rules of the operators' organisation, for file provisioning. Made by `make dashboards` from sql/alerts and
# prism_ch/grafana/alerts.py, which gives the reason for each number; don't edit.
"""


class _Writer(yaml.SafeDumper):
    """Writes texts of several lines as such: they are SQL."""


def _text(writer: _Writer, text: str) -> yaml.ScalarNode:
    """Return a text as YAML has it."""
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Writer.add_representer(str, _text)


def alert_file(dashboards: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the file: the same rules as the API gets, under the names that files have for things."""
    groups = [
        {
            "orgId": 1,
            "name": group["title"],
            "folder": ALERT_FOLDER[1],
            "interval": duration(group["interval"]),
            "rules": [_rule(rule) for rule in group["rules"]],
        }
        for group in rule_groups(dashboards, tenant=False)
    ]
    return _HEADER + yaml.dump({"apiVersion": 1, "groups": groups}, Dumper=_Writer, sort_keys=False, width=120)


def _rule(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return one rule as a file has it: without its place, which the group says, and with its panel as fields too."""
    notes = rule["annotations"]
    kept = {name: value for name, value in rule.items() if name not in {"folderUID", "ruleGroup"}}
    return {**kept, "dashboardUid": notes["__dashboardUid__"], "panelId": int(notes["__panelId__"])}


if __name__ == "__main__":
    sys.stdout.write(alert_file(shipped_dashboards()))
