"""Lands many small files in one statement, each known by its own content as if it had landed alone.

A statement costs as much for a hundred records as for ten thousand, and leaves as many parts behind for the engine to
merge. Killed in the middle, the same files must be landed together again: then the engine knows the statement.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columns import constant
from prism_ch.ingest.contents import Chunk, Content, read_contents
from prism_ch.ingest.files import land_file
from prism_ch.ingest.landing import LANDING_SETTINGS, Lander, Outcome, insert_rows
from prism_ch.ingest.sources import Source
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: A file is small up to this size as it is stored, and up to that of its records in memory.
SMALL_BYTES = 1 << 20
_SMALL_BYTES_READ = 32 << 20


@dataclass(slots=True)
class _Small:
    """One file: its identity in the database, its records, and why it could not be read to its end.

    `landing` is empty where nothing could be read; `too_large` where its records are not held here.
    """

    source: Source
    landing: str = ""
    size_bytes: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    error: str = ""
    too_large: bool = False


def land_together(store: Store, sources: Sequence[Source], *, resumed: bool = False) -> list[Outcome]:
    """Land small files, and return what became of each, in their order.

    Parameters: `resumed`, the very same files were being landed together when the process ended. What else was begun
    before, and a file whose records turn out to be many, lands alone.
    Raises StoreError where the database fails; landing the same files again with `resumed` then completes the work.
    """
    files = [_read(source) for source in sources]
    landings = [each.landing for each in files if each.landing]
    names, begun = _known(store, landings)
    alone = [each for each in files if each.too_large or (each.landing in begun and not resumed)]
    names |= {each.landing: each.source.name for each in alone}
    together = {each.landing: each for each in files if each.landing and each.landing not in names}.values()
    _land(store, list(together))
    outcomes = _land_alone(store, alone)
    counts = _count(store, landings)
    now = {id(each) for each in together}
    for each in files:
        if id(each) not in outcomes:
            repeat_of = names.get(each.landing, each.source.name) if each.landing and id(each) not in now else None
            outcomes[id(each)] = _outcome(each, counts.get(each.landing, {}), repeat_of)
    _note(store, [(each, outcomes[id(each)]) for each in together])
    return [outcomes[id(each)] for each in files]


def _read(source: Source) -> _Small:
    """Read a file whole, as far as it can be read."""
    small = _Small(source)
    try:
        for content in read_contents(source, "auto"):
            _take(small, content)
    except InputError as error:
        small.error = str(error)
    return small


def _take(small: _Small, content: Content) -> None:
    """Take a content's records, unless they are too many."""
    small.landing, small.size_bytes = content.landing, content.size_bytes
    read_bytes = 0
    for chunk in content.chunks:
        read_bytes += chunk.rows.nbytes
        if read_bytes > _SMALL_BYTES_READ:
            small.too_large, small.chunks = True, []
            return
        small.chunks.append(chunk)


def _known(store: Store, landings: Sequence[str]) -> tuple[dict[str, str], set[str]]:
    """Return the names under which contents have landed to their end, and the contents that were only begun."""
    states = store.rows(statement("landing_states"), {"landings": list(landings)}) if landings else []
    names = {landing: source for landing, source, status in states if status == "done"}
    return names, {landing for landing, _, status in states if status == "started"}


def _land(store: Store, files: Sequence[_Small]) -> None:
    """Send the records of files, in as few statements as there are kinds of rows."""
    _note(store, [(each, None) for each in files])
    groups: dict[tuple[str, pa.Schema], list[pa.Table]] = defaultdict(list)
    for each in files:
        for chunk in each.chunks:
            rows = chunk.rows.append_column("landing", constant(each.landing, chunk.rows.num_rows))
            rows = rows.append_column("source", constant(each.source.name, chunk.rows.num_rows))
            groups[chunk.table, rows.schema].append(rows)
    identity = hashlib.blake2b("\n".join(each.landing for each in files).encode(), digest_size=16).hexdigest()
    for number, ((table, _), rows) in enumerate(groups.items()):
        joined = pa.concat_tables(rows).unify_dictionaries().combine_chunks()
        insert_rows(store, table, joined, LANDING_SETTINGS | {"insert_deduplication_token": f"{identity}-{number}"})


def _land_alone(store: Store, files: Sequence[_Small]) -> dict[int, Outcome]:
    """Land files one after the other; return what became of each."""
    with Lander(store) as lander:
        return {id(each): land_file(lander, each.source) for each in files}


def _count(store: Store, landings: Sequence[str]) -> dict[str, dict[str, int]]:
    """Count the records of contents, by what became of them."""
    counts: dict[str, dict[str, int]] = {landing: {} for landing in landings}
    for landing, reason, records in store.rows(statement("landing_counts_together"), {"landings": landings}):
        counts[landing][reason] = records
    return counts


def _outcome(small: _Small, counts: dict[str, int], repeat_of: str | None) -> Outcome:
    """Say what became of a file's records."""
    rejected = {reason: records for reason, records in counts.items() if reason}
    return Outcome(small.source.name, counts.get("", 0), rejected, repeat_of, small.error)


def _note(store: Store, files: Sequence[tuple[_Small, Outcome | None]]) -> None:
    """Write to the ledger of files that their landing was begun, or what became of them."""
    statuses = ["started" if outcome is None else "failed" if outcome.error else "done" for _, outcome in files]
    columns = {
        "landing": pa.array([each.landing for each, _ in files], pa.string()),
        "source": pa.array([each.source.name for each, _ in files], pa.string()),
        "size_bytes": pa.array([each.size_bytes for each, _ in files], pa.uint64()),
        "status": pa.array(statuses, pa.string()),
        "records": pa.array([outcome.records if outcome else 0 for _, outcome in files], pa.uint64()),
        "landed": pa.array([outcome.landed if outcome else 0 for _, outcome in files], pa.uint64()),
        "error": pa.array([outcome.error if outcome else "" for _, outcome in files], pa.string()),
    }
    store.insert("landings_log", columns)
