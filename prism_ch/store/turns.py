"""The windows that are due, claimed one after the other, and listed anew where another worker got in between."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from prism_ch.errors import ClaimedError
from prism_ch.model.window import Window
from prism_ch.store.claims import end_claim
from prism_ch.store.client import Store
from prism_ch.store.ledger import Claim, claim_window, due_windows, final_until_ns, next_revision

#: Whoever waits for another worker looks again after so long, in seconds.
_WAIT_S = 0.2


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which windows are meant; see due_windows."""

    until_ns: int | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    force: bool = False
    silent_until_ns: int = 0


def take_turns(
    store: Store, window_s: int, bounds: Bounds, inputs: int, worker: str, *, patient: bool = False
) -> Iterator[tuple[Claim, int]]:
    """Yield the claim of each window that is due, oldest first, and how many are due after it.

    A window goes on from the one before it: where the numbers of two workings don't follow one another, somebody else
    has worked a window in between, perhaps an earlier one, and what is due is asked anew.
    Parameters: `patient`, wait while another worker is at the windows; else raises ClaimedError.
    """
    due, expected = _list(store, window_s, bounds, inputs)
    while due:
        window = due.popleft()
        # While others were worked its flows may have come of age.
        if window.start_ns <= final_until_ns(store):
            continue
        try:
            claim = claim_window(store, window, inputs=inputs, worker=worker)
        except ClaimedError:
            if not patient:
                raise
            time.sleep(_WAIT_S)
            due.appendleft(window)
            continue
        if claim.revision == expected:
            expected += 1
            yield claim, len(due)
            continue
        end_claim(store, claim.revision, worker)
        # What is forced is not worked again from its beginning.
        bounds = replace(bounds, from_ns=window.start_ns) if bounds.force else bounds
        due, expected = _list(store, window_s, bounds, inputs)


def _list(store: Store, window_s: int, bounds: Bounds, inputs: int) -> tuple[deque[Window], int]:
    """List what is due, and tell the number that the next working takes if nobody gets in between."""
    expected = next_revision(store)
    due = due_windows(
        store,
        window_s,
        until_ns=bounds.until_ns,
        from_ns=bounds.from_ns,
        to_ns=bounds.to_ns,
        force=bounds.force,
        inputs=inputs,
        silent_until_ns=bounds.silent_until_ns,
    )
    return deque(due), expected
