"""Finds where a Grafana differs from what it should hold: one change after the other, each with the way to make it.

Each resource is compared with what Grafana holds at that moment, under a uid that never changes. So whatever was
interrupted is finished by running it again, and where nothing differs nothing is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from prism_ch.errors import GrafanaError
from prism_ch.grafana.compare import differences
from prism_ch.grafana.remote import Grafana, Resource, Room
from prism_ch.grafana.rules import ALERT_FOLDER, DATASOURCE_UID
from prism_ch.grafana.wanted import FOLDER, UID_PREFIX, Organisation

_VIEW = 1
# What Grafana itself sets in a dashboard.
_OF_GRAFANA = frozenset({"id", "uid", "version", "iteration"})
# What the message of a version that we saved says; of the very first version Grafana keeps no message.
_MARK = re.compile(r"prism-ch ([0-9a-f]{16})")
_PROVISIONED = "comes from a provisioning file; change it there"


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `write` brings it about; None where it is only told, because it is not ours to overwrite."""

    action: Literal["create", "update", "delete", "keep"]
    what: str
    why: str = ""
    write: Callable[[], None] | None = field(default=None, repr=False)  # its arguments may hold a password


@dataclass(frozen=True, slots=True)
class Manner:
    """How to go about it: `force` overwrites what was edited by hand, `passwords` writes passwords anew."""

    force: bool = False
    passwords: bool = False


def changes(grafana: Grafana, wanted: Organisation, manner: Manner) -> Iterator[Change]:
    """Yield what differs in one organisation. Each change is written, or not, before the next is asked for.

    Raises GrafanaError where Grafana can't be asked.
    """
    if not grafana.is_bound and wanted.name not in grafana.organisations():
        yield Change("create", "organisation", write=partial(grafana.create_organisation, wanted.name))
    room = _open_room(grafana, wanted)
    if room.team(wanted.team) is None:
        yield Change("create", f"team {wanted.team}", write=partial(room.create_team, wanted.team))
    for uid, title in (FOLDER, ALERT_FOLDER):
        yield from _folder(room, wanted, uid, title)
    yield from _datasource(room, wanted, manner)
    for dashboard in wanted.dashboards.values():
        yield from _dashboard(room, dashboard, manner)
    for group in wanted.rule_groups:
        yield from _rule_group(room, group)


def leftovers(grafana: Grafana, wanted: Organisation, manner: Manner) -> Iterator[Change]:
    """Yield what another version left in one organisation: dashboards and alert rules that are no longer wanted.

    Only what is in our folders under a uid of ours. Raises GrafanaError where Grafana can't be asked.
    """
    room = _open_room(grafana, wanted)
    for uid in sorted(each["uid"] for each in room.dashboards_in(FOLDER[0])):
        if uid.startswith(UID_PREFIX) and uid not in wanted.dashboards:
            yield _unwanted_dashboard(room, uid, manner)
    ours = {rule["uid"] for group in wanted.rule_groups for rule in group["rules"]}
    for rule in room.rules():
        uid = rule["uid"]
        if rule["folderUID"] == ALERT_FOLDER[0] and uid.startswith(UID_PREFIX) and uid not in ours:
            yield Change("delete", f"alert rule {uid}", write=partial(room.delete_rule, uid))


def abandoned(grafana: Grafana, operators: str, names: Iterable[str]) -> list[str]:
    """Return the organisations that are named as those of tenants are, after the operators', and are not in `names`."""
    return sorted({name for name in grafana.organisations() if name.startswith(f"{operators} ")} - set(names))


def datasource_problem(grafana: Grafana, wanted: Organisation) -> str:
    """Return why an organisation's data source does not answer; empty where it does."""
    return _open_room(grafana, wanted).datasource_problem(DATASOURCE_UID)


def _open_room(grafana: Grafana, wanted: Organisation) -> Room:
    """Open an organisation; where it does not exist (yet), one that holds nothing."""
    number = None if grafana.is_bound else grafana.organisations().get(wanted.name)
    return Room(grafana, number, exists=grafana.is_bound or number is not None)


def _folder(room: Room, wanted: Organisation, uid: str, title: str) -> Iterator[Change]:
    """Yield what differs in a folder and in who may see it; whoever may already, keeps what it may."""
    found = room.folder(uid)
    if found is None:
        yield Change("create", f"folder {uid}", write=partial(room.create_folder, uid, title))
    elif found["title"] != title:
        yield Change("update", f"folder {uid}", "title", partial(room.rename_folder, found, title))
    team = room.team(wanted.team)
    permissions = room.permissions(uid)
    if team is not None and team["id"] in {each.get("teamId") for each in permissions}:
        return
    items = [_permission(each) for each in permissions]
    items.append({"teamId": team["id"] if team else 0, "permission": _VIEW})
    yield Change("update", f"folder {uid}", f"team {wanted.team} may see it", partial(room.permit, uid, items))


