"""topology.csv replaces the topology as a whole; each line that can't be used is reported with its number."""

from pathlib import Path

import pytest

from prism_ch.errors import InputError
from prism_ch.ingest.topology_file import load_topology
from prism_ch.store.client import Store
from prism_ch.store.topology import latest_load, read_topology
from tests.e2e.commands import prism_ch
from tests.records import write

HEADER = "endpoint,server,gpu,rail,leaf,pod,tenant"
SECOND_NS = 10**9
#: 2026-01-01T00:00:00Z
Y2026_NS = 1_767_225_600 * SECOND_NS


def topology_file(folder: Path, *lines: str, header: str = HEADER) -> Path:
    return write(folder / "topology.csv", "\n".join([header, *lines]) + "\n")


def test_the_topology_is_read_as_it_was_loaded(store: Store, tmp_path: Path) -> None:
    file = topology_file(
        tmp_path,
        "10.0.0.10,host-b,1,1,::ffff:192.0.2.1,pod0,tenant-b",
        '::ffff:10.0.0.2 , "host, a" ,0,0,leaf-2,pod0,',
        "2001:DB8::1,host-b,255,,,,tenant-b\r",
        "",
    )
    report = load_topology(store, file)
    assert (report.endpoints, report.problems, report.changed) == (3, [], True)
    topology = read_topology(store)
    assert topology.endpoints == ("10.0.0.10", "10.0.0.2", "2001:db8::1")
    assert topology.index["10.0.0.2"] == 1
    assert [topology.server_names[n] for n in topology.server] == ["host-b", "host, a", "host-b"]
    assert topology.gpu.tolist() == [1, 0, 255]
    assert topology.rail.tolist() == [1, 0, -1]
    assert [topology.leaf_names[n] for n in topology.leaf] == ["192.0.2.1", "leaf-2", ""]
    assert [topology.pod_names[n] for n in topology.pod] == ["pod0", "pod0", ""]
    assert [topology.tenant_names[n] for n in topology.tenant] == ["tenant-b", "", "tenant-b"]
    assert topology.tenant_names == ("", "tenant-b")


def test_without_a_load_there_are_no_endpoints(store: Store) -> None:
    assert len(read_topology(store)) == 0
    assert latest_load(store).number == 0


BAD_LINES = [
    ("10.0.0.256,host,0,0,leaf,pod,t", "endpoint '10.0.0.256' is not an IPv4 or IPv6 address"),
    ("host-1,host,0,0,leaf,pod,t", "endpoint 'host-1' is not an IPv4 or IPv6 address"),
    ("10.0.0.9, ,0,0,leaf,pod,t", "server is empty"),
    ("10.0.0.9,host,256,0,leaf,pod,t", "gpu '256' is not a whole number from 0 to 255"),
    ("10.0.0.9,host,-1,0,leaf,pod,t", "gpu '-1' is not a whole number from 0 to 255"),
    ("10.0.0.9,host,,0,leaf,pod,t", "gpu '' is not a whole number from 0 to 255"),
    ("10.0.0.9,host,1.0,0,leaf,pod,t", "gpu '1.0' is not a whole number from 0 to 255"),
    ("10.0.0.9,host,0,0,leaf,pod", "has 6 fields where the header has 7"),
    ("10.0.0.9,host,0,0,leaf,pod,t,more", "has 8 fields where the header has 7"),
    ('10.0.0.9,"host,0,0,leaf,pod,t', "has a quote without its other half"),
    ("10.0.0.1,host,1,0,leaf,pod,t", "endpoint 10.0.0.1 has a place at that time already, on line 2"),
    ("::ffff:10.0.0.1,host,1,0,leaf,pod,t", "endpoint 10.0.0.1 has a place at that time already, on line 2"),
    ("10.0.0.9\x00,host,1,0,leaf,pod,t", "endpoint '10.0.0.9\\x00' is not an IPv4 or IPv6 address"),
]


def test_each_bad_line_is_reported_and_the_others_load(store: Store, tmp_path: Path) -> None:
    lines = [line for line, _ in BAD_LINES]
    file = topology_file(tmp_path, "10.0.0.1,host,0,0,leaf,pod,t", *lines, "10.0.0.2,host,1,1,leaf,pod,t")
    report = load_topology(store, file)
    assert report.problems == [(number, problem) for number, (_, problem) in enumerate(BAD_LINES, start=3)]
    assert report.endpoints == 2
    assert read_topology(store).endpoints == ("10.0.0.1", "10.0.0.2")


