"""Text is cut at line ends only, whatever the sizes in which it arrives."""

import io
from itertools import accumulate, islice
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.errors import InputError
from prism_ch.ingest import lines
from prism_ch.ingest.columns import COLUMNS, REQUIRED
from prism_ch.ingest.lines import Block, LineReader, read_blocks

HEADER = ",".join(COLUMNS).encode()


class Trickle(io.BytesIO):
    """A stream that hands out a few bytes at a time."""

    def __init__(self, content: bytes, at_once: int) -> None:
        super().__init__(content)
        self.at_once = at_once

    def read1(self, size: int | None = -1, /) -> bytes:
        assert size is not None
        return super().read1(min(self.at_once, size))


def blocks(content: bytes, head: int = 0, patience_s: float = float("inf"), at_once: int = 1 << 20) -> list[Block]:
    stream: BinaryIO = Trickle(content[head:], at_once)
    return list(read_blocks(content[:head], stream, "flows.csv", patience_s))


@given(
    content=st.binary().map(lambda noise: noise.replace(b"\xff", b"\n").replace(b"\xfe", b"\r").replace(b"\xef", b",")),
    head=st.integers(0, 20),
    at_once=st.integers(1, 30),
    chunk=st.integers(1, 40),
    is_patient=st.booleans(),
)
def test_blocks_are_whole_lines_and_lose_nothing(
    content: bytes, head: int, at_once: int, chunk: int, is_patient: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        found = blocks(content, head, float("inf") if is_patient else 0.0, at_once)
    assert b"".join(block.text for block in found) == content
    assert all(block.text.endswith(b"\n") for block in found[:-1])
    assert all(block.text for block in found)
    before = b""
    for block in found:
        assert block.first_line == before.count(b"\n") + 1
        before += block.text


def test_endless_text_is_read_only_as_far_as_blocks_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 1000)

    class Endless(io.BytesIO):
        """A stream of lines without an end, that counts the bytes it hands out."""

        handed_out = 0

        def read1(self, size: int | None = -1, /) -> bytes:
            assert size is not None
            assert size > 0
            self.handed_out += size
            return (b"0123456\n" * size)[:size]

    stream = Endless()
    for number, block in enumerate(islice(read_blocks(b"", stream, "flows.csv"), 100), start=1):
        assert len(block.text) <= 1000
        assert stream.handed_out <= 1000 * number


@given(content=st.text("ab\n").map(str.encode), sizes=st.lists(st.integers(1, 30), min_size=2, max_size=2))
def test_blocks_do_not_depend_on_how_a_file_is_read(content: bytes, sizes: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", 10)
        first, second = (blocks(content, min(size, 9), at_once=size) for size in sizes)
    assert first == second


def test_a_block_lands_as_it_is_when_patience_ends() -> None:
    assert [block.text for block in blocks(b"a\nb\nc", patience_s=0.0, at_once=2)] == [b"a\n", b"b\n", b"c"]
    assert [block.text for block in blocks(b"a\nb\nc", at_once=2)] == [b"a\nb\nc"]


def test_the_mark_of_utf8_is_no_part_of_the_text() -> None:
    assert [block.text for block in blocks(b"\xef\xbb\xbfa\n", head=4)] == [b"a\n"]


@pytest.mark.parametrize("mark", [b"\xff\xfe", b"\xfe\xff"])
def test_utf16_is_refused(mark: bytes) -> None:
    with pytest.raises(InputError, match=r"^flows.csv: is UTF-16; convert it"):
        blocks(mark + b"a\0\n\0", head=4)


def rows(content: bytes, *, is_csv: bool) -> list[dict[str, object]]:
    reader = LineReader("flows.csv", is_csv=is_csv)
    return [row for block in blocks(content) for row in reader.rows(block).to_pylist()]


def test_lines_keep_their_text_and_number() -> None:
    assert rows(b"{}\n\n \x00\xff\r\nlast", is_csv=False) == [
        {"position": 1, "line": b"{}\n"},
        {"position": 2, "line": b"\n"},
        {"position": 3, "line": b" \x00\xff\r\n"},
        {"position": 4, "line": b"last"},
    ]


def test_the_header_says_where_the_columns_are() -> None:
    header = b'"more",' + b",".join(name.upper().encode() for name in reversed(REQUIRED)) + b', "path"\r\n'
    [row] = rows(b"\n" + header + b"1,2\n", is_csv=True)
    names = ["more", *reversed(REQUIRED), "path"]
    places = [names.index(name) + 1 if name in names else 0 for name in COLUMNS]
    assert row == {"position": 3, "line": b"1,2\n", "width": len(names), "places": places, "collector": ""}


def test_the_header_is_in_the_first_block_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", 10)
    found = rows(HEADER + b"\na\nb\n" + HEADER + b"\n", is_csv=True)
    assert [row["line"] for row in found] == [b"a\n", b"b\n", HEADER + b"\n"]
    assert [row["position"] for row in found] == [2, 3, 4]


@pytest.mark.parametrize("content", [b"", b"\n", HEADER, HEADER + b"\n"])
def test_without_records_there_are_no_rows(content: bytes) -> None:
    assert rows(content, is_csv=True) == []


#: An object as nfdump writes it, with the line end after it.
OBJECT = b'{\n\t"first" : "a"\n},\n'


@given(
    pieces=st.lists(st.one_of(st.just(OBJECT), st.binary(max_size=8).map(lambda noise: noise + b"\n")), max_size=8),
    chunk=st.integers(1, 40),
)
def test_objects_are_found_among_rubbish(pieces: list[bytes], chunk: int) -> None:
    text = b"".join(pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_BYTES", chunk)
        reader = LineReader("flows.json", is_csv=False, collector="nfdump")
        found = list(read_blocks(b" ", io.BytesIO(text), "flows.json", end_of=reader.end_of))
    got = [row for block in found for row in reader.rows(block).to_pylist()]
    assert b"".join(row["line"] for row in got) == b" " + text
    assert [row["line"].strip(b" ,\n") for row in got].count(OBJECT.strip(b",\n")) == pieces.count(OBJECT)
    begins = [row["position"] for row in got]
    assert begins == sorted(begins)


@given(text=st.lists(st.sampled_from([b"\n", b"a\n", b"bcdef\n"])).map(b"".join), most=st.integers(1, 5))
def test_a_block_has_few_lines_however_short_they_are(text: bytes, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "CHUNK_LINES", most)
        found = blocks(text)
    assert b"".join(block.text for block in found) == text
    # But for one whose first half has nowhere to part it.
    assert all(block.text.count(b"\n") <= most or b"\n" not in block.text[: len(block.text) // 2] for block in found)
    lengths = [0, *accumulate(len(block.text) for block in found)]
    assert [block.first_line for block in found] == [text[:begin].count(b"\n") + 1 for begin in lengths[: len(found)]]
