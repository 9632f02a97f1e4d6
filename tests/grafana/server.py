"""A Grafana for tests: stores what is written, refuses what the real API refuses, and records every request.

Organisations want basic authentication; a request that names none is about that of the user or of the token;
dashboards, folders and data sources have versions, and a stale one is refused; secrets go in only.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.grafana.forms import USER
from tests.grafana.organisation import Org, RefusedError, Server

Json = Any

PASSWORD, TOKEN = "gr4fana-s3cret", "glsa_t0ken"
_GROUP = r"/v1/provisioning/folder/([^/]+)/rule-groups/([^/]+)"
#: Requests about one organisation: method, path, and the method of Org that answers.
_ROUTES = (
    ("GET", r"/org", "get_org"),
    ("GET", r"/org/preferences", "get_preferences"),
    ("PUT", r"/org/preferences", "put_preferences"),
    ("PATCH", r"/org/preferences", "patch_preferences"),
    ("GET", r"/teams/search", "get_teams_search"),
    ("POST", r"/teams", "post_teams"),
    ("GET", r"/folders/([^/]+)", "get_folder"),
    ("POST", r"/folders", "post_folders"),
    ("PUT", r"/folders/([^/]+)", "put_folder"),
    ("GET", r"/folders/([^/]+)/permissions", "get_permissions"),
    ("POST", r"/folders/([^/]+)/permissions", "post_permissions"),
    ("GET", r"/datasources/uid/([^/]+)", "get_datasource"),
    ("GET", r"/datasources", "get_datasources"),
    ("POST", r"/datasources", "post_datasources"),
    ("PUT", r"/datasources/uid/([^/]+)", "put_datasource"),
    ("GET", r"/datasources/uid/([^/]+)/health", "get_health"),
    ("GET", r"/dashboards/uid/([^/]+)", "get_dashboard"),
    ("GET", r"/dashboards/uid/([^/]+)/versions", "get_versions"),
    ("POST", r"/dashboards/db", "post_dashboard"),
    ("DELETE", r"/dashboards/uid/([^/]+)", "delete_dashboard"),
    ("GET", r"/search", "get_search"),
    ("GET", r"/v1/provisioning/alert-rules", "get_rules"),
    ("DELETE", r"/v1/provisioning/alert-rules/([^/]+)", "delete_rule"),
    ("GET", r"/prometheus/grafana/api/v1/rules", "get_rule_states"),
    ("POST", r"/serviceaccounts", "post_serviceaccounts"),
    ("DELETE", r"/serviceaccounts/([^/]+)", "delete_serviceaccount"),
    ("POST", r"/serviceaccounts/([^/]+)/tokens", "post_token"),
    ("GET", _GROUP, "get_rule_group"),
    ("PUT", _GROUP, "put_rule_group"),
)


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
        self.server = Server()
        self.orgs = {1: Org(1, "Main Org.", {USER}, self.server)}
        self.server.tokens[TOKEN] = 1
        #: The organisation that the user has chosen last.
        self.users_org = 1
        self.calls: list[Call] = []
        self.url = ""
        #: The connection breaks after this many writes, as if the client or the server had been killed.
        self.writes_left: int | None = None
        #: Organisations that are there, but in no list.
        self.hidden_orgs: set[str] = set()
        #: Whether every request is sent elsewhere, as by a proxy that wants HTTPS.
        self.redirects = False

    @property
    def writes(self) -> list[Call]:
        """The requests that arrived and could change something."""
        return [call for call in self.calls if call.method != "GET"]

    def org(self, name: str) -> Org:
        return next(org for org in self.orgs.values() if org.name == name)

    def holds(self) -> Json:
        """Return all contents without versions and numbers, to compare two servers."""
        return json.loads(json.dumps({org.name: org.holds() for org in self.orgs.values()}))

    def edit_dashboard(self, org: str, uid: str, **changed: Json) -> None:
        """Save a dashboard as somebody does in the browser."""
        versions = self.org(org).dashboards[uid]
        newest = versions[-1]
        dashboard = {**newest["dashboard"], **changed, "version": len(versions) + 1}
        versions.append({"dashboard": dashboard, "folder": newest["folder"], "message": ""})

    def make_organisation(self, name: str) -> int:
        """Return the number of a new organisation."""
        if name in {org.name for org in self.orgs.values()}:
            raise RefusedError(409, "Organization name taken", traceID="")
        number = max(self.orgs) + 1
        self.orgs[number] = Org(number, name, {USER}, self.server)
        return number

    def answer(self, method: str, target: str, headers: dict[str, str], raw: bytes) -> Json:
        """Answer one request, or raise RefusedError."""
        parts = urlsplit(target)
        path = parts.path.removeprefix("/grafana").removeprefix("/api")
        self.calls.append(Call(method, path, headers.get("x-grafana-org-id"), raw.decode()))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        token = self._let_in(headers.get("authorization", ""))
        if path.startswith("/orgs"):
            if token:
                raise RefusedError(403, "You'll need additional permissions to perform this action")
            return self._answer_of_server(method, path, query, json.loads(raw or b"null"))
        org = self._org(headers, token)
        for wanted, pattern, name in _ROUTES:
            found = re.fullmatch(pattern, path)
            if wanted == method and found:
                handler = getattr(org, name)
                arguments = [unquote(each) for each in found.groups()]
                takes = handler.__code__.co_varnames[: handler.__code__.co_argcount]
                more = {"query": query} if "query" in takes else {"body": json.loads(raw)} if "body" in takes else {}
                return handler(*arguments, **more)
        raise RefusedError(404, "Not found")

    def _answer_of_server(self, method: str, path: str, query: dict[str, str], body: Json) -> Json:
        """Answer a request about organisations; their pages are counted from 0."""
        if (method, path) == ("POST", "/orgs"):
            return {"orgId": self.make_organisation(body["name"]), "message": "Organization created"}
        if (method, path) == ("GET", "/orgs"):
            size, page = int(query.get("perpage", 1000)), int(query.get("page", 0))
            listed = [org for _, org in sorted(self.orgs.items()) if org.name not in self.hidden_orgs]
            return [{"id": org.number, "name": org.name} for org in listed[page * size : (page + 1) * size]]
        kind, _, key = path.removeprefix("/orgs/").rpartition("/")
        found = [org for org in self.orgs.values() if unquote(key) == (org.name if kind == "name" else str(org.number))]
        if not found:
            raise RefusedError(404, "Organization not found", traceID="")
        if method == "DELETE":
            del self.orgs[found[0].number]
            return {"message": "Organization deleted"}
        return found[0].get_org()

    def _let_in(self, authorization: str) -> str:
        """Return the token of a request, empty if it has a password; refuse unknown users."""
        kind, _, rest = authorization.partition(" ")
        if kind == "Bearer" and rest in self.server.tokens:
            return rest
        if kind != "Basic" or b64decode(rest).decode() != f"{USER}:{PASSWORD}":
            raise RefusedError(401, "invalid username or password", traceID="")
        return ""

    def _org(self, headers: dict[str, str], token: str) -> Org:
        """Return the organisation of a request: of the token, of the header, or the user's own."""
        own = self.server.tokens[token] if token else self.users_org
        number = int(headers.get("x-grafana-org-id", own))
        if number not in self.orgs:
            raise RefusedError(404, "Organization not found", traceID="")
        if USER not in self.orgs[number].members or (token and number != own):
            raise RefusedError(403, "You are not a member of the organization")
        return self.orgs[number]


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
            headers = {name.lower(): value for name, value in self.headers.items()}
            status = HTTPStatus.OK
            try:
                body = state.answer(self.command, self.path, headers, raw)
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

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the library's names

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
