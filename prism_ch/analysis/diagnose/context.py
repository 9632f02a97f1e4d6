"""What the detectors look at: a job as a window shows it, and what is measured of it, each thing once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prism_ch.analysis.continuity.continuity import ContinuedJob, RebuiltAttempt
from prism_ch.analysis.diagnose.compute import compute_time
from prism_ch.analysis.diagnose.compute.comparison import Comparison, compare
from prism_ch.analysis.diagnose.compute.last_ready import LastReady, find_last_ready
from prism_ch.analysis.diagnose.compute.slow_gpus import find_slow_gpus
from prism_ch.analysis.diagnose.compute.slow_stages import find_slow_stages
from prism_ch.analysis.diagnose.compute.usual_compute import before_slow, recall, remember
from prism_ch.analysis.diagnose.findings import Place
from prism_ch.analysis.diagnose.network.localise import NetworkView, look_at
from prism_ch.analysis.diagnose.network.queue_pairs import by_queue_pair
from prism_ch.analysis.diagnose.network.time_per_byte import measure_time_per_byte
from prism_ch.analysis.diagnose.steps.explain import Moved
from prism_ch.analysis.diagnose.stops.rests import StepsSeen, not_slow
from prism_ch.analysis.diagnose.stops.stop_findings import is_stop
from prism_ch.analysis.observe.observe import Observed
from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int32, Int64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division, GroupSet, PairKinds
from prism_ch.model.memory import UsualComputeTime
from prism_ch.model.params import Params
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic


@dataclass(frozen=True)
class AttemptContext:
    """One attempt of a job, and what its traffic shows.

    `place` is where its steps lie in the job, `known` are the findings that were open before, those on switches among
    them, and `usual` are its ranks' compute times that earlier windows remembered. `steps_seen` are its steps with the
    longest rest in each of them. `network` are the NICs, links, switches and groups that take longer for their bytes,
    as all jobs together show them.
    """

    attempt: RebuiltAttempt
    place: Place
    known: tuple[Finding, ...]
    usual: UsualComputeTime
    topology: Topology
    params: Params
    steps_seen: StepsSeen
    network: tuple[Finding, ...] = ()

    @property
    def typed_traffic(self) -> tuple[Traffic, PairKinds, Division, GroupSet]:
        """Its bursts, what kind each pair carries, where steps end, and its groups."""
        one = self.attempt
        return one.bursts, one.kinds, one.division, one.groups

    def look_at_network(self) -> NetworkView | None:
        """Measure how long its traffic takes for its bytes. Returns None without enough steps."""
        one, params = self.attempt, self.params.diagnose.network
        if one.division.steps == 0:
            return None
        bursts, kinds, taken = by_queue_pair(one.bursts, one.kinds, one.traffic.flows.batch(), params)
        times = measure_time_per_byte(bursts, kinds, one.division, one.groups, self.topology, params, taken)
        return look_at(times, one.division, self.known, self.place, self.topology)

    @cached_property
    def compute_times(self) -> tuple[compute_time.ComputeTime, ...]:
        """How long ranks compute, in each way that the traffic allows, best first."""
        params = self.params.diagnose.compute
        if self.attempt.division.steps == 0:
            return ()
        if compute_time.passes_on_unseen(*self.typed_traffic, self.topology):
            return compute_time.measure_servers(*self.typed_traffic, self.topology, params, self.usual.needs)
        return compute_time.measure_compute_time(*self.typed_traffic, self.topology, params, self.usual.needs)

    @cached_property
    def usual_s(self) -> dict[int, float]:
        """What endpoints computed some time ago, in seconds."""
        return recall(self.usual, self.compute_times, self.topology)

    @cached_property
    def before_slow_s(self) -> dict[int, float]:
        """What endpoints computed before they became slow, in seconds."""
        return before_slow(self.known, self.topology)

    @cached_property
    def compared(self) -> tuple[Comparison, ...]:
        """Its ranks compared with others, and with what they computed some time ago."""
        return tuple(compare(self.compute_times, self.attempt.division, self.usual_s, self.params.diagnose.compute))

    @cached_property
    def gpus(self) -> tuple[Finding, ...]:
        """GPUs that compute for longer."""
        division, compared = self.attempt.division, iter(self.compared)
        if self.before_slow_s:
            expected_s = self.usual_s | self.before_slow_s
            compared = compare(self.compute_times, division, expected_s, self.params.diagnose.compute)
        return find_slow_gpus(compared, division, self.place, self.topology)

    @cached_property
    def stages(self) -> tuple[Finding, ...]:
        """Pipeline stages that compute for longer."""
        expected_s = self.usual_s | self.before_slow_s
        return find_slow_stages(self.compute_times, self.attempt.division, self.place, self.topology, expected_s)

    @cached_property
    def last_ready(self) -> LastReady:
        """Who kept the others waiting in each of its steps."""
        return find_last_ready(self.compared, self.attempt.division, self.gpus, self.place, self.topology)

    def remembered(self) -> UsualComputeTime:
        """Return its ranks' compute times that later windows have to know."""
        division, params = self.attempt.division, self.params.diagnose.compute
        if division.steps == 0:
            return UsualComputeTime()
        return remember(self.usual, self.compute_times, (*self.gpus, *self.stages), division, self.topology, params)


