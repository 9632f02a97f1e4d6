"""Works each job of a window on one of the workers of a Dask scheduler.

1. What many calls are given is sent once, to one worker; the others get it from one another at once.
2. A job's first call goes to the worker that has least to do, by the size of what the calls are given.
3. Its later calls go where its state is, unless that worker is gone.
4. Calls of one worker are put together to a few tasks: a task costs a scheduler and a worker about a millisecond each.
5. Results are fetched from the workers, not by way of the scheduler.

All that a call rests on is known to the scheduler, so it has what a lost worker held computed again elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from prism_ch.analysis.executor import Given, Held
from prism_ch.cluster.address import installed_version, require_dask, scheduler_address
from prism_ch.cluster.packed import Batch, Call, Packed, Place, arrived, call_each, unpack
from prism_ch.errors import ClusterError

if TYPE_CHECKING:
    from distributed import Client, Future

log = logging.getLogger(__name__)

Output = TypeVar("Output")

#: How long a scheduler may take to answer, in seconds.
ANSWER_S = 10.0
#: How long a window waits for a worker while there is none, in seconds: a worker that is started anew takes about 5.
NO_WORKER_S = 30.0
#: Into how many tasks the calls of a worker are put, for each of its threads: what a lost worker had left is shared out
#: by tasks.
_TASKS = 4
#: How often it is asked whether there are workers, in seconds, while results are awaited.
_LOOK_S = 1.0


@dataclass(frozen=True, slots=True)
class _Remote(Held[Output]):
    """A value on a worker of a client's scheduler.

    It is one row of what a task returned, or all of that where it is shared. `home` is the worker that later calls go
    to, empty for what is shared.
    """

    client: Client
    future: Future[Any]
    home: str = ""
    row: int | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """A packed call, and the held values that it is given, in the order of their places."""

    packed: Packed[Call]
    held: tuple[_Remote[Any], ...]

    @property
    def state(self) -> _Remote[Any] | None:
        """What it goes on from: the first of them that is not shared."""
        return next((one for one in self.held if one.home), None)


class DaskExecutor:
    """Calls functions on the workers of a scheduler, which is connected to when first needed, and again once lost.

    Raises ClusterError where the scheduler can't be reached or is lost, where it runs another version of this program,
    and where no worker is there for a while. May be used from several threads.
    """

    def __init__(self, address: str) -> None:
        """Take the address of a scheduler, see scheduler_address. Raises ClusterError if it is none."""
        self._name = address
        self._address = scheduler_address(address)
        require_dask()
        self._client: Client | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the scheduler; what this process holds there is forgotten."""
        with self._lock:
            client, self._client = self._client, None
        _leave(client)

    def share(self, value: Output) -> Held[Output]:
        """Hold a large value that many calls are given."""
        from dask.config import set as dask_config  # noqa: PLC0415 - the extra may be missing
        from distributed import fire_and_forget  # noqa: PLC0415

        client = self._connected()
        workers = self._workers(client)
        packed = Packed.of(value)
        log.debug("shared scheduler=%s bytes=%d", self._name, packed.size_bytes)
        with self._clear_errors(client), dask_config({"distributed.admin.large-graph-warning-threshold": "1 TiB"}):
            key = f"share-{uuid.uuid4().hex}"
            [future] = client.map(unpack, [packed], pure=False, key=key)
            # Each worker fetches it from another as soon as there is one, not once its first call waits for it.
            for number, home in enumerate(workers if len(workers) > 1 else ()):
                fire_and_forget(
                    client.submit(
                        arrived, future, pure=False, key=f"{key}-{number}", workers=[home], allow_other_workers=True
                    )
                )
        return _Remote(client, future)

    def start(self, work: Callable[..., Output], given: Iterable[Given]) -> Sequence[Held[Output]]:
        """Hold what a function returns for each of some arguments."""
        calls = [_packed(work, arguments) for arguments in given]
        if not calls:
            return []
        client = next((one.client for call in calls for one in call.held), None) or self._connected()
        started: dict[int, _Remote[Output]] = {}
        with self._clear_errors(client):
            for home, tasks in self._tasks(client, calls).items():
                batches, held = zip(*(_batch([calls[row] for row in rows]) for rows in tasks), strict=True)
                key = f"call-{uuid.uuid4().hex}"
                futures = client.map(
                    call_each, batches, held, pure=False, key=key, workers=[home], allow_other_workers=True
                )
                for future, rows in zip(futures, tasks, strict=True):
                    started |= {row: _Remote(client, future, home, place) for place, row in enumerate(rows)}
        return [started[row] for row in range(len(calls))]

    def results(self, held: Sequence[Held[Output]]) -> list[Output]:
        """Return held values."""
        if not held:
            return []
        remote = [cast("_Remote[Output]", one) for one in held]
        client, futures = remote[0].client, {one.future.key: one.future for one in remote}
        with self._clear_errors(client):
            found = dict(zip(futures, client.sync(self._gathered, client, list(futures.values())), strict=True))
        returned = ((one.row, found[one.future.key]) for one in remote)
        return [value if row is None else value[row] for row, value in returned]

    def _tasks(self, client: Client, calls: Sequence[_Call]) -> dict[str, list[list[int]]]:
        """Put calls together to tasks. Returns the rows of each, by worker.

        Calls whose state one task returned are one again; new ones go to the worker that has least to do, large ones
        first.
        """
        tasks: dict[str, dict[object, list[int]]] = defaultdict(lambda: defaultdict(list))
        new = []
        for row, one in enumerate(calls):
            if one.state is None:
                new.append(row)
            else:
                tasks[one.state.home][one.state.future.key].append(row)
        if new:
            threads = self._workers(client)
            load = dict.fromkeys(threads, 0.0)
            weight = {row: 1 + calls[row].packed.array_bytes for row in new}
            count = dict.fromkeys(threads, 0)
            for row in sorted(new, key=weight.__getitem__, reverse=True):
                home = min(load, key=lambda home: (load[home] + weight[row]) / threads[home])
                tasks[home][count[home] % (_TASKS * threads[home])].append(row)
                load[home] += weight[row]
                count[home] += 1
        return {home: list(rows.values()) for home, rows in tasks.items()}

    def _workers(self, client: Client) -> dict[str, int]:
        """Return the threads of each worker, by address, once there is one."""
        try:
            client.wait_for_workers(1, timeout=NO_WORKER_S)
        except TimeoutError:
            raise self._no_worker() from None
        threads: dict[str, int] = client.nthreads()
        if not threads:
            raise self._no_worker()
        return dict(sorted(threads.items()))

    async def _gathered(self, client: Any, futures: list[Future[Any]]) -> list[Any]:
        """Fetch results; gives up once there has been no worker for a while."""
        gathering: asyncio.Future[list[Any]] = asyncio.ensure_future(
            client.gather(futures, direct=True, asynchronous=True)
        )
        alone_s = 0.0
        try:
            while not (await asyncio.wait({gathering}, timeout=_LOOK_S))[0]:
                alone_s = 0.0 if await client.scheduler.ncores() else alone_s + _LOOK_S
                if alone_s >= NO_WORKER_S:
                    raise self._no_worker()
            return gathering.result()
        finally:
            gathering.cancel()

    def _connected(self) -> Client:
        """Return the connection to the scheduler; makes one where there is none any more."""
        from distributed import Client  # noqa: PLC0415 - the extra may be missing

        with self._lock:
            if self._client is not None and self._client.status == "running":
                return self._client
            _leave(self._client)
            self._client = None
            try:
                client = Client(
                    self._address, timeout=ANSWER_S, set_as_default=False, direct_to_workers=True, name="prism-ch"
                )
            except (OSError, TimeoutError, ValueError) as error:
                raise unreachable(self._name, error) from error
            try:
                refuse_other_version(self._name, _version_there(client))
            except BaseException:
                _leave(client)
                raise
            self._client = client
            log.info("scheduler joined scheduler=%s workers=%d", self._name, len(client.nthreads()))
            return client

    @contextmanager
    def _clear_errors(self, client: Client) -> Iterator[None]:
        """Turn what Dask raises into a ClusterError."""
        from distributed import KilledWorker  # noqa: PLC0415 - the extra may be missing
        from distributed.client import ClosedClientError  # noqa: PLC0415

        try:
            _require_running(client)
            yield
        except KilledWorker as error:
            raise ClusterError(
                f"{self._name}: a job of this window was at work on {error.allowed_failures + 1} workers that ended,"
                " one after the other; they may lack memory: look at their logs, and at --memory-limit"
            ) from error
        except (OSError, TimeoutError, CancelledError, ClosedClientError) as error:
            self.close()
            raise ClusterError(
                f"{self._name}: the scheduler was lost in the middle of a window; that is worked again once a scheduler"
                " is there: start `dask scheduler` again, or set the executor to local"
            ) from error

    def _no_worker(self) -> ClusterError:
        return ClusterError(
            f"{self._name}: the scheduler has no worker; start some with `prism-ch worker {self._name}`, or set the"
            " executor to local"
        )


