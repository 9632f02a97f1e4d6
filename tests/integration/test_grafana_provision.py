"""Provisioning brings a Grafana to this version, writes nothing twice, overwrites nobody and shows no secret."""

import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from prism_ch.cli import main
from prism_ch.cli.grafana import _ask_service
from prism_ch.cli.session import HeldElsewhere
from prism_ch.daemon.control import Request, Streams, controlled
from prism_ch.errors import GrafanaError, StoreLockedError
from prism_ch.grafana import client, organisations
from prism_ch.grafana.alerts import ALERT_FOLDER, ALERTS, JOB_GROUP
from prism_ch.store.client import Store
from prism_ch.store.topology import EndpointRow, write_topology
from prism_ch.store.url import EmbeddedLocation
from tests.grafana.forms import USER
from tests.grafana.organisation import Org
from tests.grafana.server import PASSWORD, TOKEN, FakeGrafana, fake_grafana
from tests.grafana.templates import EXTERNAL_URL
from tests.grafana.templates import expand as fill_in

TENANTS = ("a/b ", "tenant-é")
PASSWORDS = {"reader": "r3ader-pw", "one": "t3nant-one-pw", "two": "t3nant-two-pw"}
HASH = "scrypt:16384:8:1:AAAAAAAAAAAAAAAAAAAAAA==:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
SHIPPED = organisations.shipped_dashboards
SECRETS = (PASSWORD, TOKEN, *PASSWORDS.values())


def dashboards() -> dict[str, Mapping[str, Any]]:
    """Return small dashboards with the variables that the alert rules' links set."""
    runbook = [{"id": number, "title": alert.title} for number, alert in enumerate(ALERTS, start=1)]
    made: dict[str, dict[str, Any]] = {
        "prism-fleet": {"panels": [], "tags": ["prism"]},
        "prism-runbook": {"panels": runbook, "tags": ["prism", "tenants"]},
        "prism-tenant": {"panels": [], "tags": ["prism", "tenants"]},
    }
    for alert in ALERTS:
        tags = ["prism", "tenants"] if alert.is_for_tenants else ["prism"]
        for page in alert.pages:
            variables = [{"name": name} for name in page.variables]
            made[page.dashboard] = {"panels": [], "tags": tags, "templating": {"list": variables}}
    return {uid: {"uid": uid, "title": uid, **each} for uid, each in sorted(made.items())}


@pytest.fixture
def grafana() -> Iterator[FakeGrafana]:
    with fake_grafana() as fake:
        yield fake


