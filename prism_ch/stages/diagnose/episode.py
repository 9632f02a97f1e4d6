"""Episodes: runs of abnormal steps, told apart from single strays and from one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis, DiagnosisKind, Severity


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


def identity(job_id: str, kind: DiagnosisKind, subject: str, begin: int) -> str:
    """Name a finding by what it is about and where it began: working the same flows again finds the same name."""
    return blake2b(f"{job_id}\n{kind}\n{subject}\n{begin}".encode(), digest_size=8).hexdigest()


def continues(before: Diagnosis, first_step: int, last_step: int, params: DiagnoseParams) -> bool:
    """Say whether an episode from `first_step` to `last_step` is the same as an open finding, or goes on from it."""
    return before.first_step <= last_step and first_step <= before.last_step + params.close_after_steps


def carry_on(
    known: Sequence[Diagnosis], found: Sequence[Diagnosis], first_new_step: int, params: DiagnoseParams
) -> tuple[Diagnosis, ...]:
    """Join what was found now with the findings of one job that were open before.

    A finding on the same subject that begins where an open one could go on takes its identity and its beginning. An
    open one that nothing carries on is closed. What ended before the first new step was said before and is left out.
    """
    going = {(finding.kind, finding.subject): finding for finding in known if finding.status == "open"}
    said = []
    for finding in found:
        before = going.get((finding.kind, finding.subject))
        if before is not None and continues(before, finding.first_step, finding.last_step, params):
            del going[finding.kind, finding.subject]
            said.append(
                replace(
                    finding,
                    diagnosis_id=before.diagnosis_id,
                    first_step=before.first_step,
                    start_ns=before.start_ns,
                )
            )
        elif finding.last_step + params.close_after_steps >= first_new_step:
            said.append(finding)
    return (*said, *(replace(finding, status="closed") for finding in going.values()))


def below_slow_steps(found: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Grade slow groups as information where slow steps of the job at the same time say the same.

    Whoever is late, group or GPU, the collectives that wait for it take long: the slow step is the finding, and which
    of its groups took long is a hint.
    """
    steps = [finding for finding in found if finding.kind == "slow_step"]
    return tuple(
        replace(finding, severity="info")
        if finding.kind == "slow_group"
        and any(s.first_step <= finding.last_step and finding.first_step <= s.last_step for s in steps)
        else finding
        for finding in found
    )


def severity(slowdown: float, params: DiagnoseParams) -> Severity:
    """Grade the lost share of the job's time."""
    if slowdown >= params.critical_slowdown:
        return "critical"
    return "warning" if slowdown >= params.warning_slowdown else "info"
