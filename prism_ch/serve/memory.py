"""Shares out memory among statements over HTTP, so that all together never need more than there is."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prism_ch.serve.engine import in_turn

#: Share of the memory that statements may use together; the analysis, landing and the engine's caches have the rest.
_SHARE = 0.5
#: One statement may use this share of that, so that one user's can't make all others wait.
_STATEMENT_SHARE = 0.25
#: Where Linux has control groups, and in which file how much memory one may use: of version 2, and of version 1.
_GROUPS = {"": ("sys/fs/cgroup", "memory.max"), "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes")}


class Memory:
    """The memory for statements: each reserves all that it may use, and waits until that is free, in order.

    Parameters: `total_bytes`, by default half of what this machine or control group has; `queue_s`, how long a
    statement waits, in seconds.
    """

    def __init__(self, queue_s: float, total_bytes: int = 0) -> None:
        self._free_bytes = self._total_bytes = total_bytes or int(_SHARE * there_is_bytes())
        self._queue_s = queue_s
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def statement_bytes(self) -> int:
        """How much one statement may use."""
        return int(_STATEMENT_SHARE * self._total_bytes)

    @asynccontextmanager
    async def reserved(self, size_bytes: int) -> AsyncIterator[None]:
        """Hold memory while a block runs.

        Raises RequestError if it does not become free in time.
        """
        size_bytes = min(size_bytes, self._total_bytes)
        await in_turn(self._take(size_bytes), self._queue_s, "their memory did not become free")
        try:
            yield
        finally:
            self._give_back(size_bytes)

    async def _take(self, size_bytes: int) -> None:
        if not self._waiting and size_bytes <= self._free_bytes:
            self._free_bytes -= size_bytes
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(size_bytes)
            else:
                self._waiting.remove((size_bytes, turn))
                self._give_back(0)
            raise

    def _give_back(self, size_bytes: int) -> None:
        self._free_bytes += size_bytes
        while self._waiting and self._waiting[0][0] <= self._free_bytes:
            size_bytes, turn = self._waiting.popleft()
            self._free_bytes -= size_bytes
            turn.set_result(None)


def there_is_bytes(root: Path = Path("/")) -> int:
    """Return how much memory this process may use. A limit of its control group counts."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([machine, *_group_limits(root)])


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the limits of this process's control group and of those around it."""
    groups = {"": "/", "memory": "/"}  # of a container, which sees its own as the topmost
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            groups.update(dict.fromkeys(groups.keys() & set(controllers.split(",")), path))
    for controller, path in groups.items():
        top, name = _GROUPS[controller]
        for group in (Path(path), *Path(path).parents):
            with suppress(OSError):
                text = (root / top / str(group).lstrip("/") / name).read_text(encoding="ascii").strip()
                if text.isdigit():  # it is `max` where there is no limit
                    yield int(text)
