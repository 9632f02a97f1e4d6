"""The options and the environment that all commands share."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from prism_ch.errors import StoreError, StoreLockedError, UsageError

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


class HeldElsewhere(Exception):  # noqa: N818 - not yet an error: the process that holds the database may run the command
    """Another process has the embedded database open."""

    def __init__(self, location: EmbeddedLocation, error: StoreLockedError) -> None:
        super().__init__(str(error))
        self.location = location
        self.error = error


@dataclass(slots=True)
class Session:
    """The shared options of one command, and where it runs.

    Inside the service, for a client process, `served` are the service's settings, `directory` is the client's working
    directory, and `has_left` returns whether the client has gone. Otherwise all three are None.
    """

    url: str | None = None
    debug: bool = False
    served: Settings | None = None
    directory: str | None = None
    has_left: Callable[[], bool] | None = None

    def settings(self) -> Settings:
        """Read the settings; --url wins over the other sources."""
        from prism_ch.settings import load_settings

        return load_settings(self.url) if self.served is None else self.served

    def path(self, name: str) -> str:
        """Resolve a path, glob or - of the command line against the client's working directory.

        Raises UsageError if it is empty: a folder joined with it would be meant.
        """
        if not name:
            raise UsageError("a file's name is empty; name a file, a folder, a glob, or - for standard input")
        return name if self.directory is None or name == "-" else os.path.join(self.directory, name)  # noqa: PTH118 - may be a glob

    @contextmanager
    def store(self, *, may_be_new: bool = False) -> Iterator[Store]:
        """Open the database while a block runs.

        Parameters: `may_be_new`, the command makes a database where there is none.
        Raises StoreError where there is none, and HeldElsewhere if another process has it open.
        """
        from prism_ch.store.client import connect
        from prism_ch.store.url import EmbeddedLocation, parse_url

        url = self.settings().url
        location = parse_url(url)
        if not may_be_new and isinstance(location, EmbeddedLocation) and not location.folder.exists():
            raise StoreError(
                "there is no database in this folder; is --url right? `prism-ch migrate` makes one", place=str(location)
            )
        try:
            opened = connect(url)
        except StoreLockedError as error:
            if self.served is not None or not isinstance(location, EmbeddedLocation):
                raise
            raise HeldElsewhere(location, error) from error
        with opened:
            yield opened


def _set_url(context: click.Context, parameter: click.Parameter, url: str | None) -> None:  # noqa: ARG001 - click's form
    if url is not None:
        context.ensure_object(Session).url = url


def _set_debug(context: click.Context, parameter: click.Parameter, debug: bool) -> None:  # noqa: ARG001, FBT001 - click's form
    if debug:
        context.ensure_object(Session).debug = True
        logging.basicConfig(level=logging.DEBUG, format=LOG_FORMAT)


def shared_options(command: _Command) -> _Command:
    """Add --url and --debug to a command or group; their values go to its Session."""
    url = click.option("--url", metavar="URL", expose_value=False, callback=_set_url, help=URL_HELP)
    debug = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show tracebacks and log lines."
    )
    return url(debug(command))


pass_session = click.make_pass_decorator(Session)
