"""Headless Chromium walks through the pages as a person would: by links, by keyboard, back and again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench import example_data
from prism_ch.report.ask import AskStore
from prism_ch.report.document import Subject, write_report
from prism_ch.store.client import Store, connect
from prism_ch.store.migrate import migrate
from tests.hostile_job import fill_hostile
from tests.incidents import of_job
from tests.pages import HOSTILE
from tests.serving import PASSWORD, endpoint

MANY = 10_000


@pytest.fixture(scope="module")
def javascript(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder where Node finds playwright-core and axe-core; they drive the Chromium that is installed."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None or shutil.which("chromium") is None:
        pytest.skip("Node.js, npm or Chromium is not installed")
    folder = tmp_path_factory.mktemp("browser")
    command = [npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "playwright-core@1", "axe-core@4"]
    installed = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    if installed.returncode:
        pytest.skip(f"npm can't install playwright-core: {installed.stderr.strip().splitlines()[-1:]}")
    return folder


def _fill(store: Store) -> None:
    migrate(store)
    example_data.fill(store, 16, 1000)
    fill_hostile(store, HOSTILE)
    of_job(store, "job-alpha", "alpha")
    store.command(
        "INSERT INTO jobs_log (job_id, revision, tenant, status, endpoints, steps, step_s_median, first_seen,"
        " last_seen) SELECT concat('many-', toString(number)), 1, 'many', 'running', 8, 10, 2, now() - 600, now()"
        " FROM numbers({many:UInt32})",
        {"many": MANY},
    )
    store.command(
        "INSERT INTO revisions (job_id, revision, cuts) SELECT concat('many-', toString(number)), 1, 0"
        " FROM numbers({many:UInt32})",
        {"many": MANY},
    )


@pytest.fixture(scope="module")
def found(engine_folder: Path, javascript: Path) -> dict[str, Any]:
    """What came of the walk."""
    script = javascript / "walk.mjs"
    script.write_bytes((Path(__file__).parent / "browser.mjs").read_bytes())
    report = javascript / "report.html"
    with connect(f"chdb://{engine_folder}?database=browsed") as store:
        _fill(store)
        report.write_text(write_report(AskStore(store), Subject(job_id="job-one")), encoding="utf-8")
        with endpoint(store, engine_folder) as served:
            environment = os.environ | {
                "BASE": f"http://127.0.0.1:{served.port}", "PASSWORD": PASSWORD, "REPORT": str(report),
                "CHROMIUM": str(shutil.which("chromium")), "NAMES": json.dumps(HOSTILE),
            }  # fmt: skip
            done = subprocess.run(
                ["node", str(script)], capture_output=True, text=True, timeout=300, env=environment, check=False
            )
        store.command("DROP DATABASE browsed SYNC", use_database=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_nothing_comes_from_elsewhere_and_nothing_runs(found: dict[str, Any]) -> None:
    assert (found["outside"], found["dialogs"], found["refusals"]) == ([], 0, [])


def test_links_lead_there_and_back(found: dict[str, Any]) -> None:
    walk = found["walk"]
    assert [path for path, _ in walk["seen"]] == ["/", "/job", "/step", "/"]
    assert [says for _, says in walk["seen"]] == [
        "Jobs and incidents", "Job job-one", "Step 999 of job-one", "Jobs and incidents",
    ]  # fmt: skip
    assert walk["zoomed"] == walk["reloaded"] == ["3.5", "10.5"]
    assert walk["whole"] == walk["back"] == "14.0"


def test_the_keyboard_is_enough(found: dict[str, Any]) -> None:
    keyboard = found["keyboard"]
    assert (keyboard["first"], keyboard["skipped"]) == ("Skip to the content", "#main")
    assert keyboard["jobs"] == 1
    assert keyboard["answer"] == keyboard["again"] == "42"
    assert keyboard["kept"] == 1
    assert keyboard["csv"] == '"job_id"\n"job-one"\n'


def test_hostile_names_do_nothing_in_a_browser(found: dict[str, Any]) -> None:
    for place, (name, seen) in enumerate(zip(HOSTILE, _by(found["hostile"], 6), strict=True)):
        assert seen[0][1:] == [1, 0], name
        assert [each[:3] for each in seen[1:5]] == [[200, 1, 0]] * 4, name
        assert seen[5] == ["wide", True], place


def test_roles_and_many_jobs(found: dict[str, Any]) -> None:
    roles = found["roles"]
    assert (roles["own"], roles["others"]) == (1, 404)
    assert "ERR_INVALID_AUTH_CREDENTIALS" in roles["locked"]
    assert "51 to 100 of 10,000" in " ".join(roles["turned"].split())
    assert roles["seconds"] < 5


def test_no_other_site_uses_the_password(found: dict[str, Any]) -> None:
    assert found["crossSite"] == [403, 403]


def test_nothing_keeps_people_out(found: dict[str, Any]) -> None:
    assert [each for each in found["axe"] if each[0] in {"serious", "critical"}] == []
    assert [each for each in found["axe"] if each[0] == "moderate"] == []


def test_the_report_opens_without_script_and_prints(found: dict[str, Any]) -> None:
    assert found["report"]["heading"].endswith("were lost")
    assert found["report"]["pictures"] >= 5
    assert found["report"]["pdf"] > 10_000


def _by(items: list[Any], size: int) -> list[list[Any]]:
    return [items[place : place + size] for place in range(0, len(items), size)]
