"""How long rows are kept: classes of tables, their days, the engine's TTL to match, and pruning of superseded rows."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache

import pyarrow as pa

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.statements import LOCAL_SUFFIX, local_name, statement

log = logging.getLogger(__name__)

#: Rows stay for a day longer than set: a window that can just be analysed looks back at the hours before it.
_SURPLUS_DAYS = 1
_MAX_DAYS = 36_500
_UNITS = {"d": 1, "w": 7, "y": 365}

#: A TTL as the engine writes it back: the column and the days.
_TTL = re.compile(r" TTL toDateTime\((\w+)\) \+ toIntervalDay\(\D*(\d+)")

#: Tables to prune, by the view that lists their dead rows, in this order: the table that the view reads comes last, so
#: that the list holds until all of it is deleted; `revisions`, which the other views read, at the end.
_DEAD = {
    "dead_states": ("job_members_log", "pairs_log", "groups_log", "jobs_log"),
    "dead_steps": ("timeline_log", "gpu_steps_log", "what_if_log", "steps_log"),
    "dead_blocks": ("step_blocks_log",),
    "dead_findings": ("diagnoses_log",),
    "dead_incidents": ("incidents_log",),
    "dead_exporters": ("exporters_log",),
    "dead_visibility": ("visibility_log",),
    "dead_revisions": ("revisions",),
}
#: Tables to which an analysis writes before it publishes.
_RESULTS = tuple(table for tables in _DEAD.values() for table in tables if table != "revisions")
#: Each replica deletes what it finds dead itself: what is dead once is so for good.
_PRUNE_SETTINGS = {"mutations_sync": 1, "allow_nondeterministic_mutations": 1}


@dataclass(frozen=True, slots=True)
class TableClass:
    """Tables that are kept equally long; `tables` names the column that each one's age is counted from.

    `kept_days` is the default. Rows of the classes in `not_longer_than` must be kept at least as long.
    """

    kept_days: int
    why: str
    not_longer_than: Sequence[str]
    tables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClassState:
    """How long a class is kept, whether that is the default, and what its tables hold on this node.

    `oldest_at` is when the oldest row was written; None where there is none.
    """

    name: str
    kept_days: int
    is_default: bool
    rows: int
    size_bytes: int
    oldest_at: datetime | None


#: Days of a class, and whether they are the default.
_Noted = Mapping[str, tuple[int, bool]]
#: Column and days of each table's TTL; None where it has none of the usual form.
_Ttls = Mapping[str, tuple[str, int] | None]


@cache
def classes() -> Mapping[str, TableClass]:
    """Return the classes of sql/retention.toml by name."""
    text = asset("sql/retention.toml").read_text(encoding="utf-8")
    return {name: TableClass(**item) for name, item in tomllib.loads(text)["class"].items()}


def apply_retention(store: Store) -> None:
    """Give every class without days of its own the default, and every table its TTL.

    No class is kept by default longer than one that it needs. May be repeated, and completes what was broken off.
    """
    noted = _noted(store)
    days = _days(noted)
    wanted = {}
    for name, item in classes().items():
        _, is_default = noted.get(name, (0, True))
        default = min([item.kept_days, *(days[other] for other in item.not_longer_than)])
        wanted[name] = (default if is_default else days[name], is_default)
    _keep(store, wanted, noted)


def set_retention(store: Store, wanted: Mapping[str, int]) -> None:
    """Set how many days the rows of classes are kept from now on.

    Raises UsageError, having changed nothing, where a class does not exist or would outlive what it needs.
    """
    unknown = sorted(wanted.keys() - classes().keys())
    if unknown:
        raise UsageError(f"there is no class {unknown[0]} of tables; there are {', '.join(classes())}")
    noted = _noted(store)
    days = _days(noted) | dict(wanted)
    for name, item in classes().items():
        for other in item.not_longer_than:
            if days[name] > days[other]:
                raise UsageError(
                    f"{name} can't be kept for {days[name]} days when {other}, which it needs, is kept for"
                    f" {days[other]}; set both, for example --set {name}={days[name]}d --set {other}={days[name]}d"
                )
    _keep(store, {name: (wanted_days, False) for name, wanted_days in wanted.items()}, noted)


def read_retention(store: Store) -> list[ClassState]:
    """Return the state of each class, in the order of sql/retention.toml."""
    noted = _noted(store)
    held = {
        row[0]: row[1:]
        for row in store.rows(statement("retention_state"), {"database": store.database, "suffix": LOCAL_SUFFIX})
    }
    found = []
    for name, item in classes().items():
        days, is_default = noted.get(name, (item.kept_days, True))
        parts = [held[table] for table in item.tables if table in held]
        expiries = [expires_at for _, _, expires_at in parts if expires_at is not None]
        oldest_at = min(expiries) - timedelta(days=days + _SURPLUS_DAYS) if expiries else None
        rows, size_bytes = (sum(part[column] for part in parts) for column in (0, 1))
        found.append(ClassState(name, days, is_default, rows, size_bytes, oldest_at))
    return found


def parse_days(text: str) -> int:
    """Read a length of time: 30d, 6w or 2y (of 365 days).

    Raises UsageError where it is none, or not from a day to a hundred years.
    """
    match = re.fullmatch(r"([0-9]{1,6})([dwy])", text)
    days = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 1 <= days <= _MAX_DAYS:
        raise UsageError(f"{text!r} is no time to keep rows for; write 30d, 6w or 2y, from 1d to 100y")
    return days


def kept_days(store: Store) -> dict[str, int]:
    """Return for how many days the rows of each class are kept."""
    return _days(_noted(store))


def prune(store: Store, stop: Callable[[], bool] = bool) -> int:
    """Delete rows that no reader sees, and return the number of tables concerned.

    These are what windows that are final for a day replaced, and what analyses wrote that were never published, after a
    day. Results are the same before and after. Safe during an analysis; broken off, it is completed next time.
    Parameters: `stop`, called between tables, leaves the others for later.
    """
    pruned = 0
    for table in _RESULTS:
        if stop():
            return pruned
        if store.scalar(statement("count_unpublished"), {"table": table}):
            pruned += _delete(store, "unpublished", table)
    for view, tables in _DEAD.items():
        if not store.scalar(statement("count_dead"), {"view": view}):
            continue
        for table in tables:
            if stop():
                return pruned
            pruned += _delete(store, view, table)
    return pruned


def _delete(store: Store, what: str, table: str) -> int:
    store.command(statement(f"prune_{what}"), {"table": table}, settings=_PRUNE_SETTINGS)
    log.info("pruned table=%s what=%s", table, what)
    return 1


def _days(noted: _Noted) -> dict[str, int]:
    return {name: noted.get(name, (item.kept_days, True))[0] for name, item in classes().items()}


def _noted(store: Store) -> _Noted:
    return {name: (days, bool(is_default)) for name, days, is_default in store.rows(statement("retention"))}


def _ttls(store: Store) -> _Ttls:
    rows = store.rows(statement("table_engines"), {"database": store.database})
    found = {name: _TTL.search(definition) for name, definition in rows}
    return {name: match and (match[1], int(match[2])) for name, match in found.items()}


def _keep(store: Store, wanted: _Noted, noted: _Noted) -> None:
    """Record the days of classes and set their tables' TTL.

    At any time the notes promise no more than the TTLs keep. So less is noted before, and more after the tables follow.
    """
    less = {name: note for name, note in wanted.items() if name not in noted or note[0] < noted[name][0]}
    _note(store, less)
    ttls = _ttls(store)
    for name, (days, _) in wanted.items():
        for table, age in classes()[name].tables.items():
            local = local_name(table, store.cluster)
            if ttls[local] != (age, days + _SURPLUS_DAYS):
                store.ddl(statement("set_ttl"), {"table": local, "age": age, "days": days + _SURPLUS_DAYS})
    _note(store, {name: note for name, note in wanted.items() if name not in less and note != noted[name]})


def _note(store: Store, notes: _Noted) -> None:
    columns = {
        "class": pa.array(list(notes), pa.string()),
        "kept_days": pa.array([days for days, _ in notes.values()], pa.uint32()),
        "is_default": pa.array([int(is_default) for _, is_default in notes.values()], pa.uint8()),
    }
    store.insert("retention_log", columns)
