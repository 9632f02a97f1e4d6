"""What is free between what is kept goes back to the system."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

from prism_ch.core import heap

#: Arrays that the heap holds itself: larger ones are pages of their own.
_BYTES = 100_000


def resident_bytes() -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


@pytest.mark.skipif(heap._TRIM is None, reason="this C library gives memory back by itself")
def test_holes_between_what_is_kept_are_given_back() -> None:
    arrays = [np.ones(_BYTES, dtype=np.int8) for _ in range(2000)]
    kept = arrays[::2]
    del arrays
    before = resident_bytes()
    heap.give_back()
    assert before - resident_bytes() > len(kept) * _BYTES / 2


def test_other_c_libraries_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: object())
    assert heap._found() is None
    monkeypatch.setattr(heap, "_TRIM", None)
    heap.give_back()
