"""Runs in which nothing is wrong: what is found of them is a false alarm."""

from __future__ import annotations

from dataclasses import dataclass, replace

from prism_ch.simulate import generate
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from tests.bench.accuracy.faults.outcome import NO_FAULT
from tests.bench.accuracy.faults.stream import windows
from tests.bench.accuracy.rows import ALL, CLEAN

_WINDOW_S = 60.0

#: Families in which something is wrong: a straggler, and data that come late.
_HARMED = ("production-straggler", "late-data")


@dataclass(frozen=True, slots=True)
class Run:
    """A healthy run: a family under a condition of its records."""

    family: str
    condition: str
    seed: int

    @property
    def name(self) -> str:
        """What the run is called while it is worked."""
        return f"healthy {self.family}, {self.condition}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Alarms:
    """The GPU-hours of a run and what was said of it at `warning` or above."""

    gpu_hours: float
    said: tuple[str, ...]


#: What counts for a run that could not be worked.
NOTHING_HEARD = Alarms(gpu_hours=0.0, said=("failed",))


def all_runs(seeds: range) -> list[Run]:
    """List every family in which nothing is wrong, with records that are whole and that have every defect."""
    return [
        Run(family, condition, seed)
        for family in FAMILIES
        if family not in _HARMED
        for condition in (CLEAN, ALL)
        for seed in seeds
    ]


def work(run: Run) -> Alarms:
    """Simulate and examine a run; of jobs that die and come back, that is rightly said."""
    scenario = replace(FAMILIES[run.family](run.seed), observation=CONDITIONS[run.condition], phases=False)
    no_alarm = (*NO_FAULT, "restart") if any(len(job.lives) > 1 for job in scenario.jobs) else NO_FAULT
    said = {
        f"{one.finding.kind} {one.finding.subject}": one.finding.kind
        for _, findings in windows(generate(scenario), _WINDOW_S)
        for one in findings
        if one.finding.severity != "info" and one.finding.kind not in no_alarm
    }
    gpus = sum(len(job.lives[0].gpus) for job in scenario.jobs)
    return Alarms(gpus * scenario.duration_s / 3600, tuple(said.values()))
