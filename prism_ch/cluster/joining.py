"""A worker: joins a scheduler, works the jobs of windows that are given to it, and leaves when it is stopped."""

from __future__ import annotations

import asyncio
import logging
import signal
from importlib import import_module
from typing import TYPE_CHECKING

from prism_ch.cluster.address import installed_version, require_dask, scheduler_address
from prism_ch.cluster.executor import ANSWER_S, refuse_other_version, unreachable
from prism_ch.errors import ClusterError, UsageError

if TYPE_CHECKING:
    from distributed import Worker

log = logging.getLogger(__name__)

#: How long a worker that is stopped takes at most to finish calls and hand on what it holds, in seconds.
_LEAVE_S = 20.0
#: How often a scheduler that was lost is tried again, in seconds.
_AGAIN_S = 2.0


def work_for(scheduler: str, *, threads: int, memory_limit: str) -> None:
    """Work for a scheduler until SIGTERM or SIGINT.

    A scheduler that goes away is waited for. What one worker can't finish, another one does.
    Parameters: `scheduler`, see scheduler_address; `threads`, how many calls are worked side by side; `memory_limit`,
    from which share of it on data move to disk, as Dask reads it: `auto`, `4 GiB`, 0 for none.
    Raises ClusterError if at first the scheduler can't be reached, or runs another version of this program; UsageError
    for a limit that is none.
    """
    address = scheduler_address(scheduler)
    require_dask()
    from dask.config import set as dask_config  # noqa: PLC0415 - the extra may be missing
    from dask.utils import parse_bytes  # noqa: PLC0415

    if memory_limit != "auto":
        try:
            parse_bytes(memory_limit)
        except ValueError as error:
            raise UsageError(f"--memory-limit takes auto or a size such as 4GiB, not {memory_limit}") from error
    import_module("prism_ch.analysis.window")  # the first job is not to wait for it
    # Samples of its stack are taken all the time, for a dashboard that it does not have.
    with dask_config({"distributed.worker.profile.enabled": False}):
        asyncio.run(_work(scheduler, address, threads, memory_limit))


async def _work(name: str, address: str, threads: int, memory_limit: str) -> None:
    """Join a scheduler, and join it again whenever it was lost, until stopped."""
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    await _require_version(name, address)
    while not stopped.is_set():
        await _work_once(name, address, threads, memory_limit, stopped)
        while not stopped.is_set():
            try:
                await _require_version(name, address)
            except ClusterError as error:
                log.warning("scheduler awaited scheduler=%s reason=%r", name, str(error))
                await asyncio.wait({asyncio.ensure_future(stopped.wait())}, timeout=_AGAIN_S)
            else:
                break
    log.info("stopped")


async def _work_once(name: str, address: str, threads: int, memory_limit: str, stopped: asyncio.Event) -> None:
    """Work for a scheduler until it is lost, or the worker is stopped."""
    from distributed import Worker  # noqa: PLC0415 - the extra may be missing

    worker: Worker = await Worker(
        address, nthreads=threads, memory_limit=memory_limit, dashboard=False, death_timeout=ANSWER_S
    )
    log.info("joined scheduler=%s worker=%s threads=%d", name, worker.address, threads)
    ends = {asyncio.ensure_future(stopped.wait()), asyncio.ensure_future(worker.finished())}
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for one in ends:
        one.cancel()
    if not stopped.is_set():
        log.warning("scheduler lost scheduler=%s", name)
        return
    try:
        await asyncio.wait_for(worker.close_gracefully(restart=False, reason="stopped"), _LEAVE_S)
    except (OSError, TimeoutError) as error:
        log.warning("left without handing on what it held; that is computed again reason=%r", str(error))
        await worker.close(timeout=1, executor_wait=False)


async def _require_version(name: str, address: str) -> None:
    """Raise ClusterError unless a scheduler answers and runs this version."""
    from distributed import Client  # noqa: PLC0415 - the extra may be missing

    try:
        async with Client(address, timeout=ANSWER_S, asynchronous=True, set_as_default=False) as client:
            try:
                theirs = await client.run_on_scheduler(installed_version)
            except ImportError:
                theirs = ""
    except (OSError, TimeoutError, ValueError) as error:
        raise unreachable(name, error) from error
    refuse_other_version(name, theirs)
