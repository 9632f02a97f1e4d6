"""The commands that provision and check a Grafana: grafana apply, diff, prune, check."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prism_ch.cli.session import HeldElsewhere, Session, pass_session, shared_options
from prism_ch.errors import GrafanaError, SettingsError, UsageError
from prism_ch.report import count, seconds

if TYPE_CHECKING:
    from prism_ch.grafana.client import Grafana
    from prism_ch.grafana.organisations import Organisation
    from prism_ch.grafana.provision import ApplyOptions, Change
    from prism_ch.grafana.queries import Ask

_Command = TypeVar("_Command", bound=Callable[..., Any])
_FindChanges = Callable[["Grafana", "Organisation", "ApplyOptions"], Iterator["Change"]]

_SIGNS = {"create": "+", "update": "~", "delete": "-", "keep": "!"}


@click.group(short_help="Provision a Grafana: organisations, data sources, dashboards, alert rules.")
@shared_options
def grafana() -> None:
    """Bring a Grafana to this version, and check that it works.

    Operators have one organisation, and each tenant of the topology its own, where the data source is a user of the
    database that sees only the tenant's rows. In each: a team, two folders, the data source, dashboards and alert
    rules, under uids that never change. An organisation that nobody else uses opens with our page, and the data source
    is its default. Contact points and notification policies are left alone; so is all else. A notification links to
    the thing it is about, in its organisation and time range, and to a page on what to do.

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
    tenant = click.option("--tenant", "tenants", multiple=True, metavar="NAME", help="Only this tenant; repeatable.")
    operators = click.option("--operators", is_flag=True, help="Only the operators' organisation.")
    return tenant(operators(command))


_force_option = click.option("--force", is_flag=True, help="Overwrite, or delete, what was edited by hand.")


@grafana.command(short_help="Write what differs.")
@_scope_options
@_force_option
@click.option("--passwords", is_flag=True, help="Write the data sources' passwords anew; Grafana can't show them.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written, as diff does.")
@shared_options
@pass_session
def apply(session: Session, /, *, dry_run: bool, **options: Any) -> None:
    """Write what differs, and nothing else; `diff` and --dry-run show beforehand what that is.

    A dashboard that somebody has edited since is reported and kept, unless with --force. Interrupted, or refused
    half-way: run it again, and it goes on where it was.

    \b
    Examples:
      prism-ch grafana apply
      prism-ch grafana apply --tenant tenant-a
      prism-ch grafana apply --force
    """
    _apply(session, write=not dry_run, **options)


@grafana.command(short_help="Say what apply would write.")
@_scope_options
@_force_option
@click.option("--passwords", is_flag=True, help="As if passwords were to be written anew.")
@shared_options
@pass_session
def diff(session: Session, /, **options: Any) -> None:
    """Show what `apply` would write with the same options.

    Nothing is written. Values are not shown, only where they differ.

    \b
    Example:
      prism-ch grafana diff
    """
    _apply(session, write=False, **options)


@grafana.command(short_help="Delete what earlier versions left.")
@_scope_options
@_force_option
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@shared_options
@pass_session
def prune(session: Session, tenants: tuple[str, ...], *, operators: bool, force: bool, dry_run: bool) -> None:
    """Delete dashboards and alert rules that earlier versions left.

    They are in our folders, under our uids, and no longer shipped. Organisations are never deleted; those of tenants
    that are gone are named.

    \b
    Examples:
      prism-ch grafana prune --dry-run
      prism-ch grafana prune
    """
    from prism_ch.grafana.client import Grafana
    from prism_ch.grafana.provision import ApplyOptions, leftovers, organisations_without_tenant

    settings = session.settings().grafana
    organisations = _organisations(session, tenants, operators=operators)
    deleted = _for_each(
        session, organisations, partial(_write_changes, leftovers, ApplyOptions(force), write=not dry_run)
    )
    if not tenants and not operators and settings.token is None:
        with Grafana(settings) as server:
            for name in organisations_without_tenant(server, settings.organisation, organisations):
                click.echo(f"! {name}: organisation of no tenant of the topology; delete it in Grafana if unused")
    click.echo(f"{count(deleted, 'deletion')}{', nothing written' if dry_run else ''}")


