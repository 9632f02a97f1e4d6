"""The alert rules as Grafana's API takes them, with the reason for each number.

Their queries are in sql/alerts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Literal

from prism_ch.assets import asset
from prism_ch.grafana.annotations import (
    CULPRIT_PAGES,
    INCIDENT_PAGES,
    RANGE,
    SERVICE_PAGES,
    TEXTS,
    Page,
    dashboard_url,
    if_rows,
    pages_in,
    runbook_url,
    text,
)

DATASOURCE_UID = "prism"
DATASOURCE_TYPE = "grafana-clickhouse-datasource"
#: uid and title. Alert rules need a folder of their own: from provisioning files Grafana makes it by title alone, under
#: another uid than that of the dashboards' folder.
ALERT_FOLDER = ("prism-alerts", "prism alerts")
#: Group of the rules that tenants have too, and of the others: title, and seconds between evaluations.
JOB_GROUP = ("prism jobs", 30)
PIPELINE_GROUP = ("prism pipeline", 60)

# Grafana adds these to a query that lacks them.
_QUERY_DEFAULTS = {"intervalMs": 1000, "maxDataPoints": 43_200}

#: State of an alert whose query returns no row.
NoDataState = Literal["OK", "Alerting", "NoData"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert rule: each row of its query is an alert.

    A row has a number `value` to compare, and columns of text: those of `texts`, which notifications show, and labels,
    which tell alerts apart.
    """

    #: Name of the query's file in sql/alerts, and the end of the rule's uid.
    name: str
    title: str
    #: The rule fires if the number has been above this for `lasting_s`.
    above: float
    #: How far back the query looks, in seconds.
    range_s: int
    #: Whether tenants have the rule too, on their own rows.
    is_for_tenants: bool
    #: What a notification leads to: the first that fits.
    pages: tuple[Page, ...]
    #: Grafana's templates of its texts; those that need a row are empty without.
    summary: str
    description: str
    #: Columns of text that may change while the alert lasts, besides the time range.
    texts: tuple[str, ...] = ()
    #: The summary where the texts are missing for a moment.
    otherwise: str = ""
    #: Labels of the alerts, also of the one for missing data; empty if the query returns them.
    kind: str = ""
    severity: Literal["", "warning", "critical"] = ""
    lasting_s: int = 0
    no_data: NoDataState = "OK"

    @property
    def uid(self) -> str:
        """Uid of the rule, the same in each organisation."""
        return f"prism-{self.name.replace('_', '-')}"

    @property
    def sql(self) -> str:
        """The query, with the plugin's macros and without its header comment."""
        lines = asset(f"sql/alerts/{self.name}.sql").read_text(encoding="utf-8").splitlines()
        first = next(number for number, line in enumerate(lines) if not line.startswith("--"))
        return "\n".join(lines[first:])

    @property
    def queries(self) -> dict[str, str]:
        """SQL by name in templates. A has labels and the number to judge, TEXTS the texts as well."""
        texts = ", ".join((*RANGE, *self.texts))
        return {"A": f"SELECT * EXCEPT ({texts})\nFROM\n(\n{indent(self.sql, '    ')}\n)", TEXTS: self.sql}


ALERTS = (
    Alert(
        name="incident",
        title="Incident",
        # What it costs has already been judged: the query returns those of warning or worse.
        above=0,
        # The jobs of an incident that is neither updated nor closed for a day are gone.
        range_s=86_400,
        is_for_tenants=True,
        pages=INCIDENT_PAGES,
        texts=("sentence", "action", "lost_gpu_h"),
        summary=f"{{{{ {text('sentence')} }}}}",
        otherwise="{{ .Labels.place }} is to blame ({{ .Labels.kind }})",
        description=(
            f"{{{{ {text('action')} }}}} It has cost {{{{ {text('lost_gpu_h')} }}}} GPU-hours so far"
            '{{ if eq .Labels.job "several" }} of several jobs'
            "{{ else if .Labels.job }} of job {{ .Labels.job }}{{ end }}. The confidence in who is to blame is"
            " {{ .Labels.confidence }}: its page says what it rests on."
        ),
    ),
    Alert(
        name="culprit_persisting",
        title="Culprit persists",
        severity="warning",
        # Minutes. Half an hour of a day is more than congestion and restarts of neighbours cause on healthy hardware.
        above=30,
        range_s=86_400,
        is_for_tenants=True,
        pages=CULPRIT_PAGES,
        texts=("host", "incident", "incident_from_ms", "incident_to_ms", "action"),
        summary=(
            "{{ .Labels.place }} has been to blame for {{ humanize .Values.A.Value }} minutes of the last day"
            " ({{ .Labels.kind }})"
        ),
        description=(
            "Several incidents of warning or worse named it in the last day, one of them within the last hour. "
            f"{{{{ {text('action')} }}}}"
        ),
    ),
    Alert(
        name="exporter_silent",
        title="Exporter silent",
        kind="exporter_silent",
        severity="warning",
        # Seconds. Well beyond the longest usual active timeout (60 s) and the time that windows wait for it (120 s).
        above=300,
        # The service records its measures every 15 seconds.
        range_s=600,
        # Either no service runs, for which the rule on the pipeline fires, or records name no exporter.
        no_data="OK",
        is_for_tenants=False,
        pages=SERVICE_PAGES,
        summary="Nothing has come from exporter {{ .Labels.exporter }} for {{ humanizeDuration .Values.A.Value }}",
        description=(
            "What crosses it is not seen: steps and findings of jobs behind it are missing or late. After a day of "
            "silence it counts as removed. Those that fell silent together have one alert: look at their collector "
            "first. What an open incident names has no alert here."
        ),
    ),
    Alert(
        name="pipeline_behind",
        title="Pipeline behind",
        kind="pipeline_behind",
        severity="critical",
        # Windows. Up to five wait while the newest are analysed.
        above=5,
        # Most backfills take less.
        lasting_s=900,
        range_s=600,
        # No service has recorded its measures for 10 minutes: none runs, or none reaches the database.
        no_data="Alerting",
        is_for_tenants=False,
        pages=SERVICE_PAGES,
        summary="The analysis is behind or has stopped; results are missing or old",
        description=(
            "Closed windows wait for longer than they should, or `prism-ch serve` has not noted its health for 10 "
            "minutes. `prism-ch doctor` says what is amiss."
        ),
    ),
    Alert(
        name="rejects_rising",
        title="Rejected records rising",
        kind="rejects_rising",
        severity="warning",
        # The share of records above which `prism-ch doctor` warns.
        above=0.01,
        # The last quarter of an hour, and the day before it to compare with.
        range_s=90_000,
        # Either no record was ever rejected, or no service runs, for which the rule on the pipeline fires.
        no_data="OK",
        is_for_tenants=False,
        pages=SERVICE_PAGES,
        summary="{{ humanizePercentage .Values.A.Value }} of the records are rejected: {{ .Labels.reason }}",
        description=(
            "Of the last quarter of an hour, and more than twice the share of the day before. `flows_rejected` holds "
            "the records."
        ),
    ),
)


