"""What a tenant is answered over databases that differ only in others' rows, by statements that could tell of them."""

# ruff: noqa: S608 - the statements are hostile on purpose

from __future__ import annotations

import http.client
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from prism_ch.query.allowed import FORMATS
from prism_ch.query.tenancy import REVEALING_FORMATS, tenant_views
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.serving import OwnEndpoint, endpoint
from tests.two_tenants import SPAN_VIEWS, Tenant, fill

#: The tenant that asks. Its numbers fit into 16 bits, those of the others do not.
OWN = Tenant("alpha", 10_007, 2031, 300, 1)
#: The others, by database: none, few with small and great keys, many of which keys lie around the own ones.
OTHERS: dict[str, Sequence[Tenant]] = {
    "alone": (),
    "few": (Tenant("aaaa", 970_931, 2029, 53, 2), Tenant("zulu", 4_000_000_000, 2258, 7, 3)),
    "many": (Tenant("alpha2", 70_001, 2031, 30_000, 2), Tenant("aaa", 5_000_000, 2031, 9_001, 3)),
}

_PRIVATE = frozenset({"date", "x-clickhouse-query-id", "x-clickhouse-exception-tag"})
_TIMING = re.compile(rb'"elapsed_ns": "\d+"')


@contextmanager
def databases(folder: Path) -> Iterator[list[OwnEndpoint]]:
    """Serve a database for each set of others while a block runs."""
    with ExitStack() as stack:
        served = []
        for name, others in OTHERS.items():
            store = stack.enter_context(connect(f"chdb://{folder}?database=with_{name}"))
            migrate(store)
            fill(store, (OWN, *others))
            _merge(store)
            served.append(stack.enter_context(endpoint(store, folder, requests_per_minute=10_000_000)))
        yield served
        for listening in served:
            with connect(f"chdb://{folder}?database={listening.database}") as store:
                store.command(f"DROP DATABASE {store.database} SYNC", use_database=False)


def _merge(store: Store) -> None:
    """Merge the parts of each table, so that rows of several tenants lie in one."""
    tables = "SELECT name FROM system.tables WHERE database = currentDatabase() AND endsWith(engine, 'MergeTree')"
    for (table,) in store.rows(tables):
        store.command(f"OPTIMIZE TABLE {table} FINAL")


#: The status of a statement that took too long, which depends on the machine too.
_TOO_LONG = 408


def answers(served: Sequence[OwnEndpoint], statement: str, **parameters: Any) -> list[tuple[int, str, bytes]]:
    """Ask each database, and return status, headers and body, without names of databases, ids and times.

    A statement that took too long in one of them only is asked again.
    """
    found = [_answer(one, statement, parameters) for one in served]
    for _ in range(3):
        statuses = {status for status, _, _ in found}
        if len(statuses) == 1 or _TOO_LONG not in statuses:
            break
        found = [_answer(one, statement, parameters) for one in served]
    return found


def _answer(served: OwnEndpoint, statement: str, parameters: dict[str, Any]) -> tuple[int, str, bytes]:
    try:
        found = served.ask(statement, OWN.name, **parameters)
    except http.client.IncompleteRead as broken:
        return 0, "broken off", _plain(broken.partial, served)
    headers = "\n".join(f"{name}: {value}" for name, value in sorted(found.headers.items()) if name not in _PRIVATE)
    return found.status, _plain(headers.encode(), served).decode(), _plain(found.body, served)


