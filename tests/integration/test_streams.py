"""Kafka topics on a server: their views run here on the real engine, fed by a stand-in queue."""

from pathlib import Path

import pytest

from prism_ch.cli.analysis import STREAMS as OFFERED
from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.migrate import STREAMS, connect_stream
from prism_ch.store.statements import for_cluster, split_statements

FOLDER = Path(__file__).parents[2] / "sql" / "kafka"
GOOD = (
    '{"time_flow_start_ns": 1790000000000000000, "time_flow_end_ns": 1790000000100000000, "src_addr": "10.0.0.1",'
    ' "dst_addr": "10.0.0.2", "src_port": 9, "dst_port": 4791, "proto": "UDP", "bytes": 4096, "packets": 1,'
    ' "sampler_address": "10.9.0.1", "sampling_rate": 0}'
)
PMACCT = (
    '{"timestamp_start": "1790000000.000000", "timestamp_end": "1790000000.100000", "ip_src": "10.0.0.1",'
    ' "ip_dst": "10.0.0.2", "port_src": 9, "port_dst": 4791, "ip_proto": "udp", "bytes": 4096, "packets": 1,'
    ' "peer_ip_src": "10.9.0.1"}'
)
RECORDS = {"flows": GOOD, "goflow2": GOOD, "pmacct": PMACCT}


def statements(name: str) -> tuple[str, ...]:
    return split_statements((FOLDER / f"{name}.sql").read_text())


def deliver(store: Store, name: str, *lines: str) -> None:
    """Make the stream's view over a queue that the test fills, and send it lines as one topic's messages."""
    store.command(
        f"CREATE TABLE kafka_{name} (line String, _topic LowCardinality(String), _partition UInt64, _offset UInt64)"
        " ENGINE = Null"
    )
    _, view = statements(name)
    store.command(view)
    for offset, line in enumerate(lines):
        values = {"line": line, "topic": name, "offset": offset}
        store.command(
            f"INSERT INTO kafka_{name} SELECT {{line:String}}, {{topic:String}}, 3, {{offset:UInt64}}",
            values,
        )


def test_every_file_is_a_stream_and_offered() -> None:
    assert sorted(path.stem for path in FOLDER.glob("*.sql")) == sorted(STREAMS) == sorted(OFFERED)


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("cluster", ["", "gpu-net"])
def test_the_engine_reads_every_statement(store: Store, name: str, cluster: str) -> None:
    for text in statements(name):
        for one in for_cluster(text, cluster):
            assert b"CreateQuery" in store.raw(f"EXPLAIN AST {one}", fmt="TSV")


@pytest.mark.parametrize("name", STREAMS)
def test_topic_records_land_and_rubbish_keeps_its_place(store: Store, name: str) -> None:
    deliver(store, name, RECORDS[name], "rubbish", RECORDS[name])
    assert store.rows("SELECT src_addr, dst_addr, dst_port, proto, bytes, sampler_address FROM flows") == [
        ("10.0.0.1", "10.0.0.2", 4791, 17, 4096, "10.9.0.1")
    ]
    assert store.rows("SELECT source, position, record FROM flows_rejected") == [(f"{name}/3", 2, "rubbish")]


def test_a_message_delivered_again_counts_once(store: Store) -> None:
    deliver(store, "flows", GOOD, "rubbish")
    store.command("INSERT INTO kafka_flows SELECT {line:String}, 'flows', 3, 0", {"line": GOOD})
    store.command("INSERT INTO kafka_flows SELECT 'rubbish', 'flows', 3, 1")
    assert store.scalar("SELECT count() FROM flows") == 1
    assert store.scalar("SELECT count() FROM flows_rejected") == 1


def test_the_embedded_engine_says_that_it_consumes_no_topic(store: Store) -> None:
    with pytest.raises(UsageError, match=r"needs a ClickHouse server.*spool"):
        connect_stream(store, "goflow2")
