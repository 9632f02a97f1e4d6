"""Whether the dashboards that tenants get show a tenant anything of another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from prism_ch.grafana.check.ask import Asked, ask, chosen, used, ways
from prism_ch.grafana.check.queries import queries
from prism_ch.grafana.macros import Span
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def for_tenants(dashboard: Mapping[str, Any]) -> bool:
    """Tell whether tenants get the dashboard too."""
    return "tenants" in dashboard["tags"]


def all_of(store: Store, uid: str, dashboard: Mapping[str, Any], span: Span) -> Iterator[Asked]:
    """Ask every query as each tenant, for its own and for another's values of the variables; yield what came of it."""
    names: dict[str, set[str]] = {tenant: set(found) for tenant, found in store.rows(statement("tenants_names"))}
    everything = chosen(store, dashboard, span)
    for tenant in sorted(names.keys() - {"nobody"}):
        others = set().union(*(found for owner, found in names.items() if owner != tenant)) - names[tenant]
        own = chosen(store, dashboard, span, tenant)
        strange = {name: [value for value in values if value not in own[name]] for name, values in everything.items()}
        for query in queries(uid, dashboard):
            usual, foreign = (next(ways(dashboard, offered)) for offered in (own, strange))
            for variables in (usual, foreign) if used(query, usual) else (usual,):
                asked = ask(store, query, span, variables, tenant=tenant)
                seen = others & {str(value) for row in (asked.frame.rows if asked.frame else ()) for value in row}
                leaks = tuple(f"shows {tenant} what is another's: {name}" for name in sorted(seen)[:3])
                yield replace(asked, problems=asked.problems + leaks)