@dataclass(frozen=True, slots=True)
class ExaminedJob:
    """A job as a window shows it, without the traffic of others: that is large, and the same for all jobs.

    `not_slow` bool[steps] masks those of its steps that are long for another reason than slowness, and `moved` is what
    its steps moved.
    """

    job: ContinuedJob
    attempts: tuple[AttemptContext, ...]
    not_slow: Bool
    moved: Moved

    @classmethod
    def of(cls, job: ContinuedJob, seen: Observed, topology: Topology, params: Params) -> ExaminedJob:
        """Look at a job; `seen` holds the findings on switches that were open before."""
        stays = () if job.before is None else tuple(filter(is_of_steps, job.before.findings))
        attempts = []
        for one in job.attempts:
            settled = job.memory if one.is_settled else None
            usual = UsualComputeTime() if settled is None else settled.usual_compute
            begins = one.division.steps == len(one.rebuilt.steps)
            place = Place(job.job.job_id, one.first_step, params.diagnose, begins=begins)
            known = (*stays, *seen.known.findings)
            shown = StepsSeen.of(one, seen.by_pair, job.holes, params.stops)
            attempts.append(AttemptContext(one, place, known, usual, topology, params, shown))
        steps_seen = [one.steps_seen for one in attempts]
        mask = not_slow(steps_seen, job.steps, params.stops)
        return cls(job, tuple(attempts), mask, what_moved(steps_seen, params))

    def look_at_network(self) -> tuple[NetworkView | None, ...]:
        """Measure how long the traffic of each attempt takes for its bytes."""
        return tuple(one.look_at_network() for one in self.attempts)

    def among(self, seen: Observed, topology: Topology, params: Params) -> JobContext:
        """Return it with all that the window shows."""
        return JobContext(self.job, self.attempts, self.not_slow, self.moved, seen, topology, params)


