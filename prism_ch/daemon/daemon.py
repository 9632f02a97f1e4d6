"""Runs the schedule with APScheduler, also when the clock is set or a task hangs."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from prism_ch.cluster.choice import chosen_executor
from prism_ch.daemon.health import HealthMonitor
from prism_ch.daemon.lateness import Lateness
from prism_ch.daemon.spool import Spool
from prism_ch.daemon.tasks import TASKS, Schedule, Task, TaskContext, TaskRunner, TaskState
from prism_ch.daemon.watch import Watch
from prism_ch.settings import Settings
from prism_ch.store.client import Store, connect
from prism_ch.store.kept_memory import KeptMemory
from prism_ch.store.migrate import require_schema

log = logging.getLogger(__name__)

#: How often the clock is checked, in seconds.
_CLOCK_CHECK_S = 0.5
#: A smaller change of the clock's offset, in seconds, is the ordinary steering by NTP.
CLOCK_JUMP_S = 2.0


class Daemon:
    """The service: one thread for each task, woken by the schedule.

    The constructor raises SettingsError if the spool can't be used, StoreError if the database can't be reached or has
    another version's schema, ClusterError if Dask is needed and not installed. While the service runs, such errors make
    tasks rest and try again.
    """

    def __init__(self, settings: Settings, schedule: Schedule, tasks: Mapping[str, Task] = TASKS) -> None:
        self._settings = settings
        self._stopping = threading.Event()
        self._opened = ExitStack()
        with ExitStack() as opened:
            # Kept open: this process holds the folder of an embedded engine as long as it has a connection.
            store = opened.enter_context(connect(settings.url))
            require_schema(store)
            spool = None if settings.serve.spool is None else Spool(settings.serve.spool)
            if spool is not None:
                opened.callback(spool.close)
            self._executor = opened.enter_context(chosen_executor(settings.analysis))
            self._opened = opened.pop_all()
        self._spool = spool
        self._lateness, self._watch = Lateness(), Watch()
        self._kept = KeptMemory(settings.analysis.pushdown)
        self._database = str(store)
        self.health = HealthMonitor(settings, spool, self.states, lambda: connect(settings.url))
        self._runners = [
            TaskRunner(name, tasks[name], plan, schedule, self._context) for name, plan in schedule.task.items()
        ]
        self._scheduler = _scheduler(schedule, self._runners)

    def states(self) -> list[TaskState]:
        """Return the state of each task."""
        return [runner.state for runner in self._runners]

    def stop(self) -> None:
        """Ask the service to stop; may be called from any thread or signal handler."""
        self._stopping.set()

    def run(self) -> bool:
        """Serve until stop(); return whether all tasks then ended within the grace period."""
        self._scheduler.start()
        spool = "" if self._spool is None else str(self._spool.folder)
        log.info("serving database=%r spool=%r", self._database, spool)
        watch = ClockWatch()
        while not self._stopping.wait(_CLOCK_CHECK_S):
            jump_s = watch.jump_s()
            if jump_s:
                # The scheduler waits for times of day, and would wait on after the clock was set back.
                log.warning("clock was set by_s=%.1f; all tasks are woken", jump_s)
                self.wake()
        return self._shut_down()

    def wake(self) -> None:
        """Wake all tasks now; their ticks are counted from here on."""
        for job in self._scheduler.get_jobs():
            job.modify(next_run_time=datetime.now(UTC))

    def _shut_down(self) -> bool:
        self._scheduler.shutdown(wait=False)
        deadline_s = time.monotonic() + self._settings.serve.grace_s
        while (running := self._running()) and time.monotonic() < deadline_s:
            time.sleep(0.05)
        if running:
            log.warning("tasks abandoned tasks=%s; what they were at is done again", ",".join(running))
            return False
        for runner in self._runners:
            runner.close()
        self._opened.close()
        log.info("stopped")
        return True

    def _running(self) -> list[str]:
        return [state.name for state in self.states() if state.running_s is not None]

    def _context(self, store: Store | None) -> TaskContext:
        connection = connect(self._settings.url) if store is None else store
        return TaskContext(
            store=connection,
            settings=self._settings,
            spool=self._spool,
            stopping=self._stopping.is_set,
            write_health=self.health.write,
            compare_rows=self.health.compare_rows,
            lateness=self._lateness,
            watch=self._watch,
            kept=self._kept,
            executor=self._executor,
        )


class ClockWatch:
    """Detects that the clock was set, by comparing it with one that nobody sets."""

    def __init__(self, clock: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._steady = steady
        self._offset_s = clock() - steady()

    def jump_s(self) -> float:
        """Return by how many seconds the clock was set since the last call."""
        offset_s = self._clock() - self._steady()
        jump_s = offset_s - self._offset_s
        self._offset_s = offset_s
        return jump_s if abs(jump_s) > CLOCK_JUMP_S else 0.0


def _scheduler(schedule: Schedule, runners: list[TaskRunner]) -> BackgroundScheduler:
    """Make the scheduler. A task has a thread, and catches up with missed ticks in one run."""
    # APScheduler warns at each tick that finds its task still running, which is ordinary here.
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
