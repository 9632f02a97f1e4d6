"""Finds where a Grafana differs from what it should hold, and how to write that.

Each resource has a uid that never changes, and is compared with what Grafana holds at that moment. So an interrupted
run is finished by the next one, and where nothing differs nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal
from urllib.parse import quote

from prism_ch.errors import GrafanaError
from prism_ch.grafana.alerts import ALERT_FOLDER, DATASOURCE_UID, alerts_of
from prism_ch.grafana.client import PAGE, Grafana, OrganisationClient
from prism_ch.grafana.organisations import FOLDER, UID_PREFIX, Organisation

#: A resource as Grafana's API has it.
Resource = Mapping[str, Any]

#: Grafana's number for the permission to view.
_VIEW = 1
#: Id of the organisation that every Grafana begins with.
_MAIN = 1
# Fields of a dashboard that Grafana sets itself.
_GRAFANAS_FIELDS = frozenset({"id", "uid", "version", "iteration"})
# Fields to which nothing may be added: a label that is no longer shipped would still route alerts.
_EXACT_FIELDS = frozenset({"labels", "annotations"})
# The message of a version that prism-ch saved; Grafana keeps no message of a dashboard's first version.
_MESSAGE = re.compile(r"prism-ch ([0-9a-f]{16})")
_PROVISIONED = "comes from a provisioning file; change it there"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference; `write` removes it.

    It is None if the difference is only reported, because others have made it.
    """

    action: Literal["create", "update", "delete", "keep"]
    what: str
    reason: str = ""
    write: Callable[[], object] | None = field(default=None, repr=False)  # its arguments may hold a password


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """What else to write.

    `force`: over what was edited by hand; `passwords`: those of data sources again.
    """

    force: bool = False
    passwords: bool = False


def changes(grafana: Grafana, desired: Organisation, options: ApplyOptions) -> Iterator[Change]:
    """Yield the differences of one organisation; write each before asking for the next.

    Raises GrafanaError if Grafana does not answer.
    """
    if not grafana.has_token and desired.name not in grafana.organisation_ids():
        yield Change("create", "organisation", write=partial(grafana.create_organisation, desired.name))
    client = grafana.organisation(desired.name)
    if _team(client, desired.team) is None:
        create = partial(client.request, "POST", "/teams", {"name": desired.team})
        yield Change("create", f"team {desired.team}", write=create)
    for uid, title in (FOLDER, ALERT_FOLDER):
        yield from _folder_changes(client, desired, uid, title)
    is_ours = _is_ours(client, desired)
    yield from _datasource_changes(client, desired, options, is_default=is_ours)
    for dashboard in desired.dashboards.values():
        yield from _dashboard_changes(client, dashboard, options)
    for group in desired.rule_groups(client.number()):
        yield from _rule_group_changes(client, group)
    if is_ours:
        yield from _home_changes(client, desired.home)


def leftovers(grafana: Grafana, desired: Organisation, options: ApplyOptions) -> Iterator[Change]:
    """Yield the deletions of dashboards and alert rules that this version does not ship.

    Others' are kept: those outside our folders, or without our prefix in the uid.
    Raises GrafanaError if Grafana does not answer.
    """
    client = grafana.organisation(desired.name)
    found = client.find("/search", type="dash-db", folderUIDs=FOLDER[0], limit=5 * PAGE) or ()
    for uid in sorted(each["uid"] for each in found):
        if uid.startswith(UID_PREFIX) and uid not in desired.dashboards:
            yield _dashboard_deletion(client, uid, options)
    shipped = {alert.uid for alert in alerts_of(is_tenants=desired.tenant is not None)}
    for rule in client.find("/v1/provisioning/alert-rules") or ():
        uid = rule["uid"]
        if rule["folderUID"] == ALERT_FOLDER[0] and uid.startswith(UID_PREFIX) and uid not in shipped:
            delete = partial(client.request, "DELETE", f"/v1/provisioning/alert-rules/{uid}")
            yield Change("delete", f"alert rule {uid}", write=delete)


def organisations_without_tenant(grafana: Grafana, operators: str, names: Iterable[str]) -> list[str]:
    """Return the organisations that are named like a tenant's but are not in `names`."""
    return sorted({name for name in grafana.organisation_ids() if name.startswith(f"{operators} ")} - set(names))


def datasource_problem(grafana: Grafana, desired: Organisation) -> str:
    """Return why an organisation's data source does not answer; empty if it does."""
    try:
        grafana.organisation(desired.name).request("GET", f"/datasources/uid/{DATASOURCE_UID}/health")
    except GrafanaError as error:
        return str(error)
    return ""


