"""A Grafana for tests: stores what is written, refuses what the real API refuses, and records every request.

Written after Grafana 11 to 13: organisations want basic authentication; what is addressed by number is gone;
dashboards, folders and data sources have versions, and a stale one is refused; a group of rules is replaced whole;
secrets go in only.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

Json = Any

USER, PASSWORD, TOKEN = "admin", "gr4fana-s3cret", "glsa_t0ken"
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
class Org:
    """The contents of one organisation."""

    number: int
    name: str
    members: set[str]
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


@dataclass(frozen=True)
class Call:
    """One request as it came; `org` is the header's."""

    method: str
    path: str
    org: str | None
    body: str


class FakeGrafana:
    """The state of the server; `url` is where it listens."""

    def __init__(self) -> None:
        self.orgs = {1: Org(1, "Main Org.", {USER})}
        self.calls: list[Call] = []
        self.url = ""
        #: The connection breaks after this many writes, as if the client or the server had been killed.
        self.writes_left: int | None = None
        #: Whether dashboards are read back in another form than they were written, as from Grafana 12 on.
        self.rewrites = False
        #: Organisations that are there, but in no list.
        self.hidden_orgs: set[str] = set()
        self.datasource_answers = True
        #: Status with which data sources are refused, with the request in the message; None accepts them.
        self.answers_datasources_with: int | None = None
        #: Whether every request is sent elsewhere, as by a proxy that wants HTTPS.
        self.redirects = False

    @property
    def writes(self) -> list[Call]:
        """The requests that arrived and could change something."""
        return [call for call in self.calls if call.method != "GET"]

    def org(self, name: str) -> Org:
        return next(org for org in self.orgs.values() if org.name == name)

    def holds(self) -> Json:
        """Return all contents without versions and times, to compare two servers."""
        held = {}
        for org in self.orgs.values():
            held[org.name] = {
                "teams": org.teams,
                "folders": org.folders,
                "permissions": org.permissions,
                "datasources": {
                    uid: {k: v for k, v in each.items() if k != "version"} for uid, each in org.datasources.items()
                },
                "secrets": org.secrets,
                "dashboards": {uid: versions[-1]["dashboard"] for uid, versions in org.dashboards.items()},
                "rules": org.rules,
                "intervals": {"/".join(key): seconds for key, seconds in org.intervals.items()},
                "policies": org.policies,
            }
        return json.loads(json.dumps(held))

    def edit_dashboard(self, org: str, uid: str, **changed: Json) -> None:
        """Save a dashboard as somebody does in the browser."""
        versions = self.org(org).dashboards[uid]
        newest = versions[-1]
        dashboard = {**newest["dashboard"], **changed, "version": len(versions) + 1}
        versions.append({"dashboard": dashboard, "folder": newest["folder"], "message": ""})

    # Organisations.

    def _route_get_orgs(self, query: dict[str, str]) -> Json:
        size, page = int(query.get("perpage", 1000)), int(query.get("page", 0))
        orgs = sorted(self.orgs.values(), key=lambda org: org.number)[page * size : (page + 1) * size]
        orgs = [org for org in orgs if org.name not in self.hidden_orgs]
        return [{"id": org.number, "name": org.name} for org in orgs]

    def _route_post_orgs(self, body: Json) -> Json:
        if body["name"] in {org.name for org in self.orgs.values()}:
            raise RefusedError(409, "Organization name taken")
        number = max(self.orgs) + 1
        self.orgs[number] = Org(number, body["name"], {USER})
        return {"orgId": number, "message": "Organization created"}

    # Teams, folders and who may see them.

    def _get_teams_search(self, org: Org, query: dict[str, str]) -> Json:
        found = [team for team in org.teams if query.get("name", team["name"]) == team["name"]]
        return {"totalCount": len(found), "teams": found, "page": 1, "perPage": 1000}

    def _post_teams(self, org: Org, body: Json) -> Json:
        if body["name"] in {team["name"] for team in org.teams}:
            raise RefusedError(409, "Team name taken")
        org.teams.append({"id": len(org.teams) + 1, "name": body["name"], "orgId": org.number})
        return {"teamId": len(org.teams), "message": "Team created"}

    def _get_folder(self, org: Org, uid: str) -> Json:
        return _there(org.folders, uid, "folder not found")

    def _post_folders(self, org: Org, body: Json) -> Json:
        uid = _valid_uid(body["uid"])
        if uid in org.folders:
            raise RefusedError(409, "the folder has been changed by someone else")
        org.folders[uid] = {"uid": uid, "title": body["title"], "version": 1}
        org.permissions[uid] = [{"role": "Editor", "permission": 2}, {"role": "Viewer", "permission": 1}]
        return org.folders[uid]

    def _put_folder(self, org: Org, uid: str, body: Json) -> Json:
        folder = self._get_folder(org, uid)
        if body.get("version") != folder["version"] and not body.get("overwrite"):
            raise RefusedError(412, "the folder has been changed by someone else", status="version-mismatch")
        folder.update(title=body["title"], version=folder["version"] + 1)
        return folder

    def _get_permissions(self, org: Org, uid: str) -> Json:
        self._get_folder(org, uid)
        inherited = {"role": "Admin", "permission": 4, "inherited": True}
        return [inherited, *({"teamId": 0, "userId": 0, "role": "", **item} for item in org.permissions[uid])]

    def _post_permissions(self, org: Org, uid: str, body: Json) -> Json:
        self._get_folder(org, uid)
        for item in body["items"]:
            if len({"teamId", "userId", "role"} & item.keys()) != 1:
                raise RefusedError(400, "a permission is of one team, user or role")
            if "teamId" in item and item["teamId"] not in {team["id"] for team in org.teams}:
                raise RefusedError(400, "team not found")
        org.permissions[uid] = body["items"]
        return {"message": "Folder permissions updated"}

    # Data sources.

    def _get_datasource(self, org: Org, uid: str) -> Json:
        found = _there(org.datasources, uid, "Data source not found")
        return {**found, "secureJsonFields": dict.fromkeys(org.secrets[uid], True)}

    def _post_datasources(self, org: Org, body: Json) -> Json:
        uid = _valid_uid(body["uid"])
        if self.answers_datasources_with is not None:
            raise RefusedError(self.answers_datasources_with, f"bad data: {body['secureJsonData']} of {body}")
        if uid in org.datasources or body["name"] in {each["name"] for each in org.datasources.values()}:
            raise RefusedError(409, "data source with the same name already exists")
        return self._keep_datasource(org, uid, body, 1)

    def _put_datasource(self, org: Org, uid: str, body: Json) -> Json:
        held = _there(org.datasources, uid, "Data source not found")
        if held.get("readOnly"):
            raise RefusedError(403, "Cannot update read-only data source")
        if body.get("version") not in {None, held["version"]}:
            raise RefusedError(409, "Datasource has already been updated by someone else. Please reload and try again")
        return self._keep_datasource(org, uid, body, held["version"] + 1)

    def _keep_datasource(self, org: Org, uid: str, body: Json, version: int) -> Json:
        for name in ("name", "type", "access"):
            if not body.get(name):
                raise RefusedError(400, f"bad request data: {name}")
        known = ("uid", "name", "type", "access", "jsonData", "isDefault")
        org.datasources[uid] = {k: body[k] for k in known if k in body} | {"version": version, "orgId": org.number}
        org.secrets.setdefault(uid, {}).update(body.get("secureJsonData") or {})
        return {"message": "Datasource saved", "datasource": self._get_datasource(org, uid)}

    def _get_health(self, org: Org, uid: str) -> Json:
        _there(org.datasources, uid, "Data source not found")
        if not self.datasource_answers:
            raise RefusedError(400, f"dial tcp: refused for {org.secrets[uid].get('password')}")
        return {"status": "OK", "message": "Data source is working"}

    # Dashboards.

    def _get_dashboard(self, org: Org, uid: str) -> Json:
        newest = _there(org.dashboards, uid, "Dashboard not found")[-1]
        dashboard = newest["dashboard"] | ({"schemaVersion": 99, "preload": False} if self.rewrites else {})
        meta = {"folderUid": newest["folder"], "version": dashboard["version"], "provisioned": uid in org.from_files}
        return {"dashboard": dashboard, "meta": meta}

    def _get_versions(self, org: Org, uid: str, query: dict[str, str]) -> Json:
        versions = _there(org.dashboards, uid, "Dashboard not found")
        found = [
            {"version": n, "message": each["message"] if n > 1 else "Initial save"}
            for n, each in enumerate(versions, start=1)
        ]
        return {"versions": found[::-1][: int(query.get("limit", 1000))]}

    def _post_dashboard(self, org: Org, body: Json) -> Json:
        dashboard = body["dashboard"]
        uid = _valid_uid(dashboard["uid"])
        if not dashboard.get("title"):
            raise RefusedError(400, "Dashboard title cannot be empty", status="empty-name")
        if body["folderUid"] not in org.folders:
            raise RefusedError(400, "folder not found")
        if uid in org.from_files:
            raise RefusedError(400, "Cannot save provisioned dashboard")
        versions = org.dashboards.setdefault(uid, [])
        if versions and dashboard.get("version") != len(versions) and not body.get("overwrite"):
            raise RefusedError(412, "The dashboard has been changed by someone else", status="version-mismatch")
        number = len(versions) + 1
        kept = {**dashboard, "id": 100 + sorted(org.dashboards).index(uid), "version": number}
        versions.append({"dashboard": kept, "folder": body["folderUid"], "message": body.get("message", "")})
        return {"status": "success", "uid": uid, "version": number}

    def _delete_dashboard(self, org: Org, uid: str) -> Json:
        self._get_dashboard(org, uid)
        if uid in org.from_files:
            raise RefusedError(400, "provisioned dashboard cannot be deleted")
        del org.dashboards[uid]
        return {"message": "Dashboard deleted"}

    def _get_search(self, org: Org, query: dict[str, str]) -> Json:
        return [
            {"uid": uid, "title": versions[-1]["dashboard"]["title"], "type": "dash-db"}
            for uid, versions in org.dashboards.items()
            if versions[-1]["folder"] == query["folderUIDs"]
        ]

    # Alert rules.

    def _get_rules(self, org: Org) -> Json:
        return list(org.rules.values())

    def _get_rule_group(self, org: Org, folder: str, title: str) -> Json:
        rules = [rule for rule in org.rules.values() if (rule["folderUID"], rule["ruleGroup"]) == (folder, title)]
        if not rules:
            raise RefusedError(404, "rule group not found")
        return {"title": title, "folderUid": folder, "interval": org.intervals[folder, title], "rules": rules}

    def _put_rule_group(self, org: Org, folder: str, title: str, body: Json) -> Json:
        if folder not in org.folders:
            raise RefusedError(403, "folder does not exist")
        if body["interval"] % 10:
            raise RefusedError(400, "interval should be non-zero and divided exactly by scheduler interval")
        for rule in body["rules"]:
            _check_rule(rule)
        gone = {uid for uid, rule in org.rules.items() if (rule["folderUID"], rule["ruleGroup"]) == (folder, title)}
        for rule in body["rules"]:
            held = org.rules.get(rule["uid"])
            if held and held["provenance"] == "file" and rule != held:
                raise RefusedError(403, "cannot change provenance from 'file' to 'api'")
            provenance = held["provenance"] if held == rule else "api"
            org.rules[rule["uid"]] = {
                "isPaused": False,
                **rule,
                "orgID": org.number,
                "folderUID": folder,
                "ruleGroup": title,
                "provenance": provenance,
            }
        for uid in gone - {rule["uid"] for rule in body["rules"]}:
            del org.rules[uid]
        org.intervals[folder, title] = body["interval"]
        return body

    def _delete_rule(self, org: Org, uid: str) -> Json:
        org.rules.pop(uid, None)
        return None

    # The routes of requests.

    ROUTES: ClassVar[list[tuple[str, str, str]]] = [
        ("GET", r"/teams/search", "_get_teams_search"),
        ("POST", r"/teams", "_post_teams"),
        ("GET", r"/folders/([^/]+)", "_get_folder"),
        ("POST", r"/folders", "_post_folders"),
        ("PUT", r"/folders/([^/]+)", "_put_folder"),
        ("GET", r"/folders/([^/]+)/permissions", "_get_permissions"),
        ("POST", r"/folders/([^/]+)/permissions", "_post_permissions"),
        ("GET", r"/datasources/uid/([^/]+)", "_get_datasource"),
        ("POST", r"/datasources", "_post_datasources"),
        ("PUT", r"/datasources/uid/([^/]+)", "_put_datasource"),
        ("GET", r"/datasources/uid/([^/]+)/health", "_get_health"),
        ("GET", r"/dashboards/uid/([^/]+)", "_get_dashboard"),
        ("GET", r"/dashboards/uid/([^/]+)/versions", "_get_versions"),
        ("POST", r"/dashboards/db", "_post_dashboard"),
        ("DELETE", r"/dashboards/uid/([^/]+)", "_delete_dashboard"),
        ("GET", r"/search", "_get_search"),
        ("GET", r"/v1/provisioning/alert-rules", "_get_rules"),
        ("DELETE", r"/v1/provisioning/alert-rules/([^/]+)", "_delete_rule"),
        ("GET", r"/v1/provisioning/folder/([^/]+)/rule-groups/([^/]+)", "_get_rule_group"),
        ("PUT", r"/v1/provisioning/folder/([^/]+)/rule-groups/([^/]+)", "_put_rule_group"),
    ]

    def answer(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> Json:
        """Answer one request, or raise RefusedError."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/grafana/api").removeprefix("/api")
        self.calls.append(Call(method, path, headers.get("x-grafana-org-id"), raw.decode()))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        is_token = self._let_in(headers.get("authorization", ""))
        if path == "/orgs":
            if is_token:
                raise RefusedError(403, "You'll need additional permissions to perform this action")
            return self._route_get_orgs(query) if method == "GET" else self._route_post_orgs(json.loads(raw))
        org = self._org(headers, is_token=is_token)
        for wanted, pattern, name in self.ROUTES:
            found = re.fullmatch(pattern, path)
            if wanted == method and found:
                handler = getattr(self, name)
                arguments = [unquote(each) for each in found.groups()]
                takes = handler.__code__.co_varnames[: handler.__code__.co_argcount]
                more = {"query": query} if "query" in takes else {"body": json.loads(raw)} if "body" in takes else {}
                return handler(org, *arguments, **more)
        raise RefusedError(404, "Not found")

    def _let_in(self, authorization: str) -> bool:
        """Return whether a request has the token; refuse unknown users."""
        if authorization == f"Bearer {TOKEN}":
            return True
        kind, _, rest = authorization.partition(" ")
        if kind != "Basic" or b64decode(rest).decode() != f"{USER}:{PASSWORD}":
            raise RefusedError(401, "Invalid username or password")
        return False

    def _org(self, headers: dict[str, str], *, is_token: bool) -> Org:
        """Return the organisation of a request."""
        number = 1 if is_token else int(headers.get("x-grafana-org-id", 1))
        if number not in self.orgs or USER not in self.orgs[number].members:
            raise RefusedError(403, "You are not a member of the organization")
        return self.orgs[number]


def _there(held: dict[str, Json], uid: str, message: str) -> Json:
    """Return the item of a uid; refuse an unknown one."""
    if uid not in held:
        raise RefusedError(404, message)
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


@contextmanager
def fake_grafana() -> Iterator[FakeGrafana]:
    """Serve on a free port, under a path as behind a proxy, for a block."""
    state = FakeGrafana()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # One packet an answer: two would wait 40 ms for one another.
        wbufsize = -1

        def _handle(self) -> None:
            raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.command != "GET" and state.writes_left is not None:
                if state.writes_left == 0:
                    self.close_connection = True
                    return
                state.writes_left -= 1
            try:
                status, body = (
                    HTTPStatus.OK,
                    state.answer(
                        self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, raw
                    ),
                )
            except RefusedError as refused:
                status, body = HTTPStatus(refused.code), refused.body
            content = b"" if body is None else json.dumps(body).encode()
            if self.path.startswith("/not-json"):
                status, content = HTTPStatus.OK, b"<html>"
            if state.redirects:
                status = HTTPStatus.MOVED_PERMANENTLY
            self.send_response(HTTPStatus.NO_CONTENT if body is None else status)
            if state.redirects:
                self.send_header("Location", f"{state.url}/elsewhere")
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_DELETE = _handle  # noqa: N815 - the library's names

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library names it
            """Keep quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        state.url = f"http://127.0.0.1:{server.server_port}/grafana"
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield state
        finally:
            server.shutdown()
            thread.join()