TIMED = HEADER + ",valid_from,valid_to"
BAD_SPANS = [
    ("2026-03-01,", "valid_from '2026-03-01' is no RFC 3339 time with a zone, such as 2026-03-01T00:00:00Z"),
    (",2026-03-01T00:00:00", "valid_to '2026-03-01T00:00:00' is no RFC 3339 time with a zone, such as 2026-"),
    ("2026-13-01T00:00:00Z,", "valid_from '2026-13-01T00:00:00Z' is no time: month must be in 1..12"),
    ("1601-01-01T00:00:00Z,", "valid_from '1601-01-01T00:00:00Z' is not within the years 1970 to 2261"),
    ("2026-03-01T00:00:00Z,2026-03-01T01:00:00+01:00", "valid_to 2026-03-01T01:00:00+01:00 is not after valid_from"),
]


def test_spans_that_are_none_are_reported(store: Store, tmp_path: Path) -> None:
    lines = [f"10.0.0.1,host,0,0,leaf,pod,t,{span}" for span, _ in BAD_SPANS]
    report = load_topology(store, topology_file(tmp_path, *lines, header=TIMED))
    assert (report.endpoints, report.changed) == (0, False)
    assert [number for number, _ in report.problems] == [2, 3, 4, 5, 6]
    for (_, problem), (_, words) in zip(report.problems, BAD_SPANS, strict=True):
        assert problem.startswith(words)


def test_an_endpoint_may_move(store: Store, tmp_path: Path) -> None:
    file = topology_file(
        tmp_path,
        "10.0.0.1,old,0,0,leaf,pod,t,,2026-01-01T00:00:00Z",
        "10.0.0.1,new,3,3,leaf,pod,t,2026-01-01T01:00:00.000000001+01:00,2026-01-01 00:00:10z",
        "10.0.0.1,both,0,0,leaf,pod,t,2025-12-31T23:59:59Z,2026-01-01T00:00:01Z",
        "10.0.0.2,host,0,0,leaf,pod,t,,",
        header=TIMED,
    )
    report = load_topology(store, file)
    assert report.problems == [(4, "endpoint 10.0.0.1 has a place at that time already, on line 2")]
    assert report.endpoints == 2
    at = {
        Y2026_NS - 1: ("host", "old"),
        Y2026_NS: ("host",),
        Y2026_NS + 1: ("host", "new"),
        Y2026_NS + 10 * SECOND_NS: ("host",),
    }
    for at_ns, servers in at.items():
        assert read_topology(store, at_ns).server_names == servers, at_ns
    assert read_topology(store).endpoints == ("10.0.0.2",), "without a time it is the one of now"


def test_load_replaces_the_topology_and_again_changes_nothing(store: Store, tmp_path: Path) -> None:
    first = topology_file(tmp_path, "10.0.0.1,a,0,0,leaf,pod,t", "10.0.0.2,b,0,0,leaf,pod,t")
    assert load_topology(store, first).changed
    digest = latest_load(store).number
    shuffled = topology_file(tmp_path, "10.0.0.2,b,0,0,leaf,pod,t", "", "10.0.0.1, a,0,0,leaf,pod,t")
    assert not load_topology(store, shuffled).changed
    assert latest_load(store).number == digest
    assert store.scalar("SELECT count() FROM topology_loads") == 1

    second = topology_file(tmp_path, "10.0.0.3,c,0,0,leaf,pod,t")
    assert load_topology(store, second).changed
    assert read_topology(store).endpoints == ("10.0.0.3",)
    assert latest_load(store).number != digest
    assert load_topology(store, first).endpoints == 1, "the file at that path is the second one by now"


