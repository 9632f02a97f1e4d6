"""Slow steps: steps that last longer than the job's own healthy ones (LLMPrism, section V-A)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.analysis.diagnose.episodes import Episode, continues, episodes
from prism_ch.analysis.diagnose.findings import (
    EVIDENCE_ROWS,
    UNNAMED,
    Extent,
    Measured,
    confidence_in,
    confidence_in_one_step,
    identity,
    make_finding,
    severity,
)
from prism_ch.analysis.diagnose.steps import explain
from prism_ch.analysis.diagnose.steps.compared import Compared, compare
from prism_ch.model.columns import Int64
from prism_ch.model.finding import Baseline, Cause, Finding
from prism_ch.model.job import RecognisedJob
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology

#: What longer steps are that nobody slows.
_OTHER_COMPUTING = (
    "all ranks work longer alike, and none keeps the others waiting: a larger batch, longer sequences, or what they "
    "all share, such as cooling, clocks and the load of their hosts."
)

#: What longer steps are of which records do not show whether somebody slows them.
_UNKNOWN = (
    "all ranks work longer alike, and their flows begin together, so that a GPU that kept the others waiting would not "
    "show: one slow GPU, a larger batch, longer sequences, or what they all share."
)


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known of a job besides its steps: see `find_slow_steps`.

    `usual_now` are open findings on what is usual, `open_causes` those that may have slowed steps before.
    """

    job: RecognisedJob
    causes: Sequence[Finding]
    peers: int
    moved: explain.Moved
    usual_now: tuple[Finding, ...]
    open_causes: tuple[Finding, ...]
    topology: Topology
    params: DiagnoseParams

    def servers(self) -> int:
        """Count the servers that the job is on."""
        return len(np.unique(self.topology.server[self.job.endpoints]))

    def moves_other_volume(self, first_step: int, last_step: int, usual: Int64) -> bool:
        """Whether steps move more or less than the `usual` ones."""
        return self.moved.changed(first_step, last_step, usual, self.params.other_work)

    def cause_before(self, first_step: int, last_step: int, going: Finding | None) -> Finding | None:
        """Return what slowed the steps before that these continue."""
        if going is None or going.cause is None or not continues(going, first_step, last_step, self.params):
            return None
        named = going.cause.kind, going.cause.subject
        return next((one for one in self.open_causes if (one.kind, one.subject) == named), None)

    def goes_on(self, first_step: int, last_step: int, going: Finding | None) -> bool:
        """Whether steps continue some that nobody slowed."""
        before = self.usual_now if going is None else (*self.usual_now, going)
        return any(continues(one, first_step, last_step, self.params) and one.baseline.other_work for one in before)


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why an episode is slow.

    `nobodys`: no part of the job slows it. `unknown`: that may be so, and records do not show it.
    """

    cause: Finding | None
    straggler: explain.Straggler | None
    nobodys: bool
    unknown: bool


def find_slow_steps(
    job: RecognisedJob,
    steps: Steps,
    known: tuple[Finding, ...],
    causes: Sequence[Finding],
    peers: int,
    topology: Topology,
    params: DiagnoseParams,
    moved: explain.Moved | None = None,
) -> tuple[Finding, ...]:
    """Find the episodes of slow steps in a job's history.

    Parameters: `steps`, in order, the newest steps known of before and the new ones, and some of those long before,
    which show what gets slower bit by bit: each stands for those up to the next; `known`, the findings open so far: one
    of them keeps its identity and its baseline however far back it began; `causes`, what was found to slow the
    job, one of which may explain an episode; `peers`, how many ranks the largest role has; `moved`, what steps move.

    1. Compare each step with the healthy steps before it, so that the result does not depend on where data were cut.
       Steps whose beginning was not seen are left out.
    2. Join slow steps into episodes, and find a cause, a straggler, or that nobody slows them.
    3. Where slow steps have become usual, report that once, and repeat step 1 with the steps since.
    """
    seen = steps.take(steps.complete == 1)
    if len(seen) < params.judged_steps:
        return ()
    open_before = [finding for finding in known if finding.kind == "slow_step" and finding.status == "open"]
    going = next((finding for finding in open_before if finding.baseline.usual_since is None), None)
    usual_now = tuple(finding for finding in open_before if finding.baseline.usual_since is not None)
    found: list[Finding] = []
    open_causes = tuple(finding for finding in known if finding.kind != "slow_step" and finding.status == "open")
    moved = moved or explain.Moved.unknown()
    context = _Context(job, causes, peers, moved, usual_now, open_causes, topology, params)
    while True:
        compared = compare(seen, going, moved.lateness_s(seen.step), params)
        slow = episodes(compared.slow.tolist(), params.repeats)
        reasons = [_reason(context, compared, episode, going) for episode in slow]
        first_steps = _first_steps(seen, slow, going, params)
        for episode, reason, first_step in zip(slow, reasons, first_steps, strict=True):
            found.append(_describe(context, compared, episode, reason, first_step))
        if not slow or (begin := _new_regime(compared, slow[-1], reasons[-1], params)) is None:
            return tuple(found)
        found[-1] = _as_usual(found[-1], seen, begin)
        seen, going = seen.take(np.arange(begin, len(seen))), None


def _first_steps(seen: Steps, slow: Sequence[Episode], going: Finding | None, params: DiagnoseParams) -> list[int]:
    """Return where episodes begin; the first continuation begins with the open finding."""
    first_steps = [int(seen.step[episode.first]) for episode in slow]
    for row, episode in enumerate(slow):
        if going is not None and continues(going, first_steps[row], int(seen.step[episode.last]), params):
            first_steps[row] = going.first_step
            break
    return first_steps


def _reason(context: _Context, compared: Compared, episode: Episode, going: Finding | None) -> _Reason:
    """Find why the steps of an episode are slow.

    1. The cause is what was found to slow the job for half of these steps at least, or what slowed them before: when it
       has lasted for long, the steps that are looked at show nothing else to compare it with. Steps that move another
       volume are longer by that, and not by what costs less than half of it.
    2. Else the straggler is whom the others waited for: by how often, or by how long.
    3. Nobody slows steps that move another volume, or in which every rank computes longer and nobody is late, enough of
       them to show who is. Those came all at once, and have not passed; a larger batch would move more activations,
       where these are seen. Where records do not show who is late, it is not known whether somebody slows them.
    """
    seen, bad, params = compared.steps, list(episode.abnormal), context.params
    first, last = int(seen.step[episode.first]), int(seen.step[episode.last])
    moves_other = context.moves_other_volume(first, last, seen.step[~compared.slow])
    other_volume = moves_other or context.goes_on(first, last, going)
    longer = float(np.median(1 - compared.expected[bad] / seen.duration_s[bad]))
    causes = [one for one in context.causes if one.slowdown >= params.half * longer or not other_volume]
    cause = _cause(first, last, causes, params) or context.cause_before(first, last, going)
    servers = context.servers()
    # What gets slower bit by bit was so before it was found: the oldest steps show what is usual.
    before = seen.slowest[: episode.first][~compared.slow[: episode.first]][: params.settled_steps]
    straggler = explain.find_straggler(seen.slowest[bad], before, servers, context.topology, params)
    if cause is None and straggler is None and not any(seen.slowest[bad].tolist()):
        # Nobody is late by much, but the same one may be the last to be ready in every one of these steps.
        latest = context.moved.last_ready(seen.step)
        healthy = latest[: episode.first][~compared.slow[: episode.first]][: params.settled_steps]
        most_s = float(np.median(seen.duration_s[bad] - compared.expected[bad]))
        if context.moved.keeps_waiting(seen.step[bad], seen.step[: episode.first], most_s, params.half):
            straggler = explain.find_straggler(latest[bad], healthy, servers, context.topology, params)
    elif cause is None and straggler is None:
        late_s, excess_s = context.moved.lateness_s(seen.step[bad]), seen.duration_s[bad] - compared.expected[bad]
        straggler = explain.late_by_excess(seen.slowest[bad], late_s, excess_s, context.topology, params)
    others = ~np.isin(seen.step, seen.step[bad])
    would_show = context.peers >= params.compute.min_peers and context.moved.shows_whose_fault(seen, others, params)
    enough = (
        explain.stands_out(len(bad), len(bad), 1 / servers, servers, params) and len(bad) >= params.compute.slow_steps
    )
    all_longer = straggler is None and enough and explain.computes_longer(seen, bad, ~compared.slow)
    # Another amount of work makes steps longer all at once, and they stay so.
    lasts = not episode.closed and all_longer
    grows = explain.grows(seen.duration_s[bad], params)
    may_be_other = lasts and not context.moved.carry_activations(first, last)
    other_work = moves_other or ((other_volume or (may_be_other and would_show)) and not grows)
    nobodys = cause is None and other_work
    unknown = cause is None and may_be_other and not (grows or nobodys or any(seen.slowest[bad].tolist()))
    return _Reason(cause, None if nobodys else straggler, nobodys, unknown)


def _cause(first: int, last: int, causes: Sequence[Finding], params: DiagnoseParams) -> Finding | None:
    """Return the cause of at least half of the steps `first` to `last`, else None."""

    def shared(cause: Finding) -> int:
        return min(last, cause.last_step) - max(first, cause.first_step) + 1

    longest = max(causes, key=lambda cause: (shared(cause), cause.slowdown), default=None)
    return longest if longest is not None and shared(longest) >= params.half * (last - first + 1) else None


def _new_regime(compared: Compared, episode: Episode, reason: _Reason, params: DiagnoseParams) -> int | None:
    """Return the row from which slow steps are usual now, else None.

    They last and are alike, and nobody is known to slow them. They last for longer if that is all that is known: a job
    that becomes slow by one of its ranks stays slow.
    """
    seen = compared.steps
    if episode.closed or reason.cause is not None or reason.straggler is not None:
        return None
    if len(episode.abnormal) < (least := params.recent_steps if reason.nobodys else params.settled_steps):
        return None
    begin = explain.newest_run(seen.duration_s, params)
    same = abs(begin - episode.first) <= params.repeats and episode.first > 0
    return episode.first if same and len(seen) - begin >= least else None


def _as_usual(finding: Finding, seen: Steps, begin: int) -> Finding:
    """Return a finding on slow steps that have become usual.

    It stays open if nobody slows them, while earlier steps are known that later ones might be compared with.
    """
    since = int(seen.step[begin])
    end = min(begin + 1, len(seen) - 1)
    return replace(
        finding,
        status="open" if finding.baseline.other_work else "closed",
        summary=f"{finding.summary.removesuffix('.')}. Since step {since} that is usual.",
        last_step=int(seen.step[end]),
        end_ns=int(seen.end_ns[end]),
        evidence={**finding.evidence, "usual_since": since},
        baseline=replace(finding.baseline, usual_since=since),
    )


def _describe(context: _Context, compared: Compared, episode: Episode, reason: _Reason, first_step: int) -> Finding:
    job_id, topology, params = context.job.job_id, context.topology, context.params
    span, bad = slice(episode.first, episode.last + 1), list(episode.abnormal)
    seen, expected, duration = compared.steps, compared.expected, compared.steps.duration_s
    last = int(seen.step[episode.last])
    cause, straggler, nobodys = reason.cause, reason.straggler, reason.nobodys
    usual, observed = float(np.median(expected[bad])), float(np.median(duration[bad]))
    stands_for = np.diff(seen.step[span], append=last + 1)
    lost_s = float(stands_for @ np.maximum(duration[span] - expected[span], 0))
    least = 0 if len(bad) >= params.judged_steps else params.severity_steps
    slowdown = 0.0 if nobodys else lost_s / max(float(stands_for @ duration[span]), least * usual)
    named_last = Counter(filter(None, seen.slowest[bad].tolist()))
    last_ready, times = named_last.most_common(1)[0] if named_last else ((), 0)
    if not named_last and straggler is not None and straggler.server < 0:
        last_ready, times = (straggler.endpoint,), straggler.times
    last_addresses = tuple(topology.endpoints[one] for one in last_ready)
    evidence: dict[str, object] = {
        "durations_s": np.round(duration[span], 6).tolist()[:EVIDENCE_ROWS],
        "expected_s": round(usual, 6),
        "last_ready": last_addresses[0] if len(last_addresses) == 1 else "",
        "last_ready_share": round(times / len(bad), 4),
        "lost_s": 0.0 if nobodys else round(lost_s, 6),
    }
    if len(last_addresses) > 1:
        evidence["last_ready_any_of"] = list(last_addresses[:EVIDENCE_ROWS])
    if nobodys:
        evidence["nobodys"] = True
    named: Cause | None = None
    if cause is not None:
        named = Cause(cause.kind, cause.subject, cause.may_also_be, cause.subject_type)
    elif straggler is not None:
        members = tuple(topology.endpoints[one] for one in straggler.members)
        named = Cause("slow_gpu", straggler.name(topology), members, straggler.subject_type)
    if named is not None:
        also = {"may_also_be": list(named.may_also_be)} if named.may_also_be else {}
        evidence["root_cause"] = {"kind": named.kind, "subject": named.subject, **also}
    extent = Extent(
        first_step, last, int(seen.start_ns[episode.first]), int(seen.end_ns[episode.last]), not episode.closed
    )
    return make_finding(
        "slow_step",
        ("job", job_id),
        identity(job_id, "slow_step", job_id, first_step),
        extent,
        Measured(observed, usual, float(np.median(compared.score[bad])), slowdown),
        severity(slowdown, params),
        _sentence(context, extent, observed, usual, reason),
        evidence,
        about=last_addresses,
        cause=named,
        confidence=_confidence(reason, extent),
        baseline=Baseline(other_work=nobodys, maybe_other_work=reason.unknown),
    )


def _confidence(reason: _Reason, extent: Extent) -> float:
    """Return how sure a subject is, which is as sure as its cause."""
    if reason.cause is not None:
        return reason.cause.confidence
    if reason.straggler is None:
        return UNNAMED
    if extent.first_step == extent.last_step:
        return confidence_in_one_step(reason.straggler.subject_type)
    return confidence_in(reason.straggler.subject_type)


def _sentence(context: _Context, extent: Extent, observed_s: float, usual_s: float, reason: _Reason) -> str:
    first, last, peers = extent.first_step, extent.last_step, context.peers
    steps = f"Step {first}" if first == last else f"Steps {first} to {last}"
    if reason.nobodys:
        why = _OTHER_COMPUTING
    elif reason.straggler is not None:
        why = reason.straggler.sentence(context.topology)
    elif reason.cause is not None:
        why = reason.cause.summary
    elif reason.unknown and peers >= context.params.compute.min_peers:
        why = _UNKNOWN
    elif peers >= context.params.compute.min_peers:
        why = "no single GPU kept the others waiting, look at what they share."
    else:
        why = (
            "every rank has a role of its own, so there is no peer to tell any from"
            if peers == 1
            else f"only {peers} ranks have the same role, so none can be told from its peer"
        )
        why = f"{why}: check the GPUs and hosts of them all, and what they share."
    return f"{steps} took {observed_s:.3g} s instead of {usual_s:.3g} s (+{observed_s / usual_s - 1:.0%}); {why}"
