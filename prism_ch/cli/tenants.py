"""The commands about tenants of a server: tenants apply."""

from __future__ import annotations

import click

from prism_ch.cli.session import Session, pass_session, shared_options


@click.group(short_help="Give tenants users of their own on a server.")
@shared_options
def tenants() -> None:
    """Give the topology's tenants users of their own on a ClickHouse server, each of whom sees its own rows only.

    \b
    Example:
      prism-ch tenants apply --url clickhouse://admin:password@host:8123/prism
    """


@tenants.command(short_help="Make roles, users, row policies and quotas.")
@click.option("--print", "only_print", is_flag=True, help="Print the statements instead of running them.")
@shared_options
@pass_session
def apply(session: Session, only_print: bool) -> None:  # noqa: FBT001 - click's form
    """Make roles, users, row policies and quotas for every tenant of the topology; safe to repeat.

    A user can log in once it has a password: ALTER USER `prism_user_NAME` IDENTIFIED BY '...' HOST ANY. A tenant that
    has left the topology keeps its user, who sees what its jobs left. The server's configuration must have
    select_from_system_db_requires_grant and settings_constraints_replace_previous set, as the one it ships with has:
    else system.parts would tell how many rows there are, and Grafana could not set max_execution_time.

    \b
    Examples:
      prism-ch tenants apply --url clickhouse://admin:password@host:8123/prism
      prism-ch tenants apply --print > access.sql
    """
    from prism_ch.query.access import access_statements, apply_access, topology_tenants, user_of

    with session.store() as store:
        if only_print:
            for statement in access_statements(store.database, topology_tenants(store)):
                click.echo(f"{statement};\n")
            return
        made = apply_access(store)
    click.echo(f"{len(made)} tenants have users: " + (", ".join(user_of(tenant) for tenant in made) or "none"))