def _plain(body: bytes, served: OwnEndpoint) -> bytes:
    return _TIMING.sub(b"", body).replace(served.database.encode(), b"own_database")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a view."""

    name: str
    kind: str


def columns(store: Store) -> dict[str, list[Column]]:
    """Return the columns of each view that a tenant may name."""
    found: dict[str, list[Column]] = {}
    for table, name, kind in store.rows(
        "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
    ):
        if table in tenant_views() and table not in SPAN_VIEWS:
            found.setdefault(table, []).append(Column(name, kind))
    return found


#: Statements that told of others' rows before.
KNOWN = (
    "SELECT count() FROM steps WHERE accurateCast(step, 'UInt16') = 10010",
    "SELECT count() FROM gpu_steps WHERE job_id = 'alpha-job' AND accurateCast(step, 'UInt16') = 10010",
    "SELECT count() FROM timeline WHERE factorial(intDiv(step, 10000)) = 1",
    "SELECT count() FROM (SELECT factorial(intDiv(step, 10000)) AS x FROM steps) WHERE x = 5",
    "SELECT count() FROM (SELECT factorial(intDiv(step, 10000)) FROM steps) AS t(x) WHERE x = 5",
    "WITH t(x) AS (SELECT factorial(intDiv(step, 10000)) FROM steps) SELECT count() FROM t WHERE x = 5",
    "SELECT count() FROM (SELECT 5 AS x UNION ALL SELECT factorial(intDiv(step, 10000)) FROM steps) WHERE x = 5",
    "SELECT 1 FROM (SELECT factorial(intDiv(step, 10000)) AS x FROM steps) AS a JOIN jobs ON x = steps WHERE x = 5",
    (
        "SELECT 1 FROM (SELECT factorial(intDiv(step, 10000)) AS x FROM steps) AS a JOIN jobs AS b ON x = b.steps"
        " WHERE b.steps = 5"
    ),
    (
        "SELECT b.steps AS y FROM (SELECT factorial(intDiv(step, 10000)) AS x FROM steps) AS a JOIN jobs AS b"
        " ON a.x = y WHERE b.steps = 5"
    ),
    "SELECT count() FROM steps WHERE fromModifiedJulianDay(toInt32(step)) > '2000-01-01'",
    "SELECT count() FROM gpu_steps WHERE start_time + toIntervalSecond(7000000000) > now()",
    "SELECT * FROM steps FORMAT Native",
    "SELECT * FROM gpu_steps FORMAT ArrowStream",
    "SELECT step FROM gpu_steps LIMIT 10 FORMAT JSON",
    "SELECT nowInBlock64() > now(), count() FROM steps GROUP BY 1",
    "SELECT * FROM gpu_steps WHERE char(toInt64(bubble_s) - 1) != 10010 OR job_id > 'b'",
    "SELECT count() FROM steps WHERE (step, job_id) IN (SELECT step FROM steps) OR step = 'a'",
)


#: Functions of a column that fail, or not, by its value; {k} is near own values or those of others.
_THROWING = {
    "number": (
        "accurateCast({c} + {k}, 'UInt16')", "accurateCast({c}, 'UInt16')", "accurateCast({c} * {k}, 'UInt32')",
        "factorial(intDiv({c}, 10000))", "fromModifiedJulianDay(toInt32({c}) - {k})", "intDiv({k}, {c} - {k})",
        "{k} % (toInt64({c}) - {k})", "toDecimal32({c}, 4)", "toDecimal64({c}, 12)", "toUInt8(toString({c}))",
        "toDateTime64({c}, 9) + toIntervalYear(intDiv({c}, 20000))", "arrayElement([1, 2], toInt64({c}) - {k})",
        "bitShiftLeft({c}, intDiv({c}, 1000))", "makeDate(intDiv({c}, 5), 1, 1)", "repeat('a', {c})",
        "char(toInt64({c}) - {k})", "exp2({c})", "length(range({c}))", "toFixedString('ab', intDiv({c}, 9000) + 1)",
        "CAST({c}, 'UInt8')", "{c} / ({c} - {k})", "moduloOrZero({c}, {k})", "{c} + {k}", "-{c}",
    ),
    "text": (
        "toUInt64({c})", "toDate({c})", "toIPv4({c})", "toUUID({c})", "toUInt8(substring({c}, -1))",
        "parseDateTime({c}, '%Y')", "accurateCast(length({c}), 'UInt8') - 12", "toFixedString({c}, 9)",
        "accurateCast(position({c}, 'a') - 1, 'UInt8')", "CAST({c}, 'Enum8(\\'alpha-job\\' = 1)')",
        "toDateTime({c})", "hex({c})", "lower({c})", "concat({c}, '{k}')", "{c}", "reinterpretAsUInt64({c})",
    ),
    "time": (
        "{c} + toIntervalSecond({k} * 100)", "{c} + toIntervalYear(230)", "{c} - toIntervalYear({k})",
        "accurateCast(toUnixTimestamp64Nano({c}) - 1924000000000000000, 'UInt64')", "toUnixTimestamp({c})",
        "toDateTime({c})", "accurateCast(toYear({c}) - 1900, 'UInt8')", "factorial(toYear({c}) - 2020)",
        "({c} - toDateTime64('1901-01-01 00:00:00', 9)) * {k}", "toStartOfInterval({c}, INTERVAL {k} SECOND)",
        "dateDiff('second', {c}, toDateTime64('2031-01-01 00:00:00', 9))", "toDate({c})", "toInt8({c})",
        "accurateCast(toUnixTimestamp({c}), 'Int32')", "{c}", "intDiv({k}, toYear({c}) - 2029)",
    ),
}  # fmt: skip
_OTHER = ("toString({c})", "length(toString({c}))", "toUInt8(toString({c}))", "hex(toString({c}))", "isNull({c})")
_NEAR = (1, 2, 7, 53, 300, 10_007, 10_100, 55_000, 70_001, 970_931, 2_000_000_000, 4_000_000_000, 9 * 10**18)
_SETTINGS = (
    "", "", "", "max_threads = 2", "max_threads = 1", "extremes = 1", "limit = 5", "max_result_rows = 20",
)  # fmt: skip


class Statements:
    """Draws statements of a tenant: with functions that fail for some keys, in all places and formats."""

    def __init__(self, views: dict[str, list[Column]], seed: int) -> None:
        self._views = views
        self._random = Random(seed)  # noqa: S311 - for tests
        self._formats = sorted(FORMATS - REVEALING_FORMATS)
        self._shapes: tuple[Callable[[str], str], ...] = (
            self._where, self._where, self._where, self._derived, self._renamed, self._defined, self._scalar,
            self._joined, self._joined_on, self._grouped, self._united, self._window, self._member, self._listed,
            self._top, self._using, self._lambda, self._array, self._totals, self._sums,
        )  # fmt: skip

    def __iter__(self) -> Iterator[str]:
        while True:
            view = self._random.choice(sorted(self._views))
            text = self._random.choice(self._shapes)(view)
            settings = self._random.choice(
                (
                    "",
                    "",
                    "",
                    "max_block_size = 10",
                    "max_threads = 1",
                    "extremes = 1",
                    "limit = 5",
                    "max_result_rows = 20",
                )
            )
            yield f"{text} {settings and 'SETTINGS ' + settings} FORMAT {self._random.choice(self._formats)}"

    def _column(self, view: str) -> Column:
        return self._random.choice(self._views[view])

    def _computed(self, view: str, table: str = "") -> str:
        """Return an expression of a column."""
        column = self._column(view)
        kind = (
            "time" if "DateTime" in column.kind
            else "text" if "String" in column.kind and not column.kind.startswith(("Array", "Map"))
            else "number" if re.match(r"(Nullable\()?(U?Int|Float)", column.kind)
            else ""
        )  # fmt: skip
        near = self._random.choice(_NEAR) + self._random.randint(-2, 2)
        form = self._random.choice(_THROWING.get(kind, _OTHER))
        return form.format(c=f"{table}{column.name}", k=near)

    def _condition(self, view: str, table: str = "") -> str:
        value = self._random.choice(
            ("5", "10010", "'2031-01-01'", "'a'", "toDateTime64('2031-01-01 00:00:07', 9)", "-1", "toDecimal64(3, 4)")
        )
        compared = f"{self._computed(view, table)} {self._random.choice(('=', '>', '<', '!=', '>='))} {value}"
        one = self._random.choice(
            (
                compared,
                f"{self._computed(view, table)} IN ({value}, {value})",
                f"isNotNull({self._computed(view, table)})",
                f"ignore({self._computed(view, table)}) = 0",
                f"toString({self._computed(view, table)}) != 'x'",
            )
        )
        more = self._random.choice(("", "", f" AND {table}job_id = 'alpha-job'", f" OR {table}job_id > 'b'"))
        if "job_id" not in {column.name for column in self._views[view]}:
            more = ""
        return self._random.choice(("", "", "NOT ")) + f"({one}{more})"

    def _where(self, view: str) -> str:
        what = self._random.choice(("*", "count()", f"{self._computed(view)} AS x", "sum(cityHash64(*))"))
        return f"SELECT {what} FROM {view} WHERE {self._condition(view)}"

    def _derived(self, view: str) -> str:
        return f"SELECT x FROM (SELECT {self._computed(view)} AS x FROM {view}) WHERE toString(x) > '3' AND x = x"

    def _renamed(self, view: str) -> str:
        return f"SELECT count() FROM (SELECT {self._computed(view)} FROM {view}) AS t(x) WHERE x != x OR isNotNull(x)"

    def _defined(self, view: str) -> str:
        return f"WITH {self._computed(view)} AS k SELECT k FROM {view} WHERE k = k AND {self._condition(view)}"

    def _scalar(self, view: str) -> str:
        column = self._column(view).name
        return f"WITH (SELECT max({column}) FROM {view} WHERE {self._condition(view)}) AS m SELECT m, count() FROM jobs"

    def _joined(self, view: str) -> str:
        return (
            f"SELECT count() FROM {view} AS a {self._random.choice(('INNER', 'LEFT', 'ANY LEFT'))} JOIN jobs AS b"
            f" ON toString(a.{self._column(view).name}) = b.job_id WHERE {self._condition(view, 'a.')}"
        )

    def _joined_on(self, view: str) -> str:
        return (
            f"SELECT count() FROM {view} AS a INNER JOIN jobs AS b ON toString({self._computed(view, 'a.')}) ="
            f" toString(b.steps) AND {self._condition(view, 'a.')}"
        )

    def _grouped(self, view: str) -> str:
        key = self._computed(view)
        return f"SELECT {key} AS k, count() FROM {view} GROUP BY k HAVING toString(k) > '1' ORDER BY k"

    def _united(self, view: str) -> str:
        return (
            f"SELECT x FROM (SELECT toString(1) AS x UNION ALL SELECT toString({self._computed(view)}) FROM {view})"
            " WHERE x = '5' OR x > 'a'"
        )

    def _window(self, view: str) -> str:
        key = self._computed(view)
        return f"SELECT row_number() OVER (ORDER BY {key}) AS n FROM {view} QUALIFY n % 7 = 1 ORDER BY n"

    def _member(self, view: str) -> str:
        return (
            f"SELECT count() FROM jobs WHERE toString(steps) IN (SELECT toString({self._computed(view)}) FROM {view})"
        )

    def _listed(self, view: str) -> str:
        return f"SELECT * FROM {view} LIMIT {self._random.randint(1, 400)}"

    def _top(self, view: str) -> str:
        return f"SELECT * FROM {view} ORDER BY {self._computed(view)} LIMIT 5"

    def _using(self, view: str) -> str:
        return (
            f"SELECT count() FROM (SELECT toString({self._computed(view)}) AS x FROM {view}) AS a"
            " INNER JOIN (SELECT toString(number) AS x FROM numbers(20000)) AS b USING (x) WHERE b.x > '5'"
        )

    def _lambda(self, view: str) -> str:
        column = self._column(view).name
        return f"SELECT arrayMap(x -> toUInt16(toString(x)), [{column}]) FROM {view} WHERE {self._condition(view)}"

    def _array(self, view: str) -> str:
        return f"SELECT y FROM {view} ARRAY JOIN [{self._computed(view)}] AS y WHERE toString(y) > '3'"

    def _totals(self, view: str) -> str:
        key = self._column(view).name
        return f"SELECT {key}, count() AS n FROM {view} GROUP BY {key} WITH TOTALS ORDER BY {key} LIMIT 3"

    def _sums(self, view: str) -> str:
        column = self._random.choice(
            [one for one in self._views[view] if re.match(r"U?Int|Float", one.kind)] or [Column("1", "")]
        )
        return f"SELECT sum({column.name}), avg({column.name}), sumKahan({column.name}), any({column.name}) FROM {view}"
