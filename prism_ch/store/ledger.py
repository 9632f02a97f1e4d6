"""The ledger of windows: which are due, who analyses one, and how each analysis ended.

No two workers hold claims at once. On a server a worker records a heartbeat every 15 seconds; a claim without one for
CLAIM_TIMEOUT_S is void. The embedded engine serves one process, which knows its own workers.
"""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from prism_ch import __version__
from prism_ch.errors import ClaimedError, StoreError
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.store.client import IN_ONE_BLOCK, Store
from prism_ch.store.due_windows import WindowSelection, due_windows, final_until_ns
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

#: A claim on a server without a heartbeat for this long, in seconds, is void.
CLAIM_TIMEOUT_S = 60
_HEARTBEAT_INTERVAL_S = CLAIM_TIMEOUT_S / 4
#: An analysis that takes longer hangs, and no longer keeps others from a window, in seconds.
_MAX_ANALYSIS_S = 3600

_PROCESS = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
_LAST_REVISION = 2**64 - 1
_numbers = count(1)
_workers: set[str] = set()

#: After this many failures new_from_ns() gives a window up, so that newer ones go on without it.
MAX_ATTEMPTS = 5
#: How long after the last flow windows without flows are still analysed, in seconds: three steps of five minutes, the
#: longest known, and some. What stands still for longer has ended.
_SILENCE_S = 1200
#: How often a worker that waits for another looks again, in seconds.
_RETRY_S = 0.2
_NOTHING: Mapping[str, int] = {}


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
    if store.embedded and not is_shared and not _workers - {worker}:
        return  # with an embedded engine nobody else is alive, whatever claims say
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
    """Record that a claim has ended without a row of the ledger."""
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


@dataclass(frozen=True, slots=True)
class Watermark:
    """Flows that ended before `at_ns`, nanoseconds since the epoch, have arrived.

    `exporters` counts all there are, `silent` those that no longer send.
    """

    at_ns: int
    exporters: int
    silent: int


@dataclass(frozen=True, slots=True)
class Claim:
    """One analysis of one window that has begun: its revision, and the flows that had arrived by then.

    `revision` is larger than that of any analysis before; `attempts` includes this one. `flows` counts records as
    delivered, `first_flows` those that had arrived at the window's first analysis, `fingerprint` is the wrapping sum of
    their hashes.
    """

    window: Window
    revision: int
    attempts: int
    flows: int
    first_flows: int
    fingerprint: int
    inputs: int
    worker: str = ""


def read_watermark(store: Store, *, silent_after_s: int, hold_s: int) -> Watermark:
    """Return up to when the exporters have sent; sql/queries/watermark.sql defines how clocks and silence count.

    Parameters: `silent_after_s`, how long without a record until an exporter no longer counts; `hold_s`, how far
    behind the others it may hold them back.
    """
    [row] = store.rows(statement("watermark"), {"silent_after_s": silent_after_s, "hold_s": hold_s})
    return Watermark(*row)


def closed_until_ns(store: Store, settings: Settings) -> int:
    """Return the time up to which flows have arrived, less the lateness allowed."""
    serve = settings.serve
    watermark = read_watermark(store, silent_after_s=serve.silent_after_s, hold_s=serve.hold_s)
    return watermark.at_ns - settings.lateness_s * 10**9


def silent_until_ns(store: Store, settings: Settings) -> int:
    """Return up to when windows without flows are closed, 0 unless the cluster is silent."""
    serve = settings.serve
    bounds = {"silent_after_s": serve.silent_after_s, "prompt_s": serve.hold_s}
    last_ns: int = store.scalar(statement("silence"), bounds)
    return min(closed_until_ns(store, settings), last_ns + _SILENCE_S * 10**9) if last_ns else 0


def new_from_ns(store: Store, window_s: int) -> int | None:
    """Return from where on windows are new, nanoseconds since the epoch; None where all are.

    A window that failed MAX_ATTEMPTS times is passed over until it can be analysed; else it would hold up all others.
    """
    end_ns: int | None = store.scalar(statement("new_from"), {"window_s": window_s, "max_attempts": MAX_ATTEMPTS})
    return end_ns


