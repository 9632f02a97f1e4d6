"""The forms in which Grafana shows what an organisation of the stand-in holds, with all of their fields."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

Json = Any

USER = "admin"
TIME = "2026-11-23T12:09:20Z"
NO_TIME = "0001-01-01T00:00:00Z"
ADDRESS = ("address1", "address2", "city", "zipCode", "state", "country")
DATASOURCE_TEXTS = ("typeLogoUrl", "url", "user", "database", "basicAuthUser")
DATASOURCE_SWITCHES = ("basicAuth", "withCredentials", "isDefault")
_FACE = "/public/img/user_profile.png"
_PERMISSIONS = {1: "View", 2: "Edit", 4: "Admin"}
_MAY = {"canAdd": True, "canEdit": True, "canDelete": True}


def without(held: Mapping[str, Json], *names: str) -> dict[str, Json]:
    return {name: value for name, value in held.items() if name not in names}


def rule_as_read(rule: Json) -> Json:
    """Return a rule as it is read: fields that are false or empty are left out."""
    return rule if rule["isPaused"] else without(rule, "isPaused")


def slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def url(dashboard: Json) -> str:
    return f"/d/{dashboard['uid']}/{slug(dashboard['title'])}"


def folder_url(folder: Json) -> str:
    return f"/dashboards/f/{folder['uid']}/{slug(folder['title'])}"


def team(number: int, org: int, name: str) -> Json:
    """Return a team with its maker as the only member."""
    more = {"email": "", "avatarUrl": _FACE, "memberCount": 1, "permission": 0, "accessControl": None}
    return {"id": number, "orgId": org, "name": name, **more}


def folder(held: Json) -> Json:
    """Return a folder as its administrator reads it."""
    may = dict.fromkeys(("canSave", "canEdit", "canAdmin", "canDelete"), True)
    made = {"createdBy": USER, "created": TIME, "updatedBy": USER, "updated": TIME}
    return {**held, "url": folder_url(held), "hasAcl": False, **may, **made}


def permission(folder: Json, item: Json, teams: Sequence[Json]) -> Json:
    """Return a permission as it is read: 0 and empty where a field does not apply, no role but of roles."""
    user, team = item.get("userId", 0), item.get("teamId", 0)
    name = next((each["name"] for each in teams if each["id"] == team), "")
    return {
        "folderId": folder["id"],
        "created": TIME,
        "updated": TIME,
        "userId": user,
        "userLogin": USER if user else "",
        "userEmail": f"{USER}@localhost" if user else "",
        "userAvatarUrl": _FACE,
        "teamId": team,
        "teamEmail": "",
        "teamAvatarUrl": _FACE if team else "",
        "team": name,
        **({"role": item["role"]} if "role" in item else {}),
        "permission": item["permission"],
        "permissionName": _PERMISSIONS[item["permission"]],
        "uid": folder["uid"],
        "title": folder["title"],
        "slug": slug(folder["title"]),
        "isFolder": True,
        "url": folder_url(folder),
        "inherited": False,
    }


def meta(saved: Json, folder: Json | None, *, is_from_file: bool) -> Json:
    """Return what stands beside a dashboard where it is read."""
    dashboard = saved["dashboard"]
    return {
        "type": "db",
        **dict.fromkeys(("canSave", "canEdit", "canAdmin", "canStar", "canDelete"), True),
        "slug": slug(dashboard["title"]),
        "url": url(dashboard),
        "expires": NO_TIME,
        "created": TIME,
        "updated": TIME,
        "updatedBy": USER,
        "createdBy": USER,
        "version": dashboard["version"],
        **dict.fromkeys(("hasAcl", "isFolder", "hasPublicDashboard", "publicDashboardEnabled"), False),
        **({} if folder is None else {"folderId": folder["id"]}),
        "folderUid": saved["folder"],
        "folderTitle": "" if folder is None else folder["title"],
        "folderUrl": "" if folder is None else folder_url(folder),
        "provisioned": is_from_file,
        **dict.fromkeys(("provisionedExternalId", "publicDashboardAccessToken", "publicDashboardUid"), ""),
        "annotationsPermissions": {"dashboard": _MAY, "organization": _MAY},
    }


def version(number: int, n: int, each: Json) -> Json:
    """Return the nth version of a dashboard; the first one keeps no message."""
    return {
        "id": number,
        "dashboardId": each["dashboard"]["id"],
        "dashboardUid": "",
        "parentVersion": n - 1,
        "restoredFrom": 0,
        "version": n,
        "created": TIME,
        "createdBy": 1,
        "message": each["message"] if n > 1 else "Initial save",
        "data": each["dashboard"],
    }


def found(each: Json, folder: Json) -> Json:
    """Return a dashboard as the search finds it."""
    return {
        "id": each["id"],
        "uid": each["uid"],
        "title": each["title"],
        "uri": f"db/{slug(each['title'])}",
        "url": url(each),
        "slug": "",
        "type": "dash-db",
        "tags": sorted(each.get("tags", [])),
        "isStarred": False,
        "folderId": folder["id"],
        "folderUid": folder["uid"],
        "folderTitle": folder["title"],
        "folderUrl": folder_url(folder),
        "sortMeta": 0,
    }
