"""Says what each organisation of a Grafana should hold: one for the operators, and one for each tenant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from pydantic import SecretStr

from prism_ch.assets import asset
from prism_ch.errors import SettingsError
from prism_ch.grafana.rules import DATASOURCE_TYPE, DATASOURCE_UID, rule_groups
from prism_ch.query.access import user_of
from prism_ch.settings import Settings
from prism_ch.store.url import EmbeddedLocation, parse_url

#: uid and title of the dashboards' folder; what is in it under a uid with the prefix is ours.
FOLDER = ("prism", "prism")
UID_PREFIX = "prism-"
#: Tag of the dashboards that tenants have too; the others ask what concerns the cluster as a whole.
_FOR_TENANTS = "tenants"
# Grafana asks the database for 5 seconds more, and tenants may have a minute.
_QUERY_TIMEOUT_S = "50"
#: As long as Grafana lets a name be.
_LONGEST_NAME = 190


@dataclass(frozen=True, slots=True)
class Organisation:
    """What one organisation should hold. `tenant` is None for the operators'."""

    name: str
    tenant: str | None
    team: str
    datasource: Mapping[str, Any]
    password: SecretStr | None = field(repr=False)
    dashboards: Mapping[str, Mapping[str, Any]]
    rule_groups: tuple[Mapping[str, Any], ...]


def organisation_name(settings: Settings, tenant: str | None) -> str:
    """Return the name of a tenant's organisation; that of the operators' for None."""
    return settings.grafana.organisation if tenant is None else f"{settings.grafana.organisation} {tenant}"


@cache
def shipped_dashboards() -> Mapping[str, Mapping[str, Any]]:
    """Read the dashboards that this version ships, by uid."""
    files = sorted(asset("dashboards").iterdir(), key=lambda file: file.name)
    dashboards = [json.loads(file.read_text(encoding="utf-8")) for file in files if file.name.endswith(".json")]
    return {dashboard["uid"]: dashboard for dashboard in dashboards}


def database_user(settings: Settings, tenant: str | None) -> str:
    """Return who asks the database for an organisation: a user that sees its tenant's rows, for operators everyone's.

    Raises SettingsError where there is none.
    """
    told = settings.grafana.database
    named = told.user if tenant is None else told.users.get(tenant)
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
    role, whose = ("reader", "") if tenant is None else ("tenant", tenant)
    users = sorted(name for name, user in settings.serve.users.items() if (user.role, user.tenant) == (role, whose))
    if not users:
        wanted = f'role = "{role}"' + (f" and tenant = {json.dumps(tenant)}" if tenant else "")
        raise SettingsError(f"no user of the HTTP endpoint for Grafana: add a table [serve.users.NAME] with {wanted}")
    return users[0]


def datasource(settings: Settings, user: str) -> dict[str, Any]:
    """Write the data source of a user of the database; everywhere under one uid, so dashboards and rules fit."""
    location = parse_url(settings.url)
    told = settings.grafana.database
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
            "host": told.host or host,
            "port": told.port or port,
            "protocol": "http",
            "secure": secure if told.secure is None else told.secure,
            "username": user,
            "defaultDatabase": location.database,
            "dialTimeout": "10",
            "queryTimeout": _QUERY_TIMEOUT_S,
        },
    }


def wanted_organisation(settings: Settings, tenant: str | None, passwords: Mapping[str, SecretStr]) -> Organisation:
    """Return what the organisation of a tenant should hold; that of the operators for None.

    Parameters: `passwords` of the database's users.
    Raises SettingsError where a user of the database or its password is not known, or Grafana would not take the name.
    """
    name = organisation_name(settings, tenant)
    if len(name) > _LONGEST_NAME or not name.isprintable():
        raise SettingsError(f"tenant {tenant!r}: Grafana takes no such name; mend it in the topology")
    user = database_user(settings, tenant)
    dashboards = shipped_dashboards()
    return Organisation(
        name=name,
        tenant=tenant,
        team="operators" if tenant is None else tenant,
        datasource=datasource(settings, user),
        password=_password(settings, user, passwords),
        dashboards={uid: each for uid, each in dashboards.items() if tenant is None or _FOR_TENANTS in each["tags"]},
        rule_groups=tuple(rule_groups(dashboards, tenant=tenant is not None)),
    )


def _password(settings: Settings, user: str, passwords: Mapping[str, SecretStr]) -> SecretStr | None:
    """Find the password of a user of the database; None where the database asks for none."""
    if isinstance(parse_url(settings.url), EmbeddedLocation) and not settings.serve.users:
        return None
    if user not in passwords:
        raise SettingsError(
            f"no password for the database's user {user}: write it into the file that PRISM_CH_GRAFANA_PASSWORDS"
            f' or grafana.database.passwords names, as a line {json.dumps(user)} = "..."'
        )
    return passwords[user]