def claim_due_windows(
    store: Store, window_s: int, selection: WindowSelection, inputs: int, worker: str, *, wait: bool = False
) -> Iterator[tuple[Claim, int]]:
    """Claim each due window, oldest first, and yield how many are due after it.

    A window goes on from the one before it. Where revisions don't follow one another, another worker has analysed a
    window in between, perhaps an earlier one, and what is due is listed anew.
    Parameters: `wait`, wait while another worker holds a claim; else raises ClaimedError.
    """
    due, expected = _list_due(store, window_s, selection, inputs)
    just_listed = True
    while due:
        window = due.popleft()
        # It may have become final since it was listed.
        if not just_listed and window.start_ns <= final_until_ns(store):
            continue
        just_listed = False
        try:
            claim = claim_window(store, window, inputs=inputs, worker=worker)
        except ClaimedError:
            if not wait:
                raise
            time.sleep(_RETRY_S)
            due.appendleft(window)
            continue
        if claim.revision == expected:
            expected += 1
            yield claim, len(due)
            continue
        end_claim(store, claim.revision, worker)
        # Windows that are forced are not analysed again from the first one on.
        selection = replace(selection, from_ns=window.start_ns) if selection.force else selection
        due, expected = _list_due(store, window_s, selection, inputs)
        just_listed = True


def claim_window(store: Store, window: Window, *, inputs: int = 0, worker: str = "") -> Claim:
    """Begin an analysis of a window; flows that arrive later make it due again.

    Revisions only grow, so of two workers that claim at once the later one sees the claim of the other after its own
    and yields; where both took the same revision, both do.
    Raises ClaimedError where another worker holds a claim.
    """
    refuse_claimed(store, worker)
    revision: int = store.scalar(statement("next_revision"))
    key = {"revision": revision, "start_ns": window.start_ns, "end_ns": window.end_ns, "worker": worker}
    store.command(statement("claim_revision"), key)
    [(claims, attempts, flows, fingerprint)] = store.rows(statement("claimed_window"), key)
    try:
        refuse_claimed(store, worker, until=revision, is_shared=claims > 1)
    except ClaimedError:
        end_claim(store, revision, worker)
        raise
    before = store.rows(statement("first_flows"), key) if attempts > 1 else []
    first_flows = before[0][0] if before else flows
    return Claim(window, revision, attempts, flows, first_flows, fingerprint, inputs, worker)


def record_window(
    store: Store,
    claim: Claim,
    *,
    error: str = "",
    is_partial: bool = False,
    seconds: Mapping[str, float] = _NOTHING,
    written: Mapping[str, int] = _NOTHING,
) -> None:
    """Record how an analysis has ended, after its results were published.

    That ends its claim, too.

    Parameters: `error`, why it failed, one line, or where it `is_partial`, why its failed jobs did; `seconds`, how long
    its parts took; `written`, how many rows of results it wrote, by table.
    """
    row = {
        "window_start": pa.array([claim.window.start_ns], pa.timestamp("ns")),
        "window_end": pa.array([claim.window.end_ns], pa.timestamp("ns")),
        "revision": pa.array([claim.revision], pa.uint64()),
        "flows": pa.array([claim.flows], pa.uint64()),
        "first_flows": pa.array([claim.first_flows], pa.uint64()),
        "fingerprint": pa.array([claim.fingerprint], pa.uint64()),
        "inputs": pa.array([claim.inputs], pa.uint64()),
        "attempts": pa.array([claim.attempts], pa.uint32()),
        "status": pa.array(["partial" if is_partial else "failed" if error else "worked"]),
        "error": pa.array([error]),
        "version": pa.array([__version__]),
        "seconds": pa.array([list(seconds.items())], pa.map_(pa.string(), pa.float64())),
        "written": pa.array([list(written.items())], pa.map_(pa.string(), pa.uint64())),
    }
    store.insert("windows_log", row, settings=IN_ONE_BLOCK)


def _list_due(store: Store, window_s: int, selection: WindowSelection, inputs: int) -> tuple[deque[Window], int]:
    expected = store.scalar(statement("newest_claim")) + 1
    return deque(due_windows(store, window_s, selection, inputs=inputs)), expected
