"""Slow steps: steps that last longer than the job's own healthy ones (LLMPrism, section V-A)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from prism_ch.analysis.diagnose.episodes import Episode, continues, episodes
from prism_ch.analysis.diagnose.findings import EVIDENCE_ROWS, Extent, Measured, identity, make_finding, severity
from prism_ch.analysis.diagnose.steps.regimes import Moved, computes_longer, newest_run
from prism_ch.analysis.diagnose.steps.straggler import Straggler, find_straggler, most_frequent, stands_out
from prism_ch.core import robust
from prism_ch.core.significance import trailing_low_median
from prism_ch.model.columns import Bool, Float64
from prism_ch.model.finding import Baseline, Cause, Finding
from prism_ch.model.job import RecognisedJob
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Steps
from prism_ch.model.topology import Topology


def find_slow_steps(
    job: RecognisedJob,
    steps: Steps,
    known: tuple[Finding, ...],
    causes: Sequence[Finding],
    peers: int,
    topology: Topology,
    params: DiagnoseParams,
    moved: Moved | None = None,
) -> tuple[Finding, ...]:
    """Find the episodes of slow steps in a job's history.

    Parameters: `steps`, in order, the newest steps known of before and the new ones, and some of those long before,
    which show what gets slower bit by bit: each stands for those up to the next; `known`, the findings open so far: one
    of them keeps its identity and its baseline however far back it began; `causes`, what was found to slow the
    job, one of which may explain an episode; `peers`, how many ranks the largest role has. Each step is compared with
    the healthy steps before it, so what is found does not depend on where the data were cut. Steps whose beginning was
    not seen are left out. `moved`, what is known of what steps move, tells other work from slowness; what has become
    usual is told once, as information.
    """
    seen = steps.take(steps.complete == 1)
    if len(seen) < params.judged_steps:
        return ()
    open_before = [finding for finding in known if finding.kind == "slow_step" and finding.status == "open"]
    going = next((finding for finding in open_before if not _is_usual_now(finding)), None)
    found: list[Finding] = []
    told_before = tuple(filter(_is_usual_now, open_before))
    context = _Context(job, causes, peers, moved or Moved.unknown(), told_before, topology, params)
    while True:
        compared = _compare(seen, going, params)
        told = episodes(compared.slow.tolist(), params.repeats)
        reasons = [_reason(context, compared, episode, going) for episode in told]
        first_steps = _first_steps(seen, told, going, params)
        found.extend(map(partial(_describe, context, compared), told, reasons, first_steps))
        if not told or (begin := _new_regime(compared, told[-1], reasons[-1], params)) is None:
            return tuple(found)
        found[-1] = _usual_now(found[-1], seen, begin)
        seen, going = seen.take(np.arange(begin, len(seen))), None


@dataclass(frozen=True, slots=True)
class _Context:
    """What is known of a job beside its steps: see `find_slow_steps`; `told_before`, what had become usual."""

    job: RecognisedJob
    causes: Sequence[Finding]
    peers: int
    moved: Moved
    told_before: tuple[Finding, ...]
    topology: Topology
    params: DiagnoseParams

    def servers(self) -> int:
        """Count the servers that the job is on."""
        return len(np.unique(self.topology.server[self.job.endpoints]))

    def is_other_work(self, first_step: int, last_step: int, going: Finding | None) -> bool:
        """Say whether steps move more or less than those before, or go on with some that were nobody's fault."""
        if self.moved.changed(first_step, last_step, self.params.other_work):
            return True
        before = self.told_before if going is None else (*self.told_before, going)
        return any(continues(one, first_step, last_step, self.params) and one.baseline.other_work for one in before)


@dataclass(frozen=True, slots=True)
class _Reason:
    """Why the steps of an episode are slow, as far as it is known.

    `cause`, what was found to slow the job then; `waited_for`, whom the others waited for, None where that is nobody;
    `nobodys`: it is nobody's fault.
    """

    cause: Finding | None
    straggler: Straggler | None
    nobodys: bool


def _reason(context: _Context, compared: _Compared, episode: Episode, going: Finding | None) -> _Reason:
    """Find why the steps of an episode are slow.

    Steps of other work are longer by that, and not by what costs the job next to nothing. They are nobody's fault, as
    are those in which every rank computes longer and nobody is late.
    """
    seen = compared.steps
    first, last = int(seen.step[episode.first]), int(seen.step[episode.last])
    other_work = context.is_other_work(first, last, going)
    costly = [one for one in context.causes if one.severity != "info"]
    cause = _cause(first, last, costly if other_work else context.causes)
    straggler = _straggler(context, compared, episode)
    nobodys = cause is None and (other_work or (straggler is None and _all_compute_longer(context, seen, episode)))
    return _Reason(cause, None if nobodys else straggler, nobodys)


