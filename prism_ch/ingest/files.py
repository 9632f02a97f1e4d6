"""Lands files: small ones in one statement, each recorded as if it had landed alone.

A statement costs as much for a hundred records as for ten thousand, and leaves as many parts for the engine to merge.
A statement that was cut short is sent again by the same files together, so that the engine recognises it: they were
recorded as begun in one call, which makes them a group in the database.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import pyarrow as pa

from prism_ch.errors import InputError
from prism_ch.ingest.landing import (
    LANDING_SETTINGS,
    Outcome,
    incomplete_group,
    insert_rows,
    land_content_again,
    land_file,
    land_source,
    read_outcomes,
    read_states,
    record_landings,
    unfinished_groups,
    with_source,
)
from prism_ch.ingest.refusal import Refusal, damage, refusal
from prism_ch.ingest.sources import Chunk, Content, Source, find_sources, read_contents
from prism_ch.store.client import Store

#: A file is small up to this size as it is stored, in bytes. Files that land together hold records of up to the second
#: size in memory, so that the engine makes one block of them: where it refuses a record, none has landed.
SMALL_BYTES = 1 << 20
_SMALL_BYTES_READ = 32 << 20
#: Files that land together at most, and their size, in bytes; a statement then costs less than reading them.
TOGETHER_FILES, TOGETHER_BYTES = 256, 16 << 20


#: Called with how many bytes have landed, and how many there are as far as is known.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LandingReport:
    """What became of the records of some files, by source in the order of landing.

    `landings` are the contents that landed now. `skipped` are those that had landed before. `failures` are those that
    could not be read to their end; what came before the damage has landed, and is in `landings` too.
    """

    landings: tuple[Outcome, ...] = ()
    skipped: tuple[Outcome, ...] = ()
    failures: tuple[Outcome, ...] = ()

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of what landed now."""
        return tuple(outcome.source for outcome in self.landings)

    @property
    def records(self) -> int:
        """The number of records that landed now, used or rejected."""
        return sum(outcome.records for outcome in self.landings)

    @property
    def landed(self) -> int:
        """The number of records that landed now and can be used."""
        return sum(outcome.landed for outcome in self.landings)

    @property
    def rejected(self) -> dict[str, int]:
        """The numbers of records that landed now and can't be used, by reason."""
        return dict(sum((Counter(outcome.rejected) for outcome in self.landings), Counter()))


@dataclass(slots=True)
class _SmallFile:
    """A small file with its records in memory, unless they are `too_large`.

    There is no content if nothing could be read. `error`: why it could not be read to its end. `is_first`: no earlier
    file has the same content.
    """

    source: Source
    content: Content | None = None
    chunks: list[Chunk] = field(default_factory=list)
    error: str = ""
    too_large: bool = False
    is_first: bool = False


#: A file that was read, and its content.
_Read = tuple[_SmallFile, Content]


def land_files(
    store: Store,
    patterns: Sequence[str],
    fmt: str = "auto",
    *,
    again: bool = False,
    progress: Progress | None = None,
) -> LandingReport:
    """Land the flow records of files, each content once however often it is given.

    Parameters: `patterns`, paths, folders, globs, or - for standard input; `fmt`, auto or the name of a Format;
    `again`, put rows back that were lost, see land_content_again(); `progress`, called whenever a chunk has landed.
    Raises InputError if a pattern finds no file, or no source could be read at all; StoreError if the database fails.
    """
    sources = find_sources(patterns)
    outcomes: list[Outcome] = []
    total_bytes = sum(source.size_bytes for source in sources)
    done_bytes = landed_bytes = 0  # of earlier batches, and of this one

    def report(read_bytes: int) -> None:
        nonlocal landed_bytes
        landed_bytes = read_bytes
        if progress is not None:
            progress(done_bytes + read_bytes, max(total_bytes, done_bytes + read_bytes))

    for batch in [[source] for source in sources] if again else batches(sources):
        landed_bytes = 0
        if again:
            outcomes += land_source(store, batch[0], fmt, report, land_content_again)
        elif len(batch) == 1:
            outcomes += land_source(store, batch[0], fmt, report)
        else:
            outcomes += land_together(store, batch, fmt)
            report(sum(source.size_bytes for source in batch))
        done_bytes += landed_bytes
    failures = tuple(outcome for outcome in outcomes if outcome.error)
    if failures and all(outcome.error and not outcome.records for outcome in outcomes):
        more = f" (and {len(failures) - 1} more could not be read)" if len(failures) > 1 else ""
        raise InputError(failures[0].error + more)
    return LandingReport(
        landings=tuple(o for o in outcomes if o.repeat_of is None and (o.records or not o.error)),
        skipped=tuple(o for o in outcomes if o.repeat_of is not None),
        failures=failures,
    )


