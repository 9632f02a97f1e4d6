"""Tells how far a statement is while it runs, and ends it once nobody waits for it any more."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

from prism_ch.errors import StoreError
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

#: What takes no longer is not worth a connection; then it is looked at so often.
_FIRST_LOOK_S, _LOOK_S = 0.5, 0.25


@contextmanager
def followed(
    store: Store, report: Callable[[int, int], None] | None, has_left: Callable[[], bool] | None = None
) -> Iterator[str]:
    """While a block runs a statement under the mark that this yields, look after it from a connection beside.

    Parameters: `report`, takes rows read so far and rows to read, 0 where unknown; `has_left`, tells whether whoever
    asked has left, upon which the statement is ended. Without both the mark is empty.
    """
    if report is None and has_left is None:
        yield ""
        return
    mark, ended = uuid4().hex, Event()

    def follow() -> None:
        if ended.wait(_FIRST_LOOK_S):
            return
        try:
            with store.another() as beside:
                while not ended.wait(_LOOK_S):
                    if has_left is not None and has_left():
                        beside.command(statement("end_statement"), {"mark": mark})
                    elif report is not None:
                        for rows, total in beside.rows(statement("statement_progress"), {"mark": mark}):
                            report(rows, total)
        except StoreError as error:  # a server's user may be refused this; then the display says how long it takes
            log.debug("statement not followed error=%r", error)

    follower = Thread(target=follow, name="follow", daemon=True)
    follower.start()
    try:
        yield mark
    finally:
        ended.set()
        follower.join()
