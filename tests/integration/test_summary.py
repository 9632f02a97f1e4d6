"""What the summary reads is what the database holds."""

import numpy as np
import pytest

from prism_ch.report.summary import Coverage, read_facts
from prism_ch.store.client import Store

SECOND_NS = 1_000_000_000
START_NS = 1_772_366_400 * SECOND_NS


def land(store: Store, pairs: list[tuple[str, str]]) -> None:
    """Land one flow a pair, a second apart."""
    start_ns = START_NS + np.arange(len(pairs)) * SECOND_NS
    number = np.full(len(pairs), 1000, dtype=np.uint64)
    store.insert(
        "flow_landing",
        {
            "source": ["test"] * len(pairs),
            "time_flow_start_ns": start_ns,
            "time_flow_end_ns": start_ns + 1000,
            "src_addr": [src for src, _ in pairs],
            "dst_addr": [dst for _, dst in pairs],
            "proto": np.full(len(pairs), 17, dtype=np.uint8),
            "bytes": number,
            "packets": number,
        },
    )


def place(store: Store, servers: dict[str, str]) -> None:
    """Load a topology of endpoints and servers."""
    store.insert(
        "topology_log", {"load": [1] * len(servers), "endpoint": list(servers), "server": list(servers.values())}
    )
    store.insert("topology_loads", {"load": [1], "source": ["test"], "digest": [""], "endpoints": [len(servers)]})


def test_an_empty_database_gives_zeros(store: Store) -> None:
    facts = read_facts(store)
    assert facts.coverage == Coverage(unknown_examples=[], rejected=[])
    assert facts.jobs == ()
    assert facts.findings == ()


def test_flows_are_told_apart_by_what_is_known_of_their_ends(store: Store) -> None:
    place(store, {"10.0.0.1": "a", "10.0.0.2": "a", "10.0.0.3": "b", "10.0.0.4": "c"})
    land(store, [("10.0.0.1", "10.0.0.2"), ("10.0.0.1", "10.0.0.3"), ("10.0.0.3", "10.0.0.1")])
    land(store, [("10.0.0.3", "10.9.9.9"), ("10.9.9.7", "10.9.9.8"), ("10.9.9.6", "10.9.9.8")])
    land(store, [("nowhere", "10.0.0.1"), ("10.0.0.1", "10.0.0.1")])
    assert read_facts(store).coverage == Coverage(
        flows=6,
        unknown_flows=3,
        between_servers=2,
        endpoints=4,
        seen_endpoints=3,
        seen_servers=2,
        unknown=4,
        unknown_examples=["10.9.9.6", "10.9.9.7", "10.9.9.8"],
        rejected=[("bad_src_addr", 1), ("same_endpoint", 1)],
    )


@pytest.mark.parametrize("failed", [0, 2])
def test_windows_and_the_first_failure_are_counted(store: Store, failed: int) -> None:
    count = 3
    minute_ns = 60 * SECOND_NS
    starts = (START_NS + np.arange(count) * minute_ns).astype("datetime64[ns]")
    store.insert(
        "windows_log",
        {
            "window_start": starts,
            "window_end": starts + np.timedelta64(minute_ns, "ns"),
            "revision": np.arange(1, count + 1, dtype=np.uint64),
            "status": ["worked"] * (count - failed) + ["failed"] * failed,
            "error": [""] * (count - failed) + [f"error {number}" for number in range(failed)],
        },
    )
    coverage = read_facts(store).coverage
    assert (coverage.windows, coverage.failed_windows) == (count, failed)
    assert coverage.failure == ("error 0" if failed else "")