def _all_compute_longer(context: _Context, seen: Steps, episode: Episode) -> bool:
    """Say whether every rank computes longer in the slow steps of an episode, enough of them to show who is late."""
    params, bad, servers = context.params, list(episode.abnormal), context.servers()
    would_show = context.moved.shows_late and context.peers >= params.work.min_peers
    enough = stands_out(len(bad), len(bad), 1 / servers, servers, params) and len(bad) >= params.work.slow_steps
    return would_show and enough and computes_longer(seen, bad, episode.first)


def _straggler(context: _Context, compared: _Compared, episode: Episode) -> Straggler | None:
    """Find whom the others waited for in the slow steps of an episode."""
    slowest = compared.steps.slowest
    # What gets slower bit by bit was so before it was found: the oldest steps say what is usual.
    before = slowest[: episode.first][~compared.slow[: episode.first]][: context.params.settled_steps]
    return find_straggler(slowest[list(episode.abnormal)], before, context.servers(), context.topology, context.params)


def _new_regime(compared: _Compared, episode: Episode, reason: _Reason, params: DiagnoseParams) -> int | None:
    """Return the row from which on slow steps are what is usual now, None where they are not.

    They last and are alike, and nobody is to blame. Where that is not for sure, only that nobody can be told, they last
    for longer: a job that becomes slow by one of its ranks stays slow.
    """
    seen = compared.steps
    if episode.closed or reason.cause is not None or reason.straggler is not None:
        return None
    if len(episode.abnormal) < (least := params.recent_steps if reason.nobodys else params.settled_steps):
        return None
    begin = newest_run(seen.duration_s, params)
    same = abs(begin - episode.first) <= params.repeats and episode.first > 0
    return episode.first if same and len(seen) - begin >= least else None


def _is_usual_now(finding: Finding) -> bool:
    """Say whether a finding is of steps that became slow, and are usual now."""
    return finding.baseline.usual_since is not None


def _usual_now(finding: Finding, seen: Steps, begin: int) -> Finding:
    """Say that what was slow is usual now, and no step since is slow for that.

    What is nobody's fault stays open while earlier steps are known that later ones might be compared with.
    """
    since = int(seen.step[begin])
    end = min(begin + 1, len(seen) - 1)
    return replace(
        finding,
        status="open" if finding.severity == "info" else "closed",
        summary=f"{finding.summary.removesuffix('.')}. Since step {since} that is usual.",
        last_step=int(seen.step[end]),
        end_ns=int(seen.end_ns[end]),
        evidence={**finding.evidence, "usual_since": since},
        baseline=replace(finding.baseline, usual_since=since),
    )


#: The standard deviation of a median over that of a mean, of normal data: sqrt(pi / 2).
MEDIAN_SPREAD = robust.MEAN_AD_TO_SD


@dataclass(frozen=True, slots=True)
class _Compared:
    """Steps compared with healthy ones, one row each: slow or not, the expected duration in seconds, the score."""

    steps: Steps
    slow: Bool
    expected: Float64
    score: Float64


def _compare(seen: Steps, going: Finding | None, params: DiagnoseParams) -> _Compared:
    """Compare each step with the healthy ones just before it, and the last few with those of long ago.

    What gets slower bit by bit is never far from what was just before: it shows against the oldest steps known.
    """
    duration = seen.duration_s
    healthy: deque[float] = deque(maxlen=params.settled_steps)
    # The first steps have none before them: the middle of the first few serves them all.
    start = duration if going is None else duration[seen.step < going.first_step]
    healthy.extend(np.sort(start[: params.judged_steps]).tolist())
    warm_up = len(healthy)
    if not healthy and going is not None:
        healthy.append(going.expected)
    oldest = _spread_about(start[: params.settled_steps] if len(start) else np.array(healthy), params)
    recent = trailing_low_median(duration, params.recent_steps)
    slow = np.zeros(len(seen), dtype=bool)
    expected, score = np.empty(len(seen)), np.zeros(len(seen))
    for row, value in enumerate(duration):
        usual, spread = _spread_about(np.array(healthy), params)
        expected[row], score[row] = usual, (value - usual) / spread
        slow[row] = score[row] > params.min_score and value > (1 + params.notable) * usual
        if row >= params.settled_steps and not slow[row]:
            slow[row] = _drifted(value, recent[row], oldest, params)
            if slow[row]:
                expected[row], score[row] = oldest[0], (recent[row] - oldest[0]) / oldest[1]
        if row >= warm_up and not slow[row]:
            healthy.append(float(value))
    return _Compared(seen, slow, expected, score)


def _spread_about(healthy: Float64, params: DiagnoseParams) -> tuple[float, float]:
    """Return the median of healthy durations and the spread about it, no less than jitter."""
    usual = float(np.median(healthy))
    # `robust.mad`, of values none of which is missing and whose median is known: this is done for every step.
    spread = robust.MAD_TO_SD * float(np.median(np.abs(healthy - usual)))
    return usual, max(spread, params.compute_jitter * usual)