def differences(desired: Any, found: Any, place: str = "") -> Iterator[str]:
    """Yield where a resource differs from the desired one, as dotted names without values.

    What Grafana adds to an object is no difference, except to labels and annotations.
    """
    is_exact = place.rpartition(".")[2] in _EXACT_FIELDS
    if isinstance(desired, Mapping) and isinstance(found, Mapping) and not is_exact:
        for name, value in desired.items():
            yield from differences(value, found.get(name), f"{place}.{name}" if place else name)
    elif _is_list(desired) and _is_list(found) and len(desired) == len(found):
        for number, (one, other) in enumerate(zip(desired, found, strict=True)):
            yield from differences(one, other, f"{place}.{number}")
    elif desired != found:
        yield place


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _team(client: OrganisationClient, name: str) -> Resource | None:
    found = client.find("/teams/search", name=name) or {"teams": ()}
    return next((team for team in found["teams"] if team["name"] == name), None)


def _folder_changes(client: OrganisationClient, desired: Organisation, uid: str, title: str) -> Iterator[Change]:
    """Yield what differs in a folder or who may view it; nobody loses a permission."""
    found = client.find(f"/folders/{uid}")
    if found is None:
        create = partial(client.request, "POST", "/folders", {"uid": uid, "title": title})
        yield Change("create", f"folder {uid}", write=create)
    elif found["title"] != title:
        body = {"title": title, "version": found.get("version")}
        yield Change("update", f"folder {uid}", "title", partial(client.request, "PUT", f"/folders/{uid}", body))
    team = _team(client, desired.team)
    held = [each for each in client.find(f"/folders/{uid}/permissions") or () if not each.get("inherited")]
    if team is not None and team["id"] in {each.get("teamId") for each in held}:
        return
    items = [*map(_permission, held), {"teamId": team["id"] if team else 0, "permission": _VIEW}]
    permit = partial(client.request, "POST", f"/folders/{uid}/permissions", {"items": items})
    yield Change("update", f"folder {uid}", f"team {desired.team} may see it", permit)


def _permission(held: Resource) -> Resource:
    """Return a permission in the form in which it is written.

    Raises GrafanaError if it is of neither team nor user nor role: the folder would lose it.
    """
    for holder in ("teamId", "userId", "role"):
        if held.get(holder):
            return {holder: held[holder], "permission": held["permission"]}
    raise GrafanaError("a folder has a permission of neither team nor user nor role; give the team its own by hand")


def _is_ours(client: OrganisationClient, desired: Organisation) -> bool:
    """Return whether nobody else uses an organisation, so that its defaults are ours to choose.

    That of a token, Grafana's first, and one with another data source are somebody's.
    """
    if client.is_tokens or client.number() == _MAIN:
        return False
    return all(each["uid"] == desired.datasource["uid"] for each in client.find("/datasources") or ())


def _home_changes(client: OrganisationClient, uid: str) -> Iterator[Change]:
    """Yield the setting of the home dashboard where none is chosen."""
    held = client.find("/org/preferences") or {}
    if held.get("homeDashboardUID") or held.get("homeDashboardId"):
        return
    # Grafana replaces the preferences as a whole.
    body = {name: value for name, value in held.items() if name != "homeDashboardId"} | {"homeDashboardUID": uid}
    yield Change("update", "home dashboard", uid, partial(client.request, "PUT", "/org/preferences", body))


def _datasource_changes(
    client: OrganisationClient, desired: Organisation, options: ApplyOptions, *, is_default: bool
) -> Iterator[Change]:
    """Yield what differs in the data source; other settings in it stay."""
    what = f"data source {DATASOURCE_UID}"
    wanted = {**desired.datasource, "isDefault": True} if is_default else desired.datasource
    secrets = {} if desired.password is None else {"password": desired.password.get_secret_value()}
    found = client.find(f"/datasources/uid/{DATASOURCE_UID}")
    if found is None:
        body = {**wanted, "secureJsonData": secrets}
        yield Change("create", what, write=partial(client.request, "POST", "/datasources", body))
        return
    places = list(differences(wanted, found))
    if secrets and (options.passwords or not found.get("secureJsonFields", {}).get("password")):
        places.append("password")
    if not places:
        return
    if found.get("readOnly"):
        yield Change("keep", what, _PROVISIONED)
        return
    settings = {**found.get("jsonData", {}), **desired.datasource["jsonData"]}
    # Grafana keeps secrets that are left out, and refuses a `version` that is not the newest.
    body = {**found, **wanted, "jsonData": settings, "secureJsonData": secrets}
    write = partial(client.request, "PUT", f"/datasources/uid/{DATASOURCE_UID}", body)
    yield Change("update", what, _listed(places), write)


