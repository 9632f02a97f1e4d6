"""Tells which page a browser's request comes from, and whether the browser wants a page."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from prism_ch.serve.users import is_loopback


def is_cross_site(headers: Mapping[str, str]) -> bool:
    """Return whether a page of another site makes a browser send this request.

    Browsers repeat a password that they know in requests of any site. Other clients send neither header.
    """
    site = headers.get("sec-fetch-site", "")
    if site:
        return site not in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is not None and not _is_own(origin, headers.get("host", ""))


def is_same_origin(headers: Mapping[str, str]) -> bool:
    """Return whether a page of this service makes a browser send this request."""
    if headers.get("sec-fetch-site"):
        return headers["sec-fetch-site"] == "same-origin"
    origin = headers.get("origin")
    return origin is not None and _is_own(origin, headers.get("host", ""))


def is_for_this_machine(headers: Mapping[str, str]) -> bool:
    """Return whether a request names this machine.

    Anyone can make a name of his own lead here.
    """
    host = urlsplit(f"//{headers.get('host', '')}").hostname
    return host is not None and is_loopback(host)


def wants_page(accepted: str) -> bool:
    """Return whether a header Accept names HTML, as that of browsers does; `*/*` names nothing."""
    for offer in accepted.lower().split(","):
        name, *options = (part.strip().replace(" ", "") for part in offer.split(";"))
        if name == "text/html" and not any(option.removeprefix("q=").strip("0.") == "" for option in options):
            return True
    return False


def _is_own(origin: str, host: str) -> bool:
    return bool(host) and urlsplit(origin).netloc.lower() == host.lower()