@pytest.fixture(autouse=True)
def _settings(store: Store, store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        EndpointRow(f"10.0.0.{n}", None, None, f"s{n}", 0, "0", "leaf", "", tenant)
        for n, tenant in enumerate([*TENANTS, ""])
    ]
    write_topology(store, rows, "test")
    users = "".join(
        f'[serve.users.{name}]\npassword = "{HASH}"\nrole = "{role}"\n'
        + (f"tenant = {json.dumps(tenant, ensure_ascii=False)}\n" if tenant else "")
        for name, role, tenant in (
            ("reader", "reader", ""),
            ("one", "tenant", TENANTS[0]),
            ("two", "tenant", TENANTS[1]),
        )
    )
    (tmp_path / "prism.toml").write_text(users, encoding="utf-8")
    (tmp_path / "passwords.toml").write_text("".join(f'{user} = "{word}"\n' for user, word in PASSWORDS.items()))
    monkeypatch.setenv("PRISM_CH_URL", store_url)
    monkeypatch.setenv("PRISM_CH_CONFIG", str(tmp_path / "prism.toml"))
    monkeypatch.setenv("PRISM_CH_GRAFANA_USER", USER)
    monkeypatch.setenv("PRISM_CH_GRAFANA_PASSWORD", PASSWORD)
    monkeypatch.setenv("PRISM_CH_GRAFANA_PASSWORDS", str(tmp_path / "passwords.toml"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(organisations, "shipped_dashboards", dashboards)


@pytest.fixture
def run(grafana: FakeGrafana, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Iterator["Run"]:
    """Run commands against the fake; at the end nothing that they printed or logged holds a secret."""
    monkeypatch.setenv("PRISM_CH_GRAFANA_URL", grafana.url)
    log = io.StringIO()
    handler = logging.StreamHandler(log)
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.DEBUG)
    running = Run(capfd)
    yield running
    logging.getLogger().removeHandler(handler)
    logging.getLogger().setLevel(logging.WARNING)
    for secret in SECRETS:
        assert secret not in running.printed + log.getvalue()


class Run:
    """Runs `prism-ch grafana`; `printed` is all their output so far."""

    def __init__(self, capfd: pytest.CaptureFixture[str]) -> None:
        self._capfd = capfd
        self.printed = ""
        self.status = 0

    def __call__(self, *arguments: str) -> list[str]:
        """Return what one run printed, line by line: its output, then its errors."""
        self.status = main(["grafana", *arguments])
        out, err = self._capfd.readouterr()
        self.printed += out + err
        return (out + err).splitlines()


def test_new_grafana_filled_and_second_run_writes_nothing(grafana: FakeGrafana, run: Run) -> None:
    would = run("diff")
    assert run("apply", "--dry-run") == would
    assert grafana.writes == []
    did = run("apply")
    assert run.status == 0
    assert would[:-1] == did[:-1], "diff says what apply does"
    assert did[-1] == f"{len(grafana.writes)} writes"
    assert all(call.org in {"2", "3", "4"} for call in grafana.calls if call.path != "/orgs")
    grafana.calls.clear()
    assert run("apply") == ["0 writes"]
    assert grafana.writes == []
    assert run("diff") == ["0 differences, nothing written"]


def test_shipped_dashboards_accepted(grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(organisations, "shipped_dashboards", SHIPPED)
    run("apply")
    assert run.status == 0
    assert grafana.org("prism").dashboards.keys() == SHIPPED().keys()
    shipped = {"prism-tenant", "prism-job", "prism-incident", "prism-host", "prism-runbook"}
    assert shipped == grafana.org(f"prism {TENANTS[0]}").dashboards.keys()
    assert run("apply") == ["0 writes"]
    assert run("prune") == ["0 deletions"]


def test_each_organisation_has_its_own_user_and_dashboards(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    assert [org.name for org in grafana.orgs.values()] == ["Main Org.", "prism", *(f"prism {name}" for name in TENANTS)]
    for name, user in {"prism": "reader", f"prism {TENANTS[0]}": "one", f"prism {TENANTS[1]}": "two"}.items():
        org = grafana.org(name)
        assert org.datasources["prism"]["jsonData"]["username"] == user
        assert org.secrets == {"prism": {"password": PASSWORDS[user]}}
        assert org.permissions["prism"] == [
            {"userId": 1, "permission": 4},
            {"role": "Editor", "permission": 2},
            {"role": "Viewer", "permission": 1},
            {"teamId": org.teams[0]["id"], "permission": 1},
        ]
        is_operators = name == "prism"
        assert org.dashboards.keys() == {
            uid for uid, each in dashboards().items() if is_operators or "tenants" in each["tags"]
        }
        assert org.rules.keys() == {alert.uid for alert in ALERTS if is_operators or alert.is_for_tenants}
    operators = grafana.org("prism")
    assert operators.dashboards.keys() > grafana.org(f"prism {TENANTS[0]}").dashboards.keys()
    assert "prism-pipeline-behind" in operators.rules
    assert grafana.org("Main Org.").datasources == {}


def test_rules_link_to_dashboards_of_their_own_organisation(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    for org in list(grafana.orgs.values())[1:]:
        for rule in org.rules.values():
            assert rule["data"][0]["datasourceUid"] in org.datasources
            url = fill_in(rule["annotations"]["dashboard_url"], {}, {})
            found = re.fullmatch(rf"{EXTERNAL_URL}d/([\w-]+)\?orgId=(\d+)", url)
            assert found
            assert found[1] in org.dashboards
            assert int(found[2]) == org.number


def test_contact_points_policies_and_others_resources_kept(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    org = grafana.org("prism")
    theirs = {**org.rules["prism-incident"], "uid": "theirs", "title": "Theirs", "provenance": ""}
    org.rules["theirs"] = theirs
    org.rules["prism-incident"] |= {"isPaused": True, "for": "5m"}
    org.permissions["prism"].append({"userId": 7, "permission": 2})
    of_team = {"teamId": org.teams[0]["id"], "permission": 1}
    org.permissions["prism"].remove(of_team)
    org.datasources["prism"]["jsonData"] |= {"logs": {"defaultTable": "otel"}, "port": 1}
    before = {name: each["policies"] for name, each in grafana.holds().items()}
    run("apply")
    assert org.rules["theirs"] == theirs
    assert org.rules["prism-incident"]["isPaused"]
    assert org.rules["prism-incident"]["for"] == "0s"
    assert {"userId": 7, "permission": 2} in org.permissions["prism"]
    assert of_team in org.permissions["prism"]
    assert org.datasources["prism"]["jsonData"]["logs"] == {"defaultTable": "otel"}
    assert org.datasources["prism"]["jsonData"]["port"] == 9478
    assert {name: each["policies"] for name, each in grafana.holds().items()} == before
    assert not [call for call in grafana.calls if is_about_notifications(call.path)]


def is_about_notifications(path: str) -> bool:
    return any(each in path for each in ("policies", "contact-points", "mute-timings", "templates"))


def test_permission_of_unknown_kind_not_lost(grafana: FakeGrafana, run: Run) -> None:
    run("apply", "--operators")
    permissions = grafana.org("prism").permissions["prism"]
    permissions[:] = [{"serviceAccount": "sa", "permission": 2}]
    assert "a permission of neither team nor user nor role" in run("apply", "--operators")[0]
    assert permissions == [{"serviceAccount": "sa", "permission": 2}]


def test_apply_interrupted_after_any_write_can_be_repeated(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("apply")
    total, whole = len(grafana.writes), grafana.holds()
    for writes in range(0, total, 3):
        with fake_grafana() as other:
            monkeypatch.setenv("PRISM_CH_GRAFANA_URL", other.url)
            other.writes_left = writes
            run("apply")
            assert run.status == 1
            assert len(other.writes) == writes
            other.writes_left = None
            run("apply")
            assert run.status == 0
            assert len(other.writes) == total
            assert other.holds() == whole


def test_dashboard_edited_by_hand_kept_unless_forced(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    grafana.edit_dashboard("prism", "prism-tenant", title="Mine")
    grafana.calls.clear()
    expected = "! prism: dashboard prism-tenant: edited by hand (title); --force overwrites it"
    assert run("apply") == [expected, "0 writes"]
    assert grafana.writes == []
    assert grafana.org("prism").dashboards["prism-tenant"][-1]["dashboard"]["title"] == "Mine"
    assert run("apply", "--force") == ["~ prism: dashboard prism-tenant: title", "1 write"]
    assert grafana.org("prism").dashboards["prism-tenant"][-1]["dashboard"]["title"] == "prism-tenant"
    assert run("apply") == ["0 writes"]


def test_edit_reverted_by_hand_is_no_difference(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    grafana.edit_dashboard("prism", "prism-tenant", title="Mine")
    grafana.edit_dashboard("prism", "prism-tenant", title="prism-tenant")
    assert run("apply") == ["0 writes"]


def test_newer_version_updates_dashboards_of_an_older_one(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("apply")
    for text in ("second", "third"):
        newer = {uid: {**each, "description": text} for uid, each in dashboards().items()}
        monkeypatch.setattr(organisations, "shipped_dashboards", lambda newer=newer: newer)
        lines = run("apply", "--operators")
        assert lines[-1] == f"{len(newer)} writes"
        assert all(line.startswith("~ prism: dashboard ") for line in lines[:-1])
        assert run("apply", "--operators") == ["0 writes"]


def test_grafana_that_rewrites_dashboards_written_once_more(grafana: FakeGrafana, run: Run) -> None:
    grafana.server.rewrites = True
    run("apply")
    run("apply")
    assert run("apply") == ["0 writes"]
    grafana.edit_dashboard("prism", "prism-tenant", title="Mine")
    assert "edited by hand" in run("apply")[0]


def test_moved_dashboard_moved_back(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    grafana.org("prism").dashboards["prism-tenant"][-1]["folder"] = "elsewhere"
    assert run("apply") == ["~ prism: dashboard prism-tenant: folder", "1 write"]
    assert run("apply") == ["0 writes"]


def test_resources_from_provisioning_files_kept(grafana: FakeGrafana, run: Run) -> None:
    run("apply", "--operators")
    org = grafana.org("prism")
    org.from_files.add("prism-tenant")
    grafana.edit_dashboard("prism", "prism-tenant", title="From a file")
    org.datasources["prism"] |= {"readOnly": True, "name": "From a file"}
    org.rules["prism-incident"] |= {"provenance": "file", "title": "From a file"}
    lines = run("apply", "--operators", "--force")
    kept = "comes from a provisioning file; change it there"
    assert lines == [
        f"! prism: data source prism: {kept}",
        f"! prism: dashboard prism-tenant: {kept}",
        f"! prism: alert rules prism jobs: {kept}",
        "0 writes",
    ]


def test_passwords_written_again_if_wanted_or_lost(grafana: FakeGrafana, run: Run) -> None:
    run("apply", "--operators")
    secrets = grafana.org("prism").secrets["prism"]
    secrets["password"] = "old"  # noqa: S105 - of nobody
    assert run("apply", "--operators") == ["0 writes"]
    assert run("apply", "--operators", "--passwords") == ["~ prism: data source prism: password", "1 write"]
    assert secrets["password"] == PASSWORDS["reader"]
    secrets.clear()
    assert run("apply", "--operators") == ["~ prism: data source prism: password", "1 write"]


def test_token_serves_operators_in_its_own_organisation(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRISM_CH_GRAFANA_TOKEN", TOKEN)
    run("apply")
    assert run.status == 0
    assert [org.name for org in grafana.orgs.values()] == ["Main Org."]
    assert grafana.orgs[1].datasources["prism"]["jsonData"]["username"] == "reader"
    assert {call.org for call in grafana.calls} == {None}
    assert all("?orgId=1{{" in rule["annotations"]["dashboard_url"] for rule in grafana.orgs[1].rules.values())
    assert run("apply") == ["0 writes"]
    assert run("apply", "--tenant", TENANTS[0])[-1].startswith("prism-ch: a token knows one organisation only")
    assert run.status == 2


def test_one_tenant_or_operators_alone_provisioned(grafana: FakeGrafana, run: Run) -> None:
    run("apply", "--tenant", TENANTS[1])
    assert [org.name for org in grafana.orgs.values()] == ["Main Org.", f"prism {TENANTS[1]}"]
    run("apply", "--operators")
    assert [org.name for org in grafana.orgs.values()][2:] == ["prism"]
    assert "the topology knows no tenant tenant-x" in run("apply", "--tenant", "tenant-x")[-1]
    assert run.status == 2


def test_other_organisations_done_if_one_refuses(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    grafana.org("prism").members.clear()
    grafana.org(f"prism {TENANTS[1]}").remove_teams()
    lines = run("apply")
    assert run.status == 1
    assert f"+ prism {TENANTS[1]}: team {TENANTS[1]}" in lines
    assert any("prism: Grafana at" in line and "refused (403)" in line and "role Admin" in line for line in lines)
    assert lines[-1] == "prism-ch: 1 organisation of 3 not done: prism"


def test_nothing_written_where_organisation_not_found(grafana: FakeGrafana, run: Run) -> None:
    grafana.hidden_orgs = {"prism"}
    lines = run("apply", "--operators")
    assert run.status == 1
    assert any("the organisation does not exist, so nothing was written" in line for line in lines)
    assert {call.path for call in grafana.writes} == {"/orgs"}
    assert grafana.org("Main Org.").teams == []


def test_organisation_that_the_user_chose_last_left_alone(grafana: FakeGrafana, run: Run) -> None:
    grafana.users_org = grafana.make_organisation("somebody's")
    before = grafana.org("somebody's").holds()
    run("apply")
    run("prune")
    assert run.status == 0
    assert grafana.org("somebody's").holds() == before
    assert all(call.org is not None for call in grafana.calls if not call.path.startswith("/orgs"))


def test_organisations_found_on_every_page(grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PAGE", 2)
    run("apply")
    assert run.status == 0
    assert run("apply") == ["0 writes"]


def test_other_organisations_done_if_one_has_no_password(grafana: FakeGrafana, run: Run, tmp_path: Path) -> None:
    (tmp_path / "passwords.toml").write_text(f'reader = "{PASSWORDS["reader"]}"\ntwo = "{PASSWORDS["two"]}"\n')
    lines = run("apply")
    assert run.status == 1
    assert f"prism {TENANTS[0]}: no password for the database's user one" in "\n".join(lines)
    assert lines[-1] == f"prism-ch: 1 organisation of 3 not done: prism {TENANTS[0]}".strip()
    assert [org.name for org in grafana.orgs.values()] == ["Main Org.", "prism", f"prism {TENANTS[1]}"]


def test_organisations_of_ours_open_with_their_own_page(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    for org in list(grafana.orgs.values())[1:]:
        assert org.preferences["homeDashboardUID"] == ("prism-fleet" if org.name == "prism" else "prism-tenant")
        assert org.datasources["prism"]["isDefault"]
    org = grafana.org("prism")
    org.preferences |= {"homeDashboardUID": "prism-tenant", "theme": "dark"}
    assert run("apply") == ["0 writes"]
    org.preferences["homeDashboardUID"] = ""
    assert run("apply") == ["~ prism: home dashboard: prism-fleet", "1 write"]
    assert org.preferences["theme"] == "dark"


def test_defaults_of_others_organisation_left_alone(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = grafana.make_organisation("prism")
    theirs = {"uid": "theirs", "name": "theirs", "type": "prometheus", "access": "proxy", "isDefault": True}
    grafana.orgs[number].post_datasources(theirs)
    run("apply", "--operators")
    assert grafana.org("prism").preferences == {}
    assert [uid for uid, each in grafana.org("prism").datasources.items() if each["isDefault"]] == ["theirs"]
    monkeypatch.setenv("PRISM_CH_GRAFANA_TOKEN", TOKEN)
    run("apply")
    assert grafana.orgs[1].preferences == {}
    assert not grafana.orgs[1].datasources["prism"]["isDefault"]
    assert run("apply") == ["0 writes"]


def test_prune_deletes_ours_that_is_no_longer_shipped(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    more: dict[str, Mapping[str, Any]] = {
        uid: {"uid": uid, "title": uid, "tags": [], "panels": []} for uid in ("prism-old", "prism-edited")
    }
    monkeypatch.setattr(organisations, "shipped_dashboards", lambda: dashboards() | more)
    run("apply")
    monkeypatch.setattr(organisations, "shipped_dashboards", dashboards)
    org = grafana.org("prism")
    grafana.edit_dashboard("prism", "prism-edited", title="Mine")
    theirs = {"id": 99, "uid": "theirs", "title": "Theirs", "version": 1}
    org.dashboards["theirs"] = [{"dashboard": theirs, "folder": "prism", "message": ""}]
    org.rules["prism-old"] = {**org.rules["prism-incident"], "uid": "prism-old"}
    org.rules["prism-elsewhere"] = {**org.rules["prism-incident"], "uid": "prism-elsewhere", "folderUID": "theirs"}
    org.rules["theirs"] = {**org.rules["prism-incident"], "uid": "theirs"}
    grafana.make_organisation("prism gone")
    grafana.calls.clear()
    expected = [
        "! prism: dashboard prism-edited: edited by hand; --force deletes it",
        "- prism: dashboard prism-old",
        "- prism: alert rule prism-old",
        "! prism gone: organisation of no tenant of the topology; delete it in Grafana if unused",
    ]
    assert run("prune", "--dry-run") == [*expected, "2 deletions, nothing written"]
    assert grafana.writes == []
    assert run("prune") == [*expected, "2 deletions"]
    assert {"theirs", "prism-edited"} <= org.dashboards.keys()
    assert "prism-old" not in org.dashboards
    assert {"theirs", "prism-elsewhere"} <= org.rules.keys()
    assert "prism-old" not in org.rules
    assert run("prune", "--force")[0] == "- prism: dashboard prism-edited"
    assert run("prune", "--operators") == ["0 deletions"]
    assert run("apply") == ["0 writes"]


def test_dashboard_saved_meanwhile_not_overwritten(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("apply")
    newer = {uid: {**each, "description": "newer"} for uid, each in dashboards().items()}
    monkeypatch.setattr(organisations, "shipped_dashboards", lambda: newer)
    save = Org.post_dashboard

    def saved_meanwhile(org: Org, body: Any) -> Any:
        if body["dashboard"]["uid"] == "prism-tenant" and org.name == "prism":
            grafana.edit_dashboard("prism", "prism-tenant", title="Mine")
        return save(org, body)

    monkeypatch.setattr(Org, "post_dashboard", saved_meanwhile)
    lines = run("apply", "--operators")
    assert run.status == 1
    assert any("refused (412)" in line and "someone else has changed it meanwhile" in line for line in lines)
    assert grafana.org("prism").dashboards["prism-tenant"][-1]["dashboard"]["title"] == "Mine"


@pytest.mark.parametrize(
    "name, value, complaint",
    [
        ("PRISM_CH_GRAFANA_PASSWORD", "wrong", "does not let user admin in"),
        ("PRISM_CH_GRAFANA_TOKEN", "wrong", "does not let the token in"),
        ("PRISM_CH_GRAFANA_URL", "http://127.0.0.1:1", "can't be reached"),
        ("PRISM_CH_GRAFANA_URL", "http://u:gr4fana-s3cret@h", "grafana.url"),
        ("PRISM_CH_GRAFANA_PASSWORD", "", "set PRISM_CH_GRAFANA_PASSWORD"),
        ("PRISM_CH_GRAFANA_PASSWORDS", "", "no password for the database's user reader"),
    ],
)
def test_wrong_setting_reported_in_one_line(
    run: Run, monkeypatch: pytest.MonkeyPatch, name: str, value: str, complaint: str
) -> None:
    monkeypatch.setenv(name, value)
    lines = run("apply", "--operators")
    assert run.status != 0
    assert complaint in lines[0]
    assert len(lines) <= 2


def test_error_that_repeats_the_request_shows_no_secret(
    grafana: FakeGrafana, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grafana.server, "answers_datasources_with", 400)
    lines = run("apply", "--operators", "--debug")
    assert run.status == 1
    assert any("refused (400)" in line and "***" in line for line in lines)


def test_data_source_that_does_not_answer_reported(grafana: FakeGrafana, run: Run) -> None:
    grafana.server.datasource_answers = False
    lines = run("apply", "--operators")
    assert run.status == 0
    assert any("the data source does not answer yet" in line and "***" in line for line in lines)


def test_redirect_not_followed(run: Run, grafana: FakeGrafana, monkeypatch: pytest.MonkeyPatch) -> None:
    grafana.redirects = True
    assert "redirects elsewhere" in run("apply", "--operators")[0]
    assert run.status == 1
    assert grafana.writes == []


def test_server_that_is_no_grafana_reported(run: Run, grafana: FakeGrafana, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRISM_CH_GRAFANA_URL", grafana.url.removesuffix("/grafana") + "/not-json")
    assert "does not answer as a Grafana does" in run("apply", "--operators")[0]


def test_service_that_holds_the_database_asked_for_sql(tmp_path: Path) -> None:
    ask = partial(_ask_service, HeldElsewhere(EmbeddedLocation(tmp_path, "prism"), StoreLockedError("in use")))

    def answer(request: Request, streams: Streams) -> int:
        streams.stdout.write(json.dumps(request.arguments))
        return 0

    def refuse(request: Request, streams: Streams) -> int:
        streams.stderr.write("prism-ch: no such table\n")
        return 1

    with controlled(tmp_path, answer):
        assert json.loads(ask("SELECT 1", None)) == ["sql", "--format=json", "--", "SELECT 1"]
        assert json.loads(ask("SELECT 1", "-a")) == ["sql", "--format=json", "--tenant=-a", "--", "SELECT 1"]
    with controlled(tmp_path, refuse), pytest.raises(GrafanaError, match=r"^no such table$"):
        ask("SELECT 1", None)
    with controlled(tmp_path, lambda request, streams: 1), pytest.raises(GrafanaError, match="failed to answer"):
        ask("SELECT 1", None)
    with pytest.raises(StoreLockedError):
        ask("SELECT 1", None)


def test_tenants_rule_group_is_that_of_operators(grafana: FakeGrafana, run: Run) -> None:
    run("apply")
    title, interval_s = JOB_GROUP
    for org in list(grafana.orgs.values())[1:]:
        assert org.intervals[ALERT_FOLDER[0], title] == interval_s
