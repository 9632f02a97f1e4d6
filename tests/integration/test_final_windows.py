"""Windows whose raw flows may be gone are final: not worked again, whatever comes; what comes is counted."""

from collections.abc import Callable

import pytest

from prism_ch import __version__
from prism_ch.model.window import Window
from prism_ch.store.client import Store
from prism_ch.store.due_windows import ALL_WINDOWS, WindowSelection, due_windows, final_until_ns
from prism_ch.store.ledger import claim_due_windows, claim_window, new_worker, record_window
from prism_ch.store.retention import set_retention
from prism_ch.store.statements import statement

T0_S = 1_800_000_000 // 60 * 60
Numbers = Callable[..., list[int]]


@pytest.fixture
def kept(retained: Store) -> Store:
    """Return a database that has always kept raw flows for ten days."""
    retained.command("TRUNCATE TABLE retention_log")
    keep_raw(retained, 10, since_days_ago=1000)
    return retained


def keep_raw(store: Store, days: int, since_days_ago: int) -> None:
    """Note that raw flows are kept for so long since so many days."""
    store.command(
        "INSERT INTO retention_log (class, kept_days, changed_at)"
        " VALUES ('raw', {days:UInt32}, now64(3) - toIntervalDay({since:UInt32}))",
        {"days": days, "since": since_days_ago},
    )


def window(number: int) -> Window:
    return Window((T0_S + number * 60) * 10**9, (T0_S + number * 60 + 60) * 10**9)


def arrive(store: Store, number: int, days_ago: int, records: int = 10, second: int = 30) -> None:
    """Let records of a window land, as if that had been some days ago."""
    store.command(
        "INSERT INTO arrivals_log (second, records, fingerprint, first_written_at, written_at)"
        " WITH now() - toIntervalDay({days:UInt32}) AS landed"
        " SELECT {second:UInt32}, {records:UInt64}, {records:UInt64}, landed, landed",
        {"second": T0_S + number * 60 + second, "records": records, "days": days_ago},
    )


def work(store: Store, *numbers: int) -> None:
    for number in numbers:
        record_window(store, claim_window(store, window(number)))


