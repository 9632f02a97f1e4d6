"""Work on each job apart, so that one that fails costs the others nothing."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from prism_ch.analysis.executor import Executor, Given, Held, LocalExecutor
from prism_ch.model.memory import JobFailure

log = logging.getLogger(__name__)

Input = TypeVar("Input")
Output = TypeVar("Output")


class Apart:
    """Applies functions to jobs, or to parts of them; what raises gives None, and its job has failed.

    A failure is a fault of this program, as no record is too odd to be analysed: it is noted with its place in the
    code, and its traceback is logged. Functions are called one after the other by `each`, and by `spread` wherever
    the executor takes them; by default that is here as well.
    """

    def __init__(self, executor: Executor | None = None) -> None:
        self._executor = LocalExecutor() if executor is None else executor
        self._failed: dict[str, str] = {}

    def __contains__(self, job_id: str) -> bool:
        """Return whether a job has failed."""
        return job_id in self._failed

    @property
    def failures(self) -> tuple[JobFailure, ...]:
        """The jobs that failed, by name."""
        return tuple(JobFailure(job_id, self._failed[job_id]) for job_id in sorted(self._failed))

    def each(
        self, work: Callable[[Input], Output], inputs: Iterable[Input], job_of: Callable[[Input], str]
    ) -> list[Output | None]:
        """Apply `work` to each input, in order.

        Parameters: `job_of`, which names the job that an input belongs to.
        """
        return [self._noted(_tried(work, job_of(one), one)) for one in inputs]

    def share(self, value: Output) -> Held[Output]:
        """Hold a large value that many calls of `spread` are given."""
        return self._executor.share(value)

    def spread(
        self, work: Callable[..., Output], jobs: Sequence[str], given: Iterable[Given]
    ) -> Sequence[Held[Output | JobFailure]]:
        """Hold what `work` returns for each of some arguments, see Executor.

        Parameters: `jobs`, the job that each belongs to. Arguments that are themselves of a call that failed give the
        same failure, and `work` is not called.
        """
        return self._executor.start(
            _tried, ((work, job_id, *arguments) for job_id, arguments in zip(jobs, given, strict=True))
        )

    def told(self, held: Sequence[Held[Output | JobFailure]]) -> list[Output | None]:
        """Return what is held, in order; None for what failed."""
        return [self._noted(one) for one in self._executor.results(held)]

    def tell(self, work: Callable[..., Output], jobs: Sequence[str], given: Sequence[Given]) -> list[Output | None]:
        """Return what `work` returns for each of some arguments, see `spread`."""
        return self.told(self.spread(work, jobs, given))

    def _noted(self, found: Output | JobFailure) -> Output | None:
        if isinstance(found, JobFailure):
            self._failed.setdefault(found.job_id, found.reason)
            return None
        return found


def _tried(work: Callable[..., Output], job_id: str, *arguments: object) -> Output | JobFailure:
    """Call a function, and return its failure, or that of one before it."""
    failed = next((one for one in _flat(arguments) if isinstance(one, JobFailure)), None)
    if failed is not None:
        return failed
    try:
        return work(*arguments)
    except Exception as error:  # whatever it is, the other jobs are not to suffer from it
        log.exception("job failed job_id=%s", job_id)
        return JobFailure(job_id, _reason(error))


def _flat(arguments: tuple[object, ...]) -> Iterable[object]:
    """Yield arguments, and those that tuples among them hold."""
    for one in arguments:
        if type(one) is tuple:
            yield from one
        else:
            yield one


def _reason(error: Exception) -> str:
    """Write in one line what was raised, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    module = where.filename.rpartition("/prism_ch/")[-1]
    return f"{type(error).__name__}: {said} ({module}:{where.lineno}, {where.name})"
