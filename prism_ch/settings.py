"""The settings: one frozen tree, read from configuration files and the environment."""

from __future__ import annotations

import os
import re
import tomllib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal, Self, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from prism_ch.errors import SettingsError

#: The default database: a folder under the working directory.
DEFAULT_URL = "chdb://./prism-data"
#: The executor that is this process itself.
LOCAL = "local"

#: A host and a port, two groups of an address.
HOST_AND_PORT = r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(\d{1,5})"
_SCHEDULER = re.compile(f"dask://{HOST_AND_PORT}")

#: Who orders flows and folds repeats: whoever does it cheapest, the database as far as it can, or this process.
Pushdown: TypeAlias = Literal["auto", "engine", "here"]

_Model = TypeVar("_Model", bound=BaseModel)


class UserSettings(BaseModel):
    """A user of the HTTP endpoint; a table [serve.users.NAME] of the file.

    Roles: an `operator` may run any statement; a `reader` reads all tenants' rows; a `tenant` reads its own; a
    `collector` delivers flow records and reads nothing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: As `prism-ch hash-password` prints it.
    password: str = Field(
        repr=False, pattern=r"^scrypt:\d{1,7}:\d{1,2}:\d{1,2}:[A-Za-z0-9+/=]{22,88}:[A-Za-z0-9+/=]{44}$"
    )
    #: What the user may do: everything, read everything, read one tenant's rows, or deliver flow records.
    role: Literal["operator", "reader", "tenant", "collector"]
    #: Whose rows a user of the role tenant reads, as the topology names it.
    tenant: str = ""

    @model_validator(mode="after")
    def _tenant_fits_role(self) -> Self:
        """Require the name of a tenant for the role tenant, and for no other."""
        if (self.role == "tenant") != bool(self.tenant):
            raise ValueError("the role tenant, and no other, goes with the name of a tenant")
        return self


class ServeSettings(BaseModel):
    """The settings of `prism-ch serve`; the table [serve] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Folder whose files are landed as they appear; by default there is none.
    spool: Path | None = None
    #: How long landed files are kept in the spool's folder done, in days.
    keep_done_days: float = Field(default=7.0, ge=0)
    #: Another schedule than the shipped scheduler/schedule.toml.
    schedule: Path | None = None
    #: Where HTTP is served; everyone who reaches the port may read /healthz and most of /metrics.
    host: str = "127.0.0.1"
    #: The port there; 0 takes any that is free.
    port: int = Field(default=9478, ge=0, le=65_535)
    #: Certificate (with its chain) and key, PEM files; with them HTTPS is served instead of HTTP.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    #: Users who may send SQL, by name. Without any, everyone on this machine may read; others may not.
    users: dict[str, UserSettings] = Field(default_factory=dict)
    #: How many statements run at once, of all users and of each; others wait, for at most queue_s seconds.
    queries_at_once: int = Field(default=16, ge=1, le=256)
    queries_per_user: int = Field(default=8, ge=1, le=256)
    queue_s: float = Field(default=60.0, ge=0, le=3600)
    #: How many requests a minute each user may send, except operators.
    requests_per_minute: int = Field(default=6000, ge=1)
    #: A client that sends and takes nothing in the middle of a request is dropped after this long, in seconds.
    stall_s: float = Field(default=30.0, gt=0, le=3600)
    #: An exporter that has sent nothing for this long, in seconds, no longer holds windows back. If none sends, every
    #: window that has passed is closed.
    silent_after_s: int = Field(default=60, ge=1, le=86_400)
    #: How far behind the others, in seconds, an exporter that still sends may hold windows back.
    hold_s: int = Field(default=120, ge=0, le=86_400)
    #: How long running tasks may take to end when the service is stopped, in seconds.
    grace_s: float = Field(default=6.0, ge=0, le=60)

    @model_validator(mode="after")
    def _key_fits_certificate(self) -> Self:
        """Require both certificate and key, or neither."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("tls_certificate and tls_key go together")
        return self


class GrafanaDatabaseSettings(BaseModel):
    """How Grafana reaches the database, if not as prism-ch does; the table [grafana.database]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Host and HTTP port as Grafana sees them, and whether it speaks HTTPS.
    host: str | None = Field(default=None, min_length=1)
    port: int | None = Field(default=None, ge=1, le=65_535)
    secure: bool | None = None
    #: The database's user who reads all tenants' rows, for the operators' organisation.
    user: str | None = Field(default=None, min_length=1)
    #: The database's users who read one tenant's rows, by tenant, if not named as by `prism-ch tenants apply`.
    users: dict[str, str] = Field(default_factory=dict)
    #: TOML file with the passwords of the database's users, a line `user = "password"` each.
    passwords: Path | None = None


class GrafanaLinksSettings(BaseModel):
    """Where else people look, each an address that Grafana fills in; the table [grafana.links]."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Metrics of a server, such as those of DCGM or the node exporter: an address with `${host}` where its name goes,
    #: for example `/d/dcgm?var-host=${host}`. The operators' dashboard of a server links to it, at its time range.
    host: str | None = Field(default=None, pattern=r"^(/|https?://[^@/?#\s]+/)[^\s]*\$\{host(:\w+)?\}[^\s]*$")


class GrafanaSettings(BaseModel):
    """The Grafana that `prism-ch grafana` provisions; the table [grafana] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Where it is, with the path it is served under, if any; never with a password.
    url: str = Field(default="http://127.0.0.1:3000", pattern=r"^https?://[^@/?#\s]+(/[^@?#\s]*)?$", repr=False)
    #: An administrator of the server, who may make organisations.
    user: str = "admin"
    #: The administrator's password, without which nothing but a token opens Grafana.
    password: SecretStr | None = None
    #: Token of a service account instead: it belongs to one organisation, which is then the operators'.
    token: SecretStr | None = None
    #: PEM file with the authority that signed its certificate, where the system does not know it.
    ca: Path | None = None
    #: Name of the operators' organisation; a tenant's is this name, a blank and the tenant's.
    organisation: str = Field(default="prism", min_length=1, max_length=100)
    database: GrafanaDatabaseSettings = GrafanaDatabaseSettings()
    links: GrafanaLinksSettings = GrafanaLinksSettings()


