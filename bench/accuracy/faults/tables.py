"""Tables beside the measures: by kind and magnitude of fault, by family of healthy runs, and single faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from bench.accuracy.faults.cases import Case
from bench.accuracy.faults.healthy import Heard, Run
from bench.accuracy.faults.measures import Worked
from bench.accuracy.faults.outcome import BEGINS, FaultOutcome
from bench.accuracy.faults.phases import PhaseError
from bench.accuracy.layout import NOTHING, fault, share
from bench.accuracy.report import Cells, Table
from bench.accuracy.rows import ALL, CLEAN

_LONG_NAME = 40

#: Families of jobs whose shape is the difficulty.
_SHAPES = ("replicas-inside", "jobs-side-by-side", "one-gpu-a-server")


def fault_lines(case: Case, one: FaultOutcome) -> list[str]:
    """Write a fault's truth, its alarms, and its findings if an alarm is wrong."""
    told = "".join(f", {told / 60:.1f} of {lost / 60:.1f} told" for lost, told in one.losses)
    error = f", phases {one.phases.mean:.2%} off" if one.phases.mean is not None else ""
    cost = f"{one.share:.1%}, {one.lost_gpu_s / 60:.1f} GPU-min{told}{error}"
    of = f" or {one.alike - 1} more" if one.alike > 1 else ""
    who = one.culprit if len(one.culprit) < _LONG_NAME else f"{one.culprit[:_LONG_NAME]} ff."
    head = f"{case.name}: {one.family}, {one.gpus} GPUs, {who or 'nobody'}{of if one.placed else ''} costs {cost}"
    if one.error:
        return [head, f"    failed: {one.error}"]
    said = one.alarms
    marks = {"found": said.found, "kind": said.kind}
    marks |= {"subject": said.subject, "exact": said.exact} if one.placed else {}
    flaws = [f"not {name}" for name, holds in marks.items() if not holds]
    verdict = ("right" if not flaws else ", ".join(flaws)) if one.is_costly or said.found else "costs little"
    late = "" if said.delay_s is None else f", after {said.delay_s:.0f} s"
    lines = [f"{head}: {verdict}{late}", *(f"    alarm   {text}" for text in said.texts)]
    if flaws or said.wrong:
        lines += [f"    finding {text}" for text in one.findings.texts]
    return lines


def healthy_lines(run: Run, one: Heard) -> list[str]:
    """Write what is wrong about a healthy run: every alarm is."""
    texts = [f"    alarm   WRONG  {alarm.text()}" for alarm in one.alarms]
    error = f", phases {one.phases.mean:.3%} off" if one.phases.mean is not None else ""
    return [f"{run.name}: {one.gpu_hours:.1f} GPU-hours{error}{one.error and ', failed: '}{one.error}", *texts]


def magnitudes_table(worked: Sequence[Worked]) -> Table:
    """Return a row for each kind and magnitude of fault."""
    first = ("fault", "magnitude", "n", "costly", "lost", "recall", "kind", "culprit", "exact")
    header = (*first, "any grade: recall", "culprit", "exact", "alarms wrong")
    rows: list[Cells] = []
    for (kind, magnitude), group in groupby(worked, key=lambda item: (item[0].kind, item[0].magnitude)):
        outcomes = [outcome for _, outcome in group]
        costly = [outcome for outcome in outcomes if outcome.is_costly]
        placed = [outcome for outcome in costly if outcome.placed]
        shares = sorted(outcome.share for outcome in costly)
        rows.append(
            (
                kind,
                f"{magnitude:g}",
                str(len(outcomes)),
                str(len(costly)),
                f"{shares[len(shares) // 2]:+.1%}" if shares else NOTHING,
                _part([one.alarms.found for one in costly]),
                _part([one.alarms.kind for one in costly]),
                _part([one.alarms.subject for one in placed]),
                _part([one.alarms.exact for one in placed]),
                _part([one.findings.found for one in costly]),
                _part([one.findings.subject for one in placed]),
                _part([one.findings.exact for one in placed]),
                str(sum(outcome.alarms.wrong for outcome in outcomes)),
            )
        )
    return Table(header, rows)


def begins_table(worked: Sequence[Worked]) -> Table:
    """Return a row for each time at which faults begin, and each special shape."""
    header = ("slowness begins with", "n", "costly", "recall", "culprit", "exact", "alarms wrong", "phases")
    placed = [outcome for _, outcome in worked if outcome.placed]
    shapes = {name: [one for one in placed if one.family == name] for name in _SHAPES}
    begins = {name: [one for one in placed if one.begins == name] for _, name in BEGINS}
    rows = []
    for name, outcomes in (begins | shapes).items():
        costly = [one for one in outcomes if one.is_costly]
        error = sum((one.phases for one in outcomes), PhaseError())
        rows.append(
            (
                name,
                str(len(outcomes)),
                str(len(costly)),
                _part([one.alarms.found for one in costly]),
                _part([one.alarms.subject for one in costly]),
                _part([one.alarms.exact for one in costly]),
                str(sum(one.alarms.wrong for one in outcomes)),
                fault(error.mean),
            )
        )
    return Table(header, [row for row in rows if row[1] != "0"])


def healthy_table(heard: Sequence[tuple[Run, Heard]]) -> Table:
    """Return GPU-hours, false alarms by condition and the error of phases of each family."""
    header = ("healthy runs of", "GPU-hours", "whole records", "all defects", "withdrawn", "phases", "kinds")
    rows = []
    by_family: dict[str, list[tuple[Run, Heard]]] = {}
    for item in heard:
        by_family.setdefault(item[0].family, []).append(item)
    for family, items in (by_family | {"all families": list(heard)}).items():
        runs = [one for _, one in items]
        kinds = Counter(alarm.kind for one in runs for alarm in one.alarms)
        kinds += Counter(one.error for one in runs if one.error)
        rows.append(
            (
                family,
                f"{sum(one.gpu_hours for one in runs):,.1f}",
                *(str(sum(len(one.alarms) for run, one in items if run.condition == c)) for c in (CLEAN, ALL)),
                str(sum(one.withdrawn for one in runs)),
                fault(sum((one.phases for one in runs), PhaseError()).mean),
                ", ".join(f"{times} {kind}" for kind, times in kinds.most_common()),
            )
        )
    return Table(header, rows if heard else [], prose=True)


def _part(flags: Sequence[bool]) -> str:
    return share(sum(flags) / len(flags) if flags else None)
