"""What a run can be told: one frozen tree, and the only reader of configuration files and the environment."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from prism_ch.errors import SettingsError

#: Where results go when nothing else is said: a folder under the working directory.
DEFAULT_URL = "chdb://./prism-data"


class UserSettings(BaseModel):
    """Somebody who may use the HTTP endpoint; a table [serve.users.NAME] of the file.

    Roles: an `operator` may do whatever the service may; a `reader` reads all tenants' rows; a `tenant` reads its own;
    a `collector` delivers flow records and reads nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: As `prism-ch hash-password` prints it.
    password: str = Field(
        repr=False, pattern=r"^scrypt:\d{1,7}:\d{1,2}:\d{1,2}:[A-Za-z0-9+/=]{22,88}:[A-Za-z0-9+/=]{44}$"
    )
    role: Literal["operator", "reader", "tenant", "collector"]
    #: Whose rows a user of the role tenant reads, as the topology names it.
    tenant: str = ""

    @model_validator(mode="after")
    def _tenant_fits_role(self) -> Self:
        """Refuse a tenant without name, and a name where it would mean nothing."""
        if (self.role == "tenant") != bool(self.tenant):
            raise ValueError("the role tenant, and no other, goes with the name of a tenant")
        return self


class ServeSettings(BaseModel):
    """What `prism-ch serve` can be told beside its schedule; the table [serve] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Folder whose files are landed as they appear; none is watched where it is not given.
    spool: Path | None = None
    #: How long landed files are kept in the spool's folder done, in days.
    keep_done_days: float = Field(default=7.0, ge=0)
    #: Another schedule than the shipped scheduler/schedule.toml.
    schedule: Path | None = None
    #: Where HTTP is spoken; beyond the loopback interface whoever reaches the port may read /healthz and /metrics.
    host: str = "127.0.0.1"
    port: int = Field(default=9478, ge=0, le=65_535)
    #: Certificate (with those it rests on) and key, as PEM files; with them HTTPS is spoken, and nothing else.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    #: Who may send SQL, by name. Without any, SQL is answered on the loopback interface only, as to a reader.
    users: dict[str, UserSettings] = Field(default_factory=dict)
    #: So many statements run at once, of all users and of each; further ones wait for queue_s seconds at most.
    queries_at_once: int = Field(default=16, ge=1, le=256)
    queries_per_user: int = Field(default=8, ge=1, le=256)
    queue_s: float = Field(default=60.0, ge=0, le=3600)
    #: So many requests a minute are taken of each user that is no operator.
    requests_per_minute: int = Field(default=6000, ge=1)
    #: A client that neither sends nor takes a byte for so long, in seconds, in the middle of a request is let go.
    stall_s: float = Field(default=30.0, gt=0, le=3600)
    #: An exporter that nothing has come from for so long, in seconds, no longer holds windows back. Where nothing comes
    #: from any, every window that has passed is closed.
    silent_after_s: int = Field(default=60, ge=1, le=86_400)
    #: How far behind the others, in seconds, an exporter that still sends may hold windows back.
    hold_s: int = Field(default=120, ge=0, le=86_400)
    #: How long the tasks under way have to come to an end when the service is stopped, in seconds.
    grace_s: float = Field(default=6.0, ge=0, le=60)

    @model_validator(mode="after")
    def _key_fits_certificate(self) -> Self:
        """Refuse half of what TLS needs."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        return self


