"""The matrix of delays: a hot cell, a hot row and column, a hot leaf."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from prism_ch.errors import UsageError
from prism_ch.query.api import delay_matrix
from prism_ch.store.client import Store

FROM, TO = datetime(2026, 3, 1, 10, tzinfo=UTC), datetime(2026, 3, 1, 10, 1, tzinfo=UTC)
ENDPOINTS = [f"10.0.0.{number}" for number in range(12)]
LEAVES = ["leaf-a", "leaf-b", "leaf-c", "leaf-d", "leaf-e", "leaf-f"]

Crosses = Callable[[int, int], bool]


def land(store: Store, slow: Crosses) -> None:
    """Every endpoint sends each other one ten large flows; some take twice as long as usual. Two share a leaf."""
    store.command("INSERT INTO topology_loads (load, source, digest, endpoints) VALUES (1, 'test', '', 12)")
    places = ", ".join(
        f"(1, '{address}', 'host-{number}', 0, '0', '{LEAVES[number // 2]}', 'pod-0', 'acme')"
        for number, address in enumerate(ENDPOINTS)
    )
    columns = "load, endpoint, server, gpu, rail, leaf, pod, tenant"
    store.command(f"INSERT INTO topology_log ({columns}) VALUES {places}")  # noqa: S608 - values of this test
    begin_ns = int(FROM.timestamp()) * 10**9
    rows = ", ".join(
        f"('test', {begin_ns + turn * 10**9}, {begin_ns + turn * 10**9 + (2 if slow(a, b) else 1) * 10**7}, "
        f"'{ENDPOINTS[a]}', '{ENDPOINTS[b]}', 17, {10**7}, 2500, 'leaf')"
        for a in range(12)
        for b in range(12)
        if a != b
        for turn in range(10)
    )
    columns = "source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes, packets, sampler_address"
    store.command(f"INSERT INTO flow_landing ({columns}) VALUES {rows}")  # noqa: S608 - values of this test


def test_a_healthy_network_has_no_hot_cell(store: Store) -> None:
    land(store, lambda a, b: False)
    matrix = delay_matrix(store, FROM, TO)
    assert len(matrix) == 132
    assert set(matrix["times_as_long"].to_pylist()) == {1.0}
    assert set(matrix["flows"].to_pylist()) == {10}


def test_a_slow_link_is_one_hot_cell(store: Store) -> None:
    land(store, lambda a, b: (a, b) == (2, 5))
    first, second, *_ = delay_matrix(store, FROM, TO).to_pylist()
    assert (first["src_addr"], first["dst_addr"], first["times_as_long"]) == (ENDPOINTS[2], ENDPOINTS[5], 2.0)
    assert (first["row_times_as_long"], first["column_times_as_long"], second["times_as_long"]) == (1.0, 1.0, 1.0)


def test_a_slow_nic_is_a_hot_row_and_a_hot_column(store: Store) -> None:
    land(store, lambda a, b: 3 in {a, b})
    rows = delay_matrix(store, FROM, TO).to_pylist()
    assert {row["src_addr"] for row in rows if row["row_times_as_long"] == 2.0} == {ENDPOINTS[3]}
    assert {row["dst_addr"] for row in rows if row["column_times_as_long"] == 2.0} == {ENDPOINTS[3]}


def test_a_slow_switch_is_a_hot_leaf(store: Store) -> None:
    land(store, lambda a, b: 1 in {a // 2, b // 2})
    rows = delay_matrix(store, FROM, TO).to_pylist()
    assert {row["src_leaf"] for row in rows if row["src_leaf_times_as_long"] == 2.0} == {"leaf-b"}
    assert {row["dst_leaf"] for row in rows if row["dst_leaf_times_as_long"] == 2.0} == {"leaf-b"}


def test_flows_outside_of_the_span_or_too_small_are_left_out(store: Store) -> None:
    land(store, lambda a, b: False)
    assert len(delay_matrix(store, TO, datetime(2026, 3, 1, 11, tzinfo=UTC))) == 0
    assert len(delay_matrix(store, FROM, TO, min_bytes=10**8)) == 0


@pytest.mark.parametrize("span", [(TO, FROM), (FROM, FROM), (FROM.replace(tzinfo=None), TO)])
def test_a_span_without_zone_or_length_is_refused(store: Store, span: tuple[datetime, datetime]) -> None:
    with pytest.raises(UsageError, match=r"zone|span"):
        delay_matrix(store, *span)
