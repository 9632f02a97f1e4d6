"""Damage to files of the database: `doctor` names it, its own words mend it, and the results are as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.damage import DAMAGE, FLOWS, TOPOLOGY, follow_the_doctor, in_process, results
from tests.e2e.commands import prism_ch_process


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database of a recorded run, once."""
    folder = tmp_path_factory.mktemp("whole") / "db"
    assert prism_ch_process("run", FLOWS, "--topology", TOPOLOGY, folder=folder).status == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("kind", DAMAGE)
def test_doctor_names_damage_and_its_words_mend_it(whole: Path, tmp_path: Path, kind: str) -> None:
    folder = shutil.copytree(whole, tmp_path / "db", symlinks=True)
    DAMAGE[kind](folder)
    first, last, found = in_process(follow_the_doctor, f"chdb://{folder}")
    assert first, "the damage is not named"
    assert last == []
    assert found == in_process(results, f"chdb://{whole}")
