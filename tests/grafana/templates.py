"""Expands the templates of alert rules as Grafana does: Go's, of which it knows what rules may use.

Fails, as Grafana does, where a value is used that is missing, and where a function is not known to Grafana 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote_plus

#: As Grafana has it: with a slash at its end.
EXTERNAL_URL = "https://grafana.example/graf/"
_TOKEN = re.compile(r"\{\{\s*(.*?)\s*\}\}|((?:(?!\{\{).)+)", re.DOTALL)
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"|`([^`]*)`|(\S+)')


class TemplateError(Exception):
    """Grafana would log an error."""


#: What a query has for an instance: labels and number of a row.
Row = tuple[Mapping[str, str], float]


def expand(template: str, labels: Mapping[str, str], values: Mapping[str, Row]) -> str:
    """Return the text of an instance: its labels, and the rows of queries by name."""
    tokens = [(action, text) for action, text in _TOKEN.findall(template)]
    made, rest = _block(iter(tokens), {"Labels": labels, "Values": values}, is_shown=True)
    if rest:
        raise TemplateError(f"{{{{ {rest} }}}} without if")
    return made


def _block(tokens: Iterator[tuple[str, str]], data: Mapping[str, Any], *, is_shown: bool) -> tuple[str, str]:
    """Expand up to the end or else of this block; return the text, and what ended it."""
    made = []
    for action, text in tokens:
        if text:
            made.append(text)
        elif action == "end" or action.startswith("else"):
            return "".join(made), action
        elif action.startswith("if "):
            made.append(_choice(tokens, action, data, is_shown=is_shown))
        elif is_shown:
            made.append(_printed(_value(action, data)))
    return "".join(made), ""


def _choice(tokens: Iterator[tuple[str, str]], action: str, data: Mapping[str, Any], *, is_shown: bool) -> str:
    """Expand if, else if, else, end; what is not chosen is not evaluated."""
    chosen, is_done = "", False
    while True:
        condition = action.removeprefix("else").strip().removeprefix("if").strip()
        is_next = is_shown and not is_done and (not condition or bool(_value(condition, data)))
        text, action = _block(tokens, data, is_shown=is_next)
        if is_next:
            chosen, is_done = text, True
        if action == "end":
            return chosen
        if not action:
            raise TemplateError("if without end")


def _value(action: str, data: Mapping[str, Any]) -> Any:
    """Return the value of an action; None where it is missing."""
    words = [quoted.encode().decode("unicode_escape") if quoted else raw or (_Name(name) if name else "")
             for quoted, raw, name in _WORD.findall(action)]  # fmt: skip
    name, *arguments = [_field(word, data) if isinstance(word, _Name) and word[0] == "." else word for word in words]
    if not isinstance(name, _Name):
        return name
    if name not in _FUNCTIONS:
        raise TemplateError(f"function {name!r} not defined")
    arguments = [_value(each, data) if isinstance(each, _Name) else each for each in arguments]
    if None in arguments:
        raise TemplateError(f"{name}: invalid value; nil")
    return _FUNCTIONS[name](*arguments)


class _Name(str):
    """A word that is no quoted text."""

    __slots__ = ()


def _field(word: str, data: Mapping[str, Any]) -> Any:
    """Return what .Labels.x, .Values.x, .Values.x.Value or .Values.x.Labels.y is."""
    kind, name, *more = word.removeprefix(".").split(".")
    found = data[kind].get(name)
    if not more:
        return found
    if found is None:
        raise TemplateError(f"nil pointer evaluating {word}")
    labels, number = found
    return number if more == ["Value"] else labels.get(more[1])


def _printed(value: Any) -> str:
    return "[no value]" if value is None else str(value)


def _humanize(value: float) -> str:
    return f"{value:.4g}"


def _humanize_duration(value: float) -> str:
    minutes, seconds = divmod(int(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes}m {seconds}s" if hours else f"{minutes}m {seconds}s" if minutes else f"{value:.4g}s"


#: Of Go's text/template, of Prometheus and of Grafana 9.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "eq": lambda one, other: one == other,
    "externalURL": lambda: EXTERNAL_URL,
    "humanize": _humanize,
    "humanizeDuration": _humanize_duration,
    "humanizePercentage": lambda value: f"{value * 100:.4g}%",
    "printf": lambda form, value: form % value,
    "reReplaceAll": lambda pattern, other, text: re.sub(pattern.replace(r"\z", r"\Z"), other, text),
    "urlquery": quote_plus,
}
