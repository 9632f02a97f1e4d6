"""A statement is looked after while it runs: how far it is, and whether anybody still waits for it."""

import pytest

from prism_ch.errors import StoreError
from prism_ch.query.answer import answer
from prism_ch.query.following import followed
from prism_ch.store.client import Store

ENDLESS = "SELECT count() FROM numbers(1000000000000) WHERE sipHash64(number) = 1"


def test_a_statement_tells_how_far_it_is_and_ends_once_nobody_waits(store: Store) -> None:
    seen: list[int] = []
    with (
        followed(store, lambda rows, total: seen.append(rows), lambda: bool(seen) and seen[-1] > 0) as mark,
        pytest.raises(StoreError, match=r"(?i)cancelled"),
    ):
        answer(store, ENDLESS, mark=mark)
    assert seen[-1] > 0
    assert sorted(seen) == seen


def test_without_anybody_to_tell_there_is_no_mark(store: Store) -> None:
    with followed(store, None) as mark:
        assert mark == ""
        assert answer(store, "SELECT 1", mark=mark).rows == (("1",),)


def test_what_a_statement_is_marked_with_ends_with_it(store: Store) -> None:
    with followed(store, lambda rows, total: None) as mark:
        assert answer(store, "SELECT 1", tenant="alpha", mark=mark).rows == (("1",),)
    assert store.scalar("SELECT value FROM system.settings WHERE name = 'log_comment'") == ""
