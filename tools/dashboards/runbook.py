"""The dashboard that says what to do about each alert rule, in the words of docs/howto/alerts.md."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import normpath

from grafana_foundation_sdk.builders import text
from grafana_foundation_sdk.builders.dashboard import Dashboard
from grafana_foundation_sdk.models.text import TextMode

from prism_ch.grafana.alerts import ALERTS
from tools.dashboards.board import OPERATORS, TENANTS, page, with_panels

FOLDER = "docs/howto"
PAGE = Path(__file__).parents[2] / FOLDER / "alerts.md"
_LINK_TO_FILE = re.compile(r"\[([^]]*)\]\((?!https?:)([^)]*)\)")


def runbook() -> Dashboard:
    """Return the dashboard of what to do. It has a panel for each alert rule, of the rule's title."""
    found = sections(PAGE.read_text(encoding="utf-8"))
    board = page("runbook", "What to do about an alert", "What to do about an alert?", (OPERATORS, TENANTS))
    return with_panels(board, *(_panel(alert.title, found[alert.title]) for alert in ALERTS))


def sections(page_text: str) -> dict[str, str]:
    """Return the texts under a page's headings of level two, by heading.

    Links to files become title and path: there are no such files where Grafana shows them.
    """
    plain = _LINK_TO_FILE.sub(lambda link: f'"{link[1]}" ({normpath(f"{FOLDER}/{link[2]}")})', page_text)
    _, *parts = re.split(r"^## (.*)$", plain, flags=re.MULTILINE)
    return {title: body.strip() for title, body in zip(parts[::2], parts[1::2], strict=True)}


def _panel(title: str, content: str) -> text.Panel:
    return text.Panel().title(title).mode(TextMode.MARKDOWN).content(content).span(24).height(7)
