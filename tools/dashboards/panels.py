"""The kinds of panel in the dashboards; the query of each is in sql/dashboards."""

from __future__ import annotations

import json
import re
from typing import TypeVar
from urllib.parse import quote

from grafana_foundation_sdk.builders import bargauge, common, heatmap, nodegraph, stat, statetimeline, table, timeseries
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import heatmap as heat_options

from tools.dashboards import fields
from tools.dashboards.fields import AMBER, BLUE, Columns, Property
from tools.dashboards.query import DATASOURCE, PLUGIN, TABLE, TIME_SERIES, Target, about, sql

Step = tuple[float | None, str]
_Panel = TypeVar(
    "_Panel",
    timeseries.Panel,
    stat.Panel,
    table.Panel,
    heatmap.Panel,
    statetimeline.Panel,
    bargauge.Panel,
    nodegraph.Panel,
)


def numbers_now(
    title: str,
    name: str,
    width: int,
    *,
    unit_name: str = "short",
    steps: tuple[Step, ...] = ((None, BLUE),),
    columns: Columns | None = None,
    height: int = 4,
) -> stat.Panel:
    """Show the columns of one row as large numbers, coloured by thresholds."""
    panel = _stat(options.BigValueColorMode.VALUE).unit(unit_name).thresholds(fields.thresholds(*steps))
    return _framed(_with_columns(panel, columns), title, name, width, height, TABLE)


def text_now(title: str, name: str, width: int, *, columns: Columns | None = None, height: int = 4) -> stat.Panel:
    """Show the columns of one row as texts and numbers."""
    panel = _stat(options.BigValueColorMode.NONE)
    return _framed(_with_columns(panel, columns), title, name, width, height, TABLE)


def lines(
    title: str,
    name: str,
    width: int,
    unit_name: str,
    *,
    stacked: bool = False,
    bars: bool = False,
    columns: Columns | None = None,
) -> timeseries.Panel:
    """Show columns over time as lines, stacked areas or bars. Each has a colour of its own in `columns`, else blue."""
    panel = (
        timeseries.Panel()
        .unit(unit_name)
        .draw_style(options.GraphDrawStyle.BARS if bars else options.GraphDrawStyle.LINE)
        .line_width(1)
        .show_points(options.VisibilityMode.AUTO)
        .fill_opacity(60 if stacked else 0)
        .legend(_legend())
        .tooltip(common.VizTooltipOptions().mode(options.TooltipDisplayMode.MULTI).sort(options.SortOrder.DESCENDING))
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("A"))
    panel = panel.color_scheme(build.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(BLUE))
    return _framed(_with_columns(panel, columns), title, name, width, 8, TIME_SERIES)


def limits(panel: timeseries.Panel, *steps: Step) -> timeseries.Panel:
    """Draw thresholds as dashed lines."""
    dashed = common.GraphThresholdsStyleConfig().mode(options.GraphThresholdsStyleMode.DASHED)
    return panel.thresholds(fields.thresholds(*steps)).thresholds_style(dashed)


def rows(title: str, name: str, width: int, columns: Columns, *, height: int = 8, nothing: str = "") -> table.Panel:
    """Show a table, or the text `nothing` where it has no rows."""
    panel = table.Panel().show_header(True).cell_height(options.TableCellHeight.SM)
    panel = panel.no_value(nothing) if nothing else panel
    return _framed(_with_columns(panel, columns), title, name, width, height, TABLE)


def matrix(
    title: str,
    name: str,
    width: int,
    axes: tuple[str, str, str],
    unit_name: str,
    cells: list[Property],
    *,
    first: int = 110,
) -> table.Panel:
    """Show one coloured value for each row and column.

    Parameters: `axes`, the columns for row, column and value; `first`, pixels for the rows' names.
    """
    row, column, value = axes
    turned = model.DataTransformerConfig(
        id_val="groupingToMatrix",
        options={"columnField": column, "rowField": row, "valueField": value, "emptyValue": "null"},
    )
    panel = table.Panel().show_header(True).cell_height(options.TableCellHeight.SM).with_transformation(turned)
    panel = panel.override_by_field_type("number", [*fields.unit(unit_name, 0), *fields.least(64), *cells])
    panel = panel.override_by_name(f"{row}\\{column}", fields.width(first))
    return _framed(panel, title, name, width, 10, TABLE)