class GrafanaDatabaseSettings(BaseModel):
    """How a Grafana reaches the database, where that is not as prism-ch does; the table [grafana.database]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Host and HTTP port as Grafana sees them, and whether it speaks HTTPS.
    host: str | None = Field(default=None, min_length=1)
    port: int | None = Field(default=None, ge=1, le=65_535)
    secure: bool | None = None
    #: Who reads all tenants' rows for the operators' organisation.
    user: str | None = Field(default=None, min_length=1)
    #: Who reads a tenant's rows for its organisation, by tenant, where `prism-ch tenants apply` names it otherwise.
    users: dict[str, str] = Field(default_factory=dict)
    #: TOML file with the passwords of the database's users, a line `user = "password"` each.
    passwords: Path | None = None


class GrafanaSettings(BaseModel):
    """The Grafana that `prism-ch grafana` provisions; the table [grafana] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Where it is, with the path it is served under, if any; never with a password.
    url: str = Field(default="http://127.0.0.1:3000", pattern=r"^https?://[^@/?#\s]+(/[^@?#\s]*)?$", repr=False)
    #: An administrator of the server, who may make organisations.
    user: str = "admin"
    password: SecretStr | None = None
    #: Token of a service account instead: it knows one organisation only, which is then the operators'.
    token: SecretStr | None = None
    #: PEM file with the authority that signed its certificate, where the system does not know it.
    ca: Path | None = None
    #: Name of the operators' organisation; a tenant's is this name, a blank and the tenant's.
    organisation: str = Field(default="prism", min_length=1, max_length=100)
    database: GrafanaDatabaseSettings = GrafanaDatabaseSettings()


class Settings(BaseModel):
    """All settings with their defaults; a name that is not here is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Where the database is, `chdb:///folder` or `clickhouse(s)://user:password@host:port/database`; not printed.
    url: str = Field(default=DEFAULT_URL, min_length=1, repr=False)
    #: Length of a window of analysis, in seconds.
    window_s: int = Field(default=60, ge=1, le=3600)
    #: How long after its end a window is still waited for, in seconds, while flows keep arriving.
    lateness_s: int = Field(default=10, ge=0, le=86_400)
    serve: ServeSettings = ServeSettings()
    grafana: GrafanaSettings = GrafanaSettings()


#: What the environment may say, and which setting that is.
_ENVIRONMENT = {
    "PRISM_CH_URL": ("url",),
    "PRISM_CH_GRAFANA_URL": ("grafana", "url"),
    "PRISM_CH_GRAFANA_USER": ("grafana", "user"),
    "PRISM_CH_GRAFANA_PASSWORD": ("grafana", "password"),
    "PRISM_CH_GRAFANA_TOKEN": ("grafana", "token"),
    "PRISM_CH_GRAFANA_DATABASE_USER": ("grafana", "database", "user"),
    "PRISM_CH_GRAFANA_PASSWORDS": ("grafana", "database", "passwords"),
}


def load_settings(url: str | None = None, config: str | Path | None = None) -> Settings:
    """Read the settings: arguments win over the environment, which wins over the file, which wins over the defaults.

    Parameters: `url` of the database, else PRISM_CH_URL; `config`, a TOML file, else PRISM_CH_CONFIG, else none. The
    environment's other names are in _ENVIRONMENT.
    Raises SettingsError where the file can't be read or a setting is unknown or out of range.
    """
    path = config or os.environ.get("PRISM_CH_CONFIG")
    given = _read_toml(Path(path)) if path else {}
    for name, place in _ENVIRONMENT.items():
        if value := os.environ.get(name):
            _put(given, place, value)
    if url:
        given["url"] = url
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        # The values are left out: one of them may be a URL with a password.
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise SettingsError(f"{path or 'settings'}: {problems}") from None


def read_passwords(path: Path) -> dict[str, SecretStr]:
    """Read a TOML file of passwords by user.

    Raises SettingsError where it can't be read or holds anything else; the message repeats no value.
    """
    passwords = {}
    for user, password in _read_toml(path).items():
        if not isinstance(password, str) or not password:
            raise SettingsError(f'{path}: {user}: write the password as text, for example {user} = "..."')
        passwords[user] = SecretStr(password)
    return passwords


def _put(given: dict[str, object], place: tuple[str, ...], value: str) -> None:
    """Set a value in a tree of tables; what is no table where one should be is left for the check to find."""
    *tables, name = place
    for table in tables:
        inner = given.setdefault(table, {})
        if not isinstance(inner, dict):
            return
        given = inner
    given[name] = value


def _read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file, saying which one could not be read and why."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: is no TOML: {error}") from error
