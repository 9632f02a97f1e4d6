"""A panel's query for grafana-clickhouse-datasource, as Grafana's own models of dashboards take it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Self

from grafana_foundation_sdk.cog import runtime
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.common import DataSourceRef

from prism_ch.assets import asset

PLUGIN = "grafana-clickhouse-datasource"
PLUGIN_VERSION = "4.20.0"
#: The plugin's numbers for what a query's rows become.
TIME_SERIES, TABLE = 0, 1

#: The variable by which each dashboard is told its data source.
DATASOURCE = DataSourceRef(type_val=PLUGIN, uid="${datasource}")


@dataclass(frozen=True, slots=True)
class Whose:
    """Conditions on the rows that a dashboard is about: `$__whose` in shared queries; and on those of no tenant too."""

    rows: str
    or_nobodys: str


def _only(condition: str) -> Whose:
    """Make no difference for rows of no tenant."""
    return Whose(condition, condition)


_ALL = _only("1 = 1")
_WHOSE = {
    "fleet": Whose(
        "$__conditionalAll(tenant IN (${tenant:sqlstring}), $tenant)",
        "$__conditionalAll(tenant IN ('', ${tenant:sqlstring}), $tenant)",
    ),
    "tenant": _only("tenant = ${tenant:sqlstring}"),
    "job": _only("job_id = ${job:sqlstring}"),
    "finding": _only(
        "job_id != '' AND job_id IN (SELECT job_id FROM diagnoses WHERE diagnosis_id = ${finding:sqlstring})"
        " AND diagnosis_id != ${finding:sqlstring}"
    ),
}


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
    """Builds the target of a query that stands in sql/dashboards/<name>.sql."""

    def __init__(self, name: str, result: int, ref_id: str = "A") -> None:
        kind = "timeseries" if result == TIME_SERIES else "table"
        self.query = ClickHouseQuery(sql(name), result, ref_id, queryType=kind)

    def build(self) -> ClickHouseQuery:
        """Return the target."""
        return self.query


def sql(name: str) -> str:
    """Return the query `name`, dashboard/what, without the comment that heads it."""
    dashboard, _ = name.split("/")
    query = "\n".join(line for line in _text(name).splitlines() if not line.startswith("--"))
    whose = _WHOSE.get(dashboard, _ALL)
    return query.replace("$__whose_or_nobodys", whose.or_nobodys).replace("$__whose", whose.rows)


def about(name: str) -> str:
    """Return the comment that heads a query, which describes the panel."""
    return " ".join(line.removeprefix("-- ") for line in _text(name).splitlines() if line.startswith("--"))


def _text(name: str) -> str:
    """Read sql/dashboards/<name>.sql or, where a dashboard asks what others ask too, that of the folder `shared`."""
    folder, what = name.split("/")
    own = asset(f"sql/dashboards/{folder}").joinpath(f"{what}.sql")
    return (own if own.is_file() else asset(f"sql/dashboards/shared/{what}.sql")).read_text(encoding="utf-8")


def register() -> None:
    """Tell the models how to read panels and this plugin's targets back from JSON."""
    register_default_plugins()
    runtime.Runtime().register_dataquery_variant(runtime.DataqueryConfig(PLUGIN, ClickHouseQuery.from_json))
