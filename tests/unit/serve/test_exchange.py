"""What is compressed comes back, in pieces of any size, and a bomb comes in pieces of bounded size."""

import gzip
import zlib

import lz4.frame
import pytest
from hypothesis import given
from hypothesis import strategies as st

from prism_ch.serve.exchange import COMPRESSORS, PIECE_BYTES, Decompressor, chosen_coding
from prism_ch.serve.request import RequestError

CODINGS = ["gzip", "deflate", "zstd", "lz4"]


@given(st.sampled_from(CODINGS), st.lists(st.binary(max_size=300)), st.integers(1, 64))
def test_what_is_compressed_comes_back(coding: str, pieces: list[bytes], step: int) -> None:
    packing = COMPRESSORS[coding]()
    packed = b"".join([*map(packing.compress, pieces), packing.flush()])
    unpacking = Decompressor(coding)
    found = b"".join(piece for at in range(0, len(packed), step) for piece in unpacking.pieces(packed[at : at + step]))
    unpacking.finish()
    assert found == b"".join(pieces)


@pytest.mark.parametrize("coding", CODINGS)
def test_a_bomb_comes_in_bounded_pieces(coding: str) -> None:
    packing = COMPRESSORS[coding]()
    bomb = packing.compress(bytes(20 << 20)) + packing.flush()
    sizes = [len(piece) for piece in Decompressor(coding).pieces(bomb)]
    assert sum(sizes) == 20 << 20
    assert max(sizes) <= PIECE_BYTES


@pytest.mark.parametrize("coding", CODINGS)
def test_damage_and_a_missing_end_are_refused(coding: str) -> None:
    packing = COMPRESSORS[coding]()
    packed = packing.compress(b"a" * 1000) + packing.flush()
    short = Decompressor(coding)
    list(short.pieces(packed[:-4]))
    with pytest.raises(RequestError, match="ends in the middle"):
        short.finish()
    with pytest.raises(RequestError, match="can't be decompressed"):
        list(Decompressor(coding).pieces(b"this is not compressed at all" * 10))


def test_streams_behind_one_another_are_one() -> None:
    unpacking = Decompressor("gzip")
    assert b"".join(unpacking.pieces(gzip.compress(b"a") + gzip.compress(b"b"))) == b"ab"
    unpacking.finish()


def test_clients_own_libraries_read_it() -> None:
    for coding, undo in (("gzip", gzip.decompress), ("deflate", zlib.decompress), ("lz4", lz4.frame.decompress)):
        packing = COMPRESSORS[coding]()
        assert undo(packing.compress(b"x" * 99) + packing.flush()) == b"x" * 99


@pytest.mark.parametrize(
    "accepted, coding",
    [
        ("", ""),
        ("identity", ""),
        ("br", ""),
        ("gzip, deflate", "gzip"),
        ("br, GZIP;q=0.5", "gzip"),
        ("gzip;q=0", ""),
        ("gzip; q=0.0, zstd", "zstd"),
        ("lz4,gzip", "lz4"),
    ],
)
def test_the_coding_is_one_that_both_know(accepted: str, coding: str) -> None:
    assert chosen_coding(accepted) == coding


def test_an_unknown_coding_is_refused() -> None:
    with pytest.raises(RequestError, match="gzip, deflate, zstd and lz4 are"):
        Decompressor("br")
