"""Describes what organisations should hold: the operators' and one for each tenant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import SecretStr

from prism_ch.assets import asset
from prism_ch.errors import GrafanaError, SettingsError
from prism_ch.grafana.alerts import DATASOURCE_TYPE, DATASOURCE_UID, rule_groups
from prism_ch.query.tenancy import user_of
from prism_ch.settings import GrafanaLinksSettings, Settings
from prism_ch.store.url import EmbeddedLocation, parse_url

#: uid and title of the dashboards' folder. `prune` deletes only what is in our folders under a uid with the prefix.
FOLDER = ("prism", "prism")
UID_PREFIX = "prism-"

#: Title of a row of panels on what tenants can't read: records, which tell of others.
OPERATORS_ROW = "Flow records (operators only)"
_OPERATORS_HOME, _TENANTS_HOME = "prism-fleet", "prism-tenant"
#: Tag of the dashboards that tenants have too.
_TENANTS_TAG = "tenants"
# Grafana's plugin gives the database 5 seconds more, and a tenant's query may take a minute over HTTP.
_QUERY_TIMEOUT_S = "50"
#: Grafana's limit.
_NAME_LETTERS_MAX = 190


@dataclass(frozen=True, slots=True)
class Organisation:
    """What one organisation should hold; `tenant` is None for the operators'."""

    name: str
    tenant: str | None
    team: str
    datasource: Mapping[str, Any]
    password: SecretStr | None = field(repr=False)
    dashboards: Mapping[str, Mapping[str, Any]]

    @property
    def home(self) -> str:
        """Uid of the dashboard with which the organisation opens."""
        return _OPERATORS_HOME if self.tenant is None else _TENANTS_HOME

    def rule_groups(self, number: int) -> list[dict[str, Any]]:
        """Return the groups of alert rules. They link to the organisation by its id in Grafana."""
        return rule_groups(self.dashboards, number, is_tenants=self.tenant is not None)


def organisation_name(settings: Settings, tenant: str | None) -> str:
    """Return the name of a tenant's organisation; None stands for the operators."""
    return settings.grafana.organisation if tenant is None else f"{settings.grafana.organisation} {tenant}"


@cache
def shipped_dashboards() -> Mapping[str, Mapping[str, Any]]:
    """Read the dashboards of this version, by uid.

    Raises GrafanaError if a file holds no dashboard, or one under another uid than the file's name.
    """
    dashboards = {}
    for file in sorted(asset("dashboards").iterdir(), key=lambda file: file.name):
        uid, _, suffix = file.name.rpartition(".")
        if suffix != "json":
            continue
        try:
            dashboards[uid] = json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise GrafanaError(f"dashboards/{file.name} is no JSON ({error}); install prism-ch again") from error
        if dashboards[uid].get("uid") != uid:
            raise GrafanaError(f"dashboards/{file.name} has another uid than its name; install prism-ch again")
    return dashboards


def dashboards_of(tenant: str | None) -> Mapping[str, Mapping[str, Any]]:
    """Return the dashboards of a tenant by uid; all if it is None, for operators."""
    shipped = shipped_dashboards()
    return shipped if tenant is None else {uid: of_tenants(each) for uid, each in shipped.items() if is_tenants(each)}


