"""Grafana dashboards as code: `python -m prism_ch.grafana.dashboards dashboards` writes what the repository holds."""

from __future__ import annotations

import json
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from prism_ch.grafana.dashboards.finding import finding
from prism_ch.grafana.dashboards.fleet import fleet
from prism_ch.grafana.dashboards.job import job
from prism_ch.grafana.dashboards.network import network
from prism_ch.grafana.dashboards.pipeline import pipeline
from prism_ch.grafana.dashboards.tenant import tenant


def dashboards() -> dict[str, str]:
    """Return the text of every dashboard's file, by its uid."""
    built = [make().build() for make in (fleet, tenant, job, finding, network, pipeline)]
    for each in built:
        for number, panel in enumerate(each.panels or (), start=1):
            panel.id_val = number
    return {str(each.uid): as_text(each) for each in built}


def as_text(dashboard: Any) -> str:
    """Write a dashboard, or what its JSON holds, as its file has it."""
    return json.dumps(dashboard, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
