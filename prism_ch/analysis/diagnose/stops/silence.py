"""Explains silence that lasts: the job stalls or hangs, or its records are missing.

In the middle of a step only a rank that hangs stops a job: data loaders and checkpoints come between steps. How long it
stands still counts from when the first overdue send was due, by the order in which ranks send in a usual step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from prism_ch.analysis.diagnose.stops.habits import may_be_a_pause, pause_is_due
from prism_ch.analysis.diagnose.stops.hang_culprits import (
    HangCulprits,
    Sends,
    TrainingPairs,
    are_cut_at_once,
    find_hang_culprits,
)
from prism_ch.analysis.diagnose.stops.rests import least_stop_s, longest_rests, unusual_background
from prism_ch.analysis.diagnose.stops.stop_findings import (
    ALL_EXPORTERS,
    COMMUNICATION,
    NON_COMMUNICATION,
    Stop,
    listed,
    most_background,
    stop_finding,
    subject_of,
)
from prism_ch.analysis.observe.holes import Hole
from prism_ch.core.arrays import distinct
from prism_ch.model.columns import Float64, Int32, Int64
from prism_ch.model.finding import Baseline, Finding
from prism_ch.model.flow import FlowBatch
from prism_ch.model.flows_by_pair import FlowsByPair
from prism_ch.model.params import Params, StopParams
from prism_ch.model.result import PP, Steps
from prism_ch.model.topology import Topology
from prism_ch.model.window import Interval


@dataclass(frozen=True)
class QuietJob:
    """A job that may stand still, by records up to `until_ns`.

    `endpoints` int32[n], sorted: its members. `pairs`: those that it trains on. `steps`: what is known of its steps.
    `flows`: its training traffic since some steps ago; `background`: what else its members sent and got in that time;
    `seen`: all traffic. `known`: the findings on it, and on exporters, that were open before.
    `holes`: the spans of which its records are missing.
    """

    job_id: str
    endpoints: Int32
    pairs: TrainingPairs
    steps: Steps
    flows: FlowBatch
    background: FlowBatch
    seen: FlowBatch
    until_ns: int
    known: tuple[Finding, ...] = ()
    holes: tuple[Hole, ...] = ()

    @classmethod
    def of(
        cls,
        job_id: str,
        endpoints: Int32,
        pairs: TrainingPairs,
        steps: Steps,
        around: FlowsByPair,
        span: Interval,
        known: Sequence[Finding],
        holes: Sequence[Hole] = (),
    ) -> QuietJob:
        """Divide any flows into the job's training that ends in a span, and its background."""
        flows = around.flows
        among = flows.rows_between(np.concatenate([pairs.src, pairs.dst]))
        trains = among[pairs.holds(flows.src[among], flows.dst[among])]
        theirs = around.rows_at(endpoints)
        background = flows.take(np.setdiff1d(theirs, trains, assume_unique=True))
        training = flows.take(trains[flows.end_ns[trains] >= span.start_ns])
        until_ns, saw = span.end_ns, [flows.exporters[code] for code in distinct(training.exporter).tolist()]
        hiding = tuple(hole for hole in holes if hole.hides(saw))
        return cls(job_id, endpoints, pairs, steps, training, background, flows, until_ns, tuple(known), hiding)

    @cached_property
    def pair(self) -> Int64:
        """The row in `pairs` of each of `flows`, int64[flows]."""
        return self.pairs.rows_of(self.flows)

    @cached_property
    def around(self) -> FlowBatch:
        """All traffic but that among members."""
        among = np.ones(len(self.seen), dtype=np.bool_)
        among[self.seen.rows_between(self.endpoints)] = False
        return self.seen.take(among)

    def trained(self, params: StopParams) -> FlowBatch:
        """Return the flows on training pairs by which ranks train rather than connect."""
        return self.flows.take(self.flows.bytes >= params.little * self._usual_bytes()[self.pair])

    def are_cut_short(self, params: StopParams) -> bool:
        """Return whether the last sends of several pairs moved less than usual. They wait for their other end."""
        last = np.full(len(self.pairs.src), -1)
        order = np.argsort(self.flows.end_ns, kind="stable")
        last[self.pair[order]] = order
        sent = np.flatnonzero(last >= 0)
        short = self.flows.bytes[last[sent]] < params.half * self._usual_bytes()[sent]
        return bool(np.count_nonzero(short) > params.little * len(sent))

    def _usual_bytes(self) -> Float64:
        """Return the mean bytes of a flow of each pair."""
        return np.bincount(self.pair, weights=self.flows.bytes) / np.maximum(np.bincount(self.pair), 1)

    def usual_payload(self, before_step: int) -> float:
        """Return the bytes that a member moves in a usual step, of those before one."""
        steps = np.count_nonzero((self.steps.step < before_step) & (self.steps.end_ns > self.flows.end_ns.min()))
        return float(self.flows.bytes.sum()) / max(int(steps), 1) / len(self.endpoints)

    def is_cut_off(self, params: StopParams) -> bool:
        """Return whether all is silent, though no send was cut short."""
        heard_ns = int(self.around.end_ns.max(initial=0))
        alone = heard_ns < int(self.flows.end_ns.max()) + params.silence_s * 1e9
        return alone and not self.are_cut_short(params)

    def silent_since_ns(self, last_ns: int, rhythm: UsualRhythm) -> int:
        """Return since when nothing was seen that should have come. A hole may have hidden the job before."""
        fresh_ns = last_ns + round(2 * rhythm.rest_s * 1e9)
        hiding = [one.span.end_ns for one in self.holes if one.span.start_ns <= fresh_ns and one.span.end_ns > last_ns]
        return max([last_ns, *hiding])