def _drifted(value: float, recent: float, oldest: tuple[float, float], params: DiagnoseParams) -> bool:
    """Say whether a step and the last few before it are longer than the oldest ones, by less than one alone would show.

    The median of n steps spreads 1.25 / sqrt(n) as wide as one of them.
    """
    usual, spread = oldest
    surprising = recent - usual > params.min_score * MEDIAN_SPREAD * spread / np.sqrt(params.recent_steps)
    return bool(
        surprising and recent > (1 + params.small_excess) * usual and value > (1 + params.small_excess / 2) * usual
    )


def _first_steps(seen: Steps, told: Sequence[Episode], going: Finding | None, params: DiagnoseParams) -> list[int]:
    """Return the first step of each episode; the first one that continues the open finding begins where that did."""
    first_steps = [int(seen.step[episode.first]) for episode in told]
    for row, episode in enumerate(told):
        if going is not None and continues(going, first_steps[row], int(seen.step[episode.last]), params):
            first_steps[row] = going.first_step
            break
    return first_steps


def _describe(context: _Context, compared: _Compared, episode: Episode, reason: _Reason, first_step: int) -> Finding:
    """Put an episode into words and numbers."""
    job, topology, params = context.job, context.topology, context.params
    span = slice(episode.first, episode.last + 1)
    seen, expected = compared.steps, compared.expected
    last = int(seen.step[episode.last])
    cause, blamed, nobodys = reason.cause, reason.straggler, reason.nobodys
    duration = seen.duration_s
    bad = list(episode.abnormal)
    usual = float(np.median(expected[bad]))
    observed = float(np.median(duration[bad]))
    stands_for = np.diff(seen.step[span], append=last + 1)
    lost_s = float(stands_for @ np.maximum(duration[span] - expected[span], 0))
    slowdown = 0.0 if nobodys else lost_s / max(float(stands_for @ duration[span]), params.severity_steps * usual)
    last_ready, times = most_frequent(seen.slowest[bad])
    otherwise = _nobody(context.peers, params.work.min_peers) if cause is None else cause.summary
    otherwise = _OTHER_WORK if nobodys else otherwise
    who = otherwise if blamed is None else blamed.sentence(topology)
    evidence: dict[str, object] = {
        "durations_s": np.round(duration[span], 6).tolist()[:EVIDENCE_ROWS],
        "expected_s": round(usual, 6),
        "last_ready": topology.endpoints[last_ready] if times else "",
        "last_ready_share": round(times / len(bad), 4),
        "lost_s": 0.0 if nobodys else round(lost_s, 6),
    }
    if nobodys:
        evidence["nobodys"] = True
    named: Cause | None = None
    if cause is not None:
        named = Cause(cause.kind, cause.subject, cause.may_also_be)
    elif blamed is not None:
        named = Cause("slow_gpu", blamed.name(topology))
    if named is not None:
        others = {"may_also_be": list(named.may_also_be)} if named.may_also_be else {}
        evidence["root_cause"] = {"kind": named.kind, "subject": named.subject, **others}
    is_open = not episode.closed
    return make_finding(
        "slow_step",
        ("job", job.job_id),
        identity(job.job_id, "slow_step", job.job_id, first_step),
        Extent(first_step, last, int(seen.start_ns[episode.first]), int(seen.end_ns[episode.last]), is_open=is_open),
        Measured(observed, usual, float(np.median(compared.score[bad])), slowdown),
        severity(slowdown, params),
        f"{_what(first_step, last, observed, usual)}; {who}",
        evidence,
        about=(topology.endpoints[last_ready],) if times else (),
        cause=named,
        baseline=Baseline(other_work=nobodys),
    )


#: What longer steps are that are nobody's fault.
_OTHER_WORK = (
    "all ranks work longer alike, and none keeps the others waiting: a larger batch, longer sequences, or what they "
    "all share, such as cooling, clocks and the load of their hosts."
)


def _cause(first: int, last: int, causes: Sequence[Finding]) -> Finding | None:
    """Return the cause that lasts through most of the steps `first` to `last`; None where there is none."""

    def shared(cause: Finding) -> int:
        return min(last, cause.last_step) - max(first, cause.first_step) + 1

    longest = max(causes, key=lambda cause: (shared(cause), cause.slowdown), default=None)
    return longest if longest is not None and shared(longest) > 0 else None


def _what(first: int, last: int, observed_s: float, usual_s: float) -> str:
    """Say which steps were slow, and by how much."""
    steps = f"Step {first}" if first == last else f"Steps {first} to {last}"
    return f"{steps} took {observed_s:.3g} s instead of {usual_s:.3g} s (+{observed_s / usual_s - 1:.0%})"


def _nobody(peers: int, min_peers: int) -> str:
    """Say why no GPU is named, and what to do; `peers`, how many ranks the largest role has."""
    if peers >= min_peers:
        return "no single GPU kept the others waiting, look at what they share."
    why = (
        "every rank has a role of its own, so there is no peer to tell any from"
        if peers == 1
        else f"only {peers} ranks have the same role, so none can be told from its peer"
    )
    return f"{why}: check the GPUs and hosts of them all, and what they share."