@grafana.command("check", short_help="Check that the dashboards and alert rules work on this database.")
@_scope_options
@shared_options
@pass_session
def check_command(session: Session, tenants: tuple[str, ...], *, operators: bool) -> None:
    """Check that the shipped dashboards and alert rules work here.

    Nothing is written. The shipped files must be intact, every alert rule must link to a dashboard that is there, and
    the database must answer every query, of dashboards for the last six hours: as operator, and as each tenant. If a
    password or token for Grafana is set, each organisation's data source must answer there, and nothing may differ
    from this version.

    \b
    Examples:
      prism-ch grafana check
      prism-ch grafana check --operators
    """
    from prism_ch.grafana.client import has_credentials

    organisations = _organisations(session, tenants, operators=operators)
    problems = _check_queries(session, organisations)
    if has_credentials(session.settings().grafana):
        problems += _for_each(session, organisations, _check_organisation)
    else:
        click.echo("not checked in Grafana: no PRISM_CH_GRAFANA_PASSWORD and no PRISM_CH_GRAFANA_TOKEN is set")
    if problems:
        raise GrafanaError(f"the dashboards have {count(problems, 'problem')}, listed above")


def _organisations(session: Session, tenants: tuple[str, ...], *, operators: bool) -> dict[str, str | None]:
    """Return the organisations that the options choose, by name: their tenants, None for the operators."""
    from prism_ch.grafana.organisations import organisation_name
    from prism_ch.store.statements import statement

    settings = session.settings()
    has_token = settings.grafana.token is not None
    if operators and tenants:
        raise UsageError("--operators and --tenant exclude one another")
    if has_token and tenants:
        raise UsageError("a token knows one organisation only; for a tenant's set PRISM_CH_GRAFANA_PASSWORD")
    known = []
    if not operators and not has_token:
        with _database(session) as ask:
            known = [json.loads(line)["tenant"] for line in ask(statement("topology_tenants"), None).splitlines()]
    if unknown := set(tenants) - set(known):
        raise UsageError(f"the topology knows no tenant {', '.join(sorted(unknown))}")
    chosen: list[str | None] = [*tenants] or [None, *known]
    return {organisation_name(settings, tenant): tenant for tenant in chosen}


def _for_each(
    session: Session, organisations: Mapping[str, str | None], act: Callable[[Grafana, Organisation], int]
) -> int:
    """Do something with each organisation in Grafana, and return the sum of the results.

    One that fails keeps no other from being done. Raises GrafanaError at the end if any has failed.
    """
    from prism_ch.grafana.client import Grafana
    from prism_ch.grafana.organisations import desired_organisation
    from prism_ch.settings import read_passwords

    settings = session.settings()
    path = settings.grafana.database.passwords
    passwords = {} if path is None else read_passwords(path)
    total, failed = 0, []
    with Grafana(settings.grafana, passwords.values()) as server:
        for name, tenant in organisations.items():
            try:
                total += act(server, desired_organisation(settings, tenant, passwords))
            except (GrafanaError, SettingsError) as error:
                click.echo(f"{name}: {error}", err=True)
                failed.append(name)
    if failed:
        number = count(len(failed), "organisation")
        raise GrafanaError(f"{number} of {len(organisations)} not done: {', '.join(failed)}")
    return total


def _apply(
    session: Session, tenants: tuple[str, ...], *, operators: bool, force: bool, passwords: bool, write: bool
) -> None:
    from prism_ch.grafana.provision import ApplyOptions, changes, datasource_problem

    def act(server: Grafana, desired: Organisation) -> int:
        found = _write_changes(changes, ApplyOptions(force, passwords), server, desired, write=write)
        if write and (problem := datasource_problem(server, desired)):
            click.echo(
                f"{desired.name}: the data source does not answer yet: {problem}; if the password of its user is new,"
                " run it with --passwords",
                err=True,
            )
        return found

    total = _for_each(session, _organisations(session, tenants, operators=operators), act)
    click.echo(count(total, "write") if write else f"{count(total, 'difference')}, nothing written")


