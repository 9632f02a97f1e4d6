"""What is sent to a worker arrives as it was."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from prism_ch.cluster.packed import Call, Packed, Place, call, unpack


def _sent(packed: Packed[Any]) -> Packed[Any]:
    """Send a packed value by way of a scheduler, that holds it and sends it on."""
    for _ in range(2):
        buffers: list[pickle.PickleBuffer] = []
        text = pickle.dumps(packed, protocol=5, buffer_callback=buffers.append)
        packed = pickle.loads(text, buffers=[bytes(one) for one in buffers])  # noqa: S301 - made above
    return packed


def _add(first: object, others: tuple[object, ...]) -> tuple[object, ...]:
    return (first, *others)


def test_value_arrives_with_arrays_that_are_still_one() -> None:
    numbers = np.arange(1000)
    numbers.flags.writeable = False
    first, second, word = _sent(Packed.of((numbers, numbers, "word"))).value()
    np.testing.assert_array_equal(first, numbers)
    assert second is first
    assert word == "word"


def test_arrays_are_beside_the_pickle_and_counted() -> None:
    packed = Packed.of(np.arange(1000, dtype=np.int64))
    assert packed.array_bytes == 8000
    assert 8000 < packed.size_bytes < 8400


def test_call_fills_places_also_in_tuples() -> None:
    packed: Packed[Call] = Packed.of((_add, (Place(1), (3, Place(0), (Place(1),)))))
    assert call(packed, [10, 11]) == (11, 3, 10, (11,))


def test_task_of_a_shared_value_returns_it() -> None:
    assert unpack(Packed.of([1, 2])) == [1, 2]


def test_function_that_is_no_module_s_is_refused() -> None:
    with pytest.raises((AttributeError, pickle.PicklingError)):
        Packed.of((lambda: 1, ()))
