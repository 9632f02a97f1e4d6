"""Each organisation's data source has its own user of the database; what is missing is named."""

from pathlib import Path

import pytest

from prism_ch.errors import GrafanaError, SettingsError
from prism_ch.grafana import organisations
from prism_ch.grafana.organisations import (
    OPERATORS_ROW,
    Organisation,
    dashboards_of,
    desired_organisation,
    linked,
    panels_of,
    shipped_dashboards,
)
from prism_ch.settings import GrafanaLinksSettings, GrafanaSettings, ServeSettings, Settings, read_passwords

HASH = "scrypt:16384:8:1:AAAAAAAAAAAAAAAAAAAAAA==:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
SERVER = "clickhouses://admin:adm1n-pw@db.example:9443/prod?cluster=c"


@pytest.fixture(autouse=True)
def _no_dashboards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave dashboards and rules out: they don't depend on the settings."""
    monkeypatch.setattr(organisations, "rule_groups", lambda dashboards, number, is_tenants: [])


def made(settings: Settings, *tenants: str | None) -> list[Organisation]:
    path = settings.grafana.database.passwords
    passwords = {} if path is None else read_passwords(path)
    return [desired_organisation(settings, tenant, passwords) for tenant in tenants]


def on_server(tmp_path: Path, passwords: str, **database: object) -> Settings:
    (tmp_path / "passwords.toml").write_text(passwords, encoding="utf-8")
    database |= {"passwords": tmp_path / "passwords.toml"}
    return Settings(url=SERVER, grafana=GrafanaSettings.model_validate({"database": database}))


def test_server_asked_by_users_of_its_own(tmp_path: Path) -> None:
    settings = on_server(tmp_path, 'ops = "o"\n"prism_user_tenant a" = "t"\n', user="ops")
    operators, tenant = made(settings, None, "tenant a")
    assert (operators.name, operators.team, operators.tenant) == ("prism", "operators", None)
    assert (tenant.name, tenant.team, tenant.tenant) == ("prism tenant a", "tenant a", "tenant a")
    assert operators.datasource["jsonData"] == {
        "host": "db.example",
        "port": 9443,
        "protocol": "http",
        "secure": True,
        "username": "ops",
        "defaultDatabase": "prod",
        "dialTimeout": "10",
        "queryTimeout": "50",
    }
    assert tenant.datasource["jsonData"]["username"] == "prism_user_tenant a"
    assert tenant.password is not None
    assert tenant.password.get_secret_value() == "t"
    assert "adm1n-pw" not in repr([operators, tenant])
    assert operators.datasource["uid"] == tenant.datasource["uid"]


def test_settings_override_address_and_users(tmp_path: Path) -> None:
    database = {"host": "proxy", "port": 80, "secure": False, "users": {"a": "ann"}}
    (tenant,) = made(on_server(tmp_path, 'ann = "t"', **database), "a")
    options = tenant.datasource["jsonData"]
    assert (options["host"], options["port"], options["secure"], options["username"]) == ("proxy", 80, False, "ann")


def test_operators_need_no_user_for_service_without_users() -> None:
    (operators,) = made(Settings(url="chdb:///data"), None)
    options = operators.datasource["jsonData"]
    assert (options["host"], options["port"], options["username"]) == ("127.0.0.1", 9478, "default")
    assert operators.password is None
    with pytest.raises(
        SettingsError, match=r'add a table \[serve\.users\.NAME\] with role = "tenant" and tenant = "a"'
    ):
        made(Settings(url="chdb:///data"), "a")


def test_users_of_the_service_found_by_role_and_tenant(tmp_path: Path) -> None:
    users = {
        "boss": {"password": HASH, "role": "operator"},
        "looks": {"password": HASH, "role": "reader"},
        "ann": {"password": HASH, "role": "tenant", "tenant": "a"},
    }
    serve = ServeSettings.model_validate({"users": users, "tls_certificate": "/c", "tls_key": "/k"})
    (tmp_path / "passwords.toml").write_text('looks = "l"\nann = "t"\n')
    grafana = GrafanaSettings.model_validate({"database": {"passwords": tmp_path / "passwords.toml"}})
    operators, tenant = made(Settings(url="chdb:///data", serve=serve, grafana=grafana), None, "a")
    assert operators.datasource["jsonData"]["username"] == "looks"
    assert operators.datasource["jsonData"]["secure"]
    assert tenant.datasource["jsonData"]["username"] == "ann"


def test_missing_user_or_password_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="PRISM_CH_GRAFANA_DATABASE_USER"):
        made(Settings(url=SERVER), None)
    with pytest.raises(SettingsError, match="no password for the database's user prism_user_a"):
        made(Settings(url=SERVER), "a")
    with pytest.raises(SettingsError, match="ann: write the password as text"):
        made(on_server(tmp_path, "ann = 5", users={"a": "ann"}), "a")
    with pytest.raises(SettingsError, match="can't be read"):
        made(Settings(url=SERVER, grafana=GrafanaSettings.model_validate({"database": {"passwords": "/no"}})), "a")


@pytest.mark.parametrize("name", ["x" * 190, "a\nb", "a\x1b[2J"])
def test_name_refused_that_grafana_would_refuse(tmp_path: Path, name: str) -> None:
    with pytest.raises(SettingsError, match="change it in the topology"):
        made(on_server(tmp_path, "", users={name: "u"}), name)


@pytest.mark.parametrize("name, text", [("prism-a.json", "{"), ("prism-a.json", '{"uid": "prism-b"}')])
def test_broken_dashboard_file_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    monkeypatch.setattr(organisations, "asset", lambda _: tmp_path)
    with pytest.raises(GrafanaError, match=r"dashboards/prism-a\.json .*; install prism-ch again"):
        organisations.shipped_dashboards.__wrapped__()


def test_page_of_a_server_leads_to_its_metrics_where_set() -> None:
    address = "https://grafana.example/d/dcgm?var-instance=${host}"
    boards = linked(shipped_dashboards(), GrafanaLinksSettings(host=address))
    (*_, link) = boards["prism-host"]["links"]
    assert (link["url"], link["keepTime"]) == (address, True)
    assert boards["prism-job"] == shipped_dashboards()["prism-job"]
    assert linked(shipped_dashboards(), GrafanaLinksSettings()) == shipped_dashboards()


@pytest.mark.parametrize(
    "address", ["javascript:alert('${host}')", "https://a:b@c/${host}", "/d/dcgm", "//x y/${host}"]
)
def test_link_that_is_no_address_of_a_server_refused(address: str) -> None:
    with pytest.raises(ValueError, match="host"):
        GrafanaLinksSettings(host=address)


def test_tenants_get_no_panel_on_flow_records() -> None:
    titles = {panel["title"] for board in dashboards_of("alpha").values() for panel in panels_of(board)}
    assert "What it rests on" in titles
    assert not titles & {OPERATORS_ROW, "Flows behind it", "Traffic of its NICs"}
