"""The analysis of one window and of all that are due: the only place where the stages are put together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

import numpy as np

from prism_ch.errors import PrismError
from prism_ch.model.columns import Bool, Int32
from prism_ch.model.exporter import ExporterHistory, ExporterStates, Timeouts
from prism_ch.model.flow import FlowBatch
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import MergedParams, Params
from prism_ch.model.result import Diagnosis, JobRevision, JobState
from prism_ch.model.topology import Topology
from prism_ch.model.traffic import Traffic
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.stages import account, clocks, diagnose, resume
from prism_ch.stages.divide import divide
from prism_ch.stages.identify import either_way, hidden_answers, identify, name_merged
from prism_ch.stages.merged import merged_pairs, merged_training
from prism_ch.stages.observe import elect, observe
from prism_ch.stages.order import order
from prism_ch.stages.recognise import recognise, recurring_pairs
from prism_ch.stages.reconstruct import lateness_s, reconstruct
from prism_ch.stages.timeouts import infer_timeouts
from prism_ch.store.claims import new_worker
from prism_ch.store.client import Store
from prism_ch.store.exporters import read_exporter_history
from prism_ch.store.flows import read_flows
from prism_ch.store.ledger import Claim, due_windows, record_window
from prism_ch.store.read import live_jobs_from, read_cluster_findings, read_job_states
from prism_ch.store.topology import read_topology, topology_digest
from prism_ch.store.turns import Bounds, take_turns
from prism_ch.store.write import write_revisions

log = logging.getLogger(__name__)

DEFAULT_PARAMS = Params()

#: Jobs examined side by side; more would hold more phases in memory than there are cores to make them.
_JOBS_AT_ONCE = 2

#: Called after each window with how many are done and how many there are.
Progress = Callable[[int, int], None]


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

    `counted` are the flows as earlier windows counted them; `timeouts` are those of the exporters. Of the pairs,
    `recurring` bool[pairs] carry the steady traffic of jobs, and `merged` bool[pairs] do so in records that run on over
    many steps.
    """

    flows: FlowBatch
    counted: FlowBatch
    timeouts: Timeouts
    traffic: Traffic
    recurring: Bool
    merged: Bool

    def within(self, endpoints: Int32, topology: Topology) -> _Seen:
        """Return what moves between some endpoints."""
        inside = _inside(endpoints, topology, self.traffic.pair_src, self.traffic.pair_dst)
        flows, counted = (_between(each, endpoints, topology) for each in (self.flows, self.counted))
        return replace(self._keep(self.traffic, inside), flows=flows, counted=counted)

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
        return replace(
            self, traffic=traffic.keep_pairs(pairs), recurring=self.recurring[pairs], merged=self.merged[pairs]
        )


@dataclass(frozen=True, slots=True)
class WindowReport:
    """What one window cost and gave: rows in and out, and seconds by stage."""

    window: Window
    flows: int
    jobs: int
    steps: int
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """The windows worked by one call of `analyse`, in order."""

    windows: tuple[WindowReport, ...] = field(default=())


def analyse(  # noqa: PLR0913 - which windows, how, and what to do meanwhile
    store: Store,
    settings: Settings,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    until_ns: int | None = None,
    force: bool = False,
    params: Params = DEFAULT_PARAMS,
    progress: Progress | None = None,
    stop: Callable[[], bool] = bool,
    patient: bool = False,
) -> AnalysisReport:
    """Work every window that is not yet worked or has changed, oldest first.

    Parameters: `from_ns`, `to_ns`, only windows that overlap [from, to), and what follows from them; `until_ns`,
    leave windows that end later for later; `force`, work the windows within the bounds whether they have changed or
    not; `progress`, see Progress; `stop`, asked after each window, leaves the others for later;
    `patient`, wait while another worker is at the windows of this database, else raises ClaimedError.
    Raises StoreError where the database fails. A window whose working fails is noted in the ledger with the error, and
    none after it is worked: later windows go on from earlier ones.
    """
    inputs = topology_digest(store) ^ params.digest()
    bounds = Bounds(until_ns, from_ns, to_ns, force)
    reports: list[WindowReport] = []
    with new_worker(store) as worker:
        for claim, left in take_turns(store, settings.window_s, bounds, inputs, worker, patient=patient):
            if progress is not None:
                progress(len(reports), len(reports) + 1 + left)
            reports.append(_work(store, claim, params))
            if stop():
                break
    if progress is not None and reports:
        progress(len(reports), len(reports))
    return AnalysisReport(tuple(reports))


