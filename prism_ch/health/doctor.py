"""Looks at everything once: configuration, database, topology, exporters, spool, disk."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from prism_ch.errors import SettingsError, StoreError
from prism_ch.health.database import guarded, service_lights
from prism_ch.health.exporters import exporter_lights
from prism_ch.health.light import Light, State
from prism_ch.health.machine import machine_lights
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.statements import statement


def examine(
    load: Callable[[], Settings],
    load_schedule: Callable[[Settings], object],
    open_store: Callable[[], AbstractContextManager[Store]],
) -> list[Light]:
    """Look at everything, as far as what comes first allows.

    Parameters: `load` reads the settings, `load_schedule` the schedule they name, either may raise SettingsError;
    `open_store` opens the database they name.
    """
    try:
        settings = load()
        load_schedule(settings)
    except SettingsError as error:
        return [Light("configuration", "bad", str(error), "mend the file, the environment or the option it names")]
    lights = [Light("configuration", "ok", "settings and schedule can be read")]
    try:
        with open_store() as store:
            lights += guarded("database", lambda: _look(store, settings), "see whether the database works or hangs")
    except SettingsError as error:
        lights.append(Light("database", "bad", str(error), "mend --url or PRISM_CH_URL"))
    except StoreError as error:
        lights.append(Light("database", "bad", str(error), "start the database, or mend --url or PRISM_CH_URL"))
    else:
        lights += guarded("machine", lambda: machine_lights(settings), "give the user rights on the folders")
    return lights


def _look(store: Store, settings: Settings) -> list[Light]:
    """Look at all that the database tells."""
    lights = service_lights(store, settings)
    return lights if lights[0].state == "bad" else [*lights, _topology_light(store), *exporter_lights(store)]


def _topology_light(store: Store) -> Light:
    """Look whether the topology is there and covers what flows show."""
    name = "topology"
    endpoints, seen, unknown, unknown_flows, flows, examples = store.rows(statement("doctor_topology"))[0]
    if not endpoints:
        return Light(name, "bad", "none is loaded, so no job can be found", "`prism-ch topology topology.csv`")
    if not unknown:
        return Light(
            name, "ok", f"{endpoints:,} endpoints, {seen:,} of them seen in flows; it covers all addresses seen"
        )
    share = unknown_flows / flows
    what = f"{unknown:,} addresses in flows are not in it ({', '.join(examples)}): {share:.1%} of the records"
    state: State = "bad" if not seen else "warn"
    return Light(name, state, what, "add the GPUs among them to topology.csv and load it again; others may stay out")
