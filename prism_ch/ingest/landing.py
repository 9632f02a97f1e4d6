"""Lands one content in the database exactly once, however often it is tried and wherever a try is cut short."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from queue import SimpleQueue
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columns import constant
from prism_ch.ingest.contents import Chunk, Content, read_contents
from prism_ch.ingest.messages import TABLE as MESSAGES
from prism_ch.ingest.messages import insert_messages
from prism_ch.ingest.sources import Source
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: Statements under way at once: while the engine sorts the rows of one, it parses those of the other.
_CONNECTIONS = 2

#: What every landing statement is sent with, beside its token. Each view drops what it has under the same token, so
#: that a statement repeated after a crash completes what is missing; views run at the same time; blocks are not merged
#: in themselves when they are written, which is what later merges are for; and records of many days may come in a file.
LANDING_SETTINGS = {
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "parallel_view_processing": 1,
    "optimize_on_insert": 0,
    "max_partitions_per_insert_block": 0,
    "max_insert_threads": 1,
}


#: Called with how many bytes have landed, and how many there are as far as is known.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a content's records: how many could be used, and how many not for which reason.

    `repeat_of` names the source as which the same content had landed before, and is None where it had not; the counts
    are then those of that landing. `error` says why it could not be read to its end; empty where it could.
    """

    source: str
    landed: int
    rejected: dict[str, int]
    repeat_of: str | None = None
    error: str = ""

    @property
    def records(self) -> int:
        """Count the records."""
        return self.landed + sum(self.rejected.values())

    def __add__(self, later: Outcome) -> Outcome:
        """Join the outcomes of two stretches of one source."""
        rejected = dict(Counter(self.rejected) + Counter(later.rejected))
        return replace(self, landed=self.landed + later.landed, rejected=rejected, error=self.error or later.error)


def insert_rows(store: Store, table: str, rows: pa.Table, settings: Mapping[str, Any]) -> None:
    """Insert rows, with the columns that name their source, in one statement."""
    if table == MESSAGES:
        insert_messages(store, rows, settings)
    else:
        store.insert(table, rows, settings=settings)


def begun_together(store: Store, landings: Sequence[str]) -> list[dict[str, str]]:
    """Return the groups, of one or several, in which contents were begun and cut short: identities with their names."""
    rows = store.rows(statement("landing_groups"), {"landings": list(landings)}) if landings else []
    return [dict(zip(*row, strict=True)) for row in rows]


def say_missing(source: str, group: Mapping[str, str]) -> str:
    """Say why a file can't land without the others of its group: part of their records may have landed."""
    others = sorted(name for name in group.values() if name != source)
    shown = ", ".join(others[:3]) + (", ..." if len(others) > 3 else "")
    return f"{source}: its landing together with {len(others)} others was cut short; land them again together: {shown}"