def left_windows(
    store: Store,
    settings: Settings,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    force: bool = False,
    params: Params = DEFAULT_PARAMS,
) -> list[Window]:
    """List the windows that `analyse` leaves as they are though they have changed: raw flows of theirs may be gone."""
    inputs = topology_digest(store) ^ params.digest()
    return due_windows(store, settings.window_s, from_ns=from_ns, to_ns=to_ns, force=force, inputs=inputs, final=True)


def _work(store: Store, claim: Claim, params: Params) -> WindowReport:
    """Work one window: read, examine, publish, and only then note it as worked."""
    window = claim.window
    clock = [time.perf_counter()]
    try:
        topology = read_topology(store, window.end_ns)
        states = read_job_states(store, topology, window.start_ns, params.going_on.history_steps)
        batch, history = _read(store, topology, window, states, params)
        clock.append(time.perf_counter())
        going = read_cluster_findings(store, window.start_ns)
        findings = examine(batch, window, topology, states, going, history, params)
        clock.append(time.perf_counter())
        revisions, withdrawn = _supersede(store, window, findings, states)
        write_revisions(
            store, topology, window, claim.revision, revisions, withdrawn, findings.cluster, findings.exporters
        )
    except Exception as error:
        reason = str(error) if isinstance(error, PrismError | ValueError) else repr(error)
        record_window(store, claim, error=" ".join(reason.split()))
        raise
    clock.append(time.perf_counter())
    seconds = dict(zip(("read", "examine", "write"), np.diff(clock).tolist(), strict=True))
    record_window(store, claim, seconds=seconds)
    report = WindowReport(
        window, len(batch), len(findings.revisions), sum(len(item.steps) for item in findings.revisions), seconds
    )
    log.info(
        "window worked start_ns=%d flows=%d jobs=%d steps=%d read_s=%.3f examine_s=%.3f write_s=%.3f",
        window.start_ns,
        report.flows,
        report.jobs,
        report.steps,
        *seconds.values(),
    )
    return report


def _read(
    store: Store, topology: Topology, window: Window, states: Sequence[JobState], params: Params
) -> tuple[FlowBatch, ExporterHistory]:
    """Read a window's flows, and what came before as far as each job needs, and what was found of exporters till then.

    A job is one machine: where a window holds traffic of some of its endpoints, all of them are looked back at.
    """
    batch = read_flows(store, topology, window.start_ns, window.end_ns)
    active = np.zeros(len(topology), dtype=bool)
    active[batch.src] = active[batch.dst] = True
    awake = [state for state in states if active[state.members.endpoint].any()]
    settled = [state for state in awake if resume.is_settled(state, params.going_on)]
    young = [state for state in awake if not resume.is_settled(state, params.going_on)]
    in_settled = _members(settled, topology)
    newcomers = (active | _members(young, topology)) & ~in_settled
    context = [resume.context_start_ns(state, params.going_on) for state in settled]
    begun = [state.job.first_seen_ns for state in young if not state.is_unresolved]
    lookback = [window.start_ns - params.going_on.newcomer_lookback_s * 10**9, *begun]
    remembered_ns = window.start_ns - params.clocks.remembered_s * 10**9
    history = read_exporter_history(store, min(remembered_ns, *context, *lookback), window.start_ns)
    margin_ns = clocks.reach_ns(history, params.clocks)
    parts = [batch]
    for chosen, since in ((in_settled, context), (newcomers, lookback)):
        from_ns = min(since, default=window.start_ns) - margin_ns
        if chosen.any() and from_ns < window.start_ns:
            parts.append(read_flows(store, topology, from_ns, window.start_ns, endpoints=np.flatnonzero(chosen)))
    parts = [part for part in parts if len(part)]
    return FlowBatch.concat(parts) if len(parts) > 1 else batch, history


