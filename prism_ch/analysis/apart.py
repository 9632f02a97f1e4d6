"""Work on each job apart, so that one that fails costs the others nothing."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from prism_ch.model.memory import JobFailure

log = logging.getLogger(__name__)

Input = TypeVar("Input")
Output = TypeVar("Output")


class Apart:
    """Applies functions to jobs, or to parts of them; what raises gives None, and its job has failed.

    A failure is a fault of this program, as no record is too odd to be analysed: it is noted with its place in the
    code, and its traceback is logged. `at_once` inputs are worked side by side.
    """

    def __init__(self, at_once: int = 1) -> None:
        self._at_once = at_once
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

        def tried(one: Input) -> Output | None:
            try:
                return work(one)
            except Exception as error:  # whatever it is, the other jobs are not to suffer from it
                job_id = job_of(one)
                log.exception("job failed job_id=%s", job_id)
                self._failed.setdefault(job_id, _reason(error))
                return None

        with ThreadPoolExecutor(self._at_once) as pool:
            return list(pool.map(tried, inputs))


def _reason(error: Exception) -> str:
    """Write in one line what was raised, and where."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    said = " ".join(str(error).split())
    module = where.filename.rpartition("/prism_ch/")[-1]
    return f"{type(error).__name__}: {said} ({module}:{where.lineno}, {where.name})"
