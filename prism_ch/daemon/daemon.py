"""Wires the schedule to APScheduler, and sees to it that neither a clock that is set nor a task that hangs stops it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from prism_ch.daemon.clock import ClockWatch
from prism_ch.daemon.runner import TaskRunner, TaskState
from prism_ch.daemon.schedule import Schedule
from prism_ch.daemon.spool import Spool
from prism_ch.daemon.tasks import TASKS, Shift, Task
from prism_ch.daemon.vitals import Vitals
from prism_ch.settings import Settings
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import require_schema

log = logging.getLogger(__name__)

_LOOK_S = 0.5


class Daemon:
    """The service: one thread a task, woken by the schedule.

    Raises, when it is made, SettingsError where the spool can't be used, StoreError where the database can't be reached
    or has another version's schema. Once it runs, both are waited for.
    """

    def __init__(self, settings: Settings, schedule: Schedule, tasks: Mapping[str, Task] = TASKS) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._opened = ExitStack()
        with ExitStack() as opened:
            # Kept open: as long as one connection is, the folder of an embedded engine is this process's.
            store = opened.enter_context(connect(settings.url))
            require_schema(store)
            spool = None if settings.serve.spool is None else Spool(settings.serve.spool)
            if spool is not None:
                opened.callback(spool.close)
            self._opened = opened.pop_all()
        self._spool = spool
        self._where = str(store)
        self.vitals = Vitals(settings, spool, self.states, lambda: connect(settings.url))
        self._runners = [
            TaskRunner(name, tasks[name], plan, schedule, self._begin) for name, plan in schedule.task.items()
        ]
        self._scheduler = _scheduler(schedule, self._runners)

    def states(self) -> list[TaskState]:
        """Tell how each task stands."""
        return [runner.state for runner in self._runners]

    def stop(self) -> None:
        """Ask the service to come to an end; may be called from anywhere, also from a signal's handler."""
        self._stopping.set()

    def run(self) -> bool:
        """Serve until asked to stop; return whether all tasks then ended by themselves, within the time of grace."""
        self._scheduler.start()
        log.info("serving database=%r spool=%r", self._where, "" if self._spool is None else str(self._spool.folder))
        watch = ClockWatch()
        while not self._stopping.wait(_LOOK_S):
            jump_s = watch.jump_s()
            if jump_s:
                log.warning("clock was set by_s=%.1f; all tasks are woken", jump_s)
                self.wake()
        return self._end()

    def wake(self) -> None:
        """Wake all tasks now, and from then on in their rhythm."""
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))

    def _end(self) -> bool:
        """Wake nobody any more, and wait for a while for those at work."""
        self._scheduler.shutdown(wait=False)
        deadline = time.monotonic() + self._settings.serve.grace_s
        while (busy := self._busy()) and time.monotonic() < deadline:
            time.sleep(0.05)
        if busy:
            log.warning("tasks abandoned tasks=%s; what they were at is done again", ",".join(busy))
            return False
        for runner in self._runners:
            runner.close()
        self._opened.close()
        log.info("stopped")
        return True

    def _busy(self) -> list[str]:
        """Name the tasks that are at work."""
        return [state.name for state in self.states() if state.running_s is not None]

    def _begin(self, store: Store | None) -> Shift:
        """Give a task what it needs, and a new connection where it has none."""
        connected = connect(self._settings.url) if store is None else store
        return Shift(connected, self._settings, self._spool, self._stopping.is_set, self.vitals.note)


def _scheduler(schedule: Schedule, runners: list[TaskRunner]) -> BackgroundScheduler:
    """Make the scheduler: each task has a thread, runs once at a time, and catches up with missed ticks in one."""
    # That a tick finds its task still at work is ordinary, and told at each.
    logging.getLogger("apscheduler").setLevel(logging.ERROR)
    scheduler = BackgroundScheduler(
        timezone=UTC,
        executors={"default": ThreadPoolExecutor(len(runners))},
        job_defaults={"max_instances": 1, "coalesce": True, "misfire_grace_time": schedule.misfire_grace_s},
    )
    for runner in runners:
        name = runner.state.name
        every_s = schedule.task[name].every_s
        scheduler.add_job(runner, "interval", seconds=every_s, id=name, name=name, next_run_time=datetime.now(UTC))
    return scheduler
