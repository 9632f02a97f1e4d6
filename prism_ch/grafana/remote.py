"""Reads and writes a Grafana through grafana-client: one organisation at a time, and with errors in one line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from itertools import count
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit

import niquests
from grafana_client.api import GrafanaApi
from grafana_client.client import GrafanaClientError, GrafanaException
from pydantic import SecretStr

from prism_ch.errors import GrafanaError, SettingsError
from prism_ch.settings import GrafanaSettings

_Answer = TypeVar("_Answer")

_TIMEOUT_S = 30.0
_PAGE = 1000
_LONGEST_REASON = 300

#: A resource as Grafana gives it.
Resource = dict[str, Any]


class Grafana:
    """A Grafana server, as an administrator or by the token of one organisation; to be used as a context manager."""

    def __init__(self, settings: GrafanaSettings, secrets: Iterable[SecretStr] = ()) -> None:
        """Make ready to ask; `secrets` are further texts that no message may show.

        Raises SettingsError where neither password nor token is set.
        """
        if settings.password is None and settings.token is None:
            raise SettingsError(
                "no password for Grafana: set PRISM_CH_GRAFANA_PASSWORD (of an administrator of the server) or"
                " PRISM_CH_GRAFANA_TOKEN (of a service account, for one organisation)"
            )
        self._settings = settings
        self._secrets = [
            secret.get_secret_value() for secret in (settings.password, settings.token, *secrets) if secret is not None
        ]
        self._organisations: dict[str, int] | None = None
        self._opened = ExitStack()
        self._own = Room(self, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._opened.close()

    @property
    def is_bound(self) -> bool:
        """Whether a token binds it to one organisation."""
        return self._settings.token is not None

    def organisations(self) -> Mapping[str, int]:
        """Return the numbers of all organisations by name; asked once, and again after one was made."""
        if self._organisations is None:
            self._organisations = self._read_organisations()
        return self._organisations

    def _read_organisations(self) -> dict[str, int]:
        """Read the organisations page by page; Grafana counts these from 0."""
        found: dict[str, int] = {}
        for page in count():
            params = {"perpage": _PAGE, "page": page}
            answer = self._own.ask(lambda api: api.client.GET("/orgs", params=params))  # noqa: B023 - asked at once
            found |= {each["name"]: each["id"] for each in answer}
            if len(answer) < _PAGE:
                break
        return found

    def create_organisation(self, name: str) -> None:
        """Make an organisation; whoever asks becomes its first administrator."""
        self._own.ask(lambda api: api.organization.create_organization(name))
        self._organisations = None

    def open(self, organisation: int | None) -> GrafanaApi:
        """Return a client for one organisation; for that of the credentials where None."""
        told = self._settings
        parts = urlsplit(told.url)
        path = parts.path.strip("/")
        password = "" if told.password is None else told.password.get_secret_value()
        api = GrafanaApi(
            told.token.get_secret_value() if told.token is not None else (told.user, password),
            host=parts.netloc,
            protocol=parts.scheme,
            url_path_prefix=f"{path}/" if path else "",
            verify=True if told.ca is None else str(told.ca),
            timeout=_TIMEOUT_S,
            organization_id=organisation,
        )
        self._opened.callback(api.client.s.close)
        # A redirected POST would arrive as a GET, and nobody would notice that nothing was written.
        api.client.s.max_redirects = 0
        return api

    def explain(self, error: Exception) -> GrafanaError:
        """Say in one line what went wrong, without secrets."""
        where = f"Grafana at {self._settings.url}"
        if isinstance(error, GrafanaException):
            return self._explain_refusal(where, error)
        if isinstance(error, niquests.exceptions.TooManyRedirects):
            return GrafanaError(f"{where} sends elsewhere; set PRISM_CH_GRAFANA_URL to where it really is")
        if isinstance(error, niquests.exceptions.JSONDecodeError):
            return GrafanaError(f"{where} does not answer as a Grafana does; see whether the URL is right")
        reason = self._fit_to_show(str(error))
        return GrafanaError(f"{where} can't be reached ({reason}); see whether it runs, or set PRISM_CH_GRAFANA_URL")

    def _explain_refusal(self, where: str, error: GrafanaException) -> GrafanaError:
        """Say what it means that Grafana refused."""
        who = "the token" if self.is_bound else f"user {self._settings.user}"
        if error.status_code == 0:
            return GrafanaError(f"{where} has not answered for {_TIMEOUT_S:.0f} s; try again")
        if error.status_code == 401:
            return GrafanaError(f"{where} does not let {who} in; check PRISM_CH_GRAFANA_PASSWORD or _TOKEN")
        answer = error.response
        said = answer.get("message", answer) if isinstance(answer, Mapping) else answer
        hint = {
            403: f"{who} needs the role Admin in the organisation, and to be a server administrator to make one",
            409: "someone else has changed it meanwhile, or the name is taken; try again",
            412: "someone else has changed it meanwhile; try again",
        }.get(error.status_code, "see Grafana's log")
        return GrafanaError(f"{where} refused ({error.status_code}): {self._fit_to_show(str(said))}; {hint}")

    def _fit_to_show(self, text: str) -> str:
        """Blank out what must never be shown, and bring what may be a whole page to one short line."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return " ".join("".join(each if each.isprintable() else " " for each in text).split())[:_LONGEST_REASON]


