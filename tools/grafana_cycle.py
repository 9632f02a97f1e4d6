"""Takes a Grafana through the whole cycle of provisioning: `make grafana GRAFANA=URL`.

1. A database of its own gets a topology of two tenants, and users for them.
2. `prism-ch grafana` makes the organisations, changes nothing the second time, keeps what was edited by hand,
   overwrites it if forced, prunes, follows tenants and passwords, and works with a token.
3. What other organisations hold is compared with before.
4. The organisations that it made are deleted, also after a failure.

Their names are new ones: nothing that was there is touched. PRISM_CH_GRAFANA_PASSWORD, of a server administrator, is
needed. Grafana need not reach the database: rules are judged where a data source answers.
"""

from __future__ import annotations

import base64
import io
import os
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import niquests

from prism_ch.cli import main as prism_ch
from prism_ch.grafana.alerts import alerts_of
from prism_ch.grafana.organisations import FOLDER, dashboards_of
from prism_ch.serve.users import hash_password

TENANTS = ("tenant-a", "tenant-b")
_HEADER = "endpoint,server,gpu,rail,leaf,pod,tenant"
#: How long Grafana may take to evaluate all rules once: they are evaluated each minute.
_EVALUATED_S = 150


class CycleError(Exception):
    """A step has shown something else than it should."""


@dataclass
class Api:
    """Asks Grafana directly, not by the code that is tried."""

    url: str
    user: str
    password: str

    def ask(self, method: str, path: str, body: Any = None, *, organisation: int | None = None) -> Any:
        """Return the answer; None for 404. Raises CycleError for any other failure."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}"}
        if organisation is not None:
            headers["X-Grafana-Org-Id"] = str(organisation)
        answer = niquests.request(
            method, f"{self.url}/api{path}", json=body, headers=headers, timeout=30, allow_redirects=False
        )
        if answer.status_code == 404:
            return None
        if answer.status_code is None or answer.status_code >= 300:
            raise CycleError(f"{method} {path} answered {answer.status_code}: {answer.text}")
        return answer.json() if answer.content else None


@dataclass
class Cycle:
    """A run: where Grafana is, the folder of settings, and the names of the organisations."""

    api: Api
    folder: Path
    #: Name of the operators' organisation, with which those of tenants begin.
    name: str
    tenants: list[str] = field(default_factory=lambda: list(TENANTS))
    environment: dict[str, str] = field(default_factory=dict)

    def names(self) -> list[str]:
        """Return the names of all organisations that should be there."""
        return [self.name, *(f"{self.name} {tenant}" for tenant in self.tenants)]

    def organisation(self, name: str) -> int:
        """Return the id of an organisation of ours."""
        found = self.api.ask("GET", f"/orgs/name/{quote(name, safe='')}")
        if found is None:
            raise CycleError(f"organisation {name} is missing")
        return int(found["id"])

    def run(self, *arguments: str, status: int = 0) -> list[str]:
        """Run `prism-ch`, and return the lines that it printed."""
        printed = io.StringIO()
        with _environment(self.environment), redirect_stdout(printed), redirect_stderr(printed):
            found = prism_ch(list(arguments))
        lines = printed.getvalue().splitlines()
        expect(found == status, f"prism-ch {' '.join(arguments)} exits with {status}", lines)
        return lines

    def apply(self, *options: str) -> list[str]:
        """Run `grafana apply` and return what it wrote. Lines on data sources that don't answer are left out."""
        lines = self.run("grafana", "apply", *options)
        return [line for line in lines if "the data source does not answer yet" not in line]

    def write_topology(self) -> None:
        """Load a topology of one server a tenant."""
        rows = [f"10.9.0.{n},server-{n},0,0,leaf,,{tenant}" for n, tenant in enumerate(self.tenants, start=1)]
        file = self.folder / "topology.csv"
        file.write_text("\n".join([_HEADER, *rows]) + "\n", encoding="utf-8")
        self.run("topology", str(file))

    def write_settings(self, tenants: list[str]) -> None:
        """Write the settings, with users and new passwords for operators and tenants."""
        users = {"operators": ("reader", ""), **{tenant: ("tenant", tenant) for tenant in tenants}}
        words = {user: secrets.token_urlsafe(12) for user in users}
        tables = [f'[grafana]\norganisation = "{self.name}"\n']
        tables += [
            f'[serve.users.{user}]\npassword = "{hash_password(words[user])}"\nrole = "{role}"\n'
            + (f'tenant = "{tenant}"\n' if tenant else "")
            for user, (role, tenant) in users.items()
        ]
        (self.folder / "prism.toml").write_text("\n".join(tables), encoding="utf-8")
        passwords = "".join(f'{user} = "{word}"\n' for user, word in words.items())
        (self.folder / "passwords.toml").write_text(passwords, encoding="utf-8")


