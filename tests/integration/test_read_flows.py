"""Flows are read as sorted columns by the rows of the topology: what ends in a span, between known endpoints, once."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prism_ch.ingest.files import land_files
from prism_ch.ingest.topology_file import canonical_address, load_topology
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval
from prism_ch.store import flows
from prism_ch.store.client import Store
from prism_ch.store.flow_source import StoredFlows
from prism_ch.store.flows import read_flows
from prism_ch.store.pull import PLANS, PullPlan
from prism_ch.store.topology import read_topology
from tests.records import COLUMNS, T0_NS, TYPES, record, write, write_parquet

ENDPOINTS = ("10.0.0.1", "10.0.0.10", "10.0.0.9", "2001:db8::1")
MINUTE_NS = 60 * 10**9
FIELDS = ("start_ns", "end_ns", "src", "dst", "src_port", "dst_port", "proto", "bytes", "packets")
SCHEMA = pa.schema([(name, TYPES.get(name, pa.string())) for name in COLUMNS] + [("path", pa.list_(pa.string()))])
#: Start of the minute that T0_NS is in.
M0_NS = T0_NS // MINUTE_NS * MINUTE_NS


@pytest.fixture
def topology(store: Store, tmp_path: Path) -> Topology:
    lines = [f"{address},host-{n},0,0,leaf,pod,t" for n, address in enumerate(ENDPOINTS)]
    file = write(tmp_path / "topology.csv", "endpoint,server,gpu,rail,leaf,pod,tenant\n" + "\n".join(lines))
    load_topology(store, file)
    return read_topology(store)


def flow(number: int, src: str, dst: str, end_ns: int, **changes: Any) -> dict[str, Any]:
    times = {"time_flow_start_ns": end_ns - 1000, "time_flow_end_ns": end_ns}
    return record(number) | {"src_addr": src, "dst_addr": dst} | times | changes


def rows(batch: FlowBatch) -> list[tuple[Any, ...]]:
    columns = [getattr(batch, name).tolist() for name in FIELDS]
    return list(zip(*columns, [batch.exporters[code] for code in batch.exporter], strict=True))


def expected(records: Sequence[dict[str, Any]], topology: Topology, from_ns: int, to_ns: int) -> list[tuple[Any, ...]]:
    """Do the same the slow, obvious way."""
    found = set()
    for row in records:
        src, dst = (topology.index.get(canonical_address(row[name]) or "") for name in ("src_addr", "dst_addr"))
        if src is not None and dst is not None and from_ns <= row["time_flow_end_ns"] < to_ns:
            ports = row["src_port"], row["dst_port"], row["proto"]
            times = row["time_flow_start_ns"], row["time_flow_end_ns"]
            found.add((*times, src, dst, *ports, row["bytes"], row["packets"], row["sampler_address"]))
    return sorted(found, key=lambda row: (row[2], row[3], *row[:2], *row[4:]))


def some_records(seed: int, count: int) -> list[dict[str, Any]]:
    """Return records over three minutes, many equal, some between addresses that nobody knows."""
    random = np.random.default_rng(seed)
    addresses = (*ENDPOINTS, "::ffff:10.0.0.9", "10.9.9.9")
    made: list[dict[str, Any]] = []
    while len(made) < count:
        src, dst = random.choice(len(addresses), 2, replace=False)
        end_ns = M0_NS + int(random.integers(0, 200)) * 10**9
        changes = {"src_port": int(random.integers(2)), "bytes": int(random.integers(1, 3)), "packets": 1}
        sampler = f"192.0.2.{random.integers(2)}"
        row = flow(0, addresses[src], addresses[dst], end_ns, sampler_address=sampler, **changes)
        if canonical_address(row["src_addr"]) != canonical_address(row["dst_addr"]):
            made.append(row)
    return made


@pytest.mark.parametrize("senders", [1024, 3, 1])
@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_the_same_as_the_slow_way(
    store: Store, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: PullPlan, senders: int
) -> None:
    monkeypatch.setattr(flows, "_MAX_SENDERS", senders)
    records = some_records(seed=1, count=2000)
    # In several parts, so that repeats meet only when they are read.
    for number in range(3):
        write_parquet(tmp_path / f"{number}.parquet", records[number * 500 :])
    land_files(store, [str(tmp_path / "*.parquet")])
    spans = [
        (0, 2**63 - 1),
        (M0_NS, M0_NS + MINUTE_NS),
        (M0_NS + MINUTE_NS // 2, M0_NS + 2 * MINUTE_NS + 1),
        (0, M0_NS),
    ]
    for from_ns, to_ns in spans:
        batch = read_flows(store, topology, from_ns, to_ns, plan=plan)
        assert rows(batch) == expected(records, topology, from_ns, to_ns), (from_ns, to_ns)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_each_operator_gives_the_same_in_both_forms(store: Store, topology: Topology, data: st.DataObject) -> None:
    """Property: whoever orders and folds, the columns are equal to the last digit, ways and names of exporters too."""
    times = st.integers(M0_NS, M0_NS + 5)
    one = st.builds(
        lambda ends, start_ns, end_ns, more: {
            **record(0), "src_addr": ends[0], "dst_addr": ends[1], **more,
            "time_flow_start_ns": min(start_ns, end_ns), "time_flow_end_ns": max(start_ns, end_ns),
        },
        st.permutations((*ENDPOINTS, "10.9.9.9")), times, times,
        st.fixed_dictionaries({
            "src_port": st.integers(0, 1), "proto": st.sampled_from([6, 17]), "bytes": st.integers(1, 2),
            "sampler_address": st.sampled_from(["192.0.2.10", "192.0.2.9", "192.0.2.1"]),
            "path": st.sampled_from([[], ["b"], ["a", "b"], ["a"]]),
        }),
    )  # fmt: skip
    store.command("TRUNCATE TABLE flows_log")
    # Of repeats with several ways a merge keeps one, which may happen between two reads.
    store.command("SYSTEM STOP MERGES flows_log")
    for part in data.draw(st.lists(st.lists(one, min_size=1, max_size=20), max_size=4)):  # repeats meet when read
        store.insert("flows_log", pa.Table.from_pylist(part, SCHEMA))
    first, *others = (read_flows(store, topology, 0, 2**63 - 1, plan=plan) for plan in PLANS)
    store.command("SYSTEM START MERGES flows_log")
    for other in others:
        assert (other.exporters, other.ways) == (first.exporters, first.ways)
        for name in (*FIELDS, "exporter", "way"):
            assert getattr(other, name).tolist() == getattr(first, name).tolist(), name


def test_flows_of_many_senders_come_in_several_answers(
    store: Store, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a large window takes is bounded by the senders of one answer, and the whole is that of one."""
    ways = [[], ["b"], ["a"]]
    records = [one | {"path": ways[number % 3]} for number, one in enumerate(some_records(seed=3, count=300))]
    store.insert("flows_log", pa.Table.from_pylist([row for row in records if "::ffff" not in str(row)], SCHEMA))
    whole = read_flows(store, topology, 0, 2**63 - 1)
    answers: list[set[str]] = []
    arrow = Store.arrow

    def noting(self: Store, *arguments: Any) -> pa.Table:
        answers.append(set((table := arrow(self, *arguments))["src_addr"].to_pylist()))
        return table

    monkeypatch.setattr(Store, "arrow", noting)
    monkeypatch.setattr(flows, "_MAX_SENDERS", 2)
    parts = read_flows(store, topology, 0, 2**63 - 1)
    assert answers == [set(ENDPOINTS[:2]), set(ENDPOINTS[2:])]
    assert (parts.exporters, parts.ways) == (whole.exporters, whole.ways)
    for name in (*FIELDS, "exporter", "way"):
        assert getattr(parts, name).tolist() == getattr(whole, name).tolist(), name


