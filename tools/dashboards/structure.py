"""Checks a dashboard's JSON: panels, links, variables, data sources, units, and that Grafana's models can read it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from prism_ch.grafana.organisations import panels_of
from prism_ch.grafana.queries import queries
from tools.dashboards import palettes
from tools.dashboards.query import register
from tools.dashboards.written import as_json

COLUMNS = 24
#: Fields besides id and title of the panels that ask nothing, by type.
_NEEDED = {"row": ("panels",), "text": ("options",)}
_UNITS = frozenset(value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_"))
_LINK = re.compile(r"/d/[^\"\s]+")
# A variable in SQL. Other than macros it must have a format that quotes it.
_VARIABLE = re.compile(r"\$(?!__)(?:(\w+)|\{(\w+)(?::(\w+))?\})")


def problems(uid: str, dashboards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong with one of the dashboards, one line each."""
    dashboard = dashboards[uid]
    if dashboard["uid"] != uid:
        yield f"{uid}: its file is named after another uid than {dashboard['uid']!r}"
    checks = (
        _places(panels_of(dashboard)),
        _panels(panels_of(dashboard)),
        _sources(dashboard),
        _links(dashboard, dashboards),
        _variables(uid, dashboard),
        palettes.problems(dashboard),
        _model_differences(dashboard),
        (f"the unit {unit!r} is not one of Grafana's" for unit in sorted(_units(dashboard)) if not _is_unit(unit)),
    )
    yield from (f"{uid}: {problem}" for check in checks for problem in check)


def _places(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield panels that overlap or reach out of the grid."""
    for panel in panels:
        place = panel["gridPos"]
        if place["x"] < 0 or place["w"] < 1 or place["h"] < 1 or place["x"] + place["w"] > COLUMNS:
            yield f"panel {panel['title']!r} reaches out of the {COLUMNS} columns"
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        is_beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        is_above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        if not (is_beside or is_above):
            yield f"panels {one['title']!r} and {other['title']!r} lie on one another"


def _panels(panels: list[Mapping[str, Any]]) -> Iterator[str]:
    """Yield panels that lack a field, and ids and titles that are used twice."""
    for field in ("id", "title"):
        values = [panel.get(field) for panel in panels]
        yield from (f"the {field} {value!r} is used twice" for value in {v for v in values if values.count(v) > 1})
    for panel in panels:
        needed = _NEEDED.get(panel["type"], ("description", "targets"))
        missing = [field for field in ("id", "title", *needed) if not panel.get(field)]
        if missing:
            yield f"panel {panel.get('title')!r} has no {', no '.join(missing)}"


def _sources(value: Any) -> Iterator[str]:
    """Yield data sources other than the dashboard's variable."""
    if isinstance(value, dict):
        named = value.get("datasource")
        if isinstance(named, dict) and named.get("uid") != "${datasource}":
            yield f"names the data source {named.get('uid')} instead of ${{datasource}}"
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _sources(part)


def _links(dashboard: Mapping[str, Any], dashboards: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield links to dashboards or variables that don't exist."""
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
    """Yield variables in queries that don't exist, or are put into SQL without quotes."""
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


def _model_differences(dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Yield what changes if Grafana's own models read the dashboard and write it again."""
    register()
    try:
        again = as_json(Dashboard.from_json(dict(dashboard)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"the models of grafana-foundation-sdk can't read it: {type(error).__name__}: {error}"
        return
    yield from (f"the models of grafana-foundation-sdk change {path}" for path in _differences(dashboard, again))


def _differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Yield the places where two JSON values differ."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differences(one.get(key), other.get(key), f"{path}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for place, (left, right) in enumerate(zip(one, other, strict=True)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif one != other:
        yield path or "all of it"


def _is_unit(name: str) -> bool:
    return name in _UNITS or name.startswith(("suffix:", "prefix:"))


def _units(value: Any) -> set[str]:
    """Return the units that a JSON value names, of defaults, cells and overrides."""
    if isinstance(value, list):
        return set().union(*map(_units, value))
    if not isinstance(value, dict):
        return set()
    own = {value["unit"]} if isinstance(value.get("unit"), str) else set()
    if value.get("id") == "unit":
        own.add(value["value"])
    return own.union(*map(_units, value.values()))
