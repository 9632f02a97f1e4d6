"""Pages whose content depends on a database: the reference of tables, and the tutorial."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from prism_ch.store.client import Store
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
def test_tutorial_shows_what_its_commands_print(tmp_path: Path) -> None:
    tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    steps = re.findall(r"^```console\n\$ prism-ch (.*?)\n(.*?)^```", tutorial, re.MULTILINE | re.DOTALL)
    assert len(steps) > 3
    environment = os.environ | {"PRISM_CH_URL": f"chdb://{tmp_path / 'data'}"}

    def prism_ch(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", "prism_ch", *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    prism_ch("run", RUN / "flows.parquet", "--topology", RUN / "topology.csv")
    for command, printed in steps:
        assert prism_ch(*shlex.split(command)).rstrip("\n") == printed.rstrip("\n"), command
