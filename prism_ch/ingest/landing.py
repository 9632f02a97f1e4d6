"""Lands a content in the database exactly once, wherever an attempt is cut short."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from prism_ch.ingest.columns import constant
from prism_ch.ingest.messages import TABLE as MESSAGES
from prism_ch.ingest.messages import insert_messages
from prism_ch.ingest.refusal import Refusal, refusal
from prism_ch.ingest.sources import Chunk, Content, Source, read_contents
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Statements under way at once: while the engine sorts the rows of one, it parses those of the other.
_CONNECTIONS = 2

#: The settings of every landing statement, next to its token.
LANDING_SETTINGS = {
    # Each view skips what it has under the same token, so a statement repeated after a crash completes what is missing.
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "parallel_view_processing": 1,
    # Rows with equal keys are left to later merges.
    "optimize_on_insert": 0,
    # A file may hold records of many days.
    "max_partitions_per_insert_block": 0,
    "max_insert_threads": 1,
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of landing a content: numbers of landed records, and of rejected ones by reason.

    `repeat_of` names the source from which the same content landed before; the counts are then those of that landing.
    It is None for new content. `error`: why the content did not land to its end, empty if it did; `may_pass` if trying
    again later may help.
    """

    source: str
    landed: int
    rejected: dict[str, int]
    repeat_of: str | None = None
    error: str = ""
    may_pass: bool = False

    @property
    def records(self) -> int:
        """The number of records, landed or rejected."""
        return self.landed + sum(self.rejected.values())

    def __add__(self, later: Outcome) -> Outcome:
        """Join the outcomes of two stretches of one source."""
        rejected = dict(Counter(self.rejected) + Counter(later.rejected))
        failed = self if self.error else later
        landed = self.landed + later.landed
        return replace(self, landed=landed, rejected=rejected, error=failed.error, may_pass=failed.may_pass)


def with_source(rows: pa.Table, content: Content) -> pa.Table:
    """Append the columns that name the source of rows."""
    rows = rows.append_column("landing", constant(content.landing, rows.num_rows))
    return rows.append_column("source", constant(content.source, rows.num_rows))


def insert_rows(store: Store, table: str, rows: pa.Table, settings: Mapping[str, Any]) -> None:
    """Insert rows, with the columns that name their source, in one statement."""
    if table == MESSAGES:
        insert_messages(store, rows, settings)
    else:
        store.insert(table, rows, settings=settings)


