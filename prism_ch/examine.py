"""The examination of one window's flows: the stages put together, without clock or database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from prism_ch import standing
from prism_ch.going_on import LifeSteps, tell_steps
from prism_ch.model.columns import Bool, Int32
from prism_ch.model.division import Division
from prism_ch.model.exporter import ExporterHistory, ExporterStates, Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.groupset import PairKinds
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.newest_life import NewestLife, UsualWork
from prism_ch.model.params import MergedParams, Params
from prism_ch.model.result import Diagnosis, GpuSteps, Group, JobRevision, JobState, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from prism_ch.stages import account, clocks, diagnose, resume
from prism_ch.stages.identify import hidden_answers
from prism_ch.stages.merged import merged_pairs, merged_training
from prism_ch.stages.observe import elect, observe
from prism_ch.stages.order import number_after, order
from prism_ch.stages.recognise import join_lockstep, recognise, recurring_pairs
from prism_ch.stages.reconstruct import lateness_s, reconstruct
from prism_ch.stages.succession import Load, join_lives, measure_load
from prism_ch.stages.timeouts import infer_timeouts

#: Jobs examined side by side; more would hold more phases in memory than there are cores to make them.
_JOBS_AT_ONCE = 2


@dataclass(frozen=True, slots=True)
class Findings:
    """What a window says of the jobs, and of what no single job owns.

    `withdrawn` are known jobs that turned out to be parts of others.
    """

    revisions: tuple[JobRevision, ...]
    cluster: tuple[Diagnosis, ...]
    exporters: ExporterStates
    withdrawn: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Seen:
    """What a window and those before it show: one observation a flow, by right clocks, and the traffic that this is.

    `new` are the observations of the window, `counted` the flows as earlier windows counted them; `timeouts` are those
    of the exporters. Of the pairs, `recurring` bool[pairs] carry the steady traffic of jobs; records of `coarse`
    bool[pairs] run on over many steps, and `merged` bool[pairs] are those of them that are training all the same.
    """

    new: FlowBatch
    flows: FlowBatch
    counted: FlowBatch
    timeouts: Timeouts
    traffic: Traffic
    recurring: Bool
    coarse: Bool
    merged: Bool

    def within(self, endpoints: Int32, begin_ns: int, end_ns: int) -> _Seen:
        """Return what moves between some endpoints and ends in [begin_ns, end_ns)."""

        def those(flows: FlowBatch) -> FlowBatch:
            """Return the flows that do."""
            return flows.take(_inside(endpoints, flows) & (flows.end_ns >= begin_ns) & (flows.end_ns < end_ns))

        flows, counted = those(self.flows), those(self.counted)
        new = flows if self.new is self.flows else those(self.new)
        kept = self.traffic.take((self.traffic.end_ns >= begin_ns) & (self.traffic.end_ns < end_ns))
        inside = np.isin(kept.pair_src, endpoints) & np.isin(kept.pair_dst, endpoints) & kept.moving()
        return replace(self._keep(kept, inside), flows=flows, counted=counted, new=new)

    def since(self, start_ns: int) -> _Seen:
        """Return it without the bursts that end before."""
        traffic = self.traffic.take(self.traffic.end_ns >= start_ns)
        return self._keep(traffic, traffic.moving())

    def merged_flows(self) -> Bool:
        """Mask the flows on merged pairs, bool[flows]."""
        span = 1 + int(max(self.flows.src.max(initial=0), self.flows.dst.max(initial=0)))
        pair = self.traffic.pair_src.astype(np.int64) * span + self.traffic.pair_dst
        return np.isin(self.flows.src.astype(np.int64) * span + self.flows.dst, pair[self.merged])

    def _keep(self, traffic: Traffic, pairs: Bool) -> _Seen:
        """Return it with some pairs of a traffic that has all of them."""
        columns = {name: getattr(self, name)[pairs] for name in ("recurring", "coarse", "merged")}
        return replace(self, traffic=traffic.keep_pairs(pairs), **columns)


@dataclass(frozen=True, slots=True)
class _Divided:
    """One life of a job with the kinds of its traffic and its steps."""

    life: RecognisedJob
    seen: _Seen
    told: LifeSteps
    load: Load | None

    @property
    def kinds(self) -> PairKinds:
        """The kinds of its traffic."""
        return self.told.kinds

    @property
    def division(self) -> Division:
        """Its steps."""
        return self.told.division


@dataclass(slots=True)
class _Told:
    """What the lives of a job show one after the other: their steps, in all, and what slows them.

    `newest` is the last of them; of the job's `shape` the last says most.
    """

    newest: NewestLife = field(default_factory=NewestLife)
    steps: Steps = field(default_factory=Steps.empty)
    gpu_steps: GpuSteps = field(default_factory=GpuSteps.empty)
    lives: list[account.ExaminedLife] = field(default_factory=list)
    looked_at: list[diagnose.StepsSeen] = field(default_factory=list)
    causes: list[Diagnosis] = field(default_factory=list)
    symptoms: list[Diagnosis] = field(default_factory=list)
    switches: list[Diagnosis] = field(default_factory=list)
    shape: tuple[Diagnosis, ...] = ()

    def add(self, life: account.ExaminedLife, looked_at: diagnose.StepsSeen, slowness: diagnose.Slowness) -> None:
        """Add the next life."""
        self.lives.append(life)
        self.looked_at.append(looked_at)
        self.causes.extend(slowness.causes)
        self.symptoms.extend(slowness.symptoms)
        self.switches.extend(slowness.switches)
        self.shape = slowness.shape
        self.steps = Steps.concat([self.steps, life.rebuilt.steps])
        self.gpu_steps = GpuSteps.concat([self.gpu_steps, life.rebuilt.gpu_steps])


def examine(
    batch: FlowBatch,
    window: Window,
    topology: Topology,
    states: Sequence[JobState],
    cluster_findings: Sequence[Diagnosis],
    history: ExporterHistory,
    params: Params,
) -> Findings:
    """Find the jobs in a window's flows, their groups and steps, and what slows them. Pure: no clock, no database.

    Parameters: `batch`, the flows that end in the window by the clocks of their exporters, and those before it that its
    jobs need; `states`, `cluster_findings` and `history`, what was known before the window.
    """
    shown = batch
    quiet = resume.at_rest(states, batch, window.start_ns, params.going_on)
    batch = batch.take(~resume.between_members(batch, quiet))
    is_new = batch.end_ns >= window.start_ns
    new = batch if is_new.all() else batch.take(is_new)
    exporters = clocks.estimate(new, history, params.clocks, topology.server)
    history = history.followed_by(exporters, window.start_ns)
    working = resume.at_work(states, new)
    flows, counted = (clocks.correct(each, history, params.clocks) for each in (batch, batch.take(~is_new)))
    flows, counted = (each.take(~resume.told_before(each, states, working)) for each in (flows, counted))
    seen = _see(new, batch, flows, counted, topology, params)
    lives = recognise(seen.traffic, ~seen.coarse | seen.merged, seen.merged, topology, working, params.recognise)
    known = {state.job.job_id: state for state in states}
    # A window without any flow is worked only where those who wait for more have given up.
    until_ns = min(window.end_ns, int(new.end_ns.max())) if len(new) else window.end_ns

    def divided(life: RecognisedJob) -> _Divided | None:
        """Take one life up to its steps; lives have nothing to do with one another, and numpy lets others run."""
        return _divide(life, seen, topology, known.get(life.job_id), params)

    def told_of(job: list[_Divided]) -> tuple[JobRevision, list[Diagnosis]] | None:
        """Take one job from its steps to what is said of it."""
        state = known.get(job[0].life.job_id)
        return _tell(job, seen, window, until_ns, topology, state, cluster_findings, params)

    identity_min = params.recognise.identity_min
    with ThreadPoolExecutor(_JOBS_AT_ONCE) as pool:
        steps = list(pool.map(divided, lives))
        lives, steps = _joined(lives, steps, divided, states, topology, params)
        jobs = join_lives([one for one in steps if one is not None], identity_min, params.going_on)
        found = list(pool.map(told_of, jobs))
    fresh = [one for one in found if one is not None]
    revisions = [revision for revision, _ in fresh]
    not_training = [life.job_id for life, one in zip(lives, steps, strict=True) if one is None and life.known]
    # Some are both: not training by themselves, and part of what is.
    withdrawn = tuple(dict.fromkeys((*account.absorbed(states, revisions), *not_training)))
    said = {*withdrawn, *(revision.job.job_id for revision in revisions)}
    silent = [state for state in states if state.job.job_id not in said]
    at_rest = {state.job.job_id: standing.stands_still(state, shown, until_ns, topology, params) for state in quiet}
    told = {one.life.job_id for job in jobs for one in job}
    idle = [state for state in working if state.job.job_id not in said and state.job.status != "ended"]
    at_rest |= standing.taken_over(idle, lives, told, seen.flows, window, until_ns, topology, params)
    revisions.extend(account.silence(silent, until_ns, at_rest, params.going_on))
    claims = [claim for _, of_job in fresh for claim in of_job]
    switches = diagnose.join_slow_switches(claims, cluster_findings, window)
    return Findings(tuple(revisions), switches, exporters.closing_after(seen.timeouts), withdrawn)


def _see(
    new: FlowBatch, batch: FlowBatch, flows: FlowBatch, counted: FlowBatch, topology: Topology, params: Params
) -> _Seen:
    """Count each flow once and see what runs on.

    Parameters: `batch`, observations as they were exported, and `flows` those at the right times; `counted`, those of
    them that are of before.
    """
    ticks_ns = batch.ticks_ns()
    blurs_ns = clocks.blurs_ns(ticks_ns, params.clocks)
    flows, counted = (elect(each, blurs_ns) for each in (flows, counted))
    traffic = observe(flows, blurs_ns, ticks_ns, params.observe)
    coarse = merged_pairs(traffic, params.merged)
    recurring = recurring_pairs(traffic, topology, params.recognise) & ~coarse
    merged = merged_training(traffic, topology, coarse, recurring, params.merged)
    return _Seen(new, flows, counted, infer_timeouts(batch, params.timeouts), traffic, recurring, coarse, merged)


def _divide(
    life: RecognisedJob, seen: _Seen, topology: Topology, state: JobState | None, params: Params
) -> _Divided | None:
    """Tell the kinds of a life's traffic and divide its time into steps.

    None where what repeats is no training after all.
    """
    settled = state if resume.is_settled(state, params.going_on) else None
    seen = seen.within(life.endpoints, life.begin_ns, life.end_ns).since(life.steady_ns)
    seen = replace(seen, recurring=recurring_pairs(seen.traffic, topology, params.recognise) & ~seen.coarse)
    if settled is not None:
        seen = seen.since(resume.context_start_ns(settled, params.going_on))
    traffic = seen.traffic
    seen = replace(seen, merged=seen.merged | hidden_answers(traffic, seen.recurring, params.identify))
    told = tell_steps(traffic, seen.recurring, seen.merged, life.endpoints, state, topology, params)
    steady = seen.recurring | seen.merged
    if settled is None and not _trains(traffic, steady, told.division, topology, params):
        return None
    return _Divided(life, seen, told, measure_load(traffic, told.kinds, told.division))


def _joined(
    lives: Sequence[RecognisedJob],
    steps: Sequence[_Divided | None],
    divided: Callable[[RecognisedJob], _Divided | None],
    states: Sequence[JobState],
    topology: Topology,
    params: Params,
) -> tuple[list[RecognisedJob], list[_Divided | None]]:
    """Join the lives whose steps show that they are parts of one, and divide that; return all lives and their steps."""
    ends = [np.empty(0, dtype=np.int64) if one is None else one.division.job_end_ns() for one in steps]
    wholes, of_parts = join_lockstep(lives, ends, states, topology, params.recognise)
    found: list[_Divided | None] = []
    for whole, rows in zip(wholes, of_parts, strict=True):
        one = steps[rows[0]] if len(rows) == 1 else divided(whole)
        found.append(None if one is None else replace(one, life=whole))
    return wholes, found


def _trains(traffic: Traffic, steady: Bool, division: Division, topology: Topology, params: Params) -> bool:
    """Say whether what repeats is training: its steps are alike, or still so few that nobody can tell.

    Parameters: `steady` bool[pairs], those with the life's steady traffic. In training all data goes round; where a
    server only sends or only receives, as to hand out or to collect, a few steps are not enough.
    """
    senders, receivers = (np.unique(topology.server[end[steady]]) for end in (traffic.pair_src, traffic.pair_dst))
    judged = division.steps >= params.divide.min_judged_steps
    goes_round = np.array_equal(senders, receivers)
    return division.regular >= params.divide.min_regularity and (judged or goes_round)


def _tell(
    job: Sequence[_Divided],
    around: _Seen,
    window: Window,
    until_ns: int,
    topology: Topology,
    state: JobState | None,
    of_switches: Sequence[Diagnosis],
    params: Params,
) -> tuple[JobRevision, list[Diagnosis]] | None:
    """Rebuild and number the steps of a job's lives, look for what slows them, and say it all.

    Returns what the job says of switches as well; None where the window holds nothing of the job.
    """
    endpoints = np.unique(np.concatenate([one.life.endpoints for one in job]))
    seen = around.within(endpoints, job[0].life.begin_ns, job[-1].life.end_ns)
    if len(seen.new) == 0:
        return None
    stays = resume.what_stays(state, params.going_on)
    name = replace(job[-1].life, job_id=job[0].life.job_id)
    known = () if stays is None else tuple(one for one in stays.diagnoses if standing.is_of_steps(one))
    told = _go_through(job, around, topology, state, stays, (*known, *of_switches), params)
    lives, looked_at, steps, switches = told.lives, told.looked_at, told.steps, told.switches
    even, causes, symptoms = standing.leave_out_stops(looked_at, steps, told.causes, told.symptoms, params)
    pace = params.diagnose.pace
    causes = list(diagnose.tell_congestion(causes, name.job_id, around.flows, endpoints, topology, pace))
    why = [*causes, *switches]
    peers = lives[-1].groups.largest_role
    moved = standing.what_moved(looked_at, params)
    compared = even if stays is None else Steps.concat([stays.older, even])
    slow = diagnose.find_slow_steps(name, compared, known, why, peers, topology, params.diagnose, moved)
    found = diagnose.one_alarm([*slow, *causes, *symptoms, *told.shape], switches)
    found, of_its_switches = (
        diagnose.with_sample_flows(each, seen.flows, topology, params.diagnose) for each in (found, switches)
    )
    first_step = 0 if stays is None else int(stays.steps.step[-1]) + 1
    open_before = () if state is None else state.diagnoses
    spans = [(one.seen.traffic, one.life.endpoints) for one in job]
    stops = standing.find_stops(
        name.job_id, looked_at, steps, around.flows, around.new, window, until_ns, open_before, topology, params
    )
    stops = standing.unexplained(stops, causes)
    if len(job) > 1 or any(one.kind == "restart" for one in open_before):
        stops += standing.find_restart(
            name.job_id, told.newest, spans, steps, told.gpu_steps, open_before, topology, params
        )
    diagnoses = (
        *diagnose.carry_on(known, standing.doubt(found, stops), first_step, params.diagnose),
        *diagnose.carry_on_stops(open_before, stops, int(steps.end_ns[:-1].max(initial=0))),
        *_find_merged(name.job_id, job[-1], open_before, window, params.merged),
    )
    examined = account.Examined(
        name, seen.flows, seen.counted, tuple(lives), told.newest, steps, diagnoses, state, stays
    )
    revision = account.job_revision(examined)
    if any(stop.status == "open" and stop.kind in ("stall", "hang") for stop in stops):
        revision = replace(revision, job=replace(revision.job, status="stalled"))
    return revision, list(of_its_switches)


def _go_through(
    job: Sequence[_Divided],
    around: _Seen,
    topology: Topology,
    state: JobState | None,
    stays: JobState | None,
    known: Sequence[Diagnosis],
    params: Params,
) -> _Told:
    """Go through the lives of a job: rebuild and number their new steps, and look for what slows them.

    Parameters: `state`, what was known of the job, and what of it `stays`; `known`, findings that may go on.
    """
    told = _Told() if stays is None else _Told(steps=stays.steps, gpu_steps=stays.gpu_steps)
    groups: tuple[Group, ...] = () if stays is None else stays.groups
    if state is not None:
        told.newest = NewestLife.of(state.job)
    for one in job:
        settled = one is job[0] and resume.is_settled(state, params.going_on)
        if settled:
            new = resume.resume(one.division, state, params.going_on)
        else:
            new = resume.begin_anew(one.division, told.steps, told.gpu_steps)
        if one is not job[0]:
            told.newest = NewestLife(new.first_step, one.life.begin_ns, len(groups))
        life = _rebuild(one, new, groups)
        usual = told.newest.usual_work if settled else UsualWork()
        slowness = _find_slowness(one, life, new, job[0].life.job_id, known, usual, topology, params)
        told.newest = replace(told.newest, usual_work=slowness.work, even_until=one.told.even_until)
        told.add(life, standing.look_at(one.division, life, new, around.flows, params.stops), slowness)
        groups = account.add_groups(groups, life.groups)
    return told


def _find_merged(
    job_id: str, newest: _Divided, known: Sequence[Diagnosis], window: Window, params: MergedParams
) -> tuple[Diagnosis, ...]:
    """Find the exporters that join many of a job's steps into one record."""
    seen = newest.seen
    merged, closing = seen.merged_flows(), newest.kinds.of_kind(seen.traffic, newest.kinds.closing)
    told = diagnose.steps_told(seen.flows, merged, closing, newest.division.steps)
    known = tuple(finding for finding in known if not diagnose.is_stop(finding))
    return diagnose.find_merged_records(job_id, seen.flows, merged, told, seen.timeouts, known, window, params)