def test_only_between_some_endpoints(
    store: Store, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = some_records(seed=2, count=300)
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", records))])
    chosen = np.array([3, 0, 2])
    between = [r for r in expected(records, topology, 0, 2**63 - 1) if set(r[2:4]) <= set(chosen.tolist())]
    assert between
    assert rows(read_flows(store, topology, 0, 2**63 - 1, endpoints=chosen)) == between
    monkeypatch.setattr(flows, "_MAX_ADDRESSES", 2)
    assert rows(read_flows(store, topology, 0, 2**63 - 1, endpoints=chosen)) == between
    assert len(read_flows(store, topology, 0, 2**63 - 1, endpoints=np.array([], dtype=np.int64))) == 0


def test_only_beside_some_endpoints(
    store: Store, topology: Topology, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = some_records(seed=2, count=300)
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", records))])
    chosen = np.array([3, 0, 2])
    aside = [r for r in expected(records, topology, 0, 2**63 - 1) if len({*r[2:4]} & set(chosen.tolist())) == 1]
    aside = [r for r in aside if r[2] != r[3]]
    assert aside
    assert rows(read_flows(store, topology, 0, 2**63 - 1, endpoints=chosen, crossing=True)) == aside
    monkeypatch.setattr(flows, "_MAX_ADDRESSES", 2)
    assert rows(read_flows(store, topology, 0, 2**63 - 1, endpoints=chosen, crossing=True)) == aside
    monkeypatch.setattr(flows, "_MAX_SENDERS", 1)
    assert rows(read_flows(store, topology, 0, 2**63 - 1, endpoints=chosen, crossing=True)) == aside


@pytest.mark.parametrize("sides", [({0, 1}, {3}), ({3}, {0, 1}), ({2}, {0}), (set(), {0, 1})])
@pytest.mark.parametrize("most", [0, 2000])
def test_flows_across_are_those_of_both_sides(
    store: Store,
    topology: Topology,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sides: tuple[set[int], set[int]],
    most: int,
) -> None:
    monkeypatch.setattr(flows, "_MAX_ADDRESSES", most)
    monkeypatch.setattr(flows, "_MAX_SENDERS", max(most, 1))
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", some_records(seed=4, count=300)))])
    here, there = (np.isin(np.arange(len(topology)), list(side)) for side in sides)
    span = FlowSpan(Interval(M0_NS, M0_NS + MINUTE_NS), here, there)
    found = StoredFlows(store, topology).read(span)
    whole = read_flows(store, topology, M0_NS, M0_NS + MINUTE_NS)
    assert rows(found) == [row for row in rows(whole) if all({*row[2:4]} & side for side in sides)]
    assert bool(len(found)) == bool(sides[0])


def test_a_span_without_flows(store: Store, topology: Topology) -> None:
    assert len(read_flows(store, topology, 0, 2**63 - 1)) == 0


def test_largest_counts_survive_but_for_packets(store: Store, topology: Topology, tmp_path: Path) -> None:
    most: dict[str, Any] = {"bytes": 2**63 - 1, "packets": 2**63 - 1}
    row = flow(0, *ENDPOINTS[:2], T0_NS, src_port=65535, dst_port=65535, proto=255, **most)
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", [row]))])
    batch = read_flows(store, topology, 0, 2**63 - 1)
    assert rows(batch) == expected([row | {"packets": 2**32 - 1}], topology, 0, 2**63 - 1)


def test_a_topology_of_another_time_maps_to_its_own_rows(store: Store, topology: Topology, tmp_path: Path) -> None:
    rows_ = [flow(0, ENDPOINTS[0], ENDPOINTS[1], T0_NS), flow(1, ENDPOINTS[1], ENDPOINTS[2], T0_NS)]
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", rows_))])
    lines = [f"{address},host,0,0,leaf,pod,t" for address in ENDPOINTS[1:]]
    file = write(tmp_path / "later.csv", "endpoint,server,gpu,rail,leaf,pod,tenant\n" + "\n".join(lines))
    load_topology(store, file)
    assert len(read_flows(store, topology, 0, 2**63 - 1)) == 2, "the rows are those of the topology that is given"
    later = read_flows(store, read_topology(store), 0, 2**63 - 1)
    assert (later.src.tolist(), later.dst.tolist()) == ([0], [1])


GIVEN = ["10.0.0.1", "::ffff:10.0.0.1", "::FFFF:a00:1", "::1.2.3.4", "::", "2001:DB8:0:0:1:0:0:1", "fe80::1%1"]
GIVEN += ["010.0.0.1", "1.2.3", "1.2.3.4.5", "x", "", "1:2:3:4:5:6:7:8", "0:0:0:0:0:ffff:102:304", "64:ff9b::1.2.3.4"]


def test_flows_and_topology_write_an_address_alike(store: Store, tmp_path: Path) -> None:
    records = [flow(number, given, "::9", T0_NS + number) for number, given in enumerate(GIVEN)]
    land_files(store, [str(write_parquet(tmp_path / "a.parquet", records))])
    landed = dict(store.rows("SELECT time_flow_end_ns - {t0:Int64}, src_addr FROM flows", {"t0": T0_NS}))
    assert [landed.get(number) for number in range(len(GIVEN))] == [canonical_address(given) for given in GIVEN]
