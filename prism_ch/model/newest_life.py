"""What the analysis remembers of a job's newest life."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from prism_ch.model.result import JobRecord


@dataclass(frozen=True, slots=True)
class NewestLife:
    """The first step of a job's newest life, since when it is its traffic, and how many groups are of earlier ones.

    All are 0 for a job that was never stopped.
    """

    first_step: int = 0
    begin_ns: int = 0
    earlier_groups: int = 0

    def profile(self) -> str:
        """Put it down for the job's record."""
        return json.dumps({"newest_life": asdict(self)})

    @classmethod
    def of(cls, job: JobRecord) -> NewestLife:
        """Read it from a job's record."""
        return cls(**json.loads(job.profile).get("newest_life", {}))
