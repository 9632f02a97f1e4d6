"""What all dashboards have in common: uid, time, variables, annotations, and links to one another."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from prism_ch.grafana.dashboards.fields import ORANGE, PURPLE, RED
from prism_ch.grafana.dashboards.query import DATASOURCE, PLUGIN, TABLE, Target, sql

#: Whom a dashboard is for; a tenant's organisation gets those of "tenants".
OPERATORS, TENANTS = "operators", "tenants"


def dashboard(
    name: str, title: str, question: str, audience: tuple[str, ...], since: str = "now-6h"
) -> build.Dashboard:
    """Begin a dashboard that answers one question."""
    return (
        build.Dashboard(f"prism: {title}")
        .uid(f"prism-{name}")
        .description(question)
        .tags(["prism", *audience])
        .timezone("browser")
        .time(since, "now")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .readonly()
        .with_variable(build.DatasourceVariable("datasource").label("Data source").type(PLUGIN))
        .link(
            build.DashboardLink("prism")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags(["prism"])
            .as_dropdown(True)
            .keep_time(True)
        )
    )


def with_panels(board: build.Dashboard, *panels: Builder[model.Panel]) -> build.Dashboard:
    """Add panels, which fill rows of 24 columns from left to right."""
    for panel in panels:
        board = board.with_panel(panel)
    return board


def choose(name: str, label: str, query: str, *, several: bool = False) -> build.QueryVariable:
    """Return a variable whose values a query gives; with `several` it may take many, and All at first."""
    variable = (
        build.QueryVariable(name)
        .label(label)
        .datasource(DATASOURCE)
        .query(sql(query))
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.DISABLED)
        .multi(several)
        .include_all(several)
    )
    return variable.current(model.VariableOption(text="All", value="$__all")) if several else variable


def annotation(name: str, query: str) -> build.AnnotationQuery:
    """Return spans of time to mark in all panels."""
    color = {"Restarts": PURPLE, "Failed windows": RED, "Finding": RED}.get(name, ORANGE)
    return (
        build.AnnotationQuery()
        .name(name)
        .datasource(DATASOURCE)
        .enable(True)
        .icon_color(color)
        .target(Target(query, TABLE, "Anno"))
    )
