"""The schedule is data: what is wrong in it is named, and so is a task that does not exist."""

from pathlib import Path

import pytest

from prism_ch.daemon.tasks import TASKS, load_schedule
from prism_ch.errors import SettingsError

HEAD = "misfire_grace_s = 60\nretry_first_s = 2\nretry_most_s = 300\n"


def test_the_shipped_schedule_names_tasks_that_there_are() -> None:
    schedule = load_schedule()
    assert set(schedule.task) <= set(TASKS)
    assert {"land_spool", "analyse", "reanalyse"} <= set(schedule.task)
    assert all(plan.hung_after_s > plan.every_s / 60 for plan in schedule.task.values())


@pytest.mark.parametrize(
    "text, complaint",
    [
        (HEAD + "[task.brew]\nevery_s = 1\nhung_after_s = 1", "there is no task brew; there are analyse,"),
        (HEAD + "[task.analyse]\nevery_s = 0\nhung_after_s = 1", "task.analyse.every_s: Input should be greater"),
        (HEAD + "[task.analyse]\nevery_s = 1\nhung_after_s = 1\nevery = 1", "task.analyse.every: Extra inputs"),
        ("retry_first_s = 2", "misfire_grace_s: Field required"),
        ("misfire_grace_s =", "is no TOML"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "schedule.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=complaint) as raised:
        load_schedule(path)
    assert str(raised.value).startswith(f"{path}: ")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.toml: can't be read: No such file"):
        load_schedule(tmp_path / "none.toml")