def explorable(panel: table.Panel, name: str) -> table.Panel:
    """Link a panel to Grafana's Explore, with its query."""
    asked = {"refId": "A", "rawSql": sql(name), "editorType": "sql", "queryType": "table", "format": TABLE}
    source = {"type": PLUGIN, "uid": "${datasource}"}
    pane = {"datasource": "${datasource}", "queries": [{**asked, "datasource": source}]}
    panes = json.dumps({"prism": {**pane, "range": {"from": "${__from}", "to": "${__to}"}}})
    # Grafana fills in variables of an address only where they are not encoded.
    parts = [part if part.startswith("${") else quote(part) for part in re.split(r"(\$\{[^}]*\})", panes)]
    link = build.DashboardLink("Open in Explore").type(model.DashboardLinkType.LINK).target_blank(True)
    return panel.links([link.url(f"/explore?schemaVersion=1&panes={''.join(parts)}")])


def ranking(title: str, name: str, width: int, unit_name: str) -> bargauge.Panel:
    """Show one bar a row, of a text and a number."""
    panel = (
        bargauge.Panel()
        .unit(unit_name)
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
        .reduce_options(_last().values(True).fields(""))  # numbers; of texts it would draw bars, too
        .min(0)
        .color_scheme(build.FieldColor().mode(model.FieldColorModeId.FIXED).fixed_color(BLUE))
    )
    return _framed(panel, title, name, width, 8, TABLE)


def heat_map(
    title: str,
    name: str,
    width: int,
    unit_name: str,
    *,
    label: str,
    top: float,
    height: int = 10,
) -> heatmap.Panel:
    """Show a value over time, by label, in colours.

    They go from the panel's own at 0 to amber at `top`: quiet to loud in dark and light, for the colour-blind too.
    """
    colors = (
        heatmap.HeatmapColorOptions()
        .mode(heat_options.HeatmapColorMode.OPACITY)
        .fill(AMBER)
        .min(0)
        .max(top)
        .exponent(0.5)
    )
    panel = (
        heatmap.Panel()
        .calculate(False)
        .color(colors)
        .cell_gap(0)
        .filter_values(heatmap.FilterValueRange().le(-1e9))
        .cell_values(heatmap.CellValues().unit(unit_name))
        .rows_frame(heatmap.RowsHeatmapOptions().layout(options.HeatmapCellLayout.AUTO).value("value"))
        .display_name(f"${{__field.labels.{label}}}")
        .unit(unit_name)
    )
    return _framed(panel, title, name, width, height, TIME_SERIES)


def states(
    title: str, name: str, width: int, label: str, texts: dict[int, tuple[str, str]], *, height: int = 8
) -> statetimeline.Panel:
    """Show states over time, a row for each value of a label. `texts` names the numbers of states."""
    panel = (
        statetimeline.Panel()
        .span_nulls(True)
        .mappings(fields.numbers(texts))
        .show_value(options.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.85)
        .fill_opacity(85)
        .line_width(0)
        .legend(_legend())
        .display_name(f"${{__field.labels.{label}}}")
    )
    return _framed(panel, title, name, width, height, TIME_SERIES)


def graph(title: str, nodes: str, edges: str, width: int, *, height: int = 12) -> nodegraph.Panel:
    """Show a graph of nodes and edges."""
    panel = nodegraph.Panel().title(title).description(f"{about(nodes)} {about(edges)}").datasource(DATASOURCE)
    panel = panel.with_target(Target(nodes, TABLE, "nodes")).with_target(Target(edges, TABLE, "edges"))
    return panel.span(width).height(height)


def _framed(panel: _Panel, title: str, name: str, width: int, height: int, result: int) -> _Panel:
    """Give a panel its title, size, query and, from the query's comment, its description."""
    panel = panel.title(title).description(about(name)).datasource(DATASOURCE).with_target(Target(name, result))
    return panel.span(width).height(height)


def _with_columns(panel: _Panel, columns: Columns | None) -> _Panel:
    for name, properties in (columns or {}).items():
        panel = panel.override_by_name(name, properties)
    return panel


def _stat(color: options.BigValueColorMode) -> stat.Panel:
    panel = stat.Panel().color_mode(color).graph_mode(options.BigValueGraphMode.NONE)
    return panel.text_mode(options.BigValueTextMode.VALUE_AND_NAME).reduce_options(_last())


def _legend() -> common.VizLegendOptions:
    legend = common.VizLegendOptions().display_mode(options.LegendDisplayMode.LIST)
    return legend.placement(options.LegendPlacement.BOTTOM).show_legend(True)


def _last() -> common.ReduceDataOptions:
    """Take the last value of each column, texts too."""
    return common.ReduceDataOptions().calcs(["lastNotNull"]).fields("/.*/").values(False)
