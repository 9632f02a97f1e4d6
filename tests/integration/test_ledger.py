"""Which windows are due: never worked, changed, failed, or resting on one that is; and what the ledger remembers."""

from collections.abc import Callable
from typing import Any

import pytest

from prism_ch.errors import StoreError
from prism_ch.model.window import Window
from prism_ch.store import ledger
from prism_ch.store.client import Store
from prism_ch.store.due_windows import WindowSelection, due_windows
from prism_ch.store.ledger import claim_window, record_window
from prism_ch.store.statements import statement

#: Numbers of the windows that are due, by the arguments of due_windows.
Due = Callable[..., list[int]]

T0_S = 1_800_000_000
LEDGER_VIEW = "SELECT flows, late_flows, attempts, status, error FROM windows ORDER BY window_start"


def window(number: int, length_s: int = 60) -> Window:
    start_ns = (T0_S + number * length_s) * 10**9
    return Window(start_ns, start_ns + length_s * 10**9)


def arrive(store: Store, number: int, fingerprint: int = 1, records: int = 10, second: int = 30) -> None:
    """Let records whose flows end in a minute arrive; hashes may add up beyond 64 bits."""
    store.command(
        "INSERT INTO arrivals_log (second, records, fingerprint, last_received_at)"
        " VALUES ({second:UInt32}, {records:UInt64}, {fingerprint:UInt64}, now64(3))",
        {"second": T0_S + number * 60 + second, "records": records, "fingerprint": fingerprint},
    )


