"""The queries in dashboards, and what their panels expect of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_LABEL = re.compile(r"\$\{__field\.labels\.(\w+)\}")
_FIELD = re.compile(r'__data\.fields\["([^"]+)"\]')


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a dashboard: `kind` is a panel's type, "variable" or "annotation"; `named` the columns it must have.

    `states` are the numbers that its panel knows a text for.
    """

    dashboard: str
    place: str
    kind: str
    sql: str
    time_series: bool = False
    ref_id: str = "A"
    named: frozenset[str] = frozenset()
    states: frozenset[int] = frozenset()
    matrix: bool = False

    def __str__(self) -> str:
        """Name the place of the query."""
        return f"{self.dashboard}: {self.place}" + ("" if self.ref_id in {"A", "Anno"} else f" ({self.ref_id})")


def queries(uid: str, dashboard: Mapping[str, Any]) -> Iterator[Query]:
    """Yield all queries of a dashboard: of its variables, annotations and panels."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield Query(uid, f"variable {variable['name']}", "variable", variable["query"])
    for annotation in dashboard["annotations"]["list"]:
        if "target" in annotation:
            yield Query(uid, f"annotation {annotation['name']}", "annotation", annotation["target"]["rawSql"])
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield Query(
                uid,
                f"panel {panel['title']!r}",
                panel["type"],
                target["rawSql"],
                target["format"] == 0,
                target["refId"],
                frozenset(_named(panel)),
                frozenset(_states(panel)),
                any(step["id"] == "groupingToMatrix" for step in panel.get("transformations", ())),
            )


def choices(dashboard: Mapping[str, Any]) -> list[tuple[str, str, bool]]:
    """Return name, query and whether many may be chosen of each variable that a query fills."""
    listed = dashboard["templating"]["list"]
    return [(each["name"], each["query"], bool(each["multi"])) for each in listed if each["type"] == "query"]


def _named(panel: Mapping[str, Any]) -> Iterator[str]:
    """Yield the columns that a panel names: labels, overrides, and those that links and transformations use."""
    config = panel.get("fieldConfig", {"defaults": {}, "overrides": []})
    yield from _LABEL.findall(config["defaults"].get("displayName", ""))
    for step in panel.get("transformations", ()):
        yield from (step["options"][field] for field in ("rowField", "columnField", "valueField"))
    for override in config["overrides"]:
        if override["matcher"]["id"] == "byName" and "\\" not in override["matcher"]["options"]:
            yield override["matcher"]["options"]
        for setting in override["properties"]:
            if setting["id"] == "links":
                yield from _FIELD.findall(json.dumps(setting["value"]).replace('\\"', '"'))


def _states(panel: Mapping[str, Any]) -> Iterator[int]:
    """Yield the numbers for which a state timeline has a text."""
    if panel["type"] == "state-timeline":
        for mapping in panel["fieldConfig"]["defaults"]["mappings"]:
            yield from (int(number) for number in mapping["options"])
