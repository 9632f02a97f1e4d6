"""Whatever a text holds, it stays a text in its place."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.report.drawing.markup import clean, element, label, number, shortened

TEXTS = st.text(alphabet=st.characters(codec=None, exclude_categories=()), max_size=60)


class _Read(HTMLParser):
    """Collects tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


@given(TEXTS, TEXTS)
def test_any_text_is_read_back_as_it_is(inner: str, attribute: str) -> None:
    read = _Read()
    read.feed(str(element("bdi", inner, title=attribute)))
    read.close()
    assert read.tags == ["bdi"]
    assert read.text == clean(inner)
    assert read.attributes == [("title", clean(attribute))]


@given(TEXTS)
def test_a_clean_text_can_be_written_to_a_file(text: str) -> None:
    assert "\x00" not in clean(text)
    assert clean(text).encode().decode() == clean(text)


@given(TEXTS, st.integers(1, 40))
def test_a_shortened_text_keeps_both_ends(text: str, length: int) -> None:
    short = shortened(text, length)
    assert len(short) <= max(length, 1)
    if len(clean(text)) <= length:
        assert short == clean(text)
    elif length > 2:
        assert (short[0], short[-1]) == (clean(text)[0], clean(text)[-1])


def test_a_label_turns_no_direction() -> None:
    assert label("a\u202eb\u2066c\u200f", 10) == "abc"


@pytest.mark.parametrize("value, text", [(1.0, "1"), (0.04, "0"), (-0.04, "0"), (12.345, "12.3"), (-3.25, "-3.2")])
def test_a_coordinate_is_short(value: float, text: str) -> None:
    assert number(value) == text


def test_markup_is_not_escaped_twice() -> None:
    assert str(element("g", element("title", "<&"), _class="a b", stroke_width=2.0, x=None)) == (
        '<g class="a b" stroke-width="2"><title>&lt;&amp;</title></g>'
    )
