"""What windows found of exporters: read back as of a window, replaced with it, shown in the public view."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from prism_ch.errors import StoreError
from prism_ch.model.exporter import ExporterStates
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.read import read_exporter_history
from tests.revisions import write_revisions

S = 10**9
T0 = 1_800_000_000 * S
_NONE: Any = np.empty(0, np.int64)
NOWHERE = Topology((), _NONE, _NONE, _NONE, _NONE, _NONE, _NONE, (), (), (), ())
NAN = float("nan")


def window(number: int) -> Window:
    return Window(T0 + number * 60 * S, T0 + (number + 1) * 60 * S)


def publish(store: Store, at: int, revision: int, **offset_s: float) -> None:
    """Say that a working of a window found these offsets."""
    offset = np.array(list(offset_s.values()))
    states = replace(
        ExporterStates.unknown(tuple(offset_s)),
        clock_offset_s=offset,
        clock_uncertainty_s=np.abs(offset) / 100,
        clock_matches=np.where(np.isnan(offset), 0, 50),
    )
    write_revisions(store, NOWHERE, window(at), revision, [], exporters=states)


def known(store: Store, before: int, since: int = 0) -> list[tuple[str, int, float]]:
    """What was known before a window: exporter, window, offset."""
    history = read_exporter_history(store, window(since).start_ns, window(before).start_ns)
    at = (history.window_start_ns - T0) // (60 * S)
    names = [history.exporters[code] for code in history.exporter]
    return list(zip(names, at.tolist(), history.clock_offset_s.tolist(), strict=True))


def see(store: Store, *exporters: str) -> None:
    """Land a record of each exporter."""
    for name in exporters:
        store.command(
            "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
            " packets, sampler_address, received_at)"
            " SELECT 'test', {t:Int64}, {t:Int64}, '10.0.0.1', '10.0.0.2', 17, 100, 1, {e:String},"
            " fromUnixTimestamp64Nano({t:Int64})",
            {"t": T0, "e": name},
        )


def shown(store: Store) -> dict[str, float | None]:
    """What the public view says."""
    return dict(store.rows("SELECT exporter, clock_offset_s FROM exporters"))


def test_what_is_written_is_read_back_as_of_a_window(store: Store) -> None:
    publish(store, 0, 1, b=0.2, a=-0.001)
    publish(store, 1, 2, b=0.21, c=0.0)
    assert known(store, 1) == [("a", 0, -0.001), ("b", 0, 0.2)]
    assert known(store, 2) == [("a", 0, -0.001), ("b", 0, 0.2), ("b", 1, 0.21), ("c", 1, 0.0)]
    assert known(store, 2, since=1) == [("b", 1, 0.21), ("c", 1, 0.0)]
    assert known(store, 0) == []
    history = read_exporter_history(store, T0, window(1).start_ns)
    assert history.clock_uncertainty_s.tolist() == [0.00001, 0.002]


def test_nothing_is_known_of_exporters_without_an_offset(store: Store) -> None:
    publish(store, 0, 1, a=NAN, b=0.2)
    assert known(store, 1) == [("b", 0, 0.2)]
    assert store.rows(
        "SELECT exporter, clock_offset_s, clock_uncertainty_s, clock_matches FROM exporters_log ORDER BY 1"
    ) == [
        ("a", None, None, 0),
        ("b", 0.2, 0.002, 50),
    ]


def test_window_analysed_again_replaces_its_and_later_offsets(store: Store) -> None:
    for at in range(3):
        publish(store, at, at + 1, a=0.1 * at, b=0.5)
    publish(store, 1, 4, a=7.0)
    assert known(store, 9) == [("a", 0, 0.0), ("a", 1, 7.0), ("b", 0, 0.5)]
    publish(store, 2, 5, a=8.0)
    assert known(store, 9) == [("a", 0, 0.0), ("a", 1, 7.0), ("a", 2, 8.0), ("b", 0, 0.5)]
    assert known(store, 2) == [("a", 0, 0.0), ("a", 1, 7.0), ("b", 0, 0.5)]


def test_a_window_worked_again_without_exporters_forgets_them(store: Store) -> None:
    publish(store, 0, 1, a=0.2)
    publish(store, 0, 2)
    assert known(store, 1) == []


def test_the_public_view_shows_the_last_offset_found(store: Store) -> None:
    see(store, "a", "b", "c")
    assert shown(store) == {"a": None, "b": None, "c": None}
    publish(store, 0, 1, a=0.2, b=0.0)
    publish(store, 1, 2, a=NAN, b=0.001)
    assert shown(store) == {"a": 0.2, "b": 0.001, "c": None}
    publish(store, 0, 3, b=-0.5)
    assert shown(store) == {"a": None, "b": -0.5, "c": None}


def test_nobody_sees_what_was_not_published(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    see(store, "a")
    publish(store, 0, 1, a=0.1)
    insert = store.insert

    def killed(table: str, columns: pa.Table, **options: Any) -> None:
        if table == "revisions":
            raise StoreError("killed")
        insert(table, columns, **options)

    with monkeypatch.context() as patch:
        patch.setattr(store, "insert", killed)
        with pytest.raises(StoreError, match="killed"):
            publish(store, 0, 2, a=0.9)
    assert shown(store) == {"a": 0.1}
    assert known(store, 1) == [("a", 0, 0.1)]
