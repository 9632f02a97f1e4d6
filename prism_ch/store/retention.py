"""How long each table's rows are kept: classes of tables, their days in the database, and the engine's TTL to match."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.cluster import LOCAL_SUFFIX, for_cluster, local_name
from prism_ch.store.statements import statement

#: Rows stay for a day longer than asked for: a window that can just be worked looks back at the hours before it.
_SURPLUS_DAYS = 1
_MOST_DAYS = 36_500
_UNITS = {"d": 1, "w": 7, "y": 365}

#: A TTL as the engine writes it back: the column and the days.
_TTL = re.compile(r" TTL toDateTime\((\w+)\) \+ toIntervalDay\(\D*(\d+)")
#: A change has reached the parts that are there when it returns, so that it can be noted when it begins to hold.
_AT_ONCE = {"materialize_ttl_after_modify": 1, "mutations_sync": 2, "alter_sync": 2}


@dataclass(frozen=True, slots=True)
class TableClass:
    """Tables that are kept equally long: `tables` name the column each one's age is counted from.

    `kept_days` is the default. Rows of the classes in `not_longer_than` must be kept at least as long.
    """

    name: str
    kept_days: int
    why: str
    not_longer_than: tuple[str, ...]
    tables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Kept:
    """How a class stands: its days, whether they are the default, and what its tables hold on this node.

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
#: Column and days of each table's TTL.
_Ttls = Mapping[str, tuple[str, int] | None]


@cache
def classes() -> Mapping[str, TableClass]:
    """Return the classes of sql/retention.toml by name."""
    return {
        name: TableClass(name, item["kept_days"], item["why"], tuple(item["not_longer_than"]), item["tables"])
        for name, item in _file()["class"].items()
    }


@cache
def kept_for_ever() -> Mapping[str, str]:
    """Return the tables of sql/retention.toml that are never emptied, each with the reason."""
    reasons: Mapping[str, str] = _file()["for_ever"]
    return reasons


def settle(store: Store) -> None:
    """Give every class its default days unless an operator has set them, and every table the TTL that follows.

    A default is no reason to keep a class longer than one it needs. May be repeated, and completes what was broken off.
    """
    noted = _noted(store)
    days = _days(noted)
    ttls = _ttls(store)
    for name, item in classes().items():
        _, is_default = noted.get(name, (0, True))
        default = min([item.kept_days, *(days[other] for other in item.not_longer_than)])
        _keep(store, item, default if is_default else days[name], noted, ttls, is_default=is_default)


def set_retention(store: Store, wanted: Mapping[str, int]) -> None:
    """Keep the rows of classes for so many days from now on; what is gone is not brought back.

    Raises UsageError, having changed nothing, where a class does not exist or would outlive what it needs.
    """
    unknown = sorted(wanted.keys() - classes().keys())
    if unknown:
        raise UsageError(f"there is no class {unknown[0]} of tables; there are {', '.join(classes())}")
    noted = _noted(store)
    _refuse_nonsense(_days(noted) | dict(wanted))
    ttls = _ttls(store)
    for name, days in wanted.items():
        _keep(store, classes()[name], days, noted, ttls, is_default=False)


def read_retention(store: Store) -> list[Kept]:
    """Return how each class stands, in the order of sql/retention.toml."""
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
        found.append(Kept(name, days, is_default, rows, size_bytes, oldest_at))
    return found


def parse_days(text: str) -> int:
    """Read a length of time: 30d, 6w or 2y (of 365 days).

    Raises UsageError where it is none, or not from a day to a hundred years.
    """
    match = re.fullmatch(r"([0-9]{1,6})([dwy])", text)
    days = int(match[1]) * _UNITS[match[2]] if match else 0
    if not 1 <= days <= _MOST_DAYS:
        raise UsageError(f"{text!r} is no time to keep rows for; write 30d, 6w or 2y, from 1d to 100y")
    return days


@cache
def _file() -> dict[str, Any]:
    """Read sql/retention.toml."""
    return tomllib.loads(asset("sql/retention.toml").read_text(encoding="utf-8"))


def _refuse_nonsense(days: Mapping[str, int]) -> None:
    """Refuse to keep a class longer than one that it needs."""
    for name, item in classes().items():
        for other in item.not_longer_than:
            if days[name] > days[other]:
                raise UsageError(
                    f"{name} can't be kept for {days[name]} days when {other}, which it needs, is kept for"
                    f" {days[other]}; set both, for example --set {name}={days[name]}d --set {other}={days[name]}d"
                )


def _days(noted: _Noted) -> dict[str, int]:
    """Return the days of every class, the default where none are noted."""
    return {name: noted.get(name, (item.kept_days, True))[0] for name, item in classes().items()}


def _noted(store: Store) -> _Noted:
    """Read what the database notes of each class."""
    return {name: (days, bool(is_default)) for name, days, is_default in store.rows(statement("retention"))}


def _ttls(store: Store) -> _Ttls:
    """Read the TTL of each table; None where it has none of this form."""
    rows = store.rows(statement("table_engines"), {"database": store.database})
    found = {name: _TTL.search(definition) for name, definition in rows}
    return {name: match and (match[1], int(match[2])) for name, match in found.items()}


def _keep(store: Store, item: TableClass, days: int, noted: _Noted, ttls: _Ttls, *, is_default: bool) -> None:
    """Bring note and TTLs to so many days.

    At any time the note says no more than the TTLs hold: rows it calls safe are there. So less is noted before, and
    more after the tables follow.
    """
    is_noted = noted.get(item.name) == (days, is_default)
    is_less = item.name not in noted or days < noted[item.name][0]
    note = {"class": item.name, "kept_days": days, "is_default": int(is_default)}
    if is_less:
        store.command(statement("note_retention"), note)
    for table, age in item.tables.items():
        name = local_name(table, store.cluster)
        if ttls[name] != (age, days + _SURPLUS_DAYS):
            key = {"table": name, "age": age, "days": days + _SURPLUS_DAYS}
            for order in ("drop_whole_parts", "set_ttl"):
                for one in for_cluster(statement(order), store.cluster):
                    store.command(one, key, settings=_AT_ONCE)
    if not is_less and not is_noted:
        store.command(statement("note_retention"), note)
