"""Where a scheduler is, and the library that reaches it."""

from __future__ import annotations

import logging
import re
from importlib import import_module
from importlib.util import find_spec

from prism_ch import __version__
from prism_ch.errors import ClusterError
from prism_ch.settings import HOST_AND_PORT

#: How the settings write it, or Dask's own scheduler prints it.
_ADDRESS = re.compile(f"(?:(dask|tcp|tls)://)?{HOST_AND_PORT}/?")


def scheduler_address(text: str) -> str:
    """Return an address as Dask reads it.

    Parameters: `text`, such as `dask://scheduler:8786`. What is no address of Dask's own has the scheme that Dask's
    configuration chooses (`distributed.comm.default-scheme`, tcp unless set).
    Raises ClusterError if it is none.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or not 0 < int(match[3]) < 65_536:
        raise ClusterError(f"{text} is no scheduler; write dask://HOST:PORT, for example dask://scheduler:8786")
    scheme = f"{match[1]}://" if match[1] in ("tcp", "tls") else ""
    return f"{scheme}{match[2]}:{match[3]}"


def require_dask() -> None:
    """Load Dask, quietly. Raises ClusterError if the extra is not installed."""
    if find_spec("distributed") is None:
        raise ClusterError("an executor dask://... and `prism-ch worker` need Dask: pip install 'prism-ch[cluster]'")
    import_module("distributed")
    # It gives its loggers handlers of their own; what is to be known of it is an error of ours.
    logger = logging.getLogger("distributed")
    for one in (logger, *map(logging.getLogger, ("distributed.client", "distributed.core", "distributed.worker"))):
        one.handlers.clear()
        one.propagate = True
        one.setLevel(logging.NOTSET if one is not logger else logging.CRITICAL)


def installed_version() -> str:
    """Return this program's version, wherever it is called."""
    return __version__