def _rebuild(one: _Divided, new: resume.Resumed, earlier: tuple[Group, ...]) -> account.ExaminedLife:
    """Order a life's groups, and rebuild its new steps and the phases in them."""
    groups = number_after(order(one.seen.traffic, one.kinds, one.division), earlier)
    said_before = one.division.steps - new.division.steps
    lateness = lateness_s(one.seen.traffic, one.kinds, one.division)
    rebuilt = reconstruct(
        one.seen.traffic, one.kinds, new.division, new.first_step, new.start_ns, lateness[:, said_before:]
    )
    return account.ExaminedLife(one.seen.traffic, one.kinds, groups, rebuilt, lateness)


def _find_slowness(
    one: _Divided,
    life: account.ExaminedLife,
    new: resume.Resumed,
    job_id: str,
    known: Sequence[Diagnosis],
    usual: UsualWork,
    topology: Topology,
    params: Params,
) -> diagnose.Slowness:
    """Find what slows one life, also in the steps looked at that were said before."""
    said_before = one.division.steps - new.division.steps
    place = diagnose.Place(job_id, new.first_step - said_before, params.diagnose, begins=said_before == 0)
    seen = diagnose.Life(one.seen.traffic, one.kinds, one.division, life.groups, usual)
    return diagnose.find_slowness(seen, known, place, topology)


def _inside(endpoints: Int32, flows: FlowBatch) -> Bool:
    """Mask the flows whose two ends are both among the endpoints."""
    member = np.zeros(int(max(endpoints.max(), flows.src.max(initial=0), flows.dst.max(initial=0))) + 1, dtype=bool)
    member[endpoints] = True
    mask: Bool = member[flows.src] & member[flows.dst]
    return mask
