"""What a run can be told: one frozen tree, and the only reader of configuration files and the environment."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from prism_ch.errors import SettingsError

#: Where results go when nothing else is said: a folder under the working directory.
DEFAULT_URL = "chdb://./prism-data"


class ServeSettings(BaseModel):
    """What `prism-ch serve` can be told beside its schedule; the table [serve] of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    #: Folder whose files are landed as they appear; none is watched where it is not given.
    spool: Path | None = None
    #: How long landed files are kept in the spool's folder done, in days.
    keep_done_days: float = Field(default=7.0, ge=0)
    #: Another schedule than the shipped scheduler/schedule.toml.
    schedule: Path | None = None
    #: Where /healthz and /metrics listen; beyond the loopback interface whoever reaches the port may read them.
    host: str = "127.0.0.1"
    port: int = Field(default=9478, ge=0, le=65_535)
    #: An exporter that nothing has come from for so long, in seconds, no longer holds windows back. Where nothing comes
    #: from any, every window that has passed is closed.
    silent_after_s: int = Field(default=60, ge=1, le=86_400)
    #: How far behind the others, in seconds, an exporter that still sends may hold windows back.
    hold_s: int = Field(default=120, ge=0, le=86_400)
    #: How long the tasks under way have to come to an end when the service is stopped, in seconds.
    grace_s: float = Field(default=6.0, ge=0, le=60)


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


def load_settings(url: str | None = None, config: str | Path | None = None) -> Settings:
    """Read the settings: arguments win over the environment, which wins over the file, which wins over the defaults.

    Parameters: `url` of the database, else PRISM_CH_URL; `config`, a TOML file, else PRISM_CH_CONFIG, else none.
    Raises SettingsError where the file can't be read or a setting is unknown or out of range.
    """
    path = config or os.environ.get("PRISM_CH_CONFIG")
    given = _read_toml(Path(path)) if path else {}
    chosen_url = url or os.environ.get("PRISM_CH_URL")
    if chosen_url:
        given["url"] = chosen_url
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        # The values are left out: one of them may be a URL with a password.
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
        raise SettingsError(f"{path or 'settings'}: {problems}") from None


def _read_toml(path: Path) -> dict[str, object]:
    """Read a TOML file, saying which one could not be read and why."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: can't be read: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: is no TOML: {error}") from error
