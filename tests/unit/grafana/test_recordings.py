"""The stand-in answers what a real Grafana answered: recorded requests are sent again, and answers compared."""

import gzip
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.grafana.forms import USER
from tests.grafana.organisation import RefusedError
from tests.grafana.server import PASSWORD, FakeGrafana

RECORDED = Path(__file__).parents[2] / "data" / "grafana" / "api.json.gz"
# Times, and numbers that Grafana chooses; the recording blanks secrets.
CHOSEN = {"created", "updated", "secureJsonFields", "id", "dashboardId", "folderId", "homeDashboardId", "accessControl"}


def recorded() -> list[dict[str, Any]]:
    found = json.loads(gzip.decompress(RECORDED.read_bytes()))
    assert isinstance(found, list)
    return found


def asked(grafana: FakeGrafana, request: dict[str, Any], *, is_known: bool) -> tuple[int, Any]:
    """Return status and body of the stand-in's answer to a recorded request."""
    credentials = b64encode(f"{USER}:{PASSWORD if is_known else 'wrong'}".encode()).decode()
    headers = {"authorization": f"{request['auth']} {credentials}"}
    if "org" in request:
        headers["x-grafana-org-id"] = request["org"]
    try:
        raw = json.dumps(request.get("body")).encode()
        return 200, json.loads(json.dumps(grafana.answer(request["method"], request["path"], headers, raw)))
    except RefusedError as refused:
        return refused.code, refused.body


def comparable(value: Any, name: str = "") -> Any:
    """Return what must be equal: kinds of what Grafana chooses, all else as it is."""
    if name in CHOSEN:
        return type(value).__name__
    if isinstance(value, dict):
        return {key: comparable(each, key) for key, each in value.items()}
    if isinstance(value, list):
        made = [comparable(each) for each in value]
        is_permissions = any(isinstance(each, dict) and "permissionName" in each for each in made)
        # Grafana gives roles in any order.
        return sorted(made, key=json.dumps) if is_permissions else made
    return value


def test_recorded_requests_answered_as_grafana_did() -> None:
    grafana = FakeGrafana()
    requests = recorded()
    assert {each["answer"]["status"] for each in requests} == {200, 401, 404, 409, 412}
    for number, each in enumerate(requests):
        request, answer = each["request"], each["answer"]
        status, body = asked(grafana, request, is_known=answer["status"] != 401)
        place = f"{number}: {request['method']} {request['path']}"
        assert status == answer["status"], place
        assert comparable(body) == comparable(answer["body"]), place


def test_numbers_of_folders_and_dashboards_from_one_series() -> None:
    grafana = FakeGrafana()
    for each in recorded():
        status, body = asked(grafana, each["request"], is_known=each["answer"]["status"] != 401)
        is_made = each["request"]["path"] in {"/api/folders", "/api/dashboards/db"} and status == 200
        assert not is_made or body["id"] == each["answer"]["body"]["id"]


def answered(grafana: FakeGrafana, method: str, path: str, body: Any = None, org: str = "") -> tuple[int, Any]:
    about = {"org": org} if org else {}
    return asked(grafana, {"method": method, "path": path, "auth": "Basic", "body": body, **about}, is_known=True)


def test_request_without_organisation_is_about_the_users_own() -> None:
    grafana = FakeGrafana()
    grafana.users_org = grafana.make_organisation("somebody's")
    assert answered(grafana, "POST", "/api/teams", {"name": "t"})[0] == 200
    assert [team["name"] for team in grafana.org("somebody's").teams] == ["t"]
    assert grafana.orgs[1].teams == []


def test_permission_of_nobody_refused_as_grafana_does() -> None:
    grafana = FakeGrafana()
    answered(grafana, "POST", "/api/folders", {"uid": "f", "title": "F"})
    path = "/api/folders/f/permissions"
    assert answered(grafana, "POST", path, {"items": [{"teamId": 0, "permission": 1}]})[0] == 500
    assert [each["permission"] for each in answered(grafana, "GET", path)[1]] == [4, 2, 1]


def test_same_uid_stands_in_every_organisation() -> None:
    grafana = FakeGrafana()
    other = str(grafana.make_organisation("other"))
    for org in ("1", other):
        assert answered(grafana, "POST", "/api/folders", {"uid": "f", "title": "F"}, org)[0] == 200
    assert answered(grafana, "POST", "/api/folders", {"uid": "f", "title": "G"}, other)[0] == 412
