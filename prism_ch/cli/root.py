"""The root command `prism-ch`, and all commands below it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from prism_ch.cli.analysis import analyse, ingest, migrate, run, topology
from prism_ch.cli.database import retention, tenants
from prism_ch.cli.execute import execute
from prism_ch.cli.export import export
from prism_ch.cli.grafana import grafana
from prism_ch.cli.questions import incidents, jobs, sql, steps, tables
from prism_ch.cli.report import report
from prism_ch.cli.service import doctor, hash_password, serve
from prism_ch.cli.session import shared_options
from prism_ch.cli.simulation import simulate
from prism_ch.cli.what_if import what_if
from prism_ch.cli.worker import worker

_COMMANDS = [
    migrate, ingest, topology, analyse, run, incidents, jobs, steps, what_if, tables, sql, export, report, serve,
    worker, doctor, hash_password, retention, tenants, grafana, simulate,
]  # fmt: skip


@click.group(
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: prism-ch run flows.parquet --topology topology.csv",
)
@click.version_option(package_name="prism-ch", prog_name="prism-ch")
@shared_options
def cli() -> None:
    """Find what slows LLM training jobs, from the network's flow records in ClickHouse.

    \b
    Exit status: 0 done, 1 failed at run time, 2 wrong usage.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, by default that of the command line; return its exit status."""
    return execute(cli, sys.argv[1:] if arguments is None else arguments)
