"""Checks and measures the running service: its tasks, its machine, and the database."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock, Thread

from prism_ch.daemon.spool import Spool
from prism_ch.daemon.tasks import TaskState
from prism_ch.errors import PrismError
from prism_ch.health.checks import Check, Measure, check_machine, check_service, guarded, measure_database, write_health
from prism_ch.health.integrity import check_rows
from prism_ch.settings import Settings
from prism_ch.store.client import Store

#: This many failures in a row are no accident.
_FAILURES_BAD = 3
#: How long a request waits for the database, in seconds.
_TIMEOUT_S = 5.0
#: Where rows were gone, they are looked for again after this long, in seconds.
_COMPARE_AGAIN_S = 60.0


class HealthMonitor:
    """Checks and measures the service.

    Parameters: `states` returns the states of the tasks, `open_store` opens a connection.
    """

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
        self._pending: Future[list[Check]] | None = None
        self._rows: Sequence[Check] = ()
        self._compared_s = 0.0
        self._process = f"{socket.gethostname()}:{os.getpid()}"

    def checks(self) -> list[Check]:
        """Run all checks; a database that does not answer in time is a bad one."""
        database = guarded("database", self._check_database, "start the database; the service goes on by itself")
        return [*self._check_process(), *database, *self._rows]

    def measures(self) -> list[Measure]:
        """Take all measures; those of the database are left out if it does not answer."""
        measures = self._measure_process()
        try:
            with self._open_store() as store:
                measures += measure_database(store, self._settings)
        except PrismError:
            return [*measures, Measure("database_up", "", 0)]
        return [*measures, Measure("database_up", "", 1)]

    def write(self, store: Store) -> int:
        """Write checks and measures to the database; return 0, as a task without units."""
        if any(check.state == "bad" for check in self._rows) and time.monotonic() > self._compared_s + _COMPARE_AGAIN_S:
            self.compare_rows(store)  # so that what was mended is well before the next tick of that task
        checks = [*self._check_process(), *check_service(store, self._settings), *self._rows]
        measures = [*self._measure_process(), *measure_database(store, self._settings), Measure("database_up", "", 1)]
        write_health(store, self._process, checks, measures)
        return 0

    def compare_rows(self, store: Store) -> int:
        """Compare ledgers with the rows that are there, for later checks. Returns 0, as a task without units."""
        self._rows = check_rows(store, self._settings)
        self._compared_s = time.monotonic()
        return 0

    def _check_process(self) -> list[Check]:
        machine = guarded("machine", lambda: check_machine(self._settings), "give the service rights on its folders")
        kept_back = {} if self._spool is None else self._spool.kept_back()
        return [*map(_check_task, self._states()), *_check_kept_back(kept_back), *machine]

    def _check_database(self) -> list[Check]:
        """Check the database in a thread, or wait for an earlier check that still runs."""
        with self._lock:
            if self._pending is None or self._pending.done():
                self._pending = Future()
                Thread(target=self._run_check, args=(self._pending,), name="health", daemon=True).start()
            pending = self._pending
        try:
            return pending.result(_TIMEOUT_S)
        except TimeoutError:
            what = f"has not answered for {_TIMEOUT_S:.0f} s"
            return [Check("database", "bad", what, "see whether it works hard or hangs")]

    def _run_check(self, pending: Future[list[Check]]) -> None:
        try:
            with self._open_store() as store:
                pending.set_result(check_service(store, self._settings))
        except Exception as error:  # noqa: BLE001 - raised by result()
            pending.set_exception(error)

    def _measure_process(self) -> list[Measure]:
        resident_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        measures = [Measure("memory_bytes", "", resident_pages * os.sysconf("SC_PAGE_SIZE"))]
        if self._spool is not None:
            with contextlib.suppress(OSError):  # the check of the spool is bad then
                measures.append(Measure("spool_files", "", len(self._spool.waiting())))
        for state in self._states():
            values = {
                "task_failures": state.failures,
                "task_running_seconds": state.running_s or 0.0,
                "task_units_total": state.units,
                "task_success_time_seconds": state.last_success_s,
                "task_failure_time_seconds": state.last_failure_s,
            }
            measures += [Measure(name, state.name, value) for name, value in values.items() if value is not None]
        return measures


def _check_kept_back(reasons: Mapping[str, str]) -> list[Check]:
    """Check that no file stays in the spool though it was tried."""
    if not reasons:
        return []
    name, reason = next(iter(reasons.items()))
    what = f"{len(reasons):,} files were tried and are still there: {name!r}: {reason}"
    return [Check("files kept back", "warn", what, "mend what it says; they are tried again by themselves")]


def _check_task(state: TaskState) -> Check:
    name = f"task {state.name}"
    if state.is_hung:
        what = f"has been at work for {state.running_s:,.0f} s; the others go on"
        return Check(name, "bad", what, "see the log and the load of the machine; restarting the service loses nothing")
    if state.failures:
        what = f"failed {state.failures} times in a row: {state.error}"
        mend = "mend what the error says; it is tried again by itself"
        return Check(name, "bad" if state.failures >= _FAILURES_BAD else "warn", what, mend)
    if state.last_success_s is None:
        what = "has not been woken yet" if state.running_s is None else "is at work for the first time"
        return Check(name, "ok", what)
    return Check(name, "ok", f"went well at {datetime.fromtimestamp(state.last_success_s, UTC):%H:%M:%S} UTC")
