"""Who analyses a window: claims that no two workers hold at once, void once their holder has died.

On a server a worker records a heartbeat every 15 seconds; a claim without one for CLAIM_TIMEOUT_S is void. The embedded
engine serves one process, which knows its own workers.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from prism_ch.errors import ClaimedError, StoreError
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

#: A claim on a server is void after so long without a heartbeat, in seconds.
CLAIM_TIMEOUT_S = 60
_HEARTBEAT_INTERVAL_S = CLAIM_TIMEOUT_S / 4
#: An analysis that takes longer hangs, and no longer keeps others from a window, in seconds.
_MAX_ANALYSIS_S = 3600

_PROCESS = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
_LAST_REVISION = 2**64 - 1
_numbers = count(1)
_workers: set[str] = set()


@contextmanager
def new_worker(store: Store) -> Iterator[str]:
    """Name a worker whose claims hold while the block runs, and at most CLAIM_TIMEOUT_S longer."""
    worker = f"{_PROCESS}/{next(_numbers)}"
    _workers.add(worker)
    try:
        if store.embedded:
            yield worker
        else:
            with _heartbeat(store, worker):
                yield worker
    finally:
        _workers.discard(worker)


def refuse_claimed(store: Store, worker: str, *, until: int = _LAST_REVISION, is_shared: bool = False) -> None:
    """Raise ClaimedError if another worker holds a claim on any window.

    Each window goes on from the one before, so two workers can't share them out.

    Parameters: `until`, the last revision whose claims count; `is_shared`, another worker is known to have claimed the
    same revision.
    """
    key = {"timeout_s": _MAX_ANALYSIS_S if store.embedded else CLAIM_TIMEOUT_S, "worker": worker}
    claims = store.rows(statement("open_claims"), key)
    holders = [
        holder for revision, holder in claims if revision <= until and _is_alive(holder, embedded=store.embedded)
    ]
    if holders or is_shared:
        who = f" ({holders[0]})" if holders else ""
        raise ClaimedError(
            f"{store} is being analysed by another process at this moment{who}; let one of the two do it"
        )


def end_claim(store: Store, revision: int, worker: str) -> None:
    """Record that the analysis of a claimed window has ended, whether or not it succeeded."""
    store.command(statement("end_claim"), {"revision": revision, "worker": worker})


def _is_alive(worker: str, *, embedded: bool) -> bool:
    """Check whether a worker with an open claim is alive. Other processes can't be with an embedded engine."""
    return worker in _workers if worker.startswith(f"{_PROCESS}/") else not embedded


@contextmanager
def _heartbeat(store: Store, worker: str) -> Iterator[None]:
    """Record heartbeats for a worker's newest claim while a block runs, then end the claim."""
    stopped = threading.Event()

    def record(*, ended: int = 0) -> None:
        try:
            with store.another() as connection:
                connection.command(statement("heartbeat"), {"worker": worker, "ended": ended})
        except StoreError as error:
            log.warning("heartbeat not recorded worker=%s error=%r", worker, str(error))

    def run() -> None:
        began = time.monotonic()
        while not stopped.wait(_HEARTBEAT_INTERVAL_S) and time.monotonic() - began < _MAX_ANALYSIS_S:
            record()

    thread = threading.Thread(target=run, name=f"heartbeat of {worker}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        record(ended=1)
