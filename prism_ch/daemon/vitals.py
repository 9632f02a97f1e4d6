"""What the service knows of its own health while it runs."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from threading import Lock, Thread

from prism_ch.daemon.runner import TaskState
from prism_ch.daemon.spool import Spool
from prism_ch.errors import PrismError
from prism_ch.health.database import guarded, service_lights
from prism_ch.health.light import Light
from prism_ch.health.machine import machine_lights, memory_bytes
from prism_ch.health.measures import Measure, database_measures, write_health
from prism_ch.settings import Settings
from prism_ch.store.client import Store

#: So many failures in a row are no longer an accident.
_FAILURES_BAD = 3
#: Whoever asks for the health waits no longer for the database, in seconds.
_PATIENCE_S = 5.0


class Vitals:
    """Looks at tasks, machine and database; `states` tells how the tasks stand, `open_store` gives a connection."""

    def __init__(
        self,
        settings: Settings,
        spool: Spool | None,
        states: Callable[[], Sequence[TaskState]],
        open_store: Callable[[], Store],
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._states = states
        self._open_store = open_store
        self._lock = Lock()
        self._look: Future[list[Light]] | None = None
        self.process = f"{socket.gethostname()}:{os.getpid()}"

    def lights(self) -> list[Light]:
        """Look at everything; what the database does not tell is a light too."""
        return [
            *self._inside(),
            *guarded("database", self._in_database, "start the database; the service goes on by itself"),
        ]

    def measures(self) -> list[Measure]:
        """Measure everything; what only the database knows is left out where it does not answer."""
        measures = list(self._own_measures())
        try:
            with self._open_store() as store:
                measures += database_measures(store, self._settings)
        except PrismError:
            return [*measures, Measure("database_up", "", 0)]
        return [*measures, Measure("database_up", "", 1)]

    def note(self, store: Store) -> int:
        """Note lights and measures in the database."""
        lights = [*self._inside(), *service_lights(store, self._settings)]
        measures = [*self._own_measures(), *database_measures(store, self._settings), Measure("database_up", "", 1)]
        write_health(store, self.process, lights, measures)
        return 0

    def _inside(self) -> list[Light]:
        """Look at the tasks and the machine."""
        machine = guarded("machine", lambda: machine_lights(self._settings), "give the service rights on its folders")
        return [*map(_task_light, self._states()), *machine]

    def _in_database(self) -> list[Light]:
        """Look at what the database tells; a look that still goes on is waited for, and no second one begun."""
        with self._lock:
            if self._look is None or self._look.done():
                self._look = Future()
                Thread(target=self._look_into, args=(self._look,), name="health", daemon=True).start()
            look = self._look
        try:
            return look.result(_PATIENCE_S)
        except TimeoutError:
            what = f"has not answered for {_PATIENCE_S:.0f} s"
            return [Light("database", "bad", what, "see whether it works hard or hangs")]

    def _look_into(self, look: Future[list[Light]]) -> None:
        """Look at what the database tells, over a connection of its own."""
        try:
            with self._open_store() as store:
                look.set_result(service_lights(store, self._settings))
        except Exception as error:  # noqa: BLE001 - raised where the result is asked for
            look.set_exception(error)

    def _own_measures(self) -> list[Measure]:
        """Measure the process, the spool and the tasks."""
        measures = [Measure("memory_bytes", "", memory_bytes())]
        if self._spool is not None:
            with contextlib.suppress(OSError):  # then the light of the spool is red
                measures.append(Measure("spool_files", "", len(self._spool.waiting())))
        for state in self._states():
            measures += [
                Measure("task_failures", state.name, state.failures),
                Measure("task_running_seconds", state.name, state.running_s or 0.0),
                Measure("task_units_total", state.name, state.units),
            ]
            times = {
                "task_success_time_seconds": state.last_success_s,
                "task_failure_time_seconds": state.last_failure_s,
            }
            measures += [Measure(name, state.name, time_s) for name, time_s in times.items() if time_s is not None]
        return measures


def _task_light(state: TaskState) -> Light:
    """Look at one task."""
    name = f"task {state.name}"
    if state.is_hung:
        what = f"has been at work for {state.running_s:,.0f} s; the others go on"
        return Light(name, "bad", what, "see the log and the load of the machine; restarting the service loses nothing")
    if state.failures:
        what = f"failed {state.failures} times in a row: {state.error}"
        mend = "mend what the error says; it is tried again by itself"
        return Light(name, "bad" if state.failures >= _FAILURES_BAD else "warn", what, mend)
    if state.last_success_s is None:
        return Light(
            name, "ok", "has not been woken yet" if state.running_s is None else "is at work for the first time"
        )
    return Light(name, "ok", f"went well at {datetime.fromtimestamp(state.last_success_s, UTC):%H:%M:%S} UTC")
