"""Which steps of a job are read back: the newest ones, and, of those before them, one in so many."""

from __future__ import annotations

from dataclasses import dataclass

from prism_ch.model.params import ContinueParams
from prism_ch.model.result import JobRecord, Steps


@dataclass(frozen=True, slots=True)
class RememberedSteps:
    """Numbers of steps: all in [recent, until), and those in [since, recent) that `stride` divides."""

    since: int
    recent: int
    until: int
    stride: int

    @classmethod
    def of(cls, job: JobRecord, params: ContinueParams) -> RememberedSteps:
        """Return which steps of a job are read back; they are counted on without gaps."""
        recent = max(job.steps - params.history_steps, 0)
        reached = params.remembered_s / job.step_s_median if job.step_s_median > 0 else 0.0
        since = max(recent - round(reached), 0)
        stride = 1  # a power of two: with a longer history, half of the steps known before are known still
        while recent - since > stride * params.history_steps:
            stride *= 2
        return cls(since, recent, job.steps, stride)

    def parts(self, steps: Steps) -> tuple[Steps, Steps]:
        """Return the newest of some steps, and some of those before them."""
        before = (steps.step >= self.since) & (steps.step < self.recent) & (steps.step % self.stride == 0)
        return steps.take(steps.step >= self.recent), steps.take(before)
