"""The ledger of windows: which are due, and how each working of one began and ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from prism_ch.errors import ClaimedError
from prism_ch.model.window import Window
from prism_ch.store.claims import end_claim, refuse_claimed
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

_EARLIEST_NS, _LATEST_NS = -(2**63), 2**63 - 1
#: So often a failing window is tried before newer ones go on without it.
TRIES = 5
_UNTIMED: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class Claim:
    """One working of one window, begun: its number, and the flows that had arrived when it began.

    `revision` is larger than that of any working before; `attempts` includes this one. `flows` counts records as
    delivered, `first_flows` those that had arrived at the window's first working, `fingerprint` is the wrapping sum of
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


def due_windows(  # noqa: PLR0913 - which windows, and up to when
    store: Store,
    window_s: int,
    *,
    until_ns: int | None = None,
    from_ns: int | None = None,
    to_ns: int | None = None,
    force: bool = False,
    inputs: int = 0,
    final: bool = False,
    silent_until_ns: int = 0,
) -> list[Window]:
    """List the windows to work, in order of time; sql/queries/due_windows.sql says which.

    Parameters: `window_s`, length of a window; with another length than before all windows are due again, and the
    ledger's old rows are superseded. `until_ns`: windows that end later are left for later. `from_ns`, `to_ns`: only
    windows that overlap [from, to) are due by themselves; worked windows after a due one follow it always. `force`:
    take windows within the bounds as due. `inputs`: digest (64 bits) of all else the results depend on, such as
    topology and parameters; a window worked with another is due again. `final`: list instead those that would be due
    but are left as they are, since raw flows that they rest on may be gone.
    """
    bounds = {
        "window_s": window_s,
        "from_ns": _EARLIEST_NS if from_ns is None else from_ns,
        "to_ns": _LATEST_NS if to_ns is None else to_ns,
        "until_ns": _LATEST_NS if until_ns is None else until_ns,
        "force": int(force),
        "inputs": inputs,
        "final": int(final),
        "silent_until_ns": silent_until_ns,
    }
    return [Window(start_ns, end_ns) for start_ns, end_ns in store.rows(statement("due_windows"), bounds)]


def new_from_ns(store: Store, window_s: int) -> int | None:
    """Return from where on windows are new, nanoseconds since the epoch; None where all are.

    One that failed TRIES times is given up for as long as it takes to mend it; else it would hold up all that follow.
    """
    end_ns: int | None = store.scalar(statement("new_from"), {"window_s": window_s, "tries": TRIES})
    return end_ns


def final_until_ns(store: Store) -> int:
    """Return up to when windows that start are final, nanoseconds since the epoch; 0 where none is."""
    end_ns: int = store.scalar(statement("final_until"))
    return end_ns


def next_revision(store: Store) -> int:
    """Return the number that the next working of a window takes."""
    revision: int = store.scalar(statement("next_revision"))
    return revision


def claim_window(store: Store, window: Window, *, inputs: int = 0, worker: str = "") -> Claim:
    """Begin a working of a window, before its flows are read: flows that arrive from here on make it due again.

    Numbers only grow, so of two workers that claim at once the later one sees the claim of the other after its own and
    yields; where both took the same number, both do.
    Raises ClaimedError where another worker holds a claim.
    """
    refuse_claimed(store, worker)
    revision = next_revision(store)
    key = {"revision": revision, "start_ns": window.start_ns, "end_ns": window.end_ns, "worker": worker}
    store.command(statement("claim_revision"), key)
    [(claims, attempts, flows, first_flows, fingerprint)] = store.rows(statement("claimed_window"), key)
    try:
        refuse_claimed(store, worker, up_to=revision, twice=claims > 1)
    except ClaimedError:
        end_claim(store, revision, worker)
        raise
    return Claim(window, revision, attempts, flows, first_flows, fingerprint, inputs, worker)


def record_window(store: Store, claim: Claim, *, error: str = "", seconds: Mapping[str, float] = _UNTIMED) -> None:
    """Note that a claimed working has ended: its results are published, or it failed with `error`, one line.

    Parameters: `seconds`, how long its parts took.
    """
    row = {
        "start_ns": claim.window.start_ns,
        "end_ns": claim.window.end_ns,
        "revision": claim.revision,
        "flows": claim.flows,
        "first_flows": claim.first_flows,
        "fingerprint": claim.fingerprint,
        "inputs": claim.inputs,
        "attempts": claim.attempts,
        "status": "failed" if error else "worked",
        "error": error,
        "stages": list(seconds),
        "seconds": list(seconds.values()),
    }
    store.command(statement("record_window"), row)
    end_claim(store, claim.revision, claim.worker)
