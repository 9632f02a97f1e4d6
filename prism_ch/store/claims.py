"""Who works a window: claims in the ledger that no two hold at once, and that are void when their holder has died."""

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

#: A claim on a server that nothing was heard of for so long is void, in seconds.
PATIENCE_S = 60
_BEAT_S = PATIENCE_S / 4
#: An analysis that has gone on for so long no longer keeps others from a window: it hangs, in seconds.
_LONGEST_WORKING_S = 3600

_PROCESS = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
_ANY = 2**64 - 1
_numbers = count(1)
_alive: set[str] = set()


@contextmanager
def new_worker(store: Store) -> Iterator[str]:
    """Name a worker whose claims hold for as long as the block runs, and at most PATIENCE_S longer."""
    worker = f"{_PROCESS}/{next(_numbers)}"
    _alive.add(worker)
    try:
        if store.embedded:
            yield worker
        else:
            with _heart(store, worker):
                yield worker
    finally:
        _alive.discard(worker)


def refuse_claimed(store: Store, worker: str, *, up_to: int = _ANY, twice: bool = False) -> None:
    """Raise ClaimedError where another worker holds a claim.

    Claims of all windows count, as each window goes on from the one before. Of workers in this process it is known
    whether they live. An embedded engine serves one process, so claims of others there are of processes that died.
    Parameters: `up_to`, only claims with this number or a lower one; `twice`, it is known that another has the number.
    """
    key = {"patience_s": _LONGEST_WORKING_S if store.embedded else PATIENCE_S, "worker": worker}
    claims = store.rows(statement("open_claims"), key)
    holders = [holder for number, holder in claims if number <= up_to and _lives(holder, embedded=store.embedded)]
    if holders or twice:
        who = f" ({holders[0]})" if holders else ""
        raise ClaimedError(
            f"{store} is being analysed by another process at this moment{who}; let one of the two do it"
        )


def _lives(worker: str, *, embedded: bool) -> bool:
    """Tell whether a worker that was heard of lives."""
    return worker in _alive if worker.startswith(f"{_PROCESS}/") else not embedded


def end_claim(store: Store, revision: int, worker: str) -> None:
    """Note that a claimed working has come to an end, however it did."""
    store.command(statement("beat"), {"revision": revision, "worker": worker, "ended": 1})


@contextmanager
def _heart(store: Store, worker: str) -> Iterator[None]:
    """Keep a worker's newest claim alive, over a connection of its own, while a block runs; then end it."""
    stopped = threading.Event()

    def beat(*, ended: int = 0) -> None:
        try:
            with store.another() as own:
                own.command(statement("beat_worker"), {"worker": worker, "ended": ended})
        except StoreError as error:
            log.warning("sign of life not given worker=%s error=%r", worker, str(error))

    def beat_on() -> None:
        began = time.monotonic()
        while not stopped.wait(_BEAT_S) and time.monotonic() - began < _LONGEST_WORKING_S:
            beat()

    thread = threading.Thread(target=beat_on, name=f"heart of {worker}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
        beat(ended=1)
