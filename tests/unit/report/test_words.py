"""Counts, sizes and times as people write them."""

import pytest

from prism_ch.report.words import size


@pytest.mark.parametrize(
    "size_bytes, text",
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (5 * 2**40, "5.0 TiB"),
        (3 * 2**30, "3.0 GiB"),
        (2**63, "8,192.0 PiB"),
    ],
)
def test_sizes_have_a_unit(size_bytes: int, text: str) -> None:
    assert size(size_bytes) == text