@dataclass(frozen=True, slots=True)
class UsualRhythm:
    """The usual longest rest and duration of a job's steps, in seconds, and those steps.

    `last_rests_s` float64[k] are the longest rests of the last few of them.
    """

    rest_s: float
    step_s: float
    steps: Steps
    last_rests_s: Float64

    def rested_as_long(self, silent_s: float, params: StopParams) -> bool:
        """Return whether a job that has become slow rested as long in its last steps."""
        return rested_as_long(self.last_rests_s, silent_s, params)


def rested_as_long(rests: Float64 | Int64, silent: float, params: StopParams) -> bool:
    """Return whether some rests, in any unit, each lasted about as long as a silence."""
    return bool((rests * (1 + params.stray_share) >= silent).all())


@dataclass(frozen=True, slots=True)
class _Doubts:
    """What else a silence may be: an evaluation that `passes`, or known to be a hole in the records."""

    passes: bool
    is_hole: bool


def usual_rhythm(quiet: QuietJob, params: StopParams) -> UsualRhythm | None:
    """Return what is usual for a job; None if too few steps are known."""
    if len(quiet.flows) == 0:
        return None
    begin_ns = int(quiet.flows.end_ns.min())
    whole = quiet.steps.take((quiet.steps.complete == 1) & (quiet.steps.start_ns >= begin_ns))
    if len(whole) < params.enough:
        return None
    whole = whole.take(np.arange(max(len(whole) - params.recent_steps, 0), len(whole)))
    since, until = longest_rests(quiet.flows.end_ns, whole.end_ns)
    rests_s = (until - since) / 1e9
    last = rests_s[-params.slow_steps :]
    return UsualRhythm(float(np.median(rests_s)), float(np.median(whole.duration_s)), whole, last)


def find_silence(quiet: QuietJob, rhythm: UsualRhythm | None, topology: Topology, params: Params) -> Finding | None:
    """Find out whether a job stands still at the end of its records, and why."""
    if rhythm is None:
        return None
    last_ns = quiet.silent_since_ns(int(quiet.flows.end_ns.max()), rhythm)
    silent_s = (quiet.until_ns - last_ns) / 1e9
    if silent_s <= params.stops.silence_s or pause_is_due(quiet.steps, silent_s, params.stops):
        return None
    sends = Sends(quiet.pair, quiet.flows.start_ns)
    begin_ns = np.append(rhythm.steps.start_ns, rhythm.steps.end_ns[-1])
    culprits = find_hang_culprits(sends, quiet.pairs, begin_ns, rhythm.step_s, params.stops)
    due_ns = last_ns + round(rhythm.rest_s * 1e9) if culprits.due_ns is None else max(culprits.due_ns, last_ns)
    overdue_s = (quiet.until_ns - due_ns) / 1e9
    if overdue_s <= params.stops.half * rhythm.step_s:
        return None
    excess_s = least_stop_s(rhythm.rest_s, rhythm.step_s, params.stops) - rhythm.rest_s
    stop = Stop(quiet.job_id, int(quiet.steps.step[-1]) + 1, last_ns, quiet.until_ns, rhythm.rest_s, overdue_s, 1.0)
    lost = _exporters_that_may_be_lost(quiet, last_ns, rhythm)
    alike = not _stand_out(culprits.endpoints, quiet, topology, params.stops)
    is_pause = may_be_a_pause(quiet.steps, overdue_s, params.stops) or rhythm.rested_as_long(silent_s, params.stops)
    if (
        culprits.begun
        and (culprits.anybody or alike)
        and quiet.is_cut_off(params.stops)
        and are_cut_at_once(sends, quiet.flows.end_ns, quiet.pairs, begin_ns, rhythm.step_s, params.stops)
    ):
        return None if is_pause else _describe_cut(stop, lost)
    waits = culprits.without_names() if alike else culprits
    may = _Doubts(passes=alike and is_pause, is_hole=_are_missing(lost, quiet.known))
    return _describe_silence(quiet, stop, waits, excess_s, lost, topology, params.stops, may)


def _stand_out(suspects: Int32, quiet: QuietJob, topology: Topology, params: StopParams) -> bool:
    """Return whether most suspects are on one server, and most of their peers are none."""
    on_server = np.unique(topology.server[suspects], return_counts=True)[1]
    apart = len(on_server) > 1 and on_server.max() <= params.half * len(suspects)
    return not apart and quiet.pairs.have_peers(suspects, params)


