"""The commands that bring a Grafana to what dashboards/ and sql/alerts/ say: grafana apply, diff, prune, check."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prism_ch.cli.session import HeldElsewhere, Session, pass_session, shared_options
from prism_ch.cli.terminal import progress
from prism_ch.errors import GrafanaError, SettingsError, UsageError
from prism_ch.report.words import count

if TYPE_CHECKING:
    from prism_ch.grafana.provision import Change, Manner
    from prism_ch.grafana.remote import Grafana
    from prism_ch.grafana.wanted import Organisation

_Command = TypeVar("_Command", bound=Callable[..., Any])
_Find = Callable[["Grafana", "Organisation", "Manner"], Iterator["Change"]]

_SIGNS = {"create": "+", "update": "~", "delete": "-", "keep": "!"}


@click.group(short_help="Provision a Grafana: organisations, data sources, dashboards, alert rules.")
@shared_options
def grafana() -> None:
    """Bring a Grafana to what this version ships, and say where it differs.

    Operators have one organisation, and each tenant of the topology its own, where the data source is a user of the
    database that sees only the tenant's rows. In each: a team, two folders, the data source, dashboards and alert
    rules, under uids that never change. Contact points and notification policies are left alone; so is all else.

    Where it is, and who asks, is in the environment or in the table [grafana] of the settings:

    \b
      PRISM_CH_GRAFANA_URL        http(s)://host:port/path
      PRISM_CH_GRAFANA_USER       an administrator of the server, by default admin
      PRISM_CH_GRAFANA_PASSWORD   the password, or instead:
      PRISM_CH_GRAFANA_TOKEN      token of a service account: for the operators' organisation alone
      PRISM_CH_GRAFANA_PASSWORDS  TOML file with the passwords of the database's users: user = "password"
      PRISM_CH_GRAFANA_DATABASE_USER   who reads a server's database for the operators

    \b
    Examples:
      prism-ch grafana diff
      prism-ch grafana apply
      prism-ch grafana prune --dry-run
    """


def _scope_options(command: _Command) -> _Command:
    """Add the options that choose organisations, and overwriting."""
    tenant = click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="Only this tenant; repeatable.")
    operators = click.option("--operators", is_flag=True, help="Only the operators' organisation.")
    force = click.option("--force", is_flag=True, help="Overwrite, or delete, what was edited by hand.")
    return tenant(operators(force(command)))


@grafana.command(short_help="Write what differs.")
@_scope_options
@click.option("--passwords", is_flag=True, help="Write the data sources' passwords anew; Grafana can't show them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written, as diff does.")
@shared_options
@pass_session
def apply(
    session: Session,
    tenants: tuple[str, ...],
    *,
    operators: bool,
    force: bool,
    passwords: bool,
    dry_run: bool,
) -> None:
    """Write what differs, and nothing else; `diff` and --dry-run show beforehand what that is.

    A dashboard that somebody has edited since is told and kept, unless with --force. Interrupted, or refused half-way:
    run it again, and it goes on where it was.

    \b
    Examples:
      prism-ch grafana apply
      prism-ch grafana apply --tenant tenant-a
      prism-ch grafana apply --force
    """
    from prism_ch.grafana.provision import Manner, changes, datasource_problem

    if dry_run:
        _tell_differences(session, tenants, operators, Manner(force, passwords))
        return
    with _task(session, tenants, operators) as task:
        click.echo(count(task.go(changes, Manner(force, passwords), write=True), "write"))
        for organisation in task.wanted:
            if problem := datasource_problem(task.server, organisation):
                click.echo(f"{organisation.name}: the data source does not answer yet: {problem}", err=True)


@grafana.command(short_help="Say what apply would write.")
@_scope_options
@click.option("--passwords", is_flag=True, help="As if passwords were to be written anew.")
@shared_options
@pass_session
def diff(session: Session, tenants: tuple[str, ...], operators: bool, force: bool, passwords: bool) -> None:  # noqa: FBT001 - click's form
    """Say what `apply` would write with the same options; writes nothing. Values are not shown, only where they differ.

    \b
    Example:
      prism-ch grafana diff
    """
    from prism_ch.grafana.provision import Manner

    _tell_differences(session, tenants, operators, Manner(force, passwords))


def _tell_differences(session: Session, tenants: tuple[str, ...], operators: bool, manner: Manner) -> None:  # noqa: FBT001 - click's form
    """Say what would be written."""
    from prism_ch.grafana.provision import changes

    with _task(session, tenants, operators) as task:
        found = task.go(changes, manner, write=False)
    click.echo(f"{count(found, 'difference')}, nothing written")


@grafana.command(short_help="Delete what earlier versions left.")
@_scope_options
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@shared_options
@pass_session
def prune(session: Session, tenants: tuple[str, ...], operators: bool, force: bool, dry_run: bool) -> None:  # noqa: FBT001 - click's form
    """Delete dashboards and alert rules of earlier versions: in our folders, under our uids, and no longer shipped.

    Organisations are never deleted; those of tenants that are gone are named.

    \b
    Examples:
      prism-ch grafana prune --dry-run
      prism-ch grafana prune
    """
    from prism_ch.grafana.provision import Manner, abandoned, leftovers

    with _task(session, tenants, operators) as task:
        deleted = task.go(leftovers, Manner(force), write=not dry_run)
        for name in abandoned(task.server, task.operators, task.names) if task.is_all else ():
            click.echo(f"! {name}: organisation of no tenant of the topology; delete it in Grafana if nobody needs it")
    click.echo(f"{count(deleted, 'deletion')}{', nothing written' if dry_run else ''}")


@dataclass(frozen=True, slots=True)
class _Task:
    """A server, and what the organisations that were asked for should hold."""

    server: Grafana
    operators: str
    #: All organisations that were asked for, and whether these are all that there should be.
    names: list[str]
    is_all: bool
    #: What those should hold of which it is known.
    wanted: list[Organisation]

    def go(self, find: _Find, manner: Manner, *, write: bool) -> int:
        """Tell what is found in each organisation, write it where wanted, and return how much that was.

        One organisation that fails keeps none of the others back. Raises GrafanaError at the end where any did.
        """
        done, left = 0, dict.fromkeys(self.names)
        for organisation in self.wanted:
            try:
                done += _tell(organisation.name, find(self.server, organisation, manner), write=write)
                del left[organisation.name]
            except GrafanaError as error:
                click.echo(f"{organisation.name}: {error}", err=True)
        if left:
            names = ", ".join(left)
            raise GrafanaError(f"{count(len(left), 'organisation')} of {len(self.names)} not done: {names}")
        return done


@contextmanager
def _task(session: Session, tenants: tuple[str, ...], operators: bool) -> Iterator[_Task]:  # noqa: FBT001 - as above
    """Work out what was asked for: the organisations of some tenants, the operators' alone, or all."""
    from prism_ch.grafana.remote import Grafana
    from prism_ch.grafana.wanted import organisation_name, wanted_organisation
    from prism_ch.settings import read_passwords

    settings = session.settings()
    if operators and tenants:
        raise UsageError("--operators and --tenant exclude one another")
    if settings.grafana.token is not None and tenants:
        raise UsageError("a token knows one organisation only; for a tenant's set PRISM_CH_GRAFANA_PASSWORD")
    is_alone = operators or settings.grafana.token is not None
    known = [] if is_alone else _tenants(session)
    if unknown := set(tenants) - set(known):
        raise UsageError(f"the topology knows no tenant {', '.join(sorted(unknown))}")
    meant = [*([] if tenants else [None]), *(tenants or known)]
    names = [organisation_name(settings, tenant) for tenant in meant]
    path = settings.grafana.database.passwords
    passwords = {} if path is None else read_passwords(path)
    wanted = []
    for name, tenant in zip(names, meant, strict=True):
        try:
            wanted.append(wanted_organisation(settings, tenant, passwords))
        except SettingsError as error:
            click.echo(f"{name}: {error}", err=True)
    with Grafana(settings.grafana, passwords.values()) as server:
        yield _Task(server, settings.grafana.organisation, names, not (is_alone or tenants), wanted)


