"""What the database tells of the service: is it there, do the flows come, are the windows worked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from prism_ch.errors import PrismError, StoreError
from prism_ch.health.exporters import future_light, read_standings, silence_light
from prism_ch.health.light import Light, State
from prism_ch.pipeline import DEFAULT_PARAMS
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.ledger import due_windows
from prism_ch.store.migrate import require_schema
from prism_ch.store.statements import statement
from prism_ch.store.topology import topology_digest
from prism_ch.store.watermark import closed_until_ns

#: A part of the records that is rejected and no longer looks like an accident.
_REJECTED_SHARE = 0.01
#: So many closed windows are ordinary, while the newest are being worked.
_BEHIND_WARN, _BEHIND_BAD = 5, 60


def count_behind(store: Store, settings: Settings) -> int:
    """Count the windows that are closed and wait to be worked, new or changed."""
    inputs = topology_digest(store) ^ DEFAULT_PARAMS.digest()
    return len(due_windows(store, settings.window_s, until_ns=closed_until_ns(store, settings), inputs=inputs))


def service_lights(store: Store, settings: Settings) -> list[Light]:
    """Look at what a running service should see to: cheap enough for every few seconds."""
    lights = [schema_light(store)]
    if lights[0].state == "bad":
        return lights
    exporters = read_standings(store)
    return [
        *lights,
        silence_light(exporters, settings.serve.silent_after_s),
        future_light(exporters),
        _rejected_light(store),
        _windows_light(store),
        _behind_light(count_behind(store, settings)),
    ]


def schema_light(store: Store) -> Light:
    """Look whether the database answers and has this version's schema."""
    try:
        require_schema(store)
    except StoreError as error:
        return Light(
            "database", "bad", str(error), "if it is not reachable, start it; if its schema is old, `prism-ch migrate`"
        )
    return Light("database", "ok", f"{store} answers and has this version's schema")


def guarded(name: str, look: Callable[[], list[Light]], mend: str) -> list[Light]:
    """Return what a look finds, or that it failed and how to mend that."""
    try:
        return look()
    except (PrismError, OSError) as error:
        return [Light(name, "bad", str(error), mend)]


def _rejected_light(store: Store) -> Light:
    """Look how much can't be used."""
    name = "rejected records"
    records = dict(store.rows(statement("health_records")))
    total = sum(records.values())
    rejected = total - records.pop("", 0)
    if not rejected:
        return Light(name, "ok", f"none of {total:,}")
    reason = max(records, key=lambda each: records[each])
    what = f"{rejected:,} of {total:,}, most of them {reason}"
    if rejected <= _REJECTED_SHARE * total:
        return Light(name, "ok", what)
    return Light(name, "warn", what, f"look at some of them in flows_rejected, by reason = '{reason}'")


def _windows_light(store: Store) -> Light:
    """Look for windows whose working failed."""
    name = "windows"
    worked, failed, _, _, start_s, error, attempts = store.rows(statement("health_windows"))[0]
    if not failed:
        return Light(name, "ok", f"{worked:,} worked, none failed")
    start = datetime.fromtimestamp(start_s, UTC)
    what = f"the window of {start:%Y-%m-%d %H:%M:%S} UTC failed {attempts} times: {error}"
    mend = "mend what the error says; it is tried again by itself, and all that follows is worked again then"
    return Light(name, "bad", what, mend)


def _behind_light(behind: int) -> Light:
    """Look how many closed windows wait."""
    name = "windows behind"
    state: State = "ok" if behind <= _BEHIND_WARN else "warn" if behind <= _BEHIND_BAD else "bad"
    mend = "" if state == "ok" else "wait, if much has just landed; else give the service more cores, or longer windows"
    return Light(name, state, f"{behind:,} closed windows wait to be worked", mend)