def expect(is_so: bool, what: str, found: object) -> None:  # noqa: FBT001 - what it is about
    """Raise CycleError unless something is so."""
    if not is_so:
        raise CycleError(f"expected that {what}; found {found}")


def make(cycle: Cycle) -> None:
    """Make all organisations: each holds its dashboards, its rules and one data source, its default."""
    would = cycle.run("grafana", "diff")
    did = cycle.apply()
    expect(did[:-1] == would[:-1], "diff says what apply does", [*would, *did])
    for name, tenant in zip(cycle.names(), [None, *cycle.tenants], strict=True):
        number = cycle.organisation(name)
        held = contents(cycle.api, number)
        expect(held["dashboards"].keys() == dashboards_of(tenant).keys(), f"{name} has its dashboards", held)
        wanted = {alert.uid for alert in alerts_of(is_tenants=tenant is not None)}
        expect(held["rules"].keys() == wanted, f"{name} has its rules", held["rules"].keys())
        expect([each["isDefault"] for each in held["datasources"]] == [True], "the data source is the default", held)
        home = cycle.api.ask("GET", "/org/preferences", organisation=number).get("homeDashboardUID")
        expect(home in held["dashboards"], f"{name} opens with a page of ours", home)


def again(cycle: Cycle) -> None:
    """Apply again: nothing is written."""
    expect(cycle.apply() == ["0 writes"], "a second apply writes nothing", cycle.run("grafana", "diff"))


def edit_and_force(cycle: Cycle) -> None:
    """Edit a dashboard by hand: it is kept, until forced."""
    number = cycle.organisation(cycle.name)
    held = cycle.api.ask("GET", "/dashboards/uid/prism-fleet", organisation=number)["dashboard"]
    _save(cycle, number, {**held, "title": "mine"})
    expect(cycle.apply()[-1] == "0 writes", "what was edited by hand is kept", cycle.run("grafana", "diff"))
    kept = cycle.api.ask("GET", "/dashboards/uid/prism-fleet", organisation=number)["dashboard"]
    expect(kept["title"] == "mine", "the edited dashboard stays", kept["title"])
    expect(cycle.apply("--force")[-1] == "1 write", "--force writes it", cycle.run("grafana", "diff"))
    again(cycle)


def prune(cycle: Cycle) -> None:
    """Prune: what is ours and no longer shipped goes, what is not ours stays."""
    number = cycle.organisation(cycle.name)
    for uid in ("prism-gone", "theirs"):
        _save(cycle, number, {"uid": uid, "title": uid, "panels": [], "tags": [], "schemaVersion": 39})
    lines = cycle.run("grafana", "prune")
    expect(lines == [f"- {cycle.name}: dashboard prism-gone", "1 deletion"], "prune deletes one", lines)
    held = contents(cycle.api, number)["dashboards"]
    expect("theirs" in held and "prism-gone" not in held, "what is not ours stays", held)
    again(cycle)


