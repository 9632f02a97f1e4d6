"""Rates add up to the bytes sent, however time is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.export.messages import Sent
from prism_ch.export.rates import Rates

_START, _BIN = 1_000_000_000_000, 10_000_000
#: A step of 20 bins.
_STEP_S = 0.2


def sent(rows: list[tuple[int, int, int, int]]) -> Sent:
    """Records as (endpoint, start and length in milliseconds, bytes)."""
    src, start, length, size = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    begin = _START + start * 1_000_000
    endpoint = src.astype(np.int32)
    return Sent(endpoint, np.zeros_like(endpoint), begin, begin + length * 1_000_000, size)


def total(parts: list[tuple[int, int, int]]) -> float:
    """Bytes under a counter that holds each value until the next one."""
    later = [*parts[1:], parts[-1]]
    return sum(value * (end - time) / 1e9 for (_, time, value), (_, end, _) in zip(parts, later, strict=True))


def closed(rates: Rates, until_ns: int | None) -> list[tuple[int, int, int]]:
    server, time_ns, value = rates.close(until_ns)
    return list(zip(server.tolist(), time_ns.tolist(), value.tolist(), strict=True))


def test_a_record_counts_while_it_lasts() -> None:
    rates = Rates(_START, _STEP_S)
    rates.add(sent([(1, 15, 10, 1_000_000)]), np.array([0, 1], dtype=np.int32))
    assert [(place, (time - _START) // _BIN, value) for place, time, value in closed(rates, None)] == [
        (0, 0, 0),
        (1, 0, 0),
        (1, 1, 50_000_000),
        (1, 3, 0),
    ]


def test_of_a_record_that_began_before_the_trace_a_part_counts() -> None:
    rates = Rates(_START, _STEP_S)
    rates.add(sent([(0, -10, 20, 2000), (-1, 0, 5, 999)]), np.zeros(1, dtype=np.int32))
    assert total(closed(rates, None)) == pytest.approx(1000)


def test_a_moment_counts_whole() -> None:
    rates = Rates(_START, _STEP_S)
    rates.add(sent([(0, 10, 0, 777_000)]), np.zeros(1, dtype=np.int32))
    assert total(closed(rates, None)) == pytest.approx(777_000)


_RECORDS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(0, 99), st.integers(1, 10**9)), max_size=20
)


@given(_RECORDS, st.lists(st.integers(0, 400), max_size=4))
def test_bytes_are_the_same_however_time_is_cut(records: list[tuple[int, int, int, int]], cuts: list[int]) -> None:
    servers = np.array([0, 1, 0], dtype=np.int32)
    rates, found, since = Rates(_START, _STEP_S), list[tuple[int, int, int]](), -1
    for cut in [*sorted(cuts), 1000]:
        # Whatever began before a cut is known when time before it is closed.
        rates.add(sent([each for each in records if since < each[1] <= cut]), servers)
        found += closed(rates, _START + cut * 1_000_000)
        since = cut
    found += closed(rates, None)
    for server in (0, 1):
        own = [each for each in found if each[0] == server]
        assert [time for _, time, _ in own] == sorted({time for _, time, _ in own})
        wanted = sum(size for endpoint, _, _, size in records if servers[endpoint] == server)
        assert (total(own) if own else 0) == pytest.approx(wanted, rel=1e-6, abs=0.1 * len(own))
