"""Up to when flows have arrived: as far as the last exporter that still sends, within bounds, whatever clocks say."""

from __future__ import annotations

import time

import pytest

from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.ledger import Watermark, closed_until_ns, read_watermark, silent_until_ns

SECOND = 10**9
NOW_NS = time.time_ns()
HOUR_AGO_NS = NOW_NS - 3600 * SECOND


def land(store: Store, exporter: str, end_ns: int, received_ago_s: float = 0.0, *, minutes: int = 1) -> None:
    """Land a flow that ended then, and one in each minute before."""
    store.command(
        "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
        " packets, sampler_address, received_at) SELECT 'test', ended - 1000, ended, '10.0.0.1',"
        " '10.0.0.2', 17, 100, 1, {exporter:String}, now64(3) - toIntervalMillisecond({ago_ms:UInt64})"
        " FROM (SELECT toInt64({end_ns:Int64} - number * 60000000000) AS ended FROM numbers({minutes:UInt8}))",
        {"end_ns": end_ns, "exporter": exporter, "ago_ms": int(received_ago_s * 1000), "minutes": minutes},
    )


def watermark(store: Store) -> Watermark:
    return read_watermark(store, silent_after_s=3600, hold_s=120)


def test_nothing_landed_means_that_all_is_here(store: Store) -> None:
    found = watermark(store)
    assert (found.exporters, found.silent) == (0, 0)
    assert found.at_ns == pytest.approx(time.time_ns(), abs=60 * SECOND)


def test_the_exporter_furthest_behind_counts(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS + 40 * SECOND)
    land(store, "leaf-2", HOUR_AGO_NS + 10 * SECOND)
    land(store, "leaf-2", HOUR_AGO_NS + 20 * SECOND)
    land(store, "leaf-2", HOUR_AGO_NS + 15 * SECOND)
    assert watermark(store) == Watermark(HOUR_AGO_NS + 20 * SECOND, 2, 0)
    assert closed_until_ns(store, Settings(lateness_s=5)) == HOUR_AGO_NS + 15 * SECOND


def test_exporter_far_behind_holds_others_back_by_hold_s_only(store: Store) -> None:
    for number in range(4):
        land(store, f"leaf-{number}", HOUR_AGO_NS + number * SECOND)
    land(store, "slow", HOUR_AGO_NS - 3000 * SECOND)
    assert watermark(store).at_ns == HOUR_AGO_NS + 1 * SECOND - 120 * SECOND


def test_one_that_is_silent_is_not_waited_for(store: Store) -> None:
    land(store, "silent", HOUR_AGO_NS, received_ago_s=4000)
    land(store, "leaf-1", HOUR_AGO_NS + 30 * SECOND)
    assert watermark(store) == Watermark(HOUR_AGO_NS + 30 * SECOND, 2, 1)


def test_everything_past_is_closed_once_all_are_silent(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS, received_ago_s=4000)
    found = watermark(store)
    assert (found.exporters, found.silent) == (1, 1)
    assert found.at_ns >= NOW_NS - SECOND


def test_a_clock_that_jumps_ahead_closes_nothing_early(store: Store) -> None:
    land(store, "leaf-1", NOW_NS - 5 * SECOND)
    land(store, "leaf-2", NOW_NS + 3600 * SECOND)
    assert watermark(store).at_ns == NOW_NS - 5 * SECOND
    land(store, "leaf-1", NOW_NS + 3600 * SECOND)
    assert watermark(store).at_ns <= time.time_ns() + SECOND


def test_a_clock_that_falls_back_holds_nobody(store: Store) -> None:
    land(store, "leaf-1", HOUR_AGO_NS)
    land(store, "leaf-1", HOUR_AGO_NS - 1800 * SECOND)
    assert watermark(store).at_ns == HOUR_AGO_NS


def test_records_without_an_exporter_count_as_from_one(store: Store) -> None:
    land(store, "", HOUR_AGO_NS)
    assert watermark(store) == Watermark(HOUR_AGO_NS, 1, 0)


def land_at_once(store: Store, exporter: str, ago_s: int, after_s: int = 2) -> int:
    """Land a flow that ended so long ago, and came a little later; return when it ended."""
    end_ns = time.time_ns() - ago_s * SECOND
    land(store, exporter, end_ns, received_ago_s=ago_s - after_s)
    return end_ns


def silent(store: Store) -> int:
    return silent_until_ns(store, Settings(lateness_s=10))


def test_a_silent_cluster_is_silent_until_now(store: Store) -> None:
    assert silent(store) == 0
    land_at_once(store, "leaf-1", 100)
    land_at_once(store, "leaf-2", 90)
    before_ns = time.time_ns()
    assert before_ns - 11 * SECOND <= silent(store) <= time.time_ns() - 10 * SECOND


def test_one_exporter_that_sends_is_enough_to_break_the_silence(store: Store) -> None:
    land_at_once(store, "leaf-1", 100)
    land_at_once(store, "leaf-2", 2)
    assert silent(store) == 0


def test_silence_is_looked_at_for_some_minutes_only(store: Store) -> None:
    last_ns = land_at_once(store, "leaf-1", 3600)
    assert silent(store) == last_ns + 1200 * SECOND


def test_files_of_the_past_say_nothing_of_the_present(store: Store) -> None:
    land_at_once(store, "leaf-1", 3600, after_s=3300)
    assert silent(store) == 0
