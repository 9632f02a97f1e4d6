"""Runs many tasks in worker processes and yields their results in order; a crash is a result too."""

from __future__ import annotations

import multiprocessing
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


@dataclass(frozen=True, slots=True)
class Task:
    """A function to call in a worker process; `name` is shown as progress."""

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """Why a task has no result, in one line."""

    reason: str


def run(tasks: Sequence[Task], workers: int) -> Iterator[Any]:
    """Yield the result of every task, in their order; show progress on a terminal.

    The result is a Failed if the task raised or its process died.
    """
    with _progress() as progress:
        bar = progress.add_task("", total=len(tasks))
        for task, result in zip(tasks, _results(tasks, workers), strict=True):
            progress.update(bar, description=task.name, advance=1)
            yield result


def _results(tasks: Sequence[Task], workers: int) -> Iterator[Any]:
    """Yield results in order.

    A process that dies breaks its pool: the first task without a result runs alone, the rest in another pool.
    """
    done = 0
    while done < len(tasks):
        with _pool(workers) as pool:
            futures = [pool.submit(_guarded, task) for task in tasks[done:]]
            try:
                for future in futures:
                    yield future.result()
                    done += 1
            except BrokenProcessPool:
                pass
            finally:
                pool.shutdown(cancel_futures=True)
        if done < len(tasks):
            yield _alone(tasks[done])
            done += 1


def _alone(task: Task) -> Any:
    """Run a task in a process of its own.

    It may be the one that broke a pool, or one that ran at the same time.
    """
    with _pool(1) as pool:
        try:
            return pool.submit(_guarded, task).result()
        except BrokenProcessPool:
            return Failed("its process died")


def _pool(workers: int) -> ProcessPoolExecutor:
    """Return a pool of new processes.

    Forks of this one would share the engine's threads and locks.
    """
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"))


def _guarded(task: Task) -> Any:
    """Run a task; return a Failed if it raises.

    Not every exception can cross between processes.
    """
    try:
        return task.function(*task.arguments)
    except Exception as error:  # noqa: BLE001 (every error is shown in the task's row)
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())[:300]
        return Failed(f"{type(error).__name__}: {text} ({where.name}, line {where.lineno})")


def _progress() -> Progress:
    """Return a bar below what is printed, shown on a terminal only."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        disable=not sys.stderr.isatty(),
    )