def unreachable(name: str, error: Exception) -> ClusterError:
    """Return the error for a scheduler that does not answer."""
    reason = " ".join(str(error).split())
    return ClusterError(
        f"{name}: no scheduler answers ({reason}); is the address right? `dask scheduler` starts one, and the executor"
        " local needs none"
    )


def refuse_other_version(name: str, theirs: str) -> None:
    """Raise ClusterError unless a scheduler runs this version of this program.

    `theirs` is empty where it has none.
    """
    mine = installed_version()
    if theirs != mine:
        has = f"runs prism-ch {theirs}" if theirs else "lacks prism-ch"
        raise ClusterError(
            f"{name}: the scheduler {has}, and this is {mine}; start `dask scheduler` where prism-ch[cluster]=={mine}"
            " is installed"
        )


def _require_running(client: Client) -> None:
    """Raise what Dask raises once the scheduler is lost.

    Dask tries to join again by itself, but what was held is gone already.
    """
    from distributed.client import ClosedClientError  # noqa: PLC0415 - the extra may be missing

    if client.status != "running":
        raise ClosedClientError(client.status)


def _leave(client: Client | None) -> None:
    """Close a connection."""
    if client is not None:
        with suppress(Exception):  # the scheduler may be gone, and nobody waits for it
            client.close(timeout=1)


def _version_there(client: Client) -> str:
    """Ask a scheduler for its version of this program; empty if it has none."""
    try:
        return str(client.run_on_scheduler(installed_version))
    except ImportError:
        return ""


def _packed(work: Callable[..., object], arguments: Given) -> _Call:
    """Pack a call, with places for the held values that it is given."""
    held: list[_Remote[Any]] = []

    def placed(argument: object) -> object:
        if isinstance(argument, _Remote):
            held.append(argument)
            return Place(len(held) - 1)
        return tuple(map(placed, argument)) if type(argument) is tuple else argument

    places = tuple(map(placed, arguments))
    return _Call(Packed.of((work, places)), tuple(held))


def _batch(calls: Sequence[_Call]) -> tuple[Batch, list[Future[Any]]]:
    """Put calls together, and return them with the tasks that they go on from."""
    futures = {one.future.key: one.future for call in calls for one in call.held}
    number = {key: place for place, key in enumerate(futures)}
    places = tuple(tuple((number[one.future.key], one.row) for one in call.held) for call in calls)
    return Batch(tuple(call.packed for call in calls), places), list(futures.values())
