"""Episodes: runs of abnormal steps, told apart from single strays and from one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from prism_ch.model.finding import Finding
from prism_ch.model.params import DiagnoseParams


@dataclass(frozen=True, slots=True)
class Episode:
    """Rows `first` to `last`, inclusive, of a sequence; `abnormal` are the rows that are, `closed` says it is over."""

    first: int
    last: int
    abnormal: tuple[int, ...]
    closed: bool


def episodes(abnormal: Sequence[bool], close_after: int) -> list[Episode]:
    """Join abnormal rows into episodes; one is over after `close_after` normal rows in a row."""
    found: list[Episode] = []
    rows = [row for row, bad in enumerate(abnormal) if bad]
    run: list[int] = []
    for row in rows:
        if run and row - run[-1] > close_after:
            found.append(Episode(run[0], run[-1], tuple(run), closed=True))
            run = []
        run.append(row)
    if run:
        found.append(Episode(run[0], run[-1], tuple(run), closed=len(abnormal) - 1 - run[-1] >= close_after))
    return found


def continues(before: Finding, first_step: int, last_step: int, params: DiagnoseParams) -> bool:
    """Say whether an episode from `first_step` to `last_step` is the same as an open finding, or goes on from it."""
    return before.first_step <= last_step and first_step <= before.last_step + params.repeats


def carry_on(
    known: Sequence[Finding], found: Sequence[Finding], first_new_step: int, params: DiagnoseParams
) -> tuple[Finding, ...]:
    """Join what was found now with the findings of one job that were open before.

    A finding on the same subject that begins where an open one could go on takes its identity and its beginning. An
    open one that nothing carries on is closed. What ended before the first new step was said before and is left out.
    """
    going = [finding for finding in known if finding.status == "open"]
    said = []
    for finding in found:
        of_it = (one for one in going if (one.kind, one.subject) == (finding.kind, finding.subject))
        before = next((one for one in of_it if continues(one, finding.first_step, finding.last_step, params)), None)
        if before is not None:
            going.remove(before)
            said.append(
                replace(
                    finding,
                    diagnosis_id=before.diagnosis_id,
                    first_step=before.first_step,
                    start_ns=before.start_ns,
                )
            )
        elif finding.last_step + params.repeats >= first_new_step:
            said.append(finding)
    return (*said, *(replace(finding, status="closed") for finding in going))


def together(first: Finding, second: Finding) -> bool:
    """Say whether two findings on a job have a step in common."""
    return first.first_step <= second.last_step and second.first_step <= first.last_step
