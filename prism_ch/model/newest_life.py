"""What the analysis remembers of a job's newest life."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from prism_ch.model.result import JobRecord


@dataclass(frozen=True, slots=True)
class UsualWork:
    """How long endpoints, by address, usually worked in a step, in seconds, as it was found at a time.

    `needs` says which inputs a pipeline's outputs were found to wait for: see `Work`.
    """

    found_ns: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)
    needs: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewestLife:
    """The first step of a job's newest life, since when it is its traffic, and how many groups are of earlier ones.

    All are 0 for a job that was never stopped. `usual_work` is what its ranks worked some time ago. Where the
    life became slow while it was young, so many of its steps say what one is as `even_until` counts; else that is 0.
    """

    first_step: int = 0
    begin_ns: int = 0
    earlier_groups: int = 0
    usual_work: UsualWork = field(default_factory=UsualWork)
    even_until: int = 0

    def profile(self) -> str:
        """Put it down for the job's record."""
        return json.dumps({"newest_life": asdict(self)})

    @classmethod
    def of(cls, job: JobRecord) -> NewestLife:
        """Read it from a job's record."""
        known = json.loads(job.profile).get("newest_life", {})
        return cls(**{**known, "usual_work": UsualWork(**known.get("usual_work", {}))})