def _permission(permission: Resource) -> Resource:
    """Return a permission as it is to be written again.

    Raises GrafanaError where it is of neither team nor user nor role: written without it, the folder would lose it.
    """
    for whose in ("teamId", "userId", "role"):
        if permission.get(whose):
            return {whose: permission[whose], "permission": permission["permission"]}
    raise GrafanaError("a folder has a permission of neither team nor user nor role; give the team its own by hand")


def _datasource(room: Room, wanted: Organisation, manner: Manner) -> Iterator[Change]:
    """Yield what differs in the data source. What others have set in it besides stays."""
    what = f"data source {DATASOURCE_UID}"
    secrets = {} if wanted.password is None else {"password": wanted.password.get_secret_value()}
    found = room.datasource(DATASOURCE_UID)
    if found is None:
        new = {**wanted.datasource, "secureJsonData": secrets}
        yield Change("create", what, write=partial(room.create_datasource, new))
        return
    differ = differences(wanted.datasource, found)
    if secrets and (manner.passwords or not found.get("secureJsonFields", {}).get("password")):
        differ.append("password")
    if not differ:
        return
    if found.get("readOnly"):
        yield Change("keep", what, _PROVISIONED)
        return
    options = {**found.get("jsonData", {}), **wanted.datasource["jsonData"]}
    changed = {**found, **wanted.datasource, "jsonData": options, "secureJsonData": secrets}
    yield Change("update", what, _listed(differ), partial(room.update_datasource, changed))


def _dashboard(room: Room, dashboard: Mapping[str, Any], manner: Manner) -> Iterator[Change]:
    """Yield how a dashboard differs. One that others have saved after us is kept, unless that is to be overwritten.

    Grafana may rewrite what it is given, so that what was saved is told by its mark, and by comparison only without.
    """
    uid = dashboard["uid"]
    what = f"dashboard {uid}"
    found = room.dashboard(uid)
    save = partial(
        room.save_dashboard, folder=FOLDER[0], message=f"prism-ch {_digest(dashboard)}", overwrite=manner.force
    )
    if found is None:
        yield Change("create", what, write=partial(save, {**dashboard, "id": None, "version": 0}))
        return
    held, about = found["dashboard"], found["meta"]
    differ = sorted(name for name in dashboard.keys() | held.keys() if dashboard.get(name) != held.get(name))
    differ = [name for name in differ if name not in _OF_GRAFANA]
    is_moved = about.get("folderUid") != FOLDER[0]
    mark = _MARK.search(room.newest_message(uid)) if differ else None
    if not is_moved and (not differ or (mark and mark[1] == _digest(dashboard))):
        return
    if about.get("provisioned"):
        yield Change("keep", what, _PROVISIONED)
    elif differ and not mark and held["version"] > 1 and not manner.force:
        yield Change("keep", what, f"edited by hand ({_listed(differ)}); --force overwrites it")
    else:
        changed = {**dashboard, "id": None, "version": held["version"]}
        yield Change("update", what, _listed([*differ, *(["folder"] * is_moved)]), partial(save, changed))


def _unwanted_dashboard(room: Room, uid: str, manner: Manner) -> Change:
    """Return what becomes of a dashboard that is no longer wanted."""
    found = room.dashboard(uid)
    version = 0 if found is None else found["dashboard"]["version"]
    if version > 1 and not manner.force and not _MARK.search(room.newest_message(uid)):
        return Change("keep", f"dashboard {uid}", "edited by hand; --force deletes it")
    return Change("delete", f"dashboard {uid}", write=partial(room.delete_dashboard, uid))


def _rule_group(room: Room, group: Mapping[str, Any]) -> Iterator[Change]:
    """Yield how a group of alert rules differs. Rules of others in it stay, and so does whether a rule is paused."""
    what = f"alert rules {group['title']}"
    found = room.rule_group(group["folderUid"], group["title"])
    held = {rule["uid"]: rule for rule in (found or {}).get("rules", ())}
    wanted = {rule["uid"]: rule for rule in group["rules"]}
    differ = [] if found is None or found["interval"] == group["interval"] else ["interval"]
    for uid, rule in wanted.items():
        differ += [uid] if uid not in held else [f"{uid}.{place}" for place in differences(rule, held[uid])]
    if not differ:
        return
    if any(held[uid].get("provenance") == "file" for uid in wanted.keys() & held.keys()):
        yield Change("keep", what, _PROVISIONED)
        return
    rules = [{**rule, "isPaused": held.get(uid, {}).get("isPaused", False)} for uid, rule in wanted.items()]
    rules += [rule for uid, rule in held.items() if uid not in wanted]
    write = partial(room.put_rule_group, {**group, "rules": rules})
    yield Change("create", what, write=write) if found is None else Change("update", what, _listed(differ), write)


def _digest(dashboard: Mapping[str, Any]) -> str:
    """Return what tells one content of a dashboard from another."""
    return hashlib.sha256(json.dumps(dashboard, sort_keys=True).encode()).hexdigest()[:16]


def _listed(places: list[str], most: int = 4) -> str:
    """List the first of the places that differ."""
    more = f" and {len(places) - most} more" if len(places) > most else ""
    return ", ".join(places[:most]) + more
