"""Whether dashboards are what Grafana's own models of them say; needs grafana-foundation-sdk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.dashboard import Dashboard

from prism_ch.grafana.dashboards.query import register

_UNITS = frozenset(value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_"))


def problems(uid: str, dashboard: Mapping[str, Any]) -> Iterator[str]:
    """Yield where a dashboard read into the models and written again is another, and units unknown to Grafana."""
    register()
    try:
        again = json.loads(json.dumps(Dashboard.from_json(dict(dashboard)), cls=JSONEncoder))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        yield f"{uid}: the models of grafana-foundation-sdk can't read it: {type(error).__name__}: {error}"
        return
    yield from (f"{uid}: the models of grafana-foundation-sdk change {path}" for path in _differences(dashboard, again))
    for unit in sorted(_units(dashboard)):
        if unit not in _UNITS and not unit.startswith(("suffix:", "prefix:")):
            yield f"{uid}: the unit {unit!r} is not one of Grafana's"


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


def _units(value: Any) -> set[str]:
    """Return all units named in a JSON value: of defaults, cell values and overrides."""
    if isinstance(value, list):
        return set().union(*map(_units, value))
    if not isinstance(value, dict):
        return set()
    own = {value["unit"]} if isinstance(value.get("unit"), str) else set()
    if value.get("id") == "unit":
        own.add(value["value"])
    return own.union(*map(_units, value.values()))