def change_tenants(cycle: Cycle) -> None:
    """Take a tenant out and put another in. One organisation is named as left over, one is made."""
    gone, new = cycle.tenants.pop(), "tenant-c"
    before = contents(cycle.api, cycle.organisation(f"{cycle.name} {gone}"))
    cycle.tenants.append(new)
    cycle.write_settings([*cycle.tenants, gone])
    cycle.write_topology()
    wanted = f"+ {cycle.name} {new}: organisation"
    lines = cycle.apply()
    expect(wanted in lines, "an organisation is made for the new tenant", lines)
    lines = cycle.run("grafana", "prune")
    wanted = f"! {cycle.name} {gone}: organisation of no tenant of the topology; delete it in Grafana if unused"
    expect(wanted in lines, "the organisation that is left over is named", lines)
    after = contents(cycle.api, cycle.organisation(f"{cycle.name} {gone}"))
    expect(after == before, "it is not touched", after)
    again(cycle)


def rotate_passwords(cycle: Cycle) -> None:
    """Write new passwords of the database's users: one write an organisation."""
    cycle.write_settings(cycle.tenants)
    lines = cycle.apply("--passwords")
    wanted = [*(f"~ {name}: data source prism: password" for name in cycle.names()), f"{len(cycle.names())} writes"]
    expect(lines == wanted, "each data source gets its new password", lines)
    again(cycle)


def use_token(cycle: Cycle) -> None:
    """Apply with a token: it is bound to its organisation, where all is there already."""
    number = cycle.organisation(cycle.name)
    account = cycle.api.ask(
        "POST", "/serviceaccounts", {"name": "prism-ch cycle", "role": "Admin"}, organisation=number
    )
    path = f"/serviceaccounts/{account['id']}/tokens"
    cycle.environment["PRISM_CH_GRAFANA_TOKEN"] = cycle.api.ask("POST", path, {"name": "cycle"}, organisation=number)[
        "key"
    ]
    try:
        again(cycle)
        cycle.run("grafana", "apply", "--tenant", cycle.tenants[0], status=2)
    finally:
        del cycle.environment["PRISM_CH_GRAFANA_TOKEN"]
        # It would outlive its organisation.
        cycle.api.ask("DELETE", f"/serviceaccounts/{account['id']}", organisation=number)


def evaluate_rules(cycle: Cycle) -> None:
    """Wait until Grafana has evaluated every rule; without error where its data source answers."""
    for name in cycle.names():
        number = cycle.organisation(name)
        deadline = time.monotonic() + _EVALUATED_S
        health = _rules_health(cycle.api, number)
        while "unknown" in health.values() and time.monotonic() < deadline:
            time.sleep(5)
            health = _rules_health(cycle.api, number)
        expect(len(health) == len(contents(cycle.api, number)["rules"]), f"{name}'s rules are known", health)
        try:
            cycle.api.ask("GET", "/datasources/uid/prism/health", organisation=number)
        except CycleError:
            print(f"  {name}: no service answers its data source, so its rules can't be judged")
            continue
        expect(set(health.values()) <= {"ok", "nodata"}, f"{name}'s rules work", health)


def _rules_health(api: Api, organisation: int) -> dict[str, str]:
    """Return whether each rule could be evaluated; unknown before the first time."""
    groups = api.ask("GET", "/prometheus/grafana/api/v1/rules", organisation=organisation)["data"]["groups"]
    return {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}


#: What is done, in this order.
STEPS: tuple[Callable[[Cycle], None], ...] = (
    make,
    again,
    edit_and_force,
    prune,
    change_tenants,
    rotate_passwords,
    use_token,
    evaluate_rules,
)


def run(cycle: Cycle, report: Callable[[str], None]) -> None:
    """Do all steps, and delete the organisations. Raises CycleError if a step fails or others' things changed."""
    taken = [name for name in _organisations(cycle.api).values() if name.startswith(cycle.name)]
    if taken:
        raise CycleError(f"organisations named {', '.join(taken)} are there, which are not ours to change")
    before = {number: _readable(cycle.api, number) for number in _organisations(cycle.api)}
    try:
        cycle.write_settings(cycle.tenants)
        cycle.run("migrate")
        cycle.write_topology()
        for step in STEPS:
            step(cycle)
            report((step.__doc__ or "").partition("\n")[0])
    finally:
        for number in _organisations(cycle.api).keys() - before.keys():
            if _organisations(cycle.api)[number].startswith(cycle.name):
                cycle.api.ask("DELETE", f"/orgs/{number}")
    after = {number: _readable(cycle.api, number) for number in _organisations(cycle.api)}
    expect(after == before, "other organisations hold what they held", {n: after.get(n) for n in before})
    report("Other organisations hold what they held.")