@dataclass(frozen=True, slots=True)
class JobContext(ExaminedJob):
    """A job as a window shows it, among others.

    `seen` is all that the window shows, `found` what earlier detectors found.
    """

    seen: Observed
    topology: Topology
    params: Params
    found: tuple[Finding, ...] = ()

    @classmethod
    def of(cls, job: ContinuedJob, seen: Observed, topology: Topology, params: Params) -> JobContext:
        """Look at a job, see ExaminedJob."""
        return ExaminedJob.of(job, seen, topology, params).among(seen, topology, params)

    def with_network(self, found: Sequence[tuple[Finding, ...]]) -> JobContext:
        """Add what is slow in the network of each attempt, by all jobs together."""
        attempts = tuple(replace(one, network=network) for one, network in zip(self.attempts, found, strict=True))
        return replace(self, attempts=attempts)

    def with_slowest(self) -> JobContext:
        """Add who kept the others waiting in each new step, and how long."""
        late_s = np.concatenate([one.last_ready.late_s for one in self.attempts])
        return replace(self, job=_with_slowest(self.job, self.attempts), moved=replace(self.moved, late_s=late_s))

    def with_found(self, found: tuple[Finding, ...]) -> JobContext:
        """Return it with what was found so far."""
        return replace(self, found=found)

    def outside_stops(self, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Keep the findings that steps which are long for another reason do not explain."""
        long_steps = self.job.steps.step[self.not_slow]
        return found_outside(findings, long_steps, self.params.diagnose.compute.slow_steps)

    def ordinary_steps(self) -> Steps:
        """Return the known steps that are not long for another reason than slowness."""
        ordinary = self.job.steps.take(~self.not_slow)
        before = self.job.before
        return ordinary if before is None else Steps.concat([before.baseline_steps, ordinary])

    @property
    def job_id(self) -> str:
        """The job."""
        return self.job.job.job_id

    @property
    def known(self) -> tuple[Finding, ...]:
        """All findings on the job that were open before."""
        return () if self.job.memory is None else self.job.memory.findings

    @property
    def known_of_steps(self) -> tuple[Finding, ...]:
        """Those of them that stay and are about slowness in steps."""
        return () if self.job.before is None else tuple(filter(is_of_steps, self.job.before.findings))

    @property
    def endpoints(self) -> Int32:
        """The members of all attempts, sorted."""
        return np.unique(np.concatenate([one.attempt.attempt.endpoints for one in self.attempts]))

    @property
    def first_new_step(self) -> int:
        """The number of the first step that is not published."""
        return 0 if self.job.before is None else int(self.job.before.steps.step[-1]) + 1


def _with_slowest(job: ContinuedJob, attempts: Sequence[AttemptContext]) -> ContinuedJob:
    """Name in a job's new steps who kept the others waiting."""
    named = []
    for one in attempts:
        rebuilt = one.attempt.rebuilt
        named_last = one.last_ready.endpoints[one.attempt.division.steps - len(rebuilt.steps) :]
        steps = replace(rebuilt.steps, slowest=named_last)
        named.append(replace(one.attempt, rebuilt=replace(rebuilt, steps=steps)))
    known = len(job.steps) - sum(len(one.rebuilt.steps) for one in named)
    new = [one.rebuilt.steps for one in named]
    steps = Steps.concat([job.steps.take(np.arange(known)), *new])
    return replace(job, attempts=tuple(named), steps=steps)


def is_of_steps(finding: Finding) -> bool:
    """Whether a finding is about slowness in steps."""
    return finding.kind != "telemetry" and not is_stop(finding)


def what_moved(seen: Sequence[StepsSeen], params: Params) -> Moved:
    """Put together what steps of attempts moved, and whether ready times differ by rank."""
    newest = seen[-1]
    lateness_s = newest.attempt.lateness_s
    late_s = lateness_s.max(axis=0) - robust.median(lateness_s, axis=0) if lateness_s.size else lateness_s[:0]
    spread_s = min(params.diagnose.ready_spread * newest.step_s, params.diagnose.ready_spread_s)
    spread_s = max(spread_s, params.diagnose.twice * newest.attempt.bursts.tick_s)
    shows_late = bool(robust.median(late_s) > spread_s) if late_s.size else False
    number = np.concatenate([one.number for one in seen])
    latest, latest_s = (np.concatenate(each) for each in zip(*map(_latest, seen), strict=True))
    payload = [np.where(np.isnan(one.duration_s)[:, None], np.nan, one.rests.payload) for one in seen]
    return Moved(number, np.concatenate(payload), shows_late, latest, latest_s)


def _latest(seen: StepsSeen) -> tuple[Int32, Float64]:
    """Find who is ready last in each step, int32[k], and by how many seconds, float64[k].

    Times that are cut to ticks show no difference of less than one: then each of them is in turn, or whoever comes
    first in the order of addresses would seem to keep the others waiting.
    """
    late_s = seen.attempt.lateness_s
    if not late_s.size:
        return np.full(len(seen.number), -1, dtype=np.int32), np.full(len(seen.number), np.nan)
    last = late_s >= late_s.max(axis=0) - seen.attempt.bursts.tick_s
    turn = seen.number % last.sum(axis=0)
    row = np.argmax(np.cumsum(last, axis=0) > turn, axis=0)
    return seen.attempt.division.endpoints[row], late_s.max(axis=0) - robust.median(late_s, axis=0)


def found_outside(findings: tuple[Finding, ...], left_out: Int64, least: int) -> tuple[Finding, ...]:
    """Keep findings without steps of `left_out`, int64[n], or with `least` others."""

    def counts(finding: Finding) -> bool:
        without = int(np.count_nonzero((left_out >= finding.first_step) & (left_out <= finding.last_step)))
        return without == 0 or finding.last_step - finding.first_step + 1 - without >= least

    return tuple(filter(counts, findings))