def _write_changes(
    find: _FindChanges, options: ApplyOptions, server: Grafana, desired: Organisation, *, write: bool
) -> int:
    """Print each change, and write it if wanted; return how many can be written."""
    total = 0
    for change in find(server, desired, options):
        click.echo(f"{_SIGNS[change.action]} {desired.name}: {change.what}{change.reason and f': {change.reason}'}")
        if change.write is not None:
            total += 1
            if write:
                change.write()
    return total


def _check_organisation(server: Grafana, desired: Organisation) -> int:
    """Print the problems of an organisation in Grafana; return their number."""
    from prism_ch.grafana.provision import ApplyOptions, changes, datasource_problem

    problems = []
    if found := sum(1 for _ in changes(server, desired, ApplyOptions())):
        problems.append(f"{count(found, 'difference')} from this version; see `prism-ch grafana diff`")
    if reason := datasource_problem(server, desired):
        problems.append(f"the data source does not answer: {reason}")
    for problem in problems:
        click.echo(f"! {desired.name}: {problem}")
    if not problems:
        click.echo(f"{desired.name}: Grafana holds this version, and the data source answers")
    return len(problems)


def _check_queries(session: Session, organisations: Mapping[str, str | None]) -> int:
    """Print which queries of each organisation fail; return the number of problems."""
    from prism_ch.grafana.alerts import rule_groups
    from prism_ch.grafana.organisations import dashboards_of
    from prism_ch.grafana.queries import check_queries

    total = 0
    with _database(session) as ask:
        for name, tenant in organisations.items():
            dashboards = dashboards_of(tenant)
            rule_groups(dashboards, 0, is_tenants=tenant is not None)
            results = list(check_queries(ask, tenant, int(time.time())))
            slowest = max(results, key=lambda result: result.duration_s)
            click.echo(
                f"{name}: {len(dashboards)} dashboards, {len(results)} queries,"
                f" slowest {seconds(slowest.duration_s)} ({slowest.place})"
            )
            places: dict[str, list[str]] = {}
            for result in results:
                if result.problem:
                    places.setdefault(result.problem, []).append(result.place)
            for problem, (first, *others) in places.items():
                click.echo(f"! {name}: {first}{f' and {len(others)} more' if others else ''}: {problem}")
            total += len(places)
    return total


@contextmanager
def _database(session: Session) -> Iterator[Ask]:
    """Yield a function that answers SQL; a service that holds the database answers itself."""
    from prism_ch.query.answer import answer_bytes

    try:
        with session.store() as store:
            yield lambda sql, tenant: answer_bytes(store, sql, "json", tenant=tenant)
    except HeldElsewhere as held:
        yield partial(_ask_service, held)


def _ask_service(held: HeldElsewhere, sql: str, tenant: str | None) -> bytes:
    from prism_ch.daemon.control import Request, call

    options = ["--format=json", *([f"--tenant={tenant}"] if tenant is not None else [])]
    request = Request(["sql", *options, "--", sql], held.location.database, str(Path.cwd()))
    with TemporaryFile() as answer, TemporaryFile() as errors, Path(os.devnull).open("rb") as nothing:
        try:
            status = call(held.location.folder, request, [nothing.fileno(), answer.fileno(), errors.fileno()])
        except ConnectionError as error:
            raise GrafanaError(f"{held.location}: {error}; run it again") from error
        if status is None:
            raise held.error
        if status:
            errors.seek(0)
            reason = errors.read().decode(errors="replace").strip().removeprefix("prism-ch: ")
            raise GrafanaError(reason or f"{held.location}: the service has failed to answer; see its log")
        answer.seek(0)
        return answer.read()
