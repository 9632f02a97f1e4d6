"""Work the windows that are due: claim one, read its flows, analyse them, publish the results, record it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

import numpy as np

from prism_ch.analysis.apart import Apart
from prism_ch.analysis.continuity.publish import unchanged
from prism_ch.analysis.executor import Executor
from prism_ch.analysis.lookback import read_window
from prism_ch.analysis.observe.observe import WindowFlows
from prism_ch.analysis.replay.attempts import graph_of
from prism_ch.analysis.replay.causes import balanced, slower, without
from prism_ch.analysis.replay.places import cause_at
from prism_ch.analysis.replay.what_if import ReplayedAttempt, outcome
from prism_ch.analysis.window import analyse_window, job_contexts
from prism_ch.core.heap import give_back
from prism_ch.errors import PrismError, StoreError, UsageError
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flow_span import FlowSpan
from prism_ch.model.memory import WindowMemory, WindowRevision
from prism_ch.model.params import Params
from prism_ch.model.topology import Topology
from prism_ch.model.what_if import WhatIf
from prism_ch.model.window import Window
from prism_ch.settings import Settings
from prism_ch.store.client import Store
from prism_ch.store.due_windows import WindowSelection, due_windows
from prism_ch.store.flow_source import StoredFlows
from prism_ch.store.integrity import lost_flows
from prism_ch.store.kept_memory import Before, KeptMemory
from prism_ch.store.ledger import (
    Claim,
    claim_due_windows,
    claim_window,
    end_claim,
    new_from_ns,
    new_worker,
    record_window,
)
from prism_ch.store.pull import PullChoice
from prism_ch.store.read import live_jobs, read_memory, read_reaches
from prism_ch.store.statements import statement
from prism_ch.store.topology import TopologyLoad, latest_load, read_topology
from prism_ch.store.write import write_revision

log = logging.getLogger(__name__)

DEFAULT_PARAMS = Params()

#: How much time is worked before its window closes at the most, in windows: with more the worker is behind.
_AHEAD_WINDOWS = 4

#: Called after each window with the number of windows done and of all.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class WindowReport:
    """What one window cost and gave: rows in and out, and seconds by part."""

    window: Window
    flows: int
    jobs: int
    steps: int
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class AnalysisReport:
    """The windows worked by one call of `analyse`, in order."""

    windows: tuple[WindowReport, ...] = field(default=())


def read_worked(
    store: Store, window: Window, params: Params, pulls: PullChoice | None = None
) -> tuple[Topology, WindowMemory, WindowFlows]:
    """Read what the analysis of a worked window goes on from: topology, memory and flows.

    Parameters: `pulls` chooses how flows are read.
    """
    topology = read_topology(store, window.end_ns)
    memory = read_memory(store, topology, window, params)
    source = StoredFlows(store, topology, PullChoice() if pulls is None else pulls)
    return topology, memory, read_window(source, window, memory, topology, params, is_whole=True)


@dataclass(frozen=True, slots=True)
class StoredWindow:
    """A claimed window of a database: what is read for it, and where its results go."""

    store: Store
    claim: Claim
    topology: Topology
    pulls: PullChoice

    @property
    def window(self) -> Window:
        """Its span of time."""
        return self.claim.window

    def memory(self, params: Params) -> WindowMemory:
        """Return what was known before it."""
        return read_memory(self.store, self.topology, self.window, params)

    def read(self, span: FlowSpan) -> FlowBatch:
        """Return the flows of a span, as the analysis asks for them (see FlowSource)."""
        return StoredFlows(self.store, self.topology, self.pulls).read(span)

    def publish(self, revision: WindowRevision, memory: WindowMemory) -> tuple[WindowRevision, dict[str, int]]:
        """Publish a revision, and withdraw what it leaves out; return it and rows by table."""
        mentioned = {*revision.withdrawn, *(job.job.job_id for job in revision.jobs)}
        reaches = read_reaches(self.store, mentioned, self.window.start_ns)
        whole = _with_stale_jobs(revision, live_jobs(self.store, reaches, mentioned), memory, self.window)
        return whole, write_revision(self.store, self.topology, self.window, self.claim.revision, whole, reaches)


def analyse(  # noqa: PLR0913 - which windows, how, and what to do meanwhile
    store: Store,
    settings: Settings,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    until_ns: int | None = None,
    silent_until_ns: int = 0,
    arrived_until_ns: int = 0,
    force: bool = False,
    params: Params = DEFAULT_PARAMS,
    progress: Progress | None = None,
    stop: Callable[[], bool] = bool,
    patient: bool = False,
    allow_missing: bool = False,
    kept: KeptMemory | None = None,
    executor: Executor | None = None,
) -> AnalysisReport:
    """Work every window that is not yet worked or has changed, oldest first.

    Parameters: `from_ns`, `to_ns`, only windows that overlap [from, to), and what follows from them; `until_ns`,
    leave windows that end later for later; `silent_until_ns`, up to when windows without flows are worked, see
    due_windows; `arrived_until_ns`, up to when all records are known to have come, as far as no later ones show it;
    `force`, work the windows within the bounds whether they have changed or not; `progress`, see Progress;
    `stop`, asked after each window, leaves the others for later; `patient`, wait while another worker is at the windows
    of this database, else raises ClaimedError; `allow_missing`, work worked windows again also where flows that have
    landed are gone; `kept`, what the call before this one left known; `executor`, which works the jobs, see
    analyse_window.
    Raises StoreError where the database fails, or flows or rows of the topology are gone. A window that fails is noted
    in the ledger with the error, and none after it is worked: later windows go on from earlier ones.
    """
    params = chosen_params(params, settings)
    load = latest_load(store)
    if not allow_missing:
        load.require_whole()
    inputs = load.number ^ params.digest()
    selection = WindowSelection(until_ns, from_ns, to_ns, force, silent_until_ns)
    arrived_until_ns = max(arrived_until_ns, store.scalar(statement("newest_flow")))
    kept = kept or KeptMemory(settings.analysis.pushdown)
    reports: list[WindowReport] = []
    with new_worker(store) as worker:
        for claim, left in claim_due_windows(store, settings.window_s, selection, inputs, worker, wait=patient):
            if claim.attempts > 1 and not allow_missing:
                _refuse_missing(store, claim, settings.window_s)
            if progress is not None:
                progress(len(reports), len(reports) + 1 + left)
            is_whole = claim.window.end_ns <= arrived_until_ns
            reports.append(_work(store, claim, params, kept, executor, load=load, is_whole=is_whole))
            if stop():
                break
    if progress is not None and reports:
        progress(len(reports), len(reports))
    return AnalysisReport(tuple(reports))


def _refuse_missing(store: Store, claim: Claim, window_s: int) -> None:
    """End a claim and raise StoreError if flows of a worked window are gone.

    Worked again, it would replace good results by poorer ones.
    """
    lost = [each for each in lost_flows(store, window_s, claim.window, worked=True) if each.lacking == "flows_log"]
    if lost:
        end_claim(store, claim.revision, claim.worker)
        raise StoreError(
            f"flow records that have landed are gone in {lost[0].seconds:,} seconds of the window that starts at"
            f" {datetime.fromtimestamp(claim.window.start_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}, and its results would"
            " be poorer than they are; `prism-ch doctor` says how to bring them back; `analyse --allow-missing` works"
            " it all the same"
        )


def look_ahead(
    store: Store,
    settings: Settings,
    until_ns: int,
    params: Params = DEFAULT_PARAMS,
    executor: Executor | None = None,
) -> WindowReport | None:
    """Work what has arrived after the last finished window, before its window closes.

    What it publishes is replaced when the window is worked as a whole; the ledger does not know of it. Returns None
    where nothing is finished yet, or much is left to do first. `executor` is that of analyse_window.
    Raises ClaimedError while another worker is at the windows of this database, StoreError where the database fails.
    """
    start_ns = new_from_ns(store, settings.window_s)
    if start_ns is None or not 0 < until_ns - start_ns <= _AHEAD_WINDOWS * settings.window_s * 10**9:
        return None
    with new_worker(store) as worker:
        claim = claim_window(store, Window(start_ns, until_ns), worker=worker)
        try:
            kept = KeptMemory(settings.analysis.pushdown)
            return _work(store, claim, chosen_params(params, settings), kept, executor, is_whole=True, is_ahead=True)
        finally:
            end_claim(store, claim.revision, worker)


@dataclass(frozen=True, slots=True)
class Change:
    """What a replay changes.

    `without`, places that do as their peers; or else `balanced` stages; or a place that is `slower` by a factor.
    """

    without: tuple[str, ...] = ()
    balanced: bool = False
    slower: tuple[str, float] | None = None


def replay_job(
    store: Store,
    settings: Settings,
    job_id: str,
    change: Change,
    *,
    tenant: str | None = None,
    params: Params = DEFAULT_PARAMS,
) -> WhatIf:
    """Replay the steps of a job's last window, from its flows.

    Parameters: `tenant`, whose job it must be, None for anybody's.
    Raises UsageError for an unknown job or place, StoreError where the flows do not show the job any more.
    """
    rows = store.rows(statement("find_job"), {"job_id": job_id})
    if not rows or tenant not in (None, rows[0][0]):
        raise UsageError(f"there is no job {job_id}; `prism-ch jobs` lists them")
    width = settings.window_s * 10**9
    start_ns = int(rows[0][1]) // width * width
    window = Window(start_ns, start_ns + width)
    topology, _, flows = read_worked(store, window, params)
    apart = Apart()
    found = [one for one in job_contexts(flows, topology, params, apart) if one.job_id == job_id]
    for failure in apart.failures:
        if failure.job_id == job_id:
            raise StoreError(f"{job_id} could not be analysed: {failure.reason}")
    graph = graph_of(found[0].attempts[-1]) if found else None
    if graph is None or not graph.known.any():
        raise StoreError(f"the flows of the last window of {job_id} show no steps of it that can be replayed")
    return _changed(ReplayedAttempt.of(found[0].attempts[-1], graph), change, rows[0][0], topology)


def _changed(replayed: ReplayedAttempt, change: Change, tenant: str, topology: Topology) -> WhatIf:
    """Replay an attempt with a change."""
    graph, everywhere = replayed.graph, np.ones(replayed.graph.steps, dtype=np.bool_)
    params = replayed.params
    places = change.without if change.slower is None else change.slower[:1]
    cause = cause_at(graph, places, topology, computes=True, moves=True)
    if cause is None and not change.balanced:
        raise UsageError(f"{', '.join(places)}: no endpoint, server, leaf or link of {replayed.job_id}")
    if change.balanced or cause is None:
        lag, name = balanced(graph), "imbalance of stages"
    elif change.slower is not None:
        lag, name = slower(graph, cause, everywhere, change.slower[1]), "{} times {:g}".format(*change.slower)
    else:
        lag, name = without(graph, cause, everywhere, params), ", ".join(change.without)
    return outcome(replayed, lag, graph.known, (tenant, "", name))


def inputs_digest(store: Store, settings: Settings, params: Params = DEFAULT_PARAMS) -> int:
    """Return the digest of all but the flows that a window's results depend on."""
    return latest_load(store).number ^ chosen_params(params, settings).digest()


