"""Input that is damaged, missing or pointless: what can be used is used, and clear sentences name the rest."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from prism_ch.simulate import generate, textbook, write
from prism_ch.store.client import Store, connect
from tests.contract import RESULTS, snapshot
from tests.e2e.analysed import Recorded
from tests.e2e.commands import Done, prism_ch, prism_ch_process
from tests.records import COLUMNS, T0_NS, csv_text, record, records

HEADER = "endpoint,server,gpu,rail,leaf,pod,tenant"


def topology(folder: Path, *lines: str) -> Path:
    """Write a topology of four endpoints on two servers, those of tests.records, and further lines."""
    places = [
        f"10.0.{server}.{gpu + 1},server-{server},{gpu},{gpu},leaf-{gpu},p,t" for server in (0, 1) for gpu in (0, 1)
    ]
    return text(folder, "topology.csv", HEADER, *places, *lines)


def text(folder: Path, name: str, *lines: str) -> Path:
    """Write a file of lines."""
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def lines_of(rows: list[dict[str, Any]]) -> list[str]:
    """Return records as lines of CSV, the header first."""
    return csv_text(rows).splitlines()


def one_clear_line(done: Done) -> bool:
    """Say whether stderr holds one sentence for a person, and nothing else."""
    return done.err.startswith("prism-ch: ") and done.err.count("\n") == 1 and "unexpected" not in done.err


def test_bad_records_among_good_ones_change_no_result(
    store: Store, store_url: str, recorded: Recorded, tmp_path: Path
) -> None:
    changes: dict[str, dict[str, Any]] = {
        "negative_duration": {"time_flow_end_ns": T0_NS - 1},
        "bad_dst_addr": {"dst_addr": "10.0.0.256"},
        "implausible_time": {"time_flow_start_ns": 1_000, "time_flow_end_ns": 2_000},  # the year 1970
        "bad_bytes": {"bytes": "many"},
        "bad_time": {"time_flow_start_ns": "yesterday"},
    }
    bad = {reason: lines_of([record(**change)])[1] for reason, change in changes.items()}
    bad["truncated"] = lines_of([record()])[1][:40]
    clean = recorded("dp4_clean")
    header, *good = lines_of(pq.read_table(clean.folder / "flows.parquet").to_pylist())
    shuffled = np.random.default_rng(5).permutation(np.array([*good, *bad.values()]))
    mixed = text(tmp_path, "mixed.csv", header, *shuffled)
    done = prism_ch("run", mixed, "--topology", clean.folder / "topology.csv", url=store_url)
    assert (done.status, done.err) == (0, "")
    assert f"landed {len(good):,} of {len(good) + len(bad):,} records" in done.out
    assert f"rejected {len(bad)}: " in done.out
    assert dict(store.rows("SELECT reason::String, record FROM flows_rejected")) == bad
    with connect(clean.url) as undisturbed:
        assert snapshot(store, *RESULTS) == snapshot(undisturbed, *RESULTS)


def test_where_no_record_can_be_used_the_command_fails(store_url: str, tmp_path: Path) -> None:
    flows = text(tmp_path, "flows.csv", *lines_of([record(src_addr="nobody"), record(bytes=0)]))
    done = prism_ch("run", flows, "--topology", topology(tmp_path), url=store_url)
    assert (done.status, done.err) == (1, "")
    assert "landed 0 of 2 records" in done.out
    assert "No record could be used. See why: prism-ch sql" in done.sentences


@pytest.mark.parametrize("damage", ["absent", "empty", "no flow records", "cut"])
def test_a_file_that_cannot_be_read_is_one_line(
    recorded: Recorded, store_url: str, tmp_path: Path, damage: str
) -> None:
    flows = tmp_path / "flows.parquet"
    whole = (recorded("dp4_clean").folder / "flows.parquet").read_bytes()
    if damage == "empty":
        flows.write_bytes(b"")
    elif damage == "no flow records":
        pq.write_table(pa.table({"a": [1]}), flows)
    elif damage == "cut":
        flows.write_bytes(whole[: len(whole) // 2])
    done = prism_ch("run", flows, "--topology", topology(tmp_path), url=store_url)
    assert done.status == 1
    assert str(flows) in done.err
    assert one_clear_line(done)


def test_without_a_topology_file_nothing_is_landed(store: Store, store_url: str, tmp_path: Path) -> None:
    flows = text(tmp_path, "flows.csv", *lines_of(records(3)))
    done = prism_ch("run", flows, "--topology", tmp_path / "absent.csv", url=store_url)
    assert done.status == 1
    assert f"{tmp_path}/absent.csv" in done.err
    assert one_clear_line(done)
    assert store.scalar("SELECT count() FROM flows") == 0
    forgotten = prism_ch("run", flows, url=store_url)
    assert forgotten.status == 2
    assert "'--topology'" in forgotten.err


def test_bad_lines_of_a_topology_are_named_and_the_others_serve(store_url: str, tmp_path: Path) -> None:
    flows = text(tmp_path, "flows.csv", *lines_of(records(3)))
    places = topology(tmp_path, "nowhere,server-9,0,0,l,p,t", "10.0.0.9,server-9,many,0,l,p,t", "10.0.0.9,server-9")
    done = prism_ch("run", flows, "--topology", places, url=store_url)
    assert done.status == 0
    assert "loaded 4 endpoints" in done.out
    assert "3 lines could not be used" in done.out
    assert [line.split(": ")[1] for line in done.err.splitlines()] == [f"{places}:{number}" for number in (6, 7, 8)]


def test_a_topology_without_a_usable_line_is_a_failure(store_url: str, tmp_path: Path) -> None:
    flows = text(tmp_path, "flows.csv", *lines_of(records(3)))
    places = text(tmp_path, "topology.csv", HEADER, "nowhere,server-9,0,0,l,p,t")
    done = prism_ch("run", flows, "--topology", places, url=store_url)
    assert done.status == 1
    assert f"{places}:2: endpoint 'nowhere' is not an IPv4 or IPv6 address" in done.err
    assert "No topology is loaded" in done.sentences


def everything_at_once(number: int) -> dict[str, Any]:
    """Return a record whose time is that of all others."""
    return record(number, time_flow_start_ns=T0_NS, time_flow_end_ns=T0_NS)


@pytest.mark.parametrize(
    "rows,sentence",
    [
        ([], "No flow records have landed"),
        ([record(n, dst_addr="10.9.9.9", src_addr="10.0.0.1") for n in range(50)], "Only one endpoint of the topology"),
        ([everything_at_once(n) for n in range(400)], "no set of endpoints exchanges them steadily"),
        ([record(n, src_addr="10.0.0.1", dst_addr="10.0.0.2") for n in range(50)], "No flow runs between two servers"),
        ([record(4)] * 50, "no set of endpoints exchanges them steadily"),
    ],
    ids=["no flows", "one endpoint", "one instant", "one server", "one flow, again and again"],
)
def test_where_there_is_no_job_the_reason_is_told(
    store: Store, store_url: str, tmp_path: Path, rows: list[dict[str, Any]], sentence: str
) -> None:
    flows = text(tmp_path, "flows.csv", *lines_of(rows))
    done = prism_ch("run", flows, "--topology", topology(tmp_path), url=store_url)
    assert (done.status, done.err) == (0, "")
    assert "No training job was recognised" in done.out
    assert sentence in done.sentences
    assert store.rows("SELECT job_id FROM jobs") == []


@pytest.mark.parametrize(
    "shape,sentence",
    [
        ((32, 8, 4, 1), "no data-parallel (DP) traffic, 4 pipe"),
        ((32, 8, 1, 4), "groups of 4, no pipeline (PP) traffic"),
    ],
    ids=["no DP", "no PP"],
)
def test_a_job_without_one_kind_of_traffic_is_a_job(
    store: Store, store_url: str, tmp_path: Path, shape: tuple[int, int, int, int], sentence: str
) -> None:
    write(generate(textbook(*shape, microbatches=4, step_s=0.5, steps=20)), tmp_path)
    done = prism_ch("run", tmp_path / "flows", "--topology", tmp_path / "topology.csv", url=store_url)
    assert (done.status, done.err) == (0, "")
    assert sentence in done.out
    [(endpoints, dp_size, pp_size, steps)] = store.rows("SELECT endpoints, dp_size, pp_size, steps FROM jobs")
    assert (endpoints, dp_size, pp_size) == (32, shape[3], shape[2])
    assert abs(steps - 20) <= 2


def test_nothing_but_words_reaches_the_terminal(tmp_path: Path) -> None:
    flows = text(tmp_path, "flows.csv", ",".join(COLUMNS), "\x00\xff,,", lines_of([everything_at_once(1)])[1])
    done = prism_ch_process("run", flows, "--topology", topology(tmp_path, "\x00,"), folder=tmp_path / "data")
    assert done.status == 0
    assert done.err == f"prism-ch: {tmp_path}/topology.csv:6: has 2 fields where the header has 7\n"
    assert "landed 1 of 2 records" in done.out
    assert "Traceback" not in done.out


def test_an_empty_name_is_wrong_usage(store: Store, store_url: str) -> None:
    done = prism_ch("ingest", "", url=store_url)
    assert done.status == 2
    assert "name is empty" in done.err
    assert store.scalar("SELECT count() FROM landings") == 0
