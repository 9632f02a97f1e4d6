"""Sends requests to Grafana, to one organisation at a time, and explains its errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from itertools import count
from typing import Any, Self
from urllib.parse import urlsplit

import niquests
from grafana_client.client import GrafanaClient, GrafanaException
from pydantic import SecretStr

from prism_ch.errors import GrafanaError, SettingsError
from prism_ch.settings import GrafanaSettings

#: Resources a page. Grafana gives no more of some than this.
PAGE = 1000

_TIMEOUT_S = 30.0
_REASON_LETTERS_MAX = 300


class NotFoundError(GrafanaError):
    """Grafana knows no such resource."""


def has_credentials(settings: GrafanaSettings) -> bool:
    """Return whether the settings hold a password or a token for Grafana."""
    return settings.password is not None or settings.token is not None


class Grafana:
    """A Grafana server, for an administrator or with a token; a context manager.

    A token belongs to one organisation.
    """

    def __init__(self, settings: GrafanaSettings, secrets: Iterable[SecretStr] = ()) -> None:
        """Make a client that has not sent anything yet.

        Parameters: `secrets`, texts besides the credentials that no error may show.
        Raises SettingsError if neither password nor token is set.
        """
        if not has_credentials(settings):
            raise SettingsError(
                "no password for Grafana: set PRISM_CH_GRAFANA_PASSWORD (of an administrator of the server) or"
                " PRISM_CH_GRAFANA_TOKEN (of a service account, for one organisation)"
            )
        self._settings = settings
        self._secrets = [
            secret.get_secret_value() for secret in (settings.password, settings.token, *secrets) if secret is not None
        ]
        self._ids: dict[str, int] | None = None
        self._open = ExitStack()
        self._own = OrganisationClient(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._open.close()

    @property
    def has_token(self) -> bool:
        """Whether requests carry a token, which belongs to one organisation only."""
        return self._settings.token is not None

    def organisation_ids(self) -> Mapping[str, int]:
        """Return the ids of all organisations by name; they are read once."""
        if self._ids is None:
            self._ids = {}
            for page in count():  # Grafana counts these pages from 0
                found = self._own.request("GET", "/orgs", params={"perpage": PAGE, "page": page})
                self._ids |= {each["name"]: each["id"] for each in found}
                if len(found) < PAGE:
                    break
        return self._ids

    def create_organisation(self, name: str) -> None:
        """Create an organisation; the user who asks becomes its first administrator."""
        self._own.request("POST", "/orgs", {"name": name})
        self._ids = None

    def organisation(self, name: str) -> OrganisationClient:
        """Return a client for an organisation, even if it does not exist yet.

        With a token that is always the token's organisation.
        """
        if self.has_token:
            return self._own
        number = self.organisation_ids().get(name)
        return OrganisationClient(self, number, exists=number is not None)

    def connect(self, organisation: int | None) -> GrafanaClient:
        """Return an HTTP client for an organisation; for that of the credentials if None."""
        settings = self._settings
        parts = urlsplit(settings.url)
        path = parts.path.strip("/")
        password = "" if settings.password is None else settings.password.get_secret_value()
        http = GrafanaClient(
            (settings.user, password) if settings.token is None else settings.token.get_secret_value(),
            host=parts.netloc,
            protocol=parts.scheme,
            url_path_prefix=f"{path}/" if path else "",
            verify=True if settings.ca is None else str(settings.ca),
            timeout=_TIMEOUT_S,
            organization_id=organisation,
        )
        self._open.callback(http.s.close)
        # A redirected POST would arrive as a GET, and nobody would notice that nothing was written.
        http.s.max_redirects = 0
        return http

    def explain(self, error: Exception) -> GrafanaError:
        """Return an error with the reason and what to do, without secrets."""
        grafana = f"Grafana at {self._settings.url}"
        if isinstance(error, niquests.exceptions.TooManyRedirects):
            return GrafanaError(f"{grafana} redirects elsewhere; set PRISM_CH_GRAFANA_URL to its real address")
        if isinstance(error, niquests.exceptions.JSONDecodeError):
            return GrafanaError(f"{grafana} does not answer as a Grafana does; check PRISM_CH_GRAFANA_URL")
        if not isinstance(error, GrafanaException):
            reason = self._printable(str(error))
            return GrafanaError(f"{grafana} can't be reached ({reason}); is it running? Or set PRISM_CH_GRAFANA_URL")
        user = "the token" if self.has_token else f"user {self._settings.user}"
        if error.status_code == 0:
            return GrafanaError(f"{grafana} has not answered for {_TIMEOUT_S:.0f} s; try again")
        if error.status_code == 401:
            return GrafanaError(f"{grafana} does not let {user} in; check PRISM_CH_GRAFANA_PASSWORD or _TOKEN")
        answer = error.response
        reason = self._printable(str(answer.get("message", answer) if isinstance(answer, Mapping) else answer))
        advice = {
            403: f"{user} needs the role Admin in the organisation, and to be a server administrator to create one",
            409: "someone else has changed it meanwhile, or the name is taken; try again",
            412: "someone else has changed it meanwhile; try again",
        }.get(error.status_code, "see Grafana's log")
        kind = NotFoundError if error.status_code == 404 else GrafanaError
        return kind(f"{grafana} refused ({error.status_code}): {reason}; {advice}")

    def _printable(self, text: str) -> str:
        """Blank out secrets, and shorten to one line."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:_REASON_LETTERS_MAX]


class OrganisationClient:
    """Sends requests to one organisation.

    One that does not exist (yet) holds nothing and takes nothing: a request without its id would go to the organisation
    that the user chose last.
    """

    def __init__(self, grafana: Grafana, number: int | None, *, exists: bool = True) -> None:
        """Make a client; `number` is the organisation's id, None for that of the credentials."""
        self._grafana = grafana
        self._number = number
        self._exists = exists
        self._http = grafana.connect(number)

    @property
    def is_tokens(self) -> bool:
        """Whether this is the organisation of a token."""
        return self._grafana.has_token

    def number(self) -> int:
        """Return the organisation's id, also that of a token. It is 0 before it exists."""
        if self._exists and self._number is None:
            self._number = int(self.request("GET", "/org")["id"])
        return self._number or 0

    def request(self, method: str, path: str, body: Any = None, params: Mapping[str, object] | None = None) -> Any:
        """Send a request and return the answer's JSON, None for an empty one.

        Raises GrafanaError if it fails, or if the organisation does not exist.
        """
        if not self._exists:
            raise GrafanaError("the organisation does not exist, so nothing was written; could it be created?")
        try:
            return getattr(self._http, method)(path, json=body, params=params)
        except (GrafanaException, niquests.exceptions.RequestException) as error:
            raise self._grafana.explain(error) from None

    def find(self, path: str, **params: object) -> Any:
        """Return a resource's JSON; None if it or the organisation does not exist."""
        if not self._exists:
            return None
        try:
            return self.request("GET", path, params=params)
        except NotFoundError:
            return None