def chosen_params(params: Params, settings: Settings) -> Params:
    """Return parameters with what the settings choose."""
    return replace(params, replay=replace(params.replay, every_window=settings.replay and params.replay.every_window))


def left_windows(
    store: Store,
    settings: Settings,
    *,
    from_ns: int | None = None,
    to_ns: int | None = None,
    force: bool = False,
    params: Params = DEFAULT_PARAMS,
) -> list[Window]:
    """List changed windows that `analyse` leaves as they are: raw flows may be gone."""
    inputs = inputs_digest(store, settings, params)
    selection = WindowSelection(from_ns=from_ns, to_ns=to_ns, force=force)
    return due_windows(store, settings.window_s, selection, inputs=inputs, final=True)


def _work(
    store: Store,
    claim: Claim,
    params: Params,
    kept: KeptMemory,
    executor: Executor | None,
    *,
    is_whole: bool,
    is_ahead: bool = False,
    load: TopologyLoad | None = None,
) -> WindowReport:
    """Read, analyse and publish one window, and then record it as worked. One that `is_ahead` is not recorded."""
    clock = [time.perf_counter()]
    try:
        topology = kept.topology(store, load, claim.window.end_ns)
        stored = StoredWindow(store, claim, topology, kept.pulls)
        memory, flows = _read(stored, kept, params, is_whole=is_whole)
        clock.append(time.perf_counter())
        found, known = analyse_window(flows, memory, stored.topology, params, executor)
        give_back()
        clock.append(time.perf_counter())
        revision, written = stored.publish(found, memory)
    except Exception as error:
        reason = str(error) if isinstance(error, PrismError | ValueError) else repr(error)
        if is_ahead:
            raise
        record_window(store, claim, error=" ".join(reason.split()))
        raise
    clock.append(time.perf_counter())
    seconds = dict(zip(("read", "examine", "write"), np.diff(clock).tolist(), strict=True))
    if not is_ahead:
        failed = "; ".join(f"{one.job_id}: {one.reason}" for one in revision.failures)
        record_window(store, claim, error=failed, is_partial=bool(failed), seconds=seconds, written=written)
        if not failed and revision is found:
            kept.keep(claim, stored.topology, Before(known, flows.read), params)
    steps = sum(len(job.steps) for job in revision.jobs)
    report = WindowReport(claim.window, len(flows.flows), len(revision.jobs), steps, seconds)
    log.info(
        "window worked start_ns=%d flows=%d jobs=%d steps=%d read_s=%.3f examine_s=%.3f write_s=%.3f",
        report.window.start_ns,
        report.flows,
        report.jobs,
        report.steps,
        *seconds.values(),
    )
    return report


def _read(
    stored: StoredWindow, kept: KeptMemory, params: Params, *, is_whole: bool
) -> tuple[WindowMemory, WindowFlows]:
    """Read what is known before a window, and its flows, but for what is kept."""
    topology = stored.topology
    before = kept.before(stored.claim, topology) or Before(stored.memory(params))
    flows = read_window(stored, stored.window, before.memory, topology, params, is_whole=is_whole, before=before.flows)
    return before.memory, flows


def _with_stale_jobs(found: WindowRevision, stale: list[str], memory: WindowMemory, window: Window) -> WindowRevision:
    """Add published jobs that this working of a window does not mention.

    They are from earlier workings of this window, or of later ones. One that was known before the window is published
    again as it was; one that was first seen here is withdrawn.
    Parameters: `stale`, those jobs, whose latest revision is of this window or a later one.
    """
    before = {job.job.job_id: job for job in memory.jobs}
    restored = [
        replace(unchanged(before[job_id]), from_time_ns=window.start_ns) for job_id in stale if job_id in before
    ]
    withdrawn = [job_id for job_id in stale if job_id not in before]
    if not stale:
        return found
    return replace(found, jobs=(*found.jobs, *restored), withdrawn=(*found.withdrawn, *withdrawn))
