"""What every command shares: where the database is, and whether to show the inside of errors."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prism_ch.errors import StoreLockedError

if TYPE_CHECKING:
    from prism_ch.settings import Settings
    from prism_ch.store.client import Store
    from prism_ch.store.url import EmbeddedLocation

_Command = TypeVar("_Command", bound=Callable[..., Any])

URL_HELP = (
    "Database: chdb:///path/to/folder (embedded) or clickhouse(s)://user:password@host:port/prism. "
    "Default: PRISM_CH_URL, else the folder ./prism-data."
)

LOG_FORMAT = "time=%(asctime)s level=%(levelname)s logger=%(name)s %(message)s"


class HeldElsewhere(Exception):  # noqa: N818 - it is no error yet: the process that holds it may serve us
    """Another process has the embedded database open."""

    def __init__(self, location: EmbeddedLocation, error: StoreLockedError) -> None:
        super().__init__(str(error))
        self.location = location
        self.error = error


@dataclass(slots=True)
class Session:
    """The options that may stand before or behind a command's name."""

    url: str | None = None
    debug: bool = False
    #: What holds instead, where the command runs inside the service for another process.
    served: Settings | None = None
    #: The directory of that process; None is that of this one.
    directory: str | None = None
    #: Tells whether that process has left; None is nobody to ask.
    has_left: Callable[[], bool] | None = None

    def settings(self) -> Settings:
        """Read the settings, the URL of the command line first."""
        from prism_ch.settings import load_settings

        return load_settings(self.url) if self.served is None else self.served

    def path(self, name: str) -> str:
        """Return a path of the command line, as seen from the directory where it was written; - stays."""
        return name if self.directory is None or name == "-" else os.path.join(self.directory, name)  # noqa: PTH118 - may be a glob

    @contextmanager
    def store(self) -> Iterator[Store]:
        """Open the database for the length of a block.

        Raises HeldElsewhere where another process has the embedded database open.
        """
        from prism_ch.store.client import connect
        from prism_ch.store.url import EmbeddedLocation, parse_url

        url = self.settings().url
        try:
            opened = connect(url)
        except StoreLockedError as error:
            location = parse_url(url)
            if self.served is not None or not isinstance(location, EmbeddedLocation):
                raise
            raise HeldElsewhere(location, error) from error
        with opened:
            yield opened


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
