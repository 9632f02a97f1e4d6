"""Asks the questions of reports and pages: a statement of sql/queries by its name, answered in rows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from prism_ch.model.window import Interval
from prism_ch.query.answer import check_statement, run
from prism_ch.query.checked import CheckedStatement
from prism_ch.store.client import Store
from prism_ch.store.statements import statement

#: A format whose numbers are as exact as the engine's.
FORMAT = "JSONCompactEachRow"
#: The span of time that ClickHouse's DateTime64(9) holds.
ALWAYS = Interval(0, 9_200_000_000_000_000_000)
SECOND_NS = 1_000_000_000

_Row = TypeVar("_Row")


#: The name of a statement, and its parameters.
Question = tuple[str, Mapping[str, Any]]


class Ask(Protocol):
    """Answers the statement of sql/queries/<name>.sql in rows, for one reader, who sees only what is his."""

    def __call__(self, name: str, /, **parameters: Any) -> list[list[Any]]:
        """Return the rows; raises StoreError if the engine fails."""
        ...

    def together(self, questions: Sequence[Question]) -> list[list[list[Any]]]:
        """Return the rows of several statements, which may run at once."""
        ...


@dataclass(frozen=True, slots=True)
class AskStore:
    """Asks a database; `tenant` is whose rows are seen, None for all.

    Statements are checked once: a report asks some of them for each incident.
    """

    store: Store
    tenant: str | None = None
    _checked: dict[str, CheckedStatement] = field(default_factory=dict)

    def __call__(self, name: str, /, **parameters: Any) -> list[list[Any]]:
        """Return the rows as that tenant's own statement would have them."""
        checked = self._checked.get(name)
        if checked is None:
            checked = self._checked[name] = check_statement(self.store, statement(name), tenant=self.tenant)
        return parsed(run(self.store, checked, FORMAT, parameters))

    def together(self, questions: Sequence[Question]) -> list[list[list[Any]]]:
        """Return the rows of several statements, one after the other."""
        return [self(name, **parameters) for name, parameters in questions]


def parsed(body: bytes) -> list[list[Any]]:
    """Read rows as the engine wrote them. Bytes that are no UTF-8 are replaced."""
    return [json.loads(line) for line in body.decode(errors="replace").split("\n") if line]


def read(ask: Ask, row: type[_Row], name: str, /, **parameters: Any) -> list[_Row]:
    """Ask, and make an object of each row, whose fields are the columns in order."""
    return rows_of(row, ask(name, **parameters))


def rows_of(row: type[_Row], answer: list[list[Any]]) -> list[_Row]:
    """Make an object of each row of an answer."""
    return [row(*values) for values in answer]


def span(interval: Interval) -> dict[str, str]:
    """Return the parameters from_time and to_time of a statement."""
    return {"from_time": _written(interval.start_ns), "to_time": _written(interval.end_ns)}


def whole_seconds(interval: Interval) -> Interval:
    """Widen an interval to whole seconds, which is what some views take."""
    start_ns = interval.start_ns // SECOND_NS * SECOND_NS
    return Interval(start_ns, max(-(-interval.end_ns // SECOND_NS) * SECOND_NS, start_ns + SECOND_NS))


def span_in_seconds(interval: Interval) -> dict[str, str]:
    """Return from_time and to_time of an interval of whole seconds, without fractions."""
    return {name: value.partition(".")[0] for name, value in span(interval).items()}


def _written(time_ns: int) -> str:
    whole, fraction = divmod(time_ns, SECOND_NS)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%d %H:%M:%S}.{fraction:09d}"
