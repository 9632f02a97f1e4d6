"""Writes alert rules as Grafana's provisioning API takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prism_ch.errors import GrafanaError
from prism_ch.grafana.alerts import ALERTS, Alert

DATASOURCE_UID = "prism"
DATASOURCE_TYPE = "grafana-clickhouse-datasource"
#: uid and title. Rules have a folder apart: from files Grafana makes it by title alone, and would clash with the
#: dashboards' own.
ALERT_FOLDER = ("prism-alerts", "prism alerts")
#: Group of the rules that tenants have too, and of the others: title, and seconds between evaluations.
JOB_GROUP = ("prism jobs", 30)
PIPELINE_GROUP = ("prism pipeline", 60)

# What Grafana puts into a query that does not say.
_QUERY_DEFAULTS = {"intervalMs": 1000, "maxDataPoints": 43_200}


def rule_groups(dashboards: Mapping[str, Mapping[str, Any]], *, tenant: bool) -> list[dict[str, Any]]:
    """Return the groups of rules of one organisation; `dashboards` by uid, for the panels that rules link to."""
    groups = []
    for (title, interval_s), is_for_tenants in ((JOB_GROUP, True), (PIPELINE_GROUP, False)):
        if tenant and not is_for_tenants:
            continue
        alerts = [alert for alert in ALERTS if alert.is_for_tenants == is_for_tenants]
        rules = [_rule(alert, title, dashboards) for alert in alerts]
        groups.append({"title": title, "folderUid": ALERT_FOLDER[0], "interval": interval_s, "rules": rules})
    return groups


def panel_id(dashboards: Mapping[str, Mapping[str, Any]], uid: str, title: str) -> int:
    """Return the number of a dashboard's panel by its title, also of one in a row.

    Raises GrafanaError where there is not exactly one.
    """
    panels = [
        inner for panel in dashboards.get(uid, {}).get("panels", ()) for inner in (panel, *panel.get("panels", ()))
    ]
    found = [panel.get("id") for panel in panels if panel.get("title") == title]
    if len(found) != 1 or found[0] is None:
        raise GrafanaError(f"dashboard {uid} has no single, numbered panel titled {title}, to which an alert links")
    return int(found[0])


def duration(seconds: int) -> str:
    """Write a duration as Grafana does, in the largest unit that divides it."""
    for unit, length_s in (("h", 3600), ("m", 60)):
        if seconds and seconds % length_s == 0:
            return f"{seconds // length_s}{unit}"
    return f"{seconds}s"


def _rule(alert: Alert, group: str, dashboards: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write one rule."""
    return {
        "uid": alert.uid,
        "title": alert.title,
        "folderUID": ALERT_FOLDER[0],
        "ruleGroup": group,
        "condition": "B",
        "data": [_query(alert), _threshold(alert.above)],
        "for": duration(alert.lasting_s),
        "noDataState": alert.no_data,
        "execErrState": "Error",
        "labels": {"severity": alert.severity, "source": "prism-ch", **({"kind": alert.kind} if alert.kind else {})},
        "annotations": {
            "summary": alert.summary,
            "description": alert.description,
            "__dashboardUid__": alert.dashboard,
            "__panelId__": str(panel_id(dashboards, alert.dashboard, alert.panel)),
        },
    }


def _query(alert: Alert) -> dict[str, Any]:
    """Write the query of a rule: a table, of which each row becomes an alert."""
    return {
        "refId": "A",
        "queryType": "table",
        "relativeTimeRange": {"from": alert.range_s, "to": 0},
        "datasourceUid": DATASOURCE_UID,
        "model": {
            "refId": "A",
            "datasource": {"type": DATASOURCE_TYPE, "uid": DATASOURCE_UID},
            "editorType": "sql",
            "queryType": "table",
            "format": 1,
            "rawSql": alert.sql,
            **_QUERY_DEFAULTS,
        },
    }


def _threshold(above: float) -> dict[str, Any]:
    """Write the condition: the query's number is above a threshold."""
    return {
        "refId": "B",
        "queryType": "",
        "relativeTimeRange": {"from": 0, "to": 0},
        "datasourceUid": "__expr__",
        "model": {
            "refId": "B",
            "type": "threshold",
            "datasource": {"type": "__expr__", "uid": "__expr__"},
            "expression": "A",
            "conditions": [{"type": "query", "evaluator": {"type": "gt", "params": [above]}}],
            **_QUERY_DEFAULTS,
        },
    }
