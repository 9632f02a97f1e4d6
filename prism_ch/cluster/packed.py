"""What is sent to a worker: a value or a call as bytes, which a scheduler hands on without a look inside."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

Output = TypeVar("Output")


class Packed(Generic[Output]):
    """A value as bytes. Its arrays are sent as they lie in memory, and copied by nobody on the way."""

    __slots__ = ("_buffers", "_head")

    def __init__(self, head: bytes, buffers: Sequence[Any]) -> None:
        self._head = head
        self._buffers = tuple(buffers)

    @classmethod
    def of(cls, value: Output) -> Packed[Output]:
        """Pack a value, whose arrays must not change any more."""
        buffers: list[pickle.PickleBuffer] = []
        return cls(pickle.dumps(value, protocol=5, buffer_callback=buffers.append), buffers)

    def __reduce_ex__(self, protocol: object) -> tuple[object, ...]:
        """Let the buffers travel beside the pickle."""
        return Packed, (self._head, tuple(map(pickle.PickleBuffer, self._buffers)))

    @property
    def array_bytes(self) -> int:
        """How much its arrays hold."""
        return sum(memoryview(one).nbytes for one in self._buffers)

    @property
    def size_bytes(self) -> int:
        """How much is sent."""
        return len(self._head) + self.array_bytes

    def value(self) -> Output:
        """Return the value."""
        return cast("Output", pickle.loads(self._head, buffers=self._buffers))  # noqa: S301 - packed by the same program


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a call's arguments a held value goes, by its number."""

    number: int


#: A function and its arguments.
Call = tuple[Callable[..., object], tuple[object, ...]]


def unpack(packed: Packed[Output]) -> Output:
    """Return a packed value: the task that holds what many calls are given."""
    return packed.value()


def arrived(value: object) -> None:
    """Have a worker fetch what is shared."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Calls that one task makes, one after the other.

    `places` has, for each held value that a call is given, the number of the task that it comes from, and its row in
    what that task returned; None if it is all of that.
    """

    calls: tuple[Packed[Call], ...]
    places: tuple[tuple[tuple[int, int | None], ...], ...]


def call_each(batch: Batch, held: Sequence[Any]) -> list[object]:
    """Make the calls of a batch; `held` is what tasks before it returned."""
    return [
        call(packed, [held[number] if row is None else held[number][row] for number, row in places])
        for packed, places in zip(batch.calls, batch.places, strict=True)
    ]


def call(packed: Packed[Call], held: Sequence[object]) -> object:
    """Call a packed function with its arguments, and those that are held."""
    work, arguments = packed.value()
    return work(*(_filled(one, held) for one in arguments))


def _filled(argument: object, held: Sequence[object]) -> object:
    """Put held values in their places, also in tuples."""
    if isinstance(argument, Place):
        return held[argument.number]
    return tuple(_filled(one, held) for one in argument) if type(argument) is tuple else argument
