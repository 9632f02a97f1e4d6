"""The rows of the table: which scenarios are analysed, and how their records are taken."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from prism_ch.simulate import Scenario
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.simulate.scenario import Observation

#: The timings of a run in production, whose truth is laid out in its own way.
PRODUCTION = "production_timings"

_DATA = Path(__file__).parents[2] / "tests" / "data"

#: Where the recorded runs are, by name.
RECORDED = {folder.name: folder for folder in (*sorted((_DATA / "real_training").glob("*/")), _DATA / PRODUCTION)}

#: Every family is shown under these conditions, from no defect of the records to all of them at once.
CLEAN, LOSSY, ALL = "clean", "loss-0.5%", "all"

#: Every single condition is shown on this family.
PLAIN = "pipeline-1f1b"


@dataclass(frozen=True, slots=True)
class Row:
    """A family of scenarios under a condition of records.

    A recorded run is a family without a condition.
    """

    family: str
    condition: str = ""

    @property
    def name(self) -> str:
        """The row's name in the table."""
        if not self.condition:
            return f"recorded {self.family}"
        return self.family if self.condition == CLEAN else f"{self.family}, {self.condition}"

    @property
    def recorded(self) -> bool:
        """Whether the row is a recorded run, which is one scenario only."""
        return not self.condition

    @property
    def noticed_late(self) -> bool:
        """Whether the truth comes from a training loop's clock.

        It notices the end of an exchange some milliseconds late.
        """
        return self.recorded and self.family != PRODUCTION

    @property
    def observation(self) -> Observation:
        """How records are taken."""
        return CONDITIONS[self.condition or CLEAN]

    @property
    def has_separate_bursts(self) -> bool:
        """Whether the bursts of a step are in different records.

        An exporter with a longer idle timeout joins them in one.
        """
        return self.observation.idle_timeout_s < _LONGEST_IDLE_S

    def scenario(self, seed: int) -> Scenario:
        """Describe the scenario of a seed."""
        return replace(FAMILIES[self.family](seed), observation=self.observation, phases=False)


#: The gaps between the bursts of a step are shorter than this, in seconds. Bursts in one record can't be parted again.
_LONGEST_IDLE_S = 1.0


def all_rows() -> list[Row]:
    """List the recorded runs, every family under three conditions, one under all others."""
    others = [name for name in CONDITIONS if name not in (CLEAN, LOSSY, ALL)]
    return [
        *(Row(run) for run in RECORDED),
        *(Row(family, condition) for family in FAMILIES for condition in (CLEAN, LOSSY, ALL)),
        *(Row(PLAIN, condition) for condition in others),
    ]
