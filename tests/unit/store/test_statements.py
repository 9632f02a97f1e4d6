"""Scripts are split at the semicolons that end statements, and nothing in a statement changes."""

import pytest

from prism_ch.assets import asset
from prism_ch.errors import PrismError, StoreError
from prism_ch.store import statements
from prism_ch.store.statements import split_statements, statement


@pytest.mark.parametrize(
    "text, parts",
    [
        ("", ()),
        (" ;; -- nothing; here\n", ()),
        ("SELECT 1", ("SELECT 1",)),
        ("-- head; er\nSELECT 1; -- tail\nSELECT  2 ;", ("SELECT 1", "SELECT  2")),
        ("SELECT 'a;b', `c;d`, \"e;f\" /* g;h */, 'it''s;', 'it\\';';", None),
        ("SELECT {x:Array(String)}[1] -> 2, $$ a;b $$", None),
    ],
)
def test_splitting(text: str, parts: tuple[str, ...] | None) -> None:
    assert split_statements(text) == ((text.rstrip(";"),) if parts is None else parts)


def test_a_statement_comes_without_its_header() -> None:
    assert statement("health_records").startswith("SELECT reason, ")


def test_a_statement_that_is_not_there() -> None:
    with pytest.raises(PrismError, match=r"nothing\.sql is missing"):
        statement("nothing")


def test_a_query_file_holds_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statements, "split_statements", lambda _: ["SELECT 1", "SELECT 2"])
    with pytest.raises(StoreError, match="must hold one statement, not 2"):
        statement.__wrapped__("next_revision")


def test_every_query_file_says_what_it_is_for_and_returns() -> None:
    for entry in asset("sql/queries").iterdir():
        text = entry.read_text()
        missing = [word for word in ("-- Purpose:", "-- Parameters:", "-- Result:") if word not in text]
        assert (entry.name, missing) == (entry.name, [])
        assert statement(entry.name.removesuffix(".sql"))
