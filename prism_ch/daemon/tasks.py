"""What the schedule can name: each task does what there is to do, and returns how much that was."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from prism_ch.daemon.spool import Spool
from prism_ch.pipeline import analyse
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.ledger import new_from_ns
from prism_ch.store.prune import prune
from prism_ch.store.retention import settle
from prism_ch.store.watermark import closed_until_ns, silent_until_ns

#: A task lets go after so long, in seconds, and takes up the rest at its next tick.
_TURN_S = 30.0


@dataclass(frozen=True, slots=True)
class Shift:
    """What a task is given: a connection of its own, the settings, the spool where there is one.

    `stopping` tells whether the service is coming to an end; `note_health` notes in the database how it stands.
    """

    store: Store
    settings: Settings
    spool: Spool | None
    stopping: Callable[[], bool]
    note_health: Callable[[Store], int]

    def until_tired(self) -> Callable[[], bool]:
        """Return what tells a task, from now on, to leave the rest for its next tick."""
        began = time.monotonic()
        return lambda: self.stopping() or time.monotonic() - began > _TURN_S


Task = Callable[[Shift], int]


def land_spool(shift: Shift) -> int:
    """Land the files in the spool; return how many."""
    return 0 if shift.spool is None else shift.spool.land(shift.store, shift.until_tired())


def clean_spool(shift: Shift) -> int:
    """Remove old files from the spool's folder done; return how many."""
    return 0 if shift.spool is None else shift.spool.clean(shift.settings.serve.keep_done_days)


def analyse_closed(shift: Shift) -> int:
    """Work the windows that have closed since the newest one that was worked or given up; return how many."""
    return _analyse(shift, new_from_ns(shift.store, shift.settings.window_s))


def analyse_changed(shift: Shift) -> int:
    """Work all windows that are new or have changed; return how many."""
    return _analyse(shift, None)


def _analyse(shift: Shift, from_ns: int | None) -> int:
    """Work what is due from a time on, up to the watermark."""
    report = analyse(
        shift.store,
        shift.settings,
        from_ns=from_ns,
        until_ns=closed_until_ns(shift.store, shift.settings),
        silent_until_ns=silent_until_ns(shift.store, shift.settings),
        stop=shift.until_tired(),
    )
    return len(report.windows)


def keep_retention(shift: Shift) -> int:
    """See to it that tables drop their rows when these are old enough, and prune; return how many were pruned."""
    settle(shift.store)
    return prune(shift.store, shift.until_tired())


#: By the names that a schedule uses.
TASKS: Mapping[str, Task] = {
    "land_spool": land_spool,
    "clean_spool": clean_spool,
    "analyse": analyse_closed,
    "reanalyse": analyse_changed,
    "retention": keep_retention,
    "note_health": lambda shift: shift.note_health(shift.store),
}