def alerts_of(*, is_tenants: bool) -> list[Alert]:
    """Return the rules of a tenant's organisation, or all of them for operators."""
    return [alert for alert in ALERTS if alert.is_for_tenants or not is_tenants]


def rule_groups(
    dashboards: Mapping[str, Mapping[str, Any]], organisation: int, *, is_tenants: bool
) -> list[dict[str, Any]]:
    """Return the rule groups of one organisation.

    Parameters: its dashboards by uid, to which rules link, and its id in Grafana.
    Raises GrafanaError if a dashboard to link to, or a variable or panel of it, is missing.
    """
    groups = []
    for (title, interval_s), is_for_tenants in ((JOB_GROUP, True), (PIPELINE_GROUP, False)):
        alerts = [each for each in alerts_of(is_tenants=is_tenants) if each.is_for_tenants == is_for_tenants]
        if alerts:
            rules = [_rule(alert, title, _links(alert, dashboards, organisation)) for alert in alerts]
            groups.append({"title": title, "folderUid": ALERT_FOLDER[0], "interval": interval_s, "rules": rules})
    return groups


def duration(seconds: int) -> str:
    """Write a duration as Grafana does: hours, minutes or seconds without a remainder."""
    for unit, length_s in (("h", 3600), ("m", 60)):
        if seconds and seconds % length_s == 0:
            return f"{seconds // length_s}{unit}"
    return f"{seconds}s"


def _labels(alert: Alert) -> dict[str, str]:
    """Return the labels of a rule.

    A label of the rule would hide one that the query returns.
    """
    labels = {"severity": alert.severity, "source": "prism-ch", "kind": alert.kind}
    return {name: text for name, text in labels.items() if text}


def _links(alert: Alert, dashboards: Mapping[str, Mapping[str, Any]], organisation: int) -> dict[str, str]:
    """Return the templates of a rule's links. They lead to the alert's page and to what to do."""
    return {
        "dashboard_url": dashboard_url(pages_in(alert.pages, dashboards), organisation),
        "runbook_url": runbook_url(alert.title, dashboards, organisation),
    }


def _rule(alert: Alert, group: str, links: Mapping[str, str]) -> dict[str, Any]:
    return {
        "uid": alert.uid,
        "title": alert.title,
        "folderUID": ALERT_FOLDER[0],
        "ruleGroup": group,
        "condition": "B",
        "data": [*_queries(alert), _threshold(alert.above)],
        "for": duration(alert.lasting_s),
        "noDataState": alert.no_data,
        "execErrState": "Error",
        "labels": _labels(alert),
        "annotations": {
            "summary": if_rows(alert.summary, alert.otherwise),
            "description": if_rows(alert.description),
            **links,
        },
    }


def _queries(alert: Alert) -> list[dict[str, Any]]:
    """Return a rule's queries. Grafana takes one number a row, and all else as labels."""
    return [
        {
            "refId": name,
            "queryType": "table",
            "relativeTimeRange": {"from": alert.range_s, "to": 0},
            "datasourceUid": DATASOURCE_UID,
            "model": {
                "refId": name,
                "datasource": {"type": DATASOURCE_TYPE, "uid": DATASOURCE_UID},
                "editorType": "sql",
                "queryType": "table",
                "format": 1,
                "rawSql": sql,
                **_QUERY_DEFAULTS,
            },
        }
        for name, sql in alert.queries.items()
    ]


def _threshold(above: float) -> dict[str, Any]:
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