class AnalysisSettings(BaseModel):
    """How windows are analysed; the table [analysis] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Where the jobs of a window are worked: `local`, in this process, or `dask://HOST:PORT`, on the workers of a Dask
    #: scheduler. Needs `pip install 'prism-ch[cluster]'`.
    executor: str = LOCAL
    #: Who orders the flows of a window and folds exact repeats: `engine`, the database as far as it can; `here`, this
    #: process; `auto`, each is tried, and then what costs least. `prism-ch doctor --costs` shows what each costs.
    pushdown: Pushdown = "auto"

    @field_validator("executor")
    @classmethod
    def _is_local_or_scheduler(cls, executor: str) -> str:
        """Require the address of a scheduler, unless the work stays here."""
        match = _SCHEDULER.fullmatch(executor)
        if executor != LOCAL and (match is None or not 0 < int(match[2]) < 65_536):
            raise ValueError("is local, or dask://HOST:PORT, for example dask://scheduler:8786")
        return executor


class Settings(BaseModel):
    """All settings with their defaults; other names are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Where the database is, `chdb:///folder` or `clickhouse(s)://user:password@host:port/database`; not printed.
    url: str = Field(default=DEFAULT_URL, min_length=1, repr=False)
    #: Length of a window of analysis, in seconds.
    window_s: int = Field(default=60, ge=1, le=3600)
    #: How long after its end a window stays open for late flows, in seconds, while flows keep arriving.
    lateness_s: int = Field(default=10, ge=0, le=86_400)
    #: Whether each window replays its steps, for `gpu_steps.idle_s`, `.bubble_s`, `what_if`, and what a slow GPU costs
    #: a job that never was healthy. The analysis of a window takes about a third longer then.
    replay: bool = True
    analysis: AnalysisSettings = AnalysisSettings()
    serve: ServeSettings = ServeSettings()
    grafana: GrafanaSettings = GrafanaSettings()


#: Variables of the environment, and the settings they set.
ENVIRONMENT = {
    "PRISM_CH_URL": ("url",),
    "PRISM_CH_REPLAY": ("replay",),
    "PRISM_CH_EXECUTOR": ("analysis", "executor"),
    "PRISM_CH_PUSHDOWN": ("analysis", "pushdown"),
    "PRISM_CH_GRAFANA_URL": ("grafana", "url"),
    "PRISM_CH_GRAFANA_USER": ("grafana", "user"),
    "PRISM_CH_GRAFANA_PASSWORD": ("grafana", "password"),
    "PRISM_CH_GRAFANA_TOKEN": ("grafana", "token"),
    "PRISM_CH_GRAFANA_DATABASE_USER": ("grafana", "database", "user"),
    "PRISM_CH_GRAFANA_PASSWORDS": ("grafana", "database", "passwords"),
}


def load_settings(url: str | None = None, config: str | Path | None = None) -> Settings:
    """Read the settings from arguments, the environment and a file, the first that has each.

    Parameters: `url` of the database, else PRISM_CH_URL; `config`, a TOML file, else PRISM_CH_CONFIG, else none. The
    other variables of the environment are in ENVIRONMENT.
    Raises SettingsError if the file can't be read, or a setting is unknown or out of range.
    """
    path = config or os.environ.get("PRISM_CH_CONFIG")
    values = read_toml(Path(path)) if path else {}
    for variable, setting in ENVIRONMENT.items():
        if value := os.environ.get(variable):
            _put(values, setting, value)
    if url:
        values["url"] = url
    return validated(Settings, values, str(path or "settings"))


def read_passwords(path: Path) -> dict[str, SecretStr]:
    """Read a TOML file of passwords by user.

    Raises SettingsError if it can't be read or holds anything else; the message repeats no value.
    """
    passwords = {}
    for user, password in read_toml(path).items():
        if not isinstance(password, str) or not password:
            raise SettingsError(f'{path}: {user}: write the password as text, for example {user} = "..."')
        passwords[user] = SecretStr(password)
    return passwords


def read_toml(path: Path | Traversable) -> dict[str, object]:
    """Read a TOML file; raises SettingsError if it can't be read or is no TOML."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: is no TOML: {error}") from error


def validated(model: type[_Model], values: dict[str, object], source: str) -> _Model:
    """Make a model of the values from a source.

    Raises SettingsError, which names each problem and repeats no value: one of them may be a URL with a password.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise SettingsError(f"{source}: {problems}") from None


def _put(values: dict[str, object], setting: tuple[str, ...], value: str) -> None:
    """Set a value in a tree of tables. Validation finds what should be a table and is none."""
    *tables, name = setting
    for table in tables:
        inner = values.setdefault(table, {})
        if not isinstance(inner, dict):
            return
        values = inner
    values[name] = value
