"""The contents of one organisation of the stand-in, and what Grafana answers about them.

Fields and messages are those of the recordings in tests/data/grafana/api.json.gz.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tests.grafana import forms
from tests.grafana.evaluation import instances
from tests.grafana.templates import TemplateError

Json = Any

_UID = re.compile(r"[A-Za-z0-9_-]{1,40}")
_DURATION = re.compile(r"\d+[smh]")
_STATES = {"noDataState": {"Alerting", "NoData", "OK", "KeepLast"}, "execErrState": {"Alerting", "Error", "OK"}}


class RefusedError(Exception):
    """An answer that is no success."""

    def __init__(self, code: int, message: str, **more: str) -> None:
        super().__init__(message)
        self.code = code
        self.body = {"message": message, **more}


@dataclass
class Server:
    """What all organisations share: numbers that are given once, and behaviour that tests choose."""

    numbers: dict[str, count[int]] = field(default_factory=dict)
    #: The organisation of each token.
    tokens: dict[str, int] = field(default_factory=dict)
    #: Errors that Grafana would log.
    log: list[str] = field(default_factory=list)
    #: Whether dashboards are read back in another form than they were written, as from Grafana 12 on.
    rewrites: bool = False
    #: Whether versions of a dashboard are a bare list, as before Grafana 11.6.
    lists_versions_bare: bool = True
    #: Whether data sources reach their database.
    datasource_answers: bool = True
    #: Status with which data sources are refused, with the request in the message; None accepts them.
    answers_datasources_with: int | None = None

    def number(self, kind: str) -> int:
        return next(self.numbers.setdefault(kind, count(1)))


@dataclass
class Org:
    """The contents of one organisation; methods named `get_`, `post_`, `put_` and `delete_` answer requests."""

    number: int
    name: str
    members: set[str]
    server: Server = field(default_factory=Server, repr=False)
    teams: list[Json] = field(default_factory=list)
    folders: dict[str, Json] = field(default_factory=dict)
    permissions: dict[str, list[Json]] = field(default_factory=dict)
    datasources: dict[str, Json] = field(default_factory=dict)
    secrets: dict[str, dict[str, str]] = field(default_factory=dict)
    #: By uid: every version that was saved, with folder and message.
    dashboards: dict[str, list[Json]] = field(default_factory=dict)
    from_files: set[str] = field(default_factory=set)
    rules: dict[str, Json] = field(default_factory=dict)
    intervals: dict[tuple[str, str], int] = field(default_factory=dict)
    policies: Json = field(default_factory=lambda: {"receiver": "pager", "routes": [{"receiver": "mail"}]})
    preferences: dict[str, str] = field(default_factory=dict)

    def holds(self) -> Json:
        """Return the contents without versions and numbers, to compare two servers."""
        return {
            "teams": [team["name"] for team in self.teams],
            "folders": {uid: folder["title"] for uid, folder in self.folders.items()},
            "permissions": self.permissions,
            "datasources": {uid: forms.without(each, "version", "id") for uid, each in self.datasources.items()},
            "secrets": self.secrets,
            "dashboards": {
                uid: forms.without(versions[-1]["dashboard"], "id") for uid, versions in self.dashboards.items()
            },
            "rules": {uid: forms.without(rule, "id") for uid, rule in self.rules.items()},
            "intervals": {"/".join(key): seconds for key, seconds in self.intervals.items()},
            "policies": self.policies,
            "preferences": self.preferences,
        }

    def get_org(self) -> Json:
        return {"id": self.number, "name": self.name, "address": dict.fromkeys(forms.ADDRESS, "")}

    def get_preferences(self) -> Json:
        home = self.preferences.get("homeDashboardUID", "")
        return {
            "theme": self.preferences.get("theme", ""),
            "homeDashboardId": self.dashboards[home][-1]["dashboard"]["id"] if home in self.dashboards else 0,
            **({"homeDashboardUID": home} if home else {}),
            "timezone": self.preferences.get("timezone", ""),
            "weekStart": "",
            "language": "",
            "navbar": {"savedItems": None},
            "queryHistory": {"homeTab": ""},
        }

    def patch_preferences(self, body: Json) -> Json:
        home = body.get("homeDashboardUID", "")
        if home and home not in self.dashboards:
            raise RefusedError(404, "Dashboard not found")
        self.preferences.update(body)
        return {"message": "Preferences updated"}

    def put_preferences(self, body: Json) -> Json:
        """Replace all: what is left out is gone."""
        held, self.preferences = self.preferences, {}
        try:
            return self.patch_preferences(body)
        except RefusedError:
            self.preferences = held
            raise

    # Teams, folders and who may see them.

    def get_teams_search(self, query: dict[str, str]) -> Json:
        found = [team for team in self.teams if query.get("name", team["name"]) == team["name"]]
        return {"totalCount": len(found), "teams": found, "page": 1, "perPage": 1000}

    def post_teams(self, body: Json) -> Json:
        if body["name"] in {team["name"] for team in self.teams}:
            raise RefusedError(409, "Team name taken")
        team = forms.team(self.server.number("team"), self.number, body["name"])
        self.teams.append(team)
        return {"message": "Team created", "teamId": team["id"]}

    def remove_teams(self) -> None:
        """Remove all teams with their permissions, as somebody does in the browser."""
        self.teams.clear()
        for held in self.permissions.values():
            held[:] = [item for item in held if "teamId" not in item]

    def get_folder(self, uid: str) -> Json:
        if uid not in self.folders:
            raise RefusedError(404, "folder not found", status="not-found")
        return forms.folder(self.folders[uid])

    def post_folders(self, body: Json) -> Json:
        uid = _valid_uid(body["uid"])
        if uid in self.folders:
            raise RefusedError(412, "a folder with the same UID already exists")
        if body["title"] in {folder["title"] for folder in self.folders.values()}:
            raise RefusedError(409, "a folder with the same name already exists in the current location")
        number = self.server.number("dashboard")
        self.folders[uid] = {"id": number, "uid": uid, "title": body["title"], "version": 1}
        self.permissions[uid] = [
            {"userId": 1, "permission": 4}, {"role": "Editor", "permission": 2}, {"role": "Viewer", "permission": 1}
        ]  # fmt: skip
        return self.get_folder(uid)

    def put_folder(self, uid: str, body: Json) -> Json:
        self.get_folder(uid)
        folder = self.folders[uid]
        if body.get("version") != folder["version"] and not body.get("overwrite"):
            raise RefusedError(412, "the folder has been changed by someone else", status="version-mismatch")
        folder.update(title=body["title"], version=folder["version"] + 1)
        return self.get_folder(uid)

    def get_permissions(self, uid: str) -> Json:
        self.get_folder(uid)
        return [forms.permission(self.folders[uid], item, self.teams) for item in self.permissions[uid]]

    def post_permissions(self, uid: str, body: Json) -> Json:
        self.get_folder(uid)
        for item in body["items"]:
            if not any(item.get(holder) for holder in ("teamId", "userId", "role")):
                raise RefusedError(500, "Failed to create permission")
            if item.get("teamId") and item["teamId"] not in {team["id"] for team in self.teams}:
                raise RefusedError(400, "team not found")
        self.permissions[uid] = body["items"]
        return {"message": "Dashboard permissions updated"}

    # Data sources.

    def get_datasources(self) -> Json:
        return [forms.without(each, "version") for each in self.datasources.values()]

    def get_datasource(self, uid: str) -> Json:
        found = _there(self.datasources, uid, "Data source not found")
        return {**found, "secureJsonFields": dict.fromkeys(self.secrets[uid], True)}

    def post_datasources(self, body: Json) -> Json:
        uid = _valid_uid(body["uid"])
        if self.server.answers_datasources_with is not None:
            raise RefusedError(self.server.answers_datasources_with, f"bad data: {body['secureJsonData']} of {body}")
        if uid in self.datasources or body["name"] in {each["name"] for each in self.datasources.values()}:
            raise RefusedError(409, "data source with the same name already exists")
        return self._keep_datasource(uid, body, {"id": self.server.number("datasource"), "version": 1}, "added")

    def put_datasource(self, uid: str, body: Json) -> Json:
        held = _there(self.datasources, uid, "Data source not found")
        if held.get("readOnly"):
            raise RefusedError(403, "Cannot update read-only data source")
        if body.get("version") not in {None, held["version"]}:
            raise RefusedError(409, "Datasource has already been updated by someone else. Please reload and try again")
        return self._keep_datasource(uid, body, {"id": held["id"], "version": held["version"] + 1}, "updated")

    def _keep_datasource(self, uid: str, body: Json, numbers: Json, done: str) -> Json:
        for name in ("name", "type", "access"):
            if not body.get(name):
                raise RefusedError(400, f"bad request data: {name}")
        if body.get("isDefault"):
            for each in self.datasources.values():
                each["isDefault"] = False
        defaults = {**dict.fromkeys(forms.DATASOURCE_TEXTS, ""), **dict.fromkeys(forms.DATASOURCE_SWITCHES, False)}
        given = {name: body[name] for name in (*defaults, "name", "type", "access", "jsonData") if name in body}
        self.datasources[uid] = {**defaults, "uid": uid, "orgId": self.number, **given, **numbers, "readOnly": False}
        self.secrets.setdefault(uid, {}).update(body.get("secureJsonData") or {})
        return {
            "datasource": self.get_datasource(uid),
            "id": numbers["id"],
            "message": f"Datasource {done}",
            "name": body["name"],
        }

    def get_health(self, uid: str) -> Json:
        _there(self.datasources, uid, "Data source not found")
        if not self.server.datasource_answers:
            raise RefusedError(400, f"dial tcp: refused for {self.secrets[uid].get('password')}")
        return {"status": "OK", "message": "Data source is working"}

    # Dashboards.

    def get_dashboard(self, uid: str) -> Json:
        newest = _there(self.dashboards, uid, "Dashboard not found", traceID="")[-1]
        dashboard = newest["dashboard"]
        meta = forms.meta(newest, self.folders.get(newest["folder"]), is_from_file=uid in self.from_files)
        rewritten = {"schemaVersion": 99, "preload": False} if self.server.rewrites else {}
        return {"dashboard": dashboard | rewritten, "meta": meta}

    def get_versions(self, uid: str, query: dict[str, str]) -> Json:
        versions = _there(self.dashboards, uid, "Dashboard not found")
        found = [forms.version(self.server.number("version"), n, each) for n, each in enumerate(versions, start=1)][
            ::-1
        ][: int(query.get("limit", 1000))]
        return found if self.server.lists_versions_bare else {"continueToken": "", "versions": found}

    def post_dashboard(self, body: Json) -> Json:
        dashboard = body["dashboard"]
        uid = _valid_uid(dashboard["uid"])
        if not dashboard.get("title"):
            raise RefusedError(400, "Dashboard title cannot be empty", status="empty-name")
        if body["folderUid"] not in self.folders:
            raise RefusedError(400, "folder not found")
        if uid in self.from_files:
            raise RefusedError(400, "Cannot save provisioned dashboard")
        versions = self.dashboards.get(uid, [])
        if versions and dashboard.get("version") != len(versions) and not body.get("overwrite"):
            raise RefusedError(412, "The dashboard has been changed by someone else", status="version-mismatch")
        number = versions[0]["dashboard"]["id"] if versions else self.server.number("dashboard")
        kept = {**dashboard, "id": number, "version": len(versions) + 1}
        saved = {"dashboard": kept, "folder": body["folderUid"], "message": body.get("message", "")}
        self.dashboards[uid] = [*versions, saved]
        more = {"slug": forms.slug(kept["title"]), "uid": uid, "url": forms.url(kept), "version": kept["version"]}
        return {"id": number, "status": "success", **more}

    def delete_dashboard(self, uid: str) -> Json:
        self.get_dashboard(uid)
        if uid in self.from_files:
            raise RefusedError(400, "provisioned dashboard cannot be deleted")
        del self.dashboards[uid]
        return {"message": "Dashboard deleted"}

    def get_search(self, query: dict[str, str]) -> Json:
        if query["type"] == "dash-folder":
            return [{"uid": folder["uid"], "title": folder["title"]} for folder in self.folders.values()]
        found = sorted((versions[-1] for versions in self.dashboards.values()), key=_title)
        return [
            forms.found(each["dashboard"], self.folders[each["folder"]])
            for each in found
            if query.get("folderUIDs", each["folder"]) == each["folder"]
        ]

    # Alert rules.

    def get_rules(self) -> Json:
        return [forms.rule_as_read(rule) for rule in self.rules.values()]

    def get_rule_group(self, folder: str, title: str) -> Json:
        rules = [rule for rule in self.rules.values() if (rule["folderUID"], rule["ruleGroup"]) == (folder, title)]
        if not rules:
            raise RefusedError(404, "rulegroup not found", traceID="")
        shown = [forms.rule_as_read(rule) for rule in rules]
        return {"title": title, "folderUid": folder, "interval": self.intervals[folder, title], "rules": shown}

    def put_rule_group(self, folder: str, title: str, body: Json) -> Json:
        """Replace the group: unknown uids are added, others are taken out."""
        if folder not in self.folders:
            raise RefusedError(403, "folder does not exist")
        if body["interval"] % 10:
            raise RefusedError(400, "interval should be non-zero and divided exactly by scheduler interval")
        for rule in body["rules"]:
            _check_rule(rule)
        gone = {uid for uid, rule in self.rules.items() if (rule["folderUID"], rule["ruleGroup"]) == (folder, title)}
        for rule in body["rules"]:
            self._keep_rule(folder, title, rule)
        for uid in gone - {rule["uid"] for rule in body["rules"]}:
            del self.rules[uid]
        self.intervals[folder, title] = body["interval"]
        rules = [
            {"updated": forms.NO_TIME, **forms.without(rule, "isPaused"), "id": 0, "orgID": 0, "ruleGroup": title}
            for rule in body["rules"]
        ]
        return {**body, "rules": rules}

    def _keep_rule(self, folder: str, title: str, rule: Json) -> None:
        held = self.rules.get(rule["uid"])
        if held and held.get("provenance") == "file" and forms.rule_as_read(held) != rule:
            raise RefusedError(403, "cannot change provenance from 'file' to 'api'")
        number = self.server.number("rule") if held is None else held["id"]
        place = {"orgID": self.number, "folderUID": folder, "ruleGroup": title, "id": number, "updated": forms.TIME}
        self.rules[rule["uid"]] = {"isPaused": False, **rule, **place}

    def get_rule_states(self) -> Json:
        """Return states of all rules: without rows each has one instance, whose texts are filled in too."""
        groups: dict[tuple[str, str], list[Json]] = {}
        for rule in self.rules.values():
            state = {"name": rule["title"], "state": "inactive", "health": "ok", "alerts": self._alerts(rule)}
            groups.setdefault((rule["folderUID"], rule["ruleGroup"]), []).append(state)
        listed = [
            {"name": title, "file": self.folders[folder]["title"], "rules": rules}
            for (folder, title), rules in groups.items()
        ]
        return {"status": "success", "data": {"groups": listed}}

    def _alerts(self, rule: Json) -> list[Json]:
        try:
            return [vars(each) for each in instances(rule, {})]
        except TemplateError as error:
            self.server.log.append(str(error))
            return []

    # Service accounts.

    def post_serviceaccounts(self, body: Json) -> Json:
        return {"id": self.server.number("account"), "orgId": self.number, **body}

    def delete_serviceaccount(self, account: str) -> Json:
        """Delete an account with its tokens, which would outlive their organisation."""
        for key in [key for key in self.server.tokens if key.startswith(f"glsa_{account}_")]:
            del self.server.tokens[key]
        return {"message": "Service account deleted"}

    def post_token(self, account: str, body: Json) -> Json:
        key = f"glsa_{account}_{self.number}"
        self.server.tokens[key] = self.number
        return {"id": self.server.number("token"), "name": body["name"], "key": key}

    def delete_rule(self, uid: str) -> Json:
        self.rules.pop(uid, None)


def _title(saved: Json) -> str:
    return str(saved["dashboard"]["title"])


def _there(held: dict[str, Json], uid: str, message: str, **more: str) -> Json:
    """Return the item of a uid; refuse an unknown one."""
    if uid not in held:
        raise RefusedError(404, message, **more)
    return held[uid]


def _valid_uid(uid: str) -> str:
    """Return a uid; refuse an invalid one."""
    if not _UID.fullmatch(uid):
        raise RefusedError(400, "uid contains illegal characters or is too long")
    return uid


def _check_rule(rule: Json) -> None:
    """Refuse a rule that Grafana would refuse."""
    _valid_uid(rule["uid"])
    notes = rule.get("annotations", {})
    if ("__dashboardUid__" in notes) != ("__panelId__" in notes) or not notes.get("__panelId__", "0").isdigit():
        raise RefusedError(400, "both annotations __dashboardUid__ and __panelId__ must be specified")
    if rule["condition"] not in {query["refId"] for query in rule["data"]}:
        raise RefusedError(400, "condition does not exist")
    if not _DURATION.fullmatch(rule["for"]):
        raise RefusedError(400, "not a valid duration string")
    for name, states in _STATES.items():
        if rule[name] not in states:
            raise RefusedError(400, f"unknown {name}")
