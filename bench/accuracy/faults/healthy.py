"""Runs in which nothing is wrong: every finding about them is a false alarm."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bench.accuracy.faults.alarms import Alarm, Log, incidents
from bench.accuracy.faults.phases import PhaseError, phase_error
from bench.accuracy.faults.stream import windows
from bench.accuracy.rows import ALL, CLEAN
from prism_ch.simulate import Scenario, generate
from prism_ch.simulate.draws import Draws
from prism_ch.simulate.families import CONDITIONS, FAMILIES
from prism_ch.simulate.job import BatchChange, GradientSync, Layout, Pause, Pipeline

_WINDOW_S = 60.0

#: Large jobs with long steps: many GPU-hours with few records. A bound on alarms in 1,000 GPU-hours needs as many hours
#: to be measured.
LONG = {
    "long-replicas": Layout(tp=8, dp=128),
    "long-pipeline": Layout(tp=8, pp=4, dp=4),
}
_LONG_S, _LONG_WINDOW_S, _LONG_STEP_S = 8 * 3600.0, 300.0, 60.0

#: Phases are compared in jobs of up to this many GPUs; in larger ones the truth takes long to make.
_PHASES_GPUS = 128

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
class Heard:
    """The GPU-hours of a run, its alarms, all of them false, and the error of its phases if records are whole."""

    gpu_hours: float
    alarms: tuple[Alarm, ...] = ()
    withdrawn: int = 0
    phases: PhaseError = field(default_factory=PhaseError)
    error: str = ""


def all_runs(seeds: range) -> list[Run]:
    """List every healthy family, with whole records and with every defect."""
    families = [*LONG, *CHANGED, *(family for family in FAMILIES if family not in _HARMED)]
    return [Run(family, condition, seed) for family in families for condition in (CLEAN, ALL) for seed in seeds]


def long_run(family: str, seed: int) -> Scenario:
    """Describe a large job that trains for eight hours.

    It saves every twenty steps and evaluates every fifty.
    """
    layout = LONG[family]
    draws = Draws(family, seed, servers=layout.gpus // 8)
    step_s = draws.between(_LONG_STEP_S / 1.5, _LONG_STEP_S * 1.5)
    job = draws.job(
        0,
        layout,
        step_s,
        pipeline=Pipeline(microbatches=layout.pp),
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


def work(run: Run) -> Heard:
    """Simulate and analyse a run; return its false alarms.

    A restart is no false alarm if a job of the run restarts.
    """
    scenario = _scenario(run)
    gpus = sum(len(job.attempts[0].gpus) for job in scenario.jobs)
    phases = run.condition == CLEAN and gpus <= _PHASES_GPUS
    made = generate(replace(scenario, observation=CONDITIONS[run.condition], phases=phases))
    restarts = any(len(job.attempts) > 1 for job in scenario.jobs)
    log, error = Log(), PhaseError()
    for window, results, topology in windows(made, _LONG_WINDOW_S if run.family in LONG else _WINDOW_S):
        log.read(incidents(results, topology), window.end_ns)
        if phases and window.end_ns == scenario.end_ns:
            error = phase_error(results, topology, made)
    false = [one for one in log.now.values() if one.kind != "restart" or not restarts]
    return Heard(gpus * scenario.duration_s / 3600, tuple(false), len(log.gone), error)
