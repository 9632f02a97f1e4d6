"""The analysis of one window and of all that are due: the only place where the stages are put together."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from prism_ch.errors import PrismError
from prism_ch.examine import Findings, examine
from prism_ch.model.columns import Bool
from prism_ch.model.exporter import ExporterHistory
from prism_ch.model.flow import FlowBatch
from prism_ch.model.params import Params
from prism_ch.model.result import JobRevision, JobState
from prism_ch.model.topology import Topology
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.stages import account, clocks, resume
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

#: Called after each window with how many are done and how many there are.
Progress = Callable[[int, int], None]


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
    silent_until_ns: int = 0,
    force: bool = False,
    params: Params = DEFAULT_PARAMS,
    progress: Progress | None = None,
    stop: Callable[[], bool] = bool,
    patient: bool = False,
) -> AnalysisReport:
    """Work every window that is not yet worked or has changed, oldest first.

    Parameters: `from_ns`, `to_ns`, only windows that overlap [from, to), and what follows from them; `until_ns`,
    leave windows that end later for later; `silent_until_ns`, up to when windows without flows are worked, see
    due_windows; `force`, work the windows within the bounds whether they have changed or
    not; `progress`, see Progress; `stop`, asked after each window, leaves the others for later;
    `patient`, wait while another worker is at the windows of this database, else raises ClaimedError.
    Raises StoreError where the database fails. A window whose working fails is noted in the ledger with the error, and
    none after it is worked: later windows go on from earlier ones.
    """
    inputs = topology_digest(store) ^ params.digest()
    bounds = Bounds(until_ns, from_ns, to_ns, force, silent_until_ns)
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
        states = read_job_states(store, topology, window.start_ns, params.going_on)
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

    A job is one machine: where a window holds traffic of some of its endpoints, all of them are looked back at. Who is
    new may have begun with members of a settled job before the window: they are looked back at together.
    """
    batch = read_flows(store, topology, window.start_ns, window.end_ns)
    active = np.zeros(len(topology), dtype=bool)
    active[batch.src] = active[batch.dst] = True
    awake = resume.at_work(states, batch)
    settled = [state for state in awake if resume.is_settled(state, params.going_on)]
    young = [state for state in awake if not resume.is_settled(state, params.going_on)]
    in_jobs, in_settled = _members(states, topology), _members(settled, topology)
    newcomers = (active | _members(young, topology)) & ~in_settled
    context = min((resume.looked_at_from_ns(s, params.going_on) for s in settled), default=window.start_ns)
    lookback = min(
        window.start_ns - params.going_on.newcomer_lookback_s * 10**9,
        *(resume.looked_at_from_ns(s, params.going_on) for s in young if not s.is_unresolved),
        context,
    )
    remembered_ns = window.start_ns - params.clocks.remembered_s * 10**9
    history = read_exporter_history(store, min(remembered_ns, lookback), window.start_ns)
    margin_ns = clocks.reach_ns(history, params.clocks)
    from_ns = min(context - margin_ns, window.start_ns)
    parts = [batch]
    quiet = resume.at_rest(states, batch, window.start_ns, params.going_on)
    resting = min((resume.rests_since_ns(state, params.going_on) for state in quiet), default=window.start_ns)
    # Beside a job at rest something may go on with storage, which is in no job ...
    resting_with = (_members(quiet, topology) | ~in_jobs) & ~in_settled & ~newcomers
    for chosen, since, until in (
        (resting_with, resting, window.start_ns),
        (in_settled | newcomers, from_ns, window.start_ns),
        (newcomers, lookback - margin_ns, from_ns),
    ):
        if chosen.any() and since < until:
            parts.append(read_flows(store, topology, since, until, endpoints=np.flatnonzero(chosen)))
    # ... and beside one that goes on something may have until now.
    idle = ~(in_jobs | active)
    since = min((resume.looked_at_from_ns(state, params.going_on) for state in awake), default=window.start_ns)
    if idle.any() and since < window.start_ns:
        working = np.flatnonzero(_members(awake, topology))
        beside = read_flows(store, topology, since, window.start_ns, endpoints=working, beside=True)
        parts.append(beside.take(idle[beside.src] | idle[beside.dst]))
    parts = [part for part in parts if len(part)]
    return FlowBatch.concat(parts) if parts else batch, history


def _members(states: Sequence[JobState], topology: Topology) -> Bool:
    """Mask the endpoints that are in one of the jobs, bool[endpoints]."""
    member = np.zeros(len(topology), dtype=bool)
    for state in states:
        member[state.members.endpoint] = True
    return member


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
