"""Two tenants with rows in every table: the engine itself shows each only its own, whatever is asked."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from prism_ch.errors import PrismError, StoreError, UsageError
from prism_ch.query.answer import answer, answer_bytes, check_statement, run
from prism_ch.query.checked import TENANT_LIMITS, CheckedStatement, Limits, engine_settings
from prism_ch.query.tenancy import closed_names, inner_tables, listed_views, row_filters, tenant_views
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.sweeps import swept
from tests.two_tenants import ALPHA, BRAVO, fill, named


@pytest.fixture(scope="module")
def shared(engine_folder: Path) -> Iterator[Store]:
    """A database in which both tenants have rows; nothing changes them."""
    with connect(f"chdb://{engine_folder}?database=two_tenants") as store:
        migrate(store)
        fill(store)
        yield store
        store.command("DROP DATABASE two_tenants SYNC", use_database=False)


def ungated(store: Store, sql: str) -> str:
    """Run text that never saw the gate, under a tenant's settings: what the engine alone holds back."""
    settings = engine_settings(store.database, ALPHA.name, TENANT_LIMITS, {})
    return run(store, CheckedStatement(sql, settings, None, ALPHA.name), "JSONEachRow").decode()


def assert_only_alpha(text: str) -> None:
    assert not [mark for mark in BRAVO.marks if mark in text], text[:500]


@pytest.mark.parametrize("view", sorted(tenant_views()))
def test_a_tenant_sees_its_own_rows_of_every_view_and_no_others(shared: Store, view: str) -> None:
    seen = answer_bytes(shared, f"SELECT * FROM {named(view)}", "json", tenant=ALPHA.name).decode()  # noqa: S608
    assert ALPHA.name in seen
    assert_only_alpha(seen)
    theirs = answer_bytes(shared, f"SELECT * FROM {named(view)}", "json", tenant=BRAVO.name).decode()  # noqa: S608
    assert BRAVO.name in theirs
    assert ALPHA.name not in theirs


def test_row_filters_follow_from_columns_of_each_table(shared: Store) -> None:
    stored: dict[str, set[str]] = {}
    for table, column in shared.rows(
        "SELECT table, name FROM system.columns WHERE database = {database:String} AND table IN"
        " (SELECT name FROM system.tables WHERE database = {database:String} AND NOT endsWith(engine, 'View'))",
        {"database": shared.database},
    ):
        stored.setdefault(table, set()).add(column)
    filters = row_filters(shared.database, ALPHA.name)
    assert {name for name in filters if not name.startswith("system.")} == {
        f"{shared.database}.{table}" for table in stored.keys() - {"topology_loads"}
    }
    for table, columns in stored.items():
        condition = filters.get(f"{shared.database}.{table}", "")
        if "tenant" in columns:
            assert condition.startswith("tenant = ")
        elif table == "revisions":
            assert condition.startswith("job_id = '' OR job_id IN ")
        elif {"job_id", "revision"} <= columns:
            assert condition.startswith("(job_id, revision) IN ")
            assert ("steps_log" if "step" in columns else "jobs_log") in condition
        else:
            assert condition == ("" if table == "topology_loads" else "0")


def test_inner_tables_are_what_tenant_views_read(shared: Store) -> None:
    texts = dict(
        shared.rows(
            "SELECT name, as_select FROM system.tables WHERE database = {database:String}",
            {"database": shared.database},
        )
    )
    found, pending = set[str](), set(tenant_views())
    while pending:
        found |= pending
        read = " ".join(texts[name] for name in pending)
        pending = set(re.findall(rf"\b{shared.database}\.(\w+)", read)) - found
    assert found - tenant_views() == inner_tables()


def test_engine_alone_hides_other_tenants_in_every_table(shared: Store) -> None:
    kinds = dict(
        shared.rows(
            "SELECT name, engine FROM system.tables WHERE database = {database:String}", {"database": shared.database}
        )
    )
    assert kinds.keys() == closed_names() | tenant_views()
    for name, engine in kinds.items():
        if name in {"pair_traffic", "switch_traffic"} or engine == "MaterializedView":
            continue
        try:
            seen = ungated(shared, f"SELECT * FROM {named(name)}")  # noqa: S608
            counted = ungated(shared, f"SELECT count() AS n FROM {named(name)}")  # noqa: S608
        except StoreError as error:
            seen = counted = str(error)
        if name not in {"revisions", "topology_loads", "schema_migrations", "published", "prune_horizon"}:
            assert_only_alpha(seen)
            assert '"53"' not in counted