def _members(states: Sequence[JobState], topology: Topology) -> Bool:
    """Mask the endpoints that are in one of the jobs, bool[endpoints]."""
    member = np.zeros(len(topology), dtype=bool)
    for state in states:
        member[state.members.endpoint] = True
    return member


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
    is_new = batch.end_ns >= window.start_ns
    new = batch if is_new.all() else batch.take(is_new)
    exporters = clocks.estimate(new, history, params.clocks)
    history = history.followed_by(exporters, window.start_ns)
    seen = _see(batch, batch.take(~is_new), history, topology, params)
    jobs = recognise(seen.traffic, seen.recurring | seen.merged, seen.merged, topology, states, params.recognise)
    known = {state.job.job_id: state for state in states}
    until_ns = min(window.end_ns, int(batch.end_ns.max(initial=window.start_ns)))

    def work(job: RecognisedJob) -> tuple[JobRevision, Traffic] | None:
        """Take one job on; jobs have nothing to do with one another, and numpy lets go of the interpreter."""
        return _examine_job(job, seen, window, topology, known.get(job.job_id), params)

    with ThreadPoolExecutor(_JOBS_AT_ONCE) as pool:
        found = list(pool.map(work, jobs))
    revisions, typed, not_training = [], [], []
    for job, examined in zip(jobs, found, strict=True):
        if examined is None:
            not_training.extend([job.job_id] if job.known else [])
        elif _inside(job.endpoints, topology, new.src, new.dst).any():
            revisions.append(examined[0])
            typed.append(examined[1])
    # Some are both: not training by themselves, and part of what is.
    withdrawn = tuple(dict.fromkeys((*account.absorbed(states, revisions), *not_training)))
    said = {*withdrawn, *(revision.job.job_id for revision in revisions)}
    silent = [state for state in states if state.job.job_id not in said]
    revisions.extend(account.silence(silent, until_ns, params.going_on))
    switches = diagnose.find_slow_switches(typed, window, cluster_findings, topology, params.diagnose)
    return Findings(tuple(revisions), switches, exporters.closing_after(seen.timeouts), withdrawn)


def _see(batch: FlowBatch, counted: FlowBatch, history: ExporterHistory, topology: Topology, params: Params) -> _Seen:
    """Count each flow once, at the right time, and see what recurs; `counted` are the observations of before."""
    blur_ns = clocks.blur_ns(batch, params.clocks)
    flows, counted = (elect(clocks.correct(each, history, params.clocks), blur_ns) for each in (batch, counted))
    traffic = observe(flows, params.observe)
    merged = merged_pairs(traffic, params.merged)
    recurring = recurring_pairs(traffic, topology, params.recognise) & ~merged
    merged = merged_training(traffic, topology, merged, recurring, params.merged)
    return _Seen(flows, counted, infer_timeouts(batch, params.timeouts), traffic, recurring, merged)