def test_a_load_that_was_cut_short_is_not_seen(store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load_topology(store, topology_file(tmp_path, "10.0.0.1,a,0,0,leaf,pod,t"))
    command = Store.command

    def cut_short(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "command", cut_short)
    file = topology_file(tmp_path, "10.0.0.2,b,0,0,leaf,pod,t")
    with pytest.raises(KeyboardInterrupt):
        load_topology(store, file)
    monkeypatch.setattr(Store, "command", command)
    assert read_topology(store).endpoints == ("10.0.0.1",)
    assert load_topology(store, file).changed
    assert store.rows("SELECT endpoint FROM topology") == [("10.0.0.2",)]


def test_a_file_without_a_usable_line_leaves_the_topology_alone(store: Store, tmp_path: Path) -> None:
    load_topology(store, topology_file(tmp_path, "10.0.0.1,a,0,0,leaf,pod,t"))
    report = load_topology(store, topology_file(tmp_path, "nowhere,a,0,0,leaf,pod,t"))
    assert (report.endpoints, report.changed, len(report.problems)) == (0, False, 1)
    assert read_topology(store).endpoints == ("10.0.0.1",)


BAD_FILES = [
    ("", "is empty; its first line must be endpoint,server,gpu,rail,leaf,pod,tenant"),
    ("endpoint,server,gpu\n10.0.0.1,a,0\n", "has no column rail, leaf, pod, tenant; its first line must be"),
    (HEADER + ",leaf\n", "has more than one column leaf"),
    ("10.0.0.1,a,0,0,leaf,pod,t\n", "has no column endpoint, server"),
]


def test_files_that_are_no_topology(store: Store, tmp_path: Path) -> None:
    for content, words in BAD_FILES:
        file = write(tmp_path / "topology.csv", content)
        with pytest.raises(InputError, match=f"^{file}: {words}"):
            load_topology(store, file)
    with pytest.raises(InputError, match=r"none\.csv: can't be read: No such file"):
        load_topology(store, tmp_path / "none.csv")
    with pytest.raises(InputError, match="can't be read: Is a directory"):
        load_topology(store, tmp_path)


def test_rails_may_have_names(store: Store, tmp_path: Path) -> None:
    lines = [f"10.0.0.{n},host,{n},{rail},leaf,pod,t" for n, rail in enumerate(["rail-b", "rail-a", "", "rail-b"])]
    load_topology(store, topology_file(tmp_path, *lines))
    assert read_topology(store).rail.tolist() == [1, 0, -1, 1]


def test_columns_may_come_in_any_order_with_others(store: Store, tmp_path: Path) -> None:
    header = "\ufeffTenant,gpu,server,comment,endpoint,pod,leaf,rail"
    load_topology(store, topology_file(tmp_path, "t,3,host,hello,10.0.0.1,pod,leaf,5", header=header))
    topology = read_topology(store)
    assert (topology.endpoints, topology.gpu.tolist(), topology.rail.tolist()) == (("10.0.0.1",), [3], [5])


def land_ring(store: Store, rail: int, servers: int, exporter: str) -> None:
    """Land what each server's NIC of a rail sends to the next server's."""
    store.command(
        "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
        " packets, sampler_address, received_at) SELECT 'test', {end:Int64} - 1000, {end:Int64},"
        " format('10.{}.0.{}', {rail:String}, toString(number + 1)),"
        " format('10.{}.0.{}', {rail:String}, toString((number + 1) % {servers:UInt8} + 1)),"
        " 17, 1000000, 1000, {exporter:String}, now64(3) FROM numbers({servers:UInt8})",
        {"end": Y2026_NS, "rail": str(rail), "servers": servers, "exporter": exporter},
    )


def test_check_names_lines_and_loads_nothing(store: Store, store_url: str, tmp_path: Path) -> None:
    lines = [f"10.{nic}.0.{server},s{server},{nic},{nic},l{nic},p,t" for server in range(1, 5) for nic in range(4)]
    file = topology_file(tmp_path, *lines)
    done = prism_ch("topology", file, "--check", url=store_url)
    assert (done.status, done.err) == (0, "")
    assert done.out == f"checked 16 endpoints of {file} against itself; there is no traffic: nothing wrong\n"
    for rail in range(4):
        land_ring(store, rail, 4, f"192.0.2.{rail}")
    assert prism_ch("topology", file, "--check", url=store_url).out.endswith("the traffic of 16 pairs: nothing wrong\n")
    lines[6] = lines[6].replace("l2", "l3")
    done = prism_ch("topology", topology_file(tmp_path, *lines, "nowhere,s,0,0,l,p,t"), "--check", url=store_url)
    assert done.status == 1
    seen = "what 10.2.0.2 sends is first seen by 192.0.2.2, not by its leaf l3"
    assert done.out.splitlines()[0] == f"{file}:8: {seen}: write l2, or the server that it sits in"
    assert done.out.splitlines()[1].startswith(f"{file}:18: endpoint 'nowhere' is not an IPv4 or IPv6 address: ")
    assert done.out.splitlines()[2].endswith(": 2 problems")
    assert store.scalar("SELECT count() FROM topology_loads") == 0


def test_check_needs_no_database_and_makes_none(tmp_path: Path) -> None:
    file = topology_file(tmp_path, "10.0.0.1,host,0,0,leaf,pod,t")
    done = prism_ch("topology", file, "--check", url=f"chdb://{tmp_path}/data")
    assert (done.status, (tmp_path / "data").exists()) == (0, False)


def test_moved_endpoint_is_checked_against_traffic_after_it(store: Store, store_url: str, tmp_path: Path) -> None:
    lines = [f"10.{nic}.0.{server},s{server},{nic},{nic},l{nic},p,t," for server in range(1, 5) for nic in range(4)]
    for rail in range(4):
        land_ring(store, rail, 4, f"192.0.2.{rail}")
    moved = lines[6].replace("l2", "l3") + "2025-12-31T23:59:50Z"
    file = topology_file(tmp_path, *lines[:6], moved, *lines[7:], header=f"{HEADER},valid_from")
    assert prism_ch("topology", file, "--check", url=store_url).status == 1
    early = moved.replace("2025-12-31T23:59:50Z", "2025-12-31T23:59:50Z,2025-12-31T23:59:55Z")
    again = lines[6] + "2025-12-31T23:59:55Z,"
    rest = [f"{line}," for line in lines[:6] + lines[7:]]
    file = topology_file(tmp_path, *rest, early, again, header=TIMED)
    assert prism_ch("topology", file, "--check", url=store_url).status == 0
