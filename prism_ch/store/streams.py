"""Connects Kafka topics to the landing, on a ClickHouse server: the statements of sql/kafka."""

from __future__ import annotations

from prism_ch.assets import asset
from prism_ch.errors import UsageError
from prism_ch.store.client import Store
from prism_ch.store.cluster import for_cluster
from prism_ch.store.statements import split_statements

#: Streams by name, as files of sql/kafka; the topic has the same name.
STREAMS = ("flows", "goflow2", "pmacct")


def connect_stream(store: Store, name: str) -> None:
    """Let the server consume one of STREAMS; safe to repeat.

    Raises UsageError where the engine is embedded, which consumes no topic, and StoreError where the server refuses,
    as one without the named collection `prism_kafka` does.
    """
    if store.embedded:
        raise UsageError(
            f"the stream {name} needs a ClickHouse server: the embedded engine consumes no Kafka topic;"
            " give a server with --url, or let `prism-ch serve` watch a spool directory"
        )
    for text in split_statements(asset(f"sql/kafka/{name}.sql").read_text(encoding="utf-8")):
        for one in for_cluster(text, store.cluster):
            store.command(one)
