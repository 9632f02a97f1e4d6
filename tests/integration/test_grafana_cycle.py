"""The whole cycle of provisioning passes on the stand-in, leaves nothing behind, and fails where something is wrong."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from prism_ch.grafana.client import Grafana
from tests.grafana.forms import USER
from tests.grafana.server import PASSWORD, TOKEN, FakeGrafana, fake_grafana
from tests.sweeps import swept
from tools import grafana_cycle
from tools.grafana_cycle import STEPS, Cycle, CycleError, run, started


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    with fake_grafana() as fake:
        yield fake


@pytest.fixture
def cycle(grafana: FakeGrafana, tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch) -> Cycle:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return started(grafana.url, tmp_path, USER, PASSWORD, store_url)


def somebodys(grafana: FakeGrafana) -> None:
    """Fill the user's own organisation with things named like ours."""
    org = grafana.orgs[1]
    org.post_folders({"uid": "prism", "title": "prism"})
    for uid in ("prism-fleet", "prism-gone"):
        org.post_dashboard({"dashboard": {"uid": uid, "title": "Mine"}, "folderUid": "prism"})
    org.post_datasources({"uid": "prism", "name": "prism", "type": "prometheus", "access": "proxy"})
    grafana.make_organisation("prism tenant-a")


def test_whole_cycle_passes_and_leaves_nothing_behind(
    grafana: FakeGrafana, cycle: Cycle, monkeypatch: pytest.MonkeyPatch
) -> None:
    somebodys(grafana)
    monkeypatch.setenv("PRISM_CH_GRAFANA_TOKEN", TOKEN)
    before, calls = grafana.holds(), len(grafana.calls)
    done: list[str] = []
    run(cycle, done.append)
    assert len(done) == len(STEPS) + 1
    assert grafana.holds() == before
    ours = {call.org for call in grafana.calls[calls:] if call.method != "GET" and not call.path.startswith("/orgs")}
    assert ours <= {"3", "4", "5", "6"}
    assert grafana.server.tokens == {TOKEN: 1}
    assert grafana.server.log == []


def test_newer_grafana_without_database_passes_too(grafana: FakeGrafana, cycle: Cycle) -> None:
    grafana.server.lists_versions_bare = False
    grafana.server.datasource_answers = False
    done: list[str] = []
    run(cycle, done.append)
    assert done[-1] == "Other organisations hold what they held."


def test_organisation_with_our_name_is_not_touched(grafana: FakeGrafana, cycle: Cycle) -> None:
    grafana.make_organisation(f"{cycle.name} tenant-a")
    before = grafana.holds()
    with pytest.raises(CycleError, match="which are not ours to change"):
        run(cycle, lambda _: None)
    assert grafana.holds() == before
    assert grafana.writes == []


def pages_from_1(_: FakeGrafana, patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Grafana, "organisation_ids", lambda _: {})


def edits_overwritten(_: FakeGrafana, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("prism_ch.grafana.provision._MESSAGE", re.compile("()"))


def others_pruned(_: FakeGrafana, patch: pytest.MonkeyPatch) -> None:
    patch.setattr("prism_ch.grafana.provision.UID_PREFIX", "")


@pytest.mark.parametrize(
    "fault",
    [pages_from_1, *swept(edits_overwritten, others_pruned)],
)
def test_cycle_fails_and_cleans_up_where_something_is_wrong(
    grafana: FakeGrafana, cycle: Cycle, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Any]
) -> None:
    fault(grafana, monkeypatch)
    before = grafana.holds()
    with pytest.raises(CycleError):
        run(cycle, lambda _: None)
    assert grafana.holds() == before


def test_command_without_grafana_says_what_it_needs(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["grafana_cycle"])
    assert grafana_cycle.main() == 2
    assert "make grafana GRAFANA=" in capsys.readouterr().err
