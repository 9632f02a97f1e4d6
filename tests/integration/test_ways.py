"""Ways by minute, and how evenly a job's traffic spreads over them."""

from datetime import UTC, datetime

import pytest

from prism_ch.store.client import Store

BEGIN = datetime(2026, 3, 1, 10, tzinfo=UTC)
BEGIN_NS = int(BEGIN.timestamp()) * 10**9
LEAF = {"0": "leaf-a", "1": "leaf-b"}
#: Sender, receiver, spine, and how many times longer than usual the flows take.
Row = tuple[str, str, str, float]


def land(store: Store, rows: list[Row]) -> None:
    """Two leaves of four endpoints each, all of one job, and ten flows a row, which both leaves report."""
    endpoints = [f"10.0.{leaf}.{number}" for leaf in range(2) for number in range(4)]
    store.command("INSERT INTO topology_loads (load, source, digest, endpoints) VALUES (1, 'test', '', 8)")
    places = ", ".join(f"(1, '{name}', 'host-{name}', 0, '0', '{LEAF[name[5]]}', 'pod', 'acme')" for name in endpoints)
    columns = "load, endpoint, server, gpu, rail, leaf, pod, tenant"
    store.command(f"INSERT INTO topology_log ({columns}) VALUES {places}")  # noqa: S608 - values of this test
    members = ", ".join(f"('j', 1, '{name}', '2026-03-01 10:00:00', '2026-03-01 10:01:00')" for name in endpoints)
    columns = "job_id, revision, endpoint, first_seen, last_seen"
    store.command(f"INSERT INTO job_members_log ({columns}) VALUES {members}")  # noqa: S608 - values of this test
    store.command("INSERT INTO revisions (job_id, revision) VALUES ('j', 1)")
    flows = ", ".join(
        f"('test', {BEGIN_NS + turn * 10**9}, {BEGIN_NS + turn * 10**9 + round(times * 10**7)}, '{src}', '{dst}', 17,"
        f" {10**7}, 2500, '{exporter}', ['leaf-a', '{spine}', 'leaf-b'])"
        for src, dst, spine, times in rows
        for turn in range(10)
        for exporter in ("leaf-a", "leaf-b")
    )
    columns = (
        "source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes, packets, sampler_address, path"
    )
    store.command(f"INSERT INTO flow_landing ({columns}) VALUES {flows}")  # noqa: S608 - values of this test


def balance(store: Store) -> list[tuple[object, ...]]:
    columns = "job_id, src_leaf, dst_leaf, ways, bytes_max, bytes_mean, elephants"
    rows: list[tuple[object, ...]] = store.rows(f"SELECT {columns} FROM path_balance")  # noqa: S608 - of this test
    return rows


def test_ways_are_counted_by_minute_pair_and_exporter(store: Store) -> None:
    land(store, [("10.0.0.0", "10.0.1.0", "s1", 1), ("10.0.0.1", "10.0.1.1", "s2", 1)])
    columns = "minute, src_addr, dst_addr, way, sampler_address, flows, bytes, busy_ns"
    rows = store.rows(f"SELECT {columns} FROM flow_way_1m ORDER BY ALL")  # noqa: S608 - of this test
    assert len(rows) == 4
    assert rows[0][1:] == ("10.0.0.0", "10.0.1.0", ["leaf-a", "s1", "leaf-b"], "leaf-a", 10, 10**8, 10**8)


def test_even_ways_have_no_elephants_that_collide(store: Store) -> None:
    land(store, [("10.0.0.0", "10.0.1.0", "s1", 1), ("10.0.0.1", "10.0.1.1", "s2", 1)])
    assert balance(store) == [("j", "leaf-a", "leaf-b", 2, 10**8, 10**8, 0)]
    assert store.scalar("SELECT lost_s FROM path_balance") == pytest.approx(0)


def test_flows_that_meet_on_one_way_lose_time(store: Store) -> None:
    land(
        store, [("10.0.0.0", "10.0.1.0", "s1", 2), ("10.0.0.1", "10.0.1.1", "s1", 2), ("10.0.0.2", "10.0.1.2", "s2", 1)]
    )
    assert balance(store) == [("j", "leaf-a", "leaf-b", 2, 2 * 10**8, 1.5 * 10**8, 2)]
    assert store.scalar("SELECT lost_s FROM path_balance") == pytest.approx(0.1)


def test_records_without_a_path_make_no_way(store: Store) -> None:
    store.command(
        "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
        " packets) VALUES ('test', {at:Int64}, {at:Int64} + 10, '10.0.0.1', '10.0.0.2', 17, 10, 1)",
        {"at": BEGIN_NS},
    )
    assert store.scalar("SELECT count() FROM flows") == 1
    assert store.scalar("SELECT count() FROM flow_way_1m") == 0
