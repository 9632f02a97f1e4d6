"""Lands many small files in one statement, each known by its own content as if it had landed alone.

A statement costs as much for a hundred records as for ten thousand, and leaves as many parts behind for the engine to
merge. What was cut short is sent again by the same files together, so that the engine knows the statement: the ledger
tells which they were, since it notes them at one time.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.columns import constant
from prism_ch.ingest.contents import Chunk, Content, read_contents
from prism_ch.ingest.landing import (
    LANDING_SETTINGS,
    Lander,
    Outcome,
    begun_together,
    insert_rows,
    land_file,
    say_missing,
)
from prism_ch.ingest.sources import Source
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: A file is small up to this size as it is stored, and up to that of its records in memory.
SMALL_BYTES = 1 << 20
_SMALL_BYTES_READ = 32 << 20
#: Files that land together at most; a statement then costs less than reading them.
TOGETHER_MAX = 256


@dataclass(slots=True)
class _Small:
    """One file: its identity in the database, its records, and why it could not be read to its end.

    `landing` is empty where nothing could be read; `too_large` where its records are not held here; `is_first` where no
    other has brought the content before.
    """

    source: Source
    landing: str = ""
    size_bytes: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    error: str = ""
    too_large: bool = False
    is_first: bool = False


def in_batches(sources: Sequence[Source]) -> Iterator[list[Source]]:
    """Part sources into those that land together, being small, and those that land alone, in their order."""
    batch: list[Source] = []
    for source in sources:
        is_small = source.path is not None and source.path.is_file() and source.size_bytes <= SMALL_BYTES
        if batch and (not is_small or len(batch) == TOGETHER_MAX):
            yield batch
            batch = []
        if is_small:
            batch.append(source)
        else:
            yield [source]
    if batch:
        yield batch


def land_together(store: Store, sources: Sequence[Source], fmt: str = "auto") -> list[Outcome]:
    """Land small files, and return what became of each, in their order.

    What was begun together and cut short is completed by the same files, and refused where some of them are missing. A
    file that was begun alone, can't be read to its end, or whose records turn out to be many, lands alone.
    Parameters: `fmt`, auto or the name of a Format.
    Raises StoreError where the database fails; landing the files again then completes the work.
    """
    files = [_read(source, fmt) for source in sources]
    names = _done(store, [each.landing for each in files if each.landing])
    fresh = {each.landing: each for each in reversed(files) if each.landing and each.landing not in names}
    for each in fresh.values():
        each.is_first = True
    alone = [fresh.pop(each.landing) for each in list(fresh.values()) if each.too_large or each.error]
    together: list[_Small] = []
    for group in begun_together(store, list(fresh)):
        members = [fresh.pop(landing) for landing in group if landing in fresh]
        if len(group) == 1:
            alone += members
        elif len(members) == len(group):
            _send(store, members)
            together += members
        else:
            for each in members:
                each.landing, each.error = "", say_missing(each.source.name, group)
    if len(fresh) == 1:
        alone += fresh.values()
    elif fresh:
        _note(store, [(each, None) for each in fresh.values()])
        _send(store, list(fresh.values()))
        together += fresh.values()
    outcomes = _land_alone(store, alone, fmt)
    outcomes |= _count(store, names | {each.landing: each.source.name for each in together})
    _note(store, [(each, outcomes[each.landing]) for each in together])
    return [_outcome(each, outcomes[each.landing] if each.landing else None) for each in files]


def _read(source: Source, fmt: str) -> _Small:
    """Read a file whole, as far as it can be read."""
    small = _Small(source)
    try:
        for content in read_contents(source, fmt):
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


def _done(store: Store, landings: Sequence[str]) -> dict[str, str]:
    """Return the names under which contents have landed to their end."""
    states = store.rows(statement("landing_states"), {"landings": list(landings)}) if landings else []
    return {landing: source for landing, source, status in states if status == "done"}


def _send(store: Store, files: Sequence[_Small]) -> None:
    """Send the records of files, in one statement for each kind of rows, the same whatever the order of the files."""
    ordered = sorted(files, key=lambda each: each.landing)
    groups: dict[tuple[str, pa.Schema], list[pa.Table]] = defaultdict(list)
    for each in ordered:
        for chunk in each.chunks:
            rows = chunk.rows.append_column("landing", constant(each.landing, chunk.rows.num_rows))
            rows = rows.append_column("source", constant(each.source.name, chunk.rows.num_rows))
            groups[chunk.table, rows.schema].append(rows)
    identity = hashlib.blake2b("\n".join(each.landing for each in ordered).encode(), digest_size=16).hexdigest()
    for number, ((table, _), rows) in enumerate(groups.items()):
        joined = pa.concat_tables(rows).unify_dictionaries().combine_chunks()
        insert_rows(store, table, joined, LANDING_SETTINGS | {"insert_deduplication_token": f"{identity}-{number}"})


def _land_alone(store: Store, files: Sequence[_Small], fmt: str) -> dict[str, Outcome]:
    """Land files one after the other; return what became of each content."""
    if not files:
        return {}
    with Lander(store) as lander:
        return {each.landing: land_file(lander, each.source, fmt) for each in files}


def _count(store: Store, names: Mapping[str, str]) -> dict[str, Outcome]:
    """Count the records of contents, which landed under these names, by what became of them."""
    if not names:
        return {}
    counts: dict[str, dict[str, int]] = {landing: {} for landing in names}
    for landing, reason, records in store.rows(statement("landing_counts_together"), {"landings": list(names)}):
        counts[landing][reason] = records
    return {landing: Outcome(name, counts[landing].pop("", 0), counts[landing]) for landing, name in names.items()}


def _outcome(small: _Small, outcome: Outcome | None) -> Outcome:
    """Say what became of a file, given what became of its content: another may have brought that, now or before."""
    if outcome is None:
        return Outcome(small.source.name, 0, {}, error=small.error)
    if outcome.source == small.source.name and small.is_first:
        return outcome
    return replace(outcome, source=small.source.name, repeat_of=outcome.source)


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
