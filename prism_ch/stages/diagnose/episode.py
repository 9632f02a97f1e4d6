"""Episodes: runs of abnormal steps, told apart from single strays and from one another."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from prism_ch.model.params import DiagnoseParams
from prism_ch.model.result import Diagnosis, DiagnosisKind, Severity

#: Kinds that blame a part of the network.
_OF_NETWORK = ("slow_nic", "slow_link", "slow_switch")


@dataclass(frozen=True, slots=True)
class Episode:
    """Rows `first` to `last`, inclusive, of a sequence; `abnormal` are the rows that are, `closed` says it is over."""

    first: int
    last: int
    abnormal: tuple[int, ...]
    closed: bool


@dataclass(frozen=True, slots=True)
class Place:
    """Where one life of a job is looked at: the number of the division's first step, and by which parameters.

    `begins` says that the division begins where the life does.
    """

    job_id: str
    first_step: int
    params: DiagnoseParams
    begins: bool = True

    def grade(self, slowdown: float) -> Severity:
        """Grade the lost share of the job's time."""
        return severity(slowdown, self.params)


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
        elif finding.last_step + params.close_after_steps >= first_new_step:
            said.append(finding)
    return (*said, *(replace(finding, status="closed") for finding in going))


def one_alarm(found: Sequence[Diagnosis], switches: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Leave one alarm for what slows a job at one time, and grade what else says the same as information.

    Parameters: `found`, of the job; `switches`, what it says of switches.
    What is slow in the network is the alarm, and the steps that it slows are its symptom. Else the slow steps are the
    alarm, which name the GPU to blame where it is known: whoever is late, the groups that wait for it take long, and
    are a symptom in the alarm's evidence.
    """
    network = [*switches, *(finding for finding in found if finding.kind in _OF_NETWORK)]
    steps = [finding for finding in found if finding.kind == "slow_step"]
    above = {"slow_step": network, "slow_group": steps, "slow_gpu": steps}
    graded = [
        replace(finding, severity="info")
        if any(together(finding, alarm) and alarm.severity != "info" for alarm in above.get(finding.kind, ()))
        or (finding.kind == "slow_group" and any(together(finding, step) for step in steps))
        else finding
        for finding in found
    ]
    return _with_symptoms(graded)


def _with_symptoms(found: Sequence[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Put slow groups, which wait for a GPU to blame, into the evidence of the slow steps that name it."""
    blaming = [finding for finding in found if finding.kind == "slow_step" and _blames_gpu(finding)]
    waiting = [one for one in found if one.kind == "slow_group" and any(together(one, step) for step in blaming)]
    return tuple(
        replace(finding, evidence=_with_groups(finding, waiting)) if finding in blaming else finding
        for finding in found
        if finding not in waiting
    )


def _blames_gpu(finding: Diagnosis) -> bool:
    """Say whether a finding's evidence names a GPU as the root cause."""
    cause = json.loads(finding.evidence).get("root_cause", {})
    return bool(cause.get("kind") == "slow_gpu")


def _with_groups(step: Diagnosis, waiting: Sequence[Diagnosis]) -> str:
    """Return the evidence of slow steps with the groups that wait at the same time."""
    groups = [group.subject for group in waiting if together(group, step)]
    return json.dumps(json.loads(step.evidence) | {"slow_groups": groups})


def together(first: Diagnosis, second: Diagnosis) -> bool:
    """Say whether two findings on a job have a step in common."""
    return first.first_step <= second.last_step and second.first_step <= first.last_step


def severity(slowdown: float, params: DiagnoseParams) -> Severity:
    """Grade the lost share of the job's time."""
    if slowdown >= params.critical_slowdown:
        return "critical"
    return "warning" if slowdown >= params.warning_slowdown else "info"
