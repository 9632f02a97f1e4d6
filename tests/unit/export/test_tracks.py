"""Tracks: servers and GPUs in order, incidents that do not overlap, and names of any kind."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.export.reader import Place
from prism_ch.export.tracks import Tracks
from tests import traces

HOSTILE = [
    "'; DROP TABLE flows --",
    "<script>alert(1)</script>",
    "\u202egnp.exe",
    "a\x00b\nc",
    "n\u00f8de " * 600,
    "9" * 5000,
]


def incident(start_ns: int, end_ns: int, **others: Any) -> dict[str, Any]:
    texts = dict.fromkeys(
        ("incident_id", "kind", "subject_type", "subject", "status", "severity", "summary", "action"), "text"
    )
    numbers = {"confidence": 0.9, "lost_gpu_h": 1.5, "slowdown": 0.25}
    return {**texts, **numbers, "may_also_be": ["a", "b"], "start_ns": start_ns, "end_ns": end_ns, **others}


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(0, 300)), max_size=30))
def test_incidents_at_one_time_lie_on_tracks_of_their_own(spans: list[tuple[int, int]]) -> None:
    spans.sort()
    tracks = Tracks({})
    data = tracks.opening("job", 1) + tracks.incidents([incident(start, start + length) for start, length in spans])
    shown = traces.decode(data).incidents()
    assert sorted((each.start_ns, each.end_ns - each.start_ns) for each in shown) == spans
    assert all(each.parent is None for each in shown)
    assert all(each.notes["summary"] == "text" and each.notes["lost_gpu_h"] == 1.5 for each in shown)
    assert all(each.name == "text: text text" and each.notes["may_also_be"] == "a, b" for each in shown)


def test_servers_and_gpus_come_in_their_order() -> None:
    places = {"b": Place("host-10", 0, 1), "a": Place("host-2", 1, -1), "c": Place("host-2", 0, 3)}
    tracks = Tracks(places)
    shown = traces.decode(tracks.opening("job", 5) + tracks.describe_threads(["a", "b", "c", "d"], 5))
    ranked = sorted(shown.threads().items(), key=lambda each: shown.tracks[each[1]].sibling_order_rank)
    assert [(shown.process(uuid), name) for name, uuid in ranked] == [
        ("host-2", "GPU 0 (c, stage 3)"),
        ("host-2", "GPU 1 (a)"),
        ("host-10", "GPU 0 (b, stage 1)"),
        ("unknown server", "d"),
    ]
    assert tracks.servers.tolist() == [0, 1, 0, 2]
    assert tracks.describe_threads(["a", "b", "c", "d"], 9) == b""


def test_threads_and_processes_have_numbers_of_their_own() -> None:
    tracks = Tracks({str(number): Place(f"host-{number // 8}", number % 8, 0) for number in range(64)})
    shown = traces.decode(tracks.opening("job", 5) + tracks.describe_threads([*map(str, range(64))], 5))
    threads = [each.thread for each in shown.tracks.values() if each.HasField("thread")]
    processes = {each.process.pid for each in shown.tracks.values() if each.HasField("process")}
    assert len({thread.tid for thread in threads}) == 64
    assert {thread.pid for thread in threads} == processes
    assert processes.isdisjoint(thread.tid for thread in threads)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_shown_as_they_are(name: str) -> None:
    tracks = Tracks({name: Place(name, 0, -1), "plain": Place("host-1", 0, -1)})
    found = incident(5, 9, subject=name, summary=name, may_also_be=[name], incident_id=name)
    data = tracks.opening(name, 5) + tracks.describe_threads([name, "plain"], 5) + tracks.incidents([found])
    shown = traces.decode(data)
    uuid = shown.threads()[f"GPU 0 ({name})"]
    assert shown.process(uuid) == name
    (slice_,) = shown.incidents()
    assert (slice_.name, slice_.notes["summary"]) == (f"text: text {name}", name)


def test_times_are_since_the_event_before_on_the_sequence() -> None:
    tracks = Tracks({})
    tracks.describe_threads(["a", "b"], 100)
    a, b = tracks.threads.tolist()
    assert tracks.advance(np.array([a, a, b]), np.array([100, 130, 150])).tolist() == [0, 30, 50]
    assert tracks.advance(np.array([b, a]), np.array([155, 131])).tolist() == [5, 1]
    assert tracks.clock_ns(np.array([a, b])).tolist() == [131, 155]