@pytest.fixture
def due(kept: Store) -> Numbers:
    def numbers(window_s: int = 60, *, final: bool = False, force: bool = False, inputs: int = 0) -> list[int]:
        found = due_windows(kept, window_s, WindowSelection(force=force), final=final, inputs=inputs)
        return [(each.start_ns // 10**9 - T0_S) // 60 for each in found]

    return numbers


def left(store: Store) -> list[tuple[int, int, int]]:
    """Return number, flows and late flows of the windows that are left."""
    rows = store.rows("SELECT toUnixTimestamp64Nano(window_start), flows, late_flows FROM windows_left ORDER BY ALL")
    return [((start_ns // 10**9 - T0_S) // 60, flows, late) for start_ns, flows, late in rows]


def test_nothing_is_final_while_all_flows_are_there(kept: Store, due: Numbers) -> None:
    for number in range(3):
        arrive(kept, number, days_ago=9)
    assert final_until_ns(kept) == 0
    assert due() == [0, 1, 2]
    assert due(final=True) == []


def test_of_final_windows_one_is_compared(kept: Store, due: Numbers) -> None:
    """Years of them are kept, and what is due is asked for every second."""
    for number, days_ago in enumerate((30, 30, 12, 1)):
        arrive(kept, number, days_ago)
    work(kept, 0, 1, 2, 3)
    bounds = {"version": __version__, "final_until_s": final_until_ns(kept) // 10**9}
    read = {final: kept.rows(statement("worked_windows"), {**bounds, "final": final}) for final in (0, 1)}
    assert [len(read[final]) for final in (0, 1)] == [2, 4]
    assert max(row[2] for row in read[0]) == max(row[2] for row in read[1])


def test_only_windows_with_old_arrivals_are_final(kept: Store, due: Numbers) -> None:
    for number, days_ago in enumerate((30, 12, 11, 9, 1)):
        arrive(kept, number, days_ago)
    assert final_until_ns(kept) == window(2).start_ns + 30 * 10**9
    assert due() == [3, 4]
    assert due(force=True) == [3, 4]
    assert due(final=True) == [0, 1, 2]


def test_late_records_of_final_window_are_only_counted(kept: Store, due: Numbers) -> None:
    for number, days_ago in enumerate((12, 12, 1)):
        arrive(kept, number, days_ago)
    work(kept, 0, 1, 2)
    assert (due(), due(final=True), left(kept)) == ([], [], [])
    arrive(kept, 0, days_ago=0, records=3)
    assert (due(), due(final=True), left(kept)) == ([], [0], [(0, 10, 3)])
    assert kept.scalar("SELECT reason FROM windows_left") == (
        "raw flows that it would rest on may be gone; see prism-ch retention"
    )


def test_neither_force_nor_other_inputs_touch_a_final_window(kept: Store, due: Numbers) -> None:
    for number, days_ago in enumerate((12, 12, 1)):
        arrive(kept, number, days_ago)
    work(kept, 0, 1, 2)
    assert (due(force=True), due(inputs=7)) == ([2], [2])
    assert (due(force=True, final=True), due(inputs=7, final=True)) == ([0, 1], [0, 1])


def test_a_recording_from_before_final_windows_is_not_worked(kept: Store, due: Numbers) -> None:
    arrive(kept, 5, days_ago=12)
    work(kept, 5)
    arrive(kept, 1, days_ago=0)
    assert due() == []
    assert (due(final=True), left(kept)) == ([1], [(1, 0, 10)])


def test_a_window_is_final_whole_whatever_its_length(kept: Store, due: Numbers) -> None:
    arrive(kept, 0, days_ago=12)
    arrive(kept, 1, days_ago=1)
    arrive(kept, 60, days_ago=1)
    assert due() == [1, 60]
    assert due(3600) == [60]


def test_one_second_that_is_old_makes_its_window_final(kept: Store, due: Numbers) -> None:
    arrive(kept, 0, days_ago=12, second=5)
    arrive(kept, 0, days_ago=1, second=50)
    arrive(kept, 1, days_ago=1)
    assert due() == [1]
    kept.command("OPTIMIZE TABLE arrivals_log FINAL")
    assert due() == [1]


def test_window_analysed_before_a_final_one_follows_it(kept: Store, due: Numbers) -> None:
    arrive(kept, 0, days_ago=12)
    arrive(kept, 1, days_ago=1)
    work(kept, 0, 1, 0)
    assert due() == [1]
    work(kept, 1)
    assert due() == []


def test_window_that_becomes_final_meanwhile_is_left(kept: Store) -> None:
    for number in range(3):
        arrive(kept, number, days_ago=9)
    taken = []
    with new_worker(kept) as worker:
        for claim, _ in claim_due_windows(kept, 60, ALL_WINDOWS, 0, worker):
            taken.append(claim.window)
            record_window(kept, claim)
            arrive(kept, 1, days_ago=11)
    assert taken == [window(0), window(2)]


def test_keeping_flows_longer_does_not_reopen_final_windows(kept: Store, due: Numbers) -> None:
    for number, days_ago in enumerate((30, 14, 9)):
        arrive(kept, number, days_ago)
    keep_raw(kept, 40, since_days_ago=3)
    assert due() == [2]
    assert kept.scalar("SELECT dateDiff('day', gone_before, now()) FROM raw_horizon") == 13


def test_kept_shorter_more_is_final_at_once(kept: Store, due: Numbers) -> None:
    arrive(kept, 0, days_ago=7)
    arrive(kept, 1, days_ago=2)
    assert due() == [0, 1]
    set_retention(kept, {"raw": 5})
    assert due() == [1]


def test_where_retention_was_never_set_nothing_is_final(kept: Store, due: Numbers) -> None:
    kept.command("TRUNCATE TABLE retention_log")
    arrive(kept, 0, days_ago=1000)
    assert due() == [0]
