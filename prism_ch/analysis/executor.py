"""Where the work on each job is done: here, or wherever an executor takes it.

What is made of a job stays where it was made until it is asked for: one stage hands it to the next without anybody
having to carry it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, cast

from prism_ch.core.heap import give_back

Output = TypeVar("Output")

#: Calls after which freed memory goes back: holes between what few calls leave are small.
_TIDIED_EVERY = 4

#: What a function is called with, once for each of these.
Given = tuple[object, ...]


class Held(Generic[Output]):
    """A value that an executor keeps, maybe on another machine."""

    __slots__ = ()


class Executor(Protocol):
    """Calls functions, side by side.

    Functions are those of modules, and depend on nothing but what they are given: they may be called on another
    machine, and again after one that died. What they are given may be held, by itself or in tuples; where an iterator
    lets go of it (see let_go), it is gone once the call that it is given to has ended.
    """

    def share(self, value: Output) -> Held[Output]:
        """Hold a large value that many calls are given."""

    def start(self, work: Callable[..., Output], given: Iterable[Given]) -> Sequence[Held[Output]]:
        """Hold what a function returns for each of some arguments. It does not raise."""

    def results(self, held: Sequence[Held[Output]]) -> list[Output]:
        """Return held values."""


@dataclass(frozen=True, slots=True)
class _Here(Held[Output]):
    """A value held in this process."""

    value: Output


class LocalExecutor:
    """Calls functions in threads of this process, `at_once` of them."""

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once

    def share(self, value: Output) -> Held[Output]:
        """Hold a value."""
        return _Here(value)

    def start(self, work: Callable[..., Output], given: Iterable[Given]) -> Sequence[Held[Output]]:
        """Hold what a function returns for each of some arguments, after all calls."""
        held: list[Held[Output]] = []
        with ThreadPoolExecutor(self._at_once) as pool:
            for one in pool.map(lambda arguments: work(*map(_opened, arguments)), given):
                held.append(_Here(one))
                if len(held) % _TIDIED_EVERY == 0:
                    give_back()
        if len(held) % _TIDIED_EVERY:
            give_back()
        return held

    def results(self, held: Sequence[Held[Output]]) -> list[Output]:
        """Return held values."""
        return [cast("Output", _opened(one)) for one in held]


def let_go(items: list[Output]) -> Iterator[Output]:
    """Yield items in order, and take each out of its list."""
    items.reverse()
    while items:
        yield items.pop()


def _opened(argument: object) -> object:
    """Return the value of what is held, by itself or in tuples."""
    if isinstance(argument, _Here):
        return argument.value
    return tuple(map(_opened, argument)) if type(argument) is tuple else argument