class Lander(AbstractContextManager["Lander"]):
    """Sends contents to the database, a few chunks at once over connections of their own; a context manager."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._others = ExitStack()
        self._pool = ThreadPoolExecutor(_CONNECTIONS, thread_name_prefix="landing")
        self._idle: SimpleQueue[Store] = SimpleQueue()
        self._idle.put(store)
        self._opened = 1

    def __enter__(self) -> Self:
        """Begin; raises StoreError where the database is not ready, before a large file is read for nothing."""
        self._store.rows(statement("landing_state"), {"landing": ""})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pool.shutdown()
        self._others.close()

    def land(self, content: Content, progress: Callable[[int], None]) -> Outcome:
        """Land a content unless it has landed before.

        Parameters: `progress`, called with how many of its bytes have landed.
        An InputError that reading the chunks raises ends the landing and is told in the outcome; the rest stays.
        """
        previous = self._store.rows(statement("landing_state"), {"landing": content.landing})
        if previous and previous[0][1] == "done":
            return self._outcome(content, repeat_of=previous[0][0])
        if previous and previous[0][1] == "started":
            for group in begun_together(self._store, [content.landing]):
                if len(group) > 1:
                    return Outcome(content.source, 0, {}, error=say_missing(content.source, group))
        self._note(content, "started")
        try:
            if content.direct is not None and self._store.embedded:
                content.direct(self._store, LANDING_SETTINGS)
            else:
                self._send_all(content, progress)
        except InputError as error:
            outcome = self._outcome(content, error=str(error))
            self._note(content, "failed", outcome)
            return outcome
        outcome = self._outcome(content)
        self._note(content, "done", outcome)
        progress(content.size_bytes)
        return outcome

    def _send_all(self, content: Content, progress: Callable[[int], None]) -> None:
        """Send the chunks, in order but a few at a time, and wait until the last has landed."""
        under_way: deque[Future[int]] = deque()
        try:
            for chunk in content.chunks:
                if len(under_way) == _CONNECTIONS:
                    progress(under_way.popleft().result())
                if len(under_way) == self._opened:
                    self._idle.put(self._others.enter_context(self._store.another()))
                    self._opened += 1
                under_way.append(self._pool.submit(self._send, content, chunk))
        finally:
            while under_way:
                progress(under_way.popleft().result())

    def _send(self, content: Content, chunk: Chunk) -> int:
        """Send one chunk over an idle connection, under a token that the same records have whenever they are sent."""
        rows = chunk.rows.num_rows
        if not rows:
            return chunk.read
        first = chunk.rows["position"][0].as_py()
        named = chunk.rows.append_column("landing", constant(content.landing, rows))
        named = named.append_column("source", constant(content.source, rows))
        settings = LANDING_SETTINGS | {"insert_deduplication_token": f"{content.landing}-{first}-{rows}"}
        store = self._idle.get()
        try:
            insert_rows(store, chunk.table, named, settings)
        finally:
            self._idle.put(store)
        return chunk.read

    def _outcome(self, content: Content, *, repeat_of: str | None = None, error: str = "") -> Outcome:
        """Count what has landed of a content."""
        counts = dict(self._store.rows(statement("landing_counts"), {"landing": content.landing}))
        return Outcome(content.source, counts.pop("", 0), counts, repeat_of, error)

    def _note(self, content: Content, status: str, outcome: Outcome | None = None) -> None:
        """Write to the ledger how far a content has come."""
        self._store.command(
            statement("note_landing"),
            {
                "landing": content.landing,
                "source": content.source,
                "size_bytes": content.size_bytes,
                "status": status,
                "records": outcome.records if outcome else 0,
                "landed": outcome.landed if outcome else 0,
                "error": outcome.error if outcome else "",
            },
        )


class Count:
    """Tells how far landing has come, over all sources, as the contents of one source land."""

    def __init__(self, progress: Progress | None = None, total: int = 0) -> None:
        self._progress = progress
        self._before = 0
        self._total = total

    def __call__(self, read: int) -> None:
        """Tell that so many bytes of the present content have landed."""
        if self._progress is not None:
            done = self._before + read
            self._progress(done, max(self._total, done))

    def end(self, size_bytes: int) -> None:
        """Go on to the next content, all of this one having landed."""
        self(size_bytes)
        self._before += size_bytes


def land_source(lander: Lander, source: Source, fmt: str, count: Count) -> list[Outcome]:
    """Land one source; an InputError becomes part of its outcome, so that the other sources land."""
    outcomes: dict[str | None, Outcome] = {}
    try:
        for content in read_contents(source, fmt):
            outcome = lander.land(content, count)
            count.end(content.size_bytes)
            before = outcomes.get(outcome.repeat_of)
            outcomes[outcome.repeat_of] = outcome if before is None else before + outcome
    except InputError as error:
        failure = Outcome(source.name, 0, {}, error=str(error))
        outcomes[None] = outcomes[None] + failure if None in outcomes else failure
    return list(outcomes.values())


def land_file(lander: Lander, source: Source, fmt: str = "auto") -> Outcome:
    """Land one file; an InputError becomes part of the outcome."""
    first, *others = land_source(lander, source, fmt, Count())
    return sum(others, first)
