"""No two workers analyse windows of one database at once, and the claim of a worker that died is void."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from prism_ch.errors import ClaimedError, StoreError
from prism_ch.store import ledger
from prism_ch.store.client import Store
from prism_ch.store.due_windows import WindowSelection, due_windows
from prism_ch.store.ledger import (
    MAX_ATTEMPTS,
    Claim,
    claim_due_windows,
    claim_window,
    end_claim,
    new_from_ns,
    new_worker,
    record_window,
)
from tests.e2e.service import until
from tests.integration.test_ledger import arrive, window, work


@pytest.fixture
def served(store: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """Take the engine for a server, which several processes use."""
    monkeypatch.setattr(Store, "embedded", property(lambda self: False))
    return store


def claim_of_another_process(store: Store, number: int, seconds_ago: int = 0) -> str:
    worker = "elsewhere:1:abcd/1"
    store.command(
        "INSERT INTO revision_claims (revision, window_start, window_end, claimed_at, worker)"
        " SELECT max(revision) + 1, fromUnixTimestamp64Nano({start_ns:Int64}), fromUnixTimestamp64Nano({end_ns:Int64}),"
        " now64(3) - {seconds_ago:UInt32}, {worker:String} FROM revision_claims",
        {
            "start_ns": window(number).start_ns,
            "end_ns": window(number).end_ns,
            "seconds_ago": seconds_ago,
            "worker": worker,
        },
    )
    return worker


def claimed(store: Store, worker: str, **bounds: Any) -> Iterator[tuple[Claim, int]]:
    return claim_due_windows(store, 60, WindowSelection(**bounds), 0, worker)


def number_of(claim: Claim) -> int:
    return (claim.window.start_ns - window(0).start_ns) // (60 * 10**9)


def test_claimed_window_and_later_ones_are_refused_to_others(store: Store) -> None:
    arrive(store, 0)
    with new_worker(store) as one, new_worker(store) as other:
        claim = claim_window(store, window(0), worker=one)
        for number in (0, 1):
            with pytest.raises(ClaimedError, match="is being analysed by another process"):
                claim_window(store, window(number), worker=other)
        record_window(store, claim)
        assert claim_window(store, window(1), worker=other).revision == claim.revision + 1


def test_who_is_gone_keeps_nobody_out(store: Store) -> None:
    with new_worker(store) as one:
        left = claim_window(store, window(0), worker=one)
    with new_worker(store) as other:
        assert claim_window(store, window(0), worker=other).revision == left.revision + 1


def test_the_embedded_engine_has_no_other_living_process(store: Store) -> None:
    claim_of_another_process(store, 0)
    with new_worker(store) as worker:
        assert claim_window(store, window(0), worker=worker).revision == 2


def test_claim_of_another_process_on_server_holds_until_timeout(served: Store) -> None:
    claim_of_another_process(served, 0, seconds_ago=ledger.CLAIM_TIMEOUT_S + 1)
    with new_worker(served) as worker:
        end_claim(served, claim_window(served, window(0), worker=worker).revision, worker)
        claim_of_another_process(served, 0)
        with pytest.raises(ClaimedError, match=r"elsewhere:1:abcd/1"):
            claim_window(served, window(0), worker=worker)


def test_heartbeat_keeps_claim_and_its_end_frees_window(served: Store) -> None:
    other = claim_of_another_process(served, 0, seconds_ago=10 * ledger.CLAIM_TIMEOUT_S)
    served.command(
        "INSERT INTO claim_beats (revision, worker, ended) VALUES (1, {worker:String}, 0)", {"worker": other}
    )
    with new_worker(served) as worker:
        with pytest.raises(ClaimedError):
            claim_window(served, window(0), worker=worker)
        end_claim(served, 1, other)
        assert claim_window(served, window(0), worker=worker).revision == 2


def test_a_recorded_window_ends_its_claim_and_earlier_ones(served: Store) -> None:
    other = claim_of_another_process(served, 0, seconds_ago=ledger.CLAIM_TIMEOUT_S + 1)
    with new_worker(served) as one, new_worker(served) as another:
        record_window(served, claim_window(served, window(0), worker=one))
        # What was taken for dead wakes up. It can't publish any more.
        served.command(
            "INSERT INTO claim_beats (revision, worker, ended) VALUES (1, {worker:String}, 0)", {"worker": other}
        )
        assert claim_window(served, window(1), worker=another).revision == 3


def test_a_worker_on_a_server_ends_its_claim_when_it_leaves(served: Store) -> None:
    with new_worker(served) as worker:
        claim_window(served, window(0), worker=worker)
    assert served.rows("SELECT revision, worker, ended FROM claim_beats") == [(1, worker, 1)]


def test_heartbeats_are_recorded_during_an_analysis(served: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "_HEARTBEAT_INTERVAL_S", 0.01)
    with new_worker(served) as worker:
        claim_window(served, window(0), worker=worker)
        until(lambda: served.scalar("SELECT count() FROM claim_beats WHERE ended = 0"))
    beats = "SELECT DISTINCT worker, revision FROM claim_beats WHERE ended = 0"
    assert served.rows(beats) == [(worker, 1)]


def test_of_two_that_claim_at_once_the_later_one_yields(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with new_worker(store) as one, new_worker(store) as other:
        # The other one has looked, and found nothing, just before this one claims.
        claim_window(store, window(0), worker=one)
        refuse, asked = ledger.refuse_claimed, []

        def blind_at_first(*arguments: Any, **options: Any) -> None:
            asked.append(options)
            if len(asked) > 1:
                refuse(*arguments, **options)

        monkeypatch.setattr("prism_ch.store.ledger.refuse_claimed", blind_at_first)
        with pytest.raises(ClaimedError):
            claim_window(store, window(0), worker=other)
        assert store.rows("SELECT revision, worker, ended FROM claim_beats") == [(2, other, 1)]


def test_due_windows_are_listed_anew_after_another_worker(store: Store) -> None:
    for number in range(3):
        arrive(store, number)
    with new_worker(store) as one, new_worker(store) as other:
        mine = claimed(store, one)
        first, left = next(mine)
        assert (number_of(first), left) == (0, 2)
        record_window(store, first)
        # Another works an earlier window again: all after it rest on that one now.
        forced = claimed(store, other, force=True, to_ns=window(0).end_ns)
        record_window(store, next(forced)[0])
        worked = []
        for claim, _ in mine:
            record_window(store, claim)
            worked.append(number_of(claim))
        assert worked == [1, 2]


def test_what_is_forced_goes_on_where_it_was(store: Store) -> None:
    for number in range(3):
        arrive(store, number)
    with new_worker(store) as one, new_worker(store) as other:
        forced = claimed(store, one, force=True)
        record_window(store, next(forced)[0])
        record_window(store, claim_window(store, window(0), worker=other))
        rest = []
        for claim, _ in forced:
            record_window(store, claim)
            rest.append(number_of(claim))
        assert rest == [1, 2]


def test_a_lost_connection_stops_no_working(served: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(self: Store) -> Store:
        raise StoreError("gone")

    monkeypatch.setattr(Store, "another", unreachable)
    with new_worker(served) as worker:
        claim = claim_window(served, window(0), worker=worker)
        record_window(served, claim)
    assert served.rows("SELECT revision, status FROM windows_log") == [(claim.revision, "worked")]
    assert served.scalar("SELECT count() FROM claim_beats WHERE ended = 0") == 0


def test_window_that_keeps_failing_does_not_hold_up_newer_ones(store: Store) -> None:
    for number in range(3):
        arrive(store, number)
    assert new_from_ns(store, 60) is None
    work(store, 0)
    assert new_from_ns(store, 60) == window(0).end_ns
    for _ in range(MAX_ATTEMPTS - 1):
        work(store, 1, error="odd")
    assert new_from_ns(store, 60) == window(0).end_ns
    work(store, 1, error="odd")
    assert new_from_ns(store, 60) == window(1).end_ns
    work(store, 2)
    # Mended, it is worked again, and all that rests on it.
    assert due_windows(store, 60) == [window(1), window(2)]
    assert new_from_ns(store, 30) is None
