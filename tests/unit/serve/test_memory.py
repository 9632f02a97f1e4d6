"""Statements share out memory: none begins before what it may use is free, and all get their turn."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from prism_ch.serve.memory import Memory, there_is_bytes
from prism_ch.serve.request import RequestError


def test_no_more_is_used_than_there_is() -> None:
    used = most = 0

    async def statement(memory: Memory, size_bytes: int) -> None:
        nonlocal used, most
        async with memory.reserved(size_bytes):
            used += size_bytes
            most = max(most, used)
            await asyncio.sleep(0.001)
            used -= size_bytes

    async def many() -> None:
        memory = Memory(10, total_bytes=100)
        assert memory.statement_bytes == 25
        await asyncio.gather(*(statement(memory, 1 + number * 7 % 40) for number in range(60)))
        await statement(memory, 100)

    asyncio.run(many())
    assert used == 0
    assert 60 < most <= 100


def test_who_waits_too_long_is_told_and_forgotten() -> None:
    async def crowd() -> None:
        memory = Memory(0.05, total_bytes=10)
        async with memory.reserved(10):
            with pytest.raises(RequestError, match="did not become free"):
                async with memory.reserved(1):
                    pass
        async with memory.reserved(1000):  # more than there is counts as all
            pass

    asyncio.run(crowd())


def test_one_that_gives_up_lets_those_behind_it_go_on() -> None:
    async def crowd() -> None:
        memory = Memory(5, total_bytes=10)

        async def hold(size_bytes: int) -> None:
            async with memory.reserved(size_bytes):
                pass

        async with memory.reserved(5):
            large = asyncio.create_task(hold(10))
            await asyncio.sleep(0)
            small = asyncio.create_task(hold(5))
            await asyncio.sleep(0)
            large.cancel()
            await asyncio.wait_for(small, 1)
        assert (large.cancelled(), small.done()) == (True, True)

    asyncio.run(crowd())


@pytest.mark.parametrize("text, limit", [("1000000\n", 1_000_000), ("max\n", None)])
def test_the_limit_of_a_control_group_counts(tmp_path: Path, text: str, limit: int | None) -> None:
    path = tmp_path / "sys/fs/cgroup/memory.max"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert there_is_bytes(tmp_path) == (limit or there_is_bytes(tmp_path / "none"))


@pytest.mark.parametrize(
    "line, limit",
    [
        ("0::/system.slice/prism.service\n", "sys/fs/cgroup/system.slice/memory.max"),
        ("4:cpu,memory:/a/b\n", "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes"),
    ],
)
def test_the_limit_of_a_group_of_its_own_counts(tmp_path: Path, line: str, limit: str) -> None:
    for path, text in (("proc/self/cgroup", line), (limit, "1000000\n")):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_text(text)
    assert there_is_bytes(tmp_path) == 1_000_000