def contents(api: Api, organisation: int) -> dict[str, Any]:
    """Return what an organisation holds that provisioning could change."""
    found = api.ask("GET", "/search?type=dash-db&limit=5000", organisation=organisation) or []
    dashboards = {
        each["uid"]: api.ask("GET", f"/dashboards/uid/{each['uid']}", organisation=organisation)["meta"]["version"]
        for each in found
    }
    folders = api.ask("GET", "/search?type=dash-folder&limit=5000", organisation=organisation) or []
    rules = api.ask("GET", "/v1/provisioning/alert-rules", organisation=organisation) or []
    return {
        "dashboards": dashboards,
        "folders": sorted(each["uid"] for each in folders),
        "rules": {rule["uid"]: rule["title"] for rule in rules},
        "datasources": api.ask("GET", "/datasources", organisation=organisation) or [],
        "teams": sorted(each["name"] for each in api.ask("GET", "/teams/search", organisation=organisation)["teams"]),
        "preferences": api.ask("GET", "/org/preferences", organisation=organisation),
    }


def _readable(api: Api, organisation: int) -> dict[str, Any] | None:
    """Return what an organisation holds; None of one in which the administrator is no member."""
    try:
        return contents(api, organisation)
    except CycleError:
        return None


def _organisations(api: Api) -> Mapping[int, str]:
    """Return the names of all organisations; 100,000 fit on a page."""
    return {each["id"]: each["name"] for each in api.ask("GET", "/orgs?perpage=100000")}


def _save(cycle: Cycle, number: int, dashboard: Mapping[str, Any]) -> None:
    """Save a dashboard as somebody does in the browser."""
    cycle.api.ask("POST", "/dashboards/db", {"dashboard": dashboard, "folderUid": FOLDER[0]}, organisation=number)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of prism-ch for a block, and no others of it. A token would lead to somebody's organisation."""
    before = dict(os.environ)
    for name in [name for name in before if name.startswith("PRISM_CH_")]:
        del os.environ[name]
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def started(url: str, folder: Path, user: str, password: str, database: str) -> Cycle:
    """Return a run that has done nothing yet, under a name that nobody has."""
    name = f"prism-ch cycle {secrets.token_hex(4)}"
    environment = {
        "PRISM_CH_URL": database,
        "PRISM_CH_CONFIG": str(folder / "prism.toml"),
        "PRISM_CH_GRAFANA_URL": url,
        "PRISM_CH_GRAFANA_USER": user,
        "PRISM_CH_GRAFANA_PASSWORD": password,
        "PRISM_CH_GRAFANA_PASSWORDS": str(folder / "passwords.toml"),
    }
    return Cycle(Api(url.rstrip("/"), user, password), folder, name, environment=environment)


def main() -> int:
    """Take the Grafana that the argument names through the cycle. Returns 1 if a step fails."""
    url, password = (sys.argv[1:] or [""])[0], os.environ.get("PRISM_CH_GRAFANA_PASSWORD", "")
    if not url or not password:
        print("name a Grafana and its administrator's password:", file=sys.stderr)
        print("  PRISM_CH_GRAFANA_PASSWORD=... make grafana GRAFANA=http://127.0.0.1:3000", file=sys.stderr)
        return 2
    user = os.environ.get("PRISM_CH_GRAFANA_USER", "admin")
    with tempfile.TemporaryDirectory(prefix="prism-ch-") as folder:
        cycle = started(url, Path(folder), user, password, f"chdb://{folder}/data")
        try:
            run(cycle, print)
        except (CycleError, niquests.exceptions.RequestException) as error:
            print(f"grafana: {error}", file=sys.stderr)
            return 1
    print("The whole cycle passed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