def _tell(name: str, found: Iterable[Change], *, write: bool) -> int:
    """Print each change and write it where wanted; return how many are writable."""
    done = 0
    for change in found:
        why = f": {change.why}" if change.why else ""
        click.echo(f"{_SIGNS[change.action]} {name}: {change.what}{why}")
        if change.write is None:
            continue
        done += 1
        if write:
            change.write()
    return done


def _tenants(session: Session) -> list[str]:
    """Return the tenants that the topology names now."""
    from prism_ch.query.access import topology_tenants

    try:
        with session.store() as store:
            return topology_tenants(store)
    except HeldElsewhere as held:
        return _tenants_from_service(held)


def _tenants_from_service(held: HeldElsewhere) -> list[str]:
    """Ask the service that holds the database. Only this: what is known of Grafana is known here, not there."""
    from prism_ch.daemon.control import Request, call
    from prism_ch.store.statements import statement

    request = Request(
        ["sql", statement("topology_tenants"), "--format", "json"], held.location.database, str(Path.cwd())
    )
    with TemporaryFile() as answer, Path(os.devnull).open("rb") as nothing:
        try:
            status = call(held.location.folder, request, [nothing.fileno(), answer.fileno(), sys.stderr.fileno()])
        except ConnectionError as error:
            raise GrafanaError(f"{held.location}: {error}; run it again") from error
        if status is None:
            raise held.error
        if status:
            raise GrafanaError(f"{held.location}: the service did not tell the tenants")
        answer.seek(0)
        return [json.loads(line)["tenant"] for line in answer]


@grafana.command("check", short_help="Ask every query of the dashboards of the engine, and say what is wrong.")
@click.option("--bench", is_flag=True, help="On a week of 2,880 GPUs, which takes minutes and 3 GB to make.")
@shared_options
def check_command(*, bench: bool) -> None:
    """Check the shipped dashboards without a Grafana, on results of a made-up cluster in a database of their own.

    Each query of a panel, variable or annotation is expanded as Grafana and its ClickHouse data source do, asked for
    every way to choose the variables, and its rows are held against what the panel needs; those that tenants get are
    asked as each tenant as well. With --bench each query is asked as it is when the dashboard opens, and timed.

    \b
    Examples:
      prism-ch grafana check
      prism-ch grafana check --bench
    """
    from prism_ch.grafana.check.run import check_shipped

    with progress("timing the dashboards' queries" if bench else "checking the dashboards") as report:
        findings = check_shipped(bench=bench, report=report)
    for line in findings.lines():
        click.echo(line)
    if findings.problems:
        raise GrafanaError(f"the dashboards have {count(len(findings.problems), 'problem')}, listed above")