@pytest.fixture
def due(store: Store) -> Due:
    def numbers(window_s: int = 60, *, inputs: int = 0, final: bool = False, **bounds: Any) -> list[int]:
        windows = due_windows(store, window_s, WindowSelection(**bounds), inputs=inputs, final=final)
        found = [(each.start_ns // 10**9 - T0_S) // window_s for each in windows]
        assert windows == [window(number, window_s) for number in found]
        return found

    return numbers


def work(store: Store, *numbers: int, length_s: int = 60, inputs: int = 0, error: str = "") -> None:
    for number in numbers:
        record_window(store, claim_window(store, window(number, length_s), inputs=inputs), error=error)


def test_nothing_arrived_nothing_due(due: Due) -> None:
    assert due() == []


def test_windows_with_flows_are_due_once(store: Store, due: Due) -> None:
    for number in (2, 0, 5):
        arrive(store, number)
    assert due() == [0, 2, 5]
    work(store, 0)
    assert due() == [2, 5]
    work(store, 2, 5)
    assert due() == []
    assert store.rows(LEDGER_VIEW) == [(10, 0, 1, "worked", "")] * 3


def test_a_late_flow_makes_its_window_and_all_later_ones_due(store: Store, due: Due) -> None:
    for number in range(4):
        arrive(store, number)
    work(store, *range(4))
    arrive(store, 1, fingerprint=2**64 - 1, records=3, second=10)
    assert due() == [1, 2, 3]
    work(store, 1, 2, 3)
    assert due() == []
    assert store.rows(LEDGER_VIEW) == [
        (10, 0, 1, "worked", ""),
        (13, 3, 2, "worked", ""),
        (10, 0, 2, "worked", ""),
        (10, 0, 2, "worked", ""),
    ]


def test_a_window_that_had_no_flows_before_makes_later_ones_due(store: Store, due: Due) -> None:
    arrive(store, 0)
    arrive(store, 3)
    work(store, 0, 3)
    arrive(store, 1)
    assert due() == [1, 3]


def test_rest_stays_due_when_stopped_in_the_middle(store: Store, due: Due) -> None:
    for number in range(5):
        arrive(store, number)
    work(store, *range(5))
    arrive(store, 1)
    work(store, 1, 2)
    assert due() == [3, 4]
    claim_window(store, window(3))
    assert due() == [3, 4]
    work(store, 3, 4)
    assert due() == []
    assert [row[2] for row in store.rows(LEDGER_VIEW)] == [1, 2, 2, 3, 2]


def test_flows_that_arrive_during_the_working_are_not_overlooked(store: Store, due: Due) -> None:
    arrive(store, 0)
    claim = claim_window(store, window(0))
    arrive(store, 0, records=5)
    record_window(store, claim)
    assert due() == [0]
    work(store, 0)
    assert store.rows(LEDGER_VIEW) == [(15, 5, 2, "worked", "")]


def test_a_failed_window_is_due_and_says_why(store: Store, due: Due) -> None:
    for number in range(3):
        arrive(store, number)
    work(store, 0)
    why = "it's 'odd' \\ broken\ttext"
    work(store, 1, error=why)
    assert due() == [1, 2]
    assert store.rows(LEDGER_VIEW)[1] == (10, 0, 1, "failed", why)
    work(store, 1, 2)
    assert due() == []


def test_windows_after_a_due_one_follow_it_outside_the_bounds(store: Store, due: Due) -> None:
    for number in range(6):
        arrive(store, number)
    between = {"from_ns": window(2).start_ns, "to_ns": window(4).start_ns}
    assert due(**between) == [2, 3]
    assert due(from_ns=window(2).start_ns - 1, to_ns=window(4).start_ns + 1) == [1, 2, 3, 4]
    assert due(until_ns=window(3).end_ns - 1) == [0, 1, 2]
    assert due(until_ns=window(3).end_ns) == [0, 1, 2, 3]
    work(store, 0, 1, 2, 3, 4)
    assert due(**between) == []
    arrive(store, 3)
    assert due(**between) == [3, 4]
    assert due(to_ns=window(3).start_ns) == []
    assert due() == [3, 4, 5]


def test_force_takes_windows_within_the_bounds(store: Store, due: Due) -> None:
    for number in range(4):
        arrive(store, number)
    work(store, *range(4))
    assert due(force=True) == [0, 1, 2, 3]
    assert due(force=True, from_ns=window(2).start_ns, to_ns=window(2).end_ns) == [2, 3]
    assert due(force=True, from_ns=window(9).start_ns) == []


def test_other_inputs_make_windows_due(store: Store, due: Due) -> None:
    topology, other = 2**64 - 1, 7
    for number in range(3):
        arrive(store, number)
    work(store, 0, 1, 2, inputs=topology)
    assert due(inputs=topology) == []
    assert due(inputs=other) == [0, 1, 2]
    work(store, 0, inputs=other)
    assert due(inputs=other) == [1, 2]


def test_other_window_length_makes_everything_due(store: Store, due: Due) -> None:
    for number in range(4):
        arrive(store, number)
    work(store, *range(4))
    assert due(120) == [0, 1]
    work(store, 0, 1, length_s=120)
    assert due(120) == []
    assert [row[0] for row in store.rows(LEDGER_VIEW)] == [20, 20]
    # Going back, the old rows are void: results of the longer windows have replaced theirs.
    assert due(60) == [0, 1, 2, 3]
    work(store, 0)
    assert due(60) == [1, 2, 3]
    assert store.rows(LEDGER_VIEW) == [(10, 0, 2, "worked", "")]


def test_revisions_grow_and_are_never_used_twice(store: Store) -> None:
    arrive(store, 0)
    claims = [claim_window(store, window(0)) for _ in range(3)]
    assert [claim.revision for claim in claims] == [1, 2, 3]
    assert [claim.attempts for claim in claims] == [1, 2, 3]
    assert claims[0].window == window(0)
    assert (claims[0].flows, claims[0].first_flows, claims[0].fingerprint) == (10, 10, 1)


def test_two_processes_that_claim_at_once_are_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    stale = "SELECT toUInt64(1) AS revision"
    claim_window(store, window(0))
    monkeypatch.setattr(ledger, "statement", lambda name: stale if name == "next_revision" else statement(name))
    with pytest.raises(StoreError, match="is being analysed by another process"):
        claim_window(store, window(1))


def test_exporters_come_from_the_rollup(store: Store) -> None:
    store.command(
        "INSERT INTO flow_landing (source, time_flow_start_ns, time_flow_end_ns, src_addr, dst_addr, proto, bytes,"
        " packets, sampler_address, received_at) SELECT 'test', {t:Int64}, {t:Int64} + number * 60000000000,"
        " '10.0.0.1', '10.0.0.2', 17, 100, 1, if(number = 3, '', 'leaf-1'),"
        " fromUnixTimestamp64Nano({t:Int64} + number * 60000000000 + 4000000000) FROM numbers(4)",
        {"t": T0_S * 10**9 - 40 * 86_400 * 10**9},
    )
    rows = store.rows("SELECT exporter, last_seen - first_seen, flows, lag_s, clock_offset_s, lost FROM exporters")
    assert [(row[0], float(row[1]), *row[2:]) for row in rows] == [("leaf-1", 120.0, 3, 4.0, None, 0)]


def silent_until(number: int) -> int:
    return window(number).start_ns


def test_windows_after_last_flow_are_due_in_silence(store: Store, due: Due) -> None:
    arrive(store, 0)
    arrive(store, 2)
    assert due(silent_until_ns=silent_until(5)) == [0, 2, 3, 4]
    assert due(silent_until_ns=silent_until(5) - 1) == [0, 2, 3]
    assert due(silent_until_ns=silent_until(1)) == [0, 2]
    assert due(silent_until_ns=silent_until(5), until_ns=silent_until(4)) == [0, 2, 3]
    assert due(silent_until_ns=silent_until(5), final=True) == []


def test_silent_window_follows_others_and_waits_for_flows(store: Store, due: Due) -> None:
    arrive(store, 0)
    work(store, 0, 1, 2)
    assert due() == []
    assert due(silent_until_ns=silent_until(4)) == [3]
    arrive(store, 0, fingerprint=7)
    assert due() == [0, 1, 2]
    work(store, 0, 1, 2)
    arrive(store, 1)
    assert due() == [1, 2]


def test_nothing_arrived_is_no_silence(due: Due) -> None:
    assert due(silent_until_ns=silent_until(4)) == []