def _exporters_that_may_be_lost(quiet: QuietJob, last_ns: int, rhythm: UsualRhythm) -> tuple[str, ...]:
    """Name the exporters of a job that see nothing else any more."""
    saw = {quiet.flows.exporters[code] for code in distinct(quiet.flows.exporter).tolist()}
    theirs = np.isin(quiet.around.exporter, [code for code, name in enumerate(quiet.around.exporters) if name in saw])
    alive = (quiet.around.end_ns[theirs] > last_ns + rhythm.rest_s * 1e9).any()
    return () if alive else tuple(sorted(saw))


def _are_missing(exporters: Sequence[str], known: Sequence[Finding]) -> bool:
    """Return whether it is known of all exporters that their records are missing."""
    open_ones = (one.baseline for one in known if one.status == "open" and one.baseline.records_missing)
    missing = {name for baseline in open_ones for name in baseline.exporters}
    return bool(exporters) and set(exporters) <= missing


def _describe_cut(stop: Stop, lost: tuple[str, ...]) -> Finding:
    """Make the finding on a job cut off while nobody is ahead of anybody.

    Whoever hangs makes the others wait one after the other, as they come to what they need.
    """
    summary = f"Nothing has been seen for {stop.length_s:.3g} s, though no rank waits for another."
    found = stop_finding("telemetry", stop, "warning", summary, {}, ("exporter", ALL_EXPORTERS), is_open=True)
    return replace(found, baseline=Baseline(records_missing=True, exporters=lost))


def _describe_silence(
    quiet: QuietJob,
    stop: Stop,
    culprits: HangCulprits,
    excess_s: float,
    lost: tuple[str, ...],
    topology: Topology,
    params: StopParams,
    may: _Doubts,
) -> Finding:
    """Distinguish a hang from a stall.

    Parameters: `excess_s`, by how much a rest is longer that is surely a stop; `lost`, exporters that see nothing else.
    """
    span = Interval(stop.start_ns, stop.end_ns)
    background = unusual_background(FlowsByPair.of(quiet.around), quiet.endpoints, span, topology, params)
    if sum(background.values()) <= params.min_saved_share * quiet.usual_payload(stop.step):
        background = {}
    waits_s = params.silence_s if culprits.inside_step else params.idle_hang_s
    # If no replica begins a step, it is not one rank that hangs: all wait for the same, or the job has ended.
    apart = len(np.unique(topology.server[culprits.endpoints])) > 1
    together = not culprits.begun and apart and bool((quiet.pairs.kind == PP).any())
    lasts = stop.lost_s > max(excess_s, waits_s) and not may.passes
    hangs = lasts and not together and (not background or stop.lost_s > params.saving_hang_s)
    named = culprits.named if len(culprits.named) <= params.half * len(quiet.endpoints) else culprits.named[:0]
    if hangs and not culprits.begun and not apart:
        named = culprits.endpoints  # nobody began the step, and these begin it
    if len(named):
        who = f"the first that should have sent on is {listed(named, topology)}"
    elif culprits.anybody:
        who = "no rank can be told to be the first, since no peer of theirs has sent what is due"
    else:
        who = "no rank can be told to be the first"
    verb, advice = ("hangs", "look at that rank's process") if hangs else ("stands still", "look at data and storage")
    advice = advice if culprits.begun else f"it may have ended; else {advice}"
    where = "in the middle of a step" if culprits.inside_step else "between two steps"
    aside = f", and {most_background(background)} meanwhile" if background else ""
    doubt = ""
    if len(lost) == 1:
        doubt = f" Nothing else comes from {lost[0] or 'the exporter'}: if that was lost, the job may go on."
    # A short one that saves or evaluates goes on by itself. A long one costs more than asking whether the job has
    # ended, unless its records are missing.
    counts = lasts or not (background or may.passes) if culprits.begun else lasts and not may.is_hole
    suspects = [topology.endpoints[endpoint] for endpoint in named.tolist()]
    found = stop_finding(
        "hang" if hangs else "stall",
        stop if counts else stop.without_loss(),
        "info" if not counts else "critical" if hangs and culprits.begun else "warning",
        f"The job {verb} since step {stop.step - 1}, for {stop.length_s:.3g} s, {where}{aside}; {who}: {advice}."
        + doubt,
        {
            "suspects": suspects,
            "in_a_step": culprits.inside_step,
            "overdue_s": round(stop.lost_s, 6),
            "beside_bytes": background,
            "only_exporter": lost[0] if len(lost) == 1 else "",
            "class": COMMUNICATION if culprits.begun and culprits.anybody else NON_COMMUNICATION,
        },
        subject_of(named, quiet.job_id, topology),
        is_open=True,
        among=suspects,
    )
    return found if culprits.begun else replace(found, baseline=Baseline(maybe_ended=True))
