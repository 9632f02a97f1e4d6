"""What `prism-ch retention` prints and refuses, and what `prism-ch analyse` says of windows that it leaves."""

import re
from pathlib import Path

import pytest

from prism_ch.cli import main
from prism_ch.store.client import Store
from prism_ch.store.retention import apply_retention, read_retention
from tests.records import record, write_parquet


@pytest.fixture
def url(store: Store, store_url: str) -> str:
    """URL of a database whose retention is the default."""
    apply_retention(store)
    return store_url


def test_it_lists_the_classes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retention", "--url", url]) == 0
    header, *lines = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", header) == ["class", "kept for", "rows", "size", "oldest"]
    assert [line.split()[0] for line in lines][:3] == ["raw", "rollup_1s", "rollup_1m"]
    assert re.split(r"\s{2,}", lines[0]) == ["raw", "30 days", "0", "0 B", "default"]


def test_it_sets_several_at_once(store: Store, url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["retention", "--set", "raw=2w", "--set", "results=5y", "--set", "ledger=6y", "--url", url]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^raw +14 days .* set$", printed, re.MULTILINE)
    assert re.search(r"^results +1,825 days .* set$", printed, re.MULTILINE)
    assert {each.name: each.kept_days for each in read_retention(store)}["ledger"] == 2190


@pytest.mark.parametrize(
    "orders, said",
    [
        (["raw"], "--set takes CLASS=TIME, for example raw=30d, not raw"),
        (["raw=1d", "raw=2d"], "--set names raw twice"),
        (["raw=soon"], "'soon' is no time to keep rows for"),
        (["cooked=1d"], "there is no class cooked of tables"),
        (["results=9y"], "results can't be kept for 3285 days when ledger, which it needs, is kept for 1095"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(
    url: str, capsys: pytest.CaptureFixture[str], orders: list[str], said: str
) -> None:
    assert main(["retention", *(word for order in orders for word in ("--set", order)), "--url", url]) == 2
    assert capsys.readouterr().err.startswith(f"prism-ch: {said}")


def test_analyse_says_what_it_leaves(
    store: Store, url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = str(write_parquet(tmp_path / "flows.parquet", [record()]))
    assert main(["ingest", flows, "--url", url]) == 0
    store.command(
        "ALTER TABLE arrivals_log UPDATE first_written_at = now() - INTERVAL 40 DAY WHERE 1 SETTINGS mutations_sync = 1"
    )
    store.command(
        "INSERT INTO retention_log (class, kept_days, changed_at) VALUES ('raw', 30, now64(3) - INTERVAL 90 DAY)"
    )
    capsys.readouterr()
    assert main(["analyse", "--url", url]) == 0
    said, rest = capsys.readouterr().out.splitlines()
    assert said == (
        "left 1 window as they are, the last from 2025-10-09 08:53:00: raw flows they rest on may be gone"
        " (see windows_left and prism-ch retention)"
    )
    assert rest == "nothing to work"
    assert store.rows("SELECT flows, late_flows FROM windows_left") == [(0, 1)]