@pytest.mark.parametrize("name", sorted(closed_names()))
def test_tables_of_the_whole_network_are_refused_to_tenants(shared: Store, name: str) -> None:
    with pytest.raises(UsageError, match="not offered"):
        answer(shared, f"SELECT count() FROM {name}", tenant=ALPHA.name)  # noqa: S608
    with pytest.raises(UsageError, match="not offered"):
        answer(shared, f"DESCRIBE {shared.database}.{name}", tenant=ALPHA.name)


SHAPES = [
    "SELECT count() FROM {view} WHERE {check} = 1",
    "SELECT * FROM {view} WHERE {check} = 1 AND 1 = 1",
    "SELECT {column} FROM {view} WHERE {check} = 1 ORDER BY {column} LIMIT 1",
    "SELECT count() FROM (SELECT * FROM {view}) WHERE {check} = 1",
    "SELECT count() FROM {view} AS a JOIN {view} AS b USING ({column}) WHERE {check} = 1",
    "SELECT {column}, count() FROM {view} GROUP BY {column} HAVING {check} = 1",
    "SELECT count() FROM {view} WHERE {column} != 'q' AND {check} = 1 AND {column} > ''",
    "SELECT sum({check}) FROM {view}",
    "SELECT countIf({check} = 1) FROM {view} WHERE {column} > '' GROUP BY {check}",
]


