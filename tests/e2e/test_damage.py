"""Damage to files of the database: `doctor` names it, its own words mend it, and the results are as before."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.damage import (
    DAMAGE,
    FLOWS,
    TOPOLOGY,
    follow,
    follow_the_doctor,
    in_own_process,
    in_process,
    results,
    wrong,
)
from tests.e2e.commands import prism_ch_process
from tests.sweeps import swept

#: Damage that is done at once, and what the doctor names each by. One table of each that are mended alike, and one kind
#: of blocks, which are made again whatever became of them: `make attack` tries the others, too, and each alone.
TRIED = (
    {"data of flows": "of flows_log", "data of results": "of steps_log"},
    *swept({"data of the ledger of windows": "of windows_log"}),
    {
        "power cut in flows": "(broken-on-start)",
        "emptied revisions": "revisions has",
        "emptied topology": "topology: none",
    },
    *swept({"detached part of flows": "of flows_log (detached)", "deleted part of results": "timeline_log"}),
    {"emptied arrivals": "arrivals of", "emptied blocks of steps": "rows of blocks"},
    *swept({"definition of the view that makes blocks": "step_blocks_mv"}),
    {"definition of flows": "flows_log.sql"},
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database of a recorded run, once."""
    folder = tmp_path_factory.mktemp("whole") / "db"
    assert prism_ch_process("run", FLOWS, "--topology", TOPOLOGY, folder=folder).status == 0
    return folder


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Callable[[Callable[[str], Any], str], Any]]:
    """What calls functions in another process than that of the session's engine."""
    with in_process() as call:
        yield call


@pytest.fixture(scope="module")
def expected(whole: Path, elsewhere: Callable[..., Any]) -> object:
    """The results in it."""
    return elsewhere(results, f"chdb://{whole}")


@pytest.mark.slow
@pytest.mark.parametrize("kinds", TRIED, ids=", ".join)
def test_doctor_names_damage_and_its_words_mend_it(
    whole: Path, elsewhere: Callable[..., Any], expected: object, tmp_path: Path, kinds: dict[str, str]
) -> None:
    folder = shutil.copytree(whole, tmp_path / "db", symlinks=True)
    for kind in kinds:
        DAMAGE[kind](folder)
    first, last, found = elsewhere(follow_the_doctor, f"chdb://{folder}")
    for kind, named in kinds.items():
        assert named in "\n".join(first), f"{kind}: the damage is not named"
    assert last == []
    assert found == expected


@pytest.mark.slow
def test_damage_is_mended_by_commands_as_typed(whole: Path, tmp_path: Path) -> None:
    url = f"chdb://{shutil.copytree(whole, tmp_path / 'db', symlinks=True)}"
    DAMAGE["emptied topology"](tmp_path / "db")
    lines = wrong(url, in_own_process)
    assert lines
    for line in lines:
        follow(line, url, in_own_process)
    assert wrong(url, in_own_process) == []