def _examine_job(
    job: RecognisedJob,
    seen: _Seen,
    window: Window,
    topology: Topology,
    state: JobState | None,
    params: Params,
) -> tuple[JobRevision, Traffic] | None:
    """Take one job from identification to diagnosis; return its typed bursts of the window as well.

    None where what repeats is no training after all.
    """
    settled = state if resume.is_settled(state, params.going_on) else None
    seen = seen.within(job.endpoints, topology)
    if settled is not None:
        seen = seen.since(resume.context_start_ns(settled, params.going_on))
    traffic = seen.traffic
    seen = replace(seen, merged=seen.merged | hidden_answers(traffic, seen.recurring, params.identify))
    unresolved = either_way(traffic, seen.merged)
    kinds = identify(traffic, seen.recurring & ~unresolved, params.identify)
    if settled is not None:
        kinds = resume.keep_known_kinds(kinds, traffic, settled, topology)
    kinds = name_merged(kinds, traffic, unresolved, params.merged)
    published = None if settled is None else resume.published_steps(settled, params.going_on)
    division = divide(traffic, kinds, job.endpoints, params.divide, published)
    if settled is None and division.regular < params.divide.min_regularity:
        return None
    groups = order(traffic, kinds, division)
    new = resume.resume(division, settled, params.going_on)
    said_before = division.steps - new.division.steps
    lateness = lateness_s(traffic, kinds, division)[:, said_before:]
    rebuilt = reconstruct(traffic, kinds, new.division, new.first_step, new.start_ns, lateness)
    history = account.with_history(settled, rebuilt.steps)
    known = () if state is None else state.diagnoses
    known_of_steps = () if settled is None else tuple(one for one in known if one.kind != "telemetry")
    found = (
        *diagnose.find_slow_steps(job, history, known_of_steps, topology, params.diagnose),
        *diagnose.find_slow_groups(
            job.job_id, traffic, kinds, division, groups, new.first_step - said_before, topology, params.diagnose
        ),
    )
    said = diagnose.below_slow_steps(diagnose.carry_on(known_of_steps, found, new.first_step, params.diagnose))
    closing = kinds.of_kind(traffic, kinds.closing)
    diagnoses = (*said, *_find_merged(job.job_id, seen, closing, division.steps, known, window, params.merged))
    examined = account.Examined(
        job, seen.flows, seen.counted, traffic, kinds, groups, rebuilt, history, diagnoses, state, settled
    )
    return account.job_revision(examined), account.typed_in_window(traffic, kinds, window)


def _between(flows: FlowBatch, endpoints: Int32, topology: Topology) -> FlowBatch:
    """Return the flows whose two ends are both among the endpoints."""
    return flows.take(_inside(endpoints, topology, flows.src, flows.dst))


def _find_merged(
    job_id: str,
    seen: _Seen,
    closing: Traffic,
    steps: int,
    known: Sequence[Diagnosis],
    window: Window,
    params: MergedParams,
) -> tuple[Diagnosis, ...]:
    """Find the exporters that join many of a job's steps into one record."""
    merged = seen.merged_flows()
    told = diagnose.steps_told(seen.flows, merged, closing, steps)
    return diagnose.find_merged_records(job_id, seen.flows, merged, told, seen.timeouts, known, window, params)


def _inside(endpoints: Int32, topology: Topology, src: Int32, dst: Int32) -> Bool:
    """Mask the rows whose two ends are both among the endpoints."""
    member = np.zeros(len(topology), dtype=bool)
    member[endpoints] = True
    mask: Bool = member[src] & member[dst]
    return mask


def _supersede(
    store: Store, window: Window, findings: Findings, states: Sequence[JobState]
) -> tuple[list[JobRevision], list[str]]:
    """Deal with what earlier workings of this window, or of later ones, said of jobs that this one does not mention.

    A job known before the window is published again as it was; one that was first seen here is withdrawn.
    """
    said = {*findings.withdrawn, *(revision.job.job_id for revision in findings.revisions)}
    before = {state.job.job_id: state for state in states}
    stale = [job_id for job_id in live_jobs_from(store, window.start_ns) if job_id and job_id not in said]
    restored = [account.unchanged(before[job_id]) for job_id in stale if job_id in before]
    withdrawn = [job_id for job_id in stale if job_id not in before]
    revisions = [*findings.revisions, *(replace(item, from_time_ns=window.start_ns) for item in restored)]
    return revisions, [*findings.withdrawn, *withdrawn]