class Room:
    """One organisation; `number` is None for that of the credentials. One that does not exist yet holds nothing."""

    def __init__(self, grafana: Grafana, number: int | None, *, exists: bool = True) -> None:
        self._grafana = grafana
        self._exists = exists
        self._api = grafana.open(number)

    def ask(self, call: Callable[[GrafanaApi], _Answer]) -> _Answer:
        """Ask something of Grafana; raises GrafanaError where that fails."""
        try:
            return call(self._api)
        except (GrafanaException, niquests.exceptions.RequestException) as error:
            raise self._grafana.explain(error) from None

    def find(self, call: Callable[[GrafanaApi], _Answer]) -> _Answer | None:
        """Ask for something that may not be there."""
        if not self._exists:
            return None
        try:
            return call(self._api)
        except GrafanaClientError as error:
            if error.status_code == 404:
                return None
            raise self._grafana.explain(error) from None
        except (GrafanaException, niquests.exceptions.RequestException) as error:
            raise self._grafana.explain(error) from None

    def team(self, name: str) -> Resource | None:
        """Return the team of a name."""
        found = self.find(lambda api: api.client.GET("/teams/search", params={"name": name})) or {"teams": []}
        return next((team for team in found["teams"] if team["name"] == name), None)

    def folder(self, uid: str) -> Resource | None:
        """Return the folder of a uid."""
        return self.find(lambda api: api.folder.get_folder(uid))

    def permissions(self, folder: str) -> list[Resource]:
        """Return who may do what in a folder, apart from what it inherits."""
        found = self.find(lambda api: api.folder.get_folder_permissions(folder)) or []
        return [each for each in found if not each.get("inherited")]

    def datasource(self, uid: str) -> Resource | None:
        """Return the data source of a uid; its secrets can't be read, only that they are set."""
        return self.find(lambda api: api.datasource.get_datasource_by_uid(uid))

    def dashboard(self, uid: str) -> Resource | None:
        """Return the dashboard of a uid, with what Grafana knows of it as `meta`."""
        return self.find(lambda api: api.dashboard.get_dashboard(uid))

    def newest_message(self, dashboard: str) -> str:
        """Return what was said of the newest version of a dashboard."""
        path = f"/dashboards/uid/{dashboard}/versions"
        found = self.find(lambda api: api.client.GET(path, params={"limit": 1})) or []
        # A bare list before Grafana 11.6.
        versions = found["versions"] if isinstance(found, dict) else found
        newest: Resource = max(versions, key=lambda version: version["version"], default={})
        return str(newest.get("message", ""))

    def dashboards_in(self, folder: str) -> list[Resource]:
        """Return uid and title of all dashboards in a folder."""
        found = self.find(
            lambda api: api.search.search_dashboards(type_="dash-db", folder_uids=folder, limit=5 * _PAGE)
        )
        return list(found or [])

    def rule_group(self, folder: str, title: str) -> Resource | None:
        """Return a group of alert rules."""
        return self.find(lambda api: api.alertingprovisioning.get_rule_group(folder, quote(title, safe="")))

    def rules(self) -> list[Resource]:
        """Return all alert rules."""
        return list(self.find(lambda api: api.alertingprovisioning.get_alertrules_all()) or [])

    def create_team(self, name: str) -> None:
        """Make a team."""
        self.ask(lambda api: api.teams.add_team(name))

    def create_folder(self, uid: str, title: str) -> None:
        """Make a folder."""
        self.ask(lambda api: api.folder.create_folder(title, uid))

    def rename_folder(self, found: Resource, title: str) -> None:
        """Give a folder another title, unless it has changed since it was read."""
        self.ask(lambda api: api.folder.update_folder(found["uid"], title=title, version=found.get("version")))

    def permit(self, folder: str, items: list[Resource]) -> None:
        """Say anew who may do what in a folder: what is left out is taken away."""
        self.ask(lambda api: api.folder.update_folder_permissions(folder, items))

    def create_datasource(self, datasource: Resource) -> None:
        """Make a data source."""
        self.ask(lambda api: api.datasource.create_datasource(datasource))

    def update_datasource(self, datasource: Resource) -> None:
        """Write a data source; secrets that are left out stay, and a `version` that is not the last is refused."""
        self.ask(lambda api: api.datasource.update_datasource_by_uid(datasource["uid"], datasource))

    def datasource_problem(self, uid: str) -> str:
        """Return why a data source does not answer; empty where it does."""
        try:
            self.ask(lambda api: api.datasource.health(uid))
        except GrafanaError as error:
            return str(error)
        return ""

    def save_dashboard(self, dashboard: Resource, folder: str, message: str, *, overwrite: bool) -> None:
        """Save a dashboard; unless it overwrites, a `version` that is not the last is refused."""
        body = {"dashboard": dashboard, "folderUid": folder, "message": message, "overwrite": overwrite}
        self.ask(lambda api: api.dashboard.update_dashboard(body))

    def delete_dashboard(self, uid: str) -> None:
        """Delete a dashboard."""
        self.ask(lambda api: api.dashboard.delete_dashboard(uid))

    def put_rule_group(self, group: Resource) -> None:
        """Write a group of alert rules whole: rules that are left out are deleted."""
        title = quote(group["title"], safe="")
        self.ask(lambda api: api.alertingprovisioning.update_rule_group(group["folderUid"], title, group))

    def delete_rule(self, uid: str) -> None:
        """Delete an alert rule."""
        self.ask(lambda api: api.alertingprovisioning.delete_alertrule(uid))
