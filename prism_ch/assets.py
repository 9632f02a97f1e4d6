"""Finds the shipped data files: sql/, dashboards/, scheduler/."""

from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from prism_ch.errors import PrismError


@cache
def _root() -> Traversable:
    """Locate the assets, in a wheel or next to the package in a checkout."""
    packaged = files("prism_ch") / "_assets"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent


def asset(relative: str) -> Traversable:
    """Return a shipped file or folder by its path in the repository, for example "sql/queries/flows.sql".

    Raises PrismError where there is none.
    """
    found = _root().joinpath(*relative.split("/"))
    if not (found.is_file() or found.is_dir()):
        raise PrismError(f"{relative} is missing from this installation of prism-ch; install it again")
    return found