def batches(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Group sources, in order, by what lands together: runs of small files, and single others."""
    batch: list[Source] = []
    batch_bytes = 0
    for source in sources:
        is_small = source.path is not None and source.path.is_file() and source.size_bytes <= SMALL_BYTES
        is_full = len(batch) == TOGETHER_FILES or batch_bytes + source.size_bytes > TOGETHER_BYTES
        if batch and (not is_small or is_full):
            yield batch
            batch, batch_bytes = [], 0
        if is_small:
            batch.append(source)
            batch_bytes += source.size_bytes
        else:
            yield [source]
    if batch:
        yield batch


def land_together(store: Store, sources: Sequence[Source], fmt: str = "auto") -> list[Outcome]:
    """Land small files, and return their outcomes in order.

    1. Read the files. Of equal contents, and of those that have landed before, none is sent again.
    2. Files that can't be read to their end or hold too many records land alone, and so does a single one.
    3. Send groups that were cut short again; if members are missing, the others of the group are refused.
    4. Record all other files as begun, and send them.
    5. If the database refuses a statement, its files are sent one by one, and those that are refused again fail.
    6. Count what has landed, and record the outcomes.

    Parameters: `fmt`, auto or the name of a Format.
    Raises StoreError if the database fails; landing the same files again then completes them.
    """
    files = _read_all(sources, fmt)
    states = read_states(store, [file.content.landing for file in files if file.content])
    done = {landing: source for landing, (source, status) in states.items() if status == "done"}
    new: dict[str, _Read] = {}
    for file in files:
        if file.content and file.content.landing not in done and file.content.landing not in new:
            new[file.content.landing] = file, file.content
            file.is_first = True
    alone = [new.pop(landing) for landing, (file, _) in list(new.items()) if file.too_large or file.error]
    together: list[_Read] = []
    outcomes: dict[str, Outcome] = {}
    groups, apart, refused_members = _unfinished(store, new)
    alone += apart
    outcomes |= refused_members
    if len(new) == 1:
        alone += new.values()
    elif new:
        record_landings(store, [(content, None) for _, content in new.values()])
        groups.append(list(new.values()))
    refused: dict[str, Refusal] = {}
    for members in groups:
        refusals = _send(store, members)
        lacking = next((each for each in refusals.values() if each.may_pass), None)
        if lacking is None:
            together += members
            refused |= refusals
        elif _has_landed(store, members):
            outcomes |= _kept_outcomes(members, lacking)
        else:
            _record_refused(store, members, lacking)
            alone += members
    outcomes |= {content.landing: land_file(store, file.source, fmt) for file, content in alone}
    counted = done | {content.landing: content.source for _, content in together}
    if counted:
        outcomes |= read_outcomes(store, counted)
    outcomes |= {landing: replace(outcomes[landing], error=each.reason) for landing, each in refused.items()}
    record_landings(store, [(content, outcomes[content.landing]) for _, content in together])
    return [_outcome(file, outcomes) for file in files]


def _read_all(sources: Sequence[Source], fmt: str) -> list[_SmallFile]:
    """Read files until their records fill the memory for one statement.

    Later ones are too large.
    """
    files: list[_SmallFile] = []
    left_bytes = _SMALL_BYTES_READ
    for source in sources:
        file = _read(source, fmt, left_bytes)
        left_bytes -= sum(chunk.rows.nbytes for chunk in file.chunks)
        files.append(file)
    return files


def _read(source: Source, fmt: str, left_bytes: int) -> _SmallFile:
    file = _SmallFile(source)
    try:
        for content in read_contents(source, fmt):
            file.content = content
            for chunk in content.chunks:
                left_bytes -= chunk.rows.nbytes
                file.chunks.append(chunk)
                if left_bytes < 0:
                    file.too_large, file.chunks = True, []
                    return file
    except Exception as error:  # noqa: BLE001 - the border of one file: no error of its own may keep others from landing
        file.error = damage(source.name, error)
    return file


def _send(store: Store, files: Sequence[_Read]) -> dict[str, Refusal]:
    """Send the records of files, and return why the database refuses some, by landing.

    A statement for each kind of rows holds those of all files. Where the database refuses one, it has landed nothing of
    it, and the rows of each file are sent alone. What may pass ends the sending. Raises StoreError if the database
    fails.
    """
    ordered = sorted(files, key=lambda each: each[1].landing)
    kinds: dict[tuple[str, pa.Schema], dict[str, list[pa.Table]]] = defaultdict(lambda: defaultdict(list))
    for file, content in ordered:
        for chunk in file.chunks:
            rows = with_source(chunk.rows, content)
            kinds[chunk.table, rows.schema][content.landing].append(rows)
    landings = "\n".join(content.landing for _, content in ordered)
    identity = hashlib.blake2b(landings.encode(), digest_size=16).hexdigest()
    names = {content.landing: content.source for _, content in ordered}
    refused: dict[str, Refusal] = {}
    for number, ((table, _), parts) in enumerate(kinds.items()):
        token = f"{identity}-{number}"
        try:
            _send_rows(store, table, list(chain.from_iterable(parts.values())), token)
        except Exception as error:  # noqa: BLE001 - which of the files is at fault shows when each is sent alone
            reason = refusal(store, f"its landing together with {len(files) - 1} others was cut short", error)
            if reason.may_pass:
                return dict.fromkeys(names, reason)
            for landing, rows in parts.items():
                try:
                    _send_rows(store, table, rows, f"{token}-{landing}")
                except Exception as error:  # noqa: BLE001 - the border of one file
                    refused[landing] = replace(refusal(store, names[landing], error), may_pass=False)
    return refused


def _send_rows(store: Store, table: str, rows: Sequence[pa.Table], token: str) -> None:
    joined = pa.concat_tables(rows).unify_dictionaries().combine_chunks()
    insert_rows(store, table, joined, LANDING_SETTINGS | {"insert_deduplication_token": token})


def _has_landed(store: Store, files: Sequence[_Read]) -> bool:
    """Return whether records of a group have landed, which then must be sent together again."""
    begun = read_outcomes(store, {content.landing: content.source for _, content in files})
    return any(outcome.records for outcome in begun.values())


def _record_refused(store: Store, files: Sequence[_Read], refused: Refusal) -> None:
    """Record that files are no group any longer. They may land alone, as nothing of them has."""
    record_landings(store, [(content, Outcome(content.source, 0, {}, error=refused.reason)) for _, content in files])


def _unfinished(store: Store, new: dict[str, _Read]) -> tuple[list[list[_Read]], list[_Read], dict[str, Outcome]]:
    """Take out of the new files those that were cut short before.

    Returns whole groups, files that were alone, and the outcomes of members of groups that are not whole.
    """
    whole: list[list[_Read]] = []
    alone: list[_Read] = []
    outcomes: dict[str, Outcome] = {}
    for group in unfinished_groups(store, list(new)):
        members = [new.pop(landing) for landing in group if landing in new]
        if len(group) == 1:
            alone += members
        elif len(members) == len(group):
            whole.append(members)
        else:
            outcomes |= {content.landing: incomplete_group(content.source, group) for _, content in members}
    return whole, alone, outcomes


def _kept_outcomes(members: Sequence[_Read], refused: Refusal) -> dict[str, Outcome]:
    """Return the outcomes of files that stay a group, to be sent again."""
    return {
        content.landing: Outcome(content.source, 0, {}, error=f"{content.source}: {refused.reason}", may_pass=True)
        for _, content in members
    }


def _outcome(file: _SmallFile, outcomes: dict[str, Outcome]) -> Outcome:
    if file.content is None:
        return Outcome(file.source.name, 0, {}, error=file.error)
    outcome = outcomes[file.content.landing]
    if outcome.source == file.source.name and file.is_first:
        return outcome
    return replace(outcome, source=file.source.name, repeat_of=outcome.source)
