"""A job's time divided into steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from prism_ch.model.columns import Bool, Int32, Int64


@dataclass(frozen=True, slots=True)
class Division:
    """Where each step ends on each endpoint.

    `endpoints` int32[m], sorted; `end_ns` int64[m, k], rising along a row; `whole` bool[k], False where a step's
    beginning was not seen. There are no steps where k is 0.
    `regular` says how much alike the steps are in size and in time, beyond chance, in 0..1; 1 where that can't be told.
    """

    endpoints: Int32
    end_ns: Int64
    whole: Bool
    regular: float = 1.0

    def __post_init__(self) -> None:
        """Check the shapes and freeze the arrays."""
        if self.end_ns.shape != (len(self.endpoints), len(self.whole)):
            raise ValueError(
                f"end_ns has shape {self.end_ns.shape} for {len(self.endpoints)} endpoints and {len(self.whole)} steps"
            )
        for column in (self.endpoints, self.end_ns, self.whole):
            column.flags.writeable = False

    @property
    def steps(self) -> int:
        """Count the steps."""
        return len(self.whole)

    def step_of(self, row: Int64, at_ns: Int64) -> Int64:
        """Return the step in which each moment lies, int64[n]; a step ends with its last moment.

        Parameters: `row` int64[n], the row of `endpoints` by whose steps a moment is counted; `at_ns` int64[n]. What
        comes after the last step is in step `steps`.
        """
        if self.steps == 0:
            return np.zeros(len(at_ns), dtype=np.int64)
        first = min(int(self.end_ns.min()), int(at_ns.min(initial=np.iinfo(np.int64).max)))
        span = max(int(self.end_ns.max()), int(at_ns.max(initial=0))) - first + 1
        lines = np.arange(len(self.endpoints))[:, None]
        place = np.searchsorted((lines * span + (self.end_ns - first)).ravel(), row * span + (at_ns - first))
        found: Int64 = place - row * self.steps
        return found

    def rows_of(self, endpoints: Int32) -> Int64:
        """Return the row of each of some members, int64[n]."""
        return np.searchsorted(self.endpoints, endpoints)

    def job_end_ns(self) -> Int64:
        """Return the end of each step of the job, the last of its endpoints', int64[k]."""
        latest: Int64 = self.end_ns.max(axis=0, initial=np.iinfo(np.int64).min)
        return latest

    @classmethod
    def none(cls, endpoints: Int32) -> Division:
        """Return a division without steps."""
        return cls(np.array(endpoints), np.empty((len(endpoints), 0), dtype=np.int64), np.empty(0, dtype=bool))
