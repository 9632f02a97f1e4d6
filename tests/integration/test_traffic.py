"""Traffic at the resolution that is asked for: all of it, once, whichever resolutions it comes from."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from prism_ch.errors import UsageError
from prism_ch.query.answer import answer
from prism_ch.query.api import pair_traffic, switch_traffic
from prism_ch.store.client import Store

T0 = datetime(2026, 3, 1, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
Reader = Callable[[Store, datetime, datetime, int], pa.Table]


@pytest.fixture
def landed(store: Store) -> Store:
    """Three hours of records, one every 20 seconds, of two pairs and two exporters."""
    store.command(
        "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
        " packets, sampler_address) SELECT 'test', {t:Int64} + number * 20000000000 AS at, at + 5,"
        " if(number % 2, '10.0.0.1', '10.0.0.2'), '10.0.0.3', 17, 100, 1, if(number % 3, 'leaf-1', 'leaf-2')"
        " FROM numbers(540)",
        {"t": int(T0.timestamp()) * 10**9},
    )
    return store


def told(table: pa.Table) -> dict[int, int]:
    """Sum up records by resolution."""
    found: dict[int, int] = {}
    for row in table.to_pylist():
        found[row["resolution_s"]] = found.get(row["resolution_s"], 0) + row["flows"]
        assert (row["bytes"], row["packets"]) == (100 * row["flows"], row["flows"])
    return found


@pytest.mark.parametrize(
    "read, points, resolution_s",
    [
        (pair_traffic, 3, 3600),
        (pair_traffic, 4, 60),
        (pair_traffic, 180, 60),
        (pair_traffic, 10_000, 60),
        (switch_traffic, 1, 3600),
        (switch_traffic, 3, 3600),
        (switch_traffic, 4, 60),
        (switch_traffic, 180, 60),
        (switch_traffic, 181, 1),
        (switch_traffic, 100_000, 1),
    ],
)
def test_the_coarsest_resolution_that_gives_the_points_is_read(
    landed: Store, read: Reader, points: int, resolution_s: int
) -> None:
    assert told(read(landed, T0, T0 + 3 * HOUR, points)) == {resolution_s: 540}


@pytest.mark.parametrize("read", [pair_traffic, switch_traffic])
def test_where_the_minutes_have_expired_the_hours_answer(landed: Store, read: Reader) -> None:
    for table in ("flow_pair_1m_log", "switch_1m_log"):
        landed.command("DELETE FROM {t:Identifier} WHERE minute = '2026-03-01 11:30:00'", {"t": table})
    assert told(read(landed, T0, T0 + 3 * HOUR, 180)) == {60: 360, 3600: 180}


def test_where_the_seconds_have_expired_the_minutes_answer(landed: Store) -> None:
    landed.command("DELETE FROM switch_1s_log WHERE second < '2026-03-01 11:00:30'")
    assert told(switch_traffic(landed, T0, T0 + 3 * HOUR, 1000)) == {60: 183, 1: 357}
    landed.command("DELETE FROM switch_1m_log WHERE minute < '2026-03-01 10:30:00'")
    assert told(switch_traffic(landed, T0, T0 + 3 * HOUR, 1000)) == {3600: 180, 60: 3, 1: 357}


@pytest.mark.parametrize("read", [pair_traffic, switch_traffic])
@pytest.mark.parametrize("points", [1, 60, 3600])
def test_rows_are_of_the_span_and_in_order(landed: Store, read: Reader, points: int) -> None:
    begin, end = T0 + HOUR, T0 + 2 * HOUR
    table = read(landed, begin, end, points)
    times = table["time"].to_pylist()
    assert sum(told(table).values()) == 180
    assert times == sorted(times)
    assert begin.timestamp() <= table["time"].cast(pa.int64())[0].as_py()
    assert table["time"].cast(pa.int64())[-1].as_py() < end.timestamp()


def test_records_without_times_count_at_every_resolution(store: Store) -> None:
    store.command(
        "INSERT INTO flow_landing (source, time_flow_end_ns, src_addr, dst_addr, proto, bytes, packets,"
        " sampler_address, problem) SELECT 'test', {t:Int64}, '10.0.0.1', '10.0.0.2', 17, 100, 1, 'leaf-1', 'no_time'",
        {"t": int(T0.timestamp()) * 10**9},
    )
    for points in (1, 60, 3600):
        assert sum(told(switch_traffic(store, T0, T0 + HOUR, points)).values()) == 1
        assert sum(told(pair_traffic(store, T0, T0 + HOUR, points)).values()) == 1


def test_an_operator_asks_the_same_in_sql(landed: Store) -> None:
    span = "from_time = '2026-03-01 10:00:00', to_time = '2026-03-01 13:00:00', points = 3"
    with landed.another() as own:
        for name in ("pair_traffic", "switch_traffic"):
            assert answer(own, f"SELECT sum(flows) FROM {name}({span})").rows == (("540",),)  # noqa: S608 - our own names


@pytest.mark.parametrize(
    "span, points",
    [
        ((T0, T0), 10),
        ((T0 + HOUR, T0), 10),
        ((T0, T0 + HOUR), 0),
        ((T0.replace(tzinfo=None), T0.replace(tzinfo=None)), 1),
    ],
)
def test_what_is_no_span_is_refused(store: Store, span: tuple[datetime, datetime], points: int) -> None:
    with pytest.raises(UsageError, match=r"nothing lies in the span|without zone|points must be"):
        pair_traffic(store, *span, points)