def panels_of(dashboard: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a dashboard's panels: rows, and the panels inside them too."""
    return [inner for panel in dashboard["panels"] for inner in (panel, *panel.get("panels", ()))]


def is_tenants(dashboard: Mapping[str, Any]) -> bool:
    """Return whether tenants have a dashboard too."""
    return _TENANTS_TAG in dashboard["tags"]


def of_tenants(dashboard: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a dashboard without the row of panels on what tenants can't read."""
    return {**dashboard, "panels": [panel for panel in dashboard["panels"] if panel["title"] != OPERATORS_ROW]}


def linked(dashboards: Mapping[str, Mapping[str, Any]], links: GrafanaLinksSettings) -> Mapping[str, Mapping[str, Any]]:
    """Return dashboards by uid with the settings' links from a server to its metrics."""
    if links.host is None:
        return dashboards
    host = dashboards["prism-host"]
    link = {
        "title": "Metrics of this server",
        "type": "link",
        "icon": "external link",
        "url": links.host,
        "keepTime": True,
        "includeVars": False,
        "targetBlank": True,
        "asDropdown": False,
        "tags": [],
        "tooltip": "",
    }
    return {**dashboards, "prism-host": {**host, "links": [*host["links"], link]}}


def database_user(settings: Settings, tenant: str | None) -> str:
    """Return the database user of an organisation's data source.

    Parameters: `tenant`, whose rows only the user reads; None for the operators, whose user reads all.
    Raises SettingsError if there is no such user.
    """
    database = settings.grafana.database
    named = database.user if tenant is None else database.users.get(tenant)
    if named is not None:
        return named
    if not isinstance(parse_url(settings.url), EmbeddedLocation):
        if tenant is not None:
            return user_of(tenant)
        raise SettingsError(
            "no user of the database for the operators' Grafana: name one with the role prism_operator in"
            " PRISM_CH_GRAFANA_DATABASE_USER or grafana.database.user"
        )
    if tenant is None and not settings.serve.users:
        return "default"
    role, own = ("reader", "") if tenant is None else ("tenant", tenant)
    users = sorted(name for name, user in settings.serve.users.items() if (user.role, user.tenant) == (role, own))
    if not users:
        needed = f'role = "{role}"' + (f" and tenant = {json.dumps(tenant)}" if tenant else "")
        raise SettingsError(f"no user of the HTTP endpoint for Grafana: add a table [serve.users.NAME] with {needed}")
    return users[0]


def datasource(settings: Settings, user: str) -> dict[str, Any]:
    """Return the data source of a database user. Its uid is the same in every organisation."""
    location = parse_url(settings.url)
    database = settings.grafana.database
    if isinstance(location, EmbeddedLocation):
        serve = settings.serve
        host, port, secure = serve.host, serve.port, serve.tls_certificate is not None
    else:
        host, port, secure = location.host, location.port, location.secure
    return {
        "uid": DATASOURCE_UID,
        "name": "prism",
        "type": DATASOURCE_TYPE,
        "access": "proxy",
        "jsonData": {
            "host": database.host or host,
            "port": database.port or port,
            "protocol": "http",
            "secure": secure if database.secure is None else database.secure,
            "username": user,
            "defaultDatabase": location.database,
            "dialTimeout": "10",
            "queryTimeout": _QUERY_TIMEOUT_S,
        },
    }


def desired_organisation(settings: Settings, tenant: str | None, passwords: Mapping[str, SecretStr]) -> Organisation:
    """Return what a tenant's organisation should hold; None stands for the operators.

    Parameters: `passwords` of the database's users.
    Raises SettingsError if a user of the database or its password is unknown, or Grafana would refuse the name.
    """
    name = organisation_name(settings, tenant)
    if len(name) > _NAME_LETTERS_MAX or not name.isprintable():
        raise SettingsError(f"tenant {tenant!r}: Grafana refuses such a name; change it in the topology")
    user = database_user(settings, tenant)
    return Organisation(
        name=name,
        tenant=tenant,
        team="operators" if tenant is None else tenant,
        datasource=datasource(settings, user),
        password=_password(settings, user, passwords),
        dashboards=dashboards_of(tenant) if tenant is not None else linked(dashboards_of(None), settings.grafana.links),
    )


def _password(settings: Settings, user: str, passwords: Mapping[str, SecretStr]) -> SecretStr | None:
    if isinstance(parse_url(settings.url), EmbeddedLocation) and not settings.serve.users:
        return None
    if user not in passwords:
        raise SettingsError(
            f"no password for the database's user {user}: write it into the file that PRISM_CH_GRAFANA_PASSWORDS"
            f' or grafana.database.passwords names, as a line {json.dumps(user)} = "..."'
        )
    return passwords[user]
