"""Slow steps: steps that last longer than the job's own healthy ones (LLMPrism, section V-A)."""

from __future__ import annotations

import json
from collections import deque

import numpy as np
from scipy import special

from prism_ch.core import robust
from prism_ch.model.columns import Bool, Float64, Int32
from prism_ch.model.jobset import RecognisedJob
from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis, Steps
from prism_ch.model.topology import Topology
from prism_ch.stages.diagnose.episode import Episode, continues, episodes, identity, severity


def find_slow_steps(
    job: RecognisedJob, steps: Steps, known: tuple[Diagnosis, ...], topology: Topology, params: DiagnoseParams
) -> tuple[Diagnosis, ...]:
    """Find the episodes of slow steps in a job's history.

    Parameters: `steps`, in order, the newest steps known of before and the new ones; `known`, the findings open so
    far: one of them keeps its identity and its baseline however far back it began. Each step is compared with the
    healthy steps before it, so what is found does not depend on where the data were cut. Steps whose beginning was
    not seen are left out.
    """
    seen = steps.take(steps.complete == 1)
    if len(seen) < params.min_baseline_steps:
        return ()
    going = next((finding for finding in known if finding.kind == "slow_step" and finding.status == "open"), None)
    slow, expected, score = _compare(seen, going, params)
    found = []
    for episode in episodes(slow.tolist(), params.close_after_steps):
        first, last = int(seen.step[episode.first]), int(seen.step[episode.last])
        begin = going.first_step if going is not None and continues(going, first, last, params) else first
        found.append(_describe(job, seen, episode, begin, expected, score, topology, params))
    return tuple(found)


def _compare(seen: Steps, going: Diagnosis | None, params: DiagnoseParams) -> tuple[Bool, Float64, Float64]:
    """Compare each step with the healthy ones before it: slow or not, the expected duration, the score."""
    duration = seen.duration_s
    healthy: deque[float] = deque(maxlen=params.baseline_steps)
    # The first steps have none before them: the middle of the first few serves them all.
    start = duration if going is None else duration[seen.step < going.first_step]
    healthy.extend(np.sort(start[: params.min_baseline_steps]).tolist())
    warm_up = len(healthy)
    if not healthy and going is not None:
        healthy.append(going.expected)
    slow = np.zeros(len(seen), dtype=bool)
    expected, score = np.empty(len(seen)), np.zeros(len(seen))
    for row, value in enumerate(duration):
        usual = float(np.median(healthy))
        spread = max(float(robust.mad(list(healthy))), params.jitter_floor * usual)
        expected[row], score[row] = usual, (value - usual) / spread
        slow[row] = score[row] > params.min_score and value > (1 + params.min_excess) * usual
        if row >= warm_up and not slow[row]:
            healthy.append(float(value))
    return slow, expected, score


def _describe(
    job: RecognisedJob,
    seen: Steps,
    episode: Episode,
    begin: int,
    expected: Float64,
    score: Float64,
    topology: Topology,
    params: DiagnoseParams,
) -> Diagnosis:
    """Put an episode into words and numbers."""
    span = slice(episode.first, episode.last + 1)
    duration = seen.duration_s
    bad = list(episode.abnormal)
    usual = float(np.median(expected[bad]))
    observed = float(np.median(duration[bad]))
    lost_s = float(np.maximum(duration[span] - expected[span], 0).sum())
    slowdown = lost_s / max(float(duration[span].sum()), params.severity_steps * usual)
    culprit, times = _most_frequent(seen.slowest[bad])
    waited_for = _who(seen.slowest[bad], len(job.endpoints), topology, params)
    evidence = {
        "durations_s": np.round(duration[span], 6).tolist()[: params.evidence_rows],
        "expected_s": round(usual, 6),
        "last_ready": topology.endpoints[culprit] if times else "",
        "last_ready_share": round(times / len(bad), 4),
        "lost_s": round(lost_s, 6),
    }
    first, last = begin, int(seen.step[episode.last])
    return Diagnosis(
        diagnosis_id=identity(job.job_id, "slow_step", job.job_id, first),
        kind="slow_step",
        subject_type="job",
        subject=job.job_id,
        first_step=first,
        last_step=last,
        start_ns=int(seen.start_ns[episode.first]),
        end_ns=int(seen.end_ns[episode.last]),
        status="closed" if episode.closed else "open",
        severity=severity(slowdown, params),
        observed=observed,
        expected=usual,
        score=float(np.median(score[bad])),
        slowdown=slowdown,
        summary=f"{_what(first, last, observed, usual)}; {waited_for}",
        evidence=json.dumps(evidence),
    )


def _what(first: int, last: int, observed_s: float, usual_s: float) -> str:
    """Say which steps were slow, and by how much."""
    steps = f"Step {first}" if first == last else f"Steps {first} to {last}"
    return f"{steps} took {observed_s:.3g} s instead of {usual_s:.3g} s (+{observed_s / usual_s - 1:.0%})"


def _who(last_ready: Int32, endpoints: int, topology: Topology, params: DiagnoseParams) -> str:
    """Say who was waited for, where it is one GPU, and what to do; `last_ready`, an endpoint a slow step.

    One of the job's `endpoints` is last in every step. A GPU is named where chance would hardly make it so often.
    """
    culprit, times, count = *_most_frequent(last_ready), len(last_ready)
    by_chance = float(special.bdtrc(times - 1, count, 1 / endpoints)) * endpoints
    if times < params.min_culprit_share * count or by_chance > params.max_culprit_chance:
        return "no single GPU kept the others waiting, look at what they share."
    place = f"{topology.server_names[topology.server[culprit]]}, GPU {topology.gpu[culprit]}"
    return (
        f"the others waited for {topology.endpoints[culprit]} ({place}), last to be ready in {times} of {count} slow "
        "steps: check that GPU and its host."
    )


def _most_frequent(endpoints: Int32) -> tuple[int, int]:
    """Return the endpoint that occurs most often, and how often; one that has left the topology (-1) does not count."""
    times = np.bincount(endpoints[endpoints >= 0], minlength=1)
    return int(np.argmax(times)), int(times.max())
