"""Checks that rows which were written are there, and mends what can be mended without files from outside."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from prism_ch.health.checks import Check, guarded
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.integrity import (
    LostBlocks,
    LostFlows,
    LostResults,
    damaged_parts,
    drop_detached,
    lost_blocks,
    lost_flows,
    lost_ledger_rows,
    lost_results,
    lost_sums,
    pack_again,
    set_aside,
    sum_again,
    take_back,
)
from prism_ch.store.topology import latest_load

_SHOWN = 3
_MEND = "`prism-ch doctor --mend`"
_READ = f"a file of it may be damaged: {_MEND} sets damaged parts aside, and says what is lost"
#: How to bring back what a ledger lacks, by table.
_MEND_LEDGER = {
    "landings_log": "`prism-ch ingest --again FILE...` with all files that have landed, so that none lands twice",
    "landing_counts_log": "`prism-ch ingest --again FILE...` with the files that landings names",
    "windows_log": "`prism-ch analyse`; the service does it by itself",
    "retention_log": "`prism-ch migrate`",
}


def check_rows(store: Store, settings: Settings) -> list[Check]:
    """Compare ledgers with each other and with the rows of flows, sums, results and topology."""
    window_s = settings.window_s
    return [
        *guarded("rows of flows", lambda: _check_flows(lost_flows(store, window_s)), _READ),
        *guarded("rows of results", lambda: [_check_results(lost_results(store))], _READ),
        *guarded("rows of blocks", lambda: [_check_blocks(lost_blocks(store))], _READ),
        *guarded("rows of the topology", lambda: [_check_topology(latest_load(store).lost)], _READ),
        *guarded("rows of sums", lambda: [_check_sums(list(lost_sums(store)))], _READ),
        *guarded("rows of ledgers", lambda: _check_ledgers(lost_ledger_rows(store, window_s)), _READ),
    ]


def check_files(store: Store) -> list[Check]:
    """Read every file of every table, and compare it with its checksum."""
    return guarded("files of the database", lambda: [_check_files(store)], _READ)


def mend_database(store: Store, settings: Settings) -> list[str]:
    """Mend what needs nothing from outside, and return what was done, one line each.

    1. Parts that somebody detached are attached again.
    2. Parts whose files are damaged are set aside, so that the rest of their tables can be read.
    3. Arrivals, sums and marks are made again from flows, and blocks of steps from steps.
    4. Parts that are set aside are removed where no row of their table is missing any more.
    """
    done = [f"attached part {part} of {table}" for table, part in take_back(store)]
    damaged = damaged_parts(store)
    set_aside(store, damaged)
    done += [f"set part {each.part} of {each.table} aside: {each.reason}" for each in damaged]
    done += [f"made {table} again from flows" for table in sum_again(store, settings.window_s)]
    if pack_again(store):
        done.append("made step_blocks_log again from steps")
    lacking = [
        *(each.lacking for each in lost_flows(store, settings.window_s)),
        *(each.table for each in lost_results(store)),
        *(["topology_log", "topology_loads"] if latest_load(store).lost else []),
        *lost_sums(store),
        *(["step_blocks_log"] if lost_blocks(store) else []),
        *lost_ledger_rows(store, settings.window_s),
    ]
    removed = drop_detached(store, lacking)
    return done + [f"removed the files of part {part} of {table}: no ledger misses a row" for table, part in removed]


def _check_files(store: Store) -> Check:
    name = "files of the database"
    damaged = damaged_parts(store)
    if not damaged:
        return Check(name, "ok", "all are what their checksums say")
    shown = "; ".join(f"{each.part} of {each.table} ({each.reason})" for each in damaged[:_SHOWN])
    more = f"; and {len(damaged) - _SHOWN:,} more" if len(damaged) > _SHOWN else ""
    mend = f"{_MEND} sets them aside, so that the rest can be read; then `prism-ch doctor` says what to bring back"
    return Check(name, "bad", f"{len(damaged):,} parts are damaged: {shown}{more}", mend)


def _check_flows(lost: Sequence[LostFlows]) -> list[Check]:
    name = "rows of flows"
    if not lost:
        return [Check(name, "ok", "flows are there in all seconds in which some have landed")]
    return [_lost_flows(name, each) if each.lacking == "flows_log" else _lost_arrivals(name, each) for each in lost]


def _lost_flows(name: str, lost: LostFlows) -> Check:
    what = (
        f"flow records that have landed are gone in {lost.seconds:,} seconds {_between(lost.span)}:"
        f" {lost.present:,} rows are there of {lost.records:,} records, as delivered"
    )
    files = ", ".join(lost.examples) + (", ..." if lost.files > len(lost.examples) else "")
    landed = f" ({lost.files:,} files landed at that time: {files})" if lost.files else ""
    mend = (
        f"land their files again by `prism-ch ingest --again FILE...`{landed}; then, for windows that were analysed"
        f" without them, {_force(lost.span)}"
    )
    return Check(name, "bad", what, mend)


def _lost_arrivals(name: str, lost: LostFlows) -> Check:
    what = f"arrivals of {lost.present:,} flows are gone in {lost.seconds:,} seconds {_between(lost.span)}"
    return Check(name, "bad", what, f"{_MEND} counts them again")


def _check_results(lost: Sequence[LostResults]) -> Check:
    name = "rows of results"
    if not lost:
        return Check(name, "ok", "all rows are there that the last workings of windows wrote")
    shown = "; ".join(
        f"{each.table} has {each.present:,} of {each.written:,} rows of {each.windows:,} windows" for each in lost
    )
    span = Window(min(each.span.start_ns for each in lost), max(each.span.end_ns for each in lost))
    return Check(name, "bad", f"{shown}, {_between(span)}", _force(span))


def _check_blocks(lost: Sequence[LostBlocks]) -> Check:
    name = "rows of blocks"
    if not lost:
        return Check(name, "ok", "all published steps are in blocks of steps")
    present, steps = (sum(getattr(each, column) for each in lost) for column in ("present", "steps"))
    what = f"step_blocks_log has {present:,} of {steps:,} steps of {len(lost):,} days"
    return Check(name, "bad", what, f"{_MEND} makes them again from steps")


def _check_topology(lost: str) -> Check:
    name = "rows of the topology"
    if lost:
        return Check(name, "bad", lost, "load it again: `prism-ch topology FILE`")
    return Check(name, "ok", "all rows are there that were loaded")


def _check_sums(lost: Sequence[str]) -> Check:
    name = "rows of sums"
    if not lost:
        return Check(name, "ok", "sums by second, minute and hour have all flows")
    return Check(name, "bad", f"rows of {', '.join(lost)} are gone", f"{_MEND} makes them again from flows")


def _check_ledgers(missing: dict[str, int]) -> list[Check]:
    name = "rows of ledgers"
    if not missing:
        return [Check(name, "ok", "ledgers agree with each other")]
    return [
        Check(name, "bad", f"{table} lacks {number:,} that others name", _MEND_LEDGER.get(table, _MEND))
        for table, number in missing.items()
    ]


def _between(span: Window) -> str:
    return f"between {_time(span.start_ns)} and {_time(span.end_ns)}"


def _force(span: Window) -> str:
    return f"`prism-ch analyse --force --from {_time(span.start_ns)} --to {_time(span.end_ns)}`"


def _time(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(-(-at_ns // 10**9), UTC):%Y-%m-%dT%H:%M:%SZ}"