def _dashboard_changes(client: OrganisationClient, dashboard: Resource, options: ApplyOptions) -> Iterator[Change]:
    """Yield the difference of a dashboard.

    One that others have saved since is kept, unless forced. Grafana may rewrite a dashboard when it saves it: so the
    message of the newest version shows whether prism-ch saved it, and the content counts only without such a message.
    """
    uid = dashboard["uid"]
    what = f"dashboard {uid}"
    digest = hashlib.sha256(json.dumps(dashboard, sort_keys=True).encode()).hexdigest()[:16]
    found = client.find(f"/dashboards/uid/{uid}")
    held, meta = (found["dashboard"], found["meta"]) if found else ({}, {})
    body = {
        "dashboard": {**dashboard, "id": None, "version": held.get("version", 0)},
        "folderUid": FOLDER[0],
        "message": f"prism-ch {digest}",
        "overwrite": options.force,
    }
    save = partial(client.request, "POST", "/dashboards/db", body)
    if found is None:
        yield Change("create", what, write=save)
        return
    fields = (dashboard.keys() | held.keys()) - _GRAFANAS_FIELDS
    places = sorted(name for name in fields if dashboard.get(name) != held.get(name))
    is_moved = meta.get("folderUid") != FOLDER[0]
    message = _newest_message(client, uid) if places else None
    if not is_moved and (not places or (message and message[1] == digest)):
        return
    if meta.get("provisioned"):
        yield Change("keep", what, _PROVISIONED)
    elif places and not message and held["version"] > 1 and not options.force:
        yield Change("keep", what, f"edited by hand ({_listed(places)}); --force overwrites it")
    else:
        yield Change("update", what, _listed([*places, *(["folder"] * is_moved)]), save)


def _dashboard_deletion(client: OrganisationClient, uid: str, options: ApplyOptions) -> Change:
    """Return the deletion of a dashboard, or why it is kept."""
    found = client.find(f"/dashboards/uid/{uid}")
    version = 0 if found is None else found["dashboard"]["version"]
    if version > 1 and not options.force and not _newest_message(client, uid):
        return Change("keep", f"dashboard {uid}", "edited by hand; --force deletes it")
    return Change("delete", f"dashboard {uid}", write=partial(client.request, "DELETE", f"/dashboards/uid/{uid}"))


def _newest_message(client: OrganisationClient, uid: str) -> re.Match[str] | None:
    """Return our message of the newest version; None if somebody else saved it."""
    found = client.find(f"/dashboards/uid/{uid}/versions", limit=1) or ()
    versions = found["versions"] if isinstance(found, dict) else found  # a list before Grafana 11.6
    newest: Resource = max(versions, key=lambda version: version["version"], default={})
    return _MESSAGE.search(str(newest.get("message", "")))


def _rule_group_changes(client: OrganisationClient, group: Resource) -> Iterator[Change]:
    """Yield the difference of a group of alert rules.

    Others' rules in it stay, and paused rules stay paused.
    """
    what = f"alert rules {group['title']}"
    path = f"/v1/provisioning/folder/{group['folderUid']}/rule-groups/{quote(group['title'], safe='')}"
    found = client.find(path)
    held = {rule["uid"]: rule for rule in (found or {}).get("rules", ())}
    shipped = {rule["uid"]: rule for rule in group["rules"]}
    places = [] if found is None or found["interval"] == group["interval"] else ["interval"]
    for uid, rule in shipped.items():
        places += [f"{uid}.{place}" for place in differences(rule, held[uid])] if uid in held else [uid]
    if not places:
        return
    if any(held[uid].get("provenance") == "file" for uid in shipped.keys() & held.keys()):
        yield Change("keep", what, _PROVISIONED)
        return
    # Grafana replaces the group as a whole.
    rules = [{**rule, "isPaused": held.get(uid, {}).get("isPaused", False)} for uid, rule in shipped.items()]
    rules += [rule for uid, rule in held.items() if uid not in shipped]
    write = partial(client.request, "PUT", path, {**group, "rules": rules})
    yield Change("create", what, write=write) if found is None else Change("update", what, _listed(places), write)


def _listed(places: list[str], most: int = 4) -> str:
    more = f" and {len(places) - most} more" if len(places) > most else ""
    return ", ".join(places[:most]) + more
