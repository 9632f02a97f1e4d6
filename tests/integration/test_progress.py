"""Progress of a running statement, and its end once nobody waits for it."""

import pytest

from prism_ch.errors import StoreError
from prism_ch.query.answer import answer, track_progress
from prism_ch.store.client import Store

ENDLESS = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


def test_statement_reports_progress_and_ends_when_abandoned(store: Store) -> None:
    seen: list[int] = []
    with (
        track_progress(store, lambda rows, total: seen.append(rows), lambda: bool(seen) and seen[-1] > 0) as mark,
        pytest.raises(StoreError, match=r"(?i)cancelled"),
    ):
        answer(store, ENDLESS, mark=mark)
    assert seen[-1] > 0
    assert sorted(seen) == seen


def test_mark_is_empty_without_report_or_abandonment(store: Store) -> None:
    with track_progress(store, None) as mark:
        assert mark == ""
        assert answer(store, "SELECT 1", mark=mark).rows == (("1",),)


def test_mark_does_not_outlast_its_statement(store: Store) -> None:
    with track_progress(store, lambda rows, total: None) as mark:
        assert answer(store, "SELECT 1", tenant="alpha", mark=mark).rows == (("1",),)
    assert store.scalar("SELECT value FROM system.settings WHERE name = 'log_comment'") == ""
