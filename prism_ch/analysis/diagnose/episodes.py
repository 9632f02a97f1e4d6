"""Episodes: runs of abnormal steps, what they cost, and how findings on them go on in later windows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from prism_ch.model.columns import Float64
from prism_ch.model.finding import Finding
from prism_ch.model.job import Division
from prism_ch.model.params import DiagnoseParams


@dataclass(frozen=True, slots=True)
class Episode:
    """Rows `first` to `last` of a sequence; `abnormal` lists the abnormal ones."""

    first: int
    last: int
    abnormal: tuple[int, ...]
    closed: bool

    def meets(self, other: Episode) -> bool:
        """Whether both have a row in common."""
        return self.first <= other.last and other.first <= self.last


def episodes(abnormal: Sequence[bool], close_after: int) -> list[Episode]:
    """Join abnormal rows into episodes; one is over after `close_after` normal rows in a row."""
    found: list[Episode] = []
    run: list[int] = []
    for row in (row for row, bad in enumerate(abnormal) if bad):
        if run and row - run[-1] > close_after:
            found.append(Episode(run[0], run[-1], tuple(run), closed=True))
            run = []
        run.append(row)
    if run:
        found.append(Episode(run[0], run[-1], tuple(run), closed=len(abnormal) - 1 - run[-1] >= close_after))
    return found


def step_seconds(division: Division) -> Float64:
    """Return the duration of each step but the first, in seconds, float64[k - 1]."""
    return np.diff(division.job_end_ns()) / 1e9


def lost_share(division: Division, episode: Episode, extra_s: float, least_outside: int) -> float:
    """Return the share of the job's time that an episode loses, in 0..1.

    Steps inside it are compared with those outside, if there are `least_outside` of them. Otherwise the share is that
    of `extra_s`, the seconds that a rank loses in a step, which is an upper bound.
    """
    step_s = step_seconds(division)  # entry i is of step i + 1
    inside = np.zeros(division.steps, dtype=bool)
    inside[episode.first : episode.last + 1] = True
    during, outside = step_s[inside[1:]], step_s[~inside[1:]]
    if len(during) and len(outside) >= least_outside:
        return float(np.clip(1 - np.median(outside) / np.median(during), 0, 1))
    return float(np.clip(extra_s / np.median(step_s), 0, 1))


def continues(before: Finding, first_step: int, last_step: int, params: DiagnoseParams) -> bool:
    """Whether an episode from `first_step` to `last_step` meets an open finding or follows it soon."""
    return before.first_step <= last_step and first_step <= before.last_step + params.repeats


def carry_on(
    known: Sequence[Finding], found: Sequence[Finding], first_new_step: int, params: DiagnoseParams
) -> tuple[Finding, ...]:
    """Join the findings of one job with those that were open before.

    A finding on the same subject that continues an open one takes its identity and its beginning. An open one that
    nothing carries on lasts as long as slow steps of which it is the cause, or is closed. What ended before the first
    new step has been published and is left out.
    """
    going = [finding for finding in known if finding.status == "open"]
    kept = []
    for finding in found:
        of_it = (one for one in going if (one.kind, one.subject) == (finding.kind, finding.subject))
        before = next((one for one in of_it if continues(one, finding.first_step, finding.last_step, params)), None)
        if before is not None:
            going.remove(before)
            same = replace(finding, diagnosis_id=before.diagnosis_id, first_step=before.first_step)
            kept.append(replace(same, start_ns=before.start_ns))
        elif finding.last_step + params.repeats >= first_new_step:
            kept.append(finding)
    slowed = {(one.cause.kind, one.cause.subject): one for one in kept if one.cause is not None}
    return (*kept, *(_as_long(finding, slowed.get((finding.kind, finding.subject))) for finding in going))


def _as_long(cause: Finding, slowed: Finding | None) -> Finding:
    """Let a finding last as long as the steps that it slows, or close it."""
    if slowed is None or slowed.last_step <= cause.last_step:
        return replace(cause, status="closed")
    return replace(cause, status=slowed.status, last_step=slowed.last_step, end_ns=slowed.end_ns)


def together(first: Finding, second: Finding) -> bool:
    """Whether two findings on a job have a step in common."""
    return first.first_step <= second.last_step and second.first_step <= first.last_step
