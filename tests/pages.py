"""Reads pages back: their elements, their numbers, and whether they hold nothing that could run or load."""

from __future__ import annotations

import hashlib
import math
import re
from base64 import b64encode
from dataclasses import dataclass, field
from decimal import Decimal
from html.parser import HTMLParser

#: Names that should break a page: quotes, markup, right-to-left marks, controls, a template's braces, 4 kB.
HOSTILE = (
    "\"><script>alert(1)</script>'",
    "</title></style></svg><img src=x onerror=alert(1)>",
    "\u202egnp.exe\u2066 \u200f%00&amp;&#x3c;",
    "{{ 7 * 7 }}{% raw %}\t\n\x01 \x7f",
    "../../?a=b&c=d#e",
    "\u05d0" * 2048,
)

_VOID = frozenset({"br", "input", "link", "meta"})
_TAGS = frozenset({
    "a", "article", "bdi", "body", "br", "button", "caption", "code", "data", "dd", "details", "div", "dl", "dt",
    "figcaption", "figure", "footer", "form", "g", "h1", "h2", "h3", "h4", "head", "header", "html", "input", "label",
    "li", "main", "meta", "nav", "p", "path", "pre", "rect", "section", "span", "strong", "style", "summary", "svg",
    "table", "tbody", "td", "text", "textarea", "th", "thead", "time", "title", "tr", "ul",
})  # fmt: skip
_UNITS = {"%": 0.01, "GPU-hours": 1.0, "GPU-minutes": 1 / 60, "GPU-seconds": 1 / 3600}
_WRITTEN = re.compile(r"(?P<number>[+-]?[0-9,]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?)\s*(?P<unit>%|GPU-\w+)?")


@dataclass
class Element:
    """An element: its tag, attributes, and all text in it."""

    tag: str
    attributes: dict[str, str]
    path: tuple[str, ...]
    text: str = ""


@dataclass
class Page:
    """All elements of a page, in order."""

    elements: list[Element] = field(default_factory=list)

    def all(self, tag: str) -> list[Element]:
        """Return the elements with a tag."""
        return [element for element in self.elements if element.tag == tag]

    def text(self) -> str:
        """Return all text of the body."""
        return self.all("body")[0].text

    def numbers(self) -> list[tuple[float, str]]:
        """Return the values that the page shows, each with how it reads."""
        return [(float(element.attributes["value"]), element.text) for element in self.all("data")]

    def tables(self) -> list[list[list[str]]]:
        """Return the cells of each table, values as the page has them."""
        return self._tables

    def __post_init__(self) -> None:
        """Start without tables."""
        self._tables: list[list[list[str]]] = []


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page()
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        path = tuple(element.tag for element in self.open)
        element = Element(tag, {name: value or "" for name, value in attrs}, path)
        assert len(element.attributes) == len(attrs), (tag, attrs)
        self.page.elements.append(element)
        if tag == "table":
            self.page.tables().append([])
        if tag == "tr":
            self.page.tables()[-1].append([])
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        element = self.open.pop()
        assert element.tag == tag, f"</{tag}> closes <{element.tag}>"
        if tag in {"td", "th"}:
            self.page.tables()[-1][-1].append(" ".join(element.text.split()))

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.text += data


def read_page(html: str) -> Page:
    """Read a page whose elements all close, and check that nothing in it runs or loads."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert not reader.open
    for element in reader.page.elements:
        assert element.tag in _TAGS, element.tag
        risky = [name for name in element.attributes if name.startswith("on") or name in {"src", "style", "srcset"}]
        assert not risky, (element.tag, risky)
        for name in ("href", "action"):
            target = element.attributes.get(name, "/")
            assert re.match(r"/(?!/)|#", target), target
    [sheet] = reader.page.all("style")
    assert "url(" not in sheet.text
    assert "@import" not in sheet.text
    return reader.page


def style_digest(page: Page) -> str:
    """Return the digest of the style sheet, as a policy names it."""
    [sheet] = page.all("style")
    return f"'sha256-{b64encode(hashlib.sha256(sheet.text.encode()).digest()).decode()}'"


def assert_rounded(page: Page) -> None:
    """Check that what each value reads is the value, rounded to the last digit that is printed."""
    for value, text in page.numbers():
        assert is_rounded(value, text), (value, text)


def is_rounded(value: float, text: str) -> bool:
    """Return whether a text is a value, to the last digit printed."""
    found = _WRITTEN.match(text)
    assert found, text
    written = Decimal(found["number"].replace(",", ""))
    unit = _UNITS.get(found["unit"] or "", 1.0)
    half = 0.5 * 10.0 ** int(written.as_tuple().exponent)
    exact = value / unit
    return abs(float(written) - exact) <= half * (1 + 1e-9) + math.ulp(exact)
