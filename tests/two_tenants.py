"""Fills every stored table of a database with rows of two tenants; each value identifies its tenant."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from prism_ch.store.client import Store


@dataclass(frozen=True, slots=True)
class Tenant:
    """The values in a tenant's rows: its name, a number, and a year."""

    name: str
    number: int
    year: int
    rows: int
    revision: int

    @property
    def marks(self) -> tuple[str, ...]:
        """Texts by which a row of the tenant is recognised in a result."""
        return (self.name, str(self.number), f"{self.year}-")


# The years are in the future, since rows older than a table's retention would be removed at once.
ALPHA = Tenant("alpha", 10_007, 2031, 3, 1)
BRAVO = Tenant("bravo", 970_931, 2029, 53, 2)

#: Views with a span of time as parameters, among those that tenants may name.
SPAN_VIEWS = frozenset({"gpu_time"})


def fill(store: Store, tenants: Sequence[Tenant] = (ALPHA, BRAVO)) -> None:
    """Write rows of tenants into every stored table but the migrations, and publish them."""
    tables: dict[str, list[tuple[str, str]]] = {}
    columns = (
        "SELECT table, name, type FROM system.columns"
        " WHERE database = {database:String} AND default_kind NOT IN ('MATERIALIZED', 'ALIAS')"
        " AND table IN (SELECT name FROM system.tables"
        "               WHERE database = {database:String} AND endsWith(engine, 'MergeTree'))"
    )
    for table, name, kind in store.rows(columns, {"database": store.database}):
        tables.setdefault(table, []).append((name, kind))
    for tenant in tenants:
        for table, fields in tables.items():
            if table in {"revisions", "schema_migrations"}:
                continue
            names = ", ".join(name for name, _ in fields)
            values = ", ".join(_value(name, kind, tenant) for name, kind in fields)
            store.command(f"INSERT INTO {table} ({names}) SELECT {values} FROM numbers({tenant.rows})")  # noqa: S608
        store.command(
            "INSERT INTO revisions (job_id, revision, window_start, cuts)"  # noqa: S608
            f" VALUES ('{tenant.name}-job', {tenant.revision}, '{tenant.year}-01-01 00:00:00', 0),"
            f" ('', {tenant.revision}, '{tenant.year}-01-01 00:00:00', 0)"
        )


# The expression of a value by the beginning of its type; the first that fits counts.
_BY_TYPE = {
    "Map": "map('{name}-{column}', {number})",
    "Array(LowCardinality(String": "['{name}-{column}']",
    "Array(String": "['{name}-{column}']",
    "Array(Enum": "CAST([1], '{quoted_type}')",
    "Array": "[{number}]",
    "Nullable(DateTime": "toDateTime64('{year}-01-01 00:00:00', 9, 'UTC') + number",
    "DateTime": "toDateTime64('{year}-01-01 00:00:00', 9, 'UTC') + number",
    "SimpleAggregateFunction(max, DateTime": "toDateTime64('{year}-01-01 00:00:00', 9, 'UTC') + number",
    "SimpleAggregateFunction(min, DateTime": "toDateTime64('{year}-01-01 00:00:00', 9, 'UTC') + number",
    "String": "concat('{name}-{column}-', toString(number))",
    "LowCardinality(String": "concat('{name}-{column}-', toString(number))",
    "Enum": "1",
    "UInt8": "1",
    "Float": "{number} + number / 7",
    "": "{number} + number",
}
_BY_NAME = {
    "tenant": "'{name}'",
    "job_id": "'{name}-job'",
    "revision": "{revision}",
    "load": "1",
    "is_withdrawn": "0",
}


def _value(column: str, kind: str, tenant: Tenant) -> str:
    """Return an expression for a column's values."""
    template = _BY_NAME.get(column) or next(made for begin, made in _BY_TYPE.items() if kind.startswith(begin))
    return template.format(column=column, quoted_type=kind.replace("'", "\\'"), **asdict(tenant))


def named(view: str) -> str:
    """Return a view as FROM names it, over all time if it needs one."""
    return f"{view}(from_time = '2000-01-01 00:00:00', to_time = '2100-01-01 00:00:00')" if view in SPAN_VIEWS else view
