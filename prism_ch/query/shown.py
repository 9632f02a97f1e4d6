"""Rewrites SHOW TABLES and DESCRIBE, so that they show what can be read and how."""

from __future__ import annotations

import re

from prism_ch.query.allowed import PARAMETERISED_VIEWS
from prism_ch.query.tenancy import listed_views

_SHOW_TABLES = re.compile(
    r"SHOW\s+(?:FULL\s+)?TABLES(?:\s+(?:FROM|IN)\s+[`\"]?(?P<database>\w+)[`\"]?)?(?=\s+LIMIT\s+\d+\s*$|\s*$)",
    re.IGNORECASE,
)
_DESCRIBE = re.compile(
    r"(?:DESCRIBE|DESC)\s+(?:TABLE\s+)?(?:[`\"]?(?P<database>\w+)[`\"]?\s*\.\s*)?[`\"]?(?P<view>\w+)[`\"]?\s*;?\s*$",
    re.IGNORECASE,
)


def as_shown(statement: str, database: str) -> str:
    """Rewrite SHOW TABLES and DESCRIBE; return other statements as they are.

    SHOW TABLES lists the views that people read; with LIKE or WHERE what those ask for. DESCRIBE tells the columns of a
    view with parameters also without them, which the engine refuses: clients describe all tables of a database in turn.
    """
    found = _SHOW_TABLES.match(statement)
    if found is not None and found["database"] in (None, database):
        names = ", ".join(f"'{name}'" for name in sorted(listed_views()))
        return f"{statement[: found.end()]} WHERE name IN ({names}){statement[found.end() :]}"
    found = _DESCRIBE.match(statement)
    if found is not None and found["database"] in (None, database) and found["view"] in PARAMETERISED_VIEWS:
        return f"DESCRIBE (SELECT * FROM {database}.{found['view']}({PARAMETERISED_VIEWS[found['view']]}))"  # noqa: S608
    return statement
