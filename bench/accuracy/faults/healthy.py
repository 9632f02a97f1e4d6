"""Runs in which nothing is wrong: every finding about them is a false alarm."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.accuracy.faults.outcome import NO_FAULT
from bench.accuracy.faults.stream import windows
from bench.accuracy.rows import ALL, CLEAN
from prism_ch.simulate import Scenario, generate
from prism_ch.simulate.draws import Draws
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.simulate.job import BatchChange, GradientSync, Layout, Pause, Pipeline

_WINDOW_S = 60.0

#: Large jobs with long steps: many GPU-hours with few records. A rate of one false alarm in 1,000 GPU-hours needs as
#: many to be measured.
LONG = {
    "long-replicas": Layout(tp=8, dp=64),
    "long-pipeline": Layout(tp=8, pp=4, dp=16),
}
_LONG_S, _LONG_WINDOW_S, _LONG_STEP_S = 7200.0, 300.0, 30.0

#: Families in which a job changes its batch size in the middle of the recording.
CHANGED = {f"{family}, batch changed": family for family in ("gradient-accumulation", "pipeline-1f1b", "experts")}

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
        """The run's name in progress and errors."""
        return f"healthy {self.family}, {self.condition}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class Alarms:
    """The GPU-hours of a run and the kinds of its findings of `warning` or above."""

    gpu_hours: float
    findings: tuple[str, ...]


#: Takes the place of the alarms of a run that failed.
FAILED_RUN = Alarms(gpu_hours=0.0, findings=("failed",))


def all_runs(seeds: range) -> list[Run]:
    """List every healthy family, with whole records and with every defect."""
    families = [*LONG, *CHANGED, *(family for family in FAMILIES if family not in _HARMED)]
    return [Run(family, condition, seed) for family in families for condition in (CLEAN, ALL) for seed in seeds]


def long_run(family: str, seed: int) -> Scenario:
    """Describe a job of 512 GPUs that trains for two hours.

    It saves every twenty steps and evaluates every fifty.
    """
    draws = Draws(family, seed, servers=64)
    step_s = draws.between(_LONG_STEP_S / 1.5, _LONG_STEP_S * 1.5)
    layout = LONG[family]
    job = draws.job(
        0,
        layout,
        step_s,
        pipeline=Pipeline(microbatches=2 * layout.pp),
        sync=GradientSync(buffer_bytes=int(draws.between(0.005, 0.03) * step_s * 50e9)),
    )
    saves = Pause(kind="checkpoint", duration_s=draws.between(5, 20), every_steps=20, payload_bytes=1 << 30)
    evaluates = Pause(kind="evaluation", duration_s=draws.between(0.5, 2) * step_s, every_steps=50)
    job = replace(job, pauses=(saves, evaluates))
    return draws.scenario([job], step_s, cluster={"storage_nodes": 4}, duration_s=_LONG_S)


def changed_run(family: str, seed: int) -> Scenario:
    """Describe a run of a family, lasting longer, whose batches grow midway."""
    run = FAMILIES[family](seed)
    draws = Draws(f"{family} changed", seed)
    change = BatchChange(from_step=draws.one_of(40, 50, 60), factor=draws.one_of(1.25, 1.5, 2.0))
    jobs = (replace(run.jobs[0], batch_changes=(change,)), *run.jobs[1:])
    return replace(run, jobs=jobs, duration_s=2.5 * run.duration_s)


def _scenario(run: Run) -> Scenario:
    if run.family in CHANGED:
        return changed_run(CHANGED[run.family], run.seed)
    return long_run(run.family, run.seed) if run.family in LONG else FAMILIES[run.family](run.seed)


def work(run: Run) -> Alarms:
    """Simulate and analyse a run; return its false alarms.

    A restart is no false alarm if a job of the run restarts.
    """
    scenario = replace(_scenario(run), observation=CONDITIONS[run.condition], phases=False)
    window_s = _LONG_WINDOW_S if run.family in LONG else _WINDOW_S
    no_alarm = (*NO_FAULT, "restart") if any(len(job.attempts) > 1 for job in scenario.jobs) else NO_FAULT
    warned = {
        f"{one.finding.kind} {one.finding.subject}": one.finding.kind
        for _, findings in windows(generate(scenario), window_s)
        for one in findings
        if one.finding.severity != "info" and one.finding.kind not in no_alarm
    }
    gpus = sum(len(job.attempts[0].gpus) for job in scenario.jobs)
    return Alarms(gpus * scenario.duration_s / 3600, tuple(warned.values()))
