"""Pages whose content depends on a database: the reference of tables, and the tutorial."""

import re
import shlex
from pathlib import Path

import pytest

from prism_ch.store.client import Store
from tests.e2e.commands import prism_ch
from tools import reference

ROOT = Path(__file__).parents[2]
RUN = ROOT / "tests/data/real_training/dp4_slow_rank"


def test_reference_of_tables_is_as_the_schema_gives_it(store: Store) -> None:
    assert (reference.FOLDER / "tables.md").read_text(encoding="utf-8") == reference.tables_page(store)


def test_reference_holds_every_view(store: Store) -> None:
    page = (reference.FOLDER / "tables.md").read_text(encoding="utf-8")
    listed = store.rows("SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'")
    titles = set(re.findall(r"^## (\w+)", page, re.MULTILINE))
    assert {name for (name,) in listed} <= titles
    assert not re.search(r"\| --- \|\n\n", page), "a table without columns"


@pytest.mark.slow
def test_tutorial_shows_what_its_commands_print(store: Store, store_url: str) -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    steps = re.findall(r"^```console\n\$ prism-ch (.*?)\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)
    assert len(steps) > 3
    run = ("run", RUN / "flows.parquet", "--topology", RUN / "topology.csv")
    assert prism_ch(*run, url=store_url).status == 0
    for command, printed in steps:
        assert prism_ch(*shlex.split(command), url=store_url).out.rstrip("\n") == printed.rstrip("\n"), command
