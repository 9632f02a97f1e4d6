"""Finds rows that are gone though a ledger has them, and puts back what needs nothing from outside the database."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from prism_ch.errors import StoreError
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.retention import classes, kept_days
from prism_ch.store.statements import statement

log = logging.getLogger(__name__)

#: The views that land a record do so one after the other. What is missing for longer than this, in seconds, is lost.
_LANDING_S = 2.0
_DAY_S = 86_400
_EARLIEST_NS, _LATEST_NS = 0, 2**63 - 1
#: Sums of flows that can be compared with their number, by their column of time.
_SUMS = {"flow_pair_1m_log": "minute", "flow_pair_1h_log": "hour", "switch_1m_log": "minute", "switch_1h_log": "hour"}
_SECONDS = {"switch_1s_log": "second"}
#: Sums that are made again together with those, as they come from the same rows.
_WITH_SUMS = {"flow_way_1m_log": "minute"}


@dataclass(frozen=True, slots=True)
class LostFlows:
    """Seconds of which flow records have landed that are gone, or of which arrivals are gone (`lacking` arrivals_log).

    `records` have arrived in them, `present` rows are there. `files` landed at that time, and `examples` are names of
    some.
    """

    lacking: str
    seconds: int
    span: Window
    records: int
    present: int
    files: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class LostResults:
    """Windows of which a table of results has fewer rows than were written."""

    table: str
    windows: int
    written: int
    present: int
    span: Window


@dataclass(frozen=True, slots=True)
class LostBlocks:
    """Blocks of steps that start on one day, which have fewer steps than were published.

    `day_s` is the start of the day, Unix seconds; `partial` are the workings of which only some steps are in blocks.
    """

    day_s: int
    steps: int
    present: int
    partial: Sequence[int]


@dataclass(frozen=True, slots=True)
class DamagedPart:
    """A part of a table whose files are not what their checksums say."""

    table: str
    part: str
    reason: str


def lost_flows(store: Store, window_s: int, span: Window | None = None, *, worked: bool = False) -> list[LostFlows]:
    """Compare flows with arrivals, and return what either lacks, at most one of each.

    Parameters: `span`, only seconds in it; `worked`, only windows that were worked. What is landing at this moment is
    waited for.
    """
    key = {
        "from_ns": _EARLIEST_NS if span is None else span.start_ns,
        "to_ns": _LATEST_NS if span is None else span.end_ns,
        "window_s": window_s,
        "worked": int(worked),
    }
    rows = store.rows(statement("lost_flows"), key)
    if rows:
        time.sleep(_LANDING_S)
        rows = store.rows(statement("lost_flows"), key)
    found = []
    for lacking, seconds, start_ns, end_ns, records, present, from_s, to_s in rows:
        [(files, examples)] = store.rows(statement("landed_between"), {"from_s": from_s, "to_s": to_s})
        found.append(LostFlows(lacking, seconds, Window(start_ns, end_ns), records, present, files, examples))
    return found


def lost_results(store: Store) -> list[LostResults]:
    """Return tables of results that have fewer rows than were written."""
    found = []
    for (table,) in store.rows(statement("written_results")):
        [(windows, written, present, *span)] = store.rows(statement("lost_results"), {"table": table})
        if windows:
            found.append(LostResults(table, windows, written, present, Window(*span)))
    return found


def lost_ledger_rows(store: Store, window_s: int) -> dict[str, int]:
    """Compare ledgers with each other, and return how much each lacks, by table."""
    kept_s = kept_days(store)["ledger"] * _DAY_S
    missing: dict[str, int] = dict(store.rows(statement("lost_ledgers"), {"window_s": window_s, "kept_s": kept_s}))
    unnoted = classes().keys() - {name for name, *_ in store.rows(statement("retention"))}
    return missing | ({"retention_log": len(unnoted)} if unnoted else {})


def lost_sums(store: Store) -> dict[str, list[int]]:
    """Return days whose sums have fewer flows than have arrived, Unix seconds, by table."""
    days = kept_days(store)
    class_of = {table: name for name, each in classes().items() for table in each.tables}
    found: dict[str, list[int]] = {}
    for table, column in (_SUMS | _SECONDS).items():
        kept_s = days[class_of[table]] * _DAY_S
        rows = store.rows(statement("lost_sums"), {"table": table, "time": column, "kept_s": kept_s})
        if rows:
            found[table] = [day_s for (day_s,) in rows]
    return found


def lost_blocks(store: Store) -> list[LostBlocks]:
    """Return the days whose blocks of steps have fewer steps than were published."""
    kept_s = kept_days(store)["results"] * _DAY_S
    return [LostBlocks(*row) for row in store.rows(statement("lost_blocks"), {"kept_s": kept_s})]


def damaged_parts(store: Store) -> list[DamagedPart]:
    """Read every file of every table, and return parts that fail their checksums."""
    found = []
    for (table,) in store.rows(statement("stored_tables")):
        body = store.raw(statement("check_table"), {"table": table}, fmt="JSONCompactEachRow")
        for part, passed, message in map(json.loads, body.splitlines()):
            if not passed:
                found.append(DamagedPart(table, part, message.partition("DB::Exception: ")[2] or message))
    return found


def set_aside(store: Store, parts: Sequence[DamagedPart]) -> None:
    """Detach damaged parts, so that the others can be read; their files stay."""
    for each in parts:
        store.command(statement("detach_part"), {"table": each.table, "part": each.part})
        log.warning("part set aside table=%s part=%s reason=%r", each.table, each.part, each.reason)


def take_back(store: Store) -> list[tuple[str, str]]:
    """Attach parts that somebody detached and that are whole. Returns tables and parts."""
    taken = []
    for table, part, reason in store.rows(statement("detached_parts")):
        if reason:
            continue
        try:
            store.command(statement("attach_part"), {"table": table, "part": part})
        except StoreError as error:  # it stays where it is, and is named as before
            log.warning("part not taken back table=%s part=%s error=%r", table, part, str(error))
            continue
        taken.append((table, part))
    return taken


def drop_detached(store: Store, lacking: Sequence[str]) -> list[tuple[str, str]]:
    """Remove parts that are set aside, unless their table is `lacking` rows. Returns tables and parts."""
    dropped = []
    for table, part, _ in store.rows(statement("detached_parts")):
        if table not in lacking:
            store.command(statement("drop_detached_part"), {"table": table, "part": part})
            dropped.append((table, part))
    return dropped


def sum_again(store: Store, window_s: int) -> list[str]:
    """Make arrivals, sums and marks again where they lack what flows show. Returns tables.

    Repeats of records, which sums count as delivered, count once in what is made again.
    """
    made = []
    for each in lost_flows(store, window_s):
        if each.lacking == "arrivals_log":
            first_s, last_s = each.span.start_ns // 10**9 // _DAY_S * _DAY_S, each.span.end_ns // 10**9
            _sum_days(store, {"arrivals_log": "second"}, "sum_arrivals", range(first_s, last_s, _DAY_S))
            made.append("arrivals_log")
    lost = lost_sums(store)
    for tables, how in ((_SUMS, "sum_minutes"), (_SECONDS, "sum_seconds")):
        days = sorted({day_s for table in tables for day_s in lost.get(table, [])})
        if days:
            _sum_days(store, tables | (_WITH_SUMS if how == "sum_minutes" else {}), how, days)
            made += sorted(tables)
    ledgers = lost_ledger_rows(store, window_s)
    for table, how in (("revision_claims", "claim_published"), ("exporter_marks_log", "mark_exporters")):
        if table in ledgers:
            store.command(statement(how))
            made.append(table)
    return made


def pack_again(store: Store) -> int:
    """Pack published steps that are in no block, a day at a time. Returns the number of days."""
    lost = lost_blocks(store)
    for each in lost:
        if each.partial:
            store.command(statement("forget_blocks"), {"day_s": each.day_s, "revisions": each.partial})
        store.command(statement("pack_steps"), {"day_s": each.day_s})
        log.info("blocks of steps made again day_s=%d steps=%d", each.day_s, each.steps)
    return len(lost)


def _sum_days(store: Store, tables: dict[str, str], how: str, days: Sequence[int]) -> None:
    for day_s in days:
        for table, column in tables.items():
            store.command(statement("forget_sums"), {"table": table, "time": column, "day_s": day_s})
        store.command(statement(how), {"day_s": day_s})
