"""What every command shares: where the database is, and whether to show the inside of errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from prism_ch.settings import Settings
    from prism_ch.store.client import Store

_Command = TypeVar("_Command", bound=Callable[..., Any])

URL_HELP = (
    "Database: chdb:///path/to/folder (embedded) or clickhouse(s)://user:password@host:port/prism. "
    "Default: PRISM_CH_URL, else the folder ./prism-data."
)

LOG_FORMAT = "time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"


@dataclass(slots=True)
class Session:
    """The options that may stand before or behind a command's name."""

    url: str | None = None
    debug: bool = False

    def settings(self) -> Settings:
        """Read the settings, the URL of the command line first."""
        from prism_ch.settings import load_settings

        return load_settings(self.url)

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the database for the length of a block."""
        from prism_ch.store.client import connect

        with connect(self.settings().url) as store:
            yield store


def _remember_url(context: click.Context, parameter: click.Parameter, url: str | None) -> None:  # noqa: ARG001 - click's form
    """Keep the URL, if it was given here."""
    if url is not None:
        context.ensure_object(Session).url = url


def _remember_debug(context: click.Context, parameter: click.Parameter, debug: bool) -> None:  # noqa: ARG001, FBT001 - as above
    """Keep the wish for tracebacks, and let log lines through to stderr."""
    if debug:
        context.ensure_object(Session).debug = True
        logging.basicConfig(level=logging.DEBUG, format=LOG_FORMAT)


def shared_options(command: _Command) -> _Command:
    """Add --url and --debug to a command or group; they end up in its Session."""
    url = click.option("--url", metavar="URL", expose_value=False, callback=_remember_url, help=URL_HELP)
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_remember_debug, help="Show tracebacks and log lines."
    )
    return url(debug(command))


pass_session = click.make_pass_decorator(Session)
