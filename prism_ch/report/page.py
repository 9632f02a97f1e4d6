"""Renders pages from templates: every value is escaped, and nothing is loaded or run."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from prism_ch import __version__
from prism_ch.report import written
from prism_ch.report.drawing import cells, palette

#: Words for the phases of a step, by their names in the database.
PHASE_WORDS: Mapping[str, str] = {
    "compute": "compute",
    "PP": "pipeline (PP)",
    "DP": "data parallel (DP)",
    "EP": "expert parallel (EP)",
    "CP": "context parallel (CP)",
    "TP": "tensor parallel (TP)",
}


def render(template: str, **values: Any) -> str:
    """Render a template of this package; only markup made by it is taken as markup."""
    return _environment().get_template(template).render(**values)


@cache
def style() -> Markup:
    """Return the style sheet of all pages."""
    sheet = (files("prism_ch.report") / "templates" / "style.css").read_text(encoding="utf-8")
    return Markup(palette.style() + sheet)  # noqa: S704 - it is this package's own


@cache
def content_security_policy() -> str:
    """Return the policy of a page. Nothing is loaded, nothing runs, and only its own style sheet counts."""
    digest = b64encode(hashlib.sha256(style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'self'"


def address(path: str, **parameters: str | int | None) -> str:
    """Write the address of a page; parameters that are None or empty are left out."""
    given = {name: str(value) for name, value in parameters.items() if value is not None and value != ""}
    return f"{path}?{urlencode(given, errors='replace')}" if given else path


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("prism_ch.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "duration": written.duration,
        "hours": written.hours,
        "share": written.share,
        "excess": written.excess,
        "number": written.number,
        "plain": written.plain,
        "counted": written.counted,
        "when": written.time,
        "named": written.name,
        "sentence": written.sentence,
    }
    environment.globals |= {
        "address": address,
        "content_security_policy": content_security_policy,
        "heat_key": cells.heat_key,
        "losses": len(palette.LOSSES),
        "phases": PHASE_WORDS,
        "style": style,
        "version": __version__,
    }
    return environment