@pytest.mark.parametrize("every", [3, *swept(1)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_condition_never_runs_on_a_hidden_row(shared: Store, shape: str, every: int) -> None:
    columns = shared.rows(
        "SELECT table, name FROM system.columns WHERE database = {database:String}"
        " AND table IN {views:Array(String)} AND type IN ('String', 'LowCardinality(String)')",
        {"database": shared.database, "views": sorted(tenant_views())},
    )
    # Each shape has its part of the columns, and each column of the shapes.
    for view, column in columns[SHAPES.index(shape) % every :: every]:
        # Harmless on alpha's values, an error on bravo's.
        check = f"toUInt8(if(startsWith({column}, 'bra' || 'vo'), 'x', '1'))"
        sql = shape.format(view=named(view), column=column, check=check)
        assert_only_alpha(answer_bytes(shared, sql, "json", tenant=ALPHA.name).decode())


def test_job_that_changes_tenant_is_the_new_ones_from_then_on(store: Store) -> None:
    fill(store)
    written = [
        "INSERT INTO revisions (job_id, revision, cuts) VALUES ('alpha-job', 7, 0), ('', 7, 0)",
        "INSERT INTO jobs_log (job_id, revision, tenant) VALUES ('alpha-job', 7, 'bravo')",
        "INSERT INTO pairs_log (job_id, revision, src_addr) VALUES ('alpha-job', 7, 'new')",
        "INSERT INTO steps_log (job_id, revision, tenant, step) VALUES ('alpha-job', 7, 'bravo', 20000)",
        (
            "INSERT INTO timeline_log (job_id, revision, endpoint, phases, lengths_ns) VALUES"
            " ('alpha-job', 7, 'new', [1], [5])"
        ),
    ]
    for sql in written:
        store.command(sql)
    addresses = "SELECT DISTINCT src_addr FROM pairs WHERE job_id = 'alpha-job'"
    assert answer(store, addresses, tenant=ALPHA.name).rows == ()
    assert answer(store, addresses, tenant=BRAVO.name).rows == (("new",),)
    endpoints = (
        "SELECT countIf(endpoint = 'new'), countIf(endpoint != 'new') > 0 FROM timeline WHERE job_id = 'alpha-job'"
    )
    assert answer(store, endpoints, tenant=ALPHA.name).rows == (("0", "1"),)
    assert answer(store, endpoints, tenant=BRAVO.name).rows == (("1", "0"),)


def test_rows_without_tenant_are_nobodys(store: Store) -> None:
    fill(store)
    store.command("INSERT INTO diagnoses_log (job_id, revision, diagnosis_id, tenant) VALUES ('', 1, 'd-switch', '')")
    operators = answer(store, "SELECT count() FROM diagnoses WHERE tenant = ''").rows
    assert operators == (("1",),)
    assert answer(store, "SELECT count() FROM diagnoses WHERE tenant = ''", tenant=ALPHA.name).rows == (("0",),)
    with pytest.raises(UsageError, match="needs a name"):
        answer(store, "SELECT 1", tenant="")


@pytest.mark.parametrize("tenant", ["al'pha", "x' OR 1 OR '", "\\", "') OR ('1'='1", "é", "a\nb", "%", "*"])
def test_a_tenants_name_is_data(shared: Store, tenant: str) -> None:
    assert answer(shared, "SELECT count() FROM jobs", tenant=tenant).rows == (("0",),)


def test_what_a_tenant_finds_of_the_schema_is_its_views(shared: Store) -> None:
    assert {
        name for (name,) in answer(shared, "SELECT name FROM system.tables", tenant=ALPHA.name).rows
    } == tenant_views()
    assert {name for (name,) in answer(shared, "SHOW TABLES", tenant=ALPHA.name).rows} == tenant_views()
    for statement in ("SHOW TABLES", "show full tables", f"SHOW TABLES FROM `{shared.database}` LIMIT 99"):
        assert {row[0] for row in answer(shared, statement).rows} == listed_views()
    assert ("steps_log",) in answer(shared, "SHOW TABLES LIKE 'steps%'").rows
    databases = answer(shared, "SELECT DISTINCT database FROM system.columns", tenant=ALPHA.name).rows
    assert databases == ((shared.database,),)
    totals = answer(shared, "SELECT any(total_rows), any(total_bytes) FROM system.tables", tenant=ALPHA.name)
    assert totals.rows == ((None, None),)


@pytest.mark.parametrize(
    "sql,limits,reason",
    [
        ("SELECT * FROM numbers(9)", Limits(result_rows=3), "max_result_rows|result"),
        ("SELECT groupArray(number) FROM numbers(9000000)", Limits(memory_bytes=1 << 24), "memory"),
        ("SELECT sum(sipHash64(number)) FROM numbers(100000000000)", Limits(time_s=0.2), "too long"),
    ],
)
def test_limits_hold(shared: Store, sql: str, limits: Limits, reason: str) -> None:
    asked = check_statement(shared, sql, limits=limits)
    with pytest.raises(StoreError, match=reason):
        run(shared, asked, "CSV")


def test_a_limit_tells_a_tenant_no_numbers(shared: Store) -> None:
    asked = check_statement(shared, "SELECT count() FROM steps", tenant=ALPHA.name, limits=Limits(rows_read=2))
    with pytest.raises(StoreError) as refusal:
        run(shared, asked, "CSV")
    assert str(refusal.value) == "the statement reads too many rows; ask for fewer jobs or a shorter time"


def test_own_rows_do_not_reveal_how_many_are_hidden(shared: Store) -> None:
    limits = [
        int(check_statement(shared, "SELECT 1", tenant=ALPHA.name).settings["max_rows_to_read"]) for _ in range(8)
    ]
    assert len(set(limits)) > 1
    assert all(TENANT_LIMITS.rows_read // 2 <= limit <= TENANT_LIMITS.rows_read for limit in limits)
    operators = {
        check_statement(shared, "SELECT 1", limits=Limits(rows_read=9)).settings["max_rows_to_read"] for _ in range(8)
    }
    assert operators == {"9"}


def test_a_clause_lowers_a_limit_and_never_raises_it(shared: Store) -> None:
    raised = check_statement(shared, "SELECT 1 SETTINGS max_result_rows = 1000", limits=Limits(result_rows=3))
    lowered = check_statement(shared, "SELECT 1 SETTINGS max_result_rows = 2", limits=Limits(result_rows=3))
    unlimited = check_statement(shared, "SELECT 1 SETTINGS max_result_rows = 0", limits=Limits(result_rows=3))
    assert [asked.settings["max_result_rows"] for asked in (raised, lowered, unlimited)] == ["3", "2", "3"]


def test_asking_leaves_the_connection_as_it_was(store: Store) -> None:
    answer(store, "SELECT 1", tenant=ALPHA.name)
    store.command("INSERT INTO jobs_log (job_id, tenant) VALUES ('still-writing', 'bravo')")
    assert store.rows("SELECT job_id, tenant FROM jobs_log") == [("still-writing", "bravo")]


def test_errors_are_clickhouses_own(shared: Store) -> None:
    with pytest.raises(StoreError, match=r"^Unknown expression identifier `nothing`"):
        answer(shared, "SELECT nothing FROM jobs", tenant=ALPHA.name)
    with pytest.raises(
        UsageError, match=r"^the statement can't be read: Syntax error: failed at position 14 \(x\): x$"
    ):
        answer(shared, "SELECT 1 FRM x", tenant=ALPHA.name)
    with pytest.raises(PrismError) as refusal:
        answer(shared, "SELECT toUInt8(job_id) FROM jobs", tenant=ALPHA.name)
    assert "alpha-job" in str(refusal.value)