def read_states(store: Store, landings: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Read the source and status (started, done, failed) of contents that were landed before."""
    rows = store.rows(statement("landing_states"), {"landings": list(landings)})
    return {landing: (source, status) for landing, source, status in rows}


def read_outcomes(store: Store, sources: Mapping[str, str]) -> dict[str, Outcome]:
    """Count the landed records of contents, given their sources by landing."""
    counts: dict[str, dict[str, int]] = {landing: {} for landing in sources}
    for landing, reason, records in store.rows(statement("landing_counts"), {"landings": list(sources)}):
        counts[landing][reason] = records
    return {
        landing: Outcome(source, counts[landing].pop("", 0), counts[landing]) for landing, source in sources.items()
    }


def record_landings(store: Store, outcomes: Sequence[tuple[Content, Outcome | None]]) -> None:
    """Record in the database that contents were begun (None), or their outcomes.

    Contents that are recorded as begun in one call form a group, see unfinished_groups.
    """
    rows = [
        {
            "landing": content.landing,
            "source": content.source,
            "size_bytes": content.size_bytes,
            "status": "started" if outcome is None else "failed" if outcome.error else "done",
            "records": outcome.records if outcome else 0,
            "landed": outcome.landed if outcome else 0,
            "error": outcome.error if outcome else "",
        }
        for content, outcome in outcomes
    ]
    store.insert("landings_log", pa.Table.from_pylist(rows))


def unfinished_groups(store: Store, landings: Sequence[str]) -> list[dict[str, str]]:
    """Return groups of contents that were begun and cut short, as sources by landing."""
    rows = store.rows(statement("landing_groups"), {"landings": list(landings)}) if landings else []
    return [dict(zip(*row, strict=True)) for row in rows]


def incomplete_group(source: str, group: Mapping[str, str]) -> Outcome:
    """Return the outcome of a content whose group was cut short and is not complete."""
    others = sorted(name for name in group.values() if name != source)
    shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
    error = f"its landing together with {len(others)} others was cut short; land them again together: {shown}"
    return Outcome(source, 0, {}, error=f"{source}: {error}")


def land_content(store: Store, content: Content, progress: Callable[[int], None]) -> Outcome:
    """Land a content unless it has landed before.

    An error that is the content's fault ends the landing and is part of the outcome; what was sent stays.
    Parameters: `progress`, called with how many of its bytes have landed.
    Raises StoreError if the database fails.
    """
    source, status = read_states(store, [content.landing]).get(content.landing, ("", ""))
    if status == "done":
        return replace(_outcome(store, content), repeat_of=source)
    if status == "started":
        for group in unfinished_groups(store, [content.landing]):
            if len(group) > 1:
                return incomplete_group(content.source, group)
    record_landings(store, [(content, None)])
    outcome = _send(store, content, progress)
    record_landings(store, [(content, outcome)])
    return outcome


def land_content_again(store: Store, content: Content, progress: Callable[[int], None]) -> Outcome:
    """Put back the rows of a content that were lost since it landed.

    Rows that are there stay once, and sums do not count it again; it may also be new to the ledger. Raises StoreError
    if the database fails.
    """
    # Under an identity of its own the engine does not take it for a repeat.
    outcome = _send(store, replace(content, again=f"-again-{time.time_ns()}"), progress)
    if not outcome.error:
        record_landings(store, [(content, outcome)])
    return outcome


def _send(store: Store, content: Content, progress: Callable[[int], None]) -> Outcome:
    """Send a content, and count what has landed.

    An error that is its fault is part of the outcome.
    """
    refused = Refusal("")
    try:
        if content.land_by_engine is not None and store.embedded:
            content.land_by_engine(store, content.landing, LANDING_SETTINGS)
        else:
            _send_all(store, content, progress)
    except Exception as error:  # noqa: BLE001 - the border of one file: no error of its own may keep others from landing
        refused = refusal(store, content.source, error)
    return replace(_outcome(store, content), error=refused.reason, may_pass=refused.may_pass)


def _send_all(store: Store, content: Content, progress: Callable[[int], None]) -> None:
    """Send the chunks in order over a few connections, and wait for all."""
    sending: deque[Future[int]] = deque()

    def send(chunk: Chunk) -> int:
        rows = chunk.rows.num_rows
        if rows:
            # The same records have the same token whenever they are sent.
            token = f"{content.landing}-{chunk.rows['position'][0].as_py()}-{rows}"
            settings = LANDING_SETTINGS | {"insert_deduplication_token": token}
            with store.lent() as connection:
                insert_rows(connection, chunk.table, with_source(chunk.rows, content), settings)
        return chunk.read_bytes

    with ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="landing") as pool:
        try:
            for chunk in content.chunks:
                if len(sending) >= _CONNECTIONS:
                    progress(sending.popleft().result())
                sending.append(pool.submit(send, chunk))
        finally:
            while sending:
                progress(sending.popleft().result())


def _outcome(store: Store, content: Content) -> Outcome:
    return read_outcomes(store, {content.landing: content.source})[content.landing]


#: Lands one content, given what to call with how many of its bytes have landed.
LandContent = Callable[[Store, Content, Callable[[int], None]], Outcome]


def land_source(
    store: Store,
    source: Source,
    fmt: str,
    progress: Callable[[int], None] = lambda _: None,
    land: LandContent = land_content,
) -> list[Outcome]:
    """Land a source. Returns the outcome of new contents, and of repeats of each earlier source.

    An error that is the source's fault becomes part of an outcome, so that others land. Raises StoreError if the
    database fails.
    Parameters: `fmt`, auto or the name of a Format; `progress`, called with how many bytes have landed; `land`, what
    lands each content.
    """
    outcomes: dict[str | None, Outcome] = {}
    landed_bytes = 0

    def report(read_bytes: int) -> None:
        progress(landed_bytes + read_bytes)

    def add(outcome: Outcome) -> None:
        before = outcomes.get(outcome.repeat_of)
        outcomes[outcome.repeat_of] = outcome if before is None else before + outcome

    read_states(store, [])  # so that no large file is read in vain if the database is not ready
    try:
        for content in read_contents(source, fmt):
            add(land(store, content, report))
            landed_bytes += content.size_bytes
            progress(landed_bytes)
    except Exception as error:  # noqa: BLE001 - the border of one file: no error of its own may keep others from landing
        refused = refusal(store, source.name, error)
        add(Outcome(source.name, 0, {}, error=refused.reason, may_pass=refused.may_pass))
    return list(outcomes.values())


def land_file(store: Store, source: Source, fmt: str = "auto") -> Outcome:
    """Land one file, as land_source() does."""
    first, *others = land_source(store, source, fmt)
    return sum(others, first)
