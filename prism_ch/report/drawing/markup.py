"""Makes elements of HTML and SVG, with every text in them escaped."""

from __future__ import annotations

import re
from collections.abc import Iterable

from markupsafe import Markup, escape

#: Characters that HTML can't hold or that no screen shows: controls but tab and newline, lone surrogates.
_UNSHOWN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
#: Characters that turn the direction of the text after them.
_TURNING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def clean(text: str) -> str:
    """Replace the characters that HTML can't hold."""
    return _UNSHOWN.sub("\ufffd", text)


def shortened(text: str, length: int) -> str:
    """Shorten a text in its middle, since names differ at both ends."""
    text = clean(text)
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}\u2026{text[len(text) - tail :]}"


def label(text: str, length: int) -> str:
    """Shorten a text for a drawing, without characters that would turn what stands beside it."""
    return shortened(_TURNING.sub("", text), length)


def element(name: str, *children: str | Markup, **attributes: str | float | None) -> Markup:
    """Make an element; children that are no markup are escaped.

    Parameters: `attributes`, of which a leading `_` is left out and others are written as `-`; those that are None are
    left out.
    """
    given = "".join(
        f' {key.removeprefix("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(str(escape(child if isinstance(child, Markup) else clean(child))) for child in children)
    return Markup(f"<{name}{given}>{inner}</{name}>")  # noqa: S704 - every part is escaped above


def joined(parts: Iterable[Markup]) -> Markup:
    """Join elements."""
    return Markup("").join(parts)


def number(value: float) -> str:
    """Write a coordinate to a tenth of a pixel, in as few characters as possible."""
    text = f"{value:.1f}".removesuffix(".0")
    return "0" if text == "-0" else text


def _text(value: str | float) -> str:
    return clean(value) if isinstance(value, str) else number(value)
