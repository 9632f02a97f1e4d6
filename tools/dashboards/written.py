"""Writes a dashboard's models as JSON that every Grafana can draw."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

#: What the models add to each link and panel. A link with a placement is in no dropdown where Grafana knows the field,
#: and a panel that repeats to the side is as wide as the page, even if it does not repeat.
_ADDED = {("placement", "inControlsMenu"), ("repeatDirection", "h")}


def as_json(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard as JSON holds it, without what the models add and misleads."""
    found: dict[str, Any] = _plain(json.loads(json.dumps(dashboard, cls=JSONEncoder)))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _plain(each) for key, each in value.items() if not isinstance(each, str) or (key, each) not in _ADDED}
