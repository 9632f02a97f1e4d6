"""The queries of panels, variables and annotations, in the form of grafana-clickhouse-datasource."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from grafana_foundation_sdk.cog import runtime
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

from prism_ch.assets import asset
from tools.dashboards import fields

PLUGIN = "grafana-clickhouse-datasource"
PLUGIN_VERSION = "4.20.0"
#: The plugin's numbers for what a query's rows become.
TIME_SERIES, TABLE = 0, 1

#: Each dashboard has a variable for its data source.
DATASOURCE = DataSourceRef(type_val=PLUGIN, uid="${datasource}")


#: Condition on a dashboard's rows, for `$__whose` in the queries that dashboards share.
_CONDITIONS = {
    "fleet": "$__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)",
    "tenant": "tenant = ${tenant:sqlstring}",
    "job": "job_id = ${job:sqlstring}",
    "incident": "job_id IN (SELECT arrayJoin(jobs) FROM incidents WHERE incident_id IN (${incident:sqlstring}))",
    "host": "job_id IN (SELECT job_id FROM job_members WHERE server IN (${host:sqlstring}))",
}
#: The same of incidents, for `$__whose_incidents`; those of no tenant are everybody's business on the fleet's.
_CONDITIONS_ON_INCIDENTS = {
    "fleet": "$__conditionalAll((empty(tenants) OR hasAny(tenants, [${tenant:sqlstring}])), $tenant)",
    "tenant": "has(tenants, ${tenant:sqlstring})",
    "job": "has(jobs, ${job:sqlstring})",
    "incident": (
        "hasAny(jobs, (SELECT groupArrayArray(jobs) FROM incidents WHERE incident_id IN (${incident:sqlstring})))"
        " AND incident_id NOT IN (${incident:sqlstring})"
    ),
    "host": (
        "hasAny(arrayConcat(splitByString('->', subject), may_also_be), arrayConcat([${host:sqlstring}],"
        " (SELECT groupUniqArray(endpoint) FROM topology WHERE server IN (${host:sqlstring}))))"
    ),
    "network": "kind IN ('slow_switch', 'slow_nic', 'slow_link', 'congestion', 'slow_group')",
}
#: A kind in words, for `$__kind_text(column)`.
_KIND_TEXT = f"transform({{0}}::String, {[*fields.KINDS]}, {[*fields.KINDS.values()]}, {{0}}::String)"
#: The same with the rows of no tenant, for `$__whose_or_nobodys`, where that is another condition.
_CONDITIONS_OR_NOBODYS = {"fleet": "$__conditionalAll(tenant IN ('', ${tenant:sqlstring}), $tenant)"}


@dataclass(frozen=True, slots=True)
class ClickHouseQuery(Dataquery):
    """One target of a panel."""

    rawSql: str  # noqa: N815 - the plugin's names
    format: int
    refId: str = "A"  # noqa: N815
    editorType: str = "sql"  # noqa: N815
    queryType: str = "table"  # noqa: N815
    pluginVersion: str = PLUGIN_VERSION  # noqa: N815
    datasource: dict[str, str] = field(default_factory=lambda: {"type": PLUGIN, "uid": "${datasource}"})

    def to_json(self) -> dict[str, Any]:
        """Return the target as the dashboard's JSON holds it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Read a target; raises TypeError where a field is missing or unknown."""
        return cls(**data)


class Target(Builder[ClickHouseQuery]):
    """Builds the target of the query sql/dashboards/<name>.sql."""

    def __init__(self, name: str, result: int, ref_id: str = "A") -> None:
        kind = "timeseries" if result == TIME_SERIES else "table"
        self.query = ClickHouseQuery(sql(name), result, ref_id, queryType=kind)

    def build(self) -> ClickHouseQuery:
        """Return the target."""
        return self.query


def sql(name: str) -> str:
    """Return the query of a name, dashboard/query, without its header comment."""
    dashboard, _ = name.split("/")
    query = _stripped(_text(name))
    condition = _CONDITIONS.get(dashboard, "1 = 1")
    query = query.replace("$__whose_incidents", _CONDITIONS_ON_INCIDENTS.get(dashboard, "1 = 1"))
    query = query.replace("$__whose_or_nobodys", _CONDITIONS_OR_NOBODYS.get(dashboard, condition))
    query = query.replace("$__whose", condition).replace("$__of_incident", _stripped(_text("parts/of_incident")))
    return re.sub(r"\$__kind_text\(([\w.]+)\)", lambda found: _KIND_TEXT.format(found[1]), query)


def _stripped(text: str) -> str:
    """Return a query without its header comment."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("--"))


def about(name: str) -> str:
    """Return the header comment of a query, which describes its panel."""
    return " ".join(line.removeprefix("-- ") for line in _text(name).splitlines() if line.startswith("--"))


def _text(name: str) -> str:
    """Read sql/dashboards/<name>.sql, or the query of several dashboards in sql/dashboards/shared."""
    folder, what = name.split("/")
    own = asset(f"sql/dashboards/{folder}").joinpath(f"{what}.sql")
    return (own if own.is_file() else asset(f"sql/dashboards/shared/{what}.sql")).read_text(encoding="utf-8")


def register() -> None:
    """Register the plugin's targets, so that models can be read from JSON."""
    register_default_plugins()
    runtime.Runtime().register_dataquery_variant(runtime.DataqueryConfig(PLUGIN, ClickHouseQuery.from_json))
