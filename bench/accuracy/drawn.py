"""Jobs drawn at large, from all that fits together: the families are a few of them.

What is right of every family may be wrong of its neighbours. Each job here has any layout, schedule, way to agree on
gradients, traffic inside operations and network, under any condition of records; nothing is tuned on them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from bench.accuracy.layout import share
from bench.accuracy.report import Cells, Table
from bench.accuracy.rows import CLEAN, Row
from bench.accuracy.tally import Tally
from prism_ch.simulate import Scenario
from prism_ch.simulate.draws import MIB, Draws
from prism_ch.simulate.families import CONDITIONS
from prism_ch.simulate.job import GradientSync, InnerTraffic, Job, Layout, Pipeline, Schedule

#: Conditions under which the bursts of a step are in different records.
_CONDITIONS = tuple(name for name in CONDITIONS if name != CLEAN and Row("drawn", name).has_separate_bursts)

#: Steps that are recorded, and seconds at the least.
_STEPS, _LEAST_S = 40, 61.0

#: Bytes of parameters in the units of fully sharded models.
_UNITS = ((405 * MIB,), (134 * MIB, 270 * MIB), (60 * MIB,))


@dataclass(frozen=True, slots=True)
class Drawn(Row):
    """A drawn job under a condition of its records; `seed` determines all."""

    seed: int = 0

    @classmethod
    def of(cls, seed: int) -> Drawn:
        """Draw the condition: half of the jobs have clean records."""
        draws = Draws("drawn, its records", seed)
        return cls("drawn", draws.one_of(CLEAN, draws.one_of(*_CONDITIONS)), seed)

    @property
    def job(self) -> Job:
        """The only job."""
        [job] = self.scenario(self.seed).jobs
        return job

    @property
    def name(self) -> str:
        """What it is, in one line."""
        job = self.job
        pipeline, sync = job.pipeline, job.sync
        sizes = " ".join(f"{name}{size}" for name, size in asdict(job.layout).items() if size > 1)
        schedule = (
            f"{pipeline.schedule} of {pipeline.microbatches}" if job.layout.pp > 1 else f"{pipeline.microbatches}"
        )
        reduced = f"{sync.mode} in {sync.buckets}{', overlapped' if sync.overlap else ''}"
        return f"drawn {self.seed}: {sizes}, {schedule} microbatches, {reduced}, {self.condition}"

    def scenario(self, seed: int) -> Scenario:
        """Describe the job of a seed."""
        draws = Draws("drawn", seed, servers=Draws("drawn, its size", seed).one_of(2, 3, 4, 6, 8))
        layout, step_s = _layout(draws), draws.between(0.3, 8.0)
        job = draws.job(0, layout, step_s, pipeline=_pipeline(draws, layout), sync=_sync(draws, layout, step_s))
        job = replace(job, queue_pairs=draws.one_of(1, 1, 1, 2, 4), **_inside(draws, layout))
        of_sequences, of_steps = draws.one_of(0.0, 0.0, 0.1), draws.one_of(0.0, 0.0, 0.02)
        job = replace(job, compute=replace(job.compute, sequence_spread=of_sequences, step_spread=of_steps))
        cluster = {"nics": draws.one_of(8, 8, 8, 4), "rail_optimised": draws.one_of(True, True, False)}
        others = {"duration_s": max(_STEPS * step_s, _LEAST_S), "observation": self.observation, "phases": False}
        return draws.scenario([job], step_s, cluster=cluster, **others)


def _layout(draws: Draws) -> Layout:
    """Draw how a job is divided over all GPUs: it has replicas, or a pipeline."""
    gpus = 8 * draws.servers
    while True:
        tp, cp, pp = draws.one_of(1, 2, 4, 8), draws.one_of(1, 1, 1, 2, 4), draws.one_of(1, 1, 2, 3, 4, 6, 8)
        dp, ep = gpus // (tp * cp * pp), draws.one_of(1, 1, 2, 4, 8)
        if tp * cp * pp * dp == gpus and dp % ep == 0 and max(pp, dp) > 1:
            return Layout(tp=tp, cp=cp, ep=ep, dp=dp, pp=pp)


def _pipeline(draws: Draws, layout: Layout) -> Pipeline:
    microbatches, size = draws.one_of(1, 2, 3, 4, 8, 16), draws.one_of(8, 16, 32, 64) * MIB
    if layout.pp == 1:
        return Pipeline(microbatches=microbatches)
    if draws.one_of(True, False, False, False):
        whole = layout.pp * max(1, microbatches // layout.pp)
        chunks = draws.one_of(2, 3)
        return Pipeline(schedule="interleaved", microbatches=whole, chunks=chunks, message_bytes=size)
    schedule: Schedule = draws.one_of("1f1b", "1f1b", "gpipe", "zero-bubble")
    return Pipeline(schedule=schedule, microbatches=microbatches, message_bytes=size)


def _sync(draws: Draws, layout: Layout, step_s: float) -> GradientSync:
    if layout.dp * layout.cp == 1:
        return GradientSync(mode="none")
    size, buckets = int(draws.between(0.005, 0.03) * step_s * 50e9), draws.one_of(1, 1, 2, 3, 4, 6)
    weights = [draws.between(0.1, 1.0) for _ in range(buckets)]
    shares = draws.one_of((), tuple(weight / sum(weights) for weight in weights))
    sync = GradientSync(
        mode=draws.one_of("allreduce", "distributed_optimizer", "zero2"),
        buffer_bytes=size,
        buckets=buckets,
        bucket_shares=shares,
        overlap=draws.one_of(True, False),
        channels=draws.one_of(1, 1, 2, 4),
        exit=draws.one_of("rail", "rail", "rotate"),
        varied_rings=draws.one_of(False, False, False, True),
        eager=draws.one_of(True, False),
        gather_ratio=draws.one_of(0.5, 1.0),
        expert_bytes=size if layout.ep > 1 else 0,
    )
    if layout.pp > 1:
        return replace(sync, grad_norm=draws.one_of(True, False))
    if draws.one_of(True, False, False, False):
        return replace(
            sync, mode="zero3", layers=draws.one_of(4, 8, 12, 24), unit_bytes=draws.one_of(*_UNITS), channels=8
        )
    if sync.mode == "allreduce":
        return replace(sync, algorithm=draws.one_of("ring", "ring", "auto", "tree"))
    return sync


def _inside(draws: Draws, layout: Layout) -> dict[str, Any]:
    """Draw the traffic inside operations, as fields of the job."""
    inside: dict[str, Any] = {}
    if layout.ep > 1:
        size, bursts = draws.one_of(10, 33, 66, 100) * 1_000_000, draws.one_of(2, 4)
        spread, aligned = draws.between(0.1, 0.4), draws.one_of(True, False)
        inside["experts"] = InnerTraffic(payload_bytes=size, bursts=bursts, spread=spread, rail_aligned=aligned)
    if layout.cp > 1:
        size, overlapped = draws.one_of(8, 16, 32) * MIB, draws.one_of(True, True, False)
        bursts = draws.one_of(2, 4)
        inside["context"] = InnerTraffic(payload_bytes=size, bursts=bursts, backward_ratio=2.0, overlapped=overlapped)
    return inside


class Sort(NamedTuple):
    """A sort of jobs, and whether one is of it."""

    name: str
    holds: Callable[[Job], bool]


SORTS = (
    Sort("all", lambda _: True),
    Sort("replicas only", lambda job: job.layout.pp == 1),
    Sort("pipelines", lambda job: job.layout.pp > 1),
    Sort("pipelines of one microbatch", lambda job: job.layout.pp > 1 and job.pipeline.microbatches == 1),
    Sort("interleaved", lambda job: job.pipeline.schedule == "interleaved"),
    Sort("all-reduce", lambda job: job.sync.mode == "allreduce"),
    Sort("distributed optimizer", lambda job: job.sync.mode == "distributed_optimizer"),
    Sort("ZeRO-2", lambda job: job.sync.mode == "zero2"),
    Sort("ZeRO-3", lambda job: job.sync.mode == "zero3"),
    Sort("experts", lambda job: job.experts is not None),
    Sort("context parallel", lambda job: job.context is not None),
    Sort("neither", lambda job: job.experts is None and job.context is None),
)


def drawn_table(rated: Sequence[tuple[Drawn, Tally]]) -> Table:
    """Return a row for each sort of jobs: how many, and what share is right."""
    jobs = [(row.job, tally) for row, tally in rated]
    rows: list[Cells] = []
    for sort in SORTS:
        mine = [tally for job, tally in jobs if sort.holds(job)]
        rows.append((sort.name, str(len(mine)), *(_part(right, mine) for right in (*_RIGHT.values(), is_right))))
    return Table(("jobs with", "n", *_RIGHT, "all of it"), rows)


def is_right(tally: Tally) -> bool:
    """Return whether everything about a job is right."""
    return not tally.errors and all(right(tally) for right in _RIGHT.values())


def _part(right: Callable[[Tally], bool], among: Sequence[Tally]) -> str:
    return share(sum(not tally.errors and right(tally) for tally in among) / len(among) if among else None)


def _is_recognised(tally: Tally) -> bool:
    return tally.jobs.exact and not tally.strangers


def _has_pairs(tally: Tally) -> bool:
    return all(counts.exact for counts in tally.pairs.values())


def _has_groups(tally: Tally) -> bool:
    return tally.dp_groups.exact and tally.chains.exact and not tally.misnumbered


def _has_steps(tally: Tally) -> bool:
    return tally.missed == tally.extra == 0


#: What may be right of a job that did not fail: all its endpoints, pairs, groups, stages, and steps.
_RIGHT: dict[str, Callable[[Tally], bool]] = {
    "recognised": _is_recognised,
    "pairs": _has_pairs,
    "groups and stages": _has_groups,
    "steps": _has_steps,
}
