"""What all dashboards have in common: readers, variables, annotations, links, rows of panels."""

from __future__ import annotations

from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.models import dashboard as model

from prism_ch.grafana.alerts import DATASOURCE_UID
from tools.dashboards.fields import AMBER, GREY, RED
from tools.dashboards.query import DATASOURCE, PLUGIN, TABLE, Target, sql

#: Tags for the readers of a dashboard; a tenant's organisation has those of "tenants".
OPERATORS, TENANTS = "operators", "tenants"

#: Time spans to mark in all panels of a dashboard: their query and colour.
ANNOTATIONS = {
    "Incidents": ("annotate_incidents", AMBER),
    "Restarts": ("annotate_restarts", GREY),
    "Incident": ("annotate", RED),
    "Failed windows": ("annotate_failed", RED),
}


def page(name: str, title: str, question: str, readers: tuple[str, ...]) -> Dashboard:
    """Begin a dashboard that answers one question, and asks no database."""
    board = Dashboard(f"prism: {title}").uid(f"prism-{name}").description(question).tags(["prism", *readers])
    links = build.DashboardLink("prism").type(model.DashboardLinkType.DASHBOARDS).tags(["prism"])
    board = board.timezone("utc").readonly().link(links.as_dropdown(True).keep_time(True))
    return board.variables([]).annotations([])


def begin(
    name: str, title: str, question: str, readers: tuple[str, ...], since: str, marks: tuple[str, ...]
) -> Dashboard:
    """Begin a dashboard that answers one question from the database.

    Parameters: `since`, where its time range begins; `marks`, names of ANNOTATIONS.
    """
    board = (
        page(name, title, question, readers)
        .time(since, "now")
        .refresh("1m")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .with_variable(
            build.DatasourceVariable("datasource")
            .label("Data source")
            .type(PLUGIN)
            .current(model.VariableOption(text=DATASOURCE_UID, value=DATASOURCE_UID))
        )
    )
    for annotation in marks:
        query, color = ANNOTATIONS[annotation]
        marked = build.AnnotationQuery().name(annotation).datasource(DATASOURCE).enable(True).icon_color(color)
        board = board.annotation(marked.target(Target(f"{name}/{query}", TABLE, "Anno")))
    return board


def with_panels(board: Dashboard, *panels: Builder[model.Panel]) -> Dashboard:
    """Add panels, which fill rows of 24 columns from left to right."""
    for each in panels:
        board = board.with_panel(each)
    return board


def folded(board: Dashboard, title: str, *panels: Builder[model.Panel]) -> Dashboard:
    """Add panels in a row that is closed at first. Nobody waits for them unasked."""
    row = build.Row(title)
    for each in panels:
        row = row.with_panel(each)
    return board.with_row(row)


def choice(name: str, label: str, query: str) -> build.QueryVariable:
    """Return a variable with one value.

    Its query offers the chosen value too, wherever the range is: Grafana takes the first of the list for a value that
    is not offered.
    """
    return _variable(name, label, query)


def choices(name: str, label: str, query: str) -> build.QueryVariable:
    """Return a variable with any number of values, all of them at first."""
    everything = model.VariableOption(text="All", value="$__all")
    return _variable(name, label, query).multi(True).include_all(True).current(everything)


def _variable(name: str, label: str, query: str) -> build.QueryVariable:
    variable = build.QueryVariable(name).label(label).datasource(DATASOURCE).query(sql(query))
    return variable.refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED).sort(model.VariableSort.DISABLED)
