"""What can be wrong with a dashboard before any query is asked: places, links, variables, units, data sources."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from prism_ch.grafana.check.queries import queries

COLUMNS = 24
_LINK = re.compile(r"/d/[^\"\s]+")
# A variable in SQL: built-in ones and macros aside, it must say how it is quoted.
_VARIABLE = re.compile(r"\$(?!__)(?:(\w+)|\{(\w+)(?::(\w+))?\})")


def problems(uid: str, dashboards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with one of the dashboards, one line each."""
    dashboard = dashboards[uid]
    if dashboard["uid"] != uid:
        yield f"{uid}: its file is named after another uid than {dashboard['uid']!r}"
    for found in (*_places(dashboard["panels"]), *_panels(dashboard["panels"]), *_sources(dashboard)):
        yield f"{uid}: {found}"
    for found in (*_links(dashboard, dashboards), *_variables(uid, dashboard)):
        yield f"{uid}: {found}"


def _places(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield panels that lie on one another or reach out of the grid."""
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] < 0 or place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > COLUMNS:
            yield f"panel {panel['title']!r} reaches out of the {COLUMNS} columns"
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        if not (beside or above):
            yield f"panels {one['title']!r} and {other['title']!r} lie on one another"


def _panels(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield panels without number, title, description or query, and numbers or titles that are used twice."""
    for field in ("id", "title"):
        values = [panel.get(field) for panel in panels]
        yield from (f"the {field} {value!r} is used twice" for value in {v for v in values if values.count(v) > 1})
    for panel in panels:
        missing = [field for field in ("id", "title", "description", "targets") if not panel.get(field)]
        if missing:
            yield f"panel {panel.get('title')!r} has no {', no '.join(missing)}"


def _sources(value: Any) -> Iterator[str]:
    """Yield data sources other than the one that the dashboard's variable names."""
    if isinstance(value, dict):
        named = value.get("datasource")
        if isinstance(named, dict) and named.get("uid") != "${datasource}":
            yield f"names the data source {named.get('uid')} instead of ${{datasource}}"
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _sources(part)


def _links(dashboard: Mapping[str, Any], dashboards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield links to dashboards or variables that are not there."""
    for address in sorted(set(_LINK.findall(json.dumps(dashboard).replace('\\"', "'")))):
        parts = urlsplit(address)
        target = parts.path.split("/")[2]
        if target not in dashboards:
            yield f"a link leads to {target}, which is no dashboard"
            continue
        known = {variable["name"] for variable in dashboards[target]["templating"]["list"]}
        for name, _ in parse_qsl(parts.query):
            if name.startswith("var-") and name.removeprefix("var-") not in known:
                yield f"a link sets {name}, which {target} does not have"


def _variables(uid: str, dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Yield variables in queries that are not there, or are put into SQL without quotes."""
    known = {variable["name"] for variable in dashboard["templating"]["list"]}
    for query in queries(uid, dashboard):
        # The second argument of $__conditionalAll is a name and never becomes SQL.
        sql = re.sub(r",\s*\$\w+\)", ")", query.sql)
        for found in _VARIABLE.finditer(sql):
            name, style = found[1] or found[2], found[3]
            if name not in known:
                yield f"{query.place} uses ${name}, which is no variable of the dashboard"
            elif style != "sqlstring":
                yield f"{query.place} puts ${name} into SQL without quotes; write ${{{name}:sqlstring}}"
