"""Length-delimited messages are told apart whatever the chunks, and damaged ones are found."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.errors import InputError
from prism_ch.ingest import messages
from prism_ch.ingest.messages import TABLE, is_messages, read_messages

RECORDED = (Path(__file__).parents[2] / "data/collectors/goflow2/fine.protobuf_delimited.bin").read_bytes()


def delimited(*contents: bytes) -> bytes:
    """Write messages of less than 16,384 bytes with their lengths, in two bytes, before them."""
    return b"".join(bytes([len(each) & 0x7F | 0x80, len(each) >> 7]) + each for each in contents)


def read(content: bytes) -> list[tuple[str, int, bytes]]:
    found = []
    for table, rows in read_messages(io.BytesIO(content), "flows.bin"):
        for row in rows.to_pylist():
            content = row["message"] if table == TABLE else bytes.fromhex(row["record"])
            found.append((table, row["position"], content))
    return sorted(found, key=lambda row: row[1])


@given(contents=st.lists(st.binary(max_size=200), max_size=20), chunk=st.integers(1, 500))
def test_messages_are_the_same_whatever_the_chunks(contents: list[bytes], chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(messages, "CHUNK_BYTES", chunk)
        found = read(delimited(*contents))
    assert [row[1:] for row in found] == list(enumerate(contents, start=1))


def test_a_recorded_file_is_recognised_and_read() -> None:
    assert is_messages(RECORDED[:1000])
    assert [row[:2] for row in read(RECORDED)] == [(TABLE, number) for number in range(1, 273)]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"time_flow_start_ns,bytes\n",
        b'{"type": "IPFIX"}\n',
        b"PAR1",
        b"\x00" * 100,
        b"\xff" * 100,
        b"\n\x08" + b"\x00" * 9,  # a length and a type, but then no field
    ],
)
def test_other_files_are_not_taken_for_messages(text: bytes) -> None:
    assert not is_messages(text)


@pytest.mark.parametrize(
    "message,is_damaged",
    [
        (b"", False),
        (b"\x08\x04", False),
        (b"\xf2\x07\x01x", False),
        (b"\x35abcd", True),  # field 6, an address, as 4 bytes of fixed width
        (b"\xf5\x07abcd", False),  # field 126 in 4 bytes: not ours, skipped
        (b"\xf1\x07abcdefgh", False),
        (b"\xf1\x07abc", True),
        (b"\x32\x04abc", True),
        (b"\x08", True),
        (b"\x08" + b"\xff" * 10, True),
        (b"\x08" + b"\xff" * 9 + b"\x01", False),
        (b"\x08" + b"\xff" * 9 + b"\x02", True),
        (b"\x00\x01", True),
        (b"\xf3\x07", True),
    ],
)
def test_a_damaged_message_spoils_only_itself(message: bytes, *, is_damaged: bool) -> None:
    good = b"\x08\x04"
    found = read(delimited(good, message, good))
    assert [table == TABLE for table, _, _ in found] == [True, not is_damaged, True]


@pytest.mark.parametrize(
    "content,problem",
    [
        (delimited(b"\x08\x04") + b"\x05\x08", "message 2 is cut off"),
        (delimited(b"\x08\x04") + b"\xff", "message 2 is cut off"),
        (delimited(b"\x08\x04") + b"\xff" * 12, "message 2 has no length"),
        (delimited(b"\x08\x04") + b"\x80\x80\x08", "message 2 has no length"),
    ],
)
def test_where_lengths_are_wrong_reading_ends(content: bytes, problem: str) -> None:
    with pytest.raises(InputError, match=f"^flows.bin: {problem}"):
        read(content)
